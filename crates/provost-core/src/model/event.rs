//! Events: the only serialised type of the rules. Its variants are append-only.
//!
//! In code an event reads as a sentence (`StepPassed`); on the wire it has the name that other tools know
//! (`TASK_COMPLETED`). The `rename` of each variant is the only mapping.
//!
//! **Invariant:** every event that was ever written can be decoded by all later versions
//! (`test_data/events/v1.jsonl`). Add variants and optional fields; never rename or remove any.

mod approval;
mod attempt;
mod catalogue;
mod ending;
mod recovery;

use serde::{Deserialize, Serialize};

use crate::model::check_author::CheckAuthor;
use crate::model::escalation::EscalationCause;
use crate::model::pass::Pass;
use crate::model::plan::StepNumber;
use crate::model::run_policy::RunPolicy;
use crate::model::timestamp::Timestamp;
use crate::model::usage::{Amount, Usage};
use crate::model::verdict::{Isolation, Verdict};

pub use approval::{
    Approver, Dependency, IncludedFile, NamedFile, Revision, SELF_CHECKED_POLICY, SESSION_POLICY,
};
pub use attempt::{
    AttemptEnd, BesideStart, EndedAttempt, LossCause, OutsideChange, OutsideKind, OutsidePath, RemoteTree,
    StartTree, TopicPost,
};
pub use catalogue::{DESCRIPTIONS, EventWriter};
pub use ending::{Landing, RunEndReason, RunOutcome, Summary, TrainEntry, TrainExclusion};
pub use recovery::{Breach, BudgetScope, Choice, FailureClass};

/// Start of the target of an attempt that a session made.
const SESSION: &str = "session:";
/// Recipe that sends a session back to work after its stop.
pub const SESSION_RECIPE: &str = "session";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", content = "details")]
pub enum Event {
    /// A plan entered the log with its whole text, so that a replay needs no file.
    #[serde(rename = "PLAN_CREATED")]
    PlanCreated {
        text: String,
        revision: Revision,
        /// The commit the plan was read at; `None` without a repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        /// Files that the contracts name and that existed at that time, with their digests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<NamedFile>,
        /// The run policy: configuration values that the approval covers.
        #[serde(default, skip_serializing_if = "RunPolicy::is_usual")]
        terms: RunPolicy,
        /// Files that differ from the commit but are part of the base.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        included: Vec<IncludedFile>,
        task_count: u32,
        /// The steps that each step waits for, as written in the plan.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dependencies: Vec<Dependency>,
        /// Usage of each drafting round, if a model drafted the plan.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        drafting: Vec<Usage>,
        /// The account or token that brought the text into the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<String>,
        /// Who wrote the text.
        #[serde(default, skip_serializing_if = "CheckAuthor::is_person")]
        checks_by: CheckAuthor,
    },
    /// The spec changed and the plan is a draft again. Steps whose text is unchanged keep their results.
    #[serde(rename = "PLAN_REWRITTEN")]
    PlanRewritten {
        text: String,
        revision: Revision,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<NamedFile>,
        #[serde(default, skip_serializing_if = "RunPolicy::is_usual")]
        terms: RunPolicy,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        included: Vec<IncludedFile>,
        task_count: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dependencies: Vec<Dependency>,
        /// The changes, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<String>,
        /// The author of the text; unchanged if only the binding changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<String>,
        /// Who wrote the text. Checks that were there before keep their author.
        #[serde(default, skip_serializing_if = "CheckAuthor::is_person")]
        checks_by: CheckAuthor,
    },
    /// The static checks found no error in this revision.
    #[serde(rename = "PLAN_VERIFIED")]
    PlanVerified { revision: Revision, warnings: u32 },

    #[serde(rename = "GATE_APPROVAL_REQUESTED")]
    ApprovalRequested { plan_id: String, revision: Revision },
    #[serde(rename = "GATE_APPROVED")]
    Approved {
        revision: Revision,
        by: Approver,
        /// Changes the person made before approving, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        modifications: Vec<String>,
        /// Number of approvals that are still missing.
        #[serde(default, skip_serializing_if = "none")]
        missing: u32,
    },
    #[serde(rename = "GATE_REJECTED")]
    Rejected { revision: Revision, reason: String, by: String },
    /// The plan waits until a person answers by amending or approving it.
    #[serde(rename = "GATE_QUESTION_ASKED")]
    QuestionAsked {
        revision: Revision,
        question: String,
        by: String,
        /// The step that it is about; the whole plan, if it names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
    },

    /// Result of a self-test on this machine, inside the sandbox that the run uses.
    #[serde(rename = "ISOLATION_ATTESTED")]
    IsolationAttested {
        level: Isolation,
        /// A contract that held before any work proves nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        require_red: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        probes: Vec<Probe>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        kernel: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bubblewrap: Option<String>,
        /// The agent works in its own client, outside of any sandbox; the level applies to the checks only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        agent_outside: bool,
        /// In a shared folder: the holder of the expired lock that this run took over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_over: Option<String>,
    },
    /// An attempt is about to be dispatched. This event is durable before the agent starts.
    #[serde(rename = "TASK_STARTED")]
    StepStarted {
        step: StepNumber,
        attempt: u32,
        target: String,
        /// The part of the budget reserved for the attempt, and its time limit, if there are any.
        #[serde(default, skip_serializing_if = "Amount::is_empty")]
        reserved: Amount,
        /// The tree the attempt begins with, if provost keeps one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<StartTree>,
    },
    /// The agent made a claim about the step. provost records it; it never decides anything.
    #[serde(rename = "STEP_CLAIMED")]
    StepClaimed { step: StepNumber, evidence: String },
    /// The agent's process ended.
    #[serde(rename = "ATTEMPT_ENDED")]
    AttemptEnded(EndedAttempt),
    /// provost stopped while the attempt ran. The attempt uses up no retry.
    #[serde(rename = "ATTEMPT_LOST")]
    AttemptLost {
        step: StepNumber,
        attempt: u32,
        cause: LossCause,
        /// The tree the attempt left, if it was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<String>,
    },
    /// provost ran a check with this verdict.
    #[serde(rename = "CONTRACT_JUDGED")]
    Judged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
        subject: CheckSubject,
        verdict: Verdict,
        /// The plan the check belongs to; set only in the log of a merge train, which checks several plans.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
    },
    #[serde(rename = "TASK_COMPLETED")]
    StepPassed {
        step: StepNumber,
        attempt: u32,
        result: String,
        /// The tree the contract held on; the base of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// The kind of pass. Older logs lack it; the fold derives it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pass: Option<Pass>,
    },
    /// The step ended without passing.
    #[serde(rename = "TASK_FAILED")]
    StepFailed { step: StepNumber, error: String },
    /// A person, or the plan that a person approved, gave up the step. It is never shown as passed.
    #[serde(rename = "TASK_WAIVED")]
    StepWaived { step: StepNumber, by: String, reason: String },

    #[serde(rename = "FAILURE_DETECTED")]
    FailureDetected {
        step: StepNumber,
        attempt: u32,
        error_message: String,
        /// Equal for failures that differ only in times, paths and numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fingerprint: Option<String>,
    },
    #[serde(rename = "FAILURE_CLASSIFIED")]
    FailureClassified {
        step: StepNumber,
        failure_type: FailureClass,
        rule: String,
        /// The role whose quota is exhausted; it gets no more work until a person allows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        halts: Option<String>,
        /// The environment of the check failed. After it is repaired, provost runs the check again, not the
        /// agent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_the_check: bool,
    },
    #[serde(rename = "RECOVERY_APPLIED")]
    RecoveryApplied {
        step: StepNumber,
        recipe_name: String,
        outcome: String,
        /// No new try before this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
        /// The length of the wait when it was decided; used to detect a clock that was set back.
        #[serde(default, skip_serializing_if = "is_zero")]
        wait_ms: u64,
        /// provost runs the check again, not the agent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        check_again: bool,
        /// A role other than the step's own makes the next attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// The next attempt starts a new conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fresh: bool,
    },
    /// The step needs something that only a person can configure, outside of the run.
    #[serde(rename = "PERMISSION_REQUIRED")]
    PermissionRequired {
        step: StepNumber,
        reason: String,
        /// The names of the variables, files or rights; never their values.
        configure: Vec<String>,
    },
    /// No automatic recovery is left; a person decides.
    #[serde(rename = "RECOVERY_ESCALATION")]
    Escalated {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
        reason: String,
        /// `None` only in old events as they are stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<EscalationCause>,
    },
    /// The next attempt does not fit into the rest of a budget; a person decides.
    #[serde(rename = "BUDGET_EXCEEDED")]
    BudgetExceeded {
        /// The step that was due.
        step: StepNumber,
        #[serde(flatten)]
        breach: Box<Breach>,
    },
    #[serde(rename = "HUMAN_ANSWERED")]
    Answered {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
        choice: Choice,
        by: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        note: String,
        /// New limits for the exhausted budget; missing parts keep their old limit.
        #[serde(default, skip_serializing_if = "Amount::is_empty")]
        budget: Amount,
    },

    /// The plan file differs from the approved spec. The run stops before the next dispatch.
    #[serde(rename = "LAW_CHANGED")]
    LawChanged { changes: Vec<String> },
    /// A process did something it may not do: use a command for people from inside an attempt, write to the
    /// log, change the spec.
    #[serde(rename = "TAMPER_DETECTED")]
    TamperDetected {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
        what: String,
        /// Another process wrote to the log: no event from this sequence number on is trusted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_seq: Option<u64>,
    },

    #[serde(rename = "EXECUTION_COMPLETE")]
    RunEnded {
        outcome: RunOutcome,
        summary: Summary,
        /// The tree on which all contracts and postconditions held. Only this tree is merged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// The reason for the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<RunEndReason>,
        /// For a merge train: its decision, recorded before any of it is carried out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        train: Option<Box<Landing>>,
    },

    /// A person took the plan's lease away from its holder, who can write nothing from then on.
    #[serde(rename = "LEASE_BROKEN")]
    LeaseBroken { lease: String, held_by: String, by: String },

    /// These plans are to land on a branch together, in this order.
    #[serde(rename = "TRAIN_STARTED")]
    TrainStarted {
        target: String,
        /// The commit of the branch at that time.
        base: String,
        plans: Vec<TrainEntry>,
    },
    /// The branch was moved and now contains the plan. Recorded in the plan's own log and in the train's.
    #[serde(rename = "PLAN_LANDED")]
    PlanLanded {
        plan: String,
        target: String,
        /// The commits of the branch before and after the move.
        before: String,
        commit: String,
    },
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One attempted access of the self-test, and whether the sandbox stopped it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    pub name: String,
    pub held: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The check that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSubject {
    Precondition(StepNumber),
    /// The contract before any work, on the base: shows whether it can fail at all.
    Control(StepNumber),
    Contract(StepNumber),
    /// The contract once more after every step has ended, on their common result.
    Final(StepNumber),
    Postcondition(u32),
}

fn none(count: &u32) -> bool {
    *count == 0
}

impl Event {
    /// Creates an escalation, of a step or of the whole plan.
    pub fn escalated(step: Option<StepNumber>, cause: EscalationCause, reason: String) -> Self {
        Event::Escalated { step, reason, cause: Some(cause) }
    }

    /// Returns the target of an attempt that a session made, outside of provost's sandbox.
    pub fn session_target(client: &str) -> String {
        format!("{SESSION}{client}")
    }

    /// Returns whether the event starts an attempt of a session.
    pub fn starts_in_session(&self) -> bool {
        matches!(self, Event::StepStarted { target, .. } if target.starts_with(SESSION))
    }

    /// Returns the event with the fields that its program did not write yet.
    pub fn upgraded(self) -> Self {
        match self {
            Event::Escalated { step, reason, cause: None } => {
                Self::escalated(step, EscalationCause::of_old_reason(&reason), reason)
            }
            event => event,
        }
    }

    /// Returns the step the event is about, if any.
    pub fn step(&self) -> Option<StepNumber> {
        match self {
            Event::StepStarted { step, .. }
            | Event::StepClaimed { step, .. }
            | Event::AttemptEnded(EndedAttempt { step, .. })
            | Event::AttemptLost { step, .. }
            | Event::StepPassed { step, .. }
            | Event::StepFailed { step, .. }
            | Event::StepWaived { step, .. }
            | Event::FailureDetected { step, .. }
            | Event::FailureClassified { step, .. }
            | Event::RecoveryApplied { step, .. }
            | Event::PermissionRequired { step, .. }
            | Event::BudgetExceeded { step, .. } => Some(*step),
            Event::Judged { step, .. }
            | Event::QuestionAsked { step, .. }
            | Event::Escalated { step, .. }
            | Event::Answered { step, .. }
            | Event::TamperDetected { step, .. } => *step,
            Event::PlanCreated { .. }
            | Event::PlanRewritten { .. }
            | Event::PlanVerified { .. }
            | Event::ApprovalRequested { .. }
            | Event::Approved { .. }
            | Event::Rejected { .. }
            | Event::IsolationAttested { .. }
            | Event::LawChanged { .. }
            | Event::RunEnded { .. }
            | Event::LeaseBroken { .. }
            | Event::TrainStarted { .. }
            | Event::PlanLanded { .. } => None,
        }
    }
}
