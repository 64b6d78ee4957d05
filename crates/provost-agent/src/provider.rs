//! Sources of answers: a model behind an API, or a script.
//!
//! The loop asks a provider once per turn, with everything that the model should know. The provider reports
//! each piece of the answer as it arrives, and returns the whole. To cancel it, drop its future.

pub mod api;
pub mod scripted;
pub mod text_tools;

use std::time::Duration;

use provost_core::model::usage::Usage;

use crate::Future;
use crate::tool::Spec;
use crate::transcript::{Call, Message, Replay};

/// A piece of an answer, reported at once, on the thread that read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    Thought(&'a str),
}

pub type Listener<'a> = &'a mut (dyn FnMut(Piece<'_>) + Send);

pub trait Provider: Send + Sync {
    /// Returns the model, by its provider's name for it.
    fn model(&self) -> &str;

    /// Reads a turn of this model that was saved; `None` if it can be sent as plain text and calls.
    fn restore(&self, saved: &Replay) -> Option<Replay> {
        let _ = saved;
        None
    }

    fn answer<'a>(&'a self, ask: Ask<'a>, hear: Listener<'a>) -> Future<'a, Result<Reply, Failure>>;
}

/// Everything that the model gets for one turn.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub system: &'a str,
    pub tools: &'a [Spec],
    pub messages: &'a [Message],
    /// Most tokens of the answer.
    pub max_output_tokens: u32,
}

/// One turn of the model.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub text: String,
    pub calls: Vec<Call>,
    /// The answer reached the token limit.
    pub cut: bool,
    pub usage: Usage,
    pub replay: Option<Replay>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the model's API refused the key (HTTP {status}): {message}")]
    Unauthorized { status: u16, message: String },
    #[error("the model's API asks to wait (HTTP {status}): {message}{}", after(.retry_after))]
    Busy { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the model's API reported a server error (HTTP {status}): {message}")]
    Server { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the conversation is longer than the model's context: {message}")]
    TooLong { message: String },
    #[error("the model's API did not accept the request (HTTP {status}): {message}")]
    Rejected { status: u16, message: String },
    #[error("the model's API could not be reached: {message}")]
    Unreachable { message: String },
    #[error("the connection was lost in the middle of an answer: {message}")]
    Cut { message: String },
    #[error("the connection was broken: the model's API sent an invalid response: {message}")]
    Malformed { message: String },
}

/// Formats the pause in the common form, so that a reader knows when to retry.
fn after(retry_after: &Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!("; retry-after: {}", wait.as_secs()))
}

impl Failure {
    /// Returns whether a retry of the same request may succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Failure::Busy { .. }
            | Failure::Server { .. }
            | Failure::Unreachable { .. }
            | Failure::Cut { .. }
            | Failure::Malformed { .. } => true,
            Failure::Unauthorized { .. } | Failure::TooLong { .. } | Failure::Rejected { .. } => false,
        }
    }

    /// Returns the pause that the API asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Busy { retry_after, .. } | Failure::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// How often, and after which pauses, the model is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The pause after the first failure, the second, and so on.
    pub pauses: Vec<Duration>,
    /// Longest pause; if the API asks for more, the run fails, because the caller can use the time better.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { pauses: [1, 2, 4, 8].map(Duration::from_secs).to_vec(), longest: Duration::from_secs(60) }
    }
}

impl Patience {
    /// Returns the pause before the next try, if there is one.
    pub(crate) fn pause(&self, failures: usize, failure: &Failure) -> Option<Duration> {
        if !failure.is_passing() {
            return None;
        }
        let usual = self.pauses.get(failures)?;
        let pause = failure.retry_after().map_or(*usual, |asked| asked.max(*usual));
        (pause <= self.longest).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_listens_to_the_other_side_and_has_an_end() {
        let patience = Patience::default();
        let busy = |seconds: Option<u64>| Failure::Busy {
            status: 429,
            message: "slow down".to_owned(),
            retry_after: seconds.map(Duration::from_secs),
        };
        let seconds = |failures, failure: &Failure| patience.pause(failures, failure).map(|p| p.as_secs());
        assert_eq!(seconds(0, &busy(None)), Some(1));
        assert_eq!(seconds(3, &busy(None)), Some(8));
        assert_eq!(seconds(4, &busy(None)), None);
        assert_eq!(seconds(0, &busy(Some(30))), Some(30));
        assert_eq!(seconds(0, &busy(Some(3600))), None);
        assert_eq!(seconds(0, &Failure::Unauthorized { status: 401, message: String::new() }), None);
        assert!(busy(Some(7)).to_string().ends_with("; retry-after: 7"));
    }
}
