//! Finds a command whose failure a contract ignores or expects, but that failed because it could not do its
//! job.
//!
//! `! make test` holds if there is no target `test`, `! cargo test` if the code does not compile: such a
//! failure shows nothing. The cause is in the tree, so the check did not hold; a tool that is missing on the
//! machine is found by [`crate::language::tool_names`]. A contract that means exactly this failure says so
//! with an expectation about its output.
//!
//! **Invariant:** nothing in this module can make a contract hold.

use std::sync::LazyLock;

use regex::Regex;

use crate::language::shell::{self, Join, ShellCommand, ShellScript, Word, WrappedCommand};
use crate::language::test_files;
use crate::language::tool_names::pattern;
use crate::model::plan::Shell;

/// Start of the message about a failure that shows nothing.
pub const NOT_VERIFIABLE: &str = "not verifiable: ";

/// Returns whether the contract can hold although one of its commands failed.
pub fn may_swallow(shell: &Shell) -> bool {
    shell.is_meant_to_fail() || Calls::read(&shell.command).iter().any(|call| !call.decides)
}

/// Returns why the failure of a command shows nothing, and what to do. `None` if the command did its job.
pub fn found(shell: &Shell, outputs: &[&str]) -> Option<String> {
    if shell.names_its_failure() || !may_swallow(shell) {
        return None;
    }
    let calls = Calls { all: Calls::read(&shell.command), fails: shell.is_meant_to_fail() };
    let lines = || outputs.iter().flat_map(|output| output.lines()).map(str::trim_end);
    let what = RULES.iter().find_map(|rule| {
        let found = lines().find_map(|line| rule.pattern.captures(line))?;
        let name = found.iter().skip(1).flatten().next().map_or("", |name| name.as_str());
        calls.are_about(rule, name).then(|| rule.words.replace("{}", name))
    })?;
    Some(format!(
        "{NOT_VERIFIABLE}{what}, so its failure shows nothing about the work; make the check run, or name \
         the failure that you expect below the contract (`stderr contains \"…\"`)"
    ))
}

/// The message of a tool that could not do its job.
struct Rule {
    tool: &'static str,
    pattern: Regex,
    words: &'static str,
    asks: Asks,
}

/// The commands that a message can belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// The tool, however the contract starts it.
    Anything,
    /// The same, except for subcommands whose purpose is to find it out: `cargo build` fails if the code does
    /// not compile.
    But(&'static [&'static str]),
    /// A file that the contract itself runs.
    File,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let compiles =
        Asks::But(&["build", "b", "check", "c", "clippy", "rustc", "doc", "d", "package", "publish"]);
    let builds = Asks::But(&["build", "vet", "install", "generate"]);
    let rule = |tool, text: &str, words, asks| Rule { tool, pattern: pattern(text), words, asks };
    let any = |tool, text: &str, words| rule(tool, text, words, Asks::Anything);
    let file = |tool, text: &str, words| rule(tool, text, words, Asks::File);
    vec![
        any(
            "make",
            r"^\S*make(?:\[\d+\])?: \*\*\* No rule to make target [‘'`]([^’'`]+)[’'`]",
            "make has no rule for `{}`",
        ),
        any(
            "make",
            r"^\S*make(?:\[\d+\])?: \*\*\* No targets specified and no makefile found",
            "make found no makefile",
        ),
        any(
            "make",
            r"^\S*make(?:\[\d+\])?: \*\*\* ([^\s\[\]:]+): No such file or directory\.  Stop",
            "make did not find `{}`",
        ),
        any(
            "make",
            r"^\S*make(?:\[\d+\])?: \*\*\* \[(?:\S+: )?([^\]]+)\] Error 12[67]$",
            "make could not run a command of `{}`",
        ),
        any(
            "npm",
            r#"^npm (?:error|ERR!) [Mm]issing script: "?([^"\s]+)"?"#,
            "package.json has no script `{}`",
        ),
        any(
            "npm",
            r"^npm (?:error|ERR!) (?:enoent )?Could not read package\.json",
            "npm found no package.json",
        ),
        any(
            "npm",
            r"^npm (?:error|ERR!) enoent ENOENT: no such file or directory, open '[^']*package\.json'",
            "npm found no package.json",
        ),
        any("pnpm", r"ERR_PNPM_NO_SCRIPT\S*\s+Missing script: (\S+)", "package.json has no script `{}`"),
        any("pnpm", r"ERR_PNPM_NO_IMPORTER_MANIFEST_FOUND", "pnpm found no package.json"),
        any("yarn", r#"^error Command "([^"]+)" not found\."#, "package.json has no script `{}`"),
        any("yarn", r#"Couldn't find a script named "([^"]+)""#, "package.json has no script `{}`"),
        any("bun", r#"^error: Script not found "([^"]+)""#, "package.json has no script `{}`"),
        any("deno", r"^error: Task not found: (\S+)", "deno has no task `{}`"),
        any(
            "just",
            r"^error: [Jj]ustfile does not contain recipe `([^`]+)`",
            "the justfile has no recipe `{}`",
        ),
        any("just", r"^error: No justfile found", "just found no justfile"),
        any("rake", r"Don't know how to build task '([^']+)'", "rake has no task `{}`"),
        any("gradle", r"^Task '([^']+)' not found in ", "gradle has no task `{}`"),
        any("composer", r#"^\s*Command "([^"]+)" is not defined\."#, "composer has no script `{}`"),
        rule("cargo", r"^error: could not compile `([^`]+)`", "`{}` does not compile", compiles),
        any("cargo", r"^error: could not find `Cargo\.toml` in", "cargo found no Cargo.toml"),
        any("cargo", r"^error: no \w+ target named `([^`]+)`", "cargo has no target `{}`"),
        any(
            "cargo",
            r"^error: package ID specification `([^`]+)` did not match",
            "cargo has no package `{}`",
        ),
        any(
            "cargo",
            r"^error: failed to (?:parse manifest|load manifest)",
            "cargo cannot read its Cargo.toml",
        ),
        rule("go", r"^FAIL\s+(\S+)\s+\[(?:build|setup) failed\]", "`{}` does not build", builds),
        any("go", r"^go: (?:cannot find main module|go\.mod file not found)", "go found no go.mod"),
        any("go", r"^(?:package )?(\S+): no Go files in ", "`{}` has no Go files"),
        file(
            "node",
            r"^Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find module '([^']+)'",
            "node did not find `{}`",
        ),
        file("node", r"^Could not find '([^']+)'", "node did not find `{}`"),
        any("python3", r"^\S*(?:python|pypy)[\d.]*: can't open file '([^']+)'", "python did not find `{}`"),
        any(
            "python3",
            r"^\S*(?:python|pypy)[\d.]*: No module named '?([\w.]+)",
            "python found no module `{}`",
        ),
        any(
            "python3",
            r"^ImportError: Failed to import test module: (\S+)",
            "the tests of `{}` cannot be imported",
        ),
        any(
            "pytest",
            r"^ERROR: (?:file or directory not found|not found): (\S+)",
            "pytest did not find `{}`",
        ),
        any("perl", r#"^Can't open perl script "([^"]+)""#, "perl did not find `{}`"),
        any("ruby", r"^ruby: No such file or directory -- (\S+)", "ruby did not find `{}`"),
        any("php", r"^Could not open input file: (\S+)", "php did not find `{}`"),
        any(
            "java",
            r"^Error: (?:Unable to access jarfile|Could not find or load main class) (\S+)",
            "java did not find `{}`",
        ),
        file(
            "",
            r"^(?:\S*/)?(?:ba|da|k|z|a)?sh: (?:line )?(?:\d+: )?(?:cannot open |Can't open |can't open input file: )?([^:]+?)(?:: (?:No such file(?: or directory)?|not found|Is a directory))?$",
            "`{}` is missing",
        ),
        file(
            "",
            r"^(?:\S*/)?(?:ba|da|k|z|a)?sh: (?:line )?(?:\d+: )?([^:]+): (?:Permission denied|cannot execute\b.*|bad interpreter\b.*)$",
            "`{}` cannot be run",
        ),
        file(
            "",
            r"^(?:\S*/)?(?:env|timeout|nice|nohup|xargs|stdbuf|setsid|time): (?:failed to run command |cannot run |failed to execute )?[‘'`]?([^\s:’'`]+)[’'`]?: (?:No such file or directory|Permission denied)$",
            "`{}` cannot be run",
        ),
    ]
});

/// A simple command of a contract.
struct Call {
    /// The last part of its path; `None` if the name is not literal.
    name: Option<String>,
    args: Vec<String>,
    /// If it fails, the contract does not hold.
    decides: bool,
    /// It reads files and runs nothing.
    looks: bool,
}

struct Calls {
    all: Vec<Call>,
    /// The contract holds if its last command fails.
    fails: bool,
}

impl Calls {
    fn read(text: &str) -> Vec<Call> {
        let mut calls = Vec::new();
        read(text, true, 0, &mut calls);
        calls
    }

    /// Returns whether a matching line can come from a command whose failure the contract ignores or expects.
    fn are_about(&self, rule: &Rule, name: &str) -> bool {
        let swallowed = |call: &&Call| self.fails || !call.decides;
        if rule.asks == Asks::File {
            return self.all.iter().filter(swallowed).any(|call| call.runs(name));
        }
        let mut named = self.all.iter().filter(|call| call.is(rule.tool)).peekable();
        if named.peek().is_none() {
            // Another command started the tool: make or a script.
            return self.all.iter().filter(swallowed).any(|call| !call.looks);
        }
        named.filter(swallowed).any(|call| match rule.asks {
            Asks::But(jobs) => !call.asks_for(jobs),
            Asks::Anything | Asks::File => true,
        })
    }
}

impl Call {
    fn is(&self, tool: &str) -> bool {
        let Some(name) = &self.name else { return false };
        name == tool || tool == "python3" && name.starts_with("python") || tool == "make" && name == "gmake"
    }

    /// Returns whether the subcommand, after options and a toolchain (`+nightly`), is one of these, or
    /// whether it only builds.
    fn asks_for(&self, jobs: &[&str]) -> bool {
        let first = self.args.iter().find(|arg| !arg.starts_with(['-', '+']));
        first.is_some_and(|arg| jobs.contains(&arg.as_str())) || self.args.iter().any(|arg| arg == "--no-run")
    }

    /// Returns whether the command runs the file, by its own name or as an argument of an interpreter.
    fn runs(&self, file: &str) -> bool {
        let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let own = self.name.as_deref() == Some(&last(file));
        own || self.args.iter().any(|arg| arg == file || last(arg) == last(file))
            && self.name.as_deref().is_some_and(|name| INTERPRETERS.contains(&name))
    }
}

const INTERPRETERS: [&str; 9] = ["bash", "sh", "dash", "zsh", "ksh", "source", ".", "node", "nodejs"];

/// Maximum nesting depth of scripts.
const DEEPEST: u32 = 2;

fn read(text: &str, decides: bool, depth: u32, calls: &mut Vec<Call>) {
    let script = shell::read(text);
    let stops = Stops::of(&script, text);
    let top: Vec<&ShellCommand> = script.top().collect();
    for each in &script.commands {
        let at = top.iter().position(|command| command.start == each.start && command.end == each.end);
        let own = decides
            && at.is_some_and(|at| is_decisive(&top[at..], at.checked_sub(1).map(|at| top[at]), stops));
        add(text, script.words_of(each), own && !each.compound, depth, calls, each);
    }
}

fn add(text: &str, words: &[Word], decides: bool, depth: u32, calls: &mut Vec<Call>, command: &ShellCommand) {
    let Some((first, rest)) = words.split_first() else { return };
    if shell::is_assignment(first.raw(text)) {
        return add(text, rest, decides, depth, calls, command);
    }
    let name = first.literal(text);
    if let Some(name) = &name {
        match shell::wrapped(name, text, rest) {
            WrappedCommand::Command(inner) => return add(text, inner, decides, depth, calls, command),
            WrappedCommand::Script(inner) => {
                if let Some(source) = inner.literal(text).filter(|_| depth < DEEPEST) {
                    return read(&source, decides, depth + 1, calls);
                }
            }
            WrappedCommand::Nothing => {}
        }
    }
    let own = text.get(command.start..command.end).unwrap_or_default();
    calls.push(Call {
        name: name.map(|name| name.rsplit('/').next().unwrap_or(&name).to_owned()),
        args: rest.iter().filter_map(|word| Some(word.literal(text)?.into_owned())).collect(),
        decides,
        looks: test_files::only_looks(own.trim_start_matches(['!', ' '])),
    });
}

/// Shell options about failing commands.
#[derive(Clone, Copy)]
struct Stops {
    /// `set -e`.
    at_errors: bool,
    /// `set -o pipefail`.
    in_pipes: bool,
}

impl Stops {
    fn of(script: &ShellScript, text: &str) -> Self {
        let mut stops = Self { at_errors: false, in_pipes: false };
        for each in script.top() {
            let words: Vec<&str> = script.words_of(each).iter().map(|word| word.raw(text)).collect();
            let Some((&"set", options)) = words.split_first() else { continue };
            let is_short = |option: &&&str| option.starts_with('-') && !option.starts_with("--");
            stops.at_errors |= options.iter().filter(is_short).any(|option| option.contains('e'))
                || options.contains(&"errexit");
            stops.in_pipes |= options.contains(&"pipefail");
        }
        stops
    }
}

/// Returns whether the script fails if the first of these commands fails.
fn is_decisive(commands: &[&ShellCommand], before: Option<&ShellCommand>, stops: Stops) -> bool {
    let Some(first) = commands.first() else { return false };
    if first.negated
        || first.compound
        || before.is_some_and(|before| before.then == Join::Pipe && before.negated)
    {
        return false;
    }
    let mut is_alone = before.is_none_or(|before| !matches!(before.then, Join::And | Join::Or));
    for command in commands {
        match command.then {
            Join::End => return true,
            Join::And => is_alone = false,
            Join::Pipe if stops.in_pipes => {}
            Join::Next => return stops.at_errors && is_alone,
            Join::Or | Join::Pipe | Join::Background => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::{Expectation, Span, Spanned, Stream};

    fn shell(command: &str, expectations: &[Expectation]) -> Shell {
        let expectations =
            expectations.iter().map(|each| Spanned::new(each.clone(), Span::default())).collect();
        Shell { command: command.to_owned(), body: Span::default(), expectations }
    }

    fn said(command: &str, output: &str) -> Option<String> {
        found(&shell(command, &[]), &[output])
    }

    const COMPILE: &str = "error: could not compile `shop` (lib test) due to 1 previous error";
    const TARGET: &str = "make: *** No rule to make target 'test'.  Stop.";

    #[test]
    fn a_command_that_could_not_do_its_job_shows_nothing_by_failing() {
        for (command, output, named) in [
            ("! cargo test", COMPILE, "`shop` does not compile"),
            ("! timeout 60 cargo test --lib", COMPILE, "`shop` does not compile"),
            ("! make test", COMPILE, "`shop` does not compile"),
            ("cargo test || true", COMPILE, "`shop` does not compile"),
            ("if ! cargo test; then exit 0; fi; exit 1", COMPILE, "`shop` does not compile"),
            ("cargo test && exit 1; true", COMPILE, "`shop` does not compile"),
            ("! ( cd sub && cargo test )", COMPILE, "`shop` does not compile"),
            ("cargo test 2>&1 | tee log; test -s log", COMPILE, "`shop` does not compile"),
            ("bash -c '! cargo test'", COMPILE, "`shop` does not compile"),
            ("! make test", TARGET, "make has no rule for `test`"),
            (
                "! make test",
                "make: *** [Makefile:2: test] Error 127",
                "make could not run a command of `test`",
            ),
            ("! npm test", "npm error Missing script: \"test\"", "package.json has no script `test`"),
            ("! npm run lint", "npm ERR! missing script: lint", "package.json has no script `lint`"),
            ("! go test ./...", "FAIL\tshop/cart [build failed]", "`shop/cart` does not build"),
            ("! node x.js", "Error: Cannot find module '/w/x.js'", "node did not find `/w/x.js`"),
            ("! node --test x.js", "Could not find '/w/x.js'", "node did not find `/w/x.js`"),
            (
                "! python3 missing.py",
                "/usr/bin/python3: can't open file '/w/missing.py': [Errno 2] No such file or directory",
                "python did not find `/w/missing.py`",
            ),
            ("! python3 -m mine", "/usr/bin/python3: No module named mine", "python found no module `mine`"),
            ("! bash missing.sh", "bash: missing.sh: No such file or directory", "`missing.sh` is missing"),
            ("! sh missing.sh", "sh: 0: cannot open missing.sh: No such file", "`missing.sh` is missing"),
            ("! ./app --bad", "bash: line 1: ./app: No such file or directory", "`./app` is missing"),
            ("! ./app --bad", "bash: line 1: ./app: Permission denied", "`./app` cannot be run"),
            ("! env ./app", "env: ‘./app’: No such file or directory", "`./app` cannot be run"),
        ] {
            let words = said(command, output).unwrap_or_default();
            assert!(words.contains(named), "{command}: {words}");
        }
        let fails = [Expectation::ExitIsNot(0)];
        assert!(found(&shell("cargo test", &fails), &[COMPILE]).is_some());
    }

    #[test]
    fn a_failure_that_is_the_answer_is_left_alone() {
        for (command, output) in [
            // `cargo build` exists to find this out.
            ("! cargo build", COMPILE),
            ("! cargo +nightly check --all", COMPILE),
            ("! cargo test --no-run", COMPILE),
            // The failing command decides; the line comes from some test.
            ("cargo test", COMPILE),
            ("cargo test && ! grep -q TODO src/lib.rs", COMPILE),
            ("set -e; cargo test; test -f x", COMPILE),
            ("make test && test ! -e old", TARGET),
            // A module that must not exist, a redirection, an error inside a script.
            ("! python3 -c 'import gone'", "ModuleNotFoundError: No module named 'gone'"),
            ("! grep -q x < notes", "bash: line 1: notes: No such file or directory"),
            ("! ./run.sh", "./run.sh: line 3: foo: command not found"),
            ("! node app.js", "Error: Cannot find module 'left-pad'"),
            ("! ./app --bad", "usage: app [--good]"),
            ("! grep -q x y", "grep: y: No such file or directory"),
        ] {
            assert_eq!(said(command, output), None, "{command}");
        }
        // The contract expects exactly this failure.
        let text = "could not compile".to_owned();
        let expected = [Expectation::Contains { stream: Stream::Stderr, text }];
        assert_eq!(found(&shell("! cargo test", &expected), &[COMPILE]), None);
    }
}
