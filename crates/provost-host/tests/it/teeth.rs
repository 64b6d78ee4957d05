//! Tests the negative control with real test runners: it must tell honest work from work that only looks
//! honest.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use expect_test::{Expect, expect};
use provost_core::language::runner::report::RunnerReport;
use provost_core::language::runner::{self, Runner};
use provost_core::model::plan::{Expectation, Shell, Span, Spanned};
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_host::check::negative_control::{self, BaseResult, ControlRequest, ControlRun, Doubts};
use provost_host::config::Config;
use provost_host::exec::environment::{
    ApprovedFiles, CheckExtras, CheckSettings, CheckSpec, Comparison, ExecEnv, RunPaths,
};
use provost_host::tree::{CopyTrust, ImportLimits, Touches, Trees};
use provost_rehearsal::skip;
use tempfile::TempDir;

use crate::tag;
use crate::tree::Site;

/// A workspace, a contract, and the environment that the contract runs in.
pub(crate) struct Project {
    folder: TempDir,
    ground: ExecEnv,
    shell: Shell,
    before: Option<BaseResult>,
}

pub(crate) type Files<'a> = &'a [(&'a str, &'a str)];

impl Project {
    /// Creates the approved project and judges the contract before the work.
    pub(crate) fn new(contract: &str, touches: &[&str], files: Files<'_>) -> (Self, Verdict) {
        Self::expecting(contract, &[], touches, files)
    }

    /// The same with expectations.
    pub(crate) fn expecting(
        contract: &str,
        expectations: &[Expectation],
        touches: &[&str],
        files: Files<'_>,
    ) -> (Self, Verdict) {
        let folder = TempDir::new().unwrap();
        let (work, state) = (folder.path().join("work"), folder.path().join("state"));
        std::fs::create_dir(&work).unwrap();
        std::fs::create_dir(&state).unwrap();
        write(&work, files);
        let estate =
            RunPaths { workspace: &work, state: &state, read_only: &[], secrets: &[], launcher: &[] };
        let touches: Vec<String> = touches.iter().map(|glob| glob.to_string()).collect();
        let provision = Config::default().verify.provision;
        let wanted = CheckSettings { provision: &provision, build_caches: false, stop: None };
        let approval = ApprovedFiles {
            revision: "r",
            commit: None,
            files: &[],
            included: &[],
            touches: &touches,
            caches: &[],
            limits: ImportLimits::default(),
            adopts: false,
            copies: &CopyTrust::none(),
            recorded: None,
            wanted,
        };
        let ground = ExecEnv::prepare(None, Isolation::GuardClean, &estate, &approval).unwrap();
        let expected = expectations.iter().map(|each| Spanned::new(each.clone(), Span::default()));
        let expectations = expected.collect();
        let shell = Shell { command: contract.to_owned(), body: Span::default(), expectations };
        let mut project = Self { folder, ground, shell, before: None };
        let control = project.judged(false, Doubts::default());
        let runners = control.runners.clone();
        project.before = Some(BaseResult { held: control.held(), tests: control.tests, runners });
        (project, control)
    }

    /// Returns provost's own folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn judged(&self, with_work: bool, doubts: Doubts) -> Verdict {
        let case = CheckSpec {
            shell: &self.shell,
            timeout: Duration::from_secs(600),
            tag: &tag(),
            stop: None,
            tree: None,
            start: None,
            with_work,
            apart: None,
            touches: None,
            protect: &[],
            network: false,
            processes: Default::default(),
            given: CheckExtras::default(),
            doubts,
            compare: if with_work { Comparison::With(None) } else { Comparison::Nothing },
            reuses: false,
            bounds: None,
            in_background: false,
            shown_to: None,
        };
        self.ground.judge(&case).unwrap()
    }

    /// Judges some work, with all controls.
    pub(crate) fn work(&self, files: Files<'_>) -> Verdict {
        write(&self.folder.path().join("work"), files);
        self.judged(true, Doubts { before: self.before.clone(), writes_tests: false, bite: true })
    }

    /// Judges some work of a step whose task is to write tests.
    pub(crate) fn work_on_tests(&self, files: Files<'_>) -> Verdict {
        write(&self.folder.path().join("work"), files);
        self.judged(true, Doubts { before: self.before.clone(), writes_tests: true, bite: true })
    }
}

fn write(folder: &Path, files: Files<'_>) {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Describes a verdict in one line, without random names and times.
pub(crate) fn told(verdict: &Verdict) -> String {
    let mut line = verdict.outcome.to_string();
    for unmet in &verdict.unmet {
        let _ = write!(line, " | {unmet}");
    }
    if let Some(tests) = verdict.tests {
        let _ = write!(line, " | tests: {tests}");
    }
    if let Some(teeth) = verdict.teeth.as_ref().filter(|_| verdict.held()) {
        let _ = write!(line, " | {teeth}");
    }
    for remark in verdict.remarks() {
        let _ = write!(line, " | {remark}");
    }
    if let Some(why) = &verdict.uncontrolled {
        let _ = write!(line, " | uncontrolled: {why}");
    }
    line
}

/// Judges the contract before the work, after honest work, and after each cheat.
pub(crate) fn check(
    contract: &str,
    touches: &[&str],
    base: Files<'_>,
    works: &[(&str, Files<'_>)],
    expected: Expect,
) {
    let mut table = String::new();
    for (index, (name, files)) in works.iter().enumerate() {
        let (project, control) = Project::new(contract, touches, base);
        if index == 0 {
            let _ = writeln!(table, "before: {}", told(&control));
        }
        let _ = writeln!(table, "{name}: {}", told(&project.work(files)));
    }
    expected.assert_eq(&table);
}

pub(crate) fn works(program: &str, arguments: &[&str]) -> bool {
    let works = answers(program, arguments);
    if !works {
        skip::tool(program, &format!("install it, so that `{program} {}` works", arguments.join(" ")));
    }
    works
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Returns a python with pytest.
pub(crate) fn python() -> Option<&'static str> {
    let has_pytest = |python: &&str| answers(python, &["-m", "pytest", "--version"]);
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_pytest);
    if found.is_none() {
        skip::tool("pytest", "apt-get install python3-pytest");
    }
    found
}

pub(crate) const PY: Files<'_> = &[
    ("calc.py", "def add(a, b):\n    return a - b\n"),
    ("tests/__init__.py", ""),
    (
        "tests/test_calc.py",
        "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n\n\ndef test_zero():\n    assert calc.add(0, 0) == 0\n",
    ),
];

#[test]
fn pytest_is_counted_and_tried() {
    let Some(python) = python() else { return };
    check(
        &format!("{python} -m pytest -q -p no:cacheprovider tests"),
        &["calc.py", "tests/**"],
        PY,
        &[
            ("honest", &[("calc.py", "def add(a, b):\n    return a + b\n")]),
            ("exits at once", &[("calc.py", "import os\nos._exit(0)\n")]),
            (
                "patches the runner",
                &[(
                    "calc.py",
                    "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\ndef add(a, b):\n    return 0\n",
                )],
            ),
            (
                "patches the runner, and ends in the control",
                &[(
                    "calc.py",
                    "import os\nimport _pytest.python\nif os.environ.get('PROVOST_CONTROL'):\n    os._exit(1)\n_pytest.python.Function.runtest = lambda self: None\ndef add(a, b):\n    return 0\n",
                )],
            ),
            (
                "with a test more",
                &[
                    ("calc.py", "def add(a, b):\n    return a + b\n"),
                    (
                        "tests/test_more.py",
                        "import calc\n\n\ndef test_more():\n    assert calc.add(1, 1) == 2\n",
                    ),
                ],
            ),
            (
                "only the test",
                &[("tests/test_calc.py", "def test_add():\n    pass\n\n\ndef test_zero():\n    pass\n")],
            ),
            (
                "the test and a line elsewhere",
                &[
                    ("tests/test_calc.py", "def test_add():\n    pass\n\n\ndef test_zero():\n    pass\n"),
                    ("calc.py", "# better\ndef add(a, b):\n    return a - b\n"),
                ],
            ),
            (
                "skips what fails",
                &[
                    (
                        "tests/test_calc.py",
                        "import calc, pytest\n\n\n@pytest.mark.skip\ndef test_add():\n    assert calc.add(2, 3) == 5\n\n\ndef test_zero():\n    assert calc.add(0, 0) == 0\n",
                    ),
                    ("calc.py", "# better\ndef add(a, b):\n    return a - b\n"),
                ],
            ),
        ],
        expect![[r#"
            before: broke: exit code 1 | exit_code == 0 | tests: 2
            honest: held | tests: 2 | all tests of pytest were made to fail, and the check failed
            exits at once: broke: exit code 0 | pytest started and its process ended before its tests had run | tests: 0
            patches the runner: vacuous: tests/test_calc.py::test_add was made to fail and was reported as passed, and the check still held | tests: 2
            patches the runner, and ends in the control: held | tests: 2 | no failing test could be planted: the check ended before a test of pytest could be made to fail | uncontrolled: the check ended before a test of pytest could be made to fail
            with a test more: held | tests: 3 | all tests of pytest were made to fail, and the check failed | the agent changed 1 test file: tests/test_more.py (new)
            only the test: vacuous: it holds with only tests/test_calc.py changed | tests: 2
            the test and a line elsewhere: vacuous: it holds with only tests/test_calc.py changed | tests: 2
            skips what fails: broke: exit code 0 | 2 tests were run before, 1 now | tests: 1
        "#]],
    );
}

#[test]
fn a_place_the_runner_does_not_look_at_says_nothing() {
    let Some(python) = python() else { return };
    let mut base = PY.to_vec();
    // The only test file has an unusual name that pytest.ini selects.
    base.push(("pytest.ini", "[pytest]\npython_files = check_*.py\n"));
    base.push(("tests/check_calc.py", "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n"));
    check(
        &format!("{python} -m pytest -q -p no:cacheprovider tests"),
        &["calc.py"],
        &base,
        &[("honest", &[("calc.py", "def add(a, b):\n    return a + b\n")])],
        expect![[r#"
            before: broke: exit code 1 | exit_code == 0 | tests: 1
            honest: held | tests: 1 | all tests of pytest were made to fail, and the check failed
        "#]],
    );
}

#[test]
fn unittest_is_counted_and_tried() {
    if !works("python3", &["-m", "unittest", "--help"]) {
        return;
    }
    let test = "import unittest\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n";
    check(
        "python3 -m unittest -q",
        &["calc.py"],
        &[("calc.py", "def add(a, b):\n    return a - b\n"), ("test_calc.py", test)],
        &[
            ("honest", &[("calc.py", "def add(a, b):\n    return a + b\n")]),
            (
                "always well",
                &[(
                    "calc.py",
                    "import unittest\nunittest.TestResult.wasSuccessful = lambda self: True\ndef add(a, b):\n    return 0\n",
                )],
            ),
        ],
        expect![[r#"
            before: broke: exit code 1 | exit_code == 0 | tests: 1
            honest: held | tests: 1 | all tests of unittest were made to fail, and the check failed
            always well: vacuous: all tests of unittest were made to pass, then to fail, and the check still held | tests: 1
        "#]],
    );
}

#[test]
fn node_is_counted_and_tried() {
    if !works("node", &["--version"]) {
        return;
    }
    let test = "const test = require('node:test');\nconst assert = require('assert');\nconst { add } = require('./calc.js');\ntest('adds', () => assert.strictEqual(add(2, 3), 5));\n";
    check(
        "node --test",
        &["calc.js"],
        &[("calc.js", "exports.add = (a, b) => a - b;\n"), ("calc.test.js", test)],
        &[
            ("honest", &[("calc.js", "exports.add = (a, b) => a + b;\n")]),
            ("ends the process", &[("calc.js", "process.exit(0);\n")]),
        ],
        expect![[r#"
            before: broke: exit code 1 | exit_code == 0 | tests: 1
            honest: held | tests: 1 | all tests of node --test were made to fail, and the check failed
            ends the process: vacuous: all tests of node --test were made to fail, and the check still held | tests: 1
        "#]],
    );
}

const MANIFEST: &str = "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
const LOCK: &str = "version = 3\n\n[[package]]\nname = \"calc\"\nversion = \"0.1.0\"\n";
const RUST: Files<'_> = &[
    ("Cargo.toml", MANIFEST),
    ("Cargo.lock", LOCK),
    ("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n"),
    ("tests/calc.rs", "#[test]\nfn it_adds() {\n    assert_eq!(calc::add(2, 3), 5);\n}\n"),
];
const RUST_WORKS: &[(&str, Files<'_>)] = &[
    ("honest", &[("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n")]),
    (
        "ends the process",
        &[("src/lib.rs", "pub fn add(_: i32, _: i32) -> i32 {\n    std::process::exit(0)\n}\n")],
    ),
];

/// A package outside of the workspace has tests too, but cargo does not run them.
#[test]
fn cargo_tests_the_members_of_its_workspace() {
    let base: Files<'_> = &[
        (
            "Cargo.toml",
            "[workspace]\nresolver = \"2\"\nmembers = [\"crates/*\"]\nexclude = [\"crates/fixture\"]\n",
        ),
        ("Cargo.lock", LOCK),
        ("crates/calc/Cargo.toml", "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("crates/calc/src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n"),
        ("crates/calc/tests/calc.rs", "#[test]\nfn it_adds() {\n    assert_eq!(calc::add(2, 3), 5);\n}\n"),
        ("crates/fixture/Cargo.toml", "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\n"),
        ("crates/fixture/tests/calc.rs", "#[test]\nfn calc() {}\n"),
    ];
    check(
        "cargo test --offline --quiet",
        &["crates/calc/src/**"],
        base,
        &[("honest", &[("crates/calc/src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n")])],
        expect![[r#"
            before: broke: exit code 101 | exit_code == 0 | tests: 1
            honest: held | tests: 1 | a failing test planted in crates/calc/tests/calc.rs made the check fail
        "#]],
    );
}

#[test]
fn cargo_is_counted_and_tried() {
    check(
        "cargo test --offline --quiet",
        &["src/**"],
        RUST,
        RUST_WORKS,
        expect![[r#"
        before: broke: exit code 101 | exit_code == 0 | tests: 1
        honest: held | tests: 1 | a failing test planted in tests/calc.rs made the check fail
        ends the process: broke: exit code 0 | 1 test was run before, none now | tests: 0
    "#]],
    );
}

#[test]
fn nextest_is_counted_and_tried() {
    if !works("cargo", &["nextest", "--version"]) {
        return;
    }
    check(
        "cargo nextest run --offline",
        &["src/**"],
        RUST,
        &RUST_WORKS[..1],
        expect![[r#"
        before: broke: exit code 100 | exit_code == 0 | tests: 1
        honest: held | tests: 1 | a failing test planted in tests/calc.rs made the check fail
    "#]],
    );
}

#[test]
fn configuration_that_a_wide_glob_lets_in_is_not_taken_over() {
    let (project, _) = Project::new("sh src/check", &["src/**"], &[("src/check", "test -f src/done\n")]);
    let verdict = project.work(&[("src/done", ""), ("src/conftest.py", "import os\nos._exit(0)\n")]);
    let tree = verdict.tree.as_ref().unwrap();
    assert_eq!(
        tree.refused,
        ["src/conftest.py: the configuration of a test runner; name it in `touches` to include it"]
    );
    assert_eq!(tree.files, ["src/done"]);
    assert!(verdict.held());
}

/// Returns the folder in which `./test --full` installed jest, vitest and mocha; `None` in an ordinary run.
pub(crate) fn fetched(name: &str) -> Option<PathBuf> {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        skip::full(name);
        return None;
    }
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/runners/node_modules/.bin").join(name);
    if path.canonicalize().is_err() {
        skip::tool(name, "`./test --full` installs it into target/runners");
        return None;
    }
    Some(path)
}

#[test]
fn jest_is_counted_and_tried() {
    let Some(jest) = fetched("jest") else { return };
    let test = "const { add } = require('./calc.js');\ntest('adds', () => expect(add(2, 3)).toBe(5));\n";
    check(
        &jest.display().to_string(),
        &["calc.js"],
        &[("package.json", "{}"), ("calc.js", "exports.add = (a, b) => a - b;\n"), ("calc.test.js", test)],
        &[
            ("honest", &[("calc.js", "exports.add = (a, b) => a + b;\n")]),
            ("ends the process", &[("calc.js", "process.exit(0);\n")]),
        ],
        expect![[r#"
            before: broke: exit code 1 | exit_code == 0 | tests: 1
            honest: held | tests: 1 | a failing test planted in calc.test.js made the check fail
            ends the process: broke: exit code 0 | 1 test was run before, none now
        "#]],
    );
}

#[test]
fn vitest_is_counted_and_tried() {
    let Some(vitest) = fetched("vitest") else { return };
    let test = "import { test, expect } from 'vitest';\nimport { add } from './calc.mjs';\ntest('adds', () => expect(add(2, 3)).toBe(5));\n";
    check(
        &format!("{} run", vitest.display()),
        &["calc.mjs"],
        &[
            ("package.json", "{}"),
            ("calc.mjs", "export const add = (a, b) => a - b;\n"),
            ("calc.test.mjs", test),
        ],
        &[("honest", &[("calc.mjs", "export const add = (a, b) => a + b;\n")])],
        expect![[r#"
            before: broke: exit code 1 | exit_code == 0 | tests: 1
            honest: held | tests: 1 | a failing test planted in calc.test.mjs made the check fail
        "#]],
    );
}

#[test]
fn mocha_is_counted_and_tried() {
    let Some(mocha) = fetched("mocha") else { return };
    let test = "const { add } = require('../calc.js');\nconst { equal } = require('assert');\n\
        it('adds', () => equal(add(2, 3), 5));\nit('waits', async () => equal(add(0, 0), 0));\n";
    let files: Files<'_> =
        &[("package.json", "{}"), ("calc.js", "exports.add = (a, b) => a - b;\n"), ("test/calc.js", test)];
    let honest: Files<'_> = &[("calc.js", "exports.add = (a, b) => a + b;\n")];
    for options in ["", " --exit --no-warnings"] {
        check(
            &format!("{}{options}", mocha.display()),
            &["calc.js"],
            files,
            &[
                ("honest", honest),
                ("ends the process", &[("calc.js", "process.exit(0);\n")]),
                ("ends it later", &[("calc.js", "exports.add = () => process.exit(0);\n")]),
                ("replaces `it`", &[("calc.js", "globalThis.it = () => {};\n")]),
            ],
            expect![[r#"
                before: broke: exit code 1 | exit_code == 0 | tests: 2
                honest: held | tests: 2 | all tests of mocha were made to fail, and the check failed
                ends the process: broke: exit code 0 | 2 tests were run before, none now
                ends it later: broke: exit code 0 | mocha started and its process ended before its tests had run | tests: 0
                replaces `it`: broke: exit code 0 | 2 tests were run before, none now | tests: 0
            "#]],
        );
    }
    check(
        &format!("{} --parallel", mocha.display()),
        &["calc.js"],
        files,
        &[("honest", honest)],
        expect![[r#"
            before: broke: exit code 1 | exit_code == 0 | tests: 2
            honest: held | tests: 2 | all tests of mocha were made to fail, and the check failed
        "#]],
    );
}

#[test]
fn go_is_tried_and_ctest_is_counted() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("go and ctest");
    }
    if works("go", &["version"]) {
        let test = "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n";
        check(
            "go test ./...",
            &["calc.go"],
            &[
                ("go.mod", "module example.com/calc\n\ngo 1.19\n"),
                ("calc.go", "package calc\n\nfunc Add(a, b int) int { return a - b }\n"),
                ("calc_test.go", test),
            ],
            &[
                ("honest", &[("calc.go", "package calc\n\nfunc Add(a, b int) int { return a + b }\n")]),
                (
                    "ends the process",
                    &[(
                        "calc.go",
                        "package calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }\n",
                    )],
                ),
            ],
            expect![[r#"
                before: broke: exit code 1 | exit_code == 0
                honest: held | a failing test planted in calc_test.go made the check fail
                ends the process: vacuous: a failing test was planted in calc_test.go, and the check still held
            "#]],
        );
    }
    if works("ctest", &["--version"]) {
        let lists = "cmake_minimum_required(VERSION 3.10)\nproject(x NONE)\nenable_testing()\nadd_test(NAME ok COMMAND test -f ${CMAKE_SOURCE_DIR}/done)\n";
        check(
            "cmake -S . -B build > configured && ctest --test-dir build",
            &["done"],
            &[("CMakeLists.txt", lists)],
            &[("honest", &[("done", "")])],
            expect![[r#"
                before: broke: exit code 8 | exit_code == 0 | tests: 1
                honest: held | tests: 1 | no failing test could be planted: ctest runs programs of the build | uncontrolled: ctest runs programs of the build
            "#]],
        );
    }
}

/// Beside a check, a failing test is planted in the tree that provost would use first after it.
#[test]
fn the_first_planted_test_is_known_before_the_check_ends() {
    let go_test = "package a\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) {}\n";
    let rust_test = "#[test]\nfn it_works() {}\n";
    let cases: [(&str, Runner, Files<'_>); 3] = [
        (
            "go test ./...",
            Runner::Go,
            &[("go.mod", "module a\n"), ("a_test.go", go_test), ("b_test.go", go_test)],
        ),
        (
            "cargo test --offline",
            Runner::Cargo,
            &[
                ("Cargo.toml", "[package]\nname = \"a\"\n"),
                ("tests/a.rs", rust_test),
                ("tests/b.rs", rust_test),
            ],
        ),
        ("npx jest", Runner::Jest, &[("a.test.js", "test('a', () => {});\n"), ("package.json", "{}\n")]),
    ];
    for (contract, runner, files) in cases {
        let site = Site::with(files);
        let commit = site.git(&["rev-parse", "HEAD"]);
        let trees = Trees::open(&site.state, &site.workspace).unwrap();
        let base = trees.base("r", Some(&commit), &[], &[]).unwrap();
        site.write("made", "work\n");
        let (all, none) = (Touches::new(&["**"]).unwrap(), Touches::new::<&str>(&[]).unwrap());
        let layer = trees.take_over(&base, &all, &none, &ImportLimits::default()).unwrap();
        let shell = Shell { command: contract.to_owned(), body: Span::default(), expectations: Vec::new() };
        let runners = vec![runner.word().to_owned()];
        let before = Some(BaseResult { held: false, tests: None, runners });
        let asked = Mutex::new(Vec::new());
        let request = ControlRequest {
            level: Isolation::Clean,
            shell: &shell,
            doubts: &Doubts { before, writes_tests: false, bite: true },
            trees: &trees,
            base: &base,
            layer: &layer,
            touches: &all,
            seed: negative_control::seed(),
            run: &|tree, _| {
                asked.lock().unwrap().push(tree.id.clone());
                let verdict = Verdict::bare(Isolation::Clean, CheckOutcome::Broke { exit_code: 1 });
                Ok(ControlRun { verdict, report: RunnerReport::default() })
            },
        };
        let first = request.first_planted().expect("a planted test");
        assert!(asked.lock().unwrap().is_empty());
        let report = RunnerReport { started: runner::started(contract), ..RunnerReport::default() };
        let verdict = Verdict::bare(Isolation::Clean, CheckOutcome::Held);
        let verdict = request.doubt(ControlRun { verdict, report }).unwrap();
        assert!(verdict.teeth.is_some_and(|teeth| teeth.bit), "{contract}");
        assert_eq!(asked.lock().unwrap().join(" "), first.id, "{contract}");
        assert_ne!(first.id, layer.id);
    }
}
