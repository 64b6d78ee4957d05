//! Tests what others get of a setup: files for a team, clones, worktrees, and hooks of git.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::fixture;
use crate::env::{Answer, Env, answer, plan};

fn env() -> Env {
    Env::new(&plan(&["test -f out/1"], "escalate"))
}

/// Runs provost in a folder, with another program called provost on PATH or none.
fn provost_in(env: &Env, folder: &Path, words: &[&str], path: &str) -> Answer {
    let mut command = env.command(words);
    answer(command.current_dir(folder).env("PATH", path).output().expect("provost"))
}

fn findings(doctor: &Value, client: &str) -> String {
    let all = doctor["clients"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|found| found["client"] == client);
    found.map_or("absent".to_owned(), |found| found["findings"].to_string())
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Returns a PATH with this program as `provost`.
fn path_with_provost(env: &Env) -> String {
    let bin = env.folder().join("bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_provost"), bin.join("provost"));
    format!("{}:{}", bin.display(), path())
}

fn clone(env: &Env, name: &str) -> std::path::PathBuf {
    let to = env.folder().join(name);
    let made = Command::new("git").args(["clone", "--quiet"]).arg(env.work()).arg(&to).status();
    assert!(made.expect("git").success());
    to
}

#[test]
fn doctor_agrees_with_a_program_by_name() {
    let env = env();
    let named = ["--agent", "claude", "--agent", "cursor", "--agent", "codex", "--agent", "git-pre-push"];
    env.provost(&[&["init", "--yes", "--program", "provost"], &named[..]].concat()).exits(0);
    let doctor = |path: &str| provost_in(&env, &env.work(), &["doctor", "--json"], path).exits(0).json();
    let with = doctor(&path_with_provost(&env));
    for client in ["claude", "cursor", "git-pre-push"] {
        assert_eq!(findings(&with, client), "[]", "{client}");
    }
    assert!(!findings(&with, "codex").contains("says something else"), "{}", findings(&with, "codex"));
    let without = doctor(&path());
    for client in ["claude", "cursor", "git-pre-push"] {
        assert!(findings(&without, client).contains("`provost` is not on PATH"), "{client}: {without}");
    }
    // With the path of this program, its own entries are replaced.
    env.provost(&[&["init", "--yes"], &named[..]].concat()).exits(0);
    let own = doctor(&path());
    for client in ["claude", "cursor", "git-pre-push"] {
        assert_eq!(findings(&own, client), "[]", "{client}");
    }
    env.provost(&["init", "--undo", "--yes"]).exits(0);
    assert!(!env.work().join(".mcp.json").exists() && !env.work().join(".git/hooks/pre-push").exists());
}

#[test]
fn a_clone_is_wholly_gated_or_says_that_it_is_not() {
    let env = env();
    let clients = ["--agent", "claude", "--agent", "opencode"];
    let status = || {
        let said =
            Command::new("git").args(["status", "--porcelain", "-uall"]).current_dir(env.work()).output();
        String::from_utf8(said.expect("git").stdout).expect("text")
    };
    // With a path of this machine, git does not show the files.
    let before = std::fs::read(env.work().join(".git/info/exclude")).ok();
    env.provost(&[&["init", "--yes"], &clients[..]].concat()).exits(0);
    assert_eq!(status().trim(), "?? .harness/.gitignore");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "all"]);
    let bare = clone(&env, "bare");
    let doctor = provost_in(&env, &bare, &["doctor"], &path()).exits(0).out;
    assert!(doctor.contains("configured clients: none") && doctor.contains("provost init"), "{doctor}");

    // By name, all files are for the team, also the plugin.
    env.provost(&[&["init", "--yes", "--program", "provost"], &clients[..]].concat()).exits(0);
    assert_eq!(std::fs::read(env.work().join(".git/info/exclude")).ok(), before);
    let expected =
        "?? .claude/settings.json\n?? .harness/provost-opencode.js\n?? .mcp.json\n?? opencode.json\n";
    assert_eq!(status(), expected);
    // Half of it is committed.
    env.git(&["add", ".mcp.json", "opencode.json"]);
    env.git(&["commit", "--quiet", "--message", "half"]);
    let half = clone(&env, "half");
    let with = path_with_provost(&env);
    let found = provost_in(&env, &half, &["doctor", "--json"], &with).exits(0).json();
    for (client, missing) in
        [("claude", ".claude/settings.json"), ("opencode", ".harness/provost-opencode.js")]
    {
        let words = findings(&found, client);
        assert!(words.contains(&format!("{missing} is missing")), "{words}");
        let here = provost_in(&env, &env.work(), &["doctor", "--json"], &with).exits(0).json();
        let words = findings(&here, client);
        assert!(words.contains(&format!("committed without {missing}: a clone is not gated")), "{words}");
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "whole"]);
    let whole = clone(&env, "whole");
    let found = provost_in(&env, &whole, &["doctor", "--json"], &with).exits(0).json();
    assert_eq!(findings(&found, "claude"), "[]");
    assert!(!findings(&found, "opencode").contains("missing"), "{found}");
    let without = provost_in(&env, &whole, &["doctor", "--json"], &path()).exits(0).json();
    assert!(findings(&without, "claude").contains("this checkout is not gated"), "{without}");
    // `init` replaces the entries that a colleague's provost wrote, although it has no record of them.
    provost_in(&env, &whole, &[&["init", "--yes"], &clients[..]].concat(), &path()).exits(0);
    let own = provost_in(&env, &whole, &["doctor", "--json"], &path()).exits(0).json();
    assert_eq!(findings(&own, "claude"), "[]");
}

#[test]
fn a_path_of_this_machine_in_a_tracked_file_is_told() {
    let env = fixture();
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "files of a team"]);
    let said = env.provost(&["init", "--yes", "--agent", "claude"]).exits(0).err;
    assert!(said.contains("git tracks") && said.contains("--program provost"), "{said}");
    env.git(&["commit", "--quiet", "--all", "--message", "with a path"]);
    let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
    assert!(findings(&doctor, "claude").contains("with a path of this machine"), "{doctor}");
    // In a clone on another machine the path leads nowhere.
    let text = env.read(".mcp.json").replace(env!("CARGO_BIN_EXE_provost"), "/elsewhere/provost");
    env.write(".mcp.json", text);
    let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
    assert!(findings(&doctor, "claude").contains("/elsewhere/provost is not there"), "{doctor}");
}

/// Pushes to another repository; returns whether git did.
fn push(env: &Env, from: &Path) -> (bool, String) {
    let mut git = Command::new("git");
    git.args(["push", "--quiet", "../remote", "HEAD:refs/heads/pushed", "--force"]).current_dir(from);
    for (name, value) in env.command(&[]).get_envs() {
        git.env(name, value.unwrap_or_default());
    }
    let said = git.output().expect("git");
    (said.status.success(), String::from_utf8_lossy(&said.stderr).into_owned())
}

fn script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, text).expect("a script");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

#[test]
fn a_push_is_checked_before_any_command_of_the_hook_can_end_it() {
    let cases: [(&str, &[&str], &str); 4] = [
        (".git/hooks/pre-push", &[], "#!/bin/sh\necho \"refs: $(cat)\" >&2\nexit 0\n"),
        (".githooks/pre-push", &["core.hooksPath", ".githooks"], "#!/usr/bin/env bash\nset -e\nexit 0\n"),
        (".husky/pre-push", &["core.hooksPath", ".husky/_"], "exit 0\n"),
        (".git/hooks/pre-push", &[], ""),
    ];
    for (place, setting, text) in cases {
        let env = env();
        env.git(&["init", "--quiet", "--bare", "../remote"]);
        let hook = env.work().join(place);
        if !text.is_empty() {
            script(&hook, text);
        }
        if let [name, value] = setting {
            env.git(&["config", name, value]);
        }
        if place.starts_with(".husky") {
            script(
                &env.work().join(".husky/_/pre-push"),
                "#!/bin/sh\nexec sh -e \"$(dirname \"$0\")/../pre-push\" \"$@\"\n",
            );
        }
        env.approve();
        assert!(text.is_empty() || push(&env, &env.work()).0, "{place}: no hook checks the push yet");
        env.provost(&["init", "--yes", "--agent", "git-pre-push"]).exits(0);
        let (pushed, said) = push(&env, &env.work());
        assert!(!pushed && said.contains("Step 1 is open"), "{place}: {said}");
        let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
        assert_eq!(findings(&doctor, "git-pre-push"), "[]", "{place}");
        // A command in front of it is noticed, and a second `init` mends it.
        let now = std::fs::read_to_string(&hook).expect("a hook");
        std::fs::write(&hook, now.replacen("# provost", "test -n \"$CI\" || exit 0\n# provost", 1))
            .expect("a hook");
        let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
        let words = findings(&doctor, "git-pre-push");
        assert!(words.contains("commands run before provost's line"), "{place}: {words}");
        env.provost(&["init", "--yes", "--agent", "git-pre-push"]).exits(0);
        assert!(!push(&env, &env.work()).0, "{place}");
        env.provost(&["init", "--undo", "--yes"]).exits(0);
        let left = std::fs::read_to_string(&hook).unwrap_or_default();
        let shebang = if text.is_empty() { "#!/bin/sh\n" } else { "" };
        let own = text.split_inclusive('\n').next().filter(|line| line.starts_with("#!")).unwrap_or_default();
        let rest = &text[own.len()..];
        assert_eq!(left, format!("{shebang}{own}test -n \"$CI\" || exit 0\n{rest}"), "{place}");
    }
}

#[test]
fn a_worktree_has_the_hooks_of_its_repository_and_those_of_others_are_left_alone() {
    let env = env();
    env.git(&["init", "--quiet", "--bare", "../remote"]);
    env.git(&["worktree", "add", "--quiet", "../tree", "-b", "side"]);
    let tree = env.folder().join("tree");
    let init =
        |folder: &Path| provost_in(&env, folder, &["init", "--yes", "--agent", "git-pre-push"], &path());
    init(&tree).exits(0);
    assert!(env.work().join(".git/hooks/pre-push").is_file(), "hooks are those of the repository");
    let doctor = provost_in(&env, &tree, &["doctor", "--json"], &path()).exits(0).json();
    assert_eq!(findings(&doctor, "git-pre-push"), "[]");
    // Hooks of every repository of this person.
    let shared = env.folder().join("home/hooks");
    script(&shared.join("pre-push"), "#!/bin/sh\n");
    env.git(&["config", "--global", "core.hooksPath", shared.to_str().expect("a path")]);
    let said = init(&env.work()).exits(5).err;
    assert!(said.contains("core.hooksPath") && said.contains("by hand"), "{said}");
    let doctor = provost_in(&env, &tree, &["doctor", "--json"], &path()).exits(0).json();
    assert!(findings(&doctor, "git-pre-push").contains("core.hooksPath"), "{doctor}");
    assert_eq!(std::fs::read_to_string(shared.join("pre-push")).expect("a hook"), "#!/bin/sh\n");
    let nowhere = env.folder().join("nowhere");
    std::fs::create_dir(&nowhere).expect("a folder");
    assert!(init(&nowhere).exits(5).err.contains("no git repository"));
}
