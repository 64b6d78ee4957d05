//! Decides by name which files a check depends on: tests, and the configuration of test runners.
//!
//! One table covers all ecosystems. An agent that may write such a file may decide the result of the check.
//! So provost does not trust a pass that these files alone cause, and does not import configuration that a
//! wide glob allows by accident.
//!
//! **Invariant:** the decision depends on the path alone and is the same on every machine.

use crate::language::recipes;
use crate::language::shell::{Join, ShellCommand, ShellScript};

/// Names of folders that hold tests, at any depth.
const TEST_FOLDERS: [&str; 8] =
    ["test", "tests", "__tests__", "spec", "specs", "testing", "e2e", "__snapshots__"];

/// Configuration that decides what a runner runs and how, and that ordinary work rarely edits.
const RUNNER_FILES: [&str; 32] = [
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    // pytest finds plugins through this file in a package's metadata folder.
    "entry_points.txt",
    "tox.ini",
    "noxfile.py",
    "sitecustomize.py",
    "usercustomize.py",
    "GNUmakefile",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".mocharc.json",
    ".mocharc.jsonc",
    ".mocharc.yml",
    ".mocharc.yaml",
    ".mocharc.js",
    ".mocharc.cjs",
    "mocha.opts",
    ".coveragerc",
    "nextest.toml",
    "CTestTestfile.cmake",
    "CTestCustom.cmake",
    ".rspec",
    "phpunit.xml",
    "phpunit.dist.xml",
    "phpunit.xml.dist",
    "xunit.runner.json",
    "Directory.Build.rsp",
];

/// The same, with any extension.
const RUNNER_STEMS: [&str; 11] = [
    "jest.config.",
    "jest.setup.",
    "vitest.setup.",
    "setupTests.",
    "ava.config.",
    "vitest.config.",
    "vitest.workspace.",
    "vite.config.",
    "babel.config.",
    "playwright.config.",
    "karma.conf.",
];

/// Configuration that also runs checks, and that ordinary work edits.
const PROJECT_FILES: [&str; 25] = [
    "setup.cfg",
    "setup.py",
    "pyproject.toml",
    "Makefile",
    "makefile",
    "justfile",
    "Justfile",
    "package.json",
    "Cargo.toml",
    "build.rs",
    "go.mod",
    "CMakeLists.txt",
    "tsconfig.json",
    "Taskfile.yml",
    "Rakefile",
    "composer.json",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "Directory.Build.props",
    "Directory.Build.targets",
    "Directory.Packages.props",
    "global.json",
];

/// Other names that tools look for in parent folders: configuration and code folders, and tool versions.
const FOUND_ABOVE: [&str; 19] = [
    ".cargo",
    "node_modules",
    "go.work",
    "rust-toolchain",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "clippy.toml",
    ".python-version",
    ".node-version",
    ".nvmrc",
    ".ruby-version",
    ".tool-versions",
    ".mise.toml",
    "mise.toml",
    ".envrc",
    ".env",
    ".babelrc",
    ".swcrc",
    ".mocharc.js",
];

/// Recognises a test file, by its name or its folder.
pub fn is_test(path: &str) -> bool {
    let (folders, name) = split(path);
    folders.split('/').any(|folder| TEST_FOLDERS.contains(&folder) || is_test_project(folder))
        || is_test_name(name)
}

/// Recognises the folder of a .NET project of tests: `Calc.Tests`, `Calc.UnitTests`.
fn is_test_project(folder: &str) -> bool {
    let last = folder.rsplit_once('.').map_or("", |(_, last)| last);
    ["Tests", "Test", "Specs"].iter().any(|end| last.ends_with(end))
}

/// Recognises the file of a .NET project or solution.
fn is_dotnet_project(name: &str) -> bool {
    [".csproj", ".fsproj", ".vbproj", ".sln", ".slnx"].iter().any(|end| name.ends_with(end))
}

fn is_test_name(name: &str) -> bool {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    match extension {
        "py" => stem.starts_with("test_") || stem.ends_with("_test") || matches!(stem, "test" | "tests"),
        "go" => stem.ends_with("_test"),
        "rs" => matches!(stem, "test" | "tests") || stem.ends_with("_test") || stem.ends_with("_tests"),
        "js" | "cjs" | "mjs" | "jsx" | "ts" | "cts" | "mts" | "tsx" => {
            stem == "test"
                || [".test", ".spec", "-test", "_test"].iter().any(|end| stem.ends_with(end))
                || stem.starts_with("test-")
        }
        "sh" | "bash" => matches!(stem, "test" | "tests") || stem.starts_with("test_"),
        "bats" | "snap" => true,
        "c" | "cc" | "cpp" | "java" | "kt" | "rb" | "php" | "cs" | "fs" | "vb" => {
            stem.starts_with("test_")
                || ["_test", "_spec", "Test", "Tests"].iter().any(|end| stem.ends_with(end))
        }
        _ => false,
    }
}

/// Recognises the configuration of a test runner.
pub fn is_runner_file(path: &str) -> bool {
    let (folders, name) = split(path);
    RUNNER_FILES.contains(&name)
        || name.ends_with(".runsettings")
        || RUNNER_STEMS.iter().any(|stem| name.starts_with(stem))
        || folders.split('/').any(|folder| folder == ".cargo")
}

/// Recognises any file that a check may depend on.
pub fn is_oracle(path: &str) -> bool {
    let (_, name) = split(path);
    is_test(path) || is_runner_file(path) || PROJECT_FILES.contains(&name) || is_dotnet_project(name)
}

/// Recognises names that tools look for in the parent folders of the one they work in.
pub fn is_found_above(name: &str) -> bool {
    is_runner_file(name) || PROJECT_FILES.contains(&name) || FOUND_ABOVE.contains(&name)
}

/// Recognises a folder that a glob names explicitly as tests or configuration: `tests/**`, `.cargo/**`.
pub fn is_handed_over(folder: &str) -> bool {
    folder.split('/').any(|part| TEST_FOLDERS.contains(&part) || part == ".cargo")
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Shell commands that run no code of the project.
const HARMLESS: [&str; 22] = [
    ":", "true", "false", "echo", "printf", "cd", "pushd", "popd", "set", "shopt", "exit", "return",
    "export", "local", "unset", "shift", "read", "sort", "uniq", "cut", "tr", "wait",
];

/// Returns whether the contract only reads files: no code of the project runs, so none can influence it.
pub fn only_looks(command: &str) -> bool {
    let script = crate::language::shell::read(command);
    script.functions.is_empty() && script.commands.iter().all(|each| is_look(&script, each, command))
}

/// Returns whether the exit code of project code decides. It does not if only its output is compared, as in
/// `test "$(./a)" = 1` and `./a | grep -q 1`.
pub fn lets_code_decide(command: &str) -> bool {
    let script = crate::language::shell::read(command);
    let is_inside_a_word = |each: &ShellCommand| {
        script.words.iter().any(|word| word.expands && word.start < each.start && each.end <= word.end)
    };
    let is_compared = |each: &ShellCommand| each.then == Join::Pipe || is_inside_a_word(each);
    !script.functions.is_empty()
        || script.commands.iter().any(|each| !is_look(&script, each, command) && !is_compared(each))
}

fn is_look(script: &ShellScript, each: &ShellCommand, text: &str) -> bool {
    let words = script.words_of(each);
    let first = words.iter().position(|word| !crate::language::shell::is_assignment(word.raw(text)));
    let Some((first, rest)) = first.and_then(|at| words[at..].split_first()) else { return true };
    let name = first.literal(text);
    let is_recipe = name.as_deref() == Some(recipes::PROGRAM) && {
        let recipe = rest.first().and_then(|word| word.literal(text));
        recipe.is_some_and(|recipe| recipes::only_reads(&recipe))
    };
    each.compound
        || is_recipe
        || name.is_some_and(|name| READERS.contains(&&*name) || HARMLESS.contains(&&*name))
}

/// Programs that read a file and do not run it.
const READERS: [&str; 18] = [
    "test",
    "[",
    "[[",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "cat",
    "head",
    "tail",
    "wc",
    "diff",
    "cmp",
    "jq",
    "ls",
    "stat",
    "file",
    "sha256sum",
];

/// Returns the changed files that a contract depends on. A file that the contract only reads is its subject:
/// `grep -q timeout tests/README.md` depends on the work alone.
pub fn of_contract<'p>(command: &str, changed: impl IntoIterator<Item = &'p str>) -> Vec<&'p str> {
    let script = crate::language::shell::read(command);
    let (mut read, mut run) = (Vec::new(), Vec::new());
    for each in &script.commands {
        let words = script.words_of(each);
        let Some((first, rest)) = words.split_first() else { continue };
        let is_reader = first.literal(command).is_some_and(|name| READERS.contains(&name.as_ref()));
        let files = rest.iter().filter_map(|word| word.literal(command));
        let files = files.map(|word| word.trim_start_matches("./").to_owned());
        if is_reader { read.extend(files) } else { run.extend(files) }
    }
    let is_looked_at =
        |path: &str| read.iter().any(|file| file == path) && !run.iter().any(|file| file == path);
    changed.into_iter().filter(|path| is_oracle(path) && !is_looked_at(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_configuration_are_known_by_name() {
        for path in [
            "tests/test_calc.py",
            "src/calc_test.go",
            "web/a.test.tsx",
            "crates/x/tests/it/main.rs",
            "test.js",
            "pkg/__tests__/a.js",
            "check_test.py",
            "a/b.spec.ts",
            "src/Calc.Tests/Helper.cs",
            "CalcTests.cs",
        ] {
            assert!(is_test(path) && is_oracle(path), "{path}");
        }
        assert!(
            ["conftest.py", ".cargo", "node_modules", "Cargo.toml"].into_iter().all(super::is_found_above)
        );
        assert!(!["tests", "src", "notes.md"].into_iter().any(super::is_found_above));
        for path in
            ["src/conftest.py", ".cargo/config.toml", "jest.config.ts", "GNUmakefile", "ci/a.runsettings"]
        {
            assert!(is_runner_file(path) && is_oracle(path), "{path}");
        }
        for path in [
            "package.json",
            "crates/x/Cargo.toml",
            "Makefile",
            "pyproject.toml",
            "Calc/Calc.csproj",
            "all.sln",
        ] {
            assert!(is_oracle(path) && !is_runner_file(path), "{path}");
        }
        for path in [
            "src/calc.py",
            "src/latest.rs",
            "contest.py",
            "src/attest.rs",
            "out/1",
            "docs/testing.md",
            "lib/a.c",
            // Files that only a server reads are not part of a check on this machine.
            ".github/workflows/ci.yml",
        ] {
            assert!(!is_oracle(path), "{path}");
        }
    }

    #[test]
    fn a_contract_that_only_looks_runs_no_code_of_the_project() {
        for looks in
            ["test -f a", "! grep -q x a && X=1 cat b | wc -l", "if [ -f a ]; then exit 1; fi", "true"]
        {
            assert!(only_looks(looks), "{looks}");
        }
        for runs in ["test -f a && python3 a", "[ \"$(./a)\" = 1 ]", "make", "$X a", "grep() { ./a; }; grep"]
        {
            assert!(!only_looks(runs), "{runs}");
        }
        for compared in ["test \"$(sh a 1)\" = 2", "./a | grep -q 1", "grep -qw \"$(sh a)\" b"] {
            assert!(!only_looks(compared) && !lets_code_decide(compared), "{compared}");
        }
        for decides in ["sh a", "test -f a && python3 a", "./a | tee b && make", "a() { ./b; }; a"] {
            assert!(lets_code_decide(decides), "{decides}");
        }
    }

    #[test]
    fn what_a_contract_only_looks_at_is_what_it_is_about() {
        let changed = ["tests/run", "Makefile", "src/a.c"];
        assert_eq!(of_contract("sh tests/run", changed), ["tests/run", "Makefile"]);
        assert_eq!(of_contract("test -f tests/run && grep -q all Makefile", changed), Vec::<&str>::new());
        assert_eq!(of_contract("test -f tests/run && sh tests/run", changed), ["tests/run", "Makefile"]);
        assert_eq!(of_contract("make test", changed), ["tests/run", "Makefile"]);
    }
}
