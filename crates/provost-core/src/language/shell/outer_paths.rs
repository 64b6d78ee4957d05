//! Finds the paths that a script uses and that may be outside of the workspace: absolute ones, and `../x`.
//!
//! A check sees little of the machine, so a path that it cannot see must not count as absent. This module
//! finds the paths a text names: words of commands, targets of redirections, lists of loops, and in code
//! (`python3 -c`, here-documents, scripts in other languages) the arguments of functions that read files.
//! Plain text is left out: patterns of `grep`, words of `echo`, both sides of a comparison, comments.

use std::collections::HashSet;

use super::{ShellCommand, ShellScript, Word, WrappedCommand, is_assignment, read, wrapped};

/// A path that a script names and that may be outside of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterPath {
    /// Its literal part; `~/x` and `$HOME/x` begin with `~`, and a path that leaves the workspace with `..`.
    pub path: String,
    /// Position of the word in the text.
    pub start: usize,
    pub end: usize,
    /// The first command that names it only reads it. Otherwise the script may have created it.
    pub looked_at: bool,
}

/// Programs whose first operand is a pattern or a program text.
const WITH_PATTERN: [&str; 12] =
    ["grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk", "mawk", "perl", "jq", "expr"];
/// Programs that only print their arguments.
const PRINTING: [&str; 3] = ["echo", "printf", ":"];
/// Programs that read the files they are given.
const LOOKING: [&str; 24] = [
    "test",
    "[",
    "[[",
    "ls",
    "stat",
    "cat",
    "head",
    "tail",
    "wc",
    "diff",
    "cmp",
    "find",
    "grep",
    "egrep",
    "rg",
    "du",
    "file",
    "readlink",
    "sha256sum",
    "md5sum",
    "cksum",
    "sort",
    "jq",
    "awk",
];
/// Programs that test a file and do not list what is in a folder.
const TESTING: [&str; 3] = ["test", "[", "[["];
/// Folders that every machine has, and every check of its own.
const EVERYWHERE: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Functions of other languages that read a file, each with the bracket that opens its arguments.
const FUNCTIONS: [&str; 24] = [
    "exists(",
    "lexists(",
    "isfile(",
    "isdir(",
    "islink(",
    "access(",
    "open(",
    "stat(",
    "lstat(",
    "listdir(",
    "scandir(",
    "getsize(",
    "glob(",
    "iglob(",
    "walk(",
    "read_csv(",
    "existsSync(",
    "statSync(",
    "lstatSync(",
    "accessSync(",
    "readFileSync(",
    "readdirSync(",
    "exist?(",
    "file?(",
];
/// Methods of path objects that read a file.
const METHODS: [&str; 8] =
    [".exists(", ".is_", ".read_", ".open(", ".stat(", ".iterdir(", ".glob(", ".rglob("];

/// Programs that change the current folder of the script.
const CHANGING: [&str; 2] = ["cd", "pushd"];

/// Returns every such path that the script names, in the order of the text.
pub fn outer_paths(text: &str) -> Vec<OuterPath> {
    let script = read(text);
    let mut found = Vec::new();
    for command in &script.commands {
        of_command(text, &script, command, &mut found);
    }
    let in_commands = script.commands.iter().flat_map(|command| script.words_of(command));
    let in_commands: HashSet<usize> = in_commands.map(|word| word.start).collect();
    let others = script.words.iter().filter(|word| !in_commands.contains(&word.start));
    for word in others.chain(&script.listed) {
        of_word(text, word, false, &mut found);
    }
    for (start, end) in &script.documents {
        in_code(text.get(*start..*end).unwrap_or(""), *start, &mut found);
    }
    found.sort_by_key(|path| path.start);
    let mut found = from_where_it_is(text, &script, found);
    // If an earlier command names the path without reading it, the script may have created it.
    for at in 1..found.len() {
        let path = &found[at].path;
        let is_made = found[..at].iter().any(|before| !before.looked_at && is_within(path, &before.path));
        found[at].looked_at &= !is_made;
    }
    found
}

/// Resolves paths that go up, from the top of the workspace or from a folder that the script changed to.
fn from_where_it_is(text: &str, script: &ShellScript, found: Vec<OuterPath>) -> Vec<OuterPath> {
    let changes = script.commands.iter().filter_map(|command| {
        let (name, rest) = script.words_of(command).split_first()?;
        let target = rest.iter().find(|word| !word.raw(text).starts_with('-'));
        let at = target.map_or(name.start, |word| word.start);
        CHANGING.contains(&name.raw(text)).then(|| (at, target.and_then(|word| word.literal(text))))
    });
    let changes: Vec<_> = changes.collect();
    let mut all = Vec::new();
    for path in found {
        let before: Vec<_> = changes.iter().take_while(|(at, _)| *at < path.start).collect();
        if !path.path.starts_with("..") {
            all.push(path);
        } else if before.is_empty() {
            // `..` alone says little, unless the script changes to it or reads it.
            let goes = changes.first().is_some_and(|(at, _)| *at == path.start);
            if path.path != ".." || path.looked_at || goes {
                all.push(path);
            }
        } else if path.path != ".." {
            let here: Option<Vec<&str>> = before.iter().map(|(_, target)| target.as_deref()).collect();
            let there = here.map(|here| climbing(&format!("{}/{}", here.join("/"), path.path)));
            let there = there.flatten().filter(|there| *there != path.path && there != "..");
            all.extend(there.map(|there| OuterPath { path: there, ..path.clone() }));
            all.push(path);
        }
    }
    all
}

/// Simplifies a relative path; `None` unless it leads out of its starting folder.
fn climbing(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => _ = parts.pop(),
            (part, _) => parts.push(part),
        }
    }
    (parts.first() == Some(&"..")).then(|| parts.join("/"))
}

/// The same for a program text in another language.
pub fn outer_paths_in_code(text: &str) -> Vec<OuterPath> {
    let mut found = Vec::new();
    in_code(text, 0, &mut found);
    found
}

fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn of_command(text: &str, script: &ShellScript, command: &ShellCommand, found: &mut Vec<OuterPath>) {
    let mut words = script.words_of(command);
    let mut name = String::new();
    while let Some((first, rest)) = words.split_first() {
        if is_assignment(first.raw(text)) {
            of_word(text, first, false, found);
            words = rest;
            continue;
        }
        of_word(text, first, false, found);
        // The lexer reads a second bracket as a pattern.
        let literal = first.literal(text).map(|name| name.into_owned());
        name = literal.unwrap_or_else(|| first.raw(text).to_owned());
        match wrapped(&name, text, rest) {
            WrappedCommand::Command(inner) => words = inner,
            WrappedCommand::Script(inner) => {
                let source = inner.literal(text).map(|source| source.into_owned()).unwrap_or_default();
                let nested = outer_paths(&source).into_iter();
                found.extend(nested.map(|path| OuterPath { start: inner.start, end: inner.end, ..path }));
                return;
            }
            WrappedCommand::Nothing => {
                words = rest;
                break;
            }
        }
    }
    let name = name.rsplit('/').next().unwrap_or("").to_owned();
    if PRINTING.contains(&name.as_str()) {
        return;
    }
    let looks = LOOKING.contains(&name.as_str());
    let is_everywhere = |word: &Word| {
        TESTING.contains(&name.as_str())
            && word.literal(text).is_some_and(|path| EVERYWHERE.contains(&path.trim_end_matches('/')))
    };
    let pattern = WITH_PATTERN.contains(&name.as_str()).then(|| pattern_of(text, words)).flatten();
    for (at, word) in words.iter().enumerate() {
        let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|at| words.get(at));
        let compares = |other: &Word| matches!(other.raw(text), "=" | "==" | "!=" | "=~" | "-eq" | "-ne");
        if pattern == Some(at) || is_everywhere(word) || beside.into_iter().any(compares) {
            continue;
        }
        of_word(text, word, looks, found);
    }
}

/// Returns the index of the word that is a pattern.
fn pattern_of(text: &str, words: &[Word]) -> Option<usize> {
    let given = words.iter().position(|word| matches!(word.raw(text), "-e" | "--regexp" | "--expression"));
    if let Some(at) = given {
        return Some(at + 1);
    }
    if words.iter().any(|word| matches!(word.raw(text), "-f" | "--file")) {
        return None;
    }
    words.iter().position(|word| !word.raw(text).starts_with('-'))
}

/// Handles a word that is a path, has one after `=`, is a list of paths, or is code.
fn of_word(text: &str, word: &Word, looked_at: bool, found: &mut Vec<OuterPath>) {
    let raw = word.raw(text);
    let is_code = word.quoted && raw.contains('(') && raw.len() > 8;
    if is_code {
        return in_code_at(raw, (word.start, word.end), found);
    }
    let plain: String = raw.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
    let value = match plain.split_once('=') {
        Some((option, value)) if option.starts_with('-') || is_assignment(&plain) || option == "of" => value,
        _ => plain.as_str(),
    };
    for part in value.split(':') {
        if let Some(path) = literal_part(part) {
            found.push(OuterPath { path, start: word.start, end: word.end, looked_at });
        }
    }
}

/// Returns the part of the path that is known before run time.
fn literal_part(value: &str) -> Option<String> {
    let value = match value.strip_prefix("${HOME}").or_else(|| value.strip_prefix("$HOME")) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => value.to_owned(),
    };
    let value = value.strip_prefix("${PWD}/").or_else(|| value.strip_prefix("$PWD/")).unwrap_or(&value);
    let is_relative = !(value.starts_with('/') || value.starts_with("~/"));
    if value.starts_with("//") || is_relative && !value.contains("..") {
        return None;
    }
    let ends =
        |c: char| matches!(c, '$' | '`' | '*' | '?' | '[' | '{' | '\\' | ' ' | '\n' | '\t' | ';' | '|');
    let literal = match value.find(ends) {
        Some(at) => value[..at].rsplit_once('/').map_or("", |(folder, _)| folder),
        None => value,
    };
    if is_relative {
        return climbing(literal);
    }
    let literal = literal.trim_end_matches('/');
    (literal.len() > 1).then(|| literal.to_owned())
}

fn in_code(text: &str, offset: usize, found: &mut Vec<OuterPath>) {
    for (start, end, path) in looked_at_in_code(text) {
        found.push(OuterPath { path, start: offset + start, end: offset + end, looked_at: true });
    }
}

/// Reads code inside a shell word. Everything found in it gets the position of the word.
fn in_code_at(raw: &str, (start, end): (usize, usize), found: &mut Vec<OuterPath>) {
    for (_, _, path) in looked_at_in_code(raw) {
        found.push(OuterPath { path, start, end, looked_at: true });
    }
}

/// Returns quoted texts that begin with `/` or `../` and are arguments of a function that reads files.
fn looked_at_in_code(text: &str) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('/') {
        let at = if text[..at].ends_with("..") { at - 2 } else { at };
        let before = &text[..at];
        // `"/x"`, `\"/x\"` inside double quotes of the shell, `r"/x"`.
        let Some(quote) = before.chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`')) else {
            continue;
        };
        let before = before.trim_end_matches(quote).trim_end_matches('\\');
        let before = before.trim_end_matches(['r', 'b', 'f', 'u']).trim_end();
        let rest = &text[at..];
        let end = rest.find(['"', '\'', '`', '\n']).unwrap_or(rest.len());
        let after = rest[end..].trim_start_matches(['\\', quote]).trim_start();
        let asked =
            after.strip_prefix(')').is_some_and(|after| METHODS.iter().any(|way| after.starts_with(way)));
        if !asked && !FUNCTIONS.iter().any(|function| before.ends_with(function)) {
            continue;
        }
        if let Some(path) = literal_part(rest[..end].trim_end_matches('\\')) {
            found.push((at, at + end, path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{outer_paths, outer_paths_in_code};

    /// Returns the paths, with `?` after those that are only read.
    fn named(text: &str) -> String {
        let found = outer_paths(text).into_iter();
        let words = found.map(|path| format!("{}{}", path.path, if path.looked_at { "?" } else { "" }));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_path_that_a_command_is_given_is_found() {
        for (text, expected) in [
            ("test ! -e /opt/old/secret", "/opt/old/secret?"),
            ("[ ! -d /data ] && [[ -f /srv/x ]]", "/data? /srv/x?"),
            ("! ls /data/*.csv", "/data?"),
            ("test -d /tmp && test ! -e /tmp/$name && ! find /tmp -name old", "/tmp? /tmp?"),
            ("for f in /data/a /data/b; do test -e \"$f\"; done", "/data/a /data/b"),
            ("files=(/data/a); cat \"${files[@]}\"", "/data/a"),
            ("DIR=/opt/x; test -e $DIR/y", "/opt/x"),
            ("tool --input=/data/in.csv < /data/other", "/data/in.csv /data/other"),
            ("PATH=/opt/a/bin:/opt/b/bin:$PATH make", "/opt/a/bin /opt/b/bin"),
            ("bash -c 'test -e /opt/x'", "/opt/x?"),
            ("python3 -c \"import os; assert not os.path.exists('/opt/old')\"", "/opt/old?"),
            ("python3 - <<'E'\nfrom pathlib import Path\nassert Path(\"/data/x\").exists()\nE", "/data/x?"),
            ("node -e 'require(\"fs\").existsSync(\"/opt/x\") || process.exit(1)'", "/opt/x?"),
            ("test ! -e ~/.old && test -f \"$HOME/x\" && ls ${HOME}/y", "~/.old? ~/x? ~/y?"),
            ("test -e \"/data/with blank\"", "/data?"),
            ("/opt/tool/bin/run --check", "/opt/tool/bin/run"),
            ("test ! -e ../out/old && ! ls \"$PWD/../data/\"*", "../out/old? ../data?"),
            ("! find .. -name old; test ! -e a/../../b", "..? ../b?"),
            ("cd ..; test ! -e old", ".."),
            ("cd a/b && test ! -e ../../../c", "../c? ../../../c?"),
            ("python3 -c \"import os; assert not os.path.exists('../old')\"", "../old?"),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_only_text_is_no_path() {
        for text in [
            "grep -q '/var/log' config.toml",
            "grep -rqe /var/log src",
            "sed -n '/opt/p' file",
            "echo /opt/x | ./run",
            "[ \"$(./app --dir)\" = /var/lib/app ]",
            "curl -s http://localhost/opt/x",
            "awk '/opt/ {print}' file",
            "# test -e /opt/x\ntrue",
            "python3 -c \"import app; assert app.DIR == '/var/lib'\"",
            "python3 -c \"assert route('/opt/x') == 3\"",
            "./run a/b/c a/../x //server/share",
            "go test ./... && git log HEAD~1..HEAD && PYTHONPATH=..:. ./run",
            "cd app && make && cd .. && cd lib && make",
            "test -w /tmp && [ -d /dev/shm ] && [[ -d \"/var/tmp/\" ]]",
        ] {
            assert_eq!(named(text), "", "{text}");
        }
    }

    #[test]
    fn what_the_script_makes_itself_is_not_only_looked_at() {
        assert_eq!(named("./run > /tmp/log; grep -q ok /tmp/log"), "/tmp/log /tmp/log");
        assert_eq!(named("mkdir /tmp/d && ./run -o /tmp/d/x && cat /tmp/d/x"), "/tmp/d /tmp/d/x /tmp/d/x");
        assert_eq!(named("test ! -e /tmp/lock"), "/tmp/lock?");
    }

    #[test]
    fn a_program_text_names_what_it_looks_at() {
        let text = "import os\nLOG = '/var/log'\nassert not os.path.isdir('/srv/old')\nopen(r\"/data/x\")\n";
        let found: Vec<String> = outer_paths_in_code(text).into_iter().map(|path| path.path).collect();
        assert_eq!(found, ["/srv/old", "/data/x"]);
    }
}
