//! The conversation between the loop and the model, independent of the provider.
//!
//! Each message knows its approximate size in bytes, so the total size is known without reading everything.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// One tool call, as the model requested it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The provider's id of the call; results are returned with it.
    pub id: String,
    pub tool: String,
    /// An object, or the text if it was not JSON.
    pub arguments: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The provider's id of the call.
    pub id: String,
    /// The call's number in the run, for citations.
    pub call: u64,
    pub tool: String,
    pub text: String,
    pub failed: bool,
}

#[derive(Clone, Debug)]
pub enum Message {
    User(String),
    Assistant { text: String, calls: Vec<Call>, replay: Option<Replay> },
    Results(Vec<ToolResult>),
}

/// A turn of the model in the form that its provider needs back, including signatures of reasoning. Only
/// the provider that made it can read it.
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

/// Estimates tokens; the provider's counts correct it later.
pub(crate) fn estimate(characters: usize) -> usize {
    // 3.5 bytes per token.
    characters * 2 / 7
}

impl Message {
    /// Returns the size in bytes, with a small overhead for the structure.
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

/// Estimates the length of the JSON without writing it.
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

    /// Returns the size of all messages, in bytes.
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
