//! What was said between the loop and the model, in the words of no particular provider.
//!
//! Each message knows about how many tokens it is, so that the size of the whole is known without
//! reading it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// One call of a tool, as the model asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The provider's name for it; results go back under it.
    pub id: String,
    pub tool: String,
    /// An object, or the text that was no JSON.
    pub arguments: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The provider's name of the call.
    pub id: String,
    /// Ours, for citations.
    pub call: u64,
    pub tool: String,
    pub text: String,
    pub failed: bool,
}

#[derive(Clone, Debug)]
pub enum Message {
    User(String),
    Assistant { text: String, calls: Vec<Call>, replay: Option<Replay> },
    Results(Vec<Answered>),
}

/// A turn of the model as its provider wants it back, signatures of thoughts included. Only the
/// provider that made it can read it.
#[derive(Clone)]
pub struct Replay(Arc<dyn Any + Send + Sync>);

impl Replay {
    pub fn new(turn: impl Any + Send + Sync) -> Self {
        Self(Arc::new(turn))
    }

    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Replay")
    }
}

/// Roughly; what providers count later corrects it.
pub(crate) fn estimate(characters: usize) -> usize {
    // 3.5 bytes a token.
    characters * 2 / 7
}

impl Message {
    /// Bytes that count, with a little for what holds them together.
    pub fn size(&self) -> usize {
        const AROUND: usize = 16;
        AROUND
            + match self {
                Message::User(text) => text.len(),
                Message::Assistant { text, calls, .. } => {
                    let call =
                        |call: &Call| AROUND + call.tool.len() + call.id.len() + length(&call.arguments);
                    text.len() + calls.iter().map(call).sum::<usize>()
                }
                Message::Results(results) => {
                    results.iter().map(|result| AROUND + result.id.len() + result.text.len()).sum()
                }
            }
    }
}

/// Of the JSON, without writing it.
fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + length(item)).sum::<usize>(),
        Value::Object(entries) => {
            2 + entries.iter().map(|(key, value)| 4 + key.len() + length(value)).sum::<usize>()
        }
    }
}

/// The messages of a run and their size.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    messages: Vec<Message>,
    size: usize,
}

impl Transcript {
    pub fn push(&mut self, message: Message) {
        self.size += message.size();
        self.messages.push(message);
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// In bytes, of all messages.
    pub fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn replace(&mut self, messages: Vec<Message>) {
        *self = Self::default();
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl Extend<Message> for Transcript {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}
