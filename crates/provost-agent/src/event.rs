//! What happens in a run, told as it happens to whoever started it.

use std::time::Duration;

use crate::plan::{Answer, Status};

/// Told in order; nothing waits for whoever listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    TurnStarted {
        turn: u32,
    },
    /// A piece of what the model says, as it arrives.
    Text(String),
    /// A piece of what it thinks, where the provider shows it.
    Thought(String),
    Called {
        call: u64,
        tool: String,
        arguments: String,
    },
    Answered {
        call: u64,
        tool: String,
        failed: bool,
        characters: usize,
    },
    PlanCreated {
        steps: usize,
        postconditions: usize,
    },
    /// Allowed, and never silent.
    PlanRewritten {
        diff: Vec<String>,
    },
    StepUpdated {
        number: u64,
        status: Status,
    },
    PostconditionAnswered {
        number: u64,
        answer: Answer,
    },
    /// A final answer was not taken; each phrase names something that is open.
    FinalizationRefused {
        missing: Vec<String>,
    },
    /// The transcript was shortened; in estimated tokens.
    Compacted {
        before: usize,
        after: usize,
    },
    /// The model is asked again after a pause.
    Retrying {
        after: Duration,
        why: String,
    },
}
