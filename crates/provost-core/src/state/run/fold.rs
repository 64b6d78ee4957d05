//! Applies events to a run. Nothing else changes a run.
//!
//! **Invariant:** nothing is decided here: every recorded event takes effect, whatever came before.

use super::{LandedCommit, Run, Stage, StepRun, StepState, Wait};
use crate::model::event::{BudgetScope, Event, RunOutcome};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::verdict::Isolation;

mod attempt;
mod recovery;
mod spec;
mod verdict;

/// Start of the result of a step that a person confirmed.
pub(crate) const CONFIRMED: &str = "confirmed by ";

impl Run {
    /// Applies an event together with the time at which it became durable.
    pub fn apply_at(&mut self, event: &Event, at: Timestamp) {
        self.apply(event);
        self.tick(event, at);
    }

    /// Records when an applied event became durable. Events of one append have the same time.
    pub fn tick(&mut self, event: &Event, at: Timestamp) {
        self.begun.get_or_insert(at);
        self.moved = Some(at);
        let busy = self.is_busy();
        self.ledger.tick(event, at, busy);
    }

    /// Returns whether provost has something to do, not only a person.
    fn is_busy(&self) -> bool {
        let confirming = |number: &StepNumber| self.is_being_confirmed(*number);
        let open = matches!(self.stage, Stage::Approved | Stage::InProgress);
        let asked = self.any_failed() || self.any_blocked() || self.under_way().any(|step| confirming(&step));
        let at_work = !self.at_work.is_empty() || self.under_way().any(|step| !confirming(&step));
        open && (at_work || !asked || self.ready().any(|step| !self.is_held_up(step)))
    }

    /// Returns whether the step is due but lacks something that a person was already asked for.
    pub(crate) fn is_held_up(&self, number: StepNumber) -> bool {
        if !self.any_blocked() {
            return false;
        }
        let role = self.role(number);
        let mut asked = self.steps().filter(|(_, step)| step.state.is_blocked());
        let no_money = |step: &StepRun| {
            step.over_budget.as_ref().is_some_and(|breach| breach.scope == BudgetScope::Plan)
        };
        let halted = self.halted.contains(role);
        asked.any(|(step, run)| no_money(run) || halted && self.role(step.number) == role)
    }

    pub fn apply(&mut self, event: &Event) {
        self.seq += 1;
        self.ledger.hear(event);
        let before = event.step().map(|step| self.attempts_left_at(step));
        self.take_effect(event);
        self.attempts_left = match (event.step(), before) {
            // An answer may settle other steps too.
            (Some(step), Some(before)) if !matches!(event, Event::Answered { .. }) => {
                self.attempts_left.saturating_sub(before) + self.attempts_left_at(step)
            }
            _ => self.steps().map(|(step, _)| self.attempts_left_at(step.number)).sum(),
        };
    }

    fn take_effect(&mut self, event: &Event) {
        match event {
            Event::PlanCreated { .. } | Event::PlanRewritten { .. } => self.take_text(event),
            Event::PlanVerified { .. } => self.stage = Stage::Verified,
            Event::ApprovalRequested { revision, .. } => self.requested = Some(revision.clone()),
            Event::Approved { by, missing, .. } => self.approved(by, *missing),
            Event::Rejected { revision, reason, .. } => self.rejected(revision, reason),
            Event::QuestionAsked { revision, question, by, step } => {
                self.question_asked(revision, question, by, *step);
            }
            Event::LawChanged { changes } => self.law_changed = Some(changes.clone()),
            Event::IsolationAttested { level, require_red, agent_outside, .. } => {
                self.isolation_attested(*level, *require_red, *agent_outside);
            }
            Event::StepStarted { step, attempt, start, .. } => {
                self.step_started(*step, *attempt, start.as_ref());
            }
            Event::StepClaimed { step, evidence } => self.step_claimed(*step, evidence),
            Event::AttemptEnded(ended) => self.attempt_ended(ended),
            Event::AttemptLost { step, cause, left, .. } => self.attempt_lost(*step, *cause, left.as_ref()),
            Event::Judged { subject, verdict, .. } => self.judged(*subject, verdict),
            Event::StepPassed { step, tree, pass, result, .. } => {
                self.step_passed(*step, tree.as_deref(), *pass, result);
            }
            Event::StepFailed { step, .. } => self.set_state(*step, StepState::Failed),
            Event::StepWaived { step, by, .. } => self.step_waived(*step, by),
            Event::FailureDetected { step, fingerprint, .. } => self.failure_detected(*step, fingerprint),
            Event::FailureClassified { step, failure_type, halts, of_the_check, .. } => {
                self.failure_classified(*step, *failure_type, halts.as_ref(), *of_the_check);
            }
            Event::RecoveryApplied {
                step,
                recipe_name,
                not_before,
                wait_ms,
                check_again,
                role,
                fresh,
                ..
            } => {
                let wait = not_before.map(|until| Wait { until, whole_ms: *wait_ms });
                self.recovery_applied(*step, recipe_name, wait, *check_again, role.as_deref(), *fresh);
            }
            Event::Escalated { step: Some(step), reason, cause } => {
                self.escalated(*step, reason, cause.unwrap_or_default());
            }
            Event::BudgetExceeded { step, breach } => self.budget_exceeded(*step, breach),
            Event::Answered { step, choice, budget, .. } => self.answer(*step, *choice, *budget),
            Event::RunEnded { outcome, .. } => self.run_ended(*outcome),
            Event::PlanLanded { target, commit, .. } => {
                self.landed = Some(LandedCommit { target: target.clone(), commit: commit.clone() });
            }
            Event::TamperDetected { from_seq: Some(from), .. } => {
                self.forged_from = Some(self.forged_from.map_or(*from, |known| known.min(*from)));
            }
            // Recorded for people; these events change no decision.
            Event::TrainStarted { .. }
            | Event::LeaseBroken { .. }
            | Event::PermissionRequired { .. }
            | Event::Escalated { step: None, .. }
            | Event::TamperDetected { from_seq: None, .. } => {}
        }
    }

    /// Begins a run at an attested isolation level.
    fn isolation_attested(&mut self, level: Isolation, require_red: bool, agent_outside: bool) {
        self.agent_outside = agent_outside;
        if agent_outside {
            self.look_again();
        }
        if self.isolation != Some(level) {
            self.held_on_tree.clear();
        }
        self.isolation = Some(level);
        self.require_red = require_red;
        self.law_changed = None;
        // A new run: attempts of an earlier run have ended, or are judged first.
        self.at_work.clear();
    }

    fn run_ended(&mut self, outcome: RunOutcome) {
        self.landed = None;
        self.stage = match outcome {
            RunOutcome::Done => Stage::Done,
            RunOutcome::Failed => Stage::Failed,
        };
    }

    /// Skips an untrusted event: it has a sequence number but no effect.
    pub fn pass_over(&mut self) {
        self.seq += 1;
    }

    pub(super) fn step_mut(&mut self, number: StepNumber) -> Option<&mut StepRun> {
        self.steps.get_mut((number.0 as usize).wrapping_sub(1))
    }

    fn set_state(&mut self, number: StepNumber, state: StepState) {
        let index = (number.0 as usize).wrapping_sub(1);
        let Some(step) = self.steps.get_mut(index) else { return };
        let before = std::mem::replace(&mut step.state, state);
        self.ready.moved(index, &before, &self.steps, &self.plan);
    }
}
