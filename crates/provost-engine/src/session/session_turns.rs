//! Counts how often a session was sent back, and records what it was told to wait for.
//!
//! There is a small file for each session and workspace in the state folder. No decision about a plan depends
//! on it: a process that changes it can release a session too early or hold it too long, but cannot complete
//! a plan.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_host::files;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The counters of all sessions of one workspace.
pub struct Turns {
    folder: PathBuf,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    session: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, Refused>,
    /// The session was told to wait for checks that started after this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    looking_since: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Refused {
    times: u32,
    progress: u64,
}

impl Turns {
    pub fn open(state: &Path, workspace: &Path) -> Self {
        let digest = Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string();
        Self { folder: state.join("turns").join(&digest[..16]) }
    }

    /// Counts a refused stop. Returns how many there were in a row while `progress` was the same.
    pub fn refused(&self, session: &str, plan: &PlanId, progress: u64) -> Result<u32, Error> {
        let mut times = 1;
        self.change(session, |record| {
            let refused = record.refused.entry(plan.0.clone()).or_default();
            if refused.times > 0 && refused.progress == progress {
                times = refused.times.saturating_add(1);
            }
            *refused = Refused { times, progress };
        })?;
        Ok(times)
    }

    /// Resets the counter of the session, because a person decides now.
    pub fn forgive(&self, session: &str, plan: &PlanId) -> Result<(), Error> {
        self.change(session, |record| {
            record.refused.remove(&plan.0);
        })
    }

    /// Returns the event after which the checks that the session waits for started.
    pub fn waits_since(&self, session: &str) -> Option<u64> {
        self.read(session).looking_since
    }

    pub fn wait_since(&self, session: &str, seq: Option<u64>) -> Result<(), Error> {
        if self.waits_since(session) == seq {
            return Ok(());
        }
        self.change(session, |record| record.looking_since = seq)
    }

    fn read(&self, session: &str) -> Record {
        let found = fs::read(self.file(session)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        found.filter(|record: &Record| record.session == session).unwrap_or_default()
    }

    fn change(&self, session: &str, change: impl FnOnce(&mut Record)) -> Result<(), Error> {
        let mut record = self.read(session);
        session.clone_into(&mut record.session);
        change(&mut record);
        let file = self.file(session);
        let text = serde_json::to_vec(&record).unwrap_or_default();
        fs::create_dir_all(&self.folder)
            .and_then(|()| files::write_whole(&file, &text))
            .map_err(|source| Error::Io { what: "remember the session in", path: file, source })
    }

    fn file(&self, session: &str) -> PathBuf {
        let digest = Hash::of(session.as_bytes()).to_string();
        self.folder.join(format!("{}.json", &digest[..32]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_until_there_is_progress() {
        let state = tempfile::tempdir().unwrap();
        let turns = Turns::open(state.path(), Path::new("/a"));
        let (one, plan) = ("one", PlanId("p-1".into()));
        let count = |progress| turns.refused(one, &plan, progress).unwrap();
        assert_eq!([count(0), count(0), count(0), count(1), count(1)], [1, 2, 3, 1, 2]);
        assert_eq!(turns.refused("two", &plan, 1).unwrap(), 1);
        turns.forgive(one, &plan).unwrap();
        assert_eq!(turns.refused(one, &plan, 1).unwrap(), 1);
        turns.wait_since(one, Some(7)).unwrap();
        assert_eq!((turns.waits_since(one), turns.waits_since("two")), (Some(7), None));
        assert_eq!(Turns::open(state.path(), Path::new("/b")).waits_since(one), None);
    }
}
