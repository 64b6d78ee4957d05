//! Reads the plan file, verifies it and records it in the log.

use std::sync::atomic::Ordering;

use provost_core::model::approved_spec;
use provost_core::model::event::{Event, Revision};
use provost_core::model::hash::Hash;
use provost_core::rules::command::{HarnessCommand, HumanCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage};
use provost_host::plans::plan_file;

use crate::harness::Harness;
use crate::reading::BoundPlan;
use crate::{Error, projections, reading, uncommitted_files};

impl Harness {
    /// Reads and parses the plan file and binds it to its surroundings; does not verify it.
    pub fn read(&self) -> Result<BoundPlan, Error> {
        let found = plan_file::read(&self.place().path)?;
        let reading = BoundPlan::of(&self.site, &found.bytes);
        // Without a trustworthy log no files count as included.
        let run = self.run().unwrap_or_default();
        let mut included = uncommitted_files::still_included(&self.place().workspace, &run);
        if self.includes.load(Ordering::Relaxed) {
            included = self.with_uncommitted(run, &reading, included)?;
        }
        Ok(reading.including(included))
    }

    /// Parses and verifies the plan file.
    pub fn check(&self) -> Result<BoundPlan, Error> {
        Ok(self.read()?.verified(&self.site))
    }

    /// Parses and verifies a text that is not in the plan file yet.
    pub fn check_text(&self, text: Vec<u8>) -> Result<BoundPlan, Error> {
        Ok(BoundPlan::of(&self.site, &text).verified(&self.site))
    }

    /// Records a plan without errors in the log as recorded and verified.
    pub fn record(&self, reading: &BoundPlan) -> Result<Run, Error> {
        let run = self.harness(|_| HarnessCommand::Record {
            text: reading.text.clone(),
            binding: reading.binding.clone(),
            author: Some(self.person()),
        })?;
        if run.stage != Stage::Draft {
            return Ok(run);
        }
        // The verification applies to this revision, even if another one was recorded since.
        let (revision, warnings) = (run.revision, reading.warnings());
        let verified = self.harness(|_| HarnessCommand::Verified { revision: revision.clone(), warnings });
        self.or_found(verified, |run| run.revision == revision && run.stage != Stage::Draft)
    }

    /// Accepts a `WrongStage` refusal if another process has already brought the run to the wanted state.
    fn or_found(&self, said: Result<Run, Error>, is_it: impl Fn(&Run) -> bool) -> Result<Run, Error> {
        match said {
            Err(refused @ Error::Refused(Refusal::WrongStage { .. })) => {
                let run = self.run()?;
                if is_it(&run) { Ok(run) } else { Err(refused) }
            }
            said => said,
        }
    }

    /// Reads, verifies and records the plan file, or returns its diagnostics. Returns the reading too if it
    /// was new to the log.
    pub fn bring_up(&self) -> Result<(Run, Option<BoundPlan>), Error> {
        let run = self.genuine()?;
        if run.stage != Stage::Draft && !self.is_to_include(&run) && self.stands(&run)? {
            return Ok((run, None));
        }
        let reading = self.read()?;
        if self.unchanged(&run, &reading) && run.stage != Stage::Draft {
            self.project(&run);
            return Ok((run, None));
        }
        drop(run);
        let reading = reading.verified(&self.site);
        if reading.errors() {
            return Err(Error::Diagnosed { text: reading.text, diagnostics: reading.diagnostics });
        }
        let run = self.record(&reading)?;
        self.project(&run);
        Ok((run, Some(reading)))
    }

    /// Brings up the plan for a person who approves the revision they typed, which may be a prefix. An
    /// approval that would be refused is refused before anything is recorded.
    pub fn bring_up_to_approve_revision(&self, typed: &str) -> Result<(Run, Option<BoundPlan>), Error> {
        self.genuine()?;
        let (mut run, _) = self.preview()?;
        if !run.revision.is_named_by(typed) {
            let (read, current) = (Revision(typed.to_owned()), run.revision.short().to_owned());
            return Err(Refusal::Stale { read: read.short().to_owned(), current }.into());
        }
        if run.stage == Stage::Draft {
            run.apply(&Event::PlanVerified { revision: run.revision.clone(), warnings: 0 });
        }
        let (revision, by, modifications) = (run.revision.clone(), self.person(), Vec::new());
        decide::human(&run, HumanCommand::Approve { revision, by, modifications })?;
        self.only_at_a_terminal()?;
        self.refuse_uncommitted(&run)?;
        self.bring_up_to_approve()
    }

    /// Brings up the plan for a person who reads it before approving. If authors may not approve their own
    /// plans, the log must already name the author.
    pub fn bring_up_to_approve(&self) -> Result<(Run, Option<BoundPlan>), Error> {
        let before = self.run()?;
        if !self.config().gate.quorum.self_approval || !before.quorum().self_approval {
            let (now, _) = self.preview()?;
            if now.law != before.law || before.author.is_none() {
                return Err(Refusal::NoAuthor.into());
            }
        }
        self.bring_up()
    }

    /// Returns whether the file is byte for byte what provost would write and its surroundings are unchanged;
    /// then it needs no parsing.
    fn stands(&self, run: &Run) -> Result<bool, Error> {
        let found = plan_file::read(&self.place().path)?;
        let marked = approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
        if found.bytes != marked.as_bytes() {
            return Ok(false);
        }
        Ok(match run.started() {
            true => reading::terms(&self.site, &run.plan) == run.binding.terms,
            false => reading::revision_now(&self.site, run) == run.revision,
        })
    }

    /// Returns whether the log already holds this text.
    fn unchanged(&self, run: &Run, reading: &BoundPlan) -> bool {
        if run.started() {
            run.law == Some(approved_spec::digest(&reading.text, &reading.plan))
                && run.binding.terms == reading.binding.terms
        } else {
            run.revision == reading.revision
        }
    }

    /// Writes the marks of the run into the plan file and ignores failures. A running drive writes them
    /// itself and could not tell these writes from tampering.
    pub(crate) fn project(&self, run: &Run) {
        if !self.is_under_way() {
            let _ = projections::marks(&self.site, run);
        }
    }

    /// Updates the plan file after a crash; a running drive does so itself.
    pub fn catch_up_marks(&self, run: &Run) {
        if run.exists() && run.forged_from.is_none() {
            self.project(run);
        }
    }

    /// Replaces the plan file's text, if it is still the text that was read.
    pub fn rewrite(&self, read: &BoundPlan, text: &str) -> Result<(), Error> {
        let expected = Hash::of(read.text.as_bytes());
        plan_file::replace(&self.place().path, &expected, text.as_bytes())?;
        Ok(())
    }

    /// Returns the plan as it would be if the file were recorded now, and whether that changes anything.
    pub fn preview(&self) -> Result<(Run, bool), Error> {
        let mut run = self.run()?;
        if run.forged_from.is_some() || run.exists() && !self.is_to_include(&run) && self.stands(&run)? {
            return Ok((run, false));
        }
        let reading = self.read()?;
        if run.exists() && self.unchanged(&run, &reading) {
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
}
