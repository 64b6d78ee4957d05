//! Names the programs and Python modules that a machine provides, and recognises messages that one is
//! missing.
//!
//! provost does not ask an agent to install a test runner or a build tool: if one is missing, the check could
//! not be run.

use std::sync::LazyLock;

use regex::Regex;

/// Test runners and build tools.
const PROGRAMS: &[&str] = &[
    "pytest",
    "py.test",
    "tox",
    "nox",
    "python",
    "python2",
    "python3",
    "pip",
    "pip3",
    "uv",
    "uvx",
    "poetry",
    "pipenv",
    "pdm",
    "hatch",
    "ruff",
    "mypy",
    "black",
    "flake8",
    "pylint",
    "pyright",
    "coverage",
    "cargo",
    "rustc",
    "rustfmt",
    "go",
    "gofmt",
    "golangci-lint",
    "node",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "bun",
    "deno",
    "jest",
    "vitest",
    "mocha",
    "tsc",
    "eslint",
    "prettier",
    "make",
    "gmake",
    "cmake",
    "ctest",
    "ninja",
    "meson",
    "just",
    "bazel",
    "java",
    "javac",
    "mvn",
    "gradle",
    "ruby",
    "bundle",
    "rake",
    "rspec",
    "php",
    "phpunit",
    "composer",
    "dotnet",
    "swift",
    "perl",
];

/// Python modules that are tools: if `python3 -m NAME` fails, the tool is missing, not the work.
const PYTHON_MODULES: &[&str] = &[
    "pytest",
    "pip",
    "venv",
    "ensurepip",
    "virtualenv",
    "tox",
    "nox",
    "nose",
    "nose2",
    "coverage",
    "mypy",
    "ruff",
    "black",
    "isort",
    "flake8",
    "pylint",
    "pyright",
    "bandit",
    "build",
    "twine",
    "poetry",
    "pdm",
    "hatch",
    "hatchling",
    "setuptools",
    "wheel",
    "uv",
    "pipenv",
    "behave",
    "robot",
    "hypothesis",
    "sphinx",
    "mkdocs",
    "pre_commit",
    "pytest_cov",
    "xdist",
    "pytest_asyncio",
    "pytest_timeout",
];

/// Matches messages about a missing program: of shells, `env` and similar ones, make, Go, Node and cargo.
static PROGRAM: LazyLock<Regex> = LazyLock::new(|| {
    let said = [
        r"^(?:.{0,200}: )?([^\s:/]+): command not found$",
        r"^(?:.{0,200}: )?\d+: (?:exec: )?([^\s:/]+): not found$",
        r"^\S*sh: (?:exec: )?([^\s:/]+): not found$",
        r#"^(?:\S*/)?(?:env|timeout|nice|nohup|xargs|stdbuf|setsid|time|ionice|taskset|chrt): (?:failed to run command |cannot run |failed to execute )?['‘`"]?([^\s:/'’`"]+)['’`"]?: No such file or directory"#,
        r#"\bexec: "([\w.+-]+)": executable file not found in \$PATH"#,
        r"^\S*make(?:\[\d+\])?: ([^\s:/]+): (?:Command not found|No such file or directory)$",
        r"\bspawn ([\w.+-]+) ENOENT",
        r"could not execute process `([\w.+-]+)[ `]",
        r"^error: no such command: `([^`]+)`",
    ];
    pattern(&format!("(?m){}", said.join("|")))
});

static MODULE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"No module named ['"]?([\w]+)(?:\.[\w.]+)?['"]?"#));

/// Matches the message about a module that Python could not run as a program.
static RUN_MODULE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?m)^\S*(?:python|pypy)[\d.]*: No module named '?([A-Za-z0-9_]+)(?:\.__main__)?'?")
});

/// Matches a contract that loads definitions or changes PATH, and so may call what the work makes.
static DEFINES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?m)(?:^|[;&|({])\s*(?:\.|source)\s+\S|\(\)\s*\{|\bfunction\s|\bPATH=|\balias\s|\bexport\s+-f\b|\beval\s",
    )
});

pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("not a pattern: {error}"))
}

pub fn is_program(name: &str) -> bool {
    PROGRAMS.contains(&name)
}

/// Returns whether this is a tool that comes as a Python package.
pub fn is_python_tool(name: &str) -> bool {
    PYTHON_MODULES.contains(&name)
}

/// Returns whether the contract may define, or put on its PATH, what it calls.
pub fn defines(command: &str) -> bool {
    DEFINES.is_match(command)
}

/// Returns the programs that an output reports as not found.
pub fn missing_programs(output: &str) -> Vec<&str> {
    let names = PROGRAM.captures_iter(output).filter_map(|found| found.iter().skip(1).flatten().next());
    names.map(|name| name.as_str()).collect()
}

/// Returns the Python tools that an output reports as not installed.
pub fn missing_modules(output: &str) -> Vec<&str> {
    modules(&MODULE, output)
}

/// The same for those that Python tried to run (`python3 -m pytest`).
pub fn missing_run_modules(output: &str) -> Vec<&str> {
    modules(&RUN_MODULE, output)
}

fn modules<'o>(pattern: &Regex, output: &'o str) -> Vec<&'o str> {
    let names = pattern.captures_iter(output).filter_map(|found| Some(found.get(1)?.as_str()));
    names.filter(|name| PYTHON_MODULES.contains(name)).collect()
}

/// Explains how to provide a program.
pub fn lacks_program(name: &str) -> String {
    format!(
        "`{name}` is not on the PATH of checks; install it, or start `provost run` with its folder on PATH"
    )
}

/// Explains how to provide a Python tool.
pub fn lacks_module(name: &str) -> String {
    format!(
        "`{name}` is not installed for the Python that the check calls; install it \
         (`python3 -m pip install {name}`), or call one that has it (`.venv/bin/python -m {name}`)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_found_in_what_others_say_of_it() {
        for (line, name) in [
            ("bash: line 1: cargo: command not found", "cargo"),
            ("/bin/sh: 1: pytest: not found", "pytest"),
            ("make: cargo: No such file or directory", "cargo"),
            ("env: ‘tox’: No such file or directory", "tox"),
            ("exec: \"helm\": executable file not found in $PATH", "helm"),
            ("error: no such command: `nextest`", "nextest"),
            ("Error: spawn jest ENOENT", "jest"),
        ] {
            assert_eq!(missing_programs(&format!("x\n{line}\ny")), [name], "{line}");
        }
        assert_eq!(missing_modules("/usr/bin/python3: No module named pytest"), ["pytest"]);
        assert!(missing_modules("ModuleNotFoundError: No module named 'mine'").is_empty());
        assert!(missing_programs("bash: line 1: ./app: No such file or directory").is_empty());
    }
}
