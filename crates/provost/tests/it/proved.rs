//! Tests `provost proved`: which parts of a step's change its contract notices.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::env::Env;

const TESTS: &str = "import unittest\nimport calc\n\n\nclass Adds(unittest.TestCase):\n    def test_add(self):\n        \
                     self.assertEqual(calc.add(1, 2), 3)\n";

/// A function that the test calls, one that nothing calls, and a comment.
const CALC: &str = "# Adds.\ndef add(a, b):\n    return a + b\n\n\ndef lost(a):\n    if a == 1:\n        \
                    return 2\n    return a\n";

fn plan(contract: &str) -> String {
    format!(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"calc.py\", \"extra.py\", \"README.md\"]\n---\n\n\
         # A plan\n\n## Steps\n\n### 1. Add\n\n**target:** coder\n\n**task:**\nAdd it.\n\n**contract:**\n\
         ```shell\n{contract}\n```\nexit_code == 0\n**on_fail:** escalate\n"
    )
}

/// The contract counts its runs in a folder outside of the tree, because nothing of a run is kept.
fn counting(env: &Env) -> String {
    format!("echo run >> {}; python3 -m unittest -q test_calc", env.folder().join("runs/log").display())
}

/// Returns a project whose plan has passed with this content of `calc.py`.
fn project(calc: &str, more: &str) -> Option<Env> {
    let env = Env::new(&plan("true"));
    if !env.has_fences() {
        return None;
    }
    std::fs::create_dir(env.folder().join("runs")).unwrap();
    env.write("PLAN.md", plan(&counting(&env)));
    let folder = env.folder().join("runs");
    let config =
        format!("{}[verify]\nwrite = [{:?}]\n", env.read("provost.toml"), folder.display().to_string());
    env.write("provost.toml", config);
    env.write("test_calc.py", TESTS);
    env.write("calc.py", "VERSION = 1\n");
    let env = env.agent(&format!("cat > calc.py <<'END'\n{calc}END\n{more}\n"));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    env.approve();
    env.provost(&["run"]).exits(0);
    Some(env)
}

/// Returns the number of runs of the contract so far.
fn runs(env: &Env) -> usize {
    std::fs::read_to_string(env.folder().join("runs/log")).unwrap_or_default().lines().count()
}

fn marks(answer: &Value) -> Vec<String> {
    let hunks = answer["steps"][0]["hunks"].as_array().cloned().unwrap_or_default();
    let one = |hunk: &Value| {
        let text = |key: &str| hunk[key].as_str().unwrap_or_default().to_owned();
        format!("{}:{}-{} {}", text("path"), hunk["first_line"], hunk["last_line"], text("mark"))
    };
    hunks.iter().map(one).collect()
}

#[test]
fn a_function_that_a_test_calls_is_proved_and_one_that_nothing_calls_is_not() {
    let Some(env) = project(CALC, "echo words > README.md") else { return };
    let log = env.provost(&["log", "--json"]).out;
    let before = runs(&env);
    let shown = env.provost(&["proved", "1"]).exits(0);
    assert!(shown.out.contains("✓ calc.py:1-3"), "{}", shown.out);
    assert!(shown.out.contains("✗ calc.py:6-9"), "{}", shown.out);
    assert!(shown.out.contains("test_add failed"), "the test is named: {}", shown.out);
    assert!(
        shown.out.contains("– README.md:1") && shown.out.contains("not code: a document"),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("1 of 2 hunks is proved (50 %)"), "{}", shown.out);
    assert!(shown.err.contains("[2/2]"), "progress: {}", shown.err);
    let made = runs(&env) - before;
    let json = env.provost(&["proved", "1", "--json"]).exits(0).json();
    assert_eq!(
        marks(&json),
        ["README.md:1-1 not_tried", "calc.py:1-3 proved", "calc.py:6-9 unproved"],
        "{json}"
    );
    assert_eq!(runs(&env) - before, made, "nothing is run twice");
    assert_eq!(json["steps"][0]["runs"], 0, "{json}");
    assert_eq!(json["steps"][0]["percent"], 50, "{json}");
    // The control, the first function taken out and sabotaged, the second taken out and three sabotages.
    assert_eq!(made, 7, "{json}");
    assert_eq!(env.provost(&["log", "--json"]).out, log, "nothing is recorded");
}

#[test]
fn the_results_are_shown_beside_the_diff_and_as_sarif() {
    let Some(env) = project(CALC, "") else { return };
    let unknown = env.provost(&["changes", "1", "--proved"]).exits(0);
    assert!(!unknown.out.contains('✓') && unknown.err.contains("provost proved 1"), "{}", unknown.err);
    env.provost(&["proved"]).exits(0);
    let before = runs(&env);
    let shown = env.provost(&["changes", "1", "--proved"]).exits(0).out;
    assert!(shown.contains("✓ +def add(a, b):") && shown.contains("✗ +def lost(a):"), "{shown}");
    assert!(shown.contains("  +++ b/calc.py"), "{shown}");
    let sarif = env.provost(&["proved", "1", "--sarif"]).exits(0).json();
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let [result] = &results[..] else { panic!("one result: {sarif}") };
    assert_eq!(result["ruleId"], sarif["runs"][0]["tool"]["driver"]["rules"][0]["id"]);
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "calc.py");
    assert_eq!(place["region"]["startLine"], 6);
    env.provost(&["proved", "1", "--sarif=found.sarif"]).exits(0);
    assert_eq!(serde_json::from_str::<Value>(&env.read("found.sarif")).unwrap(), sarif);
    assert_eq!(runs(&env), before, "nothing is run for it");
}

#[test]
fn a_hunk_without_which_nothing_loads_is_decided_by_its_sabotages_or_left_open() {
    let calc = "from extra import one\n\n\ndef add(a, b):\n    return one(a) + b\n";
    let extra = "printf 'def one(a):\\n    return a\\n' > extra.py";
    let Some(env) = project(calc, extra) else { return };
    let json = env.provost(&["proved", "1", "--json"]).exits(0).json();
    let expected = ["calc.py:1-1 not_buildable", "calc.py:4-5 proved", "extra.py:1-2 proved"];
    assert_eq!(marks(&json), expected, "{json}");
    let hunks = &json["steps"][0]["hunks"];
    assert_eq!(hunks[2]["runs"][0]["result"], "not_built", "the file is missing: {json}");
    assert_eq!(hunks[2]["runs"][1]["result"], "red", "a sabotage shows more: {json}");
    assert_eq!(json["steps"][0]["percent"], 100, "it does not count: {json}");
    assert_eq!(json["steps"][0]["not_buildable"], 1, "{json}");
}

#[test]
fn without_time_nothing_is_tried_and_the_next_call_goes_on() {
    let Some(env) = project(CALC, "") else { return };
    let json = env.provost(&["proved", "1", "--time-limit", "1ms", "--json"]).exits(0).json();
    assert_eq!(marks(&json), ["calc.py:1-3 not_tried", "calc.py:6-9 not_tried"], "{json}");
    assert_eq!(json["steps"][0]["percent"], 0, "what was not tried is not proved: {json}");
    let json = env.provost(&["proved", "1", "--jobs", "1", "--json"]).exits(0).json();
    assert_eq!(marks(&json), ["calc.py:1-3 proved", "calc.py:6-9 unproved"], "{json}");
}

#[test]
fn a_step_that_cannot_be_mapped_is_refused_with_a_reason() {
    let env = Env::new(&plan("test -f calc.py")).agent("true\n").isolation("in-place");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    env.approve();
    assert!(env.provost(&["proved", "1"]).exits(5).err.contains("step 1 has not been tried yet"));
    assert!(env.provost(&["proved", "9"]).exits(5).err.contains("there is no step 9"));
    assert!(env.provost(&["proved"]).exits(0).err.contains("no step of this plan has passed"));
    assert_eq!(env.provost(&["proved", "1", "--jobs", "0"]).code, 2);
    assert_eq!(env.provost(&["proved", "1", "--time-limit", "soon"]).code, 2);
    assert_eq!(env.provost(&["proved", "1", "--json", "--sarif"]).code, 2);
    assert_eq!(env.provost(&["changes", "1", "--proved", "--stat"]).code, 2);
}

#[test]
fn an_interrupted_map_keeps_what_is_known() {
    let functions: String = (0..6).map(|number| format!("def f{number}(a):\n    return a\n\n\n")).collect();
    let Some(env) = project(&format!("{functions}def add(a, b):\n    return a + b\n"), "") else { return };
    let mut child = env.start(&["proved", "1", "--jobs", "1"]);
    let known = || std::fs::read_dir(env.state().join("proved")).map_or(0, Iterator::count);
    let ends = Instant::now() + Duration::from_secs(60);
    while known() == 0 && Instant::now() < ends {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(130 | 0)), "{code:?}");
    let json = env.provost(&["proved", "1", "--json"]).exits(0).json();
    let hunks = json["steps"][0]["hunks"].as_array().unwrap();
    assert!(hunks.len() == 7 && hunks.iter().all(|hunk| hunk["mark"] != "not_tried"), "{json}");
    // The control, and each function taken out and with another value returned.
    assert!(json["steps"][0]["runs"].as_u64().unwrap() < 1 + 7 * 2, "something was known: {json}");
}

/// Returns an approved project. Its agent writes a function that nothing tests, and removes it if the prompt
/// names it.
fn demanding(fields: &str, config: &str) -> Option<Env> {
    let text = plan("python3 -m unittest -q test_calc");
    let text =
        text.replace("**on_fail:** escalate", &format!("{fields}**on_fail:** retry(1), then escalate"));
    let env = Env::new(&text);
    if !env.has_fences() {
        return None;
    }
    env.write("provost.toml", format!("{}[verify]\n{config}", env.read("provost.toml")));
    env.write("test_calc.py", TESTS);
    env.write("calc.py", "VERSION = 1\n");
    let good = "def add(a, b):\n    return a + b\n";
    let script = format!(
        "if grep -q 'unproved calc.py:6-9'; then cat > calc.py <<'END'\n{good}END\n\
         else cat > calc.py <<'END'\n{CALC}END\nfi\n"
    );
    let env = env.agent(&script);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    Some(env)
}

fn verdicts(env: &Env) -> Vec<Value> {
    let log = env.provost(&["log", "--json"]).exits(0).lines().into_iter();
    let judged =
        log.filter(|event| event["event"] == "CONTRACT_JUDGED").map(|event| event["details"].clone());
    judged
        .filter(|each| each["subject"].get("contract").is_some())
        .map(|each| each["verdict"].clone())
        .collect()
}

#[test]
fn a_step_that_must_be_proved_passes_after_the_agent_was_told_what_is_not() {
    let Some(env) = demanding("**prove:** yes\n", "") else { return };
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("the contract must prove all changed code"), "{shown}");
    env.approve();
    env.provost(&["run"]).exits(0);
    let all = verdicts(&env);
    let [first, second] = &all[..] else { panic!("two attempts: {all:?}") };
    assert_eq!(first["outcome"]["kind"], "broke", "{first}");
    assert!(first["unmet"][0].as_str().unwrap().contains("1 of 2 hunks is proved (50 %)"), "{first}");
    assert!(first["unmet"][1].as_str().unwrap().starts_with("unproved calc.py:6-9"), "{first}");
    let share = serde_json::json!({ "proved": 1, "hunks": 1, "demanded": 100 });
    assert_eq!((&second["outcome"]["kind"], &second["proved"]), (&"held".into(), &share), "{second}");
    let audit = env.provost(&["audit", "--json"]).exits(0).json();
    let proofs = audit["proofs"].as_str().unwrap_or_default();
    let key = audit["key"].as_str().unwrap_or_default();
    let opened = env.provost(&["audit", "--proof", proofs, "--key", key, "--json"]).exits(0).lines();
    assert_eq!(opened[0]["statement"]["predicate"]["verdict"]["proved"], share, "it is in the proof");
    let before = env.provost(&["proved", "1", "--json"]).exits(0).json();
    assert_eq!(before["steps"][0]["runs"], 0, "the run has kept its results: {before}");
}

#[test]
fn the_configuration_demands_a_share_that_the_approval_covers() {
    let Some(env) = demanding("", "min_proved = \"50%\"\n") else { return };
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("contracts must prove 50 % of the changed code"), "{shown}");
    env.approve();
    env.provost(&["run"]).exits(0);
    let all = verdicts(&env);
    assert_eq!((all.len(), &all[0]["proved"]["hunks"]), (1, &2.into()), "half is enough: {all:?}");
    for wrong in ["80", "0%", "101%", "much"] {
        let Some(env) = demanding("", &format!("min_proved = \"{wrong}\"\n")) else { return };
        let said = env.provost(&["show"]).exits(2).err;
        assert!(said.contains("`min_proved` must be a share"), "{wrong}: {said}");
    }
    let Some(env) = demanding("**prove:** no\n", "min_proved = \"100%\"\n") else { return };
    env.approve();
    env.provost(&["run"]).exits(0);
    assert!(verdicts(&env)[0].get("proved").is_none(), "the step is exempt");
}

#[test]
fn without_time_to_prove_a_step_does_not_pass() {
    let config = "min_proved = \"50%\"\nproved_time_limit = \"1ms\"\n";
    let Some(env) = demanding("", config) else { return };
    env.approve();
    env.provost(&["run"]).exits(4);
    let all = verdicts(&env);
    assert_eq!(all[0]["proved"]["not_tried"], 2, "{all:?}");
    let unmet = all[0]["unmet"].to_string();
    assert!(unmet.contains("not tried calc.py:1-3: the time limit was reached"), "{unmet}");
}
