//! Keeps what a run is busy with in a small file, for the page and the terminal view, which are other processes.
//!
//! **Invariant:** nothing is decided by it. If it cannot be written, it is not shown, and nothing else happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_host::{activity, files};

/// Time between two looks. What is over sooner is mostly not shown.
const LOOK: Duration = Duration::from_millis(300);
/// Bytes that are read of the file at most.
const SHOWN: usize = 1024;

/// Keeps the file up to date until it is dropped, and removes it then.
pub struct BusyNote {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BusyNote {
    pub fn keep(state: &Path, plan: &PlanId) -> Self {
        let path = file(state, plan);
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut written = None;
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let current = activity::current();
                if current != written {
                    write(&path, current.as_deref());
                    written = current;
                }
            }
            write(&path, None);
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for BusyNote {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(path: &Path, what: Option<&str>) {
    let _ = match what {
        Some(what) => {
            let folder = path.parent().map_or(Ok(()), files::make_private_folder);
            folder.and_then(|()| files::write_whole(path, what.as_bytes()))
        }
        None => fs::remove_file(path),
    };
}

/// Returns what the run of a plan is busy with, as it said last. A process that was killed leaves the file, so ask
/// only while the plan is worked on.
pub fn read(state: &Path, plan: &PlanId) -> Option<String> {
    let text = fs::read_to_string(file(state, plan)).ok()?;
    (!text.is_empty() && text.len() <= SHOWN).then_some(text)
}

fn file(state: &Path, plan: &PlanId) -> PathBuf {
    let plan = Hash::of(plan.0.as_bytes()).to_string();
    state.join("live").join(format!("{}-busy", &plan[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_by_others_and_gone_with_the_run() {
        let state = tempfile::tempdir().unwrap();
        let plan = PlanId("a".to_owned());
        let note = BusyNote::keep(state.path(), &plan);
        // Other tests of this process may have activities too.
        let activity = activity::Activity::counting("copying files", 3);
        while read(state.path(), &plan).is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(activity);
        drop(note);
        assert_eq!(read(state.path(), &plan), None);
    }
}
