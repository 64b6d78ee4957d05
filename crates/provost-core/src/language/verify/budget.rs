//! Checks whether the budgets are plausible.

use std::time::Duration;

use crate::language::diagnostic::say;
use crate::language::parse::Sink;
use crate::model::plan::{Budget, Plan, Span, Spanned};
use crate::model::usage::{Amount, Resource};

/// Lower limits; an agent uses more than this just by reading its task.
const LEAST_TOKENS: u64 = 1_000;
const LEAST_MICRO_USD: u64 = 1_000;
const LEAST_WALL: Duration = Duration::from_secs(5);

pub(super) fn check(plan: &Plan, sink: &mut Sink) {
    if plan.steps.is_empty() {
        return;
    }
    match &plan.budget {
        Some(budget) => sane(budget, plan.steps.len() as u64, sink),
        None => sink.push(say::no_budget(Span::at(plan.steps[0].section.start))),
    }
    for budget in plan.steps.iter().filter_map(|step| step.budget.as_ref()) {
        sane(budget, 1, sink);
        above(budget, plan.budget.as_ref(), sink);
    }
}

fn sane(budget: &Spanned<Budget>, steps: u64, sink: &mut Sink) {
    let (value, span) = (budget.value, budget.span);
    match value.tokens {
        Some(0) => sink.push(say::budget_zero(span, "tokens")),
        Some(tokens) if tokens / steps < LEAST_TOKENS => {
            sink.push(say::budget_tight(span, &format!("{} tokens", tokens / steps)));
        }
        Some(_) | None => {}
    }
    match value.micro_usd {
        Some(0) => sink.push(say::budget_zero(span, "money")),
        Some(money) if money / steps < LEAST_MICRO_USD => {
            sink.push(say::budget_tight(span, "less than a tenth of a cent"));
        }
        Some(_) | None => {}
    }
    match value.wall {
        Some(Duration::ZERO) => sink.push(say::budget_zero(span, "time")),
        Some(wall) if wall < LEAST_WALL.saturating_mul(steps as u32) => {
            sink.push(say::budget_tight(span, &format!("{} s", wall.as_secs() / steps)));
        }
        Some(_) | None => {}
    }
}

/// Reports a step that may use more than the whole plan.
fn above(budget: &Spanned<Budget>, plan: Option<&Spanned<Budget>>, sink: &mut Sink) {
    let Some(plan) = plan.map(|plan| Amount::from(plan.value)) else { return };
    let own = Amount::from(budget.value);
    for resource in Resource::ALL {
        if let (Some(own), Some(plan)) = (own.of(resource), plan.of(resource))
            && own > plan
        {
            sink.push(say::budget_above(budget.span, &resource.say(own), &resource.say(plan)));
        }
    }
}
