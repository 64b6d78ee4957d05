//! Tests contracts as people write them, outputs of real runners, and planted tests.

use std::fmt::Write as _;

use expect_test::expect;

use super::plant::{beside, into_file};
use super::*;

fn words(command: &str) -> String {
    let mut out = String::new();
    for each in started(command) {
        let args: Vec<&str> = each.args.iter().map(|arg| arg.as_deref().unwrap_or("?")).collect();
        let not = if each.negated { "! " } else { "" };
        let _ = write!(out, "{not}{:?} in `{}`: {}; ", each.runner, each.folder, args.join(" "));
    }
    out.trim_end().to_owned()
}

#[test]
fn a_runner_is_known_behind_whatever_stands_before_it() {
    let mut table = String::new();
    for command in [
        "cargo test --offline --quiet",
        "cargo +nightly --locked test -p x",
        "cargo nextest run",
        "cargo build",
        "python3 -m pytest -q tests",
        "! python3 -m pytest -q tests/test_login.py",
        ".venv/bin/python -B -m pytest",
        "uv run --with x pytest tests",
        "env PYTHONPATH=src timeout 60 pytest",
        "cd web && npx --yes jest",
        "set -e; cd a/b\ncd ../c && vitest run",
        "cd \"$X\" && pytest",
        "pytest \"$FILES\"",
        "PYTHONPATH=. python3 -m unittest -q",
        "node --test",
        "node test.js",
        "node build.js",
        "npm test",
        "npm run check -- --ci",
        "pnpm exec vitest run a",
        "go test ./...",
        "ctest --test-dir build",
        "make test",
        "bash -c 'cd x && pytest'",
        "cargo test && pytest",
        "bundle exec rspec spec",
        "ruby -I lib -S rspec",
        "php -d memory_limit=1G vendor/bin/phpunit tests",
        "composer test",
        "./mvnw -B verify",
        "mvn package -DskipTests",
        "mvn compile",
        "./gradlew :app:test",
        "gradle build -x test",
        "gradle testClasses",
        "dotnet test Calc.Tests --no-restore",
        "dotnet build && dotnet vstest a.dll",
        "grep -q pytest notes.md",
        "echo cargo test",
    ] {
        let _ = writeln!(table, "{} -> {}", command.replace('\n', "\\n"), words(command));
    }
    expect![[r#"
        cargo test --offline --quiet -> Cargo in ``: --offline --quiet;
        cargo +nightly --locked test -p x -> Cargo in ``: -p x;
        cargo nextest run -> Nextest in ``: ;
        cargo build -> 
        python3 -m pytest -q tests -> Pytest in ``: -q tests;
        ! python3 -m pytest -q tests/test_login.py -> ! Pytest in ``: -q tests/test_login.py;
        .venv/bin/python -B -m pytest -> Pytest in ``: ;
        uv run --with x pytest tests -> Pytest in ``: tests;
        env PYTHONPATH=src timeout 60 pytest -> Pytest in ``: ;
        cd web && npx --yes jest -> Jest in `web`: ;
        set -e; cd a/b\ncd ../c && vitest run -> Vitest in `a/c`: ;
        cd "$X" && pytest -> 
        pytest "$FILES" -> Pytest in ``: ?;
        PYTHONPATH=. python3 -m unittest -q -> Unittest in ``: -q;
        node --test -> Node in ``: --test;
        node test.js -> NodeFile in ``: test.js;
        node build.js -> 
        npm test -> Script in ``: test;
        npm run check -- --ci -> Script in ``: check -- --ci;
        pnpm exec vitest run a -> Vitest in ``: a;
        go test ./... -> Go in ``: ./...;
        ctest --test-dir build -> Ctest in ``: --test-dir build;
        make test -> Other in ``: test;
        bash -c 'cd x && pytest' -> Pytest in `x`: ;
        cargo test && pytest -> Cargo in ``: ; Pytest in ``: ;
        bundle exec rspec spec -> Rspec in ``: spec;
        ruby -I lib -S rspec -> Rspec in ``: ;
        php -d memory_limit=1G vendor/bin/phpunit tests -> Phpunit in ``: tests;
        composer test -> Other in ``: test;
        ./mvnw -B verify -> Maven in ``: -B verify;
        mvn package -DskipTests -> 
        mvn compile -> 
        ./gradlew :app:test -> Gradle in ``: :app:test;
        gradle build -x test -> 
        gradle testClasses -> 
        dotnet test Calc.Tests --no-restore -> Dotnet in ``: Calc.Tests --no-restore;
        dotnet build && dotnet vstest a.dll -> 
        grep -q pytest notes.md -> 
        echo cargo test -> 
    "#]]
    .assert_eq(&table);
}

/// Real outputs of the runners, some with colours.
const OUTPUTS: &[(&str, &str)] = &[
    ("pytest", "============== 1 failed, 2 passed, 1 skipped, 2 xfailed in 0.03s ===============\n"),
    (
        "pytest -q",
        "FAILED test_a.py::T::test_c - AssertionError: x\n1 failed, 2 passed, 1 skipped, 2 xfailed in 0.04s\n",
    ),
    (
        "pytest --color=yes",
        "\u{1b}[31m============== \u{1b}[31m\u{1b}[1m1 failed\u{1b}[0m, \u{1b}[32m2 passed\u{1b}[0m, \u{1b}[33m1 skipped\u{1b}[0m, \u{1b}[33m2 xfailed\u{1b}[0m\u{1b}[31m in 0.07s\u{1b}[0m\u{1b}[31m ===============\u{1b}[0m\n",
    ),
    (
        "pytest -k nothing",
        "============================ 6 deselected in 0.01s =============================\n",
    ),
    (
        "pytest nofile",
        "============================ no tests ran in 0.00s =============================\nERROR: file or directory not found: nofile\n",
    ),
    (
        "pytest e",
        "!!!!!!!!!!!!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!!!!!!!!!!!\n=============================== 1 error in 0.06s ===============================\n",
    ),
    ("pytest -qq", "FAILED test_a.py::T::test_c - AssertionError: x\n"),
    ("pytest", "========== 300 passed, 2 warnings in 62.10s (0:01:02) ==========\n"),
    ("python3 -m unittest", "Ran 4 tests in 0.001s\n\nFAILED (failures=1, skipped=1, expected failures=1)\n"),
    ("python3 -m unittest", "Ran 0 tests in 0.000s\n\nOK\n"),
    (
        "cargo test",
        "\nrunning 2 tests\ntest b ... ignored\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\nrunning 1 test\ntest c ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
    ),
    ("cargo nextest run", "────────────\n     Summary [   0.012s] 2 tests run: 2 passed, 1 skipped\n"),
    (
        "node --test",
        "1..3\n# tests 3\n# suites 0\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n# duration_ms 182.633044\n",
    ),
    (
        "npx jest",
        "Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 skipped, 1 todo, 1 passed, 4 total\nSnapshots:   0 total\n",
    ),
    (
        "npx vitest run",
        "\u{1b}[2m Test Files \u{1b}[22m \u{1b}[1m\u{1b}[31m1 failed\u{1b}[39m\u{1b}[22m\u{1b}[90m (1)\u{1b}[39m\n\u{1b}[2m      Tests \u{1b}[22m \u{1b}[1m\u{1b}[31m1 failed\u{1b}[39m\u{1b}[22m\u{1b}[2m | \u{1b}[22m\u{1b}[1m\u{1b}[32m1 passed\u{1b}[39m\u{1b}[22m\u{1b}[2m | \u{1b}[22m\u{1b}[33m1 skipped\u{1b}[39m\u{1b}[90m (3)\u{1b}[39m\n",
    ),
    ("npm test", "Tests:       5 passed, 5 total\n"),
    ("make test", "Ran 3 tests in 0.001s\n\nOK\n"),
    ("go test ./...", "ok  \texample.com/x\t0.006s\n?   \texample.com/x/y\t[no test files]\n"),
    (
        "go test -v ./...",
        "=== RUN   TestAdd\n=== RUN   TestAdd/sub\n--- PASS: TestAdd (0.00s)\n    --- PASS: TestAdd/sub (0.00s)\n=== RUN   TestSkip\n    a_test.go:4: no\n--- SKIP: TestSkip (0.00s)\nPASS\nok  \texample.com/x\t0.002s\n?   \texample.com/x/y\t[no test files]\n",
    ),
    (
        "go test -run Nothing ./...",
        "ok  \texample.com/x\t0.005s [no tests to run]\n?   \texample.com/x/y\t[no test files]\n",
    ),
    ("ctest", "50% tests passed, 1 tests failed out of 2\n\nTotal Test time (real) =   0.01 sec\n"),
    ("ctest", "Test project /x\nNo tests were found!!!\n"),
    (
        "mvn test",
        "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.04 s <<< FAILURE! - in a.CalcTest\n[INFO] Results:\n[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1\n",
    ),
    ("rspec", "Finished in 0.02 seconds\n7 examples, 2 failures, 3 pending\n"),
    ("rspec", "1 example, 0 failures\n"),
    ("phpunit", "OK (3 tests, 4 assertions)\n"),
    ("phpunit", "Tests: 6, Assertions: 3, Failures: 2, Skipped: 1, Incomplete: 1, Risky: 1.\n"),
    ("gradle test", "5 tests completed, 1 failed, 1 skipped\n"),
    ("cat notes", "3 passed in 1.0s\n"),
    ("cargo test", "3 passed in 1.0s\n"),
];

#[test]
fn the_tests_that_were_run_are_counted_by_the_runners_own_words() {
    let mut table = String::new();
    for (command, output) in OUTPUTS {
        let last = output.trim_end().lines().last().unwrap_or_default().replace('\u{1b}', "");
        let count = tests_run(command, &[output, ""]);
        let _ = writeln!(
            table,
            "{command}: {} <- {}",
            count.map_or("unknown".to_owned(), |n| n.to_string()),
            last.trim()
        );
    }
    expect![[r#"
        pytest: 5 <- ============== 1 failed, 2 passed, 1 skipped, 2 xfailed in 0.03s ===============
        pytest -q: 5 <- 1 failed, 2 passed, 1 skipped, 2 xfailed in 0.04s
        pytest --color=yes: 5 <- [31m============== [31m[1m1 failed[0m, [32m2 passed[0m, [33m1 skipped[0m, [33m2 xfailed[0m[31m in 0.07s[0m[31m ===============[0m
        pytest -k nothing: 0 <- ============================ 6 deselected in 0.01s =============================
        pytest nofile: 0 <- ERROR: file or directory not found: nofile
        pytest e: 0 <- =============================== 1 error in 0.06s ===============================
        pytest -qq: unknown <- FAILED test_a.py::T::test_c - AssertionError: x
        pytest: 300 <- ========== 300 passed, 2 warnings in 62.10s (0:01:02) ==========
        python3 -m unittest: 3 <- FAILED (failures=1, skipped=1, expected failures=1)
        python3 -m unittest: 0 <- OK
        cargo test: 2 <- test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
        cargo nextest run: 2 <- Summary [   0.012s] 2 tests run: 2 passed, 1 skipped
        node --test: 2 <- # duration_ms 182.633044
        npx jest: 2 <- Snapshots:   0 total
        npx vitest run: 2 <- [2m      Tests [22m [1m[31m1 failed[39m[22m[2m | [22m[1m[32m1 passed[39m[22m[2m | [22m[33m1 skipped[39m[90m (3)[39m
        npm test: 5 <- Tests:       5 passed, 5 total
        make test: 3 <- OK
        go test ./...: unknown <- ?   	example.com/x/y	[no test files]
        go test -v ./...: 1 <- ?   	example.com/x/y	[no test files]
        go test -run Nothing ./...: 0 <- ?   	example.com/x/y	[no test files]
        ctest: 2 <- Total Test time (real) =   0.01 sec
        ctest: 0 <- No tests were found!!!
        mvn test: 2 <- [ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1
        rspec: 4 <- 7 examples, 2 failures, 3 pending
        rspec: 1 <- 1 example, 0 failures
        phpunit: 3 <- OK (3 tests, 4 assertions)
        phpunit: 3 <- Tests: 6, Assertions: 3, Failures: 2, Skipped: 1, Incomplete: 1, Risky: 1.
        gradle test: 4 <- 5 tests completed, 1 failed, 1 skipped
        cat notes: unknown <- 3 passed in 1.0s
        cargo test: unknown <- 3 passed in 1.0s
    "#]].assert_eq(&table);
    // What a runner prints does not count if it reported itself and its list is not complete.
    let open = report::RunnerReport::read("start\x1fphpunit\x1f1\x1f/w", "/w");
    assert_eq!(tests_run_by("phpunit", &open, &["OK (3 tests, 4 assertions)\n"]), None);
    let twice =
        tests_run("cargo test && pytest", &["test result: ok. 1 passed; 0 failed\n", "4 passed in 0.01s\n"]);
    assert_eq!(twice, Some(5));
}

#[test]
fn fewer_tests_than_before_are_too_few() {
    let said = |before, now| too_few(before, now).unwrap_or_default();
    assert_eq!(said(Some(12), Some(3)), "12 tests were run before, 3 now");
    assert_eq!(said(Some(1), Some(0)), "1 test was run before, none now");
    assert_eq!(said(None, Some(0)), "no test was run");
    assert_eq!(said(Some(0), Some(0)), "no test was run");
    // A missing count counts as zero.
    assert_eq!(said(Some(3), None), "3 tests were run before, none now");
    for (before, now) in [(Some(3), Some(3)), (None, Some(1)), (Some(0), None), (None, None)] {
        assert_eq!(said(before, now), "");
    }
}

/// Returns which of these files a contract reaches, and what would be planted in the first one.
fn planted(command: &str) -> String {
    const FILES: &[(&str, &str)] = &[
        ("tests/test_a.py", "def test_one():\n    pass\n"),
        ("tests/test_b.py", "import unittest\nclass B(unittest.TestCase):\n    pass\n"),
        ("src/calc.py", "def add(): pass\n"),
        ("tests/calc.rs", "#[test]\nfn a() {}\n"),
        ("src/lib.rs", "pub fn add() {}\n"),
        ("crates/x/tests/it.rs", "#[test]\nfn a() {}\n"),
        ("web/a.test.js", "test('x', () => {})\n"),
        ("test.js", "assert(true)\n"),
        ("x_test.go", "package x\nimport \"testing\"\n"),
        ("y/y_test.go", "package y\nimport \"testing\"\n"),
        ("tests/CalcTest.php", "<?php\nclass CalcTest extends TestCase\n{\n}\n"),
        ("app/src/test/java/a/CalcTest.java", "import org.junit.jupiter.api.Test;\nclass CalcTest {\n}\n"),
        ("src/test/kotlin/a/CalcTest.kt", "import org.junit.Test\nclass CalcTest {\n}\n"),
        ("Calc.Tests/obj/CalcTests.cs", "class A { [Fact] void A() {} }\n"),
        ("Calc.Tests/CalcTests.cs", "namespace Calc\n{\n    class A { [Fact] void A() {} }\n}\n"),
        ("Unit/MoreTests.cs", "namespace More;\nclass A { [TestMethod] void A() {} }\n"),
        ("Unit/More.cs", "namespace More;\n"),
    ];
    let Some(each) = started(command).into_iter().next() else { return "no runner".to_owned() };
    let chosen = match selection(&each) {
        Ok(chosen) => chosen,
        Err(why) => return format!("not plantable: {why}"),
    };
    let reached: Vec<_> = FILES.iter().filter(|(path, _)| chosen.reaches(&each, path)).collect();
    let names: Vec<&str> = reached.iter().map(|(path, _)| *path).collect();
    let first = reached.iter().find_map(|(path, text)| {
        let plant = into_file(&each, &chosen, path, text, "q7").ok()?;
        Some(
            plant
                .text
                .strip_prefix(text.trim_end())
                .or_else(|| plant.text.strip_prefix(text.trim_end().trim_end_matches('}')))
                .unwrap_or("?")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
        )
    });
    let new =
        beside(&each, &chosen, "f", reached.first().map(|(_, text)| *text), "q7").map(|plant| plant.path);
    format!("{} | {} | {}", names.join(" "), first.unwrap_or("-".to_owned()), new.unwrap_or("-".to_owned()))
}

#[test]
fn a_failing_test_is_put_where_the_contract_finds_it() {
    let mut table = String::new();
    for command in [
        "pytest",
        "pytest -q tests",
        "pytest tests/test_b.py",
        "pytest tests/test_a.py::test_one",
        "pytest tests/test_b.py::B::test_x",
        "pytest -k add",
        "pytest -k 'add and not x'",
        "pytest -m slow",
        "! pytest",
        "python3 -m unittest -q",
        "python3 -m unittest tests.test_b",
        "python3 -m unittest discover -s tests",
        "cargo test",
        "cargo test --test calc",
        "cargo test --lib",
        "cargo test it_adds",
        "cargo test -p x -- --exact a",
        "cargo nextest run -p x",
        "node --test",
        "node --test web/a.test.js",
        "node test.js",
        "cd web && npx jest",
        "npx vitest run web",
        "npx jest -t adds",
        "go test",
        "go test ./...",
        "go test -run TestAdd ./y",
        "phpunit",
        "phpunit --filter testAdd",
        "mvn test",
        "mvn test -Dtest=CalcTest",
        "gradle :app:test",
        "gradle test --tests CalcTest",
        "dotnet test",
        "cd Unit && dotnet test -c Release -v q",
        "dotnet test Calc.Tests/Calc.Tests.csproj --logger trx",
        "dotnet test --filter Name=x",
        "dotnet test out/Calc.Tests.dll",
        "rspec",
        "ctest",
        "npm test",
        "pytest $X",
    ] {
        let _ = writeln!(table, "{command} -> {}", planted(command));
    }
    expect![[r#"
        pytest -> tests/test_a.py tests/test_b.py | def test_q7(): assert False, "planted" | f/test_q7.py
        pytest -q tests -> tests/test_a.py tests/test_b.py | def test_q7(): assert False, "planted" | f/test_q7.py
        pytest tests/test_b.py -> tests/test_b.py | import unittest as unittest_q7 class Test_q7(unittest_q7.TestCase): def test_q7(self): self.fail("planted") | -
        pytest tests/test_a.py::test_one -> tests/test_a.py | def test_one(): assert False, "planted" | -
        pytest tests/test_b.py::B::test_x -> not plantable: tests/test_b.py::B::test_x names one test
        pytest -k add -> tests/test_a.py tests/test_b.py | def test_add_q7(): assert False, "planted" | f/test_q7.py
        pytest -k 'add and not x' -> not plantable: provost does not understand what `-k add and not x` selects
        pytest -m slow -> not plantable: it selects tests by marks or by an earlier run
        ! pytest -> not plantable: it is meant to fail
        python3 -m unittest -q -> tests/test_a.py tests/test_b.py | import unittest as unittest_q7 class Test_q7(unittest_q7.TestCase): def test_q7(self): self.fail("planted") | f/test_q7.py
        python3 -m unittest tests.test_b -> tests/test_b.py | import unittest as unittest_q7 class Test_q7(unittest_q7.TestCase): def test_q7(self): self.fail("planted") | -
        python3 -m unittest discover -s tests -> tests/test_a.py tests/test_b.py | import unittest as unittest_q7 class Test_q7(unittest_q7.TestCase): def test_q7(self): self.fail("planted") | f/test_q7.py
        cargo test -> tests/calc.rs src/lib.rs crates/x/tests/it.rs | #[cfg(test)] mod test_q7 { #[test] fn test_q7() { panic!("planted"); } } | f/test_q7.rs
        cargo test --test calc -> tests/calc.rs | #[cfg(test)] mod test_q7 { #[test] fn test_q7() { panic!("planted"); } } | -
        cargo test --lib -> src/lib.rs | - | -
        cargo test it_adds -> tests/calc.rs src/lib.rs crates/x/tests/it.rs | #[cfg(test)] mod test_q7 { #[test] fn it_adds_q7() { panic!("planted"); } } | f/test_q7.rs
        cargo test -p x -- --exact a -> not plantable: provost does not understand which tests it selects
        cargo nextest run -p x -> crates/x/tests/it.rs | #[cfg(test)] mod test_q7 { #[test] fn test_q7() { panic!("planted"); } } | f/test_q7.rs
        node --test -> web/a.test.js test.js | require("node:test").test("test_q7", () => { throw new Error("planted"); }); | f/q7.test.cjs
        node --test web/a.test.js -> web/a.test.js | require("node:test").test("test_q7", () => { throw new Error("planted"); }); | -
        node test.js -> test.js | throw new Error("planted: test_q7"); | -
        cd web && npx jest -> web/a.test.js | test("test_q7", () => { throw new Error("planted"); }); | f/q7.test.js
        npx vitest run web -> web/a.test.js | import { test as test_q7 } from "vitest"; test_q7("test_q7", () => { throw new Error("planted"); }); | -
        npx jest -t adds -> not plantable: provost does not understand which tests it selects
        go test -> x_test.go | func Test_q7(t *testing.T) { t.Fatal("planted") } | f/q7_test.go
        go test ./... -> x_test.go y/y_test.go | func Test_q7(t *testing.T) { t.Fatal("planted") } | f/q7_test.go
        go test -run TestAdd ./y -> y/y_test.go | func TestAdd_q7(t *testing.T) { t.Fatal("planted") } | f/q7_test.go
        phpunit -> tests/CalcTest.php | public function test_q7(): void { $this->fail("planted"); } } | -
        phpunit --filter testAdd -> not plantable: it selects tests by their names or groups
        mvn test -> app/src/test/java/a/CalcTest.java src/test/kotlin/a/CalcTest.kt | @org.junit.jupiter.api.Test public void test_q7() { throw new AssertionError("planted"); } } | -
        mvn test -Dtest=CalcTest -> not plantable: provost does not understand which tests it selects
        gradle :app:test -> app/src/test/java/a/CalcTest.java | @org.junit.jupiter.api.Test public void test_q7() { throw new AssertionError("planted"); } } | -
        gradle test --tests CalcTest -> not plantable: provost does not understand which tests it selects
        dotnet test -> Calc.Tests/CalcTests.cs Unit/MoreTests.cs | public class Test_q7 { [global::Xunit.Fact] public void test_q7() { throw new global::System.Exception("planted"); } } | -
        cd Unit && dotnet test -c Release -v q -> Unit/MoreTests.cs | [global::Microsoft.VisualStudio.TestTools.UnitTesting.TestClass] public class Test_q7 { [global::Microsoft.VisualStudio.TestTools.UnitTesting.TestMethod] public void test_q7() { throw new global::System.Exception("planted"); } } | -
        dotnet test Calc.Tests/Calc.Tests.csproj --logger trx -> Calc.Tests/CalcTests.cs | public class Test_q7 { [global::Xunit.Fact] public void test_q7() { throw new global::System.Exception("planted"); } } | -
        dotnet test --filter Name=x -> not plantable: provost does not understand which tests it selects
        dotnet test out/Calc.Tests.dll -> not plantable: out/Calc.Tests.dll was built before
        rspec -> not plantable: only a run of rspec tells which tests it runs
        ctest -> not plantable: ctest runs programs of the build
        npm test -> not plantable: package.json does not say which tests the script runs
        pytest $X -> not plantable: its arguments are known only when it runs
    "#]].assert_eq(&table);
}

#[test]
fn a_script_of_package_json_is_read_once() {
    let package = r#"{"scripts": {"test": "NODE_ENV=x jest --ci", "all": "npm test"}}"#;
    let by = |command: &str| started(command).remove(0);
    let found = of_script(package, &by("cd web && npm test -- a"));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].runner, found[0].folder.as_str()), (Runner::Jest, "web"));
    assert_eq!(of_script(package, &by("npm run all")), []);
    assert_eq!(of_script("{", &by("npm test")), []);
}

#[test]
fn a_file_that_puts_its_own_tests_aside_is_no_place() {
    let each = started("pytest").remove(0);
    let chosen = selection(&each).unwrap();
    let aside = into_file(&each, &chosen, "tests/test_a.py", "pytestmark = pytest.mark.skip\n", "q7");
    assert_eq!(aside, Err("tests/test_a.py has `pytestmark`".to_owned()));
}
