//! Tests that the results of single tests decide, with real test runners: failures that were there before,
//! new ones, flaky, skipped and deleted tests, and reports that cannot be believed.

use provost_core::model::plan::Expectation;
use provost_core::model::verdict::{CheckOutcome, Verdict};
use provost_rehearsal::skip;

use crate::teeth::{Files, Project, fetched, python, told, works};

mod dotnet;
mod more_runners;

/// A project of one language: `value` is what the work changes.
struct Sample<'a> {
    contract: &'a str,
    files: Files<'a>,
    /// File of the code, and its text with another value and with every result wrong.
    code: &'a str,
    fixed: &'a str,
    broken: &'a str,
    /// File of the tests, with the second test skipped, and without it.
    tests: &'a str,
    skipped: &'a str,
    deleted: &'a str,
    /// The test that fails before the work, and one that passes.
    failing: &'a str,
    passing: &'a str,
}

impl Sample<'_> {
    fn project(&self, expectations: &[Expectation]) -> (Project, Verdict) {
        Project::expecting(self.contract, expectations, &["**"], self.files)
    }

    fn try_all(&self) {
        self.failures_that_were_there_before_are_allowed();
        self.a_fixed_test_is_named();
        self.new_failures_are_refused();
    }

    fn failures_that_were_there_before_are_allowed(&self) {
        let (project, before) = self.project(&[Expectation::NoNewFailures]);
        assert!(before.held(), "{}: {} {}", self.contract, told(&before), before.stderr);
        let results = before.test_results.expect("results");
        assert!(results.failing.names.iter().any(|name| name.ends_with(self.failing)), "{results:?}");
        // Something else changes; the same test still fails.
        let after = project.work(&[("NOTES.md", "notes")]);
        assert!(after.held(), "{}: {}", self.contract, told(&after));
        assert!(
            after.remarks().iter().any(|remark| remark.contains("failed before the work and fail")),
            "{:?}",
            after.remarks()
        );
        assert!(after.teeth.as_ref().is_some_and(|teeth| teeth.bit), "{}: {:?}", self.contract, after.teeth);
    }

    fn a_fixed_test_is_named(&self) {
        let fixed = Expectation::TestsFixed { names: vec![self.failing.to_owned()] };
        let (project, before) = self.project(&[fixed, Expectation::NoNewFailures]);
        assert!(matches!(before.outcome, CheckOutcome::Broke { .. }), "{}: {}", self.contract, told(&before));
        let after = project.work(&[(self.code, self.fixed)]);
        assert!(after.held(), "{}: {} {}", self.contract, told(&after), after.stdout);
        let changes = after.test_results.and_then(|results| results.changes).expect("compared");
        assert!(changes.fixed.names.iter().any(|name| name.ends_with(self.failing)), "{changes:?}");
        let already = Expectation::TestsFixed { names: vec![self.passing.to_owned()] };
        let (project, _) = self.project(&[already]);
        let after = project.work(&[(self.code, self.fixed)]);
        assert!(!after.held() && told(&after).contains("passed before the work too"), "{}", told(&after));
    }

    fn new_failures_are_refused(&self) {
        for (what, files) in [
            ("did not fail before the work and fail", [(self.code, self.broken)]),
            ("skipped now", [(self.tests, self.skipped)]),
            ("gone", [(self.tests, self.deleted)]),
        ] {
            let (project, _) = self.project(&[Expectation::NoNewFailures]);
            let after = project.work(&files);
            assert!(!after.held(), "{} {what}: {}", self.contract, told(&after));
            assert!(told(&after).contains(what), "{} {what}: {}", self.contract, told(&after));
        }
        let (project, _) = self.project(&[Expectation::NoTestRemoved, Expectation::ExitIsNot(77)]);
        let after = project.work(&[(self.tests, self.deleted)]);
        assert!(told(&after).contains("no test removed or skipped ("), "{}", told(&after));
    }
}

#[test]
fn pytest() {
    let Some(python) = python() else { return };
    let tests = "import pytest\nfrom calc import add, sub\n\n\ndef test_sub():\n    assert sub(2, 1) == 1\n\n\n\
                 @pytest.mark.parametrize('n', [1, 2])\ndef test_add(n):\n    assert add(n, 1) == n + 1\n";
    let code = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n";
    Sample {
        contract: &format!("{python} -m pytest -q -x"),
        files: &[("calc.py", code), ("test_calc.py", tests)],
        code: "calc.py",
        fixed: &code.replacen("a - b", "a + b", 1),
        broken: &code.replace("a - b", "a * 7"),
        tests: "test_calc.py",
        skipped: &tests.replacen("def test_sub", "@pytest.mark.skip\ndef test_sub", 1),
        deleted: &tests.replacen("def test_sub", "def no_sub", 1),
        failing: "test_add[1]",
        passing: "test_sub",
    }
    .try_all();
}

#[test]
fn unittest() {
    let tests = "import unittest\nfrom calc import add, sub\n\n\nclass Calc(unittest.TestCase):\n    \
                 def test_sub(self):\n        self.assertEqual(sub(2, 1), 1)\n\n    def test_add(self):\n        \
                 for n in range(3):\n            with self.subTest(n=n):\n                \
                 self.assertEqual(add(n, 1), n + 1)\n";
    let code = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n";
    Sample {
        contract: "python3 -m unittest -q",
        files: &[("calc.py", code), ("test_calc.py", tests)],
        code: "calc.py",
        fixed: &code.replacen("a - b", "a + b", 1),
        broken: &code.replace("a - b", "a * 7"),
        tests: "test_calc.py",
        skipped: &tests.replacen("    def test_sub", "    @unittest.skip('later')\n    def test_sub", 1),
        deleted: &tests.replacen("def test_sub", "def no_sub", 1),
        failing: "test_add",
        passing: "test_sub",
    }
    .try_all();
}

#[test]
fn cargo() {
    let tests = "use calc::{add, sub};\n\n#[test]\nfn subtracts() {\n    assert_eq!(sub(2, 1), 1);\n}\n\n#[test]\n\
                 fn adds() {\n    assert_eq!(add(2, 1), 3);\n}\n";
    let code = "pub fn add(a: u8, b: u8) -> u8 {\n    a - b\n}\n\npub fn sub(a: u8, b: u8) -> u8 {\n    a - b\n}\n\n\
                #[cfg(test)]\nmod tests {\n    #[test]\n    fn fails_first() {\n        assert_eq!(super::add(1, 1), 2);\n    }\n}\n";
    let manifest = "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let lock = "version = 4\n\n[[package]]\nname = \"calc\"\nversion = \"0.1.0\"\n";
    Sample {
        contract: "cargo test --offline",
        files: &[
            ("Cargo.toml", manifest),
            ("Cargo.lock", lock),
            ("src/lib.rs", code),
            ("tests/it.rs", tests),
        ],
        code: "src/lib.rs",
        fixed: &code.replacen("a - b", "a + b", 1),
        broken: &code.replace("a - b", "a / b"),
        tests: "tests/it.rs",
        skipped: &tests.replacen("#[test]", "#[test]\n#[ignore]", 1),
        deleted: &tests.replacen("#[test]", "#[allow(dead_code)]", 1),
        failing: "adds",
        passing: "subtracts",
    }
    .try_all();
}

const JS_CODE: &str = "exports.add = (a, b) => a - b;\nexports.sub = (a, b) => a - b;\n";

fn javascript<'a>(contract: &'a str, files: Files<'a>, tests: &'a str, test_text: &str) {
    let skipped = test_text.replacen("it('subtracts'", "it.skip('subtracts'", 1);
    let deleted = test_text.replacen("it('subtracts'", "void ((_, f) => f)('subtracts'", 1);
    Sample {
        contract,
        files,
        code: "calc.js",
        fixed: &JS_CODE.replacen("a - b", "a + b", 1),
        broken: &JS_CODE.replace("a - b", "a * 7"),
        tests,
        skipped: &skipped,
        deleted: &deleted,
        failing: "adds",
        passing: "subtracts",
    }
    .try_all();
}

fn of_node(first_lines: &str) -> String {
    format!(
        "{first_lines}const assert = require('assert');\nconst {{ add, sub }} = require('./calc.js');\n\
         describe('calc', () => {{\n  it('subtracts', () => assert.equal(sub(2, 1), 1));\n  \
         it('adds', () => assert.equal(add(2, 1), 3));\n}});\n"
    )
}

#[test]
fn node() {
    if !works("node", &["--version"]) {
        return;
    }
    let tests = of_node("const { describe, it } = require('node:test');\n");
    let package = "{ \"scripts\": { \"test\": \"node --test\" } }\n";
    let files = [("calc.js", JS_CODE), ("calc.test.js", tests.as_str()), ("package.json", package)];
    javascript("node --test", &files, "calc.test.js", &tests);
    javascript("npm test --silent", &files, "calc.test.js", &tests);
    let (project, before) =
        Project::expecting("node --test --test-reporter=dot", &[Expectation::NoNewFailures], &["**"], &files);
    assert!(before.held(), "{}", told(&before));
    assert!(
        !before.stdout.head.contains("TAP version") && before.stdout.head.contains('.'),
        "{}",
        before.stdout
    );
    assert!(!project.work(&[("calc.js", &JS_CODE.replace("a - b", "a * 7"))]).held());
}

#[test]
fn mocha_jest_and_vitest() {
    let Some(bin) = fetched("mocha") else { return };
    let at = |name: &str| bin.with_file_name(name).display().to_string();
    let tests = of_node("");
    let files = [("calc.js", JS_CODE), ("test/calc.js", &tests.replace("./calc", "../calc"))];
    javascript(&at("mocha"), &files, "test/calc.js", files[1].1);
    let files = [("calc.js", JS_CODE), ("calc.test.js", tests.as_str()), ("package.json", "{}\n")];
    javascript(&at("jest"), &files, "calc.test.js", &tests);
    let tests = tests
        .replace(
            "const assert = require('assert');",
            "import assert from 'node:assert';\nimport { describe, it } from 'vitest';",
        )
        .replace("const { add, sub } = require('./calc.js');", "import { add, sub } from './calc.js';");
    let code = JS_CODE.replace("exports.", "export const ");
    let files = [
        ("calc.js", code.as_str()),
        ("calc.test.js", tests.as_str()),
        ("package.json", "{ \"type\": \"module\" }\n"),
    ];
    let (project, before) =
        Project::expecting(&format!("{} run", at("vitest")), &[Expectation::NoNewFailures], &["**"], &files);
    assert!(before.held(), "{}", told(&before));
    let broken = project.work(&[("calc.js", &code.replace("a - b", "a * 7"))]);
    assert!(told(&broken).contains("calc.test.js > calc > subtracts"), "{}", told(&broken));
    let held = project.work(&[("calc.js", &code.replacen("a - b", "a + b", 1))]);
    assert!(held.held(), "{}", told(&held));
}

#[test]
fn go() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("go");
    }
    if !works("go", &["version"]) {
        return;
    }
    let tests = "package calc\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) {\n\tif Sub(2, 1) != 1 {\n\t\tt.Fatal(\"sub\")\n\t}\n}\n\n\
                 func TestAdd(t *testing.T) {\n\tt.Run(\"one\", func(t *testing.T) {\n\t\tif Add(2, 1) != 3 {\n\t\t\tt.Fatal(\"add\")\n\t\t}\n\t})\n}\n";
    let code = "package calc\n\nfunc Add(a, b int) int { return a - b }\n\nfunc Sub(a, b int) int { return a - b }\n";
    Sample {
        contract: "go test ./...",
        files: &[("go.mod", "module calc\n\ngo 1.19\n"), ("calc.go", code), ("calc_test.go", tests)],
        code: "calc.go",
        fixed: &code.replacen("a - b", "a + b", 1),
        broken: &code.replace("a - b", "a * 7"),
        tests: "calc_test.go",
        skipped: &tests.replacen("t.Fatal(\"sub\")\n\t}", "}\n\tt.Skip(\"later\")", 1),
        deleted: &tests.replacen("func TestSub", "func noSub", 1),
        failing: "TestAdd/one",
        passing: "TestSub",
    }
    .try_all();
}

#[test]
fn ctest() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("ctest");
    }
    if !works("ctest", &["--version"]) {
        return;
    }
    let project = "cmake_minimum_required(VERSION 3.10)\nproject(calc NONE)\nenable_testing()\n\
                   add_test(NAME subtracts COMMAND sh -c \"test \\\"$(cat ../sub)\\\" = 1\")\n\
                   add_test(NAME adds COMMAND sh -c \"test \\\"$(cat ../add)\\\" = 3\")\n";
    Sample {
        contract: "cmake -S . -B build > /dev/null && cd build && ctest",
        files: &[("CMakeLists.txt", project), ("add", "1\n"), ("sub", "1\n")],
        code: "add",
        fixed: "3\n",
        broken: "1\n",
        tests: "CMakeLists.txt",
        skipped: project,
        deleted: project,
        failing: "adds",
        passing: "subtracts",
    }
    .a_fixed_test_is_named_with_a_build();
}

impl Sample<'_> {
    /// A check that also builds is not one that only runs tests, so that its failure explains nothing.
    fn a_fixed_test_is_named_with_a_build(&self) {
        let (_, before) = self.project(&[Expectation::NoNewFailures]);
        assert!(!before.held(), "{}", told(&before));
        let fixed = Expectation::TestsFixed { names: vec![self.failing.to_owned()] };
        let (project, _) = self.project(&[fixed, Expectation::ExitIs(0)]);
        let after = project.work(&[(self.code, self.fixed)]);
        assert!(after.held(), "{} {}", told(&after), after.stdout);
    }
}

/// Tests for code that does not exist yet cannot be imported before the work. Then they can, and nothing is gone.
#[test]
fn a_test_file_that_could_not_be_run_before_is_no_gone_test() {
    let python_test = "import unittest\nfrom extra import twice\n\n\nclass Extra(unittest.TestCase):\n    \
                       def test_twice(self):\n        self.assertEqual(twice(2), 4)\n";
    let node_test = "const { it } = require('node:test');\nconst { twice } = require('./extra.js');\n\
                     it('doubles', () => require('assert').equal(twice(2), 4));\n";
    let python_code = ("extra.py", "def twice(a):\n    return 2 * a\n");
    let node_code = ("extra.js", "exports.twice = (a) => 2 * a;\n");
    let pytest = python().map(|python| format!("{python} -m pytest -q"));
    let mut samples = vec![("python3 -m unittest -q", ("test_extra.py", python_test), python_code)];
    samples.extend(pytest.as_deref().map(|pytest| (pytest, ("test_extra.py", python_test), python_code)));
    if works("node", &["--version"]) {
        samples.push(("node --test", ("extra.test.js", node_test), node_code));
    }
    for (contract, test, code) in samples {
        let (project, before) = Project::expecting(
            contract,
            &[Expectation::ExitIs(0), Expectation::NoTestRemoved],
            &["**"],
            &[test, ("README.md", "to do")],
        );
        let failing = before.test_results.as_ref().map(|results| results.failing.names.clone());
        let is_told = failing.iter().flatten().any(|name| name.ends_with("(its tests could not be run)"));
        assert!(!before.held() && is_told, "{contract}: {failing:?} {}", told(&before));
        let after = project.work(&[code]);
        assert!(after.held(), "{contract}: {}", told(&after));
    }
}

#[test]
fn a_flaky_test_is_named_and_decides_nothing() {
    let Some(python) = python() else { return };
    let tests = "import pathlib, random\n\n\ndef test_flaky():\n    mark = pathlib.Path('FLAKY')\n    \
                 if mark.exists():\n        place = pathlib.Path(mark.read_text().strip())\n        \
                 seen = place.exists()\n        place.touch()\n        assert seen\n\n\ndef test_fine():\n    assert True\n";
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let files = [("test_it.py", tests)];
    let (project, _) =
        Project::expecting(&format!("{python} -m pytest -q"), &[Expectation::NoNewFailures], &["**"], &files);
    let after = project.work(&[("FLAKY", &seen.display().to_string())]);
    assert!(after.held(), "{}", told(&after));
    let results = after.test_results.as_ref().expect("results");
    assert_eq!(results.flaky.names, ["test_it.py::test_flaky"]);
    assert!(after.remarks().iter().any(|remark| remark.contains("two results on the same files")));
    let why = after.uncontrolled.as_deref().unwrap_or_default();
    assert_eq!(why, "test_it.py::test_flaky passed before the work and now passes and fails");
}

#[test]
fn a_report_that_the_code_under_test_made_is_not_believed() {
    let Some(python) = python() else { return };
    let tests = "import calc\n\n\ndef test_add():\n    assert calc.add(1, 1) == 2\n";
    let code = "def add(a, b):\n    return a + b\n";
    let files = [("calc.py", code), ("test_calc.py", tests)];
    let wrong = "def add(a, b):\n    return 0\n";
    for forged in [
        // It prints what a runner prints.
        format!("{wrong}print('test_calc.py::test_add PASSED')\nprint('1 passed in 0.01s')\n"),
        // It writes to the pipe of the reporters.
        format!(
            "{wrong}import os\nif os.environ.get('PROVOST_REPORT'):\n    with open(os.environ['PROVOST_REPORT'], 'w') as pipe:\n        \
             pipe.write('test\\x1fpytest\\x1fx\\x1fpassed\\x1ftest_calc.py::test_add\\n')\n"
        ),
        // It ends the process before the tests are told.
        format!("{wrong}import os\nos._exit(0)\n"),
        // It ends the process when the tests have run.
        format!("{wrong}import atexit, os\natexit.register(lambda: os._exit(0))\n"),
        // It floods the pipe.
        format!(
            "{wrong}import os\nif os.environ.get('PROVOST_REPORT'):\n    with open(os.environ['PROVOST_REPORT'], 'w') as pipe:\n        \
             for _ in range(20):\n            pipe.write('x' * (2 << 20) + '\\n')\n"
        ),
    ] {
        for expected in [Expectation::NoNewFailures, Expectation::TestsPassed { at_least: 1 }] {
            let (project, before) = Project::expecting(
                &format!("{python} -m pytest -q"),
                std::slice::from_ref(&expected),
                &["**"],
                &files,
            );
            assert!(before.held(), "{}", told(&before));
            let after = project.work(&[("calc.py", &forged)]);
            assert!(!after.held(), "{expected}\n{forged}\n{}", told(&after));
        }
    }
}

#[test]
fn a_check_without_a_readable_list_of_tests_is_not_verifiable() {
    let Some(python) = python() else { return };
    let script = "print('3 passed')\n";
    let files = [("run.py", script)];
    let (_, before) =
        Project::expecting("python3 run.py", &[Expectation::TestsPassed { at_least: 1 }], &["**"], &files);
    assert!(told(&before).contains("not verifiable: "), "{}", told(&before));
    assert!(matches!(before.outcome, CheckOutcome::NotRun { .. }), "{}", told(&before));
    // Something else than a test fails.
    let files = [("test_a.py", "def test_a():\n    assert False\n")];
    let contract = &format!("{python} -m pytest -q; exit 1");
    let (_, before) = Project::expecting(contract, &[Expectation::NoNewFailures], &["**"], &files);
    assert!(!before.held(), "{}", told(&before));
}

#[test]
fn five_thousand_tests_are_compared_by_name() {
    let Some(python) = python() else { return };
    let tests = "import pytest, pathlib\n\n\n@pytest.mark.parametrize('n', range(5000))\ndef test_n(n):\n    \
                 bad = {int(x) for x in pathlib.Path('bad').read_text().split()}\n    assert n not in bad\n";
    let files = [("test_n.py", tests), ("bad", "7 8 9\n")];
    let (project, before) = Project::expecting(
        &format!("{python} -m pytest -q --tb=no"),
        &[Expectation::NoNewFailures],
        &["**"],
        &files,
    );
    assert!(before.held(), "{}", told(&before));
    let same_number = project.work(&[("bad", "7 8 4999\n")]);
    assert!(told(&same_number).contains("test_n.py::test_n[4999]"), "{}", told(&same_number));
    let fewer = project.work(&[("bad", "7\n")]);
    assert!(fewer.held(), "{}", told(&fewer));
    let changes = fewer.test_results.and_then(|results| results.changes).expect("compared");
    assert_eq!((changes.fixed.count, changes.failed_before.count, changes.still_passing), (2, 1, 4997));
}

#[test]
fn names_that_change_with_each_run_say_nothing() {
    let Some(python) = python() else { return };
    let tests = "import pytest, uuid\n\n\n@pytest.mark.parametrize('n', [1], ids=[str(uuid.uuid4())])\n\
                 def test_n(n):\n    assert n\n\n\ndef test_fine():\n    assert True\n";
    let files = [("test_it.py", tests)];
    let contract = format!("{python} -m pytest -q");
    let (project, _) = Project::expecting(&contract, &[Expectation::NoNewFailures], &["**"], &files);
    let after = project.work(&[("NOTES.md", "notes")]);
    assert!(after.held(), "{}", told(&after));
    assert!(after.test_results.expect("results").flaky.count >= 2);
    let deleted = tests.replace("def test_fine", "def no_test");
    let after = project.work(&[("test_it.py", &deleted)]);
    assert!(!after.held() && told(&after).contains("gone: test_it.py::test_fine"), "{}", told(&after));
}

#[test]
fn results_in_a_file_decide_nothing() {
    let Some(python) = python() else { return };
    let files = [
        ("calc.py", "X = 1\n"),
        ("test_calc.py", "import calc\n\n\ndef test_x():\n    assert calc.X == 1\n"),
    ];
    let contract = format!("{python} -m pytest -q");
    let (project, _) = Project::expecting(&contract, &[Expectation::NoNewFailures], &["**"], &files);
    let kept: Vec<_> = std::fs::read_dir(project.state().join("tests")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    for file in kept {
        std::fs::write(file.path(), "{\"test_calc.py::test_x\":\"failed\"}").unwrap();
    }
    let after = project.work(&[("calc.py", "X = 2\n")]);
    assert!(!after.held() && told(&after).contains("fails now: test_calc.py::test_x"), "{}", told(&after));
}
