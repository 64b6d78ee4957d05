//! Tests `provost try`: a check on the base and on the workspace, before any agent runs.

use crate::env::Env;

fn plan(contract: &str, fields: &str) -> String {
    format!(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n\n\
         ### 1. Make it\n\n**target:** coder\n\n**task:**\nMake it.\n\n{fields}**contract:**\n```shell\n{contract}\n```\n\
         exit_code == 0\n**on_fail:** escalate\n"
    )
}

fn project(contract: &str, fields: &str) -> Option<Env> {
    let env = Env::new(&plan(contract, fields)).agent("exit 1\n");
    if !env.has_fences() {
        return None;
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    Some(env)
}

#[test]
fn a_contract_is_tried_on_the_base_and_on_the_workspace_and_nothing_is_recorded() {
    let Some(env) = project("echo looking; grep -q done out/1", "") else { return };
    let before = env.read("PLAN.md");
    let red = env.provost(&["try", "1"]).exits(1).out;
    assert!(red.contains("it fails on both"), "{red}");
    std::fs::create_dir(env.work().join("out")).unwrap();
    env.write("out/1", "done\n");
    let green = env.provost(&["try", "1"]).exits(0).out;
    assert!(green.contains("it fails on the base and holds on the workspace"), "{green}");
    assert!(green.contains("fails (exit 2)") && green.contains("1 changed file"), "{green}");
    assert_eq!(green.matches("looking").count(), 3, "the command and both outputs: {green}");
    let json = env.provost(&["try", "PLAN.md", "1", "--json"]).exits(0).json();
    assert_eq!(json["base"]["outcome"]["kind"], "broke", "{json}");
    assert_eq!(json["workspace"]["outcome"]["kind"], "held", "{json}");
    assert_eq!(env.read("PLAN.md"), before);
    assert!(env.provost(&["log", "--json"]).out.is_empty(), "nothing is recorded");
}

#[test]
fn a_command_is_tried_without_a_plan_with_the_tools_of_the_project() {
    let Some(env) = project("true", "") else { return };
    std::fs::remove_file(env.work().join("PLAN.md")).unwrap();
    env.write(".gitignore", ".venv/\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "no plan"]);
    let missing = env.provost(&["try", "mytool"]).exits(4).out;
    assert!(missing.contains("`mytool` is not on the PATH of checks"), "{missing}");
    let negated = env.provost(&["try", "! mytool"]).exits(4).out;
    assert!(negated.contains("could not be run"), "{negated}");
    let tool = env.work().join(".venv/bin/mytool");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::fs::write(&tool, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    let held = env.provost(&["try", "mytool"]).exits(0).out;
    assert!(held.contains("holds before the work already"), "{held}");
    assert!(!env.work().join("PLAN-try.md").exists() && !env.work().join(".harness").exists());
}

#[test]
fn what_only_an_approval_allows_is_not_tried_before_it() {
    let Some(env) = project("true", "**network:** on\n") else { return };
    let said = env.provost(&["try", "1"]).exits(4).out;
    assert!(said.contains("no person has approved the plan yet"), "{said}");
    env.approve();
    env.provost(&["try", "1"]).exits(0);
    assert_eq!(env.provost(&["try", "9"]).code, 5);
    assert_eq!(env.provost(&["try", "a", "b"]).code, 2);
}

#[test]
fn a_check_that_gives_two_results_on_the_same_files_is_flaky() {
    let Some(env) = project("grep -q done out/1", "") else { return };
    std::fs::create_dir(env.work().join("out")).unwrap();
    env.write("out/1", "done\n");
    let steady = env.provost(&["try", "1", "--runs", "3"]).exits(0).out;
    assert!(steady.contains("it fails on the base and holds on the workspace"), "{steady}");
    let json = env.provost(&["try", "1", "--runs", "3", "--json"]).exits(0).json();
    assert_eq!(json["again"].as_array().map(Vec::len), Some(2), "{json}");
    // A counter outside of the tree decides: every second run holds.
    let env = env.isolation("guard+clean");
    let counter = env.work().parent().expect("a folder").join("counter");
    let counter = counter.display();
    let flaky = format!(
        "[ -f {counter} ] || echo 0 > {counter}\nn=$(cat {counter})\necho $((n + 1)) > {counter}\ntest $((n % 2)) = 0"
    );
    let told = env.provost(&["try", &flaky, "--runs", "4"]).exits(1).out;
    assert!(told.contains("it is flaky: it held in 2 of 4 runs on the same files"), "{told}");
    env.provost(&["try", "1", "--runs", "0"]).exits(2);
}

const CODE: &str = "def total(prices):\n    s = sum(prices)\n    if s >= 100:\n        return s - 10\n    return s\n\n\ndef label(name):\n    return 'item ' + name\n";
const TESTS: &str = "import unittest\nfrom price import total\n\n\nclass T(unittest.TestCase):\n    def test_small(self):\n        \
                     self.assertEqual(total([1, 2]), 3)\n\n    def test_large(self):\n        self.assertEqual(total([60, 40]), 90)\n";
const RUN: &str = "python3 -m unittest -q test_price";

/// A committed Python project with two functions, of which the tests call one.
fn priced(contract: &str, task: &str) -> Option<Env> {
    let env = Env::new(&plan(contract, "").replace("Make it.", task)).agent("exit 1\n");
    if !env.has_fences() {
        return None;
    }
    env.write("price.py", CODE);
    env.write("test_price.py", TESTS);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    Some(env)
}

#[test]
fn a_contract_is_tried_on_a_commit_and_with_a_patch() {
    let Some(env) = priced("grep -q twenty price.py", "Make it.") else { return };
    env.write("price.py", CODE.replace("s - 10", "s - 20  # twenty"));
    env.git(&["commit", "--quiet", "--all", "--message", "more"]);
    let now = env.provost(&["try", RUN, "--json"]).exits(1).json();
    assert_eq!((&now["on"]["kind"], &now["tried"]), (&"workspace".into(), &now["workspace"]), "{now}");
    let before = env.provost(&["try", RUN, "--commit", "HEAD~1"]).exits(0).out;
    assert!(before.contains("it fails on the base and holds on the commit"), "{before}");
    assert!(before.contains("HEAD~1"), "{before}");
    let diff = "--- a/price.py\n+++ b/price.py\n@@ -4 +4 @@\n-        return s - 20  # twenty\n+        return s - 10\n";
    env.write("fix.diff", diff);
    let told = env.provost(&["try", RUN, "--patch", "fix.diff"]).exits(2).err;
    assert!(told.contains("the patch cannot be used: patch failed: price.py:4"), "without context: {told}");
    env.write(
        "fix.diff",
        diff.replace(
            "@@ -4 +4 @@",
            "@@ -1,5 +1,5 @@\n def total(prices):\n     s = sum(prices)\n     if s >= 100:",
        ) + "     return s\n",
    );
    let json = env.provost(&["try", RUN, "--patch", "fix.diff", "--json"]).exits(0).json();
    assert_eq!(json["tried"]["outcome"]["kind"], "held", "{json}");
    assert_eq!(json["on"]["name"], "fix.diff", "{json}");
    assert!(env.read("price.py").contains("twenty"), "the workspace is as it was");
}

#[test]
fn an_unknown_commit_and_a_hostile_patch_are_refused_in_plain_words() {
    let Some(env) = priced("true", "Make it.") else { return };
    for name in ["nowhere", "HEAD@{1}", "HEAD;x", "0123456789", ""] {
        let said = env.provost(&["try", "true", "--commit", name]).exits(2).err;
        assert!(said.contains(&format!("the repository has no commit `{name}`")), "{said}");
    }
    env.provost(&["try", "true", "--commit", "HEAD", "--patch", "x"]).exits(2);
    let file = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
    let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../../secret\n\\ No newline at end of file\n";
    for (patch, why) in [
        (file("../outside"), "invalid path '../outside'"),
        (file(".git/hooks/pre-commit"), "invalid path '.git/hooks/pre-commit'"),
        (file("/etc/outside"), "invalid path"),
        (link.to_owned(), "the link l leads out of the tree"),
        ("--- a/price.py\n+++ b/price.py\n@@ -1 +1 @@\n-other\n+x\n".to_owned(), "price.py"),
        ("no patch\n".to_owned(), "No valid patches"),
    ] {
        env.write("bad.diff", &patch);
        let said = env.provost(&["try", "true", "--patch", "bad.diff"]).exits(2).err;
        assert!(said.contains("the patch cannot be used") && said.contains(why), "{patch}: {said}");
    }
    assert!(!env.folder().join("outside").exists());
}

#[test]
fn sabotage_shows_what_a_contract_would_not_notice() {
    let Some(env) = priced(RUN, "Let the code in `price.py` be right.") else { return };
    let told = env.provost(&["try", "1", "--sabotage"]).exits(0);
    assert!(told.out.contains("✓ price.py:1-5") && told.out.contains("✗ price.py:8-9"), "{}", told.out);
    assert!(told.out.contains("it would not notice mistakes in price.py:8-9"), "{}", told.out);
    assert!(!told.out.contains("test_price.py:"), "tests are not sabotaged: {}", told.out);
    // No run is repeated.
    let json = env.provost(&["try", "1", "--sabotage", "--json"]).exits(0).json();
    assert_eq!((&json["sabotage"]["runs"], &json["sabotage"]["proved"]), (&0.into(), &1.into()), "{json}");
    let one = env.provost(&["try", RUN, "--sabotage", "--in", "price.py"]).exits(0).out;
    assert!(one.contains("it would not notice mistakes in price.py:8-9"), "{one}");
    let none = env.provost(&["try", RUN, "--sabotage"]).exits(0).out;
    assert!(none.contains("name some with --in"), "{none}");
    let red = env.provost(&["try", "false", "--sabotage", "--in", "price.py"]).exits(1).out;
    assert!(red.contains("no sabotage was tried: the contract fails on both trees"), "{red}");
    env.provost(&["try", RUN, "--in", "price.py"]).exits(2);
}

#[test]
fn the_task_can_name_the_function_to_sabotage() {
    let Some(env) = priced(RUN, "Let `label` in `price.py` write the name.") else { return };
    let told = env.provost(&["try", "1", "--sabotage"]).exits(0).out;
    assert!(told.contains("✗ price.py:8-9") && !told.contains("price.py:1-5"), "{told}");
}

/// The names of the reasons of a score.
fn reasons(env: &Env, command: &str) -> Vec<String> {
    let json = env.provost(&["try", command, "--json"]).json();
    let all = json["score"]["reasons"].as_array().cloned().unwrap_or_default();
    all.iter().map(|reason| reason["weakness"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_score_has_reasons_from_runs_and_from_the_text() {
    let Some(env) = priced("true", "Make it.") else { return };
    env.write("test_order.py", "import time\nimport unittest\n\nseen = []\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        seen.append(time.time())\n\n    def test_b(self):\n        self.assertTrue(seen)\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "tests"]);
    for (command, expected) in [
        (RUN, &["holds_on_base"][..]),
        ("test -f nothing", &["only_looks"]),
        ("true", &["holds_on_empty", "holds_on_base", "only_looks"]),
        ("python3 -m unittest -q test_order", &["holds_on_base", "order", "clock"]),
        ("python3 -c 'import price' > out.txt", &["holds_on_base", "writes"]),
        (
            "git diff --exit-code HEAD -- price.py && test $RANDOM -ge 0 -a -s price.py",
            &["holds_on_base", "chance", "git"],
        ),
        ("python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)'", &["network"]),
        ("no-such-tool", &["cannot_run"]),
    ] {
        assert_eq!(reasons(&env, command), expected, "{command}");
    }
    let told = env.provost(&["try", RUN]).exits(0).out;
    assert!(told.contains("score: 60 of 100, fair\n  -40 It holds before the work already"), "{told}");
}

#[test]
fn a_guard_may_hold_on_the_base() {
    let Some(env) = priced(RUN, "Make it.") else { return };
    let text = env.read("PLAN.md").replace("**contract:**", "**guard:** yes\n**contract:**");
    env.write("PLAN.md", text);
    let json = env.provost(&["try", "1", "--json"]).exits(0).json();
    assert_eq!(json["score"]["points"], 100, "{json}");
}

#[test]
fn the_page_lists_every_weakness_with_its_points() {
    use provost_core::rules::contract_score::Weakness;
    let page = crate::tidy::read("docs/try.md");
    let rows: Vec<(String, String)> = page
        .lines()
        .skip_while(|line| !line.starts_with("| weakness |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.split('|').map(|cell| cell.trim().to_owned()).skip(1);
            (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
        })
        .collect();
    let expected: Vec<(String, String)> =
        Weakness::ALL.iter().map(|each| (each.title().to_owned(), each.points().to_string())).collect();
    assert_eq!(rows, expected);
}
