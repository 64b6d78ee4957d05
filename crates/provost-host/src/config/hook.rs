//! Reads `[hook]`: how the stop hook keeps sessions of other clients working until their plan is done.

use std::time::Duration;

use serde::Deserialize;

use super::values::{integer, time};

/// Longest wait of a hook, in seconds. `provost init` allows hooks of clients 600 s; the rest is for the answer.
const LONGEST: u64 = 590;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct Hook {
    /// How often a session without progress is sent back before provost asks a person.
    #[serde(deserialize_with = "integer::<_, u32, _, 1, 1000>")]
    pub refusals: u32,
    /// The active plan of the folder holds every session there, also one that did not take it.
    pub capture: bool,
    /// A session without a plan may not stop either; the active plan of the folder counts as its plan.
    pub require_plan: bool,
    /// How long a hook waits for checks before it reports that they are still running.
    #[serde(deserialize_with = "time::<_, _, LONGEST>")]
    pub patience: Duration,
}

impl Default for Hook {
    fn default() -> Self {
        Self { refusals: 5, capture: false, require_plan: false, patience: Duration::from_secs(LONGEST) }
    }
}
