//! Commands of each sender, and refusals.
//!
//! Authority is a type: there are three senders, three enums and three functions in `decide`. An agent has no
//! command that could pass its step.
//!
//! **Invariant:** no variant of [`AgentCommand`] carries a verdict.

use crate::model::approved_spec::Binding;
use crate::model::check_author::CheckAuthor;
use crate::model::event::{Approver, CheckSubject, Choice, EndedAttempt, Probe, Revision, StartTree};
use crate::model::plan::StepNumber;
use crate::model::usage::{Amount, Usage};
use crate::model::verdict::{Isolation, Verdict};

/// Commands of an agent. None of them decides anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentCommand {
    Claim {
        step: StepNumber,
        evidence: String,
    },
    /// The agent cannot continue with the step, and says why.
    Block {
        step: StepNumber,
        reason: String,
    },
    /// The agent wants to end the whole plan.
    Finish,
}

/// Decisions of a person, about the text they read.
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
        /// The step that it is about.
        step: Option<StepNumber>,
    },
    /// Answers an escalation; without a step it concerns the postconditions.
    Answer {
        step: Option<StepNumber>,
        choice: Choice,
        note: String,
        by: String,
    },
    /// Answers an exceeded budget: continue with these limits.
    Raise {
        step: StepNumber,
        budget: Amount,
        note: String,
        by: String,
    },
    /// Records that the person took the plan's lease away from its holder.
    BreakLease {
        lease: String,
        held_by: String,
        by: String,
    },
}

/// Observations and intentions of provost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HarnessCommand {
    /// The plan file was read.
    Record {
        text: String,
        binding: Binding,
        /// The author, if the text is new.
        author: Option<String>,
    },
    /// The same for a text that a template or a model wrote, with the usage of each round of a draft.
    RecordDraft {
        text: String,
        binding: Binding,
        usage: Vec<Usage>,
        author: Option<String>,
        checks_by: CheckAuthor,
    },
    /// The static checks found no error.
    Verified {
        revision: Revision,
        warnings: u32,
    },
    RequestApproval {
        plan_id: String,
    },
    /// A policy of the configuration covers the plan, or a person approved it in a dialog of the agent's client.
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
        /// The agent works in its own client, outside of any sandbox of provost.
        agent_outside: bool,
        /// The holder of the expired lock on the plan.
        took_over: Option<String>,
    },
    /// An attempt is about to be dispatched.
    Start {
        step: StepNumber,
    },
    /// The same if the tree it begins with is known.
    StartFrom {
        step: StepNumber,
        start: StartTree,
    },
    AttemptEnded(EndedAttempt),
    /// A person interrupted provost while the attempt ran.
    AttemptInterrupted {
        step: StepNumber,
        attempt: u32,
    },
    /// The same with the tree it left.
    AttemptStopped {
        step: StepNumber,
        attempt: u32,
        left: Option<String>,
    },
    Judged {
        subject: CheckSubject,
        verdict: Verdict,
    },
    /// An attempt that was running when provost crashed was judged before anything else.
    JudgedLost {
        step: StepNumber,
        verdict: Verdict,
        /// After this number of losses in a row a person decides.
        max_losses: u32,
    },
    /// A session that provost did not start wants to stop, and its work was checked. A failure goes back to
    /// the session. There is no verdict if only a person can decide.
    Looked {
        subject: CheckSubject,
        verdict: Option<Verdict>,
        /// The client of the session.
        client: String,
    },
    /// A session was sent back often enough and may stop with the plan open: a person decides.
    LetGo {
        reason: String,
    },
    /// The plan file differs from the approved spec.
    LawChanged {
        changes: Vec<String>,
    },
    Tampered {
        step: Option<StepNumber>,
        what: String,
    },
    /// Another process wrote to the log, from this event on.
    Forged {
        from_seq: u64,
        what: String,
    },
    /// The step is due, but the quota of its role is exhausted.
    Hold {
        step: StepNumber,
    },
    /// A person has not answered for a long time.
    Remind {
        reason: String,
    },
    /// The step is due, but its sub-plan waits for a person.
    PlanWaits {
        step: StepNumber,
        reason: String,
    },
    /// The sub-plan of the step can continue.
    PlanGoesOn {
        step: StepNumber,
    },
    /// The step is due, but the rest of a budget does not allow it.
    OverBudget {
        step: StepNumber,
    },
    /// Nothing is left to do.
    End,
    /// A branch was moved and now contains the plan.
    Landed {
        plan_id: String,
        target: String,
        before: String,
        commit: String,
    },
    /// The plan had landed, and this check no longer holds on the current branch.
    Undone {
        subject: CheckSubject,
        verdict: Verdict,
        /// The cause, if known.
        reason: String,
    },
}

/// A command that is not allowed, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the log has no plan yet; run `provost verify` first")]
    NoPlan,
    #[error("the plan is {stage}, but {wanted} needs it to be {needed}")]
    WrongStage { stage: &'static str, wanted: &'static str, needed: &'static str },
    #[error("you read revision {read}, but the plan is now at {current}; read it again with `provost show`")]
    Stale { read: String, current: String },
    #[error("{by} already approved revision {revision}")]
    AlreadyApproved { revision: String, by: String },
    #[error("{by} already approved this revision and counts only once: {tally}")]
    CountsOnce { by: String, tally: String },
    #[error(
        "{by} wrote this text, and authors may not approve their own \
         text here ([gate] self_approval): {tally}"
    )]
    OwnPlan { by: String, tally: String },
    #[error(
        "authors may not approve their own text here ([gate] self_approval), and the log does not name \
         the author: the author runs `provost verify`, then another person approves"
    )]
    NoAuthor,
    #[error("this plan needs approval by people; a policy does not count ([gate] policies_count)")]
    NoPolicy,
    #[error("this plan needs approval by people; a dialog of the agent's client does not count ([gate])")]
    NoDialog,
    #[error("a person rejected this revision: {reason}")]
    Rejected { reason: String },
    #[error("a question is open: {question}")]
    QuestionOpen { question: String },
    #[error("say {what}; the text is empty")]
    Empty { what: &'static str },
    #[error("step {step} is not open: work on the step you were given")]
    NotOpen { step: StepNumber },
    #[error("a claim needs evidence: say what was done and where it can be seen (step {step})")]
    NoEvidence { step: StepNumber },
    #[error("{}", unfinished(*.first, *.more))]
    Unfinished { first: StepNumber, more: usize },
    #[error("there is no step {step} in this plan")]
    NoSuchStep { step: StepNumber },
    #[error("step {step} does not wait for a person; `provost inbox` lists what does")]
    NothingToAnswer { step: StepNumber },
    #[error("step {step} has not passed, so there is no verdict to run again")]
    NotPassed { step: StepNumber },
    #[error("provost keeps no tree of it: it was checked in the workspace itself, or the tree was removed")]
    NoTree,
    #[error("no command checks step {step}, so there is no contract to try its parts with")]
    NoCommand { step: StepNumber },
    #[error("at {level} provost has no tree of its own in which it could take a part out")]
    NoOwnTree { level: Isolation },
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
        "landing on {branch} would overwrite local changes in {place}, where it is checked out: {}",
        .files.join(", ")
    )]
    LocalChanges { branch: String, place: String, files: Vec<String> },
    #[error("this plan was never approved")]
    NeverApproved,
    #[error("`{asked}` names no revision, or more than one; the log has {}", .known.join(", "))]
    NoSuchRevision { asked: String, known: Vec<String> },
    #[error("step {step} ({title}) has already run; a patch replaces only steps that have not")]
    HasRun { step: StepNumber, title: String },
    #[error("step {step} comes before step {first}, where the patch starts; the patch does not change it")]
    BeforePatch { step: StepNumber, first: StepNumber },
    #[error("step {step} has not started and is not ready, so there is no tree to start from")]
    NotBegun { step: StepNumber },
    #[error("the plan cannot be forked: {why}")]
    NoFork { why: String },
    #[error("the plan depends on {}, which must be done first", .on.join(", "))]
    DependsOn { on: Vec<String> },
    #[error("nothing in this plan waits for a person")]
    NothingWaits,
    #[error("no open inbox item `{id}`; it may have been answered (see `provost inbox`)")]
    NoSuchItem { id: String },
    #[error("`{choice}` is not possible here; choose {instead}")]
    WrongChoice { choice: &'static str, instead: &'static str },
    #[error("only the plan {plan} carries out step {step}; `provost run` starts it")]
    CarriedByPlan { step: StepNumber, plan: String },
    #[error("the remaining budget is too small for step {step}")]
    NoBudget { step: StepNumber },
    #[error("step {step} does not wait for a budget, so there is nothing to raise")]
    NothingToRaise { step: StepNumber },
    #[error("nothing is left of the budget for step {step}: raise it with `retry --budget \"…\"`")]
    NothingLeft { step: StepNumber },
    #[error("a limit of {limit} is too low: {spent} already counted as spent")]
    RaisedTooLittle { limit: String, spent: String },
    #[error("attempt {attempt} of step {step} has already ended")]
    NotUnderWay { step: StepNumber, attempt: u32 },
    #[error("the check of {what} is not due")]
    NotDue { what: String },
    #[error("steps or postconditions are still open")]
    StillOpen,
    #[error(
        "an agent works without a sandbox and could have made this decision itself; wait until its \
         attempt has been judged"
    )]
    AgentAtWork,
    #[error(
        "another program wrote to the log from event {from_seq} on; provost decides nothing on it \
         (see `provost audit`)"
    )]
    Forged { from_seq: u64 },
}

fn unfinished(first: StepNumber, more: usize) -> String {
    match more {
        0 => format!("step {first} has not passed its contract; keep working"),
        more => format!("step {first} and {more} more have not passed their contracts; keep working"),
    }
}

fn others_work(count: &usize, files: &[String]) -> String {
    let noun = if *count == 1 { "file" } else { "files" };
    format!("the judged tree holds {count} {noun} that no attempt of this plan changed: {}", files.join(", "))
}
