//! Keeps the end of a running attempt's output in a small file, for people who watch.
//!
//! The log gets the agent's words when the attempt has ended. Nothing depends on this file; it is removed
//! with the attempt. If it cannot be written, the output is not shown, and nothing else happens.
//!
//! **Invariant:** only whole lines are written, and only after secrets were removed from them together with
//! the output shortly before.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_host::files;

/// Bytes that are redacted together: a secret of several lines is recognised by its beginning.
const HEARD: usize = 64 * 1024;
/// Bytes that are shown.
const SHOWN: usize = 8 * 1024;
/// Minimum time between two writes.
const BREATH: Duration = Duration::from_millis(150);

pub struct LiveOutput {
    path: PathBuf,
    heard: Mutex<Heard>,
    woken: Condvar,
}

#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
    is_new: bool,
    is_over: bool,
}

/// Marks the attempt as over when it is dropped.
pub struct Over<'l>(&'l LiveOutput);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.woken.notify_all();
    }
}

impl LiveOutput {
    pub fn new(state: &Path, plan: &PlanId, step: StepNumber) -> Self {
        let path = file(state, plan, step);
        // Left by an attempt whose provost process was killed.
        let _ = fs::remove_file(&path);
        Self { path, heard: Mutex::default(), woken: Condvar::new() }
    }

    pub fn until_dropped(&self) -> Over<'_> {
        Over(self)
    }

    pub fn hear(&self, bytes: &[u8]) {
        let mut heard = self.lock();
        heard.bytes.extend_from_slice(bytes);
        if heard.bytes.len() > 2 * HEARD {
            let surplus = heard.bytes.len() - HEARD;
            heard.bytes.drain(..surplus);
        }
        heard.is_new = true;
        self.woken.notify_all();
    }

    /// Keeps the file up to date until the attempt is over, then removes it.
    pub fn attend(&self, clean: impl Fn(&str) -> String) {
        while let Some(bytes) = self.next() {
            let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { continue };
            let text = clean(&String::from_utf8_lossy(&bytes[..=end]));
            let folder = self.path.parent().map_or(Ok(()), make_private);
            let _ = folder.and_then(|()| files::write_whole(&self.path, last(&text).as_bytes()));
            let heard = self.lock();
            drop(self.woken.wait_timeout_while(heard, BREATH, |heard| !heard.is_over));
        }
        let _ = fs::remove_file(&self.path);
    }

    /// Waits for new output and returns it; `None` when the attempt is over.
    fn next(&self) -> Option<Vec<u8>> {
        let is_quiet = |heard: &mut Heard| !heard.is_new && !heard.is_over;
        let mut heard = self.woken.wait_while(self.lock(), is_quiet).unwrap_or_else(PoisonError::into_inner);
        heard.is_new = false;
        (!heard.is_over).then(|| heard.bytes.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Returns the last lines that the running attempt of a step has printed.
pub fn output(state: &Path, plan: &PlanId, step: StepNumber) -> Option<String> {
    fs::read_to_string(file(state, plan, step)).ok()
}

fn file(state: &Path, plan: &PlanId, step: StepNumber) -> PathBuf {
    let plan = Hash::of(plan.0.as_bytes()).to_string();
    state.join("live").join(format!("{}-{step}", &plan[..16]))
}

/// Returns the whole lines at the end.
fn last(text: &str) -> &str {
    let Some(start) = text.len().checked_sub(SHOWN) else { return text };
    let line = text.as_bytes()[start..].iter().position(|byte| *byte == b'\n');
    line.map_or("", |line| &text[start + line + 1..])
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn eventually(what: impl Fn() -> Option<String>, wanted: &str) {
        let begun = Instant::now();
        while what().as_deref() != Some(wanted) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{:?} is not {wanted:?}", what());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn the_end_of_the_output_is_there_while_it_lasts_and_without_secrets() {
        let state = tempfile::tempdir().expect("a folder");
        let (plan, step) = (PlanId("p".to_owned()), StepNumber(2));
        let live = LiveOutput::new(state.path(), &plan, step);
        let seen = || output(state.path(), &plan, step);
        std::thread::scope(|scope| {
            scope.spawn(|| live.attend(|text| text.replace("hush\nhush", "[gone]")));
            let over = live.until_dropped();
            assert_eq!(seen(), None);
            live.hear(b"one\nhu");
            eventually(seen, "one\n");
            live.hear(b"sh\nhush\ntw");
            eventually(seen, "one\n[gone]\n");
            live.hear(&b"a long line of many\n".repeat(20_000));
            live.hear(b"end\n");
            let begun = Instant::now();
            while !seen().is_some_and(|text| text.ends_with("many\nend\n") && text.starts_with("a long line"))
            {
                assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", seen());
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(seen().is_some_and(|text| text.len() <= SHOWN));
            drop(over);
        });
        assert_eq!(seen(), None);
    }

    #[test]
    fn what_a_killed_harness_left_is_gone_when_the_next_attempt_begins() {
        let state = tempfile::tempdir().expect("a folder");
        let (plan, step) = (PlanId("p".to_owned()), StepNumber(1));
        fs::create_dir(state.path().join("live")).expect("a folder");
        fs::write(file(state.path(), &plan, step), "old").expect("a file");
        assert_eq!(output(state.path(), &plan, step).as_deref(), Some("old"));
        let _live = LiveOutput::new(state.path(), &plan, step);
        assert_eq!(output(state.path(), &plan, step), None);
    }
}
