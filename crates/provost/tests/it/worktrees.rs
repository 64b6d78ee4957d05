//! Tests worktrees of plans: they are made completely or not at all, and removed only if nothing is lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::env::{Answer, Env, HONEST, answer, plan};

/// Creates a repository on `master` whose plans are not committed, as in a shared or ignored folder.
fn env() -> Env {
    let env = Env::new(&plan(&["test -e out/1"], "abort")).agent(HONEST).isolation("in-place");
    env.write(".gitignore", ".harness/\n*.env\nbuild/\nout/\n");
    env.write("src/lib.rs", "fn main() {}\n");
    env.write(".harness/PLAN-foo.md", plan(&["test -e out/1"], "abort"));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "all"]);
    env
}

#[track_caller]
fn spawn(env: &Env) -> PathBuf {
    let made = env.provost(&["spawn", "foo", "--json"]).exits(0).json();
    PathBuf::from(made["path"].as_str().expect("a path"))
}

fn git_in(env: &Env, folder: &Path, arguments: &[&str]) -> Answer {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]);
    command.args(arguments).current_dir(folder).env("HOME", env.folder().join("home"));
    answer(command.output().expect("git"))
}

fn provost_in(env: &Env, folder: &Path, arguments: &[&str]) -> Answer {
    answer(env.command(arguments).current_dir(folder).output().expect("provost"))
}

fn files_of(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Returns what `prune` says of the only worktree: its fate and the reasons.
#[track_caller]
fn fate(env: &Env, arguments: &[&str]) -> (String, String) {
    let words = [&["worktree", "prune", "--json"], arguments].concat();
    let said = env.provost(&words).exits(0).json();
    let one: &Value = &said["worktrees"][0];
    (one["fate"].as_str().unwrap_or("none").to_owned(), one["reasons"].to_string())
}

#[test]
fn a_spawned_worktree_is_one_that_git_knows_and_is_bound_to_its_plan() {
    let env = env();
    let path = spawn(&env);
    assert_eq!(path.file_name().and_then(|name| name.to_str()), Some("work-foo-1"));
    assert_eq!(git_in(&env, &path, &["status", "--porcelain"]).exits(0).out, "", "clean, marker and all");
    assert_eq!(git_in(&env, &path, &["branch", "--show-current"]).exits(0).out, "spawn/foo-1\n");
    let heads = ["rev-parse", "HEAD"];
    assert_eq!(git_in(&env, &path, &heads).out, git_in(&env, &env.work(), &heads).out);
    let known = git_in(&env, &env.work(), &["worktree", "list", "--porcelain"]).exits(0).out;
    assert!(known.contains(path.to_str().expect("text")), "{known}");
    git_in(&env, &env.work(), &["fsck", "--strict"]).exits(0);
    git_in(&env, &env.work(), &["worktree", "prune"]).exits(0);
    assert!(path.join("src/lib.rs").is_file(), "git does not take it for garbage");
    // An uncommitted plan is used from the repository that it was spawned from.
    assert_eq!(std::fs::read_to_string(path.join(".harness/active-plan")).expect("a marker"), "foo\n");
    let which = provost_in(&env, &path, &["which", "--porcelain"]).exits(0).out;
    let real = env.work().canonicalize().expect("a path");
    assert!(which.starts_with(&format!("{}/.harness/PLAN-foo.md\t", real.display())), "{which}");
    let list = env.provost(&["worktree", "list", "--json"]).exits(0).json();
    assert_eq!(list["worktrees"][0]["plan"], "foo");
    assert_eq!(list["worktrees"][0]["branch"], "spawn/foo-1");
    // A second call makes another worktree.
    let again = env.provost(&["spawn", "foo", "--json"]).exits(0).json();
    assert_eq!((&again["attempt"], &again["branch"]), (&Value::from(2), &Value::from("spawn/foo-2")));
    env.provost(&["spawn", "absent"]).exits(2);
    env.provost(&["spawn", "../foo"]).exits(2);
}

#[test]
fn the_plan_is_run_in_the_worktree_and_the_approval_holds_there() {
    let env = env();
    let shown = env.provost(&["show", "foo", "--json"]).exits(0).json();
    env.provost(&["verify", "foo"]).exits(0);
    env.provost(&["approve", "foo", "--revision", shown["revision"].as_str().expect("a revision")]).exits(0);
    // The repository gets a new commit, but the worktree starts from the approved base.
    env.write("later.txt", "x\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "later"]);
    let path = spawn(&env);
    assert!(!path.join("later.txt").exists(), "on the base that was approved");
    provost_in(&env, &path, &["run"]).exits(0);
    assert!(
        path.join("out/1").is_file() && !env.work().join("out/1").exists(),
        "the work is in the worktree"
    );
    assert!(env.read(".harness/PLAN-foo.md").contains("status: done"));
    let list = env.provost(&["list", "--json"]).exits(0).json();
    let foo = list["plans"].as_array().expect("a list").iter().find(|plan| plan["name"] == "foo");
    assert_eq!(foo.map(|foo| &foo["stage"]), Some(&Value::from("done")), "one plan, one log");
}

#[test]
fn ignored_files_that_are_listed_are_copied_and_nothing_else() {
    let env = env();
    env.write(
        ".worktreeinclude",
        "# secrets of this machine\n*.env\nbuild/keep/*\n!skip.env\nuntracked.txt\nsrc/lib.rs\n",
    );
    for (name, text) in [
        ("a.env", "A=1\n"),
        ("sub/b.env", "B=1\n"),
        ("skip.env", "no\n"),
        ("build/keep/x", "x\n"),
        ("build/other", "no\n"),
        ("untracked.txt", "not ignored\n"),
    ] {
        env.write(name, text);
    }
    std::os::unix::fs::symlink("/etc/passwd", env.work().join("link.env")).expect("a link");
    let path = spawn(&env);
    assert_eq!(std::fs::read_to_string(path.join("a.env")).expect("copied"), "A=1\n");
    assert_eq!(std::fs::read_to_string(path.join("sub/b.env")).expect("copied"), "B=1\n");
    assert!(path.join("build/keep/x").is_file());
    for absent in ["skip.env", "build/other", "untracked.txt", "link.env"] {
        assert!(path.join(absent).symlink_metadata().is_err(), "{absent}");
    }
}

#[test]
fn a_setup_that_fails_leaves_nothing_behind() {
    let env = env();
    let config = env.read("provost.toml");
    env.write("provost.toml", format!("{config}[worktrees]\nsetup = [\"touch made\", \"exit 7\"]\n"));
    let asked = env.provost(&["spawn", "foo"]).exits(2);
    assert!(asked.err.contains("--no-setup"), "nobody is there to agree: {}", asked.err);
    let before = files_of(env.folder());
    let failed = env.provost(&["spawn", "foo", "--setup"]).exits(1);
    assert!(failed.err.contains("exit 7") && failed.err.contains("exit code 7"), "{}", failed.err);
    assert_eq!(files_of(env.folder()), before);
    assert_eq!(files_of(&env.work().join(".git/worktrees")), Vec::<String>::new());
    assert_eq!(git_in(&env, &env.work(), &["branch", "--list", "spawn/*"]).exits(0).out, "");
    env.write(
        "provost.toml",
        format!("{config}[worktrees]\nfolder = \"../trees\"\nsetup = [\"touch made\"]\n"),
    );
    let made = env.provost(&["spawn", "foo", "--setup", "--json"]).exits(0).json();
    let path = PathBuf::from(made["path"].as_str().expect("a path"));
    assert!(path.join("made").is_file() && path.ends_with("trees/work-foo-1"), "{}", path.display());
    env.provost(&["spawn", "foo", "--no-setup"]).exits(0);
}

#[test]
fn no_program_of_the_repository_runs_while_a_worktree_is_made_or_looked_at() {
    let env = env();
    let trap = env.folder().join("sprung");
    let spring = format!("touch {}", trap.display());
    env.write(".gitattributes", "* filter=evil\n*.rs diff=evil\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "attributes"]);
    for key in ["filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv", "core.fsmonitor"] {
        env.git(&["config", key, &format!("{spring}; cat")]);
    }
    env.git(&["config", "filter.evil.required", "true"]);
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        let path = env.work().join(".git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, format!("#!/bin/sh\n{spring}\n")).expect("a hook");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a program");
    }
    let path = spawn(&env);
    std::fs::write(path.join("src/lib.rs"), "fn main() { changed() }\n").expect("an edit");
    fate(&env, &[]);
    env.provost(&["worktree", "prune", "--yes"]).exits(0);
    env.provost(&["doctor", "--json"]).exits(0);
    assert!(!trap.exists(), "a program of the repository was run");
    assert!(path.exists());
}

#[test]
fn what_is_merged_and_clean_goes_and_says_so_first() {
    let env = env();
    let path = spawn(&env);
    assert_eq!(fate(&env, &[]).0, "would go");
    assert!(path.exists(), "without --yes nothing happens");
    assert_eq!(fate(&env, &["--yes"]).0, "removed");
    assert!(!path.exists());
    assert_eq!(git_in(&env, &env.work(), &["branch", "--list", "spawn/*"]).exits(0).out, "");
    assert!(!git_in(&env, &env.work(), &["worktree", "list"]).exits(0).out.contains("foo-1"));
    // Also after its branch was packed, and with merged commits.
    let path = spawn(&env);
    std::fs::write(path.join("new.txt"), "x\n").expect("a file");
    git_in(&env, &path, &["add", "--all"]).exits(0);
    git_in(&env, &path, &["commit", "--quiet", "--message", "work"]).exits(0);
    assert!(fate(&env, &["--yes"]).1.contains("neither merged nor pushed"));
    env.git(&["merge", "--quiet", "--no-ff", "-m", "merged", "spawn/foo-1"]);
    env.git(&["pack-refs", "--all"]);
    std::fs::write(path.join("build.log.env"), "ignored\n").expect("a file");
    assert_eq!(fate(&env, &["--yes"]).0, "removed");
    assert_eq!(git_in(&env, &env.work(), &["branch", "--list", "spawn/*"]).exits(0).out, "");
    git_in(&env, &env.work(), &["fsck"]).exits(0);
    assert!(env.work().join("new.txt").is_file());
}

#[test]
fn work_that_is_nowhere_else_stays_and_the_reason_is_said() {
    let env = env();
    let path = spawn(&env);
    let stays = |why: &str| {
        let (fate, reasons) = fate(&env, &["--yes"]);
        assert_eq!(fate, "stays", "{why}");
        assert!(reasons.contains(why), "{why}: {reasons}");
        assert!(path.join("src/lib.rs").exists());
    };
    std::fs::write(path.join("src/lib.rs"), "fn main() { edited() }\n").expect("an edit");
    stays("uncommitted: src/lib.rs");
    git_in(&env, &path, &["add", "--all"]).exits(0);
    stays("staged: src/lib.rs");
    git_in(&env, &path, &["stash"]).exits(0);
    stays("stashed");
    git_in(&env, &path, &["stash", "drop"]).exits(0);
    std::fs::write(path.join("note.txt"), "only here\n").expect("a file");
    stays("untracked: note.txt");
    std::fs::remove_file(path.join("note.txt")).expect("removed");
    git_in(&env, &path, &["checkout", "--quiet", "--detach"]).exits(0);
    stays("on no branch");
    git_in(&env, &path, &["checkout", "--quiet", "spawn/foo-1"]).exits(0);
    git_in(&env, &env.work(), &["worktree", "lock", path.to_str().expect("text")]).exits(0);
    stays("locked");
    git_in(&env, &env.work(), &["worktree", "unlock", path.to_str().expect("text")]).exits(0);
    let inside = provost_in(&env, &path, &["worktree", "prune", "--yes", "--json"]).exits(0);
    assert!(inside.out.contains("you are in it"), "{}", inside.out);
    // provost does not remove a worktree that it did not make.
    git_in(&env, &env.work(), &["worktree", "add", "--quiet", "-b", "mine", "../mine"]).exits(0);
    let said = env.provost(&["worktree", "prune", "--yes"]).exits(0).out;
    assert!(said.contains("provost did not make it") && env.folder().join("mine").exists(), "{said}");
    assert!(!path.exists(), "and now nothing held it");
}

#[test]
fn after_a_commit_that_was_merged_the_worktree_may_go_though_its_files_differ_from_its_branch() {
    let env = env();
    let path = spawn(&env);
    std::fs::write(path.join("src/lib.rs"), "fn main() { done() }\n").expect("an edit");
    std::fs::write(path.join("src/new.rs"), "// new\n").expect("a file");
    assert_eq!(fate(&env, &[]).0, "stays");
    // Like `provost commit`: the same files on a separate branch.
    env.git(&["checkout", "--quiet", "-b", "provost/foo"]);
    env.write("src/lib.rs", "fn main() { done() }\n");
    env.write("src/new.rs", "// new\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "the work"]);
    env.git(&["checkout", "--quiet", "master"]);
    assert_eq!(fate(&env, &[]).0, "stays", "not merged yet");
    env.git(&["merge", "--quiet", "--no-ff", "-m", "merged", "provost/foo"]);
    assert_eq!(fate(&env, &["--yes"]).0, "removed");
    assert!(!path.exists());
}

#[test]
fn a_worktree_without_a_configuration_has_that_of_its_repository() {
    let env = env();
    env.git(&["rm", "--quiet", "--cached", "provost.toml"]);
    env.write(".gitignore", format!("{}provost.toml\n", env.read(".gitignore")));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a configuration for this machine alone"]);
    let path = spawn(&env);
    assert!(!path.join("provost.toml").exists());
    let unknown = || provost_in(&env, &path, &["verify"]).exits(0).out.contains("no agents are configured");
    assert!(!unknown());
    std::fs::write(path.join("provost.toml"), "").expect("one of its own");
    assert!(unknown(), "its own knows no agents");
}

#[test]
fn of_many_that_are_spawned_at_once_each_gets_a_number_of_its_own() {
    let env = env();
    let spawns: Vec<_> = (0..5).map(|_| env.start(&["spawn", "foo", "--json"])).collect();
    let mut attempts: Vec<u64> = spawns
        .into_iter()
        .map(|spawn| answer(spawn.wait_with_output().expect("ended")).exits(0).json()["attempt"].as_u64())
        .map(|attempt| attempt.expect("a number"))
        .collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 2, 3, 4, 5]);
    let known = git_in(&env, &env.work(), &["worktree", "list"]).exits(0).out;
    assert_eq!(known.lines().count(), 6, "{known}");
}
