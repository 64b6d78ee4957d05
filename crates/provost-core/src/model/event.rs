//! Events: the only serialised type of the rules. Its variants are append-only.
//!
//! In code an event reads as a sentence (`StepPassed`); on the wire it has the name that other tools know
//! (`TASK_COMPLETED`). The `rename` of each variant is the only mapping.
//!
//! **Invariant:** every event that was ever written can be decoded by all later versions
//! (`test_data/events/v1.jsonl`). Add variants and optional fields; never rename or remove any.

use serde::{Deserialize, Serialize};

use crate::model::escalation::EscalationCause;
use crate::model::pass::Pass;
use crate::model::plan::StepNumber;
use crate::model::run_policy::RunPolicy;
use crate::model::timestamp::Timestamp;
use crate::model::usage::{Amount, Cost, Resource, Usage};
use crate::model::verdict::{Isolation, Verdict};

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
    QuestionAsked { revision: Revision, question: String, by: String },

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

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedAttempt {
    pub step: StepNumber,
    pub attempt: u32,
    pub end: AttemptEnd,
    pub duration_ms: u64,
    /// The agent's last message if it is not a claim: the agent failed or timed out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub report: String,
    /// Notes of the agent's sandbox: refused accesses and other irregularities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Usage of the attempt, as far as it was counted.
    #[serde(default, skip_serializing_if = "Usage::is_unknown")]
    pub usage: Usage,
    /// The client's id of the conversation, if the conversation can be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Messages the agent published to topics. Other steps see them after the step has passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<TopicPost>,
    /// Each change the agent made to its own task list: what it removed and added. The agent cannot change
    /// the plan it was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrites: Vec<String>,
    /// The tree the attempt left, if trees are sent between machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<RemoteTree>,
    /// The tree the attempt began with, if it was unknown when the attempt was announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartTree>,
    /// The tree the attempt left, if it was kept. A person can see it, and the next attempt is compared with
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Changes outside of `touches` during the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsidePath>,
}

/// The tree an attempt begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTree {
    pub tree: String,
    /// Files in it that differ from both the base and the steps before: another process changed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// Something outside of `touches` that changed during an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsidePath {
    /// Path of a file or folder, or name of a ref; for a note, its text.
    pub path: String,
    #[serde(default)]
    pub change: OutsideChange,
    #[serde(default)]
    pub kind: OutsideKind,
    /// For a folder: the number of changed files in it.
    #[serde(default, skip_serializing_if = "none")]
    pub files: u32,
    /// Previous target of a ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The digest of a file, or the new target of a ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideChange {
    Made,
    #[default]
    Changed,
    Removed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideKind {
    #[default]
    File,
    /// A folder that the approved tree lacks, with many changes in it.
    Folder,
    /// A branch, a tag or another ref of the repository.
    Ref,
    /// A file of the repository that makes git run programs or redirects git elsewhere.
    Git,
    /// Not a change: a remark about the list.
    Note,
}

impl std::fmt::Display for OutsidePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files = if self.files == 1 { "file" } else { "files" };
        let done = match self.change {
            OutsideChange::Made => "new",
            OutsideChange::Changed => "changed",
            OutsideChange::Removed => "deleted",
        };
        match self.kind {
            OutsideKind::Note if self.files > 0 => write!(f, "{} ({} {files})", self.path, self.files),
            OutsideKind::Note => f.write_str(&self.path),
            OutsideKind::Folder => write!(f, "{} ({} {files})", self.path, self.files),
            OutsideKind::File | OutsideKind::Ref | OutsideKind::Git => write!(f, "{} ({done})", self.path),
        }
    }
}

impl EndedAttempt {
    /// Creates an end about which nothing else is known.
    pub fn new(step: StepNumber, attempt: u32, end: AttemptEnd) -> Self {
        Self {
            step,
            attempt,
            end,
            duration_ms: 0,
            report: String::new(),
            notes: Vec::new(),
            usage: Usage::default(),
            session: None,
            published: Vec::new(),
            rewrites: Vec::new(),
            carried: None,
            start: None,
            left: None,
            outside: Vec::new(),
        }
    }
}

/// A tree that an attempt left, on a git remote from which other machines fetch it. A fetched tree with
/// another digest counts as not found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteTree {
    pub tree: String,
    /// The name of the tree on the remote.
    pub name: String,
    /// The machine that made it. If there is another machine, that one checks it.
    pub machine: String,
}

/// A plan that is to land, and the tree it was judged on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainEntry {
    pub plan: String,
    /// Name of the plan for people.
    pub name: String,
    pub revision: Revision,
    pub tree: String,
}

/// The decision of a merge train. The branch is moved only after this is in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    pub target: String,
    /// The commit the branch must have; otherwise it is not moved.
    pub before: String,
    /// The new commit of the branch; `None` if no plan lands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The git tree id of the merged tree.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub git_tree: String,
    pub plans: Vec<TrainEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<TrainExclusion>,
}

/// A plan that does not land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainExclusion {
    pub plan: String,
    pub name: String,
    pub reason: String,
    /// The other plan of a conflicting pair, or the plan that this one depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The digest an approval is bound to: the spec, the base commit, the run policy, the files the contracts
/// name and the included files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub String);

impl Revision {
    /// Returns the short form that people see and type.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }

    /// Returns whether `typed` names this revision. A prefix is enough if it is too long to match by chance.
    pub fn is_named_by(&self, typed: &str) -> bool {
        typed.len() >= 12 && self.0.starts_with(typed)
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    pub path: String,
    pub sha256: String,
}

/// A file that differs from the base commit and was approved with the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncludedFile {
    pub path: String,
    /// The digest of its content; `None` if the file is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    pub step: StepNumber,
    pub needs: Vec<StepNumber>,
}

/// Log name of the policy that approves plans made in an agent's own session.
pub const SESSION_POLICY: &str = "mcp gate auto";

/// The person or policy that approved the plan at the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    Person(String),
    /// A policy of the configuration, by name, with the digest of its text.
    Policy {
        name: String,
        digest: String,
        /// The policy accepts any check, so no person has read the checks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unread: bool,
        /// Digests of the plan's checks that come from a catalogue a person trusts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        trusted: Vec<String>,
    },
}

impl std::fmt::Display for Approver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Approver::Person(name) => f.write_str(name),
            Approver::Policy { name, .. } => write!(f, "policy {name}"),
        }
    }
}

/// A message that a step's agent published to a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicPost {
    pub topic: String,
    pub text: String,
}

/// The end of the agent's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttemptEnd {
    Exited {
        exit_code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut,
    /// provost could not start the agent.
    NotStarted {
        reason: String,
    },
    /// The agent exceeded the resource limits and provost killed it.
    OverBounds {
        reason: String,
    },
    /// The sub-plan of the step failed, was rejected, or could not be run.
    PlanFailed {
        plan: String,
        reason: String,
    },
    /// The sub-plan of the step waits for a person.
    PlanWaits {
        plan: String,
        reason: String,
    },
    /// provost stopped the sub-plan because it reached the budget of the step.
    PlanStopped {
        plan: String,
    },
}

impl AttemptEnd {
    /// Describes the end as a sentence.
    pub fn words(&self) -> String {
        match self {
            AttemptEnd::Exited { exit_code } => format!("the agent exited with {exit_code}"),
            AttemptEnd::Signalled { signal } => format!("the agent was ended by signal {signal}"),
            AttemptEnd::TimedOut => "the agent ran out of time and was ended".to_owned(),
            AttemptEnd::NotStarted { reason } => format!("the agent could not be started: {reason}"),
            AttemptEnd::OverBounds { reason } => {
                format!("the agent exceeded a limit of the machine and was ended: {reason}")
            }
            AttemptEnd::PlanFailed { plan, reason } => format!("the plan {plan} failed: {reason}"),
            AttemptEnd::PlanWaits { plan, reason } => format!("the plan {plan} waits: {reason}"),
            AttemptEnd::PlanStopped { plan } => {
                format!("the plan {plan} was stopped because the budget of the step was used up")
            }
        }
    }
}

/// The limit that an attempt does not fit: the plan's or the step's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    Plan,
    Step,
}

/// The exhausted budget, and what the next attempt would need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    pub scope: BudgetScope,
    pub resource: Resource,
    /// The limits of the plan or of the step.
    pub limit: Amount,
    /// The amount that counts as spent.
    pub spent: Amount,
    /// Estimated need of the next attempt.
    pub needed: Amount,
    /// Number of attempts that count with their reserved amount, because their use was not reported.
    #[serde(default, skip_serializing_if = "none")]
    pub unknown: u32,
    /// The steps that have not ended.
    pub left: Vec<StepNumber>,
    /// Estimated cost of these steps, if past attempts allow an estimate.
    #[serde(default, skip_serializing_if = "Amount::is_empty")]
    pub estimate: Amount,
}

/// Why provost did not see an attempt end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// provost crashed. After too many crashes in a row a person decides.
    Crash,
    /// A person interrupted provost.
    Interrupt,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    Transient,
    Permission,
    InvalidInput,
    Logic,
    Unrecoverable,
    Unknown,
}

impl FailureClass {
    pub const ALL: [FailureClass; 6] = [
        FailureClass::Transient,
        FailureClass::Permission,
        FailureClass::InvalidInput,
        FailureClass::Logic,
        FailureClass::Unrecoverable,
        FailureClass::Unknown,
    ];

    pub fn word(self) -> &'static str {
        match self {
            FailureClass::Transient => "transient",
            FailureClass::Permission => "permission",
            FailureClass::InvalidInput => "invalid_input",
            FailureClass::Logic => "logic",
            FailureClass::Unrecoverable => "unrecoverable",
            FailureClass::Unknown => "unknown",
        }
    }
}

/// A person's answer to an escalation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Retry,
    /// A waiver by a named person; always shown as a waiver.
    Skip,
    Abort,
    /// The plan becomes a draft again.
    Revise,
    /// The person confirms that a `human` contract holds.
    Confirm,
}

impl Choice {
    /// Returns the word as a person types it.
    pub fn word(self) -> &'static str {
        match self {
            Choice::Retry => "retry",
            Choice::Skip => "skip",
            Choice::Abort => "abort",
            Choice::Revise => "revise",
            Choice::Confirm => "confirm",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    Done,
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub completed: u32,
    pub failed: u32,
    pub skipped: u32,
    /// Completed steps with a weaker kind of pass.
    #[serde(default, skip_serializing_if = "none")]
    pub confirmed: u32,
    #[serde(default, skip_serializing_if = "none")]
    pub judged: u32,
    #[serde(default, skip_serializing_if = "none")]
    pub self_checked: u32,
    #[serde(default, skip_serializing_if = "none")]
    pub held_before: u32,
    /// Completed steps whose check no negative control has shown to be able to fail.
    #[serde(default, skip_serializing_if = "none")]
    pub uncontrolled: u32,
    /// Postconditions that also held before the work.
    #[serde(default, skip_serializing_if = "none")]
    pub postconditions_held_before: u32,
    /// Number of retries.
    #[serde(default, skip_serializing_if = "none")]
    pub retries: u32,
    /// The cost, if any attempt was started.
    #[serde(default, skip_serializing_if = "Cost::is_none")]
    pub cost: Cost,
}

fn none(count: &u32) -> bool {
    *count == 0
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEndReason {
    Done,
    Failed,
    Budget,
    Person,
    /// The same failure came back, and no recovery was left to try.
    Stuck,
    /// provost let a session stop although a postcondition was broken.
    LetGo,
    /// The plan was done and had landed, and later commits on the branch broke it.
    Undone,
}

impl Event {
    /// Creates an escalation, of a step or of the whole plan.
    pub fn escalated(step: Option<StepNumber>, cause: EscalationCause, reason: String) -> Self {
        Event::Escalated { step, reason, cause: Some(cause) }
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
            | Event::Escalated { step, .. }
            | Event::Answered { step, .. }
            | Event::TamperDetected { step, .. } => *step,
            Event::PlanCreated { .. }
            | Event::PlanRewritten { .. }
            | Event::PlanVerified { .. }
            | Event::ApprovalRequested { .. }
            | Event::Approved { .. }
            | Event::Rejected { .. }
            | Event::QuestionAsked { .. }
            | Event::IsolationAttested { .. }
            | Event::LawChanged { .. }
            | Event::RunEnded { .. }
            | Event::TrainStarted { .. }
            | Event::PlanLanded { .. } => None,
        }
    }

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
            Event::TrainStarted { .. } => "TRAIN_STARTED",
            Event::PlanLanded { .. } => "PLAN_LANDED",
        }
    }
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
    ("GATE_APPROVED", "A person, or a policy that names itself, approved exactly this revision."),
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
        "The step passed. `pass` says in which way: `verified`, or a weaker one: `confirmed` by a named person, `judged` by a model, `self_checked` (the agent wrote the check and no person approved it), `held_before` (the check held before the work too).",
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
        let golden = include_str!("../../test_data/events/v1.jsonl");
        let mut page = include_str!("event/page.md").to_owned();
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
