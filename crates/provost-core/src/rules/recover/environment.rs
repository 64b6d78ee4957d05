//! Finds out whether a check failed because the machine lacks something, not because of the work.
//!
//! A program counts as missing from the machine if the contract's own text names it, or if it is a well-known
//! tool and no test ran: `npm test` calls the runner of the project. If a script of the agent does not find
//! another program, the agent must fix that.
//!
//! **Invariant:** nothing here turns a failure into a pass; it only decides who has to act.

use super::class::{self, FailureOutput};
use crate::language::{shell, tool_names};
use crate::model::plan::Shell;
use crate::model::verdict::{CheckOutcome, Verdict};

/// Returns what the machine lacks and how to fix it. `None` if the work may be at fault.
pub fn lacks(shell: &Shell, verdict: &Verdict) -> Option<String> {
    let CheckOutcome::Broke { exit_code } = verdict.outcome else { return None };
    let output = format!("{}\n{}", verdict.stderr, verdict.stdout);
    if let Some(tool) = missing_module(shell, verdict) {
        return Some(tool_names::lacks_module(&tool));
    }
    let found =
        class::of(FailureOutput { stderr: &output, exit_code: Some(exit_code), ..FailureOutput::default() });
    (found.rule == "disk-full").then(|| {
        "the disk is full, or the check wrote more than it is allowed to; free some space, or raise \
         `disk` under [run] in provost.toml"
            .to_owned()
    })
}

/// Returns a Python tool that the contract calls and that the output of the check reports as missing.
pub fn missing_module(shell: &Shell, verdict: &Verdict) -> Option<String> {
    let output = format!("{}\n{}", verdict.stderr, verdict.stdout);
    // A runner that reported itself is installed, whatever the program under test prints.
    let is_there = |tool: &str| verdict.runners.iter().any(|runner| runner == tool);
    let mut modules = tool_names::missing_modules(&output).into_iter();
    modules.find(|name| calls(&shell.command, name) && !is_there(name)).map(str::to_owned)
}

/// Returns a program that the contract needs and that the output reports as missing. A program under test can
/// print that too, so the caller must look it up. `has_run_tests` says whether a test runner was seen.
pub fn missing_program(command: &str, output: &str, has_run_tests: bool) -> Option<String> {
    if tool_names::defines(command) {
        return None;
    }
    let script = shell::read(command);
    let called = shell::tools(command, &script);
    let mut names = tool_names::missing_programs(output).into_iter();
    let is_called = |name: &str| called.iter().any(|tool| tool.name == name);
    let is_tool = |name: &str| !has_run_tests && tool_names::is_program(name);
    names.find(|name| is_called(name) || is_tool(name)).map(str::to_owned)
}

/// Returns whether the name occurs in the contract as a separate word, not as a part of a path.
fn calls(command: &str, name: &str) -> bool {
    let is_part = |each: char| each.is_alphanumeric() || "_./+-".contains(each);
    command.match_indices(name).any(|(at, _)| {
        let before = command[..at].chars().next_back();
        let after = command[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::Span;
    use crate::model::verdict::{Excerpt, Isolation};

    fn said(command: &str, stderr: &str) -> String {
        let shell = Shell { command: command.to_owned(), body: Span::default(), expectations: Vec::new() };
        let broke = Verdict::bare(Isolation::Clean, CheckOutcome::Broke { exit_code: 127 });
        let program = missing_program(command, stderr, false).map(|program| format!("`{program}`"));
        let lacks = lacks(&shell, &Verdict { stderr: Excerpt::whole(stderr), ..broke });
        program.or(lacks).unwrap_or_default()
    }

    #[test]
    fn a_runner_that_was_seen_is_not_missing() {
        let command = "python3 -m pytest -q".to_owned();
        let shell = Shell { command, body: Span::default(), expectations: Vec::new() };
        let broke = Verdict::bare(Isolation::Clean, CheckOutcome::Broke { exit_code: 1 });
        let stderr = Excerpt::whole("No module named pytest");
        let verdict = Verdict { stderr, runners: vec!["pytest".to_owned()], ..broke };
        assert_eq!(lacks(&shell, &verdict), None);
    }

    #[test]
    fn what_the_contract_itself_calls_and_the_machine_has_not_is_named() {
        for (command, stderr, name) in [
            ("cargo test -q", "bash: line 1: cargo: command not found", "`cargo`"),
            ("cd a && node --test", "bash: line 1: node: command not found\n", "`node`"),
            ("make && jq . x.json", "/bin/sh: 1: jq: not found", "`jq`"),
            ("npm test", "sh: 1: mocha: not found", "`mocha`"),
            (
                "make check",
                "/bin/sh: 1: pytest: not found\nmake: *** [Makefile:2: check] Error 127",
                "`pytest`",
            ),
            ("helm lint .", "exec: \"helm\": executable file not found in $PATH", "`helm`"),
            ("python3 -m pytest -q", "/usr/bin/python3: No module named pytest", "`pytest`"),
            ("uv run pytest", "ModuleNotFoundError: No module named 'pytest'", "`pytest`"),
            ("cp a b", "cp: error writing 'b': No space left on device", "the disk is full"),
        ] {
            let words = said(command, stderr);
            assert!(words.contains(name), "{command}: {words}");
        }
    }

    #[test]
    fn what_the_work_calls_or_is_to_make_is_not_the_machines_fault() {
        for (command, stderr) in [
            ("bash run.sh", "run.sh: line 2: pyhton3: command not found"),
            ("python3 -m myapp", "/usr/bin/python3: No module named myapp"),
            ("python3 -c 'import parser'", "ModuleNotFoundError: No module named 'parser'"),
            ("./tool --help", "bash: line 1: ./tool: No such file or directory"),
            (". ./env.sh; greet", "bash: line 1: greet: command not found"),
            ("PATH=$PWD/bin:$PATH greet", "bash: line 1: greet: command not found"),
            ("python3 shell.py greet", "shell: greet: command not found"),
            ("make test", "make: *** No rule to make target 'test'.  Stop."),
            ("grep -q cargo README.md", "ci.sh: line 1: cargos: command not found"),
        ] {
            assert_eq!(said(command, stderr), "", "{command}");
        }
    }
}
