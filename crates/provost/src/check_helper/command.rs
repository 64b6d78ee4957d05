//! Runs a command of a recipe to its end.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::ending::Ending;

/// Runs a command line with bash in a folder, and returns what it printed.
pub(super) fn shell(line: &str, folder: &Path) -> Result<Output, Ending> {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(folder).stdin(Stdio::null());
    command.output().map_err(|error| Ending::not_run("bash cannot be started", error))
}

/// Runs git, and returns what it printed.
pub(super) fn git(arguments: &[&str], variables: &[(&str, &Path)]) -> Result<Vec<u8>, Ending> {
    let mut command = Command::new("git");
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().map_err(|error| Ending::not_run("git cannot be started", error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Ending::NotRun(format!("`git {}` failed: {}", arguments.join(" "), said.trim())))
}

/// Returns the last lines of what a command printed, errors last.
pub(super) fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.trim().lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(20));
    last.map(|line| format!("\n  | {line}")).collect()
}

/// Describes how a command ended.
pub(super) fn ended(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}
