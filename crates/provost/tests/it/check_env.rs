//! What a check can see: the person's tools, a repository, declared folders, and nothing else.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::Value;

use crate::env::{Answer, Env, answer};

/// A plan of one step, with more lines for it.
fn plan(contract: &str, fields: &str) -> String {
    format!(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n\n\
         ### 1. Make it\n\n**target:** coder\n\n**task:**\nMake it.\n\n{fields}**contract:**\n```shell\n{contract}\n```\n\
         exit_code == 0\n**on_fail:** escalate\n"
    )
}

const AGENT: &str = "mkdir -p out; echo done > out/1\n";

/// A workspace with this contract, if this machine has fences.
fn project(contract: &str, fields: &str) -> Option<Env> {
    let env = Env::new(&plan(contract, fields)).agent(AGENT);
    if !env.has_fences() {
        eprintln!("skipped: this machine does not attest `clean`");
        return None;
    }
    Some(commit(env))
}

fn commit(env: Env) -> Env {
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--allow-empty", "--message", "project"]);
    env
}

fn program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/bash\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// With these folders before the others on `PATH`.
fn run_with(env: &Env, arguments: &[&str], folders: &[&Path]) -> Answer {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&usual));
    let path = std::env::join_paths(all).unwrap();
    answer(env.command(arguments).env("PATH", path).output().unwrap())
}

/// The verdicts on the step's own contract, after the work.
fn verdicts(env: &Env) -> Vec<Value> {
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let judged = log.into_iter().filter(|event| {
        event["event"] == "CONTRACT_JUDGED" && event["details"]["subject"]["contract"].is_number()
    });
    judged.map(|event| event["details"]["verdict"].clone()).collect()
}

#[test]
fn tools_on_the_persons_path_are_found_with_all_they_need() {
    let contract = "test -f out/1 && [ \"$(prefixed)\" = data ] && [ \"$(linked)\" = linked ] && interpreted";
    let Some(env) = project(contract, "") else { return };
    let tools = env.folder().join("tools");
    program(&tools.join("node/v1/bin/prefixed"), "cat \"$(dirname \"$0\")/../lib/data\"");
    std::fs::create_dir_all(tools.join("node/v1/lib")).unwrap();
    std::fs::write(tools.join("node/v1/lib/data"), "data\n").unwrap();
    let local = env.folder().join("home/.local");
    let venv = local.join("share/pipx/venvs/linked");
    program(&venv.join("bin/linked"), "cat \"$(dirname \"$(readlink -f \"$0\")\")/../name\"");
    std::fs::write(venv.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    std::fs::write(venv.join("name"), "linked\n").unwrap();
    std::fs::create_dir_all(local.join("bin")).unwrap();
    symlink(venv.join("bin/linked"), local.join("bin/linked")).unwrap();
    program(&tools.join("lang/bin/runs"), "exec bash \"$@\"");
    symlink("/bin/bash", tools.join("lang/bin/interpreter")).unwrap();
    std::fs::create_dir_all(tools.join("lang/lib")).unwrap();
    program(&local.join("bin/interpreted"), "");
    let shebang = format!("#!{}\nexit 0\n", tools.join("lang/bin/interpreter").display());
    std::fs::write(local.join("bin/interpreted"), shebang).unwrap();
    env.approve();
    let folders = [tools.join("node/v1/bin"), local.join("bin")];
    let folders: Vec<&Path> = folders.iter().map(|folder| folder.as_path()).collect();
    run_with(&env, &["run"], &folders).exits(0);
    let environment = verdicts(&env)[0]["environment"].clone();
    assert_eq!(environment["sha256"].as_str().map(str::len), Some(64), "{environment}");
    assert_eq!(environment["path"][0], folders[0].display().to_string());
    let seen = environment["folders"].to_string();
    for place in ["tools/node/v1", "home/.local/bin", "pipx/venvs/linked", "tools/lang"] {
        assert!(seen.contains(place), "{place} in {seen}");
    }
    assert!(!seen.contains("home/.local\""), "{seen}");
    let again = run_with(&env, &["recheck", "1"], &folders[1..]).exits(1).out;
    assert!(again.contains("the environment of the check is not the same: `PATH` no longer has"), "{again}");
}

#[test]
fn an_activated_environment_of_the_workspace_is_used_as_it_was_before_the_agent() {
    let Some(env) = project("test -f out/1 && [ \"$(mytool)\" = honest ]", "") else { return };
    env.write(".gitignore", ".venv/\n");
    let venv = env.work().join(".venv");
    program(&venv.join("bin/mytool"), "echo honest");
    std::fs::write(venv.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let env = commit(env.agent(&format!("{AGENT}echo 'echo cheated' > .venv/bin/mytool || true\n")));
    let revision = run_with(&env, &["show", "--json"], &[&venv.join("bin")]).exits(0).json();
    let revision = revision["revision"].as_str().unwrap().to_owned();
    run_with(&env, &["approve", "--revision", &revision], &[&venv.join("bin")]).exits(0);
    run_with(&env, &["run"], &[&venv.join("bin")]).exits(0);
    assert_eq!(verdicts(&env)[0]["outcome"]["kind"], "held");
}

/// What the manual's own examples ask of git.
const GIT: &str = "set -e
test -f out/1
git diff --quiet -- agent.sh
[ \"$(git log --format=%s | head -1)\" = project ]
[ \"$(git rev-list --count HEAD)\" = 2 ]
git ls-files | grep -qx agent.sh
[ \"$(git status --porcelain)\" = '?? out/' ]
[ \"$(git describe --tags)\" = v1.0 ]
[ -z \"$(git remote)\" ]
git stash --quiet --include-untracked
git -c user.name=x -c user.email=x@localhost commit --quiet --allow-empty -m mine
[ \"$(git rev-list --count HEAD)\" = 3 ]";

fn git_project(level: &str) -> Option<Env> {
    let precondition =
        "**precondition:**\n```shell\ngit diff --quiet -- tests && git status --porcelain\n```\n";
    let env = Env::new(&plan(GIT, &format!("{precondition}**verify_runs:** 2\n"))).agent(AGENT);
    let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
    if level == "clean" && doctor["level"] != "clean" {
        eprintln!("skipped: this machine does not attest `clean`");
        return None;
    }
    let env = commit(env.isolation(level));
    env.git(&["tag", "--annotate", "--message", "first", "v1.0"]);
    // What would run, if it were obeyed.
    program(&env.work().join(".git/hooks/post-checkout"), "exit 1");
    env.git(&["config", "core.fsmonitor", "/bin/false"]);
    env.git(&["config", "remote.origin.url", "https://example.org/x.git"]);
    Some(env)
}

#[test]
fn a_check_sees_the_approved_repository_and_what_it_does_to_it_is_forgotten() {
    let Some(env) = git_project("clean") else { return };
    let head = std::fs::read(env.work().join(".git/index")).unwrap();
    env.approve().provost(&["run"]).exits(0);
    assert_eq!(verdicts(&env)[0]["outcome"]["kind"], "held");
    assert_eq!(std::fs::read(env.work().join(".git/index")).unwrap(), head, "the person's own is left alone");
}

#[test]
fn without_a_fence_a_check_has_a_repository_of_its_own_too() {
    for level in ["guard+clean", "landlock"] {
        let Some(env) = git_project(level) else { continue };
        let mut person = env.person();
        person.approve();
        let ran = env.provost(&["run"]);
        if ran.err.contains("cannot be had here") {
            eprintln!("skipped: {}", ran.err);
            continue;
        }
        ran.exits(0);
        assert_eq!(verdicts(&env)[0]["outcome"]["kind"], "held", "{level}");
    }
}
