//! Texts about the limits of a plan: files it may change, budget, size.

use super::{Code, D, clip, new};
use crate::model::plan::Span;

// Permissions to change files.

pub fn touches_absent(at: Span) -> D {
    new(Code::TouchesOpen, at, "no `touches`: the agent could edit its own checks")
        .hint("Add `touches: [\"src/**\"]` to the frontmatter, without the files the contracts rely on.")
}

pub fn touches_everything(span: Span) -> D {
    new(Code::TouchesOpen, span, "`touches` covers everything: the agent could edit its own checks")
        .hint("Name the folders the plan changes, without the files the contracts rely on.")
}

pub fn glob_invalid(span: Span, glob: &str, why: &str) -> D {
    new(Code::GlobInvalid, span, format!("the glob {} is not valid: {why}", clip(glob)))
        .hint("Write a path relative to the workspace, such as `src/**/*.rs`.")
}

pub fn writes_tests(span: Span, why: &str) -> D {
    new(Code::WritesTests, span, format!("this step seems to write its own checks: {why}")).hint(
        "Add `**writes:** tests`. Without it, provost withholds a pass that only the changed tests explain.",
    )
}

pub fn touches_outside(span: Span, glob: &str) -> D {
    new(Code::TouchesOutside, span, format!("`{glob}` is outside of what the plan may change")).hint(
        "Add it to `touches` in the frontmatter, or remove it here: a check sees \
             only files that both allow.",
    )
}

pub fn touches_ignored(span: Span, glob: &str) -> D {
    new(Code::TouchesIgnored, span, format!("`{glob}` names files that git ignores")).hint(
        "Checks see these files. A commit leaves them out, unless you run `provost commit --with-ignored`.",
    )
}

// Money, size and taste.

pub fn no_budget(at: Span) -> D {
    new(Code::NoBudget, at, "the plan has no budget")
        .hint("Add `**Budget:** max 200k tokens, $1.50, 20 minutes` under the title.")
}

pub fn budget_zero(span: Span, what: &str) -> D {
    new(Code::BudgetZero, span, format!("a budget of zero {what} lets no step run"))
        .hint("Give it a value, or leave it out.")
}

pub fn budget_tight(span: Span, what: &str) -> D {
    new(Code::BudgetTight, span, format!("the budget leaves {what} for each step"))
        .hint("Check the unit; agents use more than that on any real task.")
}

pub fn budget_above(span: Span, own: &str, plan: &str) -> D {
    new(Code::BudgetAbove, span, format!("the step may use {own}, and the whole plan {plan}"))
        .hint("Lower it, or raise the plan's budget: the smaller one applies.")
}

pub fn step_count(span: Span, count: usize) -> D {
    let message = match count {
        0..3 => format!("the plan has only {count} step{}", if count == 1 { "" } else { "s" }),
        _ => format!("the plan has {count} steps, which is many for one plan"),
    };
    new(Code::StepCount, span, message)
        .hint("Three to seven steps, each with its own check, are easiest to review and to resume.")
}

pub fn vague_task(span: Span, phrase: &str) -> D {
    new(Code::VagueTask, span, format!("\"{}\" does not say what to change", phrase))
        .hint("Name the files, the behaviour and how to tell that it is done.")
}

pub fn no_on_fail(span: Span) -> D {
    new(Code::NoOnFail, span, "no on_fail: provost retries a failed step twice, then asks a person")
        .hint("Write `**on_fail:** retry(2), then escalate` to make it visible.")
}
