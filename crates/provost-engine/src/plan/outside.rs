//! Reports what agents changed outside of `touches`: at the end of a run, in the inbox and at the gate, as
//! long as it is as the attempt left it.

use std::path::Path;

use provost_core::model::event::{OutsideChange, OutsideKind, OutsidePath};
use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_host::exec::outside_changes;
use provost_host::git;
use provost_host::plans::trust;

use crate::plan::harness::Harness;

/// Returns the changes outside of `touches` that still exist, with advice.
pub fn left_outside(harness: &Harness, run: &Run) -> Vec<String> {
    let mut lines = left(&harness.place().workspace, run);
    let waiting = trust::list(harness.state());
    let waiting = waiting.iter().filter(|file| file.path.starts_with(&harness.place().workspace));
    lines.extend(waiting.map(ToString::to_string));
    lines
}

/// Returns the caches of checks that an agent changed since the last approval, for the next approver.
pub fn changed_caches(harness: &Harness, run: &Run) -> Vec<String> {
    if run.approved_by.is_some() {
        return Vec::new();
    }
    let touched = |cache: &String| Some((cache.clone(), run.touched_by(cache)?));
    let touched = harness.site().caches().iter().filter_map(touched);
    let words = |(cache, (step, attempt)): (String, (StepNumber, u32))| {
        format!(
            "the agent of step {step}, attempt {attempt}, changed the cache {cache} since the last \
             approval. Checks use it as it is: rebuild it before you approve"
        )
    };
    touched.map(words).collect()
}

/// Returns the changes outside of `touches` that still exist in this workspace, without the files that wait
/// to be trusted.
pub fn left(workspace: &Path, run: &Run) -> Vec<String> {
    let lines = run.outside_lines(|change| still_stands(workspace, change));
    if lines.is_empty() {
        return lines;
    }
    let head = "the agent changed files outside of `touches`; no check used them, no commit has them, and they \
     are still there";
    let tail = "  look at it (`git status --ignored`, `git diff`) before you run anything from it";
    let lines = lines.into_iter().map(|line| format!("  {line}"));
    std::iter::once(head.to_owned()).chain(lines).chain([tail.to_owned()]).collect()
}

/// Returns whether the change still exists as the attempt left it.
fn still_stands(workspace: &Path, change: &OutsidePath) -> bool {
    // A quoted name cannot be looked up.
    let is_quoted = change.path.contains('\\');
    match (change.kind, change.change) {
        _ if is_quoted => true,
        (OutsideKind::Ref, _) if change.path == "HEAD" => {
            git::branch(workspace).or_else(|| git::head(workspace)) == change.after
        }
        (OutsideKind::Ref, _) => git::find(workspace, &change.path) == change.after,
        (OutsideKind::File, OutsideChange::Removed) => {
            workspace.join(&change.path).symlink_metadata().is_err()
        }
        (OutsideKind::File, _) => match &change.after {
            Some(after) => outside_changes::digest(workspace, change.path.as_bytes()).as_ref() == Some(after),
            None => workspace.join(&change.path).symlink_metadata().is_ok(),
        },
        (OutsideKind::Folder, _) => workspace.join(&change.path).symlink_metadata().is_ok(),
        (OutsideKind::Git | OutsideKind::Note, _) => true,
    }
}
