//! The request for one check.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::event::StartTree;
use provost_core::model::plan::Shell;
use provost_core::model::verdict::Verdict;

use crate::config::Folders;
use crate::process::Bounds;
use crate::sandbox::{Kept, Processes, What};
use crate::teeth::Doubts;
use crate::tree::Apart;

/// What a check is asked for: the contract, the tree it runs on, and its limits.
pub struct Case<'a> {
    pub shell: &'a Shell,
    pub timeout: Duration,
    pub tag: &'a str,
    pub stop: Option<&'a AtomicBool>,
    /// The tree the steps before left; the approved one, if none has passed.
    pub tree: Option<&'a str>,
    /// The tree the attempt began with, where that is known: the work is what differs from it.
    pub start: Option<&'a StartTree>,
    /// What the agent has changed takes part; without it the base alone is looked at.
    pub with_work: bool,
    /// Where the agent worked, if not in the workspace.
    pub apart: Option<&'a Apart>,
    /// What the step may change of what the plan may; all of it, where it says nothing.
    pub touches: Option<&'a [String]>,
    pub protect: &'a [String],
    pub network: bool,
    /// What its processes may do to each other.
    pub processes: Processes,
    /// What it is given beside its tree.
    pub given: Given<'a>,
    /// How much of the machine it may take.
    pub bounds: Option<Bounds>,
    /// How far the check itself is doubted.
    pub doubts: Doubts,
    /// What the same check said before, which stands if the tree is the same.
    pub known: Option<&'a Verdict>,
}

/// What a check is given beside its tree, knowingly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// Places outside of the workspace.
    pub folders: Option<&'a Folders>,
    /// Secrets for its environment.
    pub secrets: &'a [(OsString, OsString)],
}

impl Given<'_> {
    pub(super) fn kept(&self) -> Vec<Kept<'_>> {
        let Some(folders) = self.folders else { return Vec::new() };
        let read = folders.read.iter().map(|at| Kept { at, what: What::ReadOnly(at) });
        read.chain(folders.write.iter().map(|at| Kept { at, what: What::Writable(at) })).collect()
    }

    /// A place that was declared and is not there.
    pub(super) fn missing(&self) -> Option<String> {
        let missing = self.folders?.all().find(|place| !place.exists())?;
        Some(format!("{} is not there, and [verify] of provost.toml names it", missing.display()))
    }
}
