//! Starts the run of an approved plan in a process of its own, as `provost run` in a terminal does.
//!
//! A planner is started on a goal in the same way.
//!
//! **Invariant:** the run has no terminal, so it can ask no person: it approves and answers nothing.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use provost_core::state::run::Stage;

use crate::Error;
use crate::plan::harness::Harness;

/// Exit code of `provost new --goal` if the plan waits for approval.
const WAITS_FOR_APPROVAL: i32 = 4;
/// Lines of the planner's output that are kept.
const LINES_MAX: usize = 12;

/// What became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    Started,
    /// Another run works in this workspace.
    Busy,
    /// The plan is not approved, or it is over.
    NotApproved(Stage),
}

/// Starts the run and returns at once; the run outlives the caller.
pub fn start(harness: &Harness) -> Result<StartOutcome, Error> {
    let stage = harness.run()?.stage;
    if !matches!(stage, Stage::Approved | Stage::InProgress) {
        return Ok(StartOutcome::NotApproved(stage));
    }
    if harness.is_under_way() {
        return Ok(StartOutcome::Busy);
    }
    let mut run = provost(harness);
    run.arg("run").arg(&harness.place().path);
    run.current_dir(&harness.place().workspace);
    run.stdout(Stdio::null()).stderr(Stdio::null());
    let path = harness.place().path.clone();
    let mut child = run.spawn().map_err(|source| Error::Io { what: "start the run of", path, source })?;
    // Collects the exit status when the run ends.
    std::thread::spawn(move || child.wait());
    Ok(StartOutcome::Started)
}

/// Starts the planner on a goal, as `provost new NAME --goal TEXT` does, and returns at once. `done` gets the
/// last lines of its output if it made no plan.
pub fn draft(
    harness: &Harness,
    name: &str,
    goal: &str,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) -> Result<(), Error> {
    let role = &harness.config().plan.role;
    if !harness.config().agents.contains_key(role) {
        return Err(Error::NoAgent { roles: vec![role.clone()] });
    }
    let mut new = provost(harness);
    // Neither text is taken for an option.
    new.arg("new").arg(format!("--goal={goal}")).arg("--").arg(name);
    new.current_dir(&harness.place().workspace);
    new.stdout(Stdio::null()).stderr(Stdio::piped());
    let path = harness.place().path.clone();
    let child = new.spawn().map_err(|source| Error::Io { what: "start the planner for", path, source })?;
    std::thread::spawn(move || {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        done(match child.wait_with_output() {
            Ok(ended) if ended.status.code() == Some(WAITS_FOR_APPROVAL) => Ok(()),
            Ok(ended) => Err(last_lines(&text(&ended.stderr))),
            Err(error) => Err(error.to_string()),
        });
    });
    Ok(())
}

/// Returns this program with its state folder, without a terminal.
fn provost(harness: &Harness) -> Command {
    let program = harness.site().launcher.first().cloned().unwrap_or_else(|| OsString::from("provost"));
    let mut command = Command::new(program);
    command.arg("--state").arg(harness.state());
    // Ctrl-C in the caller's terminal does not end it.
    command.stdin(Stdio::null()).process_group(0);
    command
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}
