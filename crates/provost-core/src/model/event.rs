//! What happened. The only serialised type of the rules, and append-only in its variants.
//!
//! In code an event reads as a sentence (`StepPassed`); on the wire it carries the name other tools
//! know (`TASK_COMPLETED`). The mapping stands here, once, as the `rename` of each variant.
//!
//! **Invariant:** an event that was ever written decodes for ever (`test_data/events/v1.jsonl`).
//! Add variants and optional fields; never rename or remove.

use serde::{Deserialize, Serialize};

use crate::model::pass::Pass;
use crate::model::plan::StepNumber;
use crate::model::run_policy::Terms;
use crate::model::timestamp::Timestamp;
use crate::model::usage::{Amount, Cost, Resource, Usage};
use crate::model::verdict::{Isolation, Verdict};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", content = "details")]
pub enum Event {
    /// A plan entered the log, with its whole text: the log needs no file to replay.
    #[serde(rename = "PLAN_CREATED")]
    PlanCreated {
        text: String,
        revision: Revision,
        /// The commit the law was read at, where there is a repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        /// The files the contracts name that existed then, with their digests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<NamedFile>,
        /// What the configuration adds to the law.
        #[serde(default, skip_serializing_if = "Terms::is_usual")]
        terms: Terms,
        /// Files that are not in the commit and are part of the base all the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        included: Vec<IncludedFile>,
        task_count: u32,
        /// The steps each step waits for, as written.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dependencies: Vec<Dependency>,
        /// What drafting it used, where a model did, a round each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        drafting: Vec<Usage>,
        /// Whose account or token brought the text into the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<String>,
    },
    /// The law changed: the plan is a draft again. Steps whose text is unchanged keep what they have.
    #[serde(rename = "PLAN_REWRITTEN")]
    PlanRewritten {
        text: String,
        revision: Revision,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<NamedFile>,
        #[serde(default, skip_serializing_if = "Terms::is_usual")]
        terms: Terms,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        included: Vec<IncludedFile>,
        task_count: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dependencies: Vec<Dependency>,
        /// What changed, a line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<String>,
        /// Who wrote the text: as it was, where only what surrounds it changed.
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
        /// What the person changed before approving, a line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        modifications: Vec<String>,
        /// How many more people have to, before the plan is approved.
        #[serde(default, skip_serializing_if = "none")]
        missing: u32,
    },
    #[serde(rename = "GATE_REJECTED")]
    Rejected { revision: Revision, reason: String, by: String },
    /// The plan is parked until somebody answers, by amending or approving.
    #[serde(rename = "GATE_QUESTION_ASKED")]
    QuestionAsked { revision: Revision, question: String, by: String },

    /// What this machine was seen to hold, by a self-test inside the very fence that is used.
    #[serde(rename = "ISOLATION_ATTESTED")]
    IsolationAttested {
        level: Isolation,
        /// A contract that held before any work was done proves nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        require_red: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        probes: Vec<Probe>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        kernel: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bubblewrap: Option<String>,
        /// The agent works in a client of its own, outside of any fence: the level is that of the checks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        agent_outside: bool,
        /// In a shared folder: whose claim on the plan had expired and was taken over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_over: Option<String>,
    },
    /// An attempt is about to be dispatched. Durable before the agent starts.
    #[serde(rename = "TASK_STARTED")]
    StepStarted {
        step: StepNumber,
        attempt: u32,
        target: String,
        /// What is held for it of the budget, and how long it may take, where there is one.
        #[serde(default, skip_serializing_if = "Amount::is_empty")]
        reserved: Amount,
        /// The tree the attempt begins with, where the harness keeps one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<StartTree>,
    },
    /// The agent said something about the step. It is kept and never decides.
    #[serde(rename = "STEP_CLAIMED")]
    StepClaimed { step: StepNumber, evidence: String },
    /// The agent's process is over.
    #[serde(rename = "ATTEMPT_ENDED")]
    AttemptEnded(Ended),
    /// The harness stopped while the attempt ran. It uses up no retry.
    #[serde(rename = "ATTEMPT_LOST")]
    AttemptLost {
        step: StepNumber,
        attempt: u32,
        cause: LossCause,
        /// The tree it left, where that was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<String>,
    },
    /// A check was run and this was seen.
    #[serde(rename = "CONTRACT_JUDGED")]
    Judged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
        subject: Subject,
        verdict: Verdict,
        /// Whose check it is, in the log of a train: there many plans are looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
    },
    #[serde(rename = "TASK_COMPLETED")]
    StepPassed {
        step: StepNumber,
        attempt: u32,
        result: String,
        /// The tree the contract held on; the next step's base.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// How much the pass means. Older logs do not say it; the fold works it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pass: Option<Pass>,
    },
    /// The step is over and did not pass.
    #[serde(rename = "TASK_FAILED")]
    StepFailed { step: StepNumber, error: String },
    /// A person, or the plan as a person approved it, lets the step go. It is never shown as passed.
    #[serde(rename = "TASK_WAIVED")]
    StepWaived { step: StepNumber, by: String, reason: String },

    #[serde(rename = "FAILURE_DETECTED")]
    FailureDetected {
        step: StepNumber,
        attempt: u32,
        error_message: String,
        /// The same for failures that are the same but for times, paths and numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fingerprint: Option<String>,
    },
    #[serde(rename = "FAILURE_CLASSIFIED")]
    FailureClassified {
        step: StepNumber,
        failure_type: FailureClass,
        rule: String,
        /// The role that has nothing left to spend: it is given no more work until a person says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        halts: Option<String>,
        /// The environment of the check is at fault: when it is mended, the check is run again, not the agent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_the_check: bool,
    },
    #[serde(rename = "RECOVERY_APPLIED")]
    RecoveryApplied {
        step: StepNumber,
        recipe_name: String,
        outcome: String,
        /// Nothing is tried before this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
        /// How long that was when it was decided: a clock that was set back is noticed by it.
        #[serde(default, skip_serializing_if = "is_zero")]
        wait_ms: u64,
        /// The check is tried again, not the agent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        check_again: bool,
        /// Another role than the step's own has a try.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// The next attempt begins a new conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fresh: bool,
    },
    /// The step needs something that only a person can configure, outside of the run.
    #[serde(rename = "PERMISSION_REQUIRED")]
    PermissionRequired {
        step: StepNumber,
        reason: String,
        /// The variables, files or rights; never a value.
        configure: Vec<String>,
    },
    /// Policy is at its end: a person decides.
    #[serde(rename = "RECOVERY_ESCALATION")]
    Escalated {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
        reason: String,
    },
    /// The next attempt does not fit what is left of a budget: a person decides.
    #[serde(rename = "BUDGET_EXCEEDED")]
    BudgetExceeded {
        /// The step whose turn it was.
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
        /// The limits that hold from now on instead, for what ran out; parts that are not there stay.
        #[serde(default, skip_serializing_if = "Amount::is_empty")]
        budget: Amount,
    },

    /// The plan file no longer says what was approved. The run stops before the next dispatch.
    #[serde(rename = "LAW_CHANGED")]
    LawChanged { changes: Vec<String> },
    /// Somebody reached for what is not theirs: a person's door from inside an attempt, the log, the law.
    #[serde(rename = "TAMPER_DETECTED")]
    TamperDetected {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepNumber>,
        what: String,
        /// The log itself was written by somebody else: nothing from this event on is believed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_seq: Option<u64>,
    },

    #[serde(rename = "EXECUTION_COMPLETE")]
    RunEnded {
        outcome: RunOutcome,
        summary: Summary,
        /// The tree all contracts and postconditions held on; what is merged is this and nothing else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// What brought it to its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
        /// Of a train: what it decided, before anything of it is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        train: Option<Box<Landing>>,
    },

    /// These plans want to land on a branch together, in this order.
    #[serde(rename = "TRAIN_STARTED")]
    TrainStarted {
        /// The branch.
        target: String,
        /// Where it stood.
        base: String,
        plans: Vec<Boarded>,
    },
    /// The branch was moved: the plan is in it. Stands in the plan's own log and in that of the train.
    #[serde(rename = "PLAN_LANDED")]
    PlanLanded {
        plan: String,
        target: String,
        /// Where the branch stood before, and where it stands.
        before: String,
        commit: String,
    },
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub step: StepNumber,
    pub attempt: u32,
    pub end: AttemptEnd,
    pub duration_ms: u64,
    /// The agent's last words where they are no claim: it failed, or ran out of time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub report: String,
    /// What the agent's fence had to say: what was refused, what was not as usual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What it used, as far as anybody counted.
    #[serde(default, skip_serializing_if = "Usage::is_unknown")]
    pub usage: Usage,
    /// The conversation it was, by its client's name for it, where it can be gone on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it wrote to topics. Other steps see it once the step has passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Post>,
    /// How the agent changed its own plan of the work on the way: what was taken out and put in, each
    /// time it did. The plan it was given is not its to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrites: Vec<String>,
    /// The tree it left, where trees travel between machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
    /// The tree it began with, where that was not known when it was announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartTree>,
    /// The tree it left, where that was kept: what a person is shown, and what the next attempt is held
    /// against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// What was otherwise outside of `touches` after the attempt than before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<Outside>,
}

/// The tree an attempt begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTree {
    pub tree: String,
    /// Files in it that neither the base nor the steps before have like this: somebody else changed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// Something outside of `touches` that changed during an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// Of a file, a folder or a ref; for a note, its words.
    pub path: String,
    #[serde(default)]
    pub change: OutsideChange,
    #[serde(default)]
    pub kind: OutsideKind,
    /// Of a folder: how many files in it changed.
    #[serde(default, skip_serializing_if = "none")]
    pub files: u32,
    /// What a ref stood for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The digest of a file, or what a ref stands for.
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
    /// A folder that the approved tree does not have, with many changes in it.
    Folder,
    /// A branch, a tag or another name in the repository.
    Ref,
    /// A file of the repository that git runs programs from, or is led elsewhere by.
    Git,
    /// No change: something to know about the list.
    Note,
}

impl std::fmt::Display for Outside {
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

impl Ended {
    /// Nothing more is known of it.
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

/// The tree that an attempt left, on a remote that other machines fetch it from. Whoever fetches something
/// else by its name has not found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub tree: String,
    /// What it is called there.
    pub name: String,
    /// Who made it: another judges it, where there is one.
    pub machine: String,
}

/// A plan that wants to land, and the tree it was judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boarded {
    pub plan: String,
    /// What people call it.
    pub name: String,
    pub revision: Revision,
    pub tree: String,
}

/// What a train decided. The branch is moved only after this is in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    pub target: String,
    /// Where the branch must stand for it to be moved.
    pub before: String,
    /// Where it is to stand; nothing, where no plan lands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The union, as git names its tree.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub git_tree: String,
    pub plans: Vec<Boarded>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A plan that does not land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub plan: String,
    pub name: String,
    pub reason: String,
    /// The other one of the pair at fault, or the one it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The digest an approval is bound to: the law, the base commit and the files the contracts name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub String);

impl Revision {
    /// What people see and type.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }

    /// A person may type a prefix, but not one short enough to be hit by chance.
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
    /// The digest of its content; nothing, where the file is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    pub step: StepNumber,
    pub needs: Vec<StepNumber>,
}

/// The name, in the log, of the policy that approves plans made in an agent's own session.
pub const SESSION_POLICY: &str = "mcp gate auto";

/// Who let the plan through the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    Person(String),
    /// A policy of the configuration, by name, with the digest of its text.
    Policy {
        name: String,
        digest: String,
        /// It lets through whatever a plan runs: nobody has read the checks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unread: bool,
        /// Digests of those checks of the plan that come from a catalogue which a person trusted.
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

/// What a step's agent wrote to a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    pub topic: String,
    pub text: String,
}

/// How the agent's process ended.
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
    /// The agent could not be started at all.
    NotStarted {
        reason: String,
    },
    /// It took more of the machine than it may, and was ended.
    OverBounds {
        reason: String,
    },
    /// The plan that carries the step out has failed, was rejected, or could not be run.
    PlanFailed {
        plan: String,
        reason: String,
    },
    /// The plan that carries the step out waits for a person.
    PlanWaits {
        plan: String,
        reason: String,
    },
    /// The plan that carries the step out was stopped where the budget of the step ends.
    PlanStopped {
        plan: String,
    },
}

impl AttemptEnd {
    /// The end of the attempt as a sentence.
    pub fn words(&self) -> String {
        match self {
            AttemptEnd::Exited { exit_code } => format!("the agent exited with {exit_code}"),
            AttemptEnd::Signalled { signal } => format!("the agent was ended by signal {signal}"),
            AttemptEnd::TimedOut => "the agent ran out of time and was ended".to_owned(),
            AttemptEnd::NotStarted { reason } => format!("the agent could not be started: {reason}"),
            AttemptEnd::OverBounds { reason } => {
                format!("the agent took too much of the machine and was ended: {reason}")
            }
            AttemptEnd::PlanFailed { plan, reason } => format!("the plan {plan} did not get done: {reason}"),
            AttemptEnd::PlanWaits { plan, reason } => format!("the plan {plan} waits: {reason}"),
            AttemptEnd::PlanStopped { plan } => {
                format!("the plan {plan} was stopped where the budget of the step ends")
            }
        }
    }
}

/// Which limit it is that an attempt does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Plan,
    Step,
}

/// What ran out, and what would be needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    pub scope: Scope,
    pub resource: Resource,
    /// The limits of the plan, or of the step.
    pub limit: Amount,
    /// What counts as spent of them.
    pub spent: Amount,
    /// What the next attempt would need.
    pub needed: Amount,
    /// How many attempts were counted as what was held for them, since nobody said what they used.
    #[serde(default, skip_serializing_if = "none")]
    pub unknown: u32,
    /// The steps that are not over.
    pub left: Vec<StepNumber>,
    /// What they would cost, where that can be told from what was done so far.
    #[serde(default, skip_serializing_if = "Amount::is_empty")]
    pub estimate: Amount,
}

/// Why the harness did not see an attempt end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// It died. Too many of these in a row go to a person.
    Crash,
    /// A person interrupted it.
    Interrupt,
}

/// One thing the self-test tried, and whether the fence held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    pub name: String,
    pub held: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Which check was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Precondition(StepNumber),
    /// The contract before any work, on the base: whether it can fail at all.
    Control(StepNumber),
    Contract(StepNumber),
    /// The contract once more, when every step is over, on what they left together.
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

/// What a person answers to an escalation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Retry,
    /// A waiver by a named person; it shows as such for ever.
    Skip,
    Abort,
    /// The plan goes back to draft.
    Revise,
    /// The person saw that a `human` contract holds.
    Confirm,
}

impl Choice {
    /// As it is typed.
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
    /// Of the completed ones: those that passed in a weaker way.
    #[serde(default, skip_serializing_if = "none")]
    pub confirmed: u32,
    #[serde(default, skip_serializing_if = "none")]
    pub judged: u32,
    #[serde(default, skip_serializing_if = "none")]
    pub self_checked: u32,
    #[serde(default, skip_serializing_if = "none")]
    pub held_before: u32,
    /// Of the completed ones: those whose check no control has shown to be able to fail.
    #[serde(default, skip_serializing_if = "none")]
    pub uncontrolled: u32,
    /// Postconditions that held before the work too.
    #[serde(default, skip_serializing_if = "none")]
    pub postconditions_held_before: u32,
    /// How often something was tried again.
    #[serde(default, skip_serializing_if = "none")]
    pub retries: u32,
    /// What it cost, where anything was begun.
    #[serde(default, skip_serializing_if = "Cost::is_none")]
    pub cost: Cost,
}

fn none(count: &u32) -> bool {
    *count == 0
}

/// What brought a run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    Done,
    Failed,
    Budget,
    Person,
    /// The same failure came back, and nothing was left to try.
    Stuck,
    /// A session that worked on it was let go, and left a postcondition broken.
    LetGo,
    /// It was done and had landed, and the branch undid it.
    Undone,
}

impl Event {
    /// The step it is about, if it is about one.
    pub fn step(&self) -> Option<StepNumber> {
        match self {
            Event::StepStarted { step, .. }
            | Event::StepClaimed { step, .. }
            | Event::AttemptEnded(Ended { step, .. })
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

    /// The name on the wire.
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

/// What each event says, for `docs/events.md`. In the order in which a plan lives.
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
        "The automatic retries are used up: a person decides, without a time limit. Without a step and with `overdue:` it is a reminder of an item that a person has not answered (`remind_after`); it changes nothing.",
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
