//! Decides whether the next attempt fits the budget: amounts are reserved before it begins and settled after
//! it ends.
//!
//! The reserved amount of limited tokens and money is the first known one of these: the configured estimate
//! of the role; the average of attempts at this step; the average of attempts at any step; an equal share of
//! the rest among all attempts that the plan may still make. Of limited time, an attempt gets all that is
//! left.
//!
//! **Invariant:** when an attempt begins, spent and reserved amounts together do not exceed a limit. They can
//! exceed it only by what an attempt used above its reservation.

use crate::model::event::{Breach, BudgetScope};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::usage::{Amount, Resource};
use crate::state::run::{Run, StepState};

/// No agent is started with less time than this.
const LEAST_WALL_MS: u64 = 1_000;

/// The decision whether an attempt may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It may, with this amount reserved; the time is also its timeout.
    Yes(Amount),
    /// Running attempts have reserved what it needs, and may leave some of it.
    NotNow,
    No(Box<Breach>),
}

/// Returns the limits of the plan: set by a person, else written in the plan, else the configured default.
pub fn of_plan(run: &Run) -> Amount {
    let written = run.plan.budget.as_ref().map(|budget| Amount::from(budget.value));
    run.ledger.raised(None).or(&written.unwrap_or(run.binding.terms.budget))
}

/// The same for a step.
pub fn of_step(run: &Run, step: StepNumber) -> Amount {
    let written = run.plan.step(step).and_then(|step| step.budget.as_ref());
    let written = written.map(|budget| Amount::from(budget.value));
    run.ledger.raised(Some(step)).or(&written.unwrap_or(run.binding.terms.step_budget))
}

/// Returns the tokens and money that count of this plan against a budget of all plans of a log: what it has used and
/// reserved. Sub-plans count by themselves, so the steps that they carry out do not.
pub fn of_all_plans(run: &Run) -> Amount {
    let carried =
        || run.plan.steps.iter().map(|step| step.number).filter(|step| run.carried_by(*step).is_some());
    Amount::each(|resource| match resource {
        Resource::WallClock => None,
        resource => {
            let whole = run.ledger.committed(resource, Timestamp(0));
            let by_others = carried().map(|step| run.ledger.committed_by_attempts(step, resource));
            Some(by_others.fold(whole, u64::saturating_sub))
        }
    })
}

/// Decides whether the next attempt at this step fits.
pub fn fit(run: &Run, step: StepNumber, now: Timestamp) -> Fit {
    fits(run, step, now, run.ledger.as_it_is)
}

/// Returns whether anything is left for it.
pub fn is_any_left(run: &Run, step: StepNumber, now: Timestamp) -> bool {
    !matches!(fits(run, step, now, true), Fit::No(_))
}

/// Returns the most tokens and money that a running attempt may use: its reserved amount and everything
/// unreserved.
pub fn allows(run: &Run, step: StepNumber) -> Amount {
    let (plan, own) = (of_plan(run), of_step(run, step));
    let case = Case { run, step, now: Timestamp(0), plan, own, as_it_is: false };
    let held = run.ledger.held(step).unwrap_or_default();
    Amount::each(|resource| match resource {
        Resource::WallClock => None,
        resource => Some(case.left(resource)?.saturating_add(held.of(resource).unwrap_or(0))),
    })
}

/// Lists the roles whose running attempts a limit of this plan cannot end, with the reason, for the gate.
pub fn caveats(run: &Run) -> Vec<String> {
    let own = run.plan.steps.iter().map(|step| of_step(run, step.number));
    let limits: Vec<Amount> = own.chain([of_plan(run)]).collect();
    let limited = |resource| limits.iter().any(|limit| limit.of(resource).is_some());
    let roles = run.binding.terms.unstoppable.iter();
    roles
        .flat_map(|(role, why)| {
            let (tokens, usd) = (why.tokens.as_ref(), why.usd.as_ref());
            let tokens = tokens.filter(|_| limited(Resource::Tokens)).map(|why| ("tokens", why));
            let usd = usd.filter(|_| limited(Resource::Usd)).map(|why| ("dollars", why));
            let all = tokens.into_iter().chain(usd);
            all.map(move |(what, why)| {
                format!("{role}: the budget in {what} cannot end a running attempt, because {why}")
            })
        })
        .collect()
}

fn fits(run: &Run, step: StepNumber, now: Timestamp, as_it_is: bool) -> Fit {
    let case = Case { run, step, now, plan: of_plan(run), own: of_step(run, step), as_it_is };
    if case.plan.is_empty() && case.own.is_empty() {
        return Fit::Yes(Amount::default());
    }
    for resource in Resource::ALL {
        match case.lacks(resource) {
            None => {}
            Some(BudgetScope::Plan) if resource != Resource::WallClock && case.others_hold() => {
                return Fit::NotNow;
            }
            Some(scope) => return Fit::No(Box::new(case.breach(scope, resource))),
        }
    }
    Fit::Yes(Amount::each(|resource| match resource {
        Resource::WallClock => case.left(resource),
        resource => case.needed(resource),
    }))
}

/// An attempt that is to begin.
struct Case<'a> {
    run: &'a Run,
    step: StepNumber,
    now: Timestamp,
    plan: Amount,
    own: Amount,
    /// A person said that the rest of the budget is enough.
    as_it_is: bool,
}

impl Case<'_> {
    fn left_of_plan(&self, resource: Resource) -> Option<u64> {
        Some(self.plan.of(resource)?.saturating_sub(self.run.ledger.committed(resource, self.now)))
    }

    fn left_of_step(&self, resource: Resource) -> Option<u64> {
        Some(self.own.of(resource)?.saturating_sub(self.run.ledger.committed_by(self.step, resource)))
    }

    /// Returns what is left by the tighter limit; `None` without a limit.
    fn left(&self, resource: Resource) -> Option<u64> {
        [self.left_of_plan(resource), self.left_of_step(resource)].into_iter().flatten().min()
    }

    /// Returns what the attempt needs; `None` without a limit.
    fn needed(&self, resource: Resource) -> Option<u64> {
        let left = self.left(resource)?;
        let ledger = &self.run.ledger;
        let own = ledger.mean_of(self.step, resource);
        let said = self.run.binding.terms.estimates.get(self.run.role(self.step));
        let told = said.and_then(|said| said.of(resource)).or(own).or(ledger.mean(resource));
        let mut needed = told.unwrap_or_else(|| self.share(resource));
        // The average of other steps must not block a step that has its own limit and was not tried yet.
        if let (None, Some(left)) = (own, self.left_of_step(resource)) {
            needed = needed.min(left);
        }
        if self.as_it_is {
            needed = needed.min(left);
        }
        let least = match resource {
            Resource::WallClock if !self.as_it_is => LEAST_WALL_MS,
            _ => 1,
        };
        Some(needed.max(least))
    }

    /// Without data, divides the rest equally among the attempts that the plan may still make.
    fn share(&self, resource: Resource) -> u64 {
        if resource == Resource::WallClock {
            return LEAST_WALL_MS;
        }
        let (all, own) = (self.run.attempts_left(), self.run.attempts_left_at(self.step));
        let of_plan = self.left_of_plan(resource).map(|left| left / all.max(1));
        let of_step = self.left_of_step(resource).map(|left| left / own.max(1));
        [of_plan, of_step].into_iter().flatten().min().unwrap_or(0)
    }

    /// Returns the limit that it does not fit, if any.
    fn lacks(&self, resource: Resource) -> Option<BudgetScope> {
        let needed = self.needed(resource)?;
        if self.left_of_step(resource).is_some_and(|left| needed > left) {
            return Some(BudgetScope::Step);
        }
        self.left_of_plan(resource).filter(|left| needed > *left).map(|_| BudgetScope::Plan)
    }

    /// Returns whether another attempt is running that may leave some of its reserved amount.
    fn others_hold(&self) -> bool {
        let running = |number: &StepNumber| {
            let state = self.run.step(*number).map(|step| &step.state);
            *number != self.step && matches!(state, Some(StepState::Running { .. }))
        };
        self.run.under_way().filter(running).any(|number| self.run.ledger.held(number).is_some())
    }

    fn breach(&self, scope: BudgetScope, resource: Resource) -> Breach {
        let ledger = &self.run.ledger;
        let (limit, who) = match scope {
            BudgetScope::Plan => (self.plan, None),
            BudgetScope::Step => (self.own, Some(self.step)),
        };
        let spent = |resource| match scope {
            BudgetScope::Plan => ledger.committed(resource, self.now),
            BudgetScope::Step => ledger.committed_by(self.step, resource),
        };
        let open = |number| !matches!(self.run.step(number), Some(step) if step.state.is_settled());
        let left: Vec<StepNumber> =
            self.run.plan.steps.iter().map(|step| step.number).filter(|number| open(*number)).collect();
        Breach {
            scope,
            resource,
            limit,
            spent: Amount::each(|resource| limit.of(resource).map(|_| spent(resource))),
            needed: Amount::each(|resource| limit.of(resource).and_then(|_| self.needed(resource))),
            unknown: ledger.unknown(who, resource),
            estimate: self.estimate(left.len() as u64),
            left,
        }
    }

    /// Estimates the cost of this number of steps from the finished ones.
    fn estimate(&self, steps: u64) -> Amount {
        let ledger = &self.run.ledger;
        let done = u64::from(self.run.progress().0);
        Amount::each(|resource| {
            let by_step = ledger.total(resource).filter(|_| done > 0).map(|total| total / done);
            by_step.or(ledger.mean(resource)).map(|each| each.saturating_mul(steps))
        })
    }
}

impl Breach {
    /// Returns a limit that would be enough for the rest, if it can be estimated.
    pub fn enough(&self) -> Option<Amount> {
        let spent = self.spent.of(self.resource)?;
        let needed = self.needed.of(self.resource)?;
        let rest = self.estimate.of(self.resource).unwrap_or(0).max(needed);
        let whole = spent.saturating_add(rest);
        let round = match self.resource {
            Resource::Tokens => 1_000,
            Resource::Usd => 10_000,
            Resource::WallClock => 60_000,
        };
        let whole = whole.div_ceil(round).saturating_mul(round);
        Some(Amount::each(|resource| (resource == self.resource).then_some(whole)))
    }
}

/// Writes what is exhausted, what is left to do, and what that would cost.
impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = |amount: &Amount| amount.of(self.resource).map(|count| self.resource.say(count));
        let unknown = || "an unknown amount".to_owned();
        let whose = match self.scope {
            BudgetScope::Plan => "the plan's budget",
            BudgetScope::Step => "the step's budget",
        };
        write!(
            f,
            "{whose} of {} does not allow the next attempt: {} counted as spent",
            said(&self.limit).unwrap_or_else(unknown),
            said(&self.spent).unwrap_or_else(unknown),
        )?;
        if self.unknown > 0 {
            let attempts =
                if self.unknown == 1 { "1 attempt".to_owned() } else { format!("{} attempts", self.unknown) };
            let why = match self.resource {
                Resource::Usd => "because its cost is unknown: see `[prices]` in provost.toml",
                Resource::Tokens | Resource::WallClock => "because the agent did not report its usage",
            };
            write!(f, " ({attempts} counted at the reserved amount, {why})")?;
        }
        write!(f, ", {} needed", said(&self.needed).unwrap_or_else(unknown))?;
        let steps: Vec<String> = self.left.iter().map(ToString::to_string).collect();
        let cost = said(&self.estimate).map_or("of unknown cost".to_owned(), |cost| format!("about {cost}"));
        let noun = if steps.len() == 1 { "step" } else { "steps" };
        write!(f, "; left to do: {noun} {}, {cost}", steps.join(", "))
    }
}

#[cfg(test)]
mod tests;
