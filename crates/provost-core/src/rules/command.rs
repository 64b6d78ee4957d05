//! Who may say what, and the answer to those who may not.
//!
//! Authority is a type. Three senders, three enums, three doors in `decide`: an agent cannot even
//! write down the command that would pass its step.
//!
//! **Invariant:** no variant of [`AgentCommand`] carries a verdict.

use crate::model::approved_spec::Binding;
use crate::model::event::{Approver, Choice, Ended, Probe, Revision, StartTree, Subject};
use crate::model::plan::StepNumber;
use crate::model::usage::{Amount, Usage};
use crate::model::verdict::{Isolation, Verdict};

/// What an agent may say. All of it is words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentCommand {
    Claim {
        step: StepNumber,
        evidence: String,
    },
    /// It cannot go on with the step, and says why.
    Block {
        step: StepNumber,
        reason: String,
    },
    /// It wants to end the whole plan.
    Finish,
}

/// What a person may decide, and only about the text they read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HumanCommand {
    Approve {
        revision: Revision,
        by: String,
        modifications: Vec<String>,
    },
    Reject {
        reason: String,
        by: String,
    },
    Ask {
        question: String,
        by: String,
    },
    /// To an escalation; without a step it is about the postconditions.
    Answer {
        step: Option<StepNumber>,
        choice: Choice,
        note: String,
        by: String,
    },
    /// To a budget that ran out: go on, with these limits instead.
    Raise {
        step: StepNumber,
        budget: Amount,
        note: String,
        by: String,
    },
}

/// What the harness saw or is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HarnessCommand {
    /// The plan file was read.
    Record {
        text: String,
        binding: Binding,
        /// Who wrote it, if it is new.
        author: Option<String>,
    },
    /// The same, of a plan that a model drafted: what each round used.
    RecordDraft {
        text: String,
        binding: Binding,
        usage: Vec<Usage>,
        author: Option<String>,
    },
    /// The static checks found no error.
    Verified {
        revision: Revision,
        warnings: u32,
    },
    RequestApproval {
        plan_id: String,
    },
    /// A policy of the configuration covers the plan.
    ApproveByPolicy {
        revision: Revision,
        by: Approver,
    },
    /// The self-test at the start of a run.
    Attested {
        level: Isolation,
        require_red: bool,
        probes: Vec<Probe>,
        kernel: String,
        bubblewrap: Option<String>,
        /// The agent works in a client of its own, which no fence of ours is around.
        agent_outside: bool,
        /// Whose claim on the plan had expired.
        took_over: Option<String>,
    },
    /// An attempt is about to be dispatched.
    Start {
        step: StepNumber,
    },
    /// The same, where the tree is known that it begins with.
    StartFrom {
        step: StepNumber,
        start: StartTree,
    },
    AttemptEnded(Ended),
    /// A person interrupted the harness while the attempt ran.
    AttemptInterrupted {
        step: StepNumber,
        attempt: u32,
    },
    /// The same, with the tree that it left.
    AttemptStopped {
        step: StepNumber,
        attempt: u32,
        left: Option<String>,
    },
    Judged {
        subject: Subject,
        verdict: Verdict,
    },
    /// An attempt that was in flight when the harness died was judged before anything else.
    JudgedLost {
        step: StepNumber,
        verdict: Verdict,
        /// So many losses in a row go to a person.
        max_losses: u32,
    },
    /// A session that the harness did not start wants to stop, and this was seen of what it left. A
    /// failure goes back to the session. Nothing was seen where only a person can say.
    Looked {
        subject: Subject,
        verdict: Option<Verdict>,
        /// Whose session it is.
        client: String,
    },
    /// A session was sent back often enough, and is let go with the plan open: a person decides.
    LetGo {
        reason: String,
    },
    /// The plan file says something else than what was approved.
    LawChanged {
        changes: Vec<String>,
    },
    Tampered {
        step: Option<StepNumber>,
        what: String,
    },
    /// Somebody else wrote to the log, from this event on.
    Forged {
        from_seq: u64,
        what: String,
    },
    /// The step's turn has come, and its role has nothing left to spend.
    Hold {
        step: StepNumber,
    },
    /// Somebody has not answered for long.
    Remind {
        reason: String,
    },
    /// The step's turn has come, and the plan that carries it out waits for a person.
    PlanWaits {
        step: StepNumber,
        reason: String,
    },
    /// The plan that carries the step out can go on.
    PlanGoesOn {
        step: StepNumber,
    },
    /// The step's turn has come, and what is left of a budget does not allow it.
    OverBudget {
        step: StepNumber,
    },
    /// Nothing is left to do.
    End,
    /// A branch was moved, and holds the plan.
    Landed {
        plan_id: String,
        target: String,
        before: String,
        commit: String,
    },
    /// The plan had landed, and on the branch as it is now this does not hold any more.
    Undone {
        subject: Subject,
        verdict: Verdict,
        /// Who did it, as far as that is known.
        reason: String,
    },
}

/// A command that is not allowed, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no plan in the log yet")]
    NoPlan,
    #[error("the plan is {stage}, and {wanted} needs it to be {needed}")]
    WrongStage { stage: &'static str, wanted: &'static str, needed: &'static str },
    #[error("revision {read} is not what the plan says now (it is {current}): look at it again")]
    Stale { read: String, current: String },
    #[error("revision {revision} is approved already, by {by}")]
    AlreadyApproved { revision: String, by: String },
    #[error("{by} has approved this revision, and counts once: {tally}")]
    CountsOnce { by: String, tally: String },
    #[error("{by} wrote this text, and nobody approves their own here ([gate] self_approval): {tally}")]
    OwnPlan { by: String, tally: String },
    #[error(
        "nobody approves their own text here ([gate] self_approval), and the log does not say who wrote this one: \
         whoever did runs `provost verify`, then somebody else approves it"
    )]
    NoAuthor,
    #[error("people are asked for here, and a policy counts as none ([gate] policies_count)")]
    NoPolicy,
    #[error("a person rejected this revision: {reason}")]
    Rejected { reason: String },
    #[error("a question is open: {question}")]
    QuestionOpen { question: String },
    #[error("say {what}; an empty text decides nothing")]
    Empty { what: &'static str },
    #[error("step {step} is not open: work on the step you were given")]
    NotOpen { step: StepNumber },
    #[error("a claim needs evidence: say what was done and where it can be seen (step {step})")]
    NoEvidence { step: StepNumber },
    #[error("no contract has held yet for step {first} and {more} more: keep working")]
    Unfinished { first: StepNumber, more: usize },
    #[error("there is no step {step} in this plan")]
    NoSuchStep { step: StepNumber },
    #[error("step {step} does not wait for a person")]
    NothingToAnswer { step: StepNumber },
    #[error("step {step} has not passed, so there is no verdict to run again")]
    NotPassed { step: StepNumber },
    #[error("no tree is kept of it: it was checked in the workspace itself, or the tree is gone")]
    NoTree,
    #[error(
        "the repository had no commit when the plan was approved, so there is nothing to commit on: make a first \
         commit, then approve and run the plan on it"
    )]
    NoBaseCommit,
    #[error("there is no git repository here to commit to")]
    NoRepository,
    #[error("branch {branch} is at {at}, which is neither the approved base nor this plan's commit")]
    BranchElsewhere { branch: String, at: String },
    #[error("{}", others_work(.count, .files))]
    OthersWork { count: usize, files: Vec<String> },
    #[error("step {step} has not been tried yet")]
    NotTried { step: StepNumber },
    #[error("{name} cannot be integrated: {why}")]
    CannotLand { name: String, why: String },
    #[error("there is no branch {branch} to integrate into")]
    NoBranch { branch: String },
    #[error(
        "{branch} is checked out in {place}, and landing would overwrite what was changed there: {}",
        .files.join(", ")
    )]
    LocalChanges { branch: String, place: String, files: Vec<String> },
    #[error("this plan was never approved")]
    NeverApproved,
    #[error("no revision is called `{asked}`, or more than one is; the log holds {}", .known.join(", "))]
    NoSuchRevision { asked: String, known: Vec<String> },
    #[error("step {step} ({title}) has run: a patch replaces only what has not")]
    HasRun { step: StepNumber, title: String },
    #[error("step {step} stands before step {first}: a patch from there on does not change it")]
    BeforePatch { step: StepNumber, first: StepNumber },
    #[error("step {step} has not begun, and its turn has not come: there is no tree to begin with")]
    NotBegun { step: StepNumber },
    #[error("the plan cannot be forked: {why}")]
    NoFork { why: String },
    #[error("the plan depends on {}, which must be done first", .on.join(", "))]
    DependsOn { on: Vec<String> },
    #[error("nothing waits for a person here")]
    NothingWaits,
    #[error("no open inbox item `{id}`; it may have been answered")]
    NoSuchItem { id: String },
    #[error("`{choice}` is no answer here: choose {instead}")]
    WrongChoice { choice: &'static str, instead: &'static str },
    #[error("step {step} is carried out by the plan {plan}, and by nobody else: `provost run` does it")]
    CarriedByPlan { step: StepNumber, plan: String },
    #[error("step {step} does not fit what is left of the budget")]
    NoBudget { step: StepNumber },
    #[error("step {step} does not wait for a budget, so there is none to raise")]
    NothingToRaise { step: StepNumber },
    #[error("nothing is left of the budget for step {step}: raise it with `retry --budget \"…\"`")]
    NothingLeft { step: StepNumber },
    #[error("{spent} counted as spent already: a limit of {limit} leaves nothing")]
    RaisedTooLittle { limit: String, spent: String },
    #[error("attempt {attempt} of step {step} is not under way any more")]
    NotUnderWay { step: StepNumber, attempt: u32 },
    #[error("the check of {what} is not due")]
    NotDue { what: String },
    #[error("steps or postconditions are still open")]
    StillOpen,
    #[error(
        "an agent is at work without a fence, and a decision taken now could be its own: wait until its attempt \
         has been judged"
    )]
    AgentAtWork,
    #[error("the log was written by somebody else from event {from_seq} on: nothing is decided on it")]
    Forged { from_seq: u64 },
}

fn others_work(count: &usize, files: &[String]) -> String {
    let noun = if *count == 1 { "file" } else { "files" };
    format!("the judged tree holds {count} {noun} that no attempt of this plan changed: {}", files.join(", "))
}
