//! Tests what a check can see: the person's tools, the repository, declared folders, and nothing else.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use provost_rehearsal::skip;
use serde_json::Value;

use crate::env::{Answer, Env, answer};

/// Returns a plan of one step, with more fields.
fn plan(contract: &str, fields: &str) -> String {
    format!(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n\n\
         ### 1. Make it\n\n**target:** coder\n\n**task:**\nMake it.\n\n{fields}**contract:**\n```shell\n{contract}\n```\n\
         exit_code == 0\n**on_fail:** escalate\n"
    )
}

const AGENT: &str = "mkdir -p out; echo done > out/1\n";

/// Returns a workspace with this contract, if this machine has sandboxes.
fn project(contract: &str, fields: &str) -> Option<Env> {
    let env = Env::new(&plan(contract, fields)).agent(AGENT);
    if !env.has_fences() {
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

/// Runs provost with these folders first on `PATH`.
fn run_with(env: &Env, arguments: &[&str], folders: &[&Path]) -> Answer {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&usual));
    let path = std::env::join_paths(all).unwrap();
    answer(env.command(arguments).env("PATH", path).output().unwrap())
}

/// Returns the verdicts of the step's own contract, after the work.
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
    // Another shell does not matter: the recorded `PATH` is used.
    let again = run_with(&env, &["recheck", "1"], &[]).exits(0).out;
    assert!(again.starts_with("the same") && !again.contains("different environment"), "{again}");
    std::fs::remove_dir_all(tools.join("node")).unwrap();
    let again = run_with(&env, &["recheck", "1"], &folders[1..]).exits(1).out;
    assert!(again.contains("the check ran in a different environment: `PATH` no longer has"), "{again}");
}

/// Lays out a virtual environment of the workspace whose program `mytool` says this word.
fn venv(env: &Env, name: &str, word: &str) {
    let root = env.work().join(name);
    program(&root.join("bin/mytool"), &format!("echo {word}"));
    std::fs::write(root.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
}

#[test]
fn an_environment_of_the_workspace_needs_no_activation() {
    for name in [".venv", "venv"] {
        let contract =
            "test -f out/1 && [ \"$(mytool)\" = honest ] && [ \"${VIRTUAL_ENV##*/}\" = NAME ] && eslint";
        let Some(env) = project(&contract.replace("NAME", name), "") else { return };
        env.write(".gitignore", format!("{name}/\nnode_modules/\n"));
        venv(&env, name, "honest");
        program(&env.work().join("node_modules/.bin/eslint"), "exit 0");
        let env = commit(env.agent(&format!("{AGENT}echo 'echo cheated' > {name}/bin/mytool\n")));
        env.approve().provost(&["run"]).exits(0);
        let environment = verdicts(&env)[0]["environment"].clone();
        let path = environment["path"].to_string();
        assert!(path.contains(&format!("/{name}/bin")) && path.contains("/node_modules/.bin"), "{path}");
        assert!(environment["variables"]["VIRTUAL_ENV"].as_str().unwrap().ends_with(name), "{environment}");
        env.provost(&["recheck", "1"]).exits(0);
    }
}

#[test]
fn an_environment_that_an_agent_made_or_changed_is_not_used_by_the_next_plan() {
    let Some(env) = project("test -f out/1", "") else { return };
    env.write(".gitignore", ".venv/\n");
    let env = commit(env.agent(&format!(
        "{AGENT}mkdir -p .venv/bin; echo 'home = /usr/bin' > .venv/pyvenv.cfg\n\
         printf '#!/bin/bash\\nexit 0\\n' > .venv/bin/mytool; chmod +x .venv/bin/mytool\n"
    )));
    env.approve().provost(&["run"]).exits(0);
    let waiting = env.provost(&["trust"]).exits(0).out;
    assert!(waiting.contains(".venv: step 1 of plan"), "{waiting}");
    env.write("PLAN.md", plan("mytool && test -f out/2", ""));
    let env = commit(env.agent("echo done > out/2\n"));
    env.approve();
    env.provost(&["run"]).exits(4);
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("`mytool` is not on the PATH of checks") && log.contains("provost trust"), "{log}");
    assert!(!env.work().join("out/2").exists(), "no agent is given work that cannot be judged");
}

#[test]
fn a_tool_that_the_person_installs_after_the_failure_is_found_by_the_next_check() {
    let Some(env) = project("[ \"$(mytool)\" = honest ] && test -f out/1", "") else { return };
    env.write(".gitignore", ".venv/\n");
    env.write("pyproject.toml", "[tool.poetry]\nname = \"x\"\n");
    let env = commit(env);
    env.approve().provost(&["run"]).exits(4);
    assert!(!env.work().join("out/1").exists(), "no attempt was used up");
    venv(&env, ".venv", "honest");
    let items = env.provost(&["inbox", "--json"]).exits(0).json();
    let items = items.as_array().cloned().unwrap_or_else(|| items["items"].as_array().cloned().unwrap());
    env.provost(&["answer", items[0]["id"].as_str().unwrap(), "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(verdicts(&env).last().unwrap()["outcome"]["kind"], "held");
}

#[test]
fn a_missing_tool_never_passes_a_negation_and_names_the_line_that_mends_it() {
    for contract in ["! python3 -m pytest_asyncio", "python3 -m pytest_asyncio"] {
        let Some(env) = project(&format!("test -f out/1 && {contract}"), "") else { return };
        env.write("poetry.lock", "");
        let env = commit(env);
        env.approve();
        assert_ne!(env.provost(&["run"]).code, 0);
        let verdict = verdicts(&env).last().unwrap().clone();
        assert_eq!(verdict["outcome"]["kind"], "not_run", "{verdict}");
        let reason = verdict["outcome"]["reason"].as_str().unwrap();
        assert!(reason.contains("`pytest_asyncio` is not installed"), "{reason}");
        assert!(reason.contains("here: `poetry install`"), "{reason}");
    }
}

#[test]
fn the_verdict_names_the_versions_of_the_tools_and_the_lock_files() {
    let Some(env) = project("test -f out/1 && python3 -c 'pass'", "") else { return };
    env.write("poetry.lock", "# locked\n");
    let env = commit(env);
    env.approve().provost(&["run"]).exits(0);
    let environment = verdicts(&env)[0]["environment"].clone();
    let version = environment["tools"]["python3"]["version"].as_str().unwrap();
    assert!(version.starts_with("Python 3."), "{environment}");
    assert_eq!(environment["locks"]["poetry.lock"].as_str().map(str::len), Some(64), "{environment}");
}

#[test]
fn programs_of_the_workspaces_environment_start_its_copy_without_bubblewrap_too() {
    for level in ["guard+clean", "landlock"] {
        let env = Env::new(&plan("test -f out/1 && [ \"$(mytool)\" = honest ]", ""));
        env.write(".gitignore", ".venv/\n");
        let root = env.work().join(".venv");
        program(&root.join("bin/python"), "echo honest");
        let first_line = format!("#!{}\n", root.join("bin/python").display());
        program(&root.join("bin/mytool"), "");
        std::fs::write(root.join("bin/mytool"), first_line).unwrap();
        std::fs::write(root.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        let cheat = "printf '#!/bin/bash\\necho cheated\\n' > .venv/bin/python\n";
        let env = commit(env.agent(&format!("{AGENT}{cheat}")).isolation(level));
        let mut person = env.person();
        person.approve();
        let ran = env.provost(&["run"]);
        if ran.err.contains("is not available here") {
            skip::tool(level, &format!("`provost doctor` says what is missing: {}", ran.err));
            continue;
        }
        ran.exits(0);
        assert_eq!(verdicts(&env)[0]["outcome"]["kind"], "held", "{level}");
    }
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

/// The git commands of the manual's examples.
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
    if level == "clean" && !env.has_fences() {
        return None;
    }
    let env = commit(env.isolation(level));
    env.git(&["tag", "--annotate", "--message", "first", "v1.0"]);
    // Configuration that would run programs if a check used it.
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
        if ran.err.contains("is not available here") {
            skip::tool(level, &format!("`provost doctor` says what is missing: {}", ran.err));
            continue;
        }
        ran.exits(0);
        assert_eq!(verdicts(&env)[0]["outcome"]["kind"], "held", "{level}");
    }
}

/// Returns a writable folder outside of the workspace, `/tmp` and home.
fn outside() -> Option<tempfile::TempDir> {
    let places = ["/var/lib", "/srv", "/opt", "/var/local", "/mnt"].iter().map(Path::new);
    let made = places.chain([Path::new(env!("CARGO_TARGET_TMPDIR"))]).find_map(|place| {
        let made = tempfile::Builder::new().prefix("provost-test-").tempdir_in(place).ok()?;
        (!made.path().starts_with("/tmp")).then_some(made)
    });
    if made.is_none() {
        skip::user(skip::User::Root);
    }
    made
}

fn declare(env: &Env, lines: &str) {
    env.write("provost.toml", format!("{}\n[verify]\n{lines}\n", env.read("provost.toml")));
    env.git(&["commit", "--quiet", "--all", "--message", "declared"]);
}

#[test]
fn what_a_check_cannot_see_is_not_absent() {
    let Some(place) = outside() else { return };
    let old = place.path().join("old");
    std::fs::write(&old, "old\n").unwrap();
    let contract = format!("test -f out/1 && test ! -e {}", old.display());
    let Some(env) = project(&contract, "") else { return };
    let verified = env.provost(&["verify"]).exits(0);
    let warned = format!("{}{}", verified.out, verified.err);
    assert!(warned.contains("P078") && warned.contains("a check cannot see"), "{warned}");
    env.approve().provost(&["run"]).exits(4);
    assert!(!env.work().join("out/1").exists(), "no agent is given work that cannot be judged");
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains(&format!("read = [\\\"{}\\\"] under [verify]", old.display())), "{log}");
    // If the path is declared, the check sees the file, so the contract breaks.
    declare(&env, &format!("read = [\"{}\"]", place.path().display()));
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains(&format!("checks may read {}", place.path().display())), "{shown}");
    env.approve();
    let ran = env.provost(&["run"]);
    assert_ne!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(verdicts(&env).iter().all(|verdict| verdict["outcome"]["kind"] != "held"));
}

#[test]
fn a_script_that_looks_elsewhere_is_noticed_too() {
    let Some(place) = outside() else { return };
    std::fs::write(place.path().join("old"), "old\n").unwrap();
    let Some(env) = project("test -f out/1 && bash check.sh", "") else { return };
    env.write("check.sh", format!("#!/bin/bash\n[ ! -e {}/old ]\n", place.path().display()));
    let env = commit(env);
    env.approve().provost(&["run"]).exits(4);
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("check.sh, which it runs, names"), "{log}");
}

#[test]
fn agents_write_and_checks_read_only_what_was_declared_for_them() {
    let Some(place) = outside() else { return };
    let (data, out) = (place.path().join("data"), place.path().join("out"));
    std::fs::create_dir(&data).unwrap();
    std::fs::create_dir(&out).unwrap();
    std::fs::write(data.join("in"), "42\n").unwrap();
    let contract = format!(
        "test -f out/1 && [ \"$(cat {}/result)\" = 42 ] && ! touch {}/new 2>/dev/null",
        out.display(),
        data.display()
    );
    let Some(env) = project(&contract, "") else { return };
    let env = env.agent(&format!(
        "{AGENT}touch {data}/mine 2>/dev/null && echo cheated > {out}/result || cp {data}/in {out}/result\n",
        data = data.display(),
        out = out.display()
    ));
    let config = format!(
        "[agents.coder]\ndriver = \"command\"\ncommand = [\"bash\", \"agent.sh\"]\nread = [\"{data}\"]\nwrite = [\"{out}\"]\n\
         [verify]\nread = [\"{data}\", \"{out}\"]\n",
        data = data.display(),
        out = out.display()
    );
    env.write("provost.toml", config);
    let env = commit(env);
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains(&format!("coder may read and write {}", out.display())), "{shown}");
    env.approve().provost(&["run"]).exits(0);
    assert_eq!(std::fs::read_to_string(out.join("result")).unwrap(), "42\n");
    assert!(!data.join("mine").exists() && !data.join("new").exists());
}

#[test]
fn a_path_into_the_workspace_means_the_tree_of_the_check_at_every_level() {
    for level in ["clean", "guard+clean", "landlock"] {
        let env = Env::new("").agent(&format!("{AGENT}mkdir -p elsewhere; echo x > elsewhere/1\n"));
        let contract = format!("test -f {0}/out/1 && test ! -e {0}/elsewhere/1", env.work().display());
        env.write("PLAN.md", plan(&contract, ""));
        let env = commit(env.isolation(level));
        let mut person = env.person();
        person.approve();
        let ran = env.provost(&["run"]);
        if ran.err.contains("is not available here") {
            skip::tool(level, &format!("`provost doctor` says what is missing: {}", ran.err));
            continue;
        }
        ran.exits(0);
        assert_eq!(verdicts(&env)[0]["outcome"]["kind"], "held", "{level}");
    }
}

#[test]
fn a_check_is_given_a_secret_knowingly_and_no_agent_ever_is() {
    let fields = "**network:** on\n**secrets:** CHECK_THING\n";
    let Some(env) =
        project("test -f out/1 && test ! -s out/2 && [ ${#CHECK_THING} = 16 ] && echo $CHECK_THING", fields)
    else {
        return;
    };
    let env = commit(env.agent(&format!("{AGENT}printf '%s' \"$CHECK_THING\" > out/2\n")));
    let undeclared = env.provost(&["verify"]);
    assert!(undeclared.code != 0 && format!("{}{}", undeclared.out, undeclared.err).contains("P079"));
    declare(&env, "secrets = [\"CHECK_THING\"]");
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("checks of step 1 are given CHECK_THING, and have a network"), "{shown}");
    env.approve();
    // If the variable is not set, no agent runs, and the message names the fix.
    env.provost(&["run"]).exits(4);
    assert!(!env.work().join("out/1").exists());
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("CHECK_THING is not set where provost runs"), "{log}");
    let item = env.provost(&["inbox", "--json"]).exits(0).json();
    let items =
        item.as_array().cloned().unwrap_or_else(|| item["items"].as_array().cloned().unwrap_or_default());
    let id = items[0]["id"].as_str().unwrap().to_owned();
    env.provost(&["answer", &id, "retry"]).exits(0);
    let ran = answer(env.command(&["run"]).env("CHECK_THING", "quite-some-value").output().unwrap()).exits(0);
    assert_eq!(verdicts(&env).last().unwrap()["outcome"]["kind"], "held");
    let log = env.provost(&["log", "--json"]).exits(0).out;
    for text in [&log, &ran.out, &ran.err] {
        assert!(!text.contains("quite-some-value"), "{text}");
    }
    assert!(log.contains("[redacted:CHECK_THING]"), "{log}");
}
