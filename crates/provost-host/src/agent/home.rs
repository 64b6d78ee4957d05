//! Manages the folders in which agents' clients keep configuration and conversations, outside of every
//! workspace.
//!
//! Each step of a plan has one folder. provost empties it when a conversation begins, keeps it while the
//! conversation may be continued, and removes it when the plan has ended.
//!
//! **Invariant:** no step's client sees what another step's client wrote.

use std::io;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;

use crate::files::folder;

/// Opens the folder for a step's client. The second value is `true` if an earlier attempt's folder was
/// kept.
pub fn open(state: &Path, plan: &str, step: StepNumber, keep: bool) -> io::Result<(PathBuf, bool)> {
    let home = of_plan(state, plan).join(step.to_string());
    let is_kept = keep && home.is_dir();
    if !is_kept {
        folder::remove(&home);
    }
    folder::make_private(&home)?;
    Ok((home, is_kept))
}

/// Creates an empty folder for the topics of a step.
pub fn outbox(state: &Path, plan: &str, step: StepNumber) -> io::Result<PathBuf> {
    let folder = of_plan(state, plan).join(format!("{step}-topics"));
    folder::remove(&folder);
    folder::make_private(&folder)?;
    Ok(folder)
}

/// Removes all client folders of a plan; none of its conversations can be continued afterwards.
pub fn forget(state: &Path, plan: &str) {
    folder::remove(&of_plan(state, plan));
}

fn of_plan(state: &Path, plan: &str) -> PathBuf {
    state.join("clients").join(&Hash::of(plan.as_bytes()).to_string()[..16])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{forget, open};
    use provost_core::model::plan::StepNumber;

    #[test]
    fn a_folder_is_kept_for_its_conversation_and_empty_for_a_new_one() {
        let state = tempfile::tempdir().expect("a folder");
        let (one, two) = (StepNumber(1), StepNumber(2));
        let (home, kept) = open(state.path(), "p", one, true).expect("made");
        assert!(!kept);
        fs::write(home.join("a"), "").expect("written");
        assert!(open(state.path(), "p", one, true).expect("kept").1 && home.join("a").exists());
        assert_ne!(open(state.path(), "p", two, true).expect("made").0, home);
        assert_ne!(open(state.path(), "q", one, true).expect("made").0, home);
        assert!(!open(state.path(), "p", one, false).expect("made").1 && !home.join("a").exists());
        forget(state.path(), "p");
        assert!(!home.exists());
    }
}
