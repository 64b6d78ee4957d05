//! Ends that are weaker than a check that held, ends this version does not know, and times of nothing.

use crate::diagnostic::say;
use crate::parse::Sink;
use crate::plan::{Check, Contract, Plan};

pub fn check(plan: &Plan, sink: &mut Sink) {
    for step in &plan.steps {
        for contract in step.precondition.iter().chain(&step.contract) {
            kind(contract, sink);
        }
        if let Some(other) = &step.plan {
            sink.push(say::not_carried_out(other.span, "a step that is another plan"));
        }
        if let Some(timeout) = step.timeout.as_ref().filter(|timeout| timeout.value.is_zero()) {
            sink.push(say::timeout_zero(timeout.span, "timeout"));
        }
        if let Some(timeout) = step.contract_timeout.as_ref().filter(|timeout| timeout.value.is_zero()) {
            sink.push(say::timeout_zero(timeout.span, "contract_timeout"));
        }
    }
}

fn kind(contract: &Contract, sink: &mut Sink) {
    match &contract.check {
        Check::Shell(_) => {}
        Check::Human => sink.push(say::human_decides(contract.span)),
        Check::Judge { .. } => {
            sink.push(say::not_carried_out(contract.span, "a contract that a model judges"))
        }
    }
}
