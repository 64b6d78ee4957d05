//! Tests that a pass that proves nothing is withheld, and that a hidden contract stays hidden.

use crate::env::{Env, plan};

/// Creates a step whose check is in `tests`, which the plan may touch.
fn tested(writes: &str) -> Env {
    let plan = plan(&["sh tests/run"], "escalate")
        .replace("[\"out/**\"]", "[\"src/**\", \"tests/**\"]")
        .replace("**target:** coder\n", &format!("**target:** coder\n{writes}"));
    let env = Env::new(&plan);
    env.write("tests/run", "test \"$(cat src/answer)\" = 42\n");
    env.write("src/answer", "6 * 9\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a test that fails"]);
    env
}

fn verdict(env: &Env) -> String {
    let status = env.provost(&["status", "--json"]).exits(0).json();
    let outcome = &status["steps"][0]["verdict"]["outcome"];
    format!("{} {}", outcome["kind"].as_str().unwrap_or("?"), outcome["reason"].as_str().unwrap_or(""))
}

#[test]
fn a_pass_that_only_the_tests_bought_goes_to_a_person() {
    for (agent, bought) in [
        ("echo true > tests/run", true),
        ("echo true > tests/run; echo forty-two > src/answer", true),
        ("echo 42 > src/answer", false),
        ("echo 42 > src/answer; echo '# more' >> tests/run", false),
    ] {
        let env = tested("").isolation("guard+clean").agent(agent);
        env.approve();
        let run = env.provost(&["run"]).exits(if bought { 4 } else { 0 });
        if bought {
            assert_eq!(verdict(&env), "vacuous it holds with only tests/run changed", "{agent}");
            assert!(run.out.contains("it holds with only tests/run changed"), "{}", run.out);
        }
    }
}

#[test]
fn a_person_may_say_that_it_is_well() {
    let env = tested("").isolation("guard+clean").agent("echo true > tests/run");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    person.provost(&["answer", "1", "confirm"]).exits(5);
    person.provost(&["answer", "1", "confirm", "--note", "the test was wrong"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed");
}

#[test]
fn a_step_that_is_there_to_write_tests_says_so_at_the_gate() {
    let env = tested("**writes:** tests\n").isolation("guard+clean").agent("echo true > tests/run");
    let shown = env.provost(&["show"]).exits(0);
    assert!(shown.out.contains("this step writes its own checks"), "{}", shown.out);
    env.approve();
    env.provost(&["run"]).exits(0);
}

#[test]
fn the_number_of_tests_is_told_and_none_is_none() {
    let counted = "python3 -m unittest -q";
    let plan = plan(&[counted], "escalate").replace("out/**", "calc.py");
    let test = "import calc, unittest\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n";
    for (agent, code, words) in [
        ("printf 'def add(a, b):\\n    return a + b\\n' > calc.py", 0, "1 test, 1 fixed)"),
        (
            "printf 'import unittest\\nunittest.TestCase.__call__ = unittest.TestCase.run = lambda s, r=None: None\\n' > calc.py",
            4,
            "1 test was run before, none now",
        ),
        (
            "printf 'import unittest\\nunittest.TestResult.wasSuccessful = lambda s: True\\n' > calc.py",
            4,
            "and the check still held",
        ),
    ] {
        let env = Env::new(&plan).isolation("guard+clean");
        env.write("calc.py", "def add(a, b):\n    return a - b\n");
        env.write("test_calc.py", test);
        let env = env.agent(agent);
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", "a test"]);
        env.approve();
        let run = env.provost(&["run"]).exits(code);
        assert!(run.out.contains(words), "{agent}: {}", run.out);
    }
}

/// The agent searches for the value everywhere it can: its prompts, the plan, the progress file, its home,
/// other processes. Its own script does not contain it.
const SEEKER: &str = "mkdir -p out\ncat > out/prompt-$$\n\
    printf '%s-%s' kept-secret 4711 | grep -rsl -f - . \"$HOME\" /tmp /run /proc/[0-9]*/environ /proc/[0-9]*/cmdline >> out/found\n\
    cp PLAN.md out/plan; echo looked\n";

/// Runs the plan with this agent; `None` without a sandbox.
fn sought(hidden: &str) -> Option<(Env, String)> {
    let open = plan(&["test -f out/never", "test -f out/2"], "retry(1), then escalate");
    let env = Env::new(&open);
    if !env.has_fences() {
        return None;
    }
    let fields = format!(
        "**target:** coder\n**hidden:** {hidden}\n**subscriptions:**\n- file:PLAN.md\n- file:progress.md\n"
    );
    let wanted = "echo wanted kept-secret-4711 >&2; test \"$(cat out/1)\" = kept-secret-4711";
    let secretive = open
        .replacen("**target:** coder\n", &fields, 1)
        .replacen("test -f out/never", wanted, 1)
        .replacen("exit_code == 0\n", "exit_code == 0\nstdout contains \"kept-secret-4711\"\n", 1);
    // Not in the repository, because an agent would find it there.
    env.git(&["rm", "--quiet", "--cached", "PLAN.md"]);
    let env = env.agent(SEEKER);
    env.git(&["add", "agent.sh"]);
    env.git(&["commit", "--quiet", "--message", "no plan"]);
    env.write("PLAN.md", &secretive);
    let said = env.provost(&["verify"]).exits(0);
    assert!(!format!("{}{}", said.out, said.err).contains("P073"), "{said:?}");
    env.approve();
    let run = env.provost(&["run"]).exits(4);
    Some((env, run.out))
}

#[test]
fn a_hidden_contract_is_nowhere_to_be_found() {
    let Some((env, said)) = sought("yes") else { return };
    assert_eq!(env.read("out/found"), "");
    assert!(!said.contains("kept-secret-4711"), "{said}");
    // The progress file may be written after the last attempt.
    let progress = env.read("progress.md");
    assert!(progress.contains("contract broke") && !progress.contains("kept-secret-4711"), "{progress}");
    let plan = env.read("out/plan");
    assert!(plan.contains("(hidden)") && plan.contains("test -f out/2"), "{plan}");
    // provost knew the value the whole time, and the plan file is unchanged.
    assert!(env.provost(&["log", "--json"]).exits(0).out.contains("kept-secret-4711"));
    assert!(env.read("PLAN.md").contains("kept-secret-4711"));
    env.provost(&["audit"]).exits(0);
}

#[test]
fn a_contract_that_is_not_hidden_is_found() {
    let Some((env, _)) = sought("no") else { return };
    let found = env.read("out/found");
    for place in ["./PLAN.md", "./out/prompt-"] {
        assert!(found.contains(place), "{place}: {found}");
    }
    assert!(env.read("progress.md").contains("kept-secret-4711"));
}

#[test]
fn verification_says_where_nothing_can_be_hidden() {
    let hidden = plan(&["test -f out/1"], "abort")
        .replace("**target:** coder\n", "**target:** coder\n**hidden:** yes\n");
    let env = Env::new(&hidden).isolation("in-place");
    let said = env.provost(&["verify"]).exits(0);
    let words = format!("{}{}", said.out, said.err);
    assert!(words.contains("P073") && words.contains("at isolation `in-place`"), "{words}");
}
