//! Parts of the events about the end of a run and of a merge train.

use serde::{Deserialize, Serialize};

use super::{Revision, none};
use crate::model::usage::Cost;

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
