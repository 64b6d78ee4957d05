//! Records which items were delivered over which channel: one line each, in one file per plan in the state
//! folder.
//!
//! A line is written after the delivery, so after a crash an item is delivered twice rather than never.
//! Nothing else depends on the file: if a line is removed, the item is delivered again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub struct SentNotifications {
    path: PathBuf,
    known: Mutex<BTreeSet<String>>,
}

impl SentNotifications {
    /// Opens the record of a plan, by its identifier. A file that cannot be read counts as empty.
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
            crate::files::make_private_folder(folder)?;
        }
        // One append in a single write, so that lines of other processes stay whole.
        let mut file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(line);
        Ok(())
    }
}

fn line(message: &str, way: &str) -> String {
    format!("{message} {way}")
}
