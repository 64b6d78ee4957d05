//! The conversation between the loop and the model, independent of the provider.
//!
//! Each message knows its approximate size in bytes, so the total size is known without reading everything.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One tool call, as the model requested it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The provider's id of the call; results are returned with it.
    pub id: String,
    pub tool: String,
    /// An object, or the text if it was not JSON.
    pub arguments: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The provider's id of the call.
    pub id: String,
    /// The call's number in the run, for citations.
    pub call: u64,
    pub tool: String,
    pub text: String,
    pub failed: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    User(String),
    Assistant {
        text: String,
        calls: Vec<Call>,
        replay: Option<Replay>,
    },
    Results(Vec<ToolResult>),
    /// Images that tools showed, after their results.
    Images(Vec<ImageData>),
}

/// An image for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageData {
    /// Path inside the workspace.
    pub name: String,
    /// `image/png` or similar.
    pub content_type: String,
    /// In base64.
    #[serde(serialize_with = "write_shared", deserialize_with = "read_shared")]
    pub data: Arc<str>,
}

fn write_shared<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn read_shared<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(from).map(Arc::from)
}

/// A turn of the model in the form that its provider needs back, including signatures of reasoning. Only
/// the provider that made it can read it. A saved one is JSON, until its provider has read it
/// ([`Provider::restore`](crate::provider::Provider::restore)).
#[derive(Clone)]
pub struct Replay {
    turn: Arc<dyn Any + Send + Sync>,
    to_json: fn(&dyn Any) -> serde_json::Result<Value>,
}

impl Replay {
    pub fn new<T: Any + Send + Sync + Serialize>(turn: T) -> Self {
        let to_json = |turn: &dyn Any| serde_json::to_value(turn.downcast_ref::<T>());
        Self { turn: Arc::new(turn), to_json }
    }

    pub fn get<T: Any>(&self) -> Option<&T> {
        self.turn.downcast_ref()
    }
}

impl Serialize for Replay {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.to_json)(&*self.turn).map_err(S::Error::custom)?.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Replay {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::new)
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
        // About 1,600 tokens; the bytes of an image say little about it.
        const IMAGE: usize = 5600;
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
                Message::Images(images) => images.len() * IMAGE,
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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<Message>")]
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

    /// Replaces all images by a note, for a model that cannot see. Returns whether there were some.
    pub(crate) fn forget_images(&mut self) -> bool {
        let mut messages = std::mem::take(&mut self.messages);
        let mut has_some = false;
        for message in messages.iter_mut().filter(|message| matches!(message, Message::Images(_))) {
            has_some = true;
            *message = Message::User(include_str!("prompt/no_images.md").trim_end().to_owned());
        }
        self.replace(messages);
        has_some
    }

    /// Gives each turn back the form that its provider needs; `read` returns it from what was saved.
    pub(crate) fn restore(&mut self, read: impl Fn(&Replay) -> Option<Replay>) {
        for message in &mut self.messages {
            if let Message::Assistant { replay, .. } = message {
                *replay = replay.as_ref().and_then(&read);
            }
        }
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

impl From<Vec<Message>> for Transcript {
    fn from(messages: Vec<Message>) -> Self {
        let mut transcript = Self::default();
        transcript.extend(messages);
        transcript
    }
}

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.messages.serialize(to)
    }
}
