//! Tracks spent and reserved amounts, and how long provost worked.
//!
//! It is part of the fold: [`UsageLedger::hear`] gets every event, [`UsageLedger::tick`] the time it became durable.
//! `budget` decides what the amounts allow.
//!
//! **Invariant:** an attempt is counted once. Until its end is in the log it counts with its reserved amount.
//! If its usage is never reported it keeps counting so, until a person allows a retry.

use std::collections::BTreeMap;

use crate::model::event::{AttemptEnd, Choice, EndedAttempt, Event};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::usage::{Amount, Cost, Resource, Usage};

#[derive(Clone, Debug, Default)]
pub struct UsageLedger {
    whole: Account,
    steps: BTreeMap<StepNumber, Account>,
    /// Reserved amounts by step: no step has two running attempts.
    held: BTreeMap<StepNumber, Amount>,
    /// Limits that a person set in place of the written ones, of a step or of the plan.
    raised: BTreeMap<Option<StepNumber>, Amount>,
    /// A person lets the next attempt use what is left, even if it may need more.
    pub as_it_is: bool,
    clock: Clock,
}

/// The usage of one step or of the whole plan.
#[derive(Clone, Debug, Default)]
struct Account {
    tokens: Sum,
    money: Sum,
    time: Sum,
    /// Attempts that did not report their tokens or their money.
    unknown: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    known: u64,
    /// Reserved amounts of attempts whose usage was not reported.
    guessed: u64,
    samples: u32,
    unknown: u32,
    /// Usage outside of attempts: by the model that drafted the plan, or by a judge.
    beside: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    last: Timestamp,
    /// provost had something to do after the last event.
    busy: bool,
    /// The last event does not show whether provost was running then.
    doubtful: bool,
    wall_ms: u64,
}

impl Sum {
    fn counted(&self) -> u64 {
        self.known.saturating_add(self.guessed).saturating_add(self.beside)
    }

    fn mean(&self) -> Option<u64> {
        self.known.checked_div(u64::from(self.samples))
    }

    fn total(&self) -> Option<u64> {
        (self.unknown == 0).then_some(self.known.saturating_add(self.beside))
    }

    /// Adds usage that says nothing about the needs of an attempt.
    fn add_beside(&mut self, used: Option<u64>) {
        match used {
            Some(used) => self.beside = self.beside.saturating_add(used),
            None => self.unknown += 1,
        }
    }

    fn add(&mut self, used: Option<u64>, held: Option<u64>) {
        match used {
            Some(used) => {
                self.known = self.known.saturating_add(used);
                self.samples += 1;
            }
            None => {
                self.guessed = self.guessed.saturating_add(held.unwrap_or(0));
                self.unknown += 1;
            }
        }
    }
}

impl Account {
    fn sum(&self, resource: Resource) -> &Sum {
        match resource {
            Resource::Tokens => &self.tokens,
            Resource::Usd => &self.money,
            Resource::WallClock => &self.time,
        }
    }

    fn add(&mut self, used: &Usage, duration_ms: Option<u64>, held: Amount) {
        self.tokens.add(used.tokens(), held.tokens);
        self.money.add(used.micro_usd, held.micro_usd);
        self.time.add(duration_ms, held.wall_ms);
        self.unknown += u32::from(used.tokens().is_none() || used.micro_usd.is_none());
    }

    /// Drops the guessed tokens, money and time, and returns them.
    fn forget_guesses(&mut self) -> [u64; 3] {
        [&mut self.tokens, &mut self.money, &mut self.time].map(|sum| std::mem::take(&mut sum.guessed))
    }

    fn add_beside(&mut self, used: &Usage) {
        self.tokens.add_beside(used.tokens());
        self.money.add_beside(used.micro_usd);
        self.unknown += u32::from(used.tokens().is_none() || used.micro_usd.is_none());
    }

    fn cost(&self, wall_ms: u64) -> Cost {
        Cost { tokens: self.tokens.total(), micro_usd: self.money.total(), unknown: self.unknown, wall_ms }
    }
}

impl UsageLedger {
    pub(crate) fn hear(&mut self, event: &Event) {
        match event {
            Event::PlanCreated { drafting, .. } => {
                drafting.iter().for_each(|used| self.whole.add_beside(used));
            }
            Event::Judged { step, verdict, .. } => {
                let Some(used) = &verdict.usage else { return };
                self.whole.add_beside(used);
                if let Some(step) = step {
                    self.steps.entry(*step).or_default().add_beside(used);
                }
            }
            Event::StepStarted { step, reserved, .. } => {
                // An earlier attempt that ended without a report.
                self.settle(*step, &Usage::default(), None);
                self.held.insert(*step, *reserved);
                self.as_it_is = false;
            }
            Event::AttemptEnded(EndedAttempt { step, end: AttemptEnd::NotStarted { .. }, .. }) => {
                self.held.remove(step);
            }
            Event::AttemptEnded(EndedAttempt { step, usage, duration_ms, .. }) => {
                self.settle(*step, usage, Some(*duration_ms));
            }
            // The step passed although its attempt was lost, or the attempt is lost: its usage stays unknown.
            Event::AttemptLost { step, .. } | Event::StepPassed { step, .. } => {
                self.settle(*step, &Usage::default(), None);
            }
            _ => {}
        }
    }

    /// Applies a person's answer to an exceeded budget, of the plan or of this step.
    pub(crate) fn answered(&mut self, scope: Option<StepNumber>, choice: Choice, limits: Amount) {
        if choice != Choice::Retry {
            return;
        }
        self.as_it_is = true;
        if !limits.is_empty() {
            let before = self.raised(scope);
            self.raised.insert(scope, limits.or(&before));
        }
    }

    /// Releases the reserved amounts of attempts without reported usage, after a person allowed a retry of a
    /// step or the plan. Known spending stays spent.
    pub fn give_back(&mut self, scope: Option<StepNumber>) {
        match scope {
            None => {
                self.whole.forget_guesses();
                self.steps.values_mut().for_each(|account| {
                    account.forget_guesses();
                });
            }
            Some(step) => {
                let Some(account) = self.steps.get_mut(&step) else { return };
                let [tokens, money, time] = account.forget_guesses();
                for (sum, back) in [
                    (&mut self.whole.tokens, tokens),
                    (&mut self.whole.money, money),
                    (&mut self.whole.time, time),
                ] {
                    sum.guessed = sum.guessed.saturating_sub(back);
                }
            }
        }
    }

    /// Drops limits that a person set, if the written limits changed.
    pub(crate) fn new_law(&mut self, changed: impl Fn(Option<StepNumber>) -> bool) {
        self.as_it_is = false;
        self.raised.retain(|scope, _| !changed(*scope));
    }

    /// Records that `event` became durable at `at`; `busy` says whether provost has something to do now.
    pub(crate) fn tick(&mut self, event: &Event, at: Timestamp, busy: bool) {
        let gap = at.0.saturating_sub(self.clock.last.0);
        let at_work = is_said_at_work(event);
        let counted = match at_work {
            true => gap,
            // provost may have been down. An attempt it left may have worked up to its time limit.
            false if self.clock.doubtful => 0,
            false => gap.min(self.held.values().filter_map(|held| held.wall_ms).max().unwrap_or(0)),
        };
        if self.clock.busy {
            self.clock.wall_ms = self.clock.wall_ms.saturating_add(counted);
        }
        self.clock = Clock { last: at, busy, doubtful: !at_work, ..self.clock };
    }

    fn settle(&mut self, step: StepNumber, used: &Usage, duration_ms: Option<u64>) {
        let Some(held) = self.held.remove(&step) else { return };
        for account in [self.steps.entry(step).or_default(), &mut self.whole] {
            account.add(used, duration_ms, held);
        }
    }

    /// Returns the limits that a person set in place of the written ones.
    pub fn raised(&self, scope: Option<StepNumber>) -> Amount {
        self.raised.get(&scope).copied().unwrap_or_default()
    }

    /// Returns the amount reserved for an attempt at this step.
    pub fn held(&self, step: StepNumber) -> Option<Amount> {
        self.held.get(&step).copied()
    }

    /// Returns what counts as spent of the whole plan's limits at `now`, reserved tokens and money included.
    pub fn committed(&self, resource: Resource, now: Timestamp) -> u64 {
        if resource == Resource::WallClock {
            let since = if self.clock.busy { now.0.saturating_sub(self.clock.last.0) } else { 0 };
            return self.clock.wall_ms.saturating_add(since);
        }
        let held = self.held.values().filter_map(|held| held.of(resource));
        held.fold(self.whole.sum(resource).counted(), u64::saturating_add)
    }

    /// The same for a step's own limits.
    pub fn committed_by(&self, step: StepNumber, resource: Resource) -> u64 {
        let spent = self.steps.get(&step).map_or(0, |account| account.sum(resource).counted());
        spent.saturating_add(self.held(step).and_then(|held| held.of(resource)).unwrap_or(0))
    }

    /// The same for the attempts only, without what checks used.
    pub fn committed_by_attempts(&self, step: StepNumber, resource: Resource) -> u64 {
        let beside = self.steps.get(&step).map_or(0, |account| account.sum(resource).beside);
        self.committed_by(step, resource).saturating_sub(beside)
    }

    /// Returns the average usage of an attempt at this step, if known.
    pub fn mean_of(&self, step: StepNumber, resource: Resource) -> Option<u64> {
        self.steps.get(&step)?.sum(resource).mean()
    }

    pub fn mean(&self, resource: Resource) -> Option<u64> {
        self.whole.sum(resource).mean()
    }

    /// Returns the total usage if all of it is known.
    pub fn total(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::WallClock => Some(self.clock.wall_ms),
            resource => self.whole.sum(resource).total(),
        }
    }

    /// Returns the known part of the usage: a lower bound.
    pub fn known(&self, resource: Resource) -> u64 {
        let sum = self.whole.sum(resource);
        sum.known.saturating_add(sum.beside)
    }

    /// Counts the attempts that did not report this resource.
    pub fn unknown(&self, scope: Option<StepNumber>, resource: Resource) -> u32 {
        let account = match scope {
            None => Some(&self.whole),
            Some(step) => self.steps.get(&step),
        };
        account.map_or(0, |account| account.sum(resource).unknown)
    }

    /// Returns the cost to show, without running attempts.
    pub fn cost(&self) -> Cost {
        self.whole.cost(self.clock.wall_ms)
    }

    pub fn cost_of(&self, step: StepNumber) -> Cost {
        self.steps.get(&step).map_or(Cost::default(), |account| account.cost(account.time.known))
    }
}

/// Returns whether only a running provost writes this event; all others are written at its start, or possibly
/// without one.
fn is_said_at_work(event: &Event) -> bool {
    match event {
        Event::StepStarted { .. }
        | Event::AttemptEnded(EndedAttempt { .. })
        | Event::AttemptLost { .. }
        | Event::Judged { .. }
        | Event::StepPassed { .. }
        | Event::StepFailed { .. }
        | Event::StepWaived { .. }
        | Event::FailureDetected { .. }
        | Event::FailureClassified { .. }
        | Event::RecoveryApplied { .. }
        | Event::PermissionRequired { .. }
        | Event::Escalated { step: Some(_), .. }
        | Event::BudgetExceeded { .. }
        | Event::LawChanged { .. }
        | Event::RunEnded { .. } => true,
        Event::PlanCreated { .. }
        | Event::PlanRewritten { .. }
        | Event::PlanVerified { .. }
        | Event::ApprovalRequested { .. }
        | Event::Approved { .. }
        | Event::Rejected { .. }
        | Event::QuestionAsked { .. }
        | Event::IsolationAttested { .. }
        | Event::StepClaimed { .. }
        // A reminder, which needs no running provost.
        | Event::Escalated { step: None, .. }
        | Event::Answered { .. }
        | Event::TamperDetected { .. }
        | Event::LeaseBroken { .. }
        | Event::TrainStarted { .. }
        | Event::PlanLanded { .. } => false,
    }
}
