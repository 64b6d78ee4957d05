//! Tries the contract of a step: runs `provost try` as a separate process and shows its result.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::documents::Document;
use super::surroundings::Surroundings;
use super::wire::{Kind, Outbox};
use crate::failure::Failure;

/// The trial that is running, if there is one.
#[derive(Clone, Default)]
pub(super) struct Trials {
    running: Arc<Mutex<Option<u32>>>,
}

impl Trials {
    /// Starts a trial, or says why it cannot be started.
    pub(super) fn start(
        &self,
        surroundings: &Surroundings,
        outbox: &Outbox,
        document: &Document,
        step: u32,
    ) -> Result<(), String> {
        let path = document.path.clone().ok_or("the plan is no file yet; save it first")?;
        if !std::fs::read_to_string(&path).is_ok_and(|saved| is_same(&saved, &document.text)) {
            return Err("the trial runs what the file says; save the plan first".to_owned());
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Err("a trial is running already; wait for its result".to_owned());
        }
        let mut command = Command::new(program().map_err(|failure| failure.to_string())?);
        command.arg("--dir").arg(surroundings.folder(&path));
        if let Some(state) = &surroundings.global.state {
            command.arg("--state").arg(state);
        }
        command.arg("try").arg(&path).arg(step.to_string()).arg("--json");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("cannot start the trial: {error}"))?;
        *running = Some(child.id());
        let (trials, outbox) = (self.clone(), outbox.clone());
        std::thread::spawn(move || {
            let (kind, message) = result(child, step);
            *trials.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
            outbox.show(kind, &message);
        });
        Ok(())
    }

    /// Asks a running trial to end; it then ends the check that it runs.
    pub(super) fn stop(&self) {
        let running = *self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let process = running.and_then(|id| rustix::process::Pid::from_raw(id as i32));
        if let Some(process) = process {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
    }
}

/// Returns whether a file holds the text of an editor, which may hide a byte order mark and line ends.
fn is_same(saved: &str, text: &str) -> bool {
    let lines =
        |text: &'_ str| text.trim_start_matches('\u{feff}').lines().map(str::to_owned).collect::<Vec<_>>();
    lines(saved) == lines(text)
}

fn program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|source| Failure::Io { what: "find this program's own file".to_owned(), source })
}

/// Waits for a trial, and returns its result in words.
fn result(child: Child, step: u32) -> (Kind, String) {
    let output = match child.wait_with_output() {
        Ok(output) => output,
        Err(error) => return (Kind::Error, format!("step {step}: the trial has no result: {error}")),
    };
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match (found["says"].as_str(), output.status.code()) {
        (Some(says), Some(0)) => (Kind::Info, format!("step {step}: {says}")),
        (Some(says), _) => (Kind::Warning, format!("step {step}: {says}{}", why(&found["workspace"]))),
        (None, _) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            let said = if said.is_empty() { "it was interrupted" } else { said };
            (Kind::Error, format!("step {step}: the contract was not tried: {said}"))
        }
    }
}

/// Returns the last line that a check printed.
fn why(verdict: &Value) -> String {
    let line = |stream: &str| {
        let parts = ["tail", "head"].into_iter().filter_map(|part| verdict[stream][part].as_str());
        let text = parts.into_iter().find(|part| !part.trim().is_empty())?;
        text.lines().rfind(|line| !line.trim().is_empty()).map(|line| format!(" ({})", line.trim()))
    };
    line("stderr").or_else(|| line("stdout")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_saved_text_is_known_also_without_what_an_editor_hides() {
        assert!(is_same("\u{feff}a\r\nb", "a\nb\n"));
        assert!(!is_same("a\nb\n", "a\n b\n"));
    }

    #[test]
    fn the_last_line_of_a_check_says_why() {
        let verdict =
            json!({ "stdout": { "head": "a\nb\n", "bytes": 4 }, "stderr": { "head": "", "bytes": 0 } });
        assert_eq!(why(&verdict), " (b)");
        let verdict = json!({ "stderr": { "head": "a", "tail": "c\n\n", "bytes": 900 } });
        assert_eq!(why(&verdict), " (c)");
        assert_eq!(why(&Value::Null), "");
    }
}
