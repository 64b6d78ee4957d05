//! Tests `provost init --undo` on files that changed since: before, between and after provost's entries,
//! reformatted, and rewritten by a client.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{files, fixture, init};
use crate::env::{Env, plan};

/// Content of a person that a change adds.
const THEIRS: &str = "zz";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Nothing,
    Before,
    Between,
    After,
    Reformatted,
    Rewritten,
}

const ALL: [Since; 6] =
    [Since::Nothing, Since::Before, Since::Between, Since::After, Since::Reformatted, Since::Rewritten];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Toml,
    Markdown,
    Rules,
    Script,
}

fn format(path: &Path) -> Option<Format> {
    match path.file_name()?.to_str()? {
        "pre-push" => Some(Format::Script),
        "AGENTS.md" => Some(Format::Markdown),
        ".gitignore" | "exclude" => Some(Format::Rules),
        name if name.ends_with(".json") || name.ends_with(".jsonc") => Some(Format::Json),
        "config.toml" => Some(Format::Toml),
        _ => None,
    }
}

fn parsed(text: &str) -> Value {
    let bare = text.trim_start_matches('\u{feff}');
    let parsed = jsonc_parser::parse_to_ast(bare, &Default::default(), &Default::default());
    parsed.expect(text).value.expect(text).into()
}

fn is_strict(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// Changes a file as a person or a client does.
fn changed(text: &str, format: Format, since: Since) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let lines = |text: &str| text.replace('\n', end);
    match (since, format) {
        (Since::Nothing, _) => text.to_owned(),
        (Since::Before, Format::Json) => text.replacen('{', &lines("{\n  \"zzBefore\": 1,"), 1),
        (Since::Between, Format::Json) => [
            ("\"hooks\": {", "\"hooks\": {\n\"zzBetween\": [{\"x\": 1}],"),
            ("\"mcpServers\": {", "\"mcpServers\": { \"zz\": {\"command\": \"x\"},"),
            ("\"mcp\": {", "\"mcp\": { \"zz\": {\"command\": \"x\"},"),
            ("\"Stop\": [", "\"Stop\": [{\"hooks\": [{\"command\": \"zz\"}]},"),
            ("\"allow\": [", "\"allow\": [\"zz\", "),
        ]
        .iter()
        .fold(text.to_owned(), |text, (old, new)| text.replacen(old, &lines(new), 1)),
        (Since::After, Format::Json) => {
            let (inner, rest) = text.split_at(text.rfind('}').expect("an object"));
            let comma = if inner.trim_end().ends_with(',') { "" } else { "," };
            format!("{}{comma} \"zzAfter\": {{ \"x\": [1, 2] }}{end}{rest}", inner.trim_end())
        }
        (Since::Reformatted, Format::Json) => parsed(text).to_string(),
        (Since::Rewritten, Format::Json) => {
            let mut all = Map::from_iter([("zzStarts".to_owned(), json!(3))]);
            all.extend(parsed(text).as_object().expect("an object").clone().into_iter().rev());
            lines(&format!("{:#}\n", Value::Object(all)))
        }
        (Since::Before, Format::Toml) => format!("zz = 1{end}{text}"),
        (Since::Between, Format::Toml) => {
            let (before, after) = text.split_at(text.rfind("[[hooks.Stop]]").expect("a hook"));
            let text = format!("{before}[zz]{end}x = \"[[hooks.Stop]]\"{end}{end}{after}");
            text.replace("startup_timeout_sec = 20", "startup_timeout_sec = 7 # slow machine")
        }
        (Since::After, Format::Toml) => format!("{text}{end}[zz.y]{end}x = [{end}  1,{end}]{end}"),
        (Since::Reformatted, Format::Toml) => {
            let all = text.lines().filter(|line| !line.trim().is_empty());
            all.map(|line| format!("  {}{end}", line.replacen(" = ", "=", 1))).collect()
        }
        (Since::Rewritten, Format::Toml) => {
            let table: toml::Table = text.parse().expect("TOML");
            lines(&toml::to_string_pretty(&table).expect("TOML"))
        }
        (Since::Before, Format::Script) => text.replacen(end, &lines("\nzz=1\n"), 1),
        (Since::Before, _) => format!("# zz{end}{text}"),
        (Since::Between, Format::Markdown) => {
            let heading = "## Plans are checked by provost";
            text.replace(heading, &lines("## Plans are checked by provost\n\nzz: mind this."))
        }
        (Since::Between, _) => text.replacen(&lines("progress*.md\n"), &lines("zz\nprogress*.md\n"), 1),
        (Since::After, _) => format!("{text}{end}# zz{end}"),
        (Since::Reformatted, Format::Markdown) => {
            text.replace("A step is done when", &lines("A step is\ndone when"))
        }
        (Since::Reformatted, _) => text.lines().map(|line| format!("{line} {end}")).collect(),
        (Since::Rewritten, _) => format!("{}{end}", text.trim_end()),
    }
}

/// Returns a text without the content of a change.
fn without_theirs(value: &mut Value) {
    let is_empty = |value: &Value| *value == json!({}) || *value == json!([]);
    match value {
        Value::Object(members) => {
            members.retain(|key, _| !key.starts_with(THEIRS));
            members.values_mut().for_each(without_theirs);
            members.retain(|_, value| !is_empty(value));
        }
        Value::Array(list) => {
            list.retain(|element| !element.to_string().contains("\"zz\""));
            list.iter_mut().for_each(without_theirs);
            list.retain(|value| !is_empty(value));
        }
        _ => {}
    }
}

/// Returns what a file means to its reader, without the content of a change.
fn meaning(text: &str, format: Format) -> Value {
    match format {
        Format::Json => {
            let mut value = if text.trim().is_empty() { json!({}) } else { parsed(text) };
            without_theirs(&mut value);
            // It stays as long as there is something that needs it.
            value.as_object_mut().expect("an object").remove("version");
            value
        }
        Format::Toml => {
            let mut value = serde_json::to_value(text.parse::<toml::Table>().expect(text)).expect("JSON");
            without_theirs(&mut value);
            value
        }
        Format::Markdown | Format::Rules | Format::Script => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains(THEIRS));
            json!(lines.collect::<Vec<_>>())
        }
    }
}

#[test]
fn whatever_was_added_since_stays_and_provosts_entries_go() {
    for ends in ["\n", "\r\n"] {
        for since in ALL {
            let env = fixture();
            env.write(".harness/.gitignore", "mine\n");
            env.write(".git/hooks/pre-push", "#!/bin/sh\necho hello\nexit 0\n");
            for (path, bytes) in files(env.folder()) {
                if format(&path).is_some() {
                    let text = String::from_utf8(bytes).expect("text").replace('\n', ends);
                    std::fs::write(env.folder().join(path), text).expect("a file");
                }
            }
            let before = files(env.folder());
            init(&env, &["--yes", "--agents-md"]).exits(0);
            env.provost(&["init", "--user", "--yes", "--agent", "claude", "--agent", "codex"]).exits(0);
            let (mut touched, mut theirs) = (Vec::new(), Vec::new());
            for (path, bytes) in files(env.folder()) {
                let Some(format) = format(&path).filter(|_| before.get(&path) != Some(&bytes)) else {
                    continue;
                };
                let text = String::from_utf8(bytes).expect("text");
                let plain = text.matches('\n').count() - text.matches("\r\n").count();
                assert!(
                    !before.contains_key(&path) || plain == 0 || ends == "\n",
                    "{}: {text}",
                    path.display()
                );
                let text = changed(&text, format, since);
                if text.contains(THEIRS) {
                    theirs.push(path.clone());
                }
                std::fs::write(env.folder().join(&path), text).expect("a file");
                touched.push((path, format));
            }
            assert!(touched.len() > 10, "{touched:?}");
            env.provost(&["init", "--undo", "--yes"]).exits(0);
            env.provost(&["init", "--user", "--undo", "--yes"]).exits(0);
            let after = files(env.folder());
            for (path, format) in touched {
                let at = format!("{} {since:?} {ends:?}", path.display());
                let text = |all: &std::collections::BTreeMap<_, Vec<u8>>| {
                    all.get(&path).map(|bytes| String::from_utf8(bytes.clone()).expect("text"))
                };
                let (old, new) = (text(&before), text(&after));
                if since == Since::Nothing {
                    assert_eq!(old, new, "{at}");
                    continue;
                }
                let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
                assert_eq!(meaning(&new, format), meaning(&old, format), "{at}: {new}");
                assert_eq!(new.contains(THEIRS), theirs.contains(&path), "{at}: {new}");
                let is_json = format == Format::Json && (is_strict(&old) || old.is_empty());
                assert!(!is_json || new.is_empty() || is_strict(&new), "{at}: {new}");
                assert!(!new.contains("provost"), "{at}: {new}");
            }
        }
    }
}

#[test]
fn a_hook_that_somebody_added_beside_provosts_stays() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    let named = ["init", "--yes", "--agent", "claude", "--agent", "codex", "--agent", "cursor"];
    env.provost(&named).exits(0);
    let claude = env.read(".claude/settings.json");
    let ring = r#"{"type": "command", "command": "ring"}"#;
    env.write(".claude/settings.json", claude.replacen("\"hooks\": [", &format!("\"hooks\": [{ring},"), 1));
    let codex = env.read(".codex/config.toml");
    env.write(
        ".codex/config.toml",
        format!("{codex}\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"ring\"\n"),
    );
    let cursor =
        env.read(".cursor/hooks.json").replacen("\"stop\": [", "\"stop\": [{ \"command\": \"ring\" },", 1);
    env.write(".cursor/hooks.json", cursor);
    env.provost(&["init", "--undo", "--yes"]).exits(0);
    let [claude, cursor]: [Value; 2] = [".claude/settings.json", ".cursor/hooks.json"]
        .map(|path| serde_json::from_str(&env.read(path)).expect(path));
    let left = claude.as_object().expect("an object").values().next().expect("a list");
    assert_eq!(
        left.to_string(),
        r#"{"SessionStart":[{"hooks":[{"type":"command","command":"ring"}]}]}"#,
        "{claude}"
    );
    assert_eq!(
        cursor.to_string(),
        r#"{"version":1,"hooks":{"stop":[{"command":"ring"}]}}"#,
        "still readable"
    );
    let codex: toml::Table = env.read(".codex/config.toml").parse().expect("TOML");
    assert_eq!(
        codex.to_string(),
        "[[hooks.Stop]]\n\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"ring\"\n"
    );
}

#[test]
fn what_a_person_changed_in_a_template_is_theirs() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    std::fs::remove_file(env.work().join("provost.toml")).expect("gone");
    env.provost(&["init", "--yes", "--agent", "opencode"]).exits(0);
    env.write("provost.toml", "[hook]\nrefusals = 2\n");
    // The plugin is provost's own, whatever is in it.
    env.write(".harness/provost-opencode.js", "// formatted\n");
    let doctor = env.provost(&["doctor"]).exits(0).out;
    assert!(doctor.contains("provost-opencode.js lacks provost's entries, or has old ones"), "{doctor}");
    let said = env.provost(&["init", "--undo", "--yes"]).exits(0).err;
    assert!(said.contains("provost.toml stays: it has changed since"), "{said}");
    assert_eq!(env.read("provost.toml"), "[hook]\nrefusals = 2\n");
    let there = ["opencode.json", ".harness"].map(|path| env.work().join(path).exists());
    assert_eq!(there, [false, false]);
    assert!(env.provost(&["init", "--undo", "--yes"]).exits(0).err.contains("nothing to do"));
}

#[test]
fn what_cannot_be_removed_is_left_as_it_is() {
    let env = fixture();
    init(&env, &["--yes", "--agents-md"]).exits(0);
    let broken = env.read(".claude/settings.json").replacen('{', "{ \"half\": ", 1);
    env.write(".claude/settings.json", &broken);
    env.write("AGENTS.md", env.read("AGENTS.md").replace("A step is done when", "A step is never done when"));
    let paragraph = env.read("AGENTS.md");
    let said = env.provost(&["init", "--undo", "--yes"]).exits(5).err;
    assert_eq!(said.matches("remove this by hand").count(), 2, "{said}");
    assert_eq!((env.read(".claude/settings.json"), env.read("AGENTS.md")), (broken, paragraph));
}
