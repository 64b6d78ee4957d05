//! Audits a log: its chain, the verdict behind every passed step, and its proofs.

use std::ops::ControlFlow;
use std::path::PathBuf;

use provost_core::model::chain::{Auditor, Break, Head, PlanId};
use provost_core::model::event::{CheckSubject, Choice, Event, RunOutcome};
use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_store::{Log, Query};

use crate::Error;
use crate::plan::prove::Prover;

/// Result of an audit.
#[derive(Clone, Debug)]
pub struct Audit {
    pub head: Head,
    /// Number of passes, counting repeated ones.
    pub passed: u32,
    pub broken: Option<Break>,
    /// Archived events that are lost or were changed.
    pub lost: Option<String>,
    /// Passed steps without a verdict that held or a person's confirmation.
    pub unfounded: Vec<String>,
    /// Events from which a run found that another process had forged the log.
    pub forged: Vec<String>,
    /// Proofs that are invalid or do not fit the log.
    pub disproved: Vec<String>,
    /// File of the proofs and the key to check them with, if there are any.
    pub proofs: Option<(PathBuf, String)>,
}

impl Audit {
    /// Returns whether the log has no event of the plan, so that there is nothing to audit.
    pub fn is_empty(&self) -> bool {
        self.head.seq == 0 && self.broken.is_none() && self.lost.is_none()
    }

    /// Returns whether there is a log and nothing is wrong with it.
    pub fn sound(&self) -> bool {
        !self.is_empty() && self.finds_nothing()
    }

    /// Returns whether nothing is wrong with the log, also if there is none yet.
    pub fn finds_nothing(&self) -> bool {
        self.broken.is_none()
            && self.lost.is_none()
            && self.unfounded.is_empty()
            && self.forged.is_empty()
            && self.disproved.is_empty()
    }
}

pub fn plan(log: &dyn Log, plan: &PlanId, prover: &Prover) -> Result<Audit, Error> {
    let mut auditor = Auditor::default();
    let mut broken = None;
    let mut grounds = Grounds::default();
    let read = log.read(&Query::plan(plan), &mut |sealed| {
        if let Err(found) = auditor.next(&sealed) {
            broken = Some(found);
            return ControlFlow::Break(());
        }
        match sealed.event() {
            Ok(event) => grounds.event(sealed.seq, &event),
            Err(error) => grounds.unfounded.push(error.to_string()),
        }
        ControlFlow::Continue(())
    });
    let lost = match read {
        Err(error) if error.is_of_cold_file() => Some(error.to_string()),
        read => read.map(|()| None)?,
    };
    let disproved = if lost.is_none() { prover.check(log, plan)? } else { Vec::new() };
    let key = prover.public_key().filter(|_| prover.file().exists());
    Ok(Audit {
        head: auditor.head(),
        passed: grounds.passed,
        broken,
        lost,
        unfounded: grounds.unfounded,
        forged: grounds.forged,
        disproved,
        proofs: key.map(|key| (prover.file().to_owned(), key.to_string())),
    })
}

/// Checks that each passed step is founded on a verdict or a person.
#[derive(Default)]
struct Grounds {
    run: Run,
    held: Vec<StepNumber>,
    passed: u32,
    unfounded: Vec<String>,
    forged: Vec<String>,
}

impl Grounds {
    fn event(&mut self, seq: u64, event: &Event) {
        self.passed += u32::from(matches!(event, Event::StepPassed { .. }));
        match event {
            Event::Judged { subject: CheckSubject::Contract(step), verdict, .. } => {
                self.held.retain(|held| held != step);
                if verdict.held() {
                    self.held.push(*step);
                }
            }
            Event::Answered { step: Some(step), choice: Choice::Confirm, .. } => self.held.push(*step),
            Event::StepStarted { step, .. } => self.held.retain(|held| held != step),
            Event::StepPassed { step, .. } => match self.held.iter().position(|held| held == step) {
                Some(at) => {
                    self.held.swap_remove(at);
                }
                None => self
                    .unfounded
                    .push(format!("event {seq}: step {step} passed without a verdict that held")),
            },
            Event::RunEnded { outcome: RunOutcome::Done, .. } => {
                if let Some(step) = self.run.to_be_final().next() {
                    let what = format!(
                        "event {seq}: the plan was marked done, but step {step} has no final check that held"
                    );
                    self.unfounded.push(what);
                }
            }
            Event::TamperDetected { what, from_seq: Some(from), .. } => {
                self.forged
                    .push(format!("event {seq}: provost ignores everything from event {from} on: {what}"));
            }
            _ => {}
        }
        self.run.apply(event);
    }
}
