//! Which items were told, and by which way: a line each, in a file for each plan in the state folder.
//!
//! A line is written when something was delivered, so a crash in between tells it twice rather than
//! never. Nothing else rests on it: who takes lines away is told again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub struct Memory {
    path: PathBuf,
    known: Mutex<BTreeSet<String>>,
}

impl Memory {
    /// Of one plan, by its identifier. A file that cannot be read remembers nothing.
    pub fn open(state: &Path, plan: &str) -> Self {
        let path = state.join("notified").join(plan);
        let text = fs::read_to_string(&path).unwrap_or_default();
        Self { path, known: Mutex::new(text.lines().map(str::to_owned).collect()) }
    }

    pub(super) fn has(&self, message: &str, way: &str) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&line(message, way))
    }

    pub(super) fn keep(&self, message: &str, way: &str) -> io::Result<()> {
        let line = line(message, way);
        if let Some(folder) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        // One write at the end of the file: what others write meanwhile stays whole.
        let mut file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(line);
        Ok(())
    }
}

fn line(message: &str, way: &str) -> String {
    format!("{message} {way}")
}
