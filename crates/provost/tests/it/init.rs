//! Tests `provost init` on configuration written by people: it adds only its own lines, and `--undo`
//! restores every byte.

mod team;
mod undo;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::env::{Env, plan};

/// The clients that have files of a project.
const ALL: [&str; 11] = [
    "claude",
    "codex",
    "gemini",
    "qwen",
    "copilot",
    "opencode",
    "cursor",
    "git-pre-push",
    "amp",
    "vscode",
    "zed",
];

fn fixture() -> Env {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    std::fs::remove_file(env.work().join("provost.toml")).expect("a file");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/init");
    for (path, bytes) in files(&from) {
        let to = env.folder().join(&path);
        std::fs::create_dir_all(to.parent().expect("a parent")).expect("a folder");
        std::fs::write(to, bytes).expect("a file");
    }
    env
}

/// Returns every file below a folder, except git's own.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let is_git = path.ends_with(".git/objects") || path.ends_with("state");
            if path.is_dir() && !is_git {
                folders.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(root).expect("below").to_owned();
                found.insert(name, std::fs::read(path).expect("a file"));
            }
        }
    }
    found
}

fn init(env: &Env, more: &[&str]) -> crate::env::Answer {
    let named: Vec<&str> = ALL.iter().flat_map(|client| ["--agent", client]).collect();
    env.provost(&[&["init"], &named[..], more].concat())
}

/// Returns whether `after` contains all lines of `before` in their order. A line that opens a bracket may
/// contain provost's text after it.
fn holds_in_order(after: &str, before: &str) -> bool {
    let mut lines = after.lines();
    let is_in = |line: &str, other: &str| {
        let mut letters = other.chars();
        line == other || other.contains("provost") && line.chars().all(|one| letters.any(|two| one == two))
    };
    before.trim_end().lines().all(|line| line.trim().is_empty() || lines.any(|other| is_in(line, other)))
}

#[test]
fn init_adds_its_own_lines_and_undo_gives_the_bytes_back() {
    let env = fixture();
    let before = files(env.folder());
    let shown = init(&env, &["--dry-run"]).exits(0).out;
    assert_eq!(files(env.folder()), before, "a dry run writes nothing");
    init(&env, &[]).exits(4);
    assert_eq!(files(env.folder()), before, "nobody said yes");
    let said = init(&env, &["--yes", "--agents-md"]).exits(0).out;
    assert!(said.contains(shown.as_str().lines().nth(3).unwrap_or("?")), "{said}");
    let after = files(env.folder());
    for (path, bytes) in &before {
        let [old, new] = [bytes, &after[path]].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        // Binary files of git may end with a byte that looks like a space.
        assert!(new == old || holds_in_order(&new, &old), "{}: {new}", path.display());
    }
    // The second time there is nothing to do.
    let again = init(&env, &["--yes", "--agents-md"]).exits(0);
    assert_eq!((again.out.as_str(), again.err.contains("nothing to do")), ("", true), "{}", again.err);
    assert_eq!(files(env.folder()), after);
    env.provost(&["init", "--undo", "--yes"]).exits(0);
    assert_eq!(files(env.folder()).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert_eq!(files(env.folder()), before);
    assert!(!env.work().join(".harness").exists());
}

#[test]
fn every_client_finds_its_hook_and_its_server() {
    let env = fixture();
    init(&env, &["--yes"]).exits(0);
    let provost = env!("CARGO_BIN_EXE_provost");
    let json = |path: &str| -> Value {
        let script = "import json,re,sys; t=sys.stdin.read(); t=re.sub(r'(?m)(^|\\s)//.*$','',t); \
                      t=re.sub(r'/\\*.*?\\*/','',t); t=re.sub(r',(\\s*[}\\]])',r'\\1',t); print(json.dumps(json.loads(t)))";
        let mut python = std::process::Command::new("python3");
        python.args(["-c", script]).stdin(std::fs::File::open(env.work().join(path)).expect(path));
        serde_json::from_slice(&python.output().expect("python3").stdout).expect(path)
    };
    let claude = json(".claude/settings.json");
    assert_eq!(claude["hooks"]["Stop"][0]["hooks"][0]["command"], format!("{provost} hook claude"));
    assert_eq!(claude["hooks"]["Stop"][1]["hooks"][0]["command"], "~/bin/ring.sh");
    assert_eq!(claude["permissions"]["allow"][0], "mcp__provost");
    assert_eq!(json(".mcp.json")["mcpServers"]["provost"]["command"], provost);
    let gemini = json(".gemini/settings.json");
    assert_eq!(gemini["mcpServers"]["provost"]["args"][0], "mcp");
    let hook =
        gemini["hooks"]["AfterAgent"][0]["hooks"][0]["command"].as_str().unwrap_or_default().to_owned();
    assert!(hook.starts_with("test -x ") && hook.ends_with("hook gemini"), "{hook}");
    assert_eq!(json("opencode.jsonc")["plugin"][0], "./.harness/provost-opencode.js");
    assert!(env.read(".harness/provost-opencode.js").contains(&format!("PROGRAM = \"{provost}\"")));
    assert_eq!(json(".cursor/hooks.json")["hooks"]["stop"][0]["command"], format!("{provost} hook cursor"));
    let qwen = json(".qwen/settings.json");
    assert_eq!(qwen["hooks"]["Stop"][0]["hooks"][0]["command"], format!("{provost} hook qwen"));
    let copilot = json(".github/hooks/provost.json");
    assert_eq!(copilot["hooks"]["agentStop"][0]["bash"], format!("{provost} hook copilot"));
    assert_eq!(copilot["version"], 1);
    for (path, key) in [
        (".qwen/settings.json", "mcpServers"),
        (".github/mcp.json", "mcpServers"),
        (".amp/settings.json", "amp.mcpServers"),
        (".vscode/mcp.json", "servers"),
        (".zed/settings.json", "context_servers"),
    ] {
        assert_eq!(json(path)[key]["provost"]["command"], provost, "{path}");
    }
    let push = env.work().join(".git/hooks/pre-push");
    assert!(push.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0));
    let toml = env.read(".codex/config.toml");
    assert!(
        toml.contains(&format!("command = \"{provost} hook codex\"")) && toml.contains("# the end\n"),
        "{toml}"
    );
    // If the program of the hook is missing, the session may stop.
    let gone = hook.replace(provost, "/nowhere/provost");
    assert!(std::process::Command::new("sh").args(["-c", &gone]).status().is_ok_and(|end| end.success()));
}

#[test]
fn what_was_changed_since_keeps_what_is_not_ours() {
    let env = fixture();
    env.write(".claude/settings.json", env.read(".claude/settings.json").replace("opus", "sk-4711"));
    init(&env, &["--yes"]).exits(0);
    let kept = files(&env.state().join("init"));
    assert!(!kept.values().any(|text| String::from_utf8_lossy(text).contains("sk-4711")), "no copy of it");
    env.write(".claude/settings.json", env.read(".claude/settings.json").replace("sk-4711", "opus"));
    let settings = env.read(".claude/settings.json").replace("\"opus\"", "\"sonnet\"");
    env.write(".claude/settings.json", &settings);
    let config = env.read(".codex/config.toml");
    env.write(".codex/config.toml", config.replace("timeout = 600", "timeout = 7"));
    // With another path of provost, its own old entries are replaced and all others stay.
    init(&env, &["--yes", "--program", "/opt/provost"]).exits(5);
    let moved = env.read(".claude/settings.json");
    assert!(moved.contains("\"sonnet\"") && moved.contains("/opt/provost hook claude"), "{moved}");
    assert_eq!(moved.matches(" hook claude").count(), 2, "{moved}");
    env.provost(&["init", "--undo", "--yes"]).exits(0);
    let original = fixture().read(".claude/settings.json");
    assert_eq!(env.read(".claude/settings.json"), original.replace("\"opus\"", "\"sonnet\""));
    assert_eq!(env.read(".codex/config.toml"), fixture().read(".codex/config.toml"));
}

#[test]
fn folders_that_were_there_stay() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    std::fs::create_dir(env.work().join(".gemini")).expect("a folder");
    env.provost(&["init", "--yes", "--agent", "gemini", "--agent", "cursor"]).exits(0);
    env.provost(&["init", "--undo", "--yes"]).exits(0);
    let there = [".gemini", ".cursor", ".harness"].map(|folder| env.work().join(folder).exists());
    assert_eq!(there, [true, false, false]);
}

#[test]
fn for_the_user_the_project_is_left_alone() {
    let env = fixture();
    let before = files(env.folder());
    env.provost(&["init", "--user", "--yes"]).exits(0);
    let after = files(env.folder());
    let changed: Vec<String> = after
        .iter()
        .filter(|(path, bytes)| before.get(*path) != Some(bytes))
        .map(|(path, _)| path.display().to_string())
        .filter(|path| !path.starts_with("state"))
        .collect();
    // Clients whose folders are in the home or in the project.
    for path in ["home/.claude.json", "home/.claude/settings.json", "home/.codex/config.toml"] {
        assert!(changed.iter().any(|changed| changed == path), "{changed:?}");
    }
    assert!(changed.iter().all(|path| path.starts_with("home/")), "{changed:?}");
    env.provost(&["init", "--undo", "--yes"]).exits(0);
    assert_eq!(files(env.folder()), after, "that is for the project");
    env.provost(&["init", "--undo", "--user", "--yes"]).exits(0);
    assert_eq!(files(env.folder()), before);
}

#[test]
fn goose_has_settings_of_the_user_only() {
    let env = fixture();
    let config = env.folder().join("home/.config/goose/config.yaml");
    let read = || std::fs::read_to_string(&config).unwrap_or_default();
    let said = env.provost(&["init", "--yes", "--agent", "goose"]).exits(5).err;
    assert!(said.contains("provost init --user --agent goose"), "{said}");
    let goose = ["init", "--user", "--yes", "--agent", "goose"];
    env.provost(&goose).exits(0);
    assert!(read().starts_with("extensions:\n  provost:\n    enabled: true\n"), "{}", read());
    let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
    assert_eq!(doctor["clients"], serde_json::json!([{ "client": "goose", "findings": [] }]));
    env.provost(&["init", "--user", "--undo", "--yes"]).exits(0);
    assert!(!config.exists());
    // Written by goose itself since.
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("a folder");
    std::fs::write(&config, "GOOSE_MODEL: one\nextensions:\n  memory:\n    enabled: true\n").expect("a file");
    env.provost(&goose).exits(0);
    let provost = env!("CARGO_BIN_EXE_provost");
    let rewritten =
        read().replace("args: [mcp]", "args:\n    - mcp\n    bundled: null").replace("one", "two");
    std::fs::write(&config, rewritten.replace(&format!("\"{provost}\""), provost)).expect("a file");
    let said = env.provost(&goose).exits(5).err;
    assert!(said.contains("`extensions.provost` is there already"), "{said}");
    env.provost(&["init", "--user", "--undo", "--yes"]).exits(0);
    assert_eq!(read(), "GOOSE_MODEL: two\nextensions:\n  memory:\n    enabled: true\n");
}

#[test]
fn a_file_that_cannot_be_read_is_left_and_the_others_are_done() {
    let env = fixture();
    env.write(".gemini/settings.json", "{ \"ui\": ");
    env.write(".cursor/hooks.json", [0xff, 0xfe, b'{']);
    let said = init(&env, &["--yes"]).exits(5);
    assert!(said.err.contains("it is not JSON") && said.err.contains("not UTF-8"), "{}", said.err);
    assert_eq!(env.read(".gemini/settings.json"), "{ \"ui\": ");
    assert!(env.read(".claude/settings.json").contains("hook claude"));
    let answer = env.provost(&["init", "--agent", "gemini", "--dry-run", "--json"]).exits(5).json();
    assert!(answer["changes"].as_array().is_some_and(|all| all.iter().any(|one| one["action"] == "leave")));
}

#[test]
fn doctor_says_what_keeps_a_client_from_asking() {
    let env = fixture();
    init(&env, &["--yes"]).exits(0);
    let words = |client: &str| -> String {
        let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
        let all = doctor["clients"].as_array().cloned().unwrap_or_default();
        all.iter()
            .find(|found| found["client"] == client)
            .map_or("absent".to_owned(), |found| found["findings"].to_string())
    };
    assert_eq!(words("claude"), "[]");
    assert!(words("codex").contains("does not trust this project"), "{}", words("codex"));
    assert!(words("gemini").contains("may not trust"));
    assert!(words("opencode").contains("@opencode-ai/plugin"));
    assert_eq!(words("cursor"), "[]");
    env.write(".claude/settings.local.json", "{ \"disableAllHooks\": true } // quick");
    assert!(words("claude").contains("disableAllHooks"));
    std::fs::remove_file(env.work().join(".cursor/hooks.json")).expect("a file");
    assert!(words("cursor").contains("hooks.json is missing"));
}

/// Plays the part of Codex that `init` uses: it lists the project's hook and whether it is trusted.
const CODEX: &str = r#"#!/bin/bash
config=$PWD/.codex/config.toml
[ -n "$ELSEWHERE" ] && config=$ELSEWHERE
while read -r line; do
    case $line in
    *'"initialize"'*) echo '{"id":1,"result":{}}'; echo '{"method":"note"}' ;;
    *hooks/list*)
        trust=untrusted
        grep -q "trusted_hash = \"sha256:4711\"" "$HOME/.codex/config.toml" 2>/dev/null && trust=trusted
        echo '{"id":2,"result":{"data":[{"hooks":[
            {"key":"/other","command":"ring","currentHash":"x","sourcePath":"/other","trustStatus":"trusted"},
            {"key":"'$config':stop:0:0","command":"/x/provost hook codex","currentHash":"sha256:4711",
             "sourcePath":"'$config'","trustStatus":"'$trust'","enabled":true}]}]}}' | tr -d '\n'; echo ;;
    esac
done
"#;

#[test]
fn codex_is_told_to_trust_the_hook_where_the_person_says_so() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    let bin = env.folder().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::fs::write(bin.join("codex"), CODEX).expect("a program");
    std::fs::set_permissions(bin.join("codex"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let provost = |words: &[&str], more: &[(&str, &str)]| {
        let mut command = env.command(words);
        command.env("PATH", &path).envs(more.iter().copied());
        crate::env::answer(command.output().expect("provost")).exits(0)
    };
    let users = env.folder().join("home/.codex/config.toml");
    std::fs::create_dir_all(users.parent().expect("a folder")).expect("a folder");
    std::fs::write(&users, "model = \"one\" # the best\n").expect("a file");
    let before = files(env.folder());
    let findings = |more: &[(&str, &str)]| {
        provost(&["doctor", "--json"], more).json()["clients"][0]["findings"].to_string()
    };

    let said = provost(&["init", "--agent", "codex", "--yes"], &[]).err;
    assert!(said.contains("provost init --agent codex --trust") && said.contains("sha256:4711"), "{said}");
    assert_eq!(std::fs::read_to_string(&users).expect("a file"), "model = \"one\" # the best\n");
    let found = findings(&[]);
    assert!(
        found.contains("does not trust this project") && found.contains("not trusted as it stands"),
        "{found}"
    );
    assert!(
        findings(&[("ELSEWHERE", "/elsewhere/config.toml")]).contains("Codex does not read"),
        "{}",
        findings(&[("ELSEWHERE", "/elsewhere/config.toml")])
    );

    provost(&["init", "--agent", "codex", "--yes", "--trust"], &[]);
    let config: toml::Table = std::fs::read_to_string(&users).expect("a file").parse().expect("TOML");
    let work = env.work().canonicalize().expect("a folder").display().to_string();
    assert_eq!(config["projects"][&work]["trust_level"].as_str(), Some("trusted"));
    let state = &config["hooks"]["state"][&format!("{work}/.codex/config.toml:stop:0:0")];
    assert_eq!(state["trusted_hash"].as_str(), Some("sha256:4711"));
    assert_eq!(findings(&[]), "[]");
    assert!(provost(&["init", "--agent", "codex", "--yes", "--trust"], &[]).err.contains("nothing to do"));
    provost(&["init", "--undo", "--agent", "codex", "--yes"], &[]);
    provost(&["init", "--undo", "--yes"], &[]);
    assert_eq!(files(env.folder()), before);

    // With `--user`, hook and trust settings are in the same file.
    let there = users.to_string_lossy();
    for (words, has) in [(&["--trust"][..], false), (&["--trust"], true), (&[], true)] {
        let said = provost(
            &[&["init", "--user", "--agent", "codex", "--yes"], words].concat(),
            &[("ELSEWHERE", &there)],
        );
        assert_eq!(said.err.contains("nothing to do"), has, "{words:?}: {}", said.err);
        let config = std::fs::read_to_string(&users).expect("a file");
        assert!(config.contains(" hook codex") && config.contains("sha256:4711"), "{words:?}: {config}");
    }
    provost(&["init", "--user", "--undo", "--yes"], &[]);
    assert_eq!(files(env.folder()), before);
}
