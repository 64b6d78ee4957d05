//! The state of one step: its attempts, its last verdict, and what it waits for.

use super::RemoteWork;
use crate::model::escalation::EscalationCause;
use crate::model::event::{AttemptEnd, Breach, FailureClass, StartTree, TopicPost};
use crate::model::hash::Hash;
use crate::model::pass::Pass;
use crate::model::timestamp::Timestamp;
use crate::model::usage::Usage;
use crate::model::verdict::Verdict;

/// The state of a step.
#[derive(Clone, Debug)]
pub struct StepRun {
    pub state: StepState,
    /// Number of dispatched attempts.
    pub attempts: u32,
    /// Number of attempts whose contract did not hold, since the last reset; without stops of sessions.
    pub failures: u32,
    /// Number of attempts in a row that were lost to crashes.
    pub losses: u32,
    /// The last verdict; it keeps its output only if it did not hold.
    pub verdict: Option<Verdict>,
    /// The agent's last claim.
    pub claim: Option<String>,
    pub precondition_held: bool,
    /// The contract held on the tree of the attempt, but other steps have passed since: it must be checked
    /// again on the combined tree.
    pub held_apart: bool,
    /// Result of the contract before any work, once it was checked.
    pub held_before: Option<bool>,
    /// A person lets the agent work although the contract already holds.
    pub held_before_accepted: bool,
    /// The kind of its last pass.
    pub pass: Option<Pass>,
    /// The round of final checks in which its own held.
    pub(super) finally: Option<u32>,
    /// Number of tests in the check before the work, if known.
    pub tests_before: Option<u32>,
    /// The tree of the check before the work.
    pub(crate) looked_at_before: Option<String>,
    /// The tree its last attempt began with, and which of its files another process had changed.
    pub start: Option<StartTree>,
    /// The tree its last attempt left.
    pub left: Option<String>,
    /// What its last attempt left on a git remote, until it passes.
    pub(super) work: Option<Box<RemoteWork>>,
    /// The test runners that reported themselves in the check before the work.
    pub runners_before: Vec<String>,
    /// The end of the last attempt, and the agent's last message if it is not a claim.
    pub ended: Option<(AttemptEnd, String)>,
    /// Class and fingerprint of the last failure.
    pub failed_as: Option<FailureClass>,
    pub fingerprint: Option<String>,
    /// The environment of the check failed last time: the retry repeats the check, not the agent.
    pub check_again: bool,
    /// The last applied recipe, and how many times in a row.
    pub recipe: Option<(String, u32)>,
    /// No retry before this wait is over.
    pub wait: Option<Wait>,
    /// The role that carries it out, if it is not its own.
    pub role: Option<String>,
    /// The conversation that the next attempt resumes.
    pub session: Option<Box<Conversation>>,
    /// What its agent asked for in the last attempt, and only a person can allow.
    pub asks: Option<String>,
    /// What its agent asked for, and a person allowed.
    pub granted: Vec<String>,
    /// The last messages its agent published to topics.
    pub(super) posts: Vec<TopicPost>,
    /// It waits because its own budget or the plan's is exhausted.
    pub over_budget: Option<Box<Breach>>,
    pub(super) digest: Hash,
}

impl StepRun {
    pub(super) fn new(digest: Hash) -> Self {
        Self {
            state: StepState::Pending,
            attempts: 0,
            failures: 0,
            losses: 0,
            verdict: None,
            claim: None,
            precondition_held: false,
            held_apart: false,
            held_before: None,
            held_before_accepted: false,
            pass: None,
            finally: None,
            tests_before: None,
            looked_at_before: None,
            start: None,
            left: None,
            work: None,
            runners_before: Vec::new(),
            ended: None,
            failed_as: None,
            fingerprint: None,
            check_again: false,
            recipe: None,
            wait: None,
            role: None,
            session: None,
            asks: None,
            granted: Vec::new(),
            posts: Vec::new(),
            over_budget: None,
            digest,
        }
    }

    /// Returns whether the step passed and no negative control could show that its check can fail.
    pub fn is_uncontrolled(&self) -> bool {
        let verdict = self.verdict.as_ref().filter(|_| self.state == StepState::Passed);
        verdict.is_some_and(|verdict| verdict.held() && verdict.uncontrolled.is_some())
    }

    /// Returns the state under a new spec. Results and running attempts stay; failed and blocked steps start
    /// afresh, because a person has looked at the plan since.
    pub(super) fn under_new_law(&self) -> Self {
        match self.state {
            StepState::Passed
            | StepState::Waived { .. }
            | StepState::Running { .. }
            | StepState::Ended { .. } => self.clone(),
            StepState::Pending | StepState::Failed | StepState::Blocked { .. } => {
                Self { attempts: self.attempts, work: self.work.clone(), ..Self::new(self.digest) }
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    Pending,
    /// An attempt was dispatched and its end is not in the log.
    Running {
        attempt: u32,
    },
    /// The agent has ended; the check is due.
    Ended {
        attempt: u32,
    },
    Passed,
    Failed,
    /// A person decides.
    Blocked {
        reason: String,
        cause: EscalationCause,
    },
    Waived {
        by: String,
    },
}

impl StepState {
    /// Returns whether the step ended in a way that lets other steps continue.
    pub fn is_settled(&self) -> bool {
        matches!(self, StepState::Passed | StepState::Waived { .. })
    }

    pub(super) fn is_blocked(&self) -> bool {
        matches!(self, StepState::Blocked { .. })
    }
}

/// A conversation with an agent's client, over one or more attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The client's id of it.
    pub id: String,
    /// Number of attempts in it.
    pub turns: u32,
    /// Usage of these attempts together.
    pub used: Usage,
    /// The last claim in it; empty if there is none.
    pub claim: String,
}

impl Conversation {
    /// Returns the session after one more attempt.
    pub(super) fn after(before: Option<Self>, id: &str, usage: &Usage) -> Self {
        match before.filter(|before| before.id == id) {
            Some(before) => Self { turns: before.turns + 1, used: before.used.and(usage), ..before },
            None => Self { id: id.to_owned(), turns: 1, used: usage.clone(), claim: String::new() },
        }
    }
}

/// A wait recorded in the log: after a restart provost waits only for the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub until: Timestamp,
    pub whole_ms: u64,
}

impl Wait {
    /// Returns whether the wait is over. If more is left than the whole wait, the clock was set back; then it
    /// counts as over.
    pub fn over(self, now: Timestamp) -> bool {
        let left = self.until.0.saturating_sub(now.0);
        left == 0 || left > self.whole_ms
    }
}
