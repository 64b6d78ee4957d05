//! The request for one check.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::event::StartTree;
use provost_core::model::plan::Shell;

use crate::activity::Activity;
use crate::check::judge::OutputListener;
use crate::check::negative_control::Doubts;
use crate::config::Folders;
use crate::process::Bounds;
use crate::sandbox::{CheckMount, Processes, What};
use crate::tree::Apart;

/// A check request: the contract, the tree that it runs on, and its limits.
#[derive(Clone)]
pub struct CheckSpec<'a> {
    pub shell: &'a Shell,
    pub timeout: Duration,
    pub tag: &'a str,
    pub stop: Option<&'a AtomicBool>,
    /// The tree that the steps before left; `None` means the approved base.
    pub tree: Option<&'a str>,
    /// The tree that the attempt began with, if known; the work is the difference from it.
    pub start: Option<&'a StartTree>,
    /// The agent's changes take part; otherwise only the base is checked.
    pub with_work: bool,
    /// The agent's step worktree, if it did not work in the workspace.
    pub apart: Option<&'a Apart>,
    /// The step's own globs, which narrow the plan's; `None` means all of the plan's.
    pub touches: Option<&'a [String]>,
    pub protect: &'a [String],
    pub network: bool,
    /// Permissions of the check's processes towards each other.
    pub processes: Processes,
    /// Folders and secrets for the check, besides its tree.
    pub given: CheckExtras<'a>,
    /// Limits on memory, processes and disk.
    pub bounds: Option<Bounds>,
    /// Which negative controls to run on the check.
    pub doubts: Doubts,
    /// The tree whose test results those of this check are compared with.
    pub compare: Comparison<'a>,
    /// A result of the same check on the same tree without the work, from before, counts too.
    pub reuses: bool,
    /// It runs with the lowest priority, because another check runs beside it.
    pub in_background: bool,
    /// Sees the output of the check while it runs; controls and other runs are not shown.
    pub shown_to: Option<OutputListener<'a>>,
}

impl CheckSpec<'_> {
    pub(super) fn activity(&self) -> Activity {
        Activity::begin(match self.with_work {
            true => "running the check",
            false => "running the check without the work",
        })
    }
}

/// What the test results of a check are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub enum Comparison<'a> {
    /// The check runs on the tree without the work.
    #[default]
    Nothing,
    /// Those on this tree; `None` means the approved base.
    With(Option<&'a str>),
}

/// Folders and secrets that the configuration gives to a check, besides its tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckExtras<'a> {
    /// Paths outside of the workspace.
    pub folders: Option<&'a Folders>,
    /// Secrets for its environment.
    pub secrets: &'a [(OsString, OsString)],
}

impl CheckExtras<'_> {
    pub(super) fn kept(&self) -> Vec<CheckMount<'_>> {
        let Some(folders) = self.folders else { return Vec::new() };
        let read = folders.read.iter().map(|at| CheckMount { at, what: What::ReadOnly(at) });
        read.chain(folders.write.iter().map(|at| CheckMount { at, what: What::Writable(at) })).collect()
    }

    /// Returns a message if a declared path does not exist.
    pub(super) fn missing(&self) -> Option<String> {
        let missing = self.folders?.all().find(|place| !place.exists())?;
        Some(format!("{} is missing, but [verify] of provost.toml names it", missing.display()))
    }
}
