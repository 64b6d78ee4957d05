//! Tests the first run in a new repository (`provost start`), `provost` without a command, and templates that
//! follow the language. A script plays Claude Code; everything else is real.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use provost_rehearsal::skip;
use serde_json::Value;

use crate::env::{Answer, Env, answer};
use crate::terminal::command_on_a_terminal;

/// Plays Claude Code: writes the test file that the prompt names, or mends the code.
const CLAUDE: &str = r#"#!/bin/bash
prompt=$(cat)
file=$(sed -n 's/.*Write `\([^`]*\)` in the style.*/\1/p' <<< "$prompt" | head -n 1)
case $file in
  *.py) body='import os, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from app import add
class First(unittest.TestCase):
    def test_usual(self): self.assertEqual(add(2, 3), 5)
    def test_edge(self): self.assertEqual(add(0, 0), 0)' ;;
  *.js) body='const test = require("node:test"), assert = require("node:assert");
const { add } = require("../index.js");
test("usual", () => assert.equal(add(2, 3), 5));
test("edge", () => assert.equal(add(0, 0), 0));' ;;
  *.rs) body='#[test]
fn usual() { assert_eq!(sample::add(2, 3), 5); }
#[test]
fn edge() { assert_eq!(sample::add(0, 0), 0); }' ;;
  *.go) body='package sample
import "testing"
func TestUsual(t *testing.T) { if Add(2, 3) != 5 { t.Fatal() } }
func TestEdge(t *testing.T) { if Add(0, 0) != 0 { t.Fatal() } }' ;;
  *) sed -i 's/a - b/a + b/' app.py ;;
esac
if [ -n "$body" ]; then mkdir -p "$(dirname "$file")"; printf '%s\n' "$body" > "$file"; fi
echo '{"type":"system","subtype":"init","session_id":"s1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"The test is written.","session_id":"s1","usage":{"input_tokens":100,"output_tokens":10}}'
"#;

const PYTHON: &[(&str, &str)] = &[
    ("app.py", "def add(a, b):\n    return a + b\n"),
    (
        "tests/test_app.py",
        "import os, sys, unittest\nsys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\nfrom app import add\nclass Adds(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1, 1), 2)\n",
    ),
];
const NODE: &[(&str, &str)] = &[
    ("package.json", "{\"name\": \"sample\", \"scripts\": {\"test\": \"node --test\"}}\n"),
    ("index.js", "exports.add = (a, b) => a + b;\n"),
    (
        "test/add.test.js",
        "const test = require(\"node:test\"), assert = require(\"node:assert\");\ntest(\"adds\", () => assert.equal(require(\"../index.js\").add(1, 1), 2));\n",
    ),
];
const RUST: &[(&str, &str)] = &[
    ("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("Cargo.lock", "version = 3\n\n[[package]]\nname = \"sample\"\nversion = \"0.1.0\"\n"),
    (
        "src/lib.rs",
        "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n#[test]\nfn adds() {\n    assert_eq!(add(1, 1), 2);\n}\n",
    ),
];
const GO: &[(&str, &str)] = &[
    ("go.mod", "module sample\n\ngo 1.19\n"),
    ("add.go", "package sample\n\nfunc Add(a, b int) int { return a + b }\n"),
    (
        "add_test.go",
        "package sample\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 1) != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
    ),
];

/// Creates a repository with these files and an agent on `PATH`, if the machine has sandboxes and the tool.
fn project(files: &[(&str, &str)], tool: &str) -> Option<Env> {
    let env = Env::new("");
    if !env.has_fences() {
        return None;
    }
    let version = if tool == "go" { "version" } else { "--version" };
    if !Command::new(tool).arg(version).output().is_ok_and(|said| said.status.success()) {
        skip::tool(tool, "`./test` installs it");
        return None;
    }
    for name in ["PLAN.md", "provost.toml"] {
        std::fs::remove_file(env.work().join(name)).expect("removed");
    }
    for (name, text) in files {
        env.write(name, text);
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    let program = env.folder().join("bin/claude");
    std::fs::create_dir(env.folder().join("bin")).expect("a folder");
    std::fs::write(&program, CLAUDE).expect("an agent");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    Some(env)
}

/// Returns the folder that a variable names, or the usual one in the home of the user of this test.
fn own(variable: &str, usual: &str) -> PathBuf {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    std::env::var_os(variable).map_or_else(|| home.join(usual), PathBuf::from)
}

/// Returns a command with the agent and the toolchains on its `PATH`.
fn command(env: &Env, arguments: &[&str]) -> Command {
    let mut command = env.command(arguments);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", env.folder().join("bin").display()));
    command.env("CARGO_HOME", own("CARGO_HOME", ".cargo")).env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"));
    command.env("PYENV_ROOT", own("PYENV_ROOT", ".pyenv"));
    command
}

fn provost(env: &Env, arguments: &[&str]) -> Answer {
    answer(command(env, arguments).output().expect("provost"))
}

fn untracked(env: &Env) -> String {
    let output = Command::new("git")
        .args(["status", "--short", "--untracked-files=all"])
        .current_dir(env.work())
        .output()
        .expect("git");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the first step without a terminal and checks everything that it leaves.
#[track_caller]
fn reaches_a_verified_step(env: &Env, language: &str, test: &str, file: &str) {
    let begun = std::time::Instant::now();
    let done = provost(env, &["start", "--yes", "--json"]).exits(0).json();
    eprintln!("start --yes in a {language} repository: {:.1} s", begun.elapsed().as_secs_f64());
    assert_eq!(done["project"]["language"], language);
    assert_eq!(done["chosen"], "claude");
    assert_eq!(done["checks"][0]["command"], test, "{done}");
    assert_eq!(done["checks"][0]["result"], "holds", "{done}");
    // `go test` prints no count.
    let counted = if language == "go" { Value::Null } else { 1.into() };
    assert_eq!(done["checks"][0]["tests"], counted, "{done}");
    let step = &done["plan"]["steps"][0];
    assert_eq!((&step["state"], &step["pass"]), (&"passed".into(), &"verified".into()), "{done}");
    assert_eq!(step["uncontrolled"], Value::Null, "{done}");
    assert_eq!(done["plan"]["approved_by"], "ada (by provost start --yes)");
    let files = ["provost.toml", ".harness/.gitignore", ".harness/PLAN-first.md"];
    assert_eq!(done["written"], serde_json::json!(files));
    assert_eq!(done["changed_by_agent"], serde_json::json!([file]));
    let config = env.read("provost.toml");
    assert!(config.contains("[agents.coder]\ndriver = \"claude\"\n"), "{config}");
    assert!(config.contains(&format!("[checks.test]\nrun = \"{test}\"\n")), "{config}");
    assert!(!untracked(env).contains("progress"), "{}", untracked(env));
    for next in done["next"].as_array().expect("commands") {
        works_when_pasted(env, next["command"].as_str().expect("a command"));
    }
    let again = provost(env, &["start", "--yes"]).exits(0);
    assert!(again.err.contains("the plan `first` exists"), "{}", again.err);
}

/// Runs a command that provost printed: it may wait or refuse, but the command line must be right.
#[track_caller]
fn works_when_pasted(env: &Env, line: &str) {
    let program = env!("CARGO_BIN_EXE_provost");
    let mut shell = Command::new("bash");
    for (name, value) in command(env, &[]).get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let line = line.replacen("provost", program, 1);
    let said = answer(shell.args(["-c", &line]).current_dir(env.work()).output().expect("bash"));
    assert!([0, 4].contains(&said.code), "{line}: {said:?}");
}

#[test]
fn a_python_repository_has_a_verified_step() {
    let Some(env) = project(PYTHON, "python3") else { return };
    reaches_a_verified_step(&env, "python", "python3 -m unittest discover -s tests", "tests/test_first.py");
}

#[test]
fn a_node_repository_has_a_verified_step() {
    let Some(env) = project(NODE, "node") else { return };
    reaches_a_verified_step(&env, "node", "npm test", "test/first.test.js");
}

#[test]
fn a_rust_repository_has_a_verified_step() {
    let Some(env) = project(RUST, "cargo") else { return };
    reaches_a_verified_step(&env, "rust", "cargo test", "tests/first.rs");
}

#[test]
fn a_go_repository_has_a_verified_step() {
    let Some(env) = project(GO, "go") else { return };
    reaches_a_verified_step(&env, "go", "go test ./...", "first_test.go");
}

#[test]
fn without_a_yes_nothing_is_run_or_written() {
    let Some(env) = project(PYTHON, "python3") else { return };
    let asked = provost(&env, &["start"]).exits(4);
    assert!(asked.err.contains("provost start --yes") && asked.err.contains("not tried"), "{}", asked.err);
    assert!(!env.work().join(".harness").exists());
    let dry = provost(&env, &["start", "--dry-run"]).exits(0);
    assert!(dry.err.contains("holds (1 test"), "{}", dry.err);
    assert!(dry.out.contains("+[agents.coder]") && dry.out.contains("# Add a test"), "{}", dry.out);
    assert!(!env.work().join(".harness").exists());
    assert_eq!(untracked(&env), "");
}

#[test]
fn a_person_at_a_terminal_is_asked_before_anything_is_written_or_run() {
    let Some(env) = project(PYTHON, "python3") else { return };
    let Some(no) = command_on_a_terminal(&env, &command(&env, &[]), "start", "y\nn\n") else { return };
    assert_eq!(no.code, 4, "{}", no.out);
    assert!(no.out.contains("nothing was written"), "{}", no.out);
    assert_eq!(untracked(&env), "");
    let Some(later) = command_on_a_terminal(&env, &command(&env, &[]), "start", "n\ny\nno, not now\n") else {
        return;
    };
    assert_eq!(later.code, 5, "{}", later.out);
    assert!(!env.work().join("tests/test_first.py").exists(), "no agent runs before the approval");
    assert!(!env.work().join(".harness/.gitignore").exists(), "the ignore rules were declined");
    let Some(yes) = command_on_a_terminal(&env, &command(&env, &[]), "start", "yes\n") else { return };
    assert_eq!(yes.code, 0, "{}", yes.out);
    assert!(yes.out.contains("Approve revision") && yes.out.contains("provost commit first"), "{}", yes.out);
}

#[test]
fn tests_that_fail_become_the_first_plan() {
    let Some(env) = project(PYTHON, "python3") else { return };
    env.write("app.py", "def add(a, b):\n    return a - b\n");
    env.git(&["commit", "--quiet", "--all", "--message", "broken"]);
    let done = provost(&env, &["start", "--yes", "--json"]).exits(0).json();
    assert_eq!(done["checks"][0]["result"], "fails", "{done}");
    assert_eq!(done["plan"]["title"], "Make the tests pass");
    assert_eq!(done["plan"]["steps"][0]["pass"], "verified", "{done}");
    assert_eq!(env.read("app.py"), "def add(a, b):\n    return a + b\n");
}

#[test]
fn a_check_that_cannot_run_is_named_and_nothing_is_written() {
    let Some(env) = project(PYTHON, "python3") else { return };
    let none = provost(&env, &["start", "--yes", "--test", "no-such-runner --all"]).exits(3);
    assert!(none.err.contains("cannot run: ") && none.err.contains("no-such-runner"), "{}", none.err);
    assert_eq!(untracked(&env), "");
}

#[test]
fn an_existing_configuration_is_kept_and_its_role_is_used() {
    let Some(env) = project(PYTHON, "python3") else { return };
    let own = "# mine\n[agents.writer]\ndriver = \"claude\"\n";
    env.write("provost.toml", own);
    let refused = provost(&env, &["start", "--yes", "--agent", "codex"]).exits(2);
    assert!(refused.err.contains("the role `writer` already"), "{}", refused.err);
    let done = provost(&env, &["start", "--yes", "--json"]).exits(0).json();
    assert_eq!(done["plan"]["steps"][0]["target"], "writer");
    let config = env.read("provost.toml");
    assert!(config.starts_with(own) && config.contains("[checks.test]"), "{config}");
    assert!(!config.contains("[agents.coder]"), "{config}");
}

#[test]
fn without_an_agent_provost_says_what_to_install() {
    let Some(env) = project(PYTHON, "python3") else { return };
    let bare = env.folder().join("bare");
    std::fs::create_dir(&bare).expect("a folder");
    for program in ["git", "bash"] {
        let found = ["/usr/bin", "/bin"].map(|folder| PathBuf::from(folder).join(program));
        let found = found.iter().find(|path| path.exists()).expect("a program");
        std::os::unix::fs::symlink(found, bare.join(program)).expect("a link");
    }
    let said =
        answer(command(&env, &["start", "--yes"]).env("PATH", &bare).output().expect("provost")).exits(2);
    assert!(said.err.contains("no agent is installed") && said.err.contains("provost demo"), "{}", said.err);
    assert!(said.err.contains("npm install -g @anthropic-ai/claude-code"), "{}", said.err);
    assert_eq!(untracked(&env), "");
}

#[test]
fn an_agent_cannot_start_a_plan_with_yes() {
    let Some(env) = project(PYTHON, "python3") else { return };
    let mut inside = command(&env, &["start", "--yes"]);
    let said = answer(inside.env("PROVOST_ATTEMPT", "first-1/1/1").output().expect("provost")).exits(5);
    assert!(said.err.contains("error: "), "{}", said.err);
    assert!(!env.work().join("provost.toml").exists());
}

#[test]
fn templates_follow_the_language() {
    for (files, tool, test) in
        [(PYTHON, "python3", "python3 -m unittest"), (NODE, "node", "npm test"), (GO, "go", "go test ./...")]
    {
        let Some(env) = project(files, tool) else { return };
        provost(&env, &["new", "fix", "--template", "bugfix", "--set", "issue=1"]).exits(0);
        let plan = env.read(".harness/PLAN-fix.md");
        assert!(plan.contains(test) && !plan.contains("cargo"), "{plan}");
    }
}

#[test]
fn provost_alone_says_where_you_are_and_what_to_do_next() {
    let Some(env) = project(PYTHON, "python3") else { return };
    let fresh = provost(&env, &[]).exits(0).out;
    assert!(
        fresh.contains("Python, not set up for provost") && fresh.contains("  provost start "),
        "{fresh}"
    );
    let state = |name: &str| {
        let here = provost(&env, &["--json"]).exits(0).json();
        for next in here["next"].as_array().expect("commands") {
            let line = next["command"].as_str().expect("a command");
            if !line.contains("demo") {
                works_when_pasted(&env, line);
            }
        }
        let plans = here["plans"].as_array().cloned().unwrap_or_default();
        let plan = plans.into_iter().find(|plan| plan["name"] == name);
        let plan = plan.unwrap_or_else(|| panic!("{name}: {here}"));
        works_when_pasted(&env, plan["command"].as_str().expect("a command"));
        plan["state"].as_str().expect("a state").to_owned()
    };
    provost(&env, &["new", "later", "--template", "bugfix", "--set", "issue=1"]).exits(0);
    env.write("provost.toml", "[agents.coder]\ndriver = \"claude\"\n");
    assert!(state("later").starts_with("draft, 0/"));
    assert!(state("later").starts_with("waiting for you, 0/"));
    provost(&env, &["start", "--yes"]).exits(0);
    assert_eq!(state("first"), "done, 1/1 step");
    let outside = answer(command(&env, &["-C", "/"]).output().expect("provost")).exits(0);
    assert!(outside.out.contains("no git repository"), "{}", outside.out);
    assert!(outside.out.contains("provost -C / demo"), "{}", outside.out);
    let none = answer(command(&env, &["-C", "/", "start", "--yes"]).output().expect("provost")).exits(2);
    assert!(none.err.contains("`git init` makes it one"), "{}", none.err);
    // The help stays.
    assert!(provost(&env, &["--help"]).exits(0).out.contains("Usage: provost"));
    provost(&env, &["no-such-command"]).exits(2);
}
