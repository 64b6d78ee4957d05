//! The list of all events: the name of each, who may write it, and what it says in `docs/events.md`.

use super::{Approver, Event};

impl Event {
    /// Returns the wire name.
    pub fn name(&self) -> &'static str {
        match self {
            Event::PlanCreated { .. } => "PLAN_CREATED",
            Event::PlanRewritten { .. } => "PLAN_REWRITTEN",
            Event::PlanVerified { .. } => "PLAN_VERIFIED",
            Event::ApprovalRequested { .. } => "GATE_APPROVAL_REQUESTED",
            Event::Approved { .. } => "GATE_APPROVED",
            Event::Rejected { .. } => "GATE_REJECTED",
            Event::QuestionAsked { .. } => "GATE_QUESTION_ASKED",
            Event::IsolationAttested { .. } => "ISOLATION_ATTESTED",
            Event::StepStarted { .. } => "TASK_STARTED",
            Event::StepClaimed { .. } => "STEP_CLAIMED",
            Event::AttemptEnded(_) => "ATTEMPT_ENDED",
            Event::AttemptLost { .. } => "ATTEMPT_LOST",
            Event::Judged { .. } => "CONTRACT_JUDGED",
            Event::StepPassed { .. } => "TASK_COMPLETED",
            Event::StepFailed { .. } => "TASK_FAILED",
            Event::StepWaived { .. } => "TASK_WAIVED",
            Event::FailureDetected { .. } => "FAILURE_DETECTED",
            Event::FailureClassified { .. } => "FAILURE_CLASSIFIED",
            Event::RecoveryApplied { .. } => "RECOVERY_APPLIED",
            Event::PermissionRequired { .. } => "PERMISSION_REQUIRED",
            Event::Escalated { .. } => "RECOVERY_ESCALATION",
            Event::BudgetExceeded { .. } => "BUDGET_EXCEEDED",
            Event::Answered { .. } => "HUMAN_ANSWERED",
            Event::LawChanged { .. } => "LAW_CHANGED",
            Event::TamperDetected { .. } => "TAMPER_DETECTED",
            Event::RunEnded { .. } => "EXECUTION_COMPLETE",
            Event::LeaseBroken { .. } => "LEASE_BROKEN",
            Event::TrainStarted { .. } => "TRAIN_STARTED",
            Event::PlanLanded { .. } => "PLAN_LANDED",
        }
    }

    /// Returns who may write the event where several accounts share a log.
    pub fn writer(&self) -> EventWriter {
        match self {
            Event::Rejected { .. }
            | Event::QuestionAsked { .. }
            | Event::Answered { .. }
            | Event::LeaseBroken { .. }
            | Event::Approved { by: Approver::Person(_) | Approver::Dialog { .. }, .. } => {
                EventWriter::Person
            }
            Event::IsolationAttested { .. }
            | Event::StepStarted { .. }
            | Event::AttemptEnded(_)
            | Event::AttemptLost { .. }
            | Event::Judged { .. } => EventWriter::Run,
            Event::StepClaimed { .. }
            | Event::StepPassed { .. }
            | Event::StepFailed { .. }
            | Event::FailureDetected { .. }
            | Event::FailureClassified { .. }
            | Event::RecoveryApplied { .. }
            | Event::PermissionRequired { .. }
            | Event::Escalated { .. }
            | Event::BudgetExceeded { .. }
            | Event::TamperDetected { .. } => EventWriter::All,
            Event::PlanCreated { .. }
            | Event::PlanRewritten { .. }
            | Event::PlanVerified { .. }
            | Event::ApprovalRequested { .. }
            | Event::Approved { by: Approver::Policy { .. }, .. }
            | Event::StepWaived { .. }
            | Event::LawChanged { .. }
            | Event::RunEnded { .. }
            | Event::TrainStarted { .. }
            | Event::PlanLanded { .. } => EventWriter::HarnessOrPerson,
        }
    }
}

/// The accounts that may write an event. The migration of the Postgres log has the same lists, and a test
/// compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventWriter {
    /// Decisions of a person.
    Person,
    /// What a run does: the harness and its workers, never a person.
    Run,
    /// What follows from a run or from a person's decision: the harness, its workers and people.
    All,
    /// What concerns the whole plan: the harness and people, never a worker.
    HarnessOrPerson,
}

/// A description of each event for `docs/events.md`, in the order in which a plan produces them.
pub const DESCRIPTIONS: &[(&str, &str)] = &[
    (
        "PLAN_CREATED",
        "A plan without errors entered the log, with its whole text, the commit it was read at and the files its contracts name.",
    ),
    (
        "PLAN_REWRITTEN",
        "The spec of the plan changed: the plan is a draft again. Steps whose text is the same keep their state.",
    ),
    ("PLAN_VERIFIED", "The static checks found no error in this revision."),
    ("GATE_APPROVAL_REQUESTED", "The plan waits at the gate for an approval, without a time limit."),
    (
        "GATE_APPROVED",
        "A person, a policy that names itself, or a person in a dialog of the agent's client (`dialog`) approved exactly this revision.",
    ),
    ("GATE_REJECTED", "A person sent the plan back to draft."),
    (
        "GATE_QUESTION_ASKED",
        "A person asked a question at the gate; until it is answered, no policy approves the plan.",
    ),
    (
        "ISOLATION_ATTESTED",
        "The isolation level of this machine, found by a self-test inside the sandbox that is used, at the start of a run.",
    ),
    (
        "TASK_STARTED",
        "An attempt is about to start, with the part of the budget that is reserved for it. The event is durable before the agent starts.",
    ),
    ("STEP_CLAIMED", "The agent made a claim about its step. The log keeps it; it decides nothing."),
    ("ATTEMPT_ENDED", "The agent's process has ended. The check follows."),
    ("ATTEMPT_LOST", "The harness died or was interrupted during the attempt. It uses up no retry."),
    (
        "CONTRACT_JUDGED",
        "The harness ran a precondition, a contract or a postcondition: the result, and the isolation level it ran at.",
    ),
    (
        "TASK_COMPLETED",
        "The step passed. `pass` says in which way: `verified`, or a weaker one: `confirmed` by a named person, `judged` by a model, `self_checked` (the agent wrote the check and no person approved it outside of the agent's client), `held_before` (the check held before the work too).",
    ),
    ("TASK_FAILED", "The step has ended and did not pass."),
    (
        "TASK_WAIVED",
        "A person waived the step, or `on_fail` of the approved plan did. The step is never shown as passed.",
    ),
    ("FAILURE_DETECTED", "An attempt did not pass its step."),
    ("FAILURE_CLASSIFIED", "The class of the failure, and the rule that found it."),
    (
        "RECOVERY_APPLIED",
        "The next try: by which recipe, and the earliest time. The plan's `on_fail` limits the number of tries.",
    ),
    (
        "PERMISSION_REQUIRED",
        "The step needs something that only a person can configure. The event names the variable, the file or the right; provost never asks for a value.",
    ),
    (
        "RECOVERY_ESCALATION",
        "The automatic retries are used up: a person decides, without a time limit. `cause` says why, if a rule depends on it: `agent_blocked`, `subplan_waits`, `holds_already`, `overdue` or `other`; in events of older versions the reason begins with the words. `overdue` is a reminder of an item that a person has not answered (`remind_after`); it changes nothing.",
    ),
    (
        "BUDGET_EXCEEDED",
        "The rest of the plan's or the step's budget is too small for the next attempt: the limit, the amount spent, the remaining steps and their estimated cost. A person decides.",
    ),
    (
        "HUMAN_ANSWERED",
        "A person decided: retry, skip, abort, revise or confirm; with `budget`, under these limits from now on.",
    ),
    ("LAW_CHANGED", "The plan file differs from the approved text. The run stopped before the next step."),
    (
        "TAMPER_DETECTED",
        "A process tried what only a person or the harness may do: a person's command, or a change of a file of the harness, the key or the log. With `from_seq` another program wrote to the log from that event on: provost trusts nothing after it and does not run the plan.",
    ),
    (
        "EXECUTION_COMPLETE",
        "The plan is done or has failed: the number of completed, failed and skipped steps, the retries, the cost, and why it ended: done, failed, budget, person, stuck. With `train` it is the decision of a merge train: which plans land as which commit, and why the others do not. The branch is moved after that.",
    ),
    (
        "LEASE_BROKEN",
        "A person took the lease of the plan away from its holder (`provost cluster break-lease`). The former holder can write nothing from then on, and another run or worker can take the plan.",
    ),
    (
        "TRAIN_STARTED",
        "A merge train started: the plans that should land on a branch together, in this order, each with its judged tree. The event is in the log of the train (`train-BRANCH-…`), where CONTRACT_JUDGED names the plan of each check with `plan`.",
    ),
    (
        "PLAN_LANDED",
        "The branch was moved from `before` to `commit`, which contains the plan. From now on the harness runs its contracts again when another plan lands that touches its files; if the branch breaks them, the plan opens again.",
    ),
];

#[cfg(test)]
mod tests {
    use super::DESCRIPTIONS;

    /// `docs/events.md` is generated: run the test with `UPDATE_EXPECT=1` to write it.
    #[test]
    fn the_page_of_events_is_what_the_code_says() {
        let golden = include_str!("../../../test_data/events/v1.jsonl");
        let mut page = include_str!("page.md").to_owned();
        for (name, words) in DESCRIPTIONS {
            page.push_str(&format!("\n## {name}\n\n{words}\n\n```json\n"));
            let wanted = format!("{{\"event\":\"{name}\"");
            for line in golden.lines().filter(|line| line.starts_with(&wanted)) {
                page.push_str(&format!("{line}\n"));
            }
            page.push_str("```\n");
        }
        expect_test::expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md")]
            .assert_eq(&page);
    }
}
