//! Tests `provost suggest-checks`: contracts from the repository, and a failing test by a planner.

use crate::env::Env;

/// A test that passes already, then one that cannot be read, then one that fails.
const PLANNER: &str = r#"prompt=$(cat)
touch written-by-planner 2>/dev/null
case "$prompt" in
  *"cannot be read by its runner"*) body='import unittest\nfrom price import total\n\n\nclass T(unittest.TestCase):\n    def test_discount(self):\n        self.assertEqual(total([60, 40]), 90)\n' ;;
  *"the test passes on the last commit"*) body='def def\n' ;;
  *"A discount"*) body='import unittest\n\n\nclass T(unittest.TestCase):\n    def test_discount(self):\n        self.assertTrue(True)\n' ;;
  *) exit 7 ;;
esac
printf 'path: tests/test_discount.py\nrun: python3 -m unittest -q tests/test_discount.py\n\n````python\n'"$body"'````\n'
"#;

fn project(planner: Option<&str>) -> Option<Env> {
    let env = Env::new("notes\n");
    if !env.has_fences() {
        return None;
    }
    if let Some(planner) = planner {
        env.write("planner.sh", planner);
        let config = env.read("provost.toml");
        env.write(
            "provost.toml",
            format!("{config}[agents.planner]\ndriver = \"command\"\ncommand = [\"bash\", \"planner.sh\"]\n"),
        );
    }
    std::fs::create_dir(env.work().join("tests")).expect("a folder");
    env.write("price.py", "def total(prices):\n    return sum(prices)\n");
    env.write("tests/test_price.py", "import unittest\nfrom price import total\n\n\nclass T(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(total([1]), 1)\n");
    env.write("tests/test_cart.py", "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_cart(self):\n        self.assertEqual(1, 2)\n");
    env.write("pyrightconfig.json", "{}\n");
    env.write("Makefile", "check:\n\ttest -s price.py\nclean:\n\trm -rf out\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    Some(env)
}

#[test]
fn checks_of_the_repository_are_tried_and_ordered_by_the_goal() {
    let Some(env) = project(None) else { return };
    let json = env.provost(&["suggest-checks", "A discount on the price", "--json"]).exits(0).json();
    let checks = json["checks"].as_array().expect("checks");
    let shown: Vec<String> = checks
        .iter()
        .map(|each| {
            format!("{} {}", each["command"].as_str().unwrap_or("?"), each["result"].as_str().unwrap_or("?"))
        })
        .collect();
    assert_eq!(shown[0], "python3 -m unittest -q tests/test_price.py holds", "{shown:?}");
    assert!(shown.contains(&"make check holds".to_owned()), "{shown:?}");
    let cannot = |each: &&String| each.ends_with(" cannot_run");
    assert!(shown.iter().skip_while(|each| !cannot(each)).all(|each| cannot(&each)), "last: {shown:?}");
    assert!(!shown.iter().any(|each| each.contains("clean")), "{shown:?}");
    let first = checks[0]["contract"].as_str().unwrap_or_default();
    assert!(first.starts_with("**guard:** yes\n**contract:**\n```shell\n"), "{first}");
    assert!(checks[0]["duration_ms"].as_u64().is_some_and(|time| time > 0), "{json}");
    let told = env.provost(&["suggest-checks", "A discount on the price"]).exits(0);
    assert!(told.out.contains("It fails now. If the goal is to change that"), "{}", told.out);
    assert!(told.err.contains("[agents.planner] in provost.toml would draft one"), "{}", told.err);
    assert!(!env.work().join(".harness").exists(), "nothing is left behind");
    env.provost(&["suggest-checks", " "]).exits(2);
    env.provost(&["suggest-checks", "--write"]).exits(2);
}

#[test]
fn a_planner_drafts_a_test_that_fails_and_only_a_person_lets_it_in() {
    let Some(env) = project(Some(PLANNER)) else { return };
    let goal = "A discount for large orders";
    let waits = env.provost(&["suggest-checks", goal]).exits(4);
    assert!(
        waits.err.contains("round 1 of 4: sent back: the test passes on the last commit"),
        "{}",
        waits.err
    );
    assert!(waits.err.contains("round 2 of 4: sent back: the test file cannot be read"), "{}", waits.err);
    assert!(waits.err.contains("round 3 of 4: it fails on the last commit"), "{}", waits.err);
    assert!(
        waits.out.contains("+++ tests/test_discount.py") && waits.out.contains("+class T"),
        "{}",
        waits.out
    );
    assert!(waits.err.contains("nothing was written"), "{}", waits.err);
    let test = env.work().join("tests/test_discount.py");
    assert!(!test.exists() && !env.work().join("written-by-planner").exists());
    let json = env.provost(&["suggest-checks", goal, "--json"]).exits(4).json();
    assert_eq!(json["draft"]["written"], false, "{json}");
    let none = env.provost(&["suggest-checks", goal, "--no-draft", "--json"]).exits(0).json();
    assert!(none["draft"].is_null(), "{none}");
    let wrote = env.provost(&["suggest-checks", goal, "--write"]).exits(0);
    assert!(wrote.err.contains("wrote tests/test_discount.py"), "{}", wrote.err);
    assert!(std::fs::read_to_string(&test).is_ok_and(|text| text.contains("test_discount")));
    // It exists now, so the same answer is sent back until the rounds are over.
    let again = env.provost(&["suggest-checks", goal, "--write", "--rounds", "1"]).exits(1);
    assert!(again.err.contains("exists already"), "{}", again.err);
}

#[test]
fn an_answer_of_the_planner_cannot_leave_the_repository_or_its_sandbox() {
    let answer = |path: &str, run: &str| {
        format!("cat > /dev/null\nprintf 'path: {path}\\nrun: {run}\\n\\n````python\\nx = 1\\n````\\n'\n")
    };
    for (path, run, why) in [
        ("../test_x.py", "true", "not a path inside the repository"),
        ("price.py", "true", "not the name of a test file"),
        ("tests/test_price.py", "true", "exists already"),
        (
            "tests/test_x.py",
            "touch made-by-test; touch ../made-by-test; false",
            "it fails on the last commit",
        ),
    ] {
        let Some(env) = project(Some(&answer(path, run))) else { return };
        let told = env.provost(&["suggest-checks", "A discount", "--rounds", "1"]);
        assert!(told.err.contains(why), "{path}: {}", told.err);
        assert!(!env.work().join("made-by-test").exists() && !env.folder().join("made-by-test").exists());
    }
}
