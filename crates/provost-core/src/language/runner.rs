//! Finds the test runner that a contract starts, and its arguments.
//!
//! A check that runs tests shows more than its exit code: how many tests it ran ([`tests_run`]), and whether
//! it notices a failing one ([`plant`]). Both read the words of the contract; explicit rules look through
//! wrappers (`env`, `timeout`, `uv run`, `npx`, `cd x &&`).
//!
//! **Invariant:** it never guesses: whatever is not literal in the contract is reported as unknown.

use crate::language::shell::{self, Word, WrappedCommand};
use crate::model::plan::Shell;

mod count;
mod dotnet;
pub mod expectations;
mod jvm;
pub mod plant;
pub mod report;
pub mod results;
mod select;

pub use count::{tests_run, tests_run_by, too_few};
pub use select::{Selection, selection};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runner {
    Cargo,
    Nextest,
    Pytest,
    Unittest,
    Node,
    /// A test file that node runs as a program: its tests cannot be counted, but it can be made to fail.
    NodeFile,
    Jest,
    Vitest,
    Mocha,
    Go,
    Ctest,
    Rspec,
    Phpunit,
    Maven,
    Gradle,
    Dotnet,
    /// A script of package.json, to be resolved by reading that file.
    Script,
    /// `make`, `tox` and others: only the output shows what they started.
    Other,
}

impl Runner {
    /// Those whose tests a control run can make fail. For the others, a failing test is planted.
    pub const MADE_TO_FAIL: [Runner; 6] =
        [Runner::Pytest, Runner::Unittest, Runner::Mocha, Runner::Rspec, Runner::Node, Runner::NodeFile];

    pub fn word(self) -> &'static str {
        match self {
            Runner::Cargo => "cargo test",
            Runner::Nextest => "cargo nextest",
            Runner::Pytest => "pytest",
            Runner::Unittest => "unittest",
            Runner::Node => "node --test",
            Runner::NodeFile => "node",
            Runner::Jest => "jest",
            Runner::Vitest => "vitest",
            Runner::Mocha => "mocha",
            Runner::Go => "go test",
            Runner::Ctest => "ctest",
            Runner::Rspec => "rspec",
            Runner::Phpunit => "phpunit",
            Runner::Maven => "maven",
            Runner::Gradle => "gradle",
            Runner::Dotnet => "dotnet test",
            Runner::Script => "a script of package.json",
            Runner::Other => "make, or another tool that starts tests",
        }
    }
}

/// A runner as a contract starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerStart {
    pub runner: Runner,
    /// The folder it runs in, relative to the tree; empty for the top.
    pub folder: String,
    /// Its arguments; `None` for a word that is known only at run time.
    pub args: Vec<Option<String>>,
    /// `! pytest`: it is meant to fail.
    pub negated: bool,
}

/// Returns every runner that a contract starts by name, in the order of the text.
pub fn started(command: &str) -> Vec<RunnerStart> {
    let mut found = Vec::new();
    // A quick test: most checks start no runner, and verification calls this for every check.
    let words = [
        "test", "jest", "cargo", "run", "make", "just", "tox", "nox", "task", "rspec", "rake", "phpunit",
        "mvn", "gradle", "composer",
    ];
    if !words.iter().any(|word| command.contains(word)) {
        return found;
    }
    read(command, String::new(), 0, &mut found);
    found
}

/// Returns whether the contract must show that tests ran: its runner is meant to fail, and a runner that does
/// not even start fails too.
pub fn has_to_show_tests(shell: &Shell) -> bool {
    let fails = shell.is_meant_to_fail();
    let tells = |started: &RunnerStart| match started.runner {
        Runner::Cargo => !started.args.iter().any(|arg| arg.as_deref() == Some("--no-run")),
        Runner::Pytest
        | Runner::Unittest
        | Runner::Nextest
        | Runner::Node
        | Runner::Jest
        | Runner::Vitest
        | Runner::Mocha
        | Runner::Go
        | Runner::Rspec
        | Runner::Phpunit
        | Runner::Maven
        | Runner::Gradle
        | Runner::Dotnet => true,
        Runner::NodeFile | Runner::Ctest | Runner::Script | Runner::Other => false,
    };
    !shell.names_its_failure()
        && started(&shell.command).iter().any(|started| tells(started) && (fails || started.negated))
}

/// Returns whether a test ran: it was counted, or go reported a failed one.
pub fn shows_tests(tests: Option<u32>, outputs: &[&str]) -> bool {
    let of_go = |line: &str| line.trim_start().starts_with("--- FAIL: ");
    tests.is_some() || outputs.iter().any(|output| output.lines().any(of_go))
}

/// Returns whether the runner may stop after the first failure; its count then says nothing about the rest.
pub fn stops_early(started: &RunnerStart) -> bool {
    let flags = [
        "-x",
        "--exitfirst",
        "--maxfail",
        "--bail",
        "-failfast",
        "--failfast",
        "-f",
        "--stop-on-failure",
        "--stop-on-defect",
        "--stop-on-error",
    ];
    let is_flag = |arg: &String| flags.contains(&arg.split('=').next().unwrap_or(arg));
    let runners = [Runner::Cargo, Runner::Nextest, Runner::NodeFile, Runner::Maven, Runner::Gradle];
    runners.contains(&started.runner) || started.args.iter().any(|arg| arg.as_ref().is_none_or(is_flag))
}

/// Returns the runners that a script of package.json starts.
pub fn of_script(package: &str, by: &RunnerStart) -> Vec<RunnerStart> {
    let name = by.args.first().cloned().flatten().unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(package).unwrap_or_default();
    let Some(command) = package["scripts"][name].as_str() else { return Vec::new() };
    let mut found = Vec::new();
    read(command, by.folder.clone(), 0, &mut found);
    // Arguments after `--` go to the last command of the script.
    if let Some(last) = found.last_mut() {
        last.args.extend(by.args.iter().skip(1).filter(|arg| arg.as_deref() != Some("--")).cloned());
    }
    for each in &mut found {
        each.negated ^= by.negated;
    }
    found.retain(|each| !matches!(each.runner, Runner::Script | Runner::Other));
    found
}

/// Maximum nesting depth of scripts.
const DEEPEST: u32 = 2;

fn read(command: &str, folder: String, depth: u32, found: &mut Vec<RunnerStart>) {
    let script = shell::read(command);
    let mut folder = Some(folder);
    for each in &script.commands {
        let words = script.words_of(each);
        if let Some(to) = change_of_folder(command, words) {
            folder = folder.zip(to).and_then(|(from, to)| joined(&from, &to));
            continue;
        }
        let Some(here) = &folder else { continue };
        let before = found.len();
        look_through(command, words, here, depth, found);
        for new in &mut found[before..] {
            new.negated ^= each.negated;
        }
    }
}

/// Reads `cd x` and its target; the inner `None` means an unknown folder.
fn change_of_folder(text: &str, words: &[Word]) -> Option<Option<String>> {
    let first = words.first()?.literal(text)?;
    if !matches!(first.as_ref(), "cd" | "pushd") {
        return None;
    }
    Some(words.get(1).and_then(|word| word.literal(text)).map(|to| to.into_owned()))
}

/// Joins a relative path to another, without `.` and `..`; `None` if it leads outside.
fn joined(from: &str, to: &str) -> Option<String> {
    if to.starts_with(['/', '~', '-']) {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn look_through(text: &str, words: &[Word], folder: &str, depth: u32, found: &mut Vec<RunnerStart>) {
    let Some((first, rest)) = words.split_first() else { return };
    if shell::is_assignment(first.raw(text)) {
        return look_through(text, rest, folder, depth, found);
    }
    let Some(name) = first.literal(text) else { return };
    match shell::wrapped(&name, text, rest) {
        WrappedCommand::Command(inner) => return look_through(text, inner, folder, depth, found),
        WrappedCommand::Script(inner) => {
            if let Some(source) = inner.literal(text).filter(|_| depth < DEEPEST) {
                read(&source, folder.to_owned(), depth + 1, found);
            }
            return;
        }
        WrappedCommand::Nothing => {}
    }
    let args: Vec<Option<String>> =
        rest.iter().map(|word| word.literal(text).map(|value| value.into_owned())).collect();
    let base = name.rsplit('/').next().unwrap_or(&name);
    if let Some((runner, args)) = recognised(base, &args) {
        found.push(RunnerStart { runner, folder: folder.to_owned(), args: args.to_vec(), negated: false });
    }
}

type Args<'a> = &'a [Option<String>];

fn recognised<'a>(name: &str, args: Args<'a>) -> Option<(Runner, Args<'a>)> {
    match name {
        "cargo" => of_cargo(args),
        "pytest" | "py.test" => Some((Runner::Pytest, args)),
        "coverage" => of_python(args.get(1..).filter(|_| word(args) == Some("run"))?),
        "jest" => Some((Runner::Jest, args)),
        "vitest" => match word(args) {
            Some("watch" | "dev" | "bench" | "list" | "init") => None,
            Some("run") => Some((Runner::Vitest, &args[1..])),
            _ => Some((Runner::Vitest, args)),
        },
        "go" => (word(args) == Some("test")).then(|| (Runner::Go, &args[1..])),
        "ctest" => Some((Runner::Ctest, args)),
        "node" | "nodejs" => of_node(args),
        "npm" | "pnpm" | "yarn" | "bun" => of_package_manager(name, args),
        "npx" | "bunx" => again(after_options(args, &["-p", "--package"])),
        "uv" | "poetry" | "pipenv" | "pdm" | "rye" | "hatch" if word(args) == Some("run") => {
            let values =
                ["-p", "--python", "--with", "--extra", "--group", "--project", "--package", "--env-file"];
            again(after_options(&args[1..], &values))
        }
        "rspec" => Some((Runner::Rspec, args)),
        "bundle" if word(args) == Some("exec") => again(after_options(&args[1..], &[])),
        "ruby" => {
            let at = args.iter().position(|arg| arg.as_deref() == Some("-S"))?;
            again(&args[at + 1..])
        }
        "phpunit" | "phpunit.phar" => Some((Runner::Phpunit, args)),
        "php" => again(after_options(args, &["-d", "-c"])),
        "dotnet" => (word(args) == Some("test")).then(|| (Runner::Dotnet, &args[1..])),
        "mvn" | "mvnw" | "mvnd" => jvm::maven(args).then_some((Runner::Maven, args)),
        "gradle" | "gradlew" => jvm::gradle(args).then_some((Runner::Gradle, args)),
        "composer" => {
            let runs = ["test", "run", "run-script", "exec"];
            word(args).is_some_and(|word| runs.contains(&word)).then_some((Runner::Other, args))
        }
        "make" | "gmake" | "just" | "tox" | "nox" | "task" | "rake" => Some((Runner::Other, args)),
        _ if name.starts_with("python") => of_python(args),
        _ => None,
    }
}

fn word(args: Args<'_>) -> Option<&str> {
    args.first()?.as_deref()
}

fn again(args: Args<'_>) -> Option<(Runner, Args<'_>)> {
    let name = word(args)?;
    recognised(name.rsplit('/').next().unwrap_or(name), &args[1..])
}

/// Skips the options; those in `values` take a separate value.
fn after_options<'a>(args: Args<'a>, values: &[&str]) -> Args<'a> {
    let mut rest = args;
    while let Some(option) = word(rest).filter(|word| word.starts_with('-') || word.starts_with('+')) {
        let count = if values.contains(&option) { 2 } else { 1 };
        let is_last = option == "--";
        rest = rest.get(count..).unwrap_or(&[]);
        if is_last {
            break;
        }
    }
    rest
}

fn of_cargo(args: Args<'_>) -> Option<(Runner, Args<'_>)> {
    let rest = after_options(args, &["--color", "--config", "-Z"]);
    match word(rest)? {
        "test" | "t" => Some((Runner::Cargo, &rest[1..])),
        "nextest" => match rest.get(1)?.as_deref()? {
            "run" | "r" => Some((Runner::Nextest, &rest[2..])),
            _ => None,
        },
        _ => None,
    }
}

fn of_python(args: Args<'_>) -> Option<(Runner, Args<'_>)> {
    let at = args.iter().position(|arg| !arg.as_deref().is_some_and(is_python_option))?;
    // `-W x` and `-X x` take a word.
    let at = if at > 0 && matches!(args[at - 1].as_deref(), Some("-W" | "-X")) { at + 1 } else { at };
    match (args.get(at)?.as_deref()?, args.get(at + 1)?.as_deref()?) {
        ("-m", "pytest") => Some((Runner::Pytest, &args[at + 2..])),
        ("-m", "unittest") => Some((Runner::Unittest, &args[at + 2..])),
        ("-m", "coverage") => recognised("coverage", &args[at + 2..]),
        _ => None,
    }
}

fn is_python_option(arg: &str) -> bool {
    arg.starts_with('-') && arg != "-m" && arg != "-c"
}

fn of_node(args: Args<'_>) -> Option<(Runner, Args<'_>)> {
    let file = args.iter().position(|arg| arg.as_deref().is_some_and(|arg| !arg.starts_with('-')));
    let options = &args[..file.unwrap_or(args.len())];
    if options.iter().any(|arg| arg.as_deref() == Some("--test")) {
        return Some((Runner::Node, args));
    }
    let path = args.get(file?)?.as_deref()?;
    crate::language::test_files::is_test(path).then(|| (Runner::NodeFile, &args[file.unwrap_or(0)..]))
}

/// Reads `npm test`, `npm run check`, `pnpm exec jest`: the script name and its arguments.
fn of_package_manager<'a>(name: &str, args: Args<'a>) -> Option<(Runner, Args<'a>)> {
    let rest = after_options(args, &["--filter", "-F"]);
    match word(rest)? {
        "test" if name == "bun" => Some((Runner::Other, rest)),
        "test" => Some((Runner::Script, rest)),
        "run" | "run-script" => Some((Runner::Script, after_options(&rest[1..], &[]))),
        "exec" | "dlx" | "x" => again(after_options(&rest[1..], &[])),
        _ if name == "yarn" => again(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
