//! Starts the run of an approved plan in a process of its own, as `provost run` in a terminal does.
//!
//! **Invariant:** the run has no terminal, so it can ask no person: it approves and answers nothing.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use provost_core::state::run::Stage;

use crate::Error;
use crate::plan::harness::Harness;

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
    let program = harness.site().launcher.first().cloned().unwrap_or_else(|| OsString::from("provost"));
    let mut run = Command::new(program);
    run.arg("--state").arg(harness.state()).arg("run").arg(&harness.place().path);
    run.current_dir(&harness.place().workspace);
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in the caller's terminal does not end it.
    run.process_group(0);
    let path = harness.place().path.clone();
    let mut child = run.spawn().map_err(|source| Error::Io { what: "start the run of", path, source })?;
    // Collects the exit status when the run ends.
    std::thread::spawn(move || child.wait());
    Ok(StartOutcome::Started)
}
