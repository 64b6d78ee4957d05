//! Tests that the results of single tests are shown wherever a verdict is: at the gate, in a run, in
//! `status`, in the prompt of the next attempt and on the page.

use crate::env::Env;

const TESTS: &str = "import calc, unittest\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        \
                     self.assertEqual(calc.add(2, 3), 5)\n\n    def test_sub(self):\n        \
                     self.assertEqual(calc.sub(3, 2), 1)\n\n    def test_old(self):\n        self.assertTrue(calc.OLD)\n";
const CODE: &str =
    "OLD = False\n\n\ndef add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n";

/// A project in which two of three tests fail, and a step that fixes one of them.
fn project(agent: &str) -> Option<Env> {
    let plan = "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"calc.py\"]\n---\n\n# A plan\n\n## Steps\n\n\
                ### 1. Add\n\n**target:** coder\n\n**task:**\nMake add work.\n\n**contract:**\n```shell\n\
                python3 -m unittest -q\n```\ntests fixed: test_add\nno new failures\n**on_fail:** retry(1), then escalate\n";
    let env = Env::new(plan).agent(agent);
    if !env.has_fences() {
        return None;
    }
    env.write("calc.py", CODE);
    env.write("test_calc.py", TESTS);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "two of three tests fail"]);
    Some(env)
}

#[test]
fn a_step_passes_although_another_test_failed_before() {
    let Some(env) = project("sed -i '0,/a - b/s//a + b/' calc.py\n") else { return };
    let tried = env.provost(&["try", "python3 -m unittest -q"]).exits(1).out;
    assert!(tried.contains("tests   3, 2 fail") && tried.contains("it fails on both"), "{tried}");
    env.write("calc.py", CODE.replacen("a - b", "a + b", 1));
    let tried = env.provost(&["try", "python3 -m unittest -q"]).exits(1).out;
    assert!(tried.contains("write `no new failures` after the block"), "{tried}");
    env.write("calc.py", CODE);
    env.provost(&["verify"]).exits(0);
    let shown = env.provost(&["show"]).exits(0).out;
    env.approve();
    assert!(shown.contains("2 of 3 tests fail on the base: test_calc.Calc.test_add, "), "{shown}");
    let run = env.provost(&["run"]).exits(0).out;
    assert!(run.contains("3 tests, 1 fixed"), "{run}");
    assert!(run.contains("1 test failed before the work and fails now: test_calc.Calc.test_old"), "{run}");
    let status = env.provost(&["status"]).exits(0).out;
    assert!(
        status.contains("✅ Add") && status.contains("tests: 1 fixed, 1 failing before too, 1 still passing"),
        "{status}"
    );
    let json = env.provost(&["status", "--json"]).exits(0).json();
    let results = &json["steps"][0]["verdict"]["test_results"];
    assert_eq!(results["changes"]["fixed"]["names"][0], "test_calc.Calc.test_add", "{results}");
    assert_eq!((&results["passed"], &results["failed"]), (&2.into(), &1.into()), "{results}");
}

#[test]
fn the_next_attempt_is_told_which_tests_are_red_and_were_not() {
    let agent = "cat > ../prompt-$(ls .. | grep -c '^prompt-').md\nsed -i 's/a - b/a + b/' calc.py\n";
    let Some(env) = project(agent) else { return };
    env.approve();
    let run = env.provost(&["run"]).exits(4).out;
    assert!(
        run.contains("1 test did not fail before the work and fails now: test_calc.Calc.test_sub"),
        "{run}"
    );
    let prompt = env.provost(&["log", "--json"]).exits(0).out;
    assert!(prompt.contains("test_calc.Calc.test_sub"), "{prompt}");
    let status = env.provost(&["status", "--json"]).exits(0).json();
    let broken = &status["steps"][0]["verdict"]["test_results"]["changes"]["broken"];
    assert_eq!(broken["names"], serde_json::json!(["test_calc.Calc.test_sub"]), "{status}");
    let tried = env.provost(&["try", "1"]).exits(1).out;
    assert!(tried.contains("tests: 1 fixed, 1 broken, 1 failing before too, 0 still passing"), "{tried}");
}

#[test]
fn a_test_that_an_agent_removes_does_not_pass() {
    // The tests are outside of `touches`, so the code hides them.
    let fix = "sed -i '0,/a - b/s//a + b/; s/return a - b/return 0/' calc.py\n";
    for (cheat, words) in [
        (
            "names = unittest.TestLoader.getTestCaseNames\nunittest.TestLoader.getTestCaseNames = \
             lambda s, c: [n for n in names(s, c) if n != 'test_sub']",
            "gone: test_calc.Calc.test_sub",
        ),
        (
            "unittest.TextTestResult.addFailure = lambda s, t, e: s.addSuccess(t)",
            "fails now: test_calc.Calc.test_sub",
        ),
        (
            "run = unittest.TestCase.run\nunittest.TestCase.run = lambda s, r: \
             r.addSuccess(s) if 'sub' in s.id() else run(s, r)",
            "3 tests were run before, 2 now",
        ),
    ] {
        let agent = format!("{fix}cat >> calc.py <<'EOF'\nimport unittest\n{cheat}\nEOF\n");
        let Some(env) = project(&agent) else { return };
        env.approve();
        let run = env.provost(&["run"]).exits(4).out;
        assert!(run.contains(words), "{cheat}\n{run}");
        assert_ne!(env.states(), "1 passed", "{cheat}");
    }
}
