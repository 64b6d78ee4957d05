//! Tests the lexer with real and with hostile shell text.

use super::*;

fn tool_names(text: &str) -> String {
    let script = read(text);
    tools(text, &script).iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_a_check_calls_is_named_once_per_call() {
    for (text, expected) in [
        ("uv run pytest tests/ -x", "uv"),
        ("test -f a.md && test \"$(wc -l < a.md)\" -gt 10", "wc"),
        ("gh pr view --json state -q '.state' | grep -q OPEN", "gh grep"),
        ("! grep -r \"import requests\" src/ && uv run pytest", "grep uv"),
        ("A=1 B=$(date) make check", "date make"),
        ("if cargo test; then echo ok; else exit 1; fi", "cargo"),
        ("for f in *.py; do python \"$f\"; done", "python"),
        ("timeout -k 5 30 env -u X FOO=1 node a.js", "timeout env node"),
        ("find . -name '*.rs' | xargs -n 1 rustfmt --check", "find xargs rustfmt"),
        ("bash -c 'jq . x.json | head -1'", "bash jq head"),
        ("\"$TOOL\" run && ${X} y", ""),
        ("check() { curl -f \"$1\"; }; check http://x", "curl"),
        ("cat <<EOF\nrm everything\nEOF\nls", "cat ls"),
        ("x=`git status`; [[ $x == *b && -n $(id) ]] || exit 1", "git id"),
        ("diff <(sort a) <(sort b)", "sort sort diff"),
        ("case $x in a|b) make a;; *) ninja b;; esac", "make ninja"),
        ("./scripts/run.sh && scripts/x", ""),
        ("# pytest\ntrue # cargo", ""),
        ("echo 'curl x' \"wget y\" ; (cd sub && npm test)", "npm"),
        ("a=(one two); printf '%s' \"${a[@]}\"; command -v jq", ""),
        ("(( x > 1 )) && tr a b < f > g 2>&1", "tr"),
        ("sudo -u me nohup time nice -n 5 rg x", "sudo nohup nice rg"),
    ] {
        assert_eq!(tool_names(text), expected, "{text}");
    }
}

#[test]
fn files_are_literal_relative_paths() {
    for (text, expected) in [
        ("test -f docs/a-423.md && test \"$(wc -l < docs/a-423.md)\" -gt 10", "docs/a-423.md"),
        ("./check.sh --config=conf/x.toml $OUT/y.txt /etc/passwd ../up.txt", "check.sh conf/x.toml"),
        ("uv run pytest tests/ -x", "tests"),
        ("grep -q 'a b/c.d' 'my file.txt' README.md", "README.md"),
        ("curl https://example.org/a.html -o out.html", "out.html"),
        ("echo 1.5 a,b x/*.rs", ""),
    ] {
        assert_eq!(named_files(text).join(" "), expected, "{text}");
    }
}

#[test]
fn the_outermost_list_is_known_with_its_operators() {
    let text = "a && b || c | d; if e; then f; fi && g &\nh";
    let joins: Vec<_> = read(text).top().map(|c| (text[c.start..].chars().next(), c.then)).collect();
    let joins = format!("{joins:?}");
    assert_eq!(
        joins,
        "[(Some('a'), And), (Some('b'), Or), (Some('c'), Pipe), (Some('d'), Next), (Some(' '), And), \
         (Some('g'), Background), (Some('h'), End)]"
    );
}

#[test]
fn placeholders_are_not_redirections() {
    for (text, expected) in [
        ("az show --name <app-name> -o tsv", 1),
        ("curl http://<your host>/x", 1),
        ("sort <in >out", 0),
        ("grep '<title>' a.html", 0),
        ("cat <<EOF\n<x>\nEOF", 0),
        ("diff <(a) <(b)", 0),
    ] {
        assert_eq!(read(text).placeholders.len(), expected, "{text}");
    }
}

#[test]
fn hostile_text_ends() {
    for seed in [
        "$(",
        "`",
        "((",
        "${",
        "<<a\n",
        "case x in ",
        "\"",
        "'",
        "if ",
        "{",
        "a() ",
        "[[ ",
        "\\",
        "<(",
        ")",
        "a=(",
    ] {
        let text = seed.repeat(20_000);
        let script = read(&text);
        let _ = (tools(&text, &script).len(), named_files(&text).len());
    }
}
