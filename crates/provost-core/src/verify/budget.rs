//! Whether the budget can be meant as it is written.

use std::time::Duration;

use crate::diagnostic::say;
use crate::parse::Sink;
use crate::plan::{Plan, Span};

/// No agent reads its task for less.
const LEAST_TOKENS: u64 = 1_000;
const LEAST_MICRO_USD: u64 = 1_000;
const LEAST_WALL: Duration = Duration::from_secs(5);

pub fn check(plan: &Plan, sink: &mut Sink) {
    if plan.steps.is_empty() {
        return;
    }
    let Some(budget) = &plan.budget else {
        sink.push(say::no_budget(Span::at(plan.steps[0].section.start)));
        return;
    };
    let (value, span, steps) = (budget.value, budget.span, plan.steps.len() as u64);
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
