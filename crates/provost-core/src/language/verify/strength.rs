//! Reports contracts weaker than a command, steps whose target or task has no effect, and timeouts of zero.

use crate::language::diagnostic::{Diagnostic, say};
use crate::language::facts::Facts;
use crate::language::parse::Sink;
use crate::model::plan::{Check, Contract, Plan, Span, Step};

pub(super) fn check(plan: &Plan, facts: &Facts, sink: &mut Sink) {
    for step in &plan.steps {
        for contract in step.precondition.iter().chain(&step.contract) {
            kind(contract, step, facts, sink);
        }
        if let (Some(other), Some(target)) = (&step.plan, &step.target) {
            sink.push(say::nobody_works(target.span, &target.value, &other.value));
        }
        if let (Some(other), Some(task)) = (&step.plan, &step.task) {
            sink.push(say::nobody_is_told(task.span, &other.value));
        }
        if let Some(timeout) = step.timeout.as_ref().filter(|timeout| timeout.value.is_zero()) {
            sink.push(say::timeout_zero(timeout.span, "timeout"));
        }
        if let Some(timeout) = step.contract_timeout.as_ref().filter(|timeout| timeout.value.is_zero()) {
            sink.push(say::timeout_zero(timeout.span, "contract_timeout"));
        }
    }
}

fn kind(contract: &Contract, step: &Step, facts: &Facts, sink: &mut Sink) {
    match &contract.check {
        Check::Shell(_) => {}
        Check::Human => sink.push(say::human_decides(contract.span)),
        Check::Judge { .. } if step.precondition.as_ref() == Some(contract) => {
            sink.push(say::not_carried_out(contract.span, "a precondition that a model judges"))
        }
        Check::Judge { rubric } => sink.push(judged(contract.span, rubric, step, facts)),
    }
}

fn judged(span: Span, rubric: &str, step: &Step, facts: &Facts) -> Diagnostic {
    let worker = step.target.as_ref().map_or("", |target| target.value.as_str());
    let Some(judge) = facts.judge.as_deref() else { return say::no_judge(span) };
    if rubric.trim().is_empty() {
        return say::no_rubric(span);
    }
    if !facts.targets.contains(judge) {
        return say::judge_unknown(span, judge);
    }
    if judge == worker {
        return say::judges_itself(span, judge, worker, "does the work");
    }
    if let Some(file) = &facts.judge_within {
        return say::judge_within(span, judge, file);
    }
    if facts.judges_models.contains(worker) {
        return say::judges_itself(span, judge, worker, "asks the same model");
    }
    say::model_decides(span, judge)
}
