//! Parts of the events about attempts: how one began, how it ended, what it left.

use serde::{Deserialize, Serialize};

use super::none;
use crate::model::plan::StepNumber;
use crate::model::usage::Usage;

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
    /// What the agent asked for, and only a person can allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
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
    /// SHA-256 of the transcript, which stays in the state folder of the machine that ran the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
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
            asks: None,
            published: Vec::new(),
            rewrites: Vec::new(),
            carried: None,
            start: None,
            left: None,
            outside: Vec::new(),
            transcript: None,
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
    /// The start of an attempt that worked beside others. Its changes are judged together with what has passed
    /// since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<BesideStart>,
}

/// What an attempt began with that worked beside others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BesideStart {
    /// The tree that had passed; `None` for the approved one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<String>,
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
                format!("the agent exceeded a limit and was ended: {reason}")
            }
            AttemptEnd::PlanFailed { plan, reason } => format!("the plan {plan} failed: {reason}"),
            AttemptEnd::PlanWaits { plan, reason } => format!("the plan {plan} waits: {reason}"),
            AttemptEnd::PlanStopped { plan } => {
                format!("the plan {plan} was stopped because the budget of the step was used up")
            }
        }
    }
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
