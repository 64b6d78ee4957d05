//! Reads one plan from its first event to its last.
//!
//! If only a part of the time is asked for, earlier events are read too, because something may begin before
//! and end later. They do not enter the sums.

use std::collections::BTreeMap;

use super::{AgentName, AgentRow, Effort, PlanRow, PlansSummary, StepRow};
use crate::model::chain::PlanId;
use crate::model::event::{Choice, EndedAttempt, Event};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::usage::Usage;
use crate::rules::decide;
use crate::state::run::{Run, StepState};

/// Reads a plan's events in their order.
#[derive(Debug, Default)]
pub struct SummaryReader {
    since: Timestamp,
    run: Run,
    steps: BTreeMap<StepNumber, StepSoFar>,
    itself: Effort,
    /// Since when the plan waits for a person, at the gate or as a whole.
    waits_since: Option<Timestamp>,
    agents: BTreeMap<AgentName, AgentRow>,
}

#[derive(Debug, Default)]
struct StepSoFar {
    title: String,
    taken: Effort,
    /// The role of the running attempt.
    open: Option<String>,
    /// The agent of the last attempt.
    last: Option<AgentName>,
    waits_since: Option<Timestamp>,
    /// Start and end.
    pause: Option<(Timestamp, Timestamp)>,
    /// A person confirmed it.
    confirmed: bool,
    /// The agent of its last pass, if that pass is in the counted time.
    passed_by: Option<AgentName>,
}

impl SummaryReader {
    /// Counts what happened at this instant or later.
    pub fn since(since: Option<Timestamp>) -> Self {
        Self { since: since.unwrap_or_default(), ..Self::default() }
    }

    pub fn hear(&mut self, at: Timestamp, event: &Event) {
        self.run.apply(event);
        match event {
            Event::PlanCreated { .. } | Event::PlanRewritten { .. } => self.law_is_new(at),
            Event::ApprovalRequested { .. } | Event::QuestionAsked { .. } => {
                self.waits_since.get_or_insert(at);
            }
            Event::Approved { missing: 1.., .. } => {}
            Event::Approved { .. } | Event::Rejected { .. } | Event::Answered { step: None, .. } => {
                self.person_came(at);
            }
            Event::RunEnded { .. } => self.all_waits_end(at),
            Event::Judged { step: None, verdict, .. } => {
                if at >= self.since {
                    self.itself.check_ms = self.itself.check_ms.saturating_add(verdict.duration_ms);
                }
            }
            Event::PlanVerified { .. }
            | Event::IsolationAttested { .. }
            | Event::LawChanged { .. }
            | Event::TamperDetected { .. } => {}
            _ => {
                if let Some(step) = event.step() {
                    self.of_step(step, at, event);
                }
            }
        }
    }

    fn of_step(&mut self, number: StepNumber, at: Timestamp, event: &Event) {
        let counts = at >= self.since;
        if let Event::StepStarted { .. } = event {
            // The plan continues, so it no longer waits for a person.
            self.person_came(at);
        }
        let to_confirm = self.run.confirmed_by_person(number);
        let since = self.since;
        let step = self.steps.entry(number).or_default();
        if !matches!(event, Event::StepClaimed { .. }) {
            step.pause_ends(at, since);
        }
        match event {
            Event::StepStarted { target, .. } => {
                step.person_came(at, since);
                // The end of the previous attempt was not recorded.
                step.attempt_ends(None, counts, &mut self.agents);
                step.open = Some(target.clone());
                step.confirmed = false;
            }
            Event::AttemptEnded(EndedAttempt { duration_ms, usage, .. }) => {
                step.attempt_ends(Some((*duration_ms, usage)), counts, &mut self.agents);
                if to_confirm {
                    step.waits_since.get_or_insert(at);
                }
            }
            Event::AttemptLost { .. } => step.attempt_ends(None, counts, &mut self.agents),
            Event::Judged { verdict, .. } if counts => {
                step.taken.check_ms = step.taken.check_ms.saturating_add(verdict.duration_ms);
            }
            Event::FailureClassified { failure_type, .. } if counts => {
                *step.taken.classes.entry(failure_type.word()).or_default() += 1;
            }
            Event::RecoveryApplied { recipe_name, not_before, .. } => {
                if counts {
                    *step.taken.recipes.entry(recipe_name.clone()).or_default() += 1;
                }
                step.pause = not_before.map(|until| (at, until));
            }
            Event::Escalated { .. } | Event::BudgetExceeded { .. } => {
                step.waits_since.get_or_insert(at);
            }
            Event::Answered { choice, .. } => {
                step.person_came(at, since);
                step.confirmed = *choice == Choice::Confirm;
            }
            Event::StepPassed { .. } => {
                step.person_came(at, since);
                step.attempt_ends(None, counts, &mut self.agents);
                step.passed_by = step.last.clone().filter(|_| counts && !step.confirmed);
            }
            Event::StepFailed { .. } | Event::StepWaived { .. } => step.person_came(at, since),
            _ => {}
        }
    }

    /// Ends all waits: a draft waits for its author, not for an answer.
    fn law_is_new(&mut self, at: Timestamp) {
        self.all_waits_end(at);
        for (step, _) in self.run.steps() {
            let so_far = self.steps.entry(step.number).or_default();
            so_far.title.clone_from(&step.title);
        }
    }

    fn person_came(&mut self, at: Timestamp) {
        if let Some(begun) = self.waits_since.take() {
            self.itself.person_ms += between(begun, at, self.since);
        }
    }

    fn all_waits_end(&mut self, at: Timestamp) {
        self.person_came(at);
        for step in self.steps.values_mut() {
            step.person_came(at, self.since);
            step.pause_ends(at, self.since);
        }
    }

    /// Ends the reading: open waits count until `now`, and the usage of running attempts is unknown.
    pub fn end(mut self, plan: PlanId, now: Timestamp, summary: &mut PlansSummary) {
        self.all_waits_end(now);
        let mut total = self.itself.clone();
        let mut rows = Vec::new();
        for (number, mut step) in std::mem::take(&mut self.steps) {
            step.attempt_ends(None, now >= self.since, &mut self.agents);
            let state = self.state_of(number, &step);
            if state == "passed"
                && let Some(agent) = &step.passed_by
            {
                self.agents.entry(agent.clone()).or_default().verified += 1;
            }
            total.join(&step.taken);
            rows.push(StepRow { number, title: step.title, state, taken: step.taken });
        }
        let row = PlanRow {
            plan,
            title: self.run.plan.title.clone(),
            stage: self.run.stage.word(),
            forged_from: self.run.forged_from,
            steps: rows,
            itself: self.itself,
            total,
        };
        summary.add(row, self.agents);
    }

    fn state_of(&self, number: StepNumber, step: &StepSoFar) -> &'static str {
        match self.run.step(number).map(|step| &step.state) {
            None => "removed",
            Some(StepState::Passed) if step.confirmed => "confirmed",
            Some(_) => self.run.state_word(number),
        }
    }
}

impl StepSoFar {
    /// Ends the open attempt. `seen` is its duration and usage, if provost saw it end.
    fn attempt_ends(
        &mut self,
        seen: Option<(u64, &Usage)>,
        counts: bool,
        agents: &mut BTreeMap<AgentName, AgentRow>,
    ) {
        let Some(role) = self.open.take() else { return };
        let unknown = Usage::default();
        let (agent_ms, usage) = seen.unwrap_or((0, &unknown));
        let agent = AgentName { role, model: usage.model.clone() };
        if counts {
            self.taken.attempt(agent_ms, usage);
        }
        // A sub-plan has its own agents, and they are counted there.
        if agent.role.starts_with(decide::PLAN) {
            self.last = None;
            return;
        }
        if counts {
            agents.entry(agent.clone()).or_default().attempt(agent_ms, usage);
        }
        self.last = Some(agent);
    }

    fn person_came(&mut self, at: Timestamp, since: Timestamp) {
        if let Some(begun) = self.waits_since.take() {
            self.taken.person_ms += between(begun, at, since);
        }
    }

    /// Ends a pause; time after its planned end does not count.
    fn pause_ends(&mut self, at: Timestamp, since: Timestamp) {
        if let Some((begun, until)) = self.pause.take() {
            self.taken.pause_ms += between(begun, at.min(until), since);
        }
    }
}

/// Returns the part of the interval after `since`. Clocks jump: an interval that ends before it began has
/// length zero.
fn between(begun: Timestamp, ended: Timestamp, since: Timestamp) -> u64 {
    ended.0.saturating_sub(begun.0.max(since.0))
}
