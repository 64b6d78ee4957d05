//! Turns events that have no span into events of a span, and makes attributes.

use provost_core::model::event::{Approver, Choice, Event, RunEndReason, RunOutcome};

use super::wire::{Attribute, Value};

/// Returns the attributes of an event that only marks an instant; `None` for events that only start or end a
/// span.
pub(super) fn of(event: &Event) -> Option<Vec<Attribute>> {
    Some(match event {
        Event::PlanRewritten { changes, .. } => {
            attributes([("provost.law.changes", changes.as_slice().into())])
        }
        Event::PlanVerified { warnings, .. } => attributes([("provost.plan.warnings", (*warnings).into())]),
        Event::Approved { by, revision, .. } => attributes([
            ("provost.plan.revision", revision.short().into()),
            ("provost.gate.approver", approver(by).into()),
        ]),
        Event::Rejected { reason, .. } => attributes([("provost.reason", reason.as_str().into())]),
        Event::QuestionAsked { .. } | Event::StepClaimed { .. } => Vec::new(),
        Event::IsolationAttested { level, .. } => {
            attributes([("provost.isolation", level.to_string().into())])
        }
        Event::StepFailed { error, .. } => attributes([("provost.reason", told(error).into())]),
        Event::StepWaived { reason, .. } | Event::Escalated { reason, .. } => {
            attributes([("provost.reason", told(reason).into())])
        }
        Event::FailureDetected { attempt, error_message, fingerprint, .. } => {
            let mut found = attributes([
                ("provost.attempt", (*attempt).into()),
                ("provost.failure.message", error_message.as_str().into()),
            ]);
            found.extend(maybe("provost.failure.fingerprint", fingerprint.as_deref()));
            found
        }
        Event::FailureClassified { failure_type, rule, halts, .. } => {
            let mut found = attributes([
                ("provost.failure.class", failure_type.word().into()),
                ("provost.failure.rule", rule.as_str().into()),
            ]);
            found.extend(maybe("provost.failure.halts", halts.as_deref()));
            found
        }
        Event::RecoveryApplied { recipe_name, outcome, wait_ms, role, .. } => {
            let mut found = attributes([
                ("provost.recovery.recipe", recipe_name.as_str().into()),
                ("provost.recovery.outcome", outcome.as_str().into()),
                ("provost.recovery.wait_ms", (*wait_ms).into()),
            ]);
            found.extend(maybe("provost.recovery.role", role.as_deref()));
            found
        }
        Event::PermissionRequired { reason, configure, .. } => attributes([
            ("provost.reason", reason.as_str().into()),
            ("provost.permission.configure", configure.as_slice().into()),
        ]),
        Event::Answered { choice, .. } => attributes([("provost.answer", answer(*choice).into())]),
        Event::LawChanged { changes } => attributes([("provost.law.changes", changes.as_slice().into())]),
        Event::TamperDetected { what, from_seq, .. } => {
            let mut found = attributes([("provost.tamper.what", what.as_str().into())]);
            found.extend(maybe("provost.tamper.from_seq", *from_seq));
            found
        }
        _ => return None,
    })
}

pub(super) fn attributes<const N: usize>(pairs: [(&'static str, Value); N]) -> Vec<Attribute> {
    pairs.into_iter().map(|(key, value)| Attribute { key, value }).collect()
}

/// Returns an attribute, or `None` if its value is unknown.
pub(super) fn maybe(key: &'static str, value: Option<impl Into<Value>>) -> Option<Attribute> {
    value.map(|value| Attribute { key, value: value.into() })
}

/// Returns a reason without the agent's words or the person's name that some reasons end with.
pub(super) fn told(reason: &str) -> &str {
    if reason.starts_with("the agent is blocked: ") {
        "the agent is blocked"
    } else if reason.starts_with("aborted by ") {
        "aborted by a person"
    } else {
        reason
    }
}

/// Returns the kind of approver without a person's name, because a trace may travel further than the log.
fn approver(by: &Approver) -> String {
    match by {
        Approver::Person(_) => "person".to_owned(),
        Approver::Policy { name, .. } => format!("policy {name}"),
        Approver::Dialog { client, .. } => format!("person in a dialog of {client}"),
    }
}

pub(super) fn answer(choice: Choice) -> &'static str {
    match choice {
        Choice::Retry => "retry",
        Choice::Skip => "skip",
        Choice::Abort => "abort",
        Choice::Revise => "revise",
        Choice::Confirm => "confirm",
    }
}

pub(super) fn outcome(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Done => "done",
        RunOutcome::Failed => "failed",
    }
}

pub(super) fn why(why: RunEndReason) -> &'static str {
    match why {
        RunEndReason::Done => "done",
        RunEndReason::Failed => "failed",
        RunEndReason::Budget => "budget",
        RunEndReason::Person => "person",
        RunEndReason::Stuck => "stuck",
        RunEndReason::LetGo => "let_go",
        RunEndReason::Undone => "undone",
    }
}
