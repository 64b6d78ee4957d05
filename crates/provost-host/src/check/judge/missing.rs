//! Distinguishes a check that could not run, because a tool is missing, from a check that failed.
//!
//! A missing program exits with 127 and a missing Python module with 1: in `! pytest` or `pytest || true`
//! that looks like a pass. The contract's own shell reports a command that it does not find and ends at
//! once ([`variable`]). For other shells, `make`, `env` and Python, the output is searched for their
//! messages ([`found`]).
//!
//! **Invariant:** files of the tree under test belong to the work: if one of them is missing, the check
//! failed.

use std::ffi::OsString;
use std::path::Path;

use provost_core::language::{inconclusive_failure, recipes, tool_names};
use provost_core::model::plan::{Expectation, Shell};
use rustix::process::Signal;

use crate::process::How;

/// The signal with which the contract's own shell kills itself if a command is not found.
pub(super) const ENDED_BY: Signal = Signal::USR2;

/// Prefix of the line that the shell prints in that case.
const TOLD: &str = "provost: not found: ";

/// Function that bash calls for a command that it does not find. Only the contract's own shell and its
/// subshells end: a missing command in a script under test is the work's fault, and so is a command that is
/// searched in the tree. If the shell replaced itself with a script by `exec`, that script has the same
/// `SHLVL`, but its file is in `BASH_SOURCE`.
const HANDLER: &str = r#"() {
  local provost_rest="$PATH:" provost_entry
  printf '%s: line %s: %s: command not found\n' "${0##*/}" "${BASH_LINENO[0]}" "$1" >&2
  [ "${SHLVL:-1}" -le 1 ] && [ ${#BASH_SOURCE[@]} -le 1 ] || return 127
  while [ -n "$provost_rest" ]; do
    provost_entry="${provost_rest%%:*}/"; provost_rest="${provost_rest#*:}"
    case "$provost_entry" in @TREE@/*|[!/]*) return 127;; /) return 127;; esac
  done
  printf '@TOLD@%s\n' "$1" >&2
  kill -s USR2 $$
  return 127
}"#;

/// Returns the variable that gives the check's shell this function. `tree` is the path of the tree under
/// test. Returns `None` for a contract that reads definitions or changes `PATH`, because it may call
/// programs of the work, and for one that expects exit code 126 or 127.
pub(super) fn variable(shell: &Shell, tree: &Path) -> Option<(OsString, OsString)> {
    let wants = |code: i32| shell.expectations.iter().any(|each| each.value == Expectation::ExitIs(code));
    if tool_names::defines(&shell.command) || wants(126) || wants(127) {
        return None;
    }
    let quoted = format!("'{}'", tree.to_string_lossy().replace('\'', r"'\''"));
    let text = HANDLER.replace("@TREE@", &quoted).replace("@TOLD@", TOLD);
    Some(("BASH_FUNC_command_not_found_handle%%".into(), text.into()))
}

/// A tool that a check needs and the machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MissingTool {
    Command(String),
    /// The shell reported it, but the contract discards the message.
    Unnamed,
    Module(String),
}

impl MissingTool {
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            MissingTool::Command(name) | MissingTool::Module(name) => Some(name),
            MissingTool::Unnamed => None,
        }
    }

    pub(super) fn reason(&self) -> String {
        match self {
            MissingTool::Command(name) => tool_names::lacks_program(name),
            MissingTool::Unnamed => {
                "a command of the contract is not on the PATH of checks, and its message is hidden \
                                 (`2>/dev/null`); run the contract by hand to see which"
                    .to_owned()
            }
            MissingTool::Module(name) => tool_names::lacks_module(name),
        }
    }
}

/// Returns why a recipe of `provost-check` could not be run, if the check ended with its exit code.
pub(super) fn for_a_recipe(shell: &Shell, how: How, said: &str) -> Option<String> {
    let is_asked = shell.command.contains(recipes::PROGRAM);
    let line = || said.lines().find_map(|line| line.strip_prefix(recipes::NOT_RUN));
    let has_said = is_asked && matches!(how, How::Exited(code) if code == i32::from(recipes::NOT_RUN_CODE));
    has_said.then(line)?.map(str::to_owned)
}

/// How a check ended.
#[derive(Clone, Copy)]
pub(super) enum CheckEnd {
    Signalled(i32),
    Held,
}

/// Returns the missing tool, if the check ended because of it or held in spite of it.
pub(super) fn found(shell: &Shell, end: CheckEnd, outputs: &[&str]) -> Option<MissingTool> {
    match end {
        CheckEnd::Signalled(signal) if signal == ENDED_BY.as_raw() => {
            let mut lines = outputs.iter().flat_map(|output| output.lines()).map(str::trim);
            let name = lines.find_map(|line| line.strip_prefix(TOLD));
            Some(name.map_or(MissingTool::Unnamed, |name| MissingTool::Command(name.to_owned())))
        }
        CheckEnd::Signalled(_) => None,
        CheckEnd::Held if !inconclusive_failure::may_swallow(shell) => None,
        CheckEnd::Held => outputs.iter().find_map(|output| {
            let module = tool_names::missing_run_modules(output)
                .first()
                .map(|name| MissingTool::Module(name.to_string()));
            let mut programs =
                tool_names::missing_programs(output).into_iter().filter(|name| tool_names::is_program(name));
            let program = programs.next().filter(|_| !tool_names::defines(&shell.command));
            module.or_else(|| program.map(|name| MissingTool::Command(name.to_owned())))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provost_core::model::plan::{Span, Spanned};

    fn shell(command: &str, expectations: &[Expectation]) -> Shell {
        let expectations =
            expectations.iter().map(|each| Spanned::new(each.clone(), Span::default())).collect();
        Shell { command: command.to_owned(), body: Span::default(), expectations }
    }

    fn held(command: &str, output: &str) -> Option<MissingTool> {
        found(&shell(command, &[]), CheckEnd::Held, &[output])
    }

    fn named(name: &str) -> Option<MissingTool> {
        Some(MissingTool::Command(name.to_owned()))
    }

    #[test]
    fn a_runner_that_is_not_there_is_found_in_what_others_say_of_it() {
        let module = Some(MissingTool::Module("pytest".to_owned()));
        let python = "/usr/bin/python3: No module named pytest\n";
        assert_eq!(held("! python3 -m pytest -q", python), module);
        assert_eq!(held("python3 -m pytest -q || true", python), module);
        let dash = "/bin/sh: 1: pytest: not found\nmake: *** [Makefile:2: test] Error 127";
        assert_eq!(held("! make test", dash), named("pytest"));
        assert_eq!(held("! make test", "make: cargo: No such file or directory"), named("cargo"));
        assert_eq!(held("! env tox", "env: ‘tox’: No such file or directory"), named("tox"));
    }

    #[test]
    fn what_the_work_has_to_bring_is_not_missing_from_the_machine() {
        // Missing files of the tree are found by `inconclusive_failure` of core; the check then does not
        // hold.
        assert_eq!(held("! ./app", "bash: line 1: ./app: No such file or directory"), None);
        assert_eq!(held("! python3 -m mine", "/usr/bin/python3: No module named mine"), None);
        assert_eq!(held("! make test", "/bin/sh: 1: ehco: not found"), None, "a recipe with a slip in it");
        // The runner was started, so such a line is only an output of a test.
        assert_eq!(held("pytest -q", "/bin/sh: 1: pytest: not found"), None);
        let of = |command: &str, wanted: &[Expectation]| variable(&shell(command, wanted), Path::new("/w"));
        for command in
            [". ./env.sh; greet", "source env.sh && greet", "PATH=$PWD/bin:$PATH greet", "f() { greet; }; f"]
        {
            assert_eq!(of(command, &[]), None, "{command}");
        }
        assert_eq!(of("greet", &[Expectation::ExitIs(127)]), None);
        assert!(of("! greet", &[]).is_some());
    }

    #[test]
    fn the_shell_of_a_contract_says_what_it_does_not_find_and_ends() {
        let tree = tempfile::tempdir().expect("a folder");
        let run = |command: &str, path: &str| {
            let (name, value) = variable(&shell(command, &[]), tree.path()).expect("a handler");
            let output = std::process::Command::new("bash")
                .args(["--noprofile", "--norc", "-c", command])
                .env_clear()
                .env("PATH", path)
                .env(name, value)
                .current_dir(tree.path())
                .output()
                .expect("bash");
            use std::os::unix::process::ExitStatusExt as _;
            (
                output.status.signal(),
                output.status.code(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )
        };
        let usual = "/usr/bin:/bin";
        for command in [
            "! nothere-1",
            "nothere-1 || true",
            "nothere-1 | cat",
            "(nothere-1; true)",
            "x=$(nothere-1); true",
            "! nothere-1 2>/dev/null",
            "{ nothere-1; } &>/dev/null; true",
        ] {
            let (signal, code, _) = run(command, usual);
            assert_eq!((signal, code), (Some(ENDED_BY.as_raw()), None), "{command}");
        }
        assert!(run("! nothere-1", usual).2.contains("provost: not found: nothere-1"));
        // `command -v` does not end the shell, and neither does a command that is searched in the tree.
        assert_eq!(run("command -v nothere-1 || true", usual).1, Some(0));
        assert_eq!(run("! nothere-1", &format!("{}/bin:{usual}", tree.path().display())).1, Some(0));
        assert_eq!(run("! nothere-1", "bin:/usr/bin").1, Some(0));
        // A missing command in a script under test is the script's own fault.
        std::fs::write(tree.path().join("s.sh"), "nothere-1\n").expect("a script");
        assert_eq!(run("! bash s.sh", usual).1, Some(0));
    }
}
