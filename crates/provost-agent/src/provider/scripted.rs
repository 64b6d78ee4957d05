//! A mock model that follows a script, for tests and experiments with the loop.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use provost_core::model::usage::Usage;
use serde_json::Value;

use crate::Future;
use crate::provider::{Ask, Failure, Listener, Piece, Provider, Reply};
use crate::transcript::{Call, Message, estimate};

type Turn = Box<dyn FnMut(Ask<'_>) -> Result<Reply, Failure> + Send>;

/// Turns in order; after the last one, every further request fails.
#[derive(Default)]
pub struct ScriptedProvider {
    turns: Mutex<VecDeque<Turn>>,
    forever: Mutex<Option<Turn>>,
}

impl ScriptedProvider {
    #[must_use]
    pub fn says(self, text: &str) -> Self {
        let text = text.to_owned();
        self.answers(move |_| Ok(Reply { text: text.clone(), ..Reply::default() }))
    }

    #[must_use]
    pub fn calls(self, tool: &str, arguments: Value) -> Self {
        self.calls_all(&[(tool, arguments)])
    }

    /// Adds a turn with several calls.
    #[must_use]
    pub fn calls_all(self, calls: &[(&str, Value)]) -> Self {
        let calls: Vec<(String, Value)> =
            calls.iter().map(|(tool, arguments)| ((*tool).to_owned(), arguments.clone())).collect();
        self.answers(move |ask| {
            let calls = calls.iter().zip(0..).map(|((tool, arguments), index): (_, usize)| Call {
                id: format!("t{}-{index}", ask.messages.len()),
                tool: tool.clone(),
                arguments: arguments.clone(),
            });
            Ok(Reply { calls: calls.collect(), ..Reply::default() })
        })
    }

    #[must_use]
    pub fn fails(self, failure: Failure) -> Self {
        self.answers(move |_| Err(failure.clone()))
    }

    /// Adds a turn that can inspect the request before it answers.
    #[must_use]
    pub fn answers(self, turn: impl FnMut(Ask<'_>) -> Result<Reply, Failure> + Send + 'static) -> Self {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(turn));
        self
    }

    /// Sets the answer to all further requests after the last turn.
    #[must_use]
    pub fn forever(self, turn: impl FnMut(Ask<'_>) -> Result<Reply, Failure> + Send + 'static) -> Self {
        *self.forever.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(turn));
        self
    }

    fn turn(&self, ask: Ask<'_>) -> Result<Reply, Failure> {
        let next = self.turns.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(mut turn) = next {
            return turn(ask);
        }
        match &mut *self.forever.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(turn) => turn(ask),
            None => Err(Failure::Rejected { status: 400, message: "the script is over".to_owned() }),
        }
    }
}

impl Provider for ScriptedProvider {
    fn model(&self) -> &str {
        "scripted"
    }

    fn answer<'a>(&'a self, ask: Ask<'a>, hear: Listener<'a>) -> Future<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            let mut reply = self.turn(ask)?;
            if !reply.text.is_empty() {
                hear(Piece::Text(&reply.text));
            }
            if reply.usage.is_unknown() {
                let read: usize = ask.messages.iter().map(Message::size).sum();
                reply.usage.input_tokens = Some(estimate(read + ask.system.len()) as u64);
                reply.usage.output_tokens = Some(estimate(reply.text.len()) as u64);
            }
            Ok(Reply { usage: Usage { calls: Some(1), ..reply.usage }, ..reply })
        })
    }
}
