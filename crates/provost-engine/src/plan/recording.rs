//! Reads the plan file, verifies it and records it in the log.

use crate::plan::uncommitted;
use std::sync::atomic::Ordering;

use provost_core::model::approved_spec;
use provost_core::model::check_author::CheckAuthor;
use provost_core::model::event::Revision;
use provost_core::model::hash::Hash;
use provost_core::model::usage::Usage;
use provost_core::rules::command::{HarnessCommand, HumanCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage};
use provost_host::plans::plan_file;

use crate::plan::harness::Harness;
use crate::plan::projections;
use crate::plan::reading::{self, BoundPlan};
use crate::{Error, uncommitted_files};

/// Reads and parses the plan file and binds it to its surroundings; does not verify it.
pub fn read(harness: &Harness) -> Result<BoundPlan, Error> {
    let found = plan_file::read(&harness.place().path)?;
    let reading = BoundPlan::of(harness.site(), &found.bytes);
    // Without a trustworthy log no files count as included.
    let run = harness.run().unwrap_or_default();
    let mut included = uncommitted_files::still_included(&harness.place().workspace, &run);
    if harness.includes.load(Ordering::Relaxed) {
        included = uncommitted::with_uncommitted(harness, run, &reading, included)?;
    }
    Ok(reading.including(included))
}

/// Parses and verifies the plan file.
pub fn check(harness: &Harness) -> Result<BoundPlan, Error> {
    Ok(read(harness)?.verified(harness.site()))
}

/// Parses and verifies a text that is not in the plan file yet.
pub fn check_text(harness: &Harness, text: Vec<u8>) -> Result<BoundPlan, Error> {
    Ok(BoundPlan::of(harness.site(), &text).verified(harness.site()))
}

/// Records a plan without errors in the log as recorded and verified.
pub fn record(harness: &Harness, reading: &BoundPlan) -> Result<Run, Error> {
    let run = harness.own_command(|_| HarnessCommand::Record {
        text: reading.text.clone(),
        binding: reading.binding.clone(),
        author: Some(harness.person()),
    })?;
    if run.stage != Stage::Draft {
        return Ok(run);
    }
    // The verification applies to this revision, even if another one was recorded since.
    let (revision, warnings) = (run.revision, reading.warnings());
    let verified = harness.own_command(|_| HarnessCommand::Verified { revision: revision.clone(), warnings });
    or_found(harness, verified, |run| run.revision == revision && run.stage != Stage::Draft)
}

/// Records a text that no person wrote, before it is recorded as read. Its new checks have this author.
pub(crate) fn record_text_of(
    harness: &Harness,
    reading: &BoundPlan,
    checks_by: CheckAuthor,
    usage: &[Usage],
) -> Result<(), Error> {
    harness.own_command(|_| HarnessCommand::RecordDraft {
        text: reading.text.clone(),
        binding: reading.binding.clone(),
        usage: usage.to_vec(),
        author: Some(harness.person()),
        checks_by: checks_by.clone(),
    })?;
    Ok(())
}

/// Accepts a `WrongStage` refusal if another process has already brought the run to the wanted state.
pub(crate) fn or_found(
    harness: &Harness,
    said: Result<Run, Error>,
    is_it: impl Fn(&Run) -> bool,
) -> Result<Run, Error> {
    match said {
        Err(refused @ Error::Refused(Refusal::WrongStage { .. })) => {
            let run = harness.run()?;
            if is_it(&run) { Ok(run) } else { Err(refused) }
        }
        said => said,
    }
}

/// Reads, verifies and records the plan file, or returns its diagnostics. Returns the reading too if it
/// was new to the log.
pub fn bring_up(harness: &Harness) -> Result<(Run, Option<BoundPlan>), Error> {
    let run = harness.genuine()?;
    if run.stage != Stage::Draft && !uncommitted::is_to_include(harness, &run) && stands(harness, &run)? {
        return Ok((run, None));
    }
    let (run, reading) = bring_up_unmarked(harness, run)?;
    project(harness, &run);
    Ok((run, reading))
}

/// Does the same for a plan that was only checked: writes to the log, and not to the plan file.
pub fn note_verified(harness: &Harness) -> Result<Run, Error> {
    Ok(bring_up_unmarked(harness, harness.genuine()?)?.0)
}

fn bring_up_unmarked(harness: &Harness, run: Run) -> Result<(Run, Option<BoundPlan>), Error> {
    let reading = read(harness)?;
    if unchanged(&run, &reading) && run.stage != Stage::Draft {
        return Ok((run, None));
    }
    drop(run);
    let reading = reading.verified(harness.site());
    if reading.errors() {
        let path = harness.place().path.clone();
        return Err(Error::Diagnosed { path, text: reading.text, diagnostics: reading.diagnostics });
    }
    let run = record(harness, &reading)?;
    Ok((run, Some(reading)))
}

/// Brings up the plan for a person who approves the revision they typed, which may be a prefix. An
/// approval that would be refused is refused before anything is recorded.
pub fn bring_up_to_approve_revision(
    harness: &Harness,
    typed: &str,
) -> Result<(Run, Option<BoundPlan>), Error> {
    harness.genuine()?;
    let (mut run, _) = preview(harness)?;
    if !run.revision.is_named_by(typed) {
        let (read, current) = (Revision(typed.to_owned()), run.revision.short().to_owned());
        return Err(Refusal::Stale { read: read.short().to_owned(), current }.into());
    }
    if run.stage == Stage::Draft {
        let verified = HarnessCommand::Verified { revision: run.revision.clone(), warnings: 0 };
        decide::harness(&run, verified)?.iter().for_each(|event| run.apply(event));
    }
    let (revision, by, modifications) = (run.revision.clone(), harness.person(), Vec::new());
    decide::human(&run, HumanCommand::Approve { revision, by, modifications })?;
    crate::plan::authorization::only_at_a_terminal(harness)?;
    uncommitted::refuse_uncommitted(harness, &run)?;
    bring_up_to_approve(harness)
}

/// Brings up the plan for a person who reads it before approving. If authors may not approve their own
/// plans, the log must already name the author.
pub fn bring_up_to_approve(harness: &Harness) -> Result<(Run, Option<BoundPlan>), Error> {
    let before = harness.run()?;
    if !harness.config().gate.quorum.self_approval || !before.quorum().self_approval {
        let (now, _) = preview(harness)?;
        if now.law != before.law || before.author.is_none() {
            return Err(Refusal::NoAuthor.into());
        }
    }
    bring_up(harness)
}

/// Returns whether the file is byte for byte what provost would write and its surroundings are unchanged;
/// then it needs no parsing.
fn stands(harness: &Harness, run: &Run) -> Result<bool, Error> {
    let found = plan_file::read(&harness.place().path)?;
    let marked = approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
    if found.bytes != marked.as_bytes() {
        return Ok(false);
    }
    Ok(match run.started() {
        true => reading::terms(harness.site(), &run.plan) == run.binding.terms,
        false => reading::revision_now(harness.site(), run) == run.revision,
    })
}

/// Returns whether the log already holds this text.
fn unchanged(run: &Run, reading: &BoundPlan) -> bool {
    if run.started() {
        run.law == Some(approved_spec::digest(&reading.text, &reading.plan))
            && run.binding.terms == reading.binding.terms
    } else {
        run.revision == reading.revision
    }
}

/// Writes the marks of the run into the plan file and ignores failures. A running drive writes them
/// itself and could not tell these writes from tampering.
pub(crate) fn project(harness: &Harness, run: &Run) {
    if !harness.is_under_way() {
        let _ = projections::marks(harness.site(), run);
    }
}

/// Updates the plan file after a crash; a running drive does so itself. Before an approval the file stays as
/// its author left it.
pub fn catch_up_marks(harness: &Harness, run: &Run) {
    if run.exists() && run.forged_from.is_none() && run.approved_by.is_some() {
        project(harness, run);
    }
}

/// Replaces the plan file's text, if it is still the text that was read.
pub fn rewrite(harness: &Harness, read: &BoundPlan, text: &str) -> Result<(), Error> {
    let expected = Hash::of(read.text.as_bytes());
    plan_file::replace(&harness.place().path, &expected, text.as_bytes())?;
    Ok(())
}

/// Returns the plan as it would be if the file were recorded now, and whether that changes anything.
pub fn preview(harness: &Harness) -> Result<(Run, bool), Error> {
    let mut run = harness.run()?;
    if run.forged_from.is_some()
        || run.exists() && !uncommitted::is_to_include(harness, &run) && stands(harness, &run)?
    {
        return Ok((run, false));
    }
    let reading = read(harness)?;
    if run.exists() && unchanged(&run, &reading) {
        return Ok((run, false));
    }
    // A reader is not the author.
    let (text, binding, author) = (reading.text, reading.binding, None);
    let record = HarnessCommand::Record { text, binding, author };
    let events = decide::harness(&run, record)?;
    for event in &events {
        run.apply(event);
    }
    Ok((run, !events.is_empty()))
}
