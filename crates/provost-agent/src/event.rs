//! Events of an agent run, reported to the caller as they happen.

use std::time::Duration;

use serde_json::Value;

use crate::plan::{PlanAnswer, StepStatus};

/// An event of a run. Events are reported in order, by a synchronous callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    TurnStarted {
        turn: u32,
    },
    /// A piece of the model's text, as it arrives.
    Text(String),
    /// A piece of the model's reasoning, if the provider shows it.
    Thought(String),
    Called {
        call: u64,
        tool: String,
        arguments: Value,
    },
    Answered {
        call: u64,
        tool: String,
        failed: bool,
        text: String,
    },
    PlanCreated {
        steps: usize,
        postconditions: usize,
    },
    /// A rewrite is allowed, but always reported.
    PlanRewritten {
        diff: Vec<String>,
    },
    StepUpdated {
        number: u64,
        status: StepStatus,
    },
    PostconditionAnswered {
        number: u64,
        answer: PlanAnswer,
    },
    /// A final answer was refused; each text names an open item.
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
