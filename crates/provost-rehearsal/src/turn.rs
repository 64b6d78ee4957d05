//! One answer of the mock model: its text, tool calls, usage and faults.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    pub text: Option<String>,
    /// Reasoning before the text, if the API has it.
    pub thinking: Option<String>,
    /// The model refuses, in the API's own way.
    pub refusal: Option<String>,
    /// Tool calls, all in one answer.
    #[serde(rename = "do")]
    pub calls: Vec<ScriptedCall>,
    pub usage: Option<ScriptedUsage>,
    /// The stop reason; by default it follows from the calls and the refusal.
    pub stop: Option<StopReason>,
    /// Texts that the newest message must contain when this turn is used.
    pub expect: Vec<String>,
    /// Delay before the first byte.
    pub delay_ms: u64,
    /// Sends half of a stream, or nothing of a whole answer, until [`crate::Rehearsal::release`] is called.
    pub held: bool,
    /// Sends a few bytes at a time, without regard to event boundaries.
    pub dribbled: bool,
    pub fault: Option<Fault>,
}

/// A tool call. All kinds except `tool` are looked up among the tools that the request offers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a call is `{ tool, input }`, `{ tool, raw }`, `{ mcp, input }`, `{ write, content }`, \
                 `{ shell }` or `{ search }`"
)]
pub enum ScriptedCall {
    /// Arguments as they are, which need not be JSON.
    Raw { tool: String, raw: String },
    Tool {
        tool: String,
        #[serde(default = "nothing")]
        input: Value,
    },
    /// A tool of an MCP server, whatever name the client gives it.
    Mcp {
        mcp: String,
        #[serde(default = "nothing")]
        input: Value,
    },
    /// The client's tool to write a file.
    Write { write: String, content: String },
    /// The client's shell tool.
    Shell { shell: String },
    /// The client's search for tools that it has not offered yet.
    Search { search: String },
}

fn nothing() -> Value {
    Value::Object(serde_json::Map::new())
}

/// Tokens, counted as provost counts them: the input includes tokens read from or written to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// The part of the output that was reasoning.
    pub thinking: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    End,
    Tools,
    MaxTokens,
    Refusal,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An error instead of an answer.
    Status(ApiFailure),
    /// An error after half of the answer, inside its stream.
    InStream(ApiFailure),
    /// The API's error for a prompt that does not fit the model's window.
    TooLong,
    /// The connection breaks after half of the answer.
    Cut,
    /// The connection breaks before the first byte.
    HangUp,
    /// Half of the stream, then bytes that are not valid in this API.
    Garbage,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiFailure {
    pub status: u16,
    #[serde(default)]
    pub message: Option<String>,
    /// The API's name for it: `overloaded_error`, `insufficient_quota`, `RESOURCE_EXHAUSTED`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Headers such as `retry-after`, `retry-after-ms`, `anthropic-ratelimit-…`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A body in place of the API's own error format.
    #[serde(default)]
    pub body: Option<String>,
}

impl Turn {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    pub fn call(tool: impl Into<String>, input: Value) -> Self {
        Self::default().and_call(tool, input)
    }

    /// Creates a turn with invalid arguments.
    pub fn raw_call(tool: impl Into<String>, raw: impl Into<String>) -> Self {
        Self::calls([ScriptedCall::Raw { tool: tool.into(), raw: raw.into() }])
    }

    pub fn calls(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        Self { calls: calls.into_iter().collect(), ..Self::default() }
    }

    pub fn refusal(words: impl Into<String>) -> Self {
        Self { refusal: Some(words.into()), ..Self::default() }
    }

    pub fn status(status: u16) -> Self {
        Self::fault(Fault::Status(ApiFailure { status, ..ApiFailure::default() }))
    }

    pub fn fault(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// Adds a call to the same answer.
    #[must_use]
    pub fn and_call(mut self, tool: impl Into<String>, input: Value) -> Self {
        self.calls.push(ScriptedCall::Tool { tool: tool.into(), input });
        self
    }

    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    #[must_use]
    pub fn thinking(mut self, thoughts: impl Into<String>) -> Self {
        self.thinking = Some(thoughts.into());
        self
    }

    #[must_use]
    pub fn using(mut self, input: u64, output: u64) -> Self {
        self.usage = Some(ScriptedUsage { input, output, ..ScriptedUsage::default() });
        self
    }

    /// Sets the cached part of the input given with [`Turn::using`].
    #[must_use]
    pub fn cached(mut self, cache_read: u64, cache_write: u64) -> Self {
        let used = self.usage.get_or_insert_default();
        (used.cache_read, used.cache_write) = (cache_read, cache_write);
        self
    }

    #[must_use]
    pub fn stopping(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    #[must_use]
    pub fn expecting(mut self, text: impl Into<String>) -> Self {
        self.expect.push(text.into());
        self
    }

    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self
    }

    #[must_use]
    pub fn held(mut self) -> Self {
        self.held = true;
        self
    }

    #[must_use]
    pub fn dribbled(mut self) -> Self {
        self.dribbled = true;
        self
    }

    #[must_use]
    pub fn failing(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Adds a header to this turn's error.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Some(Fault::Status(failure)) = &mut self.fault {
            failure.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Sets the message of this turn's error.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        if let Some(Fault::Status(failure) | Fault::InStream(failure)) = &mut self.fault {
            failure.message = Some(message.into());
        }
        self
    }

    /// Returns the length of everything it says, to estimate the output if no usage is given.
    pub(crate) fn length(&self) -> u64 {
        let parts = [&self.text, &self.thinking, &self.refusal];
        let said: usize = parts.into_iter().flatten().map(String::len).sum();
        let called: usize = self.calls.iter().map(|call| format!("{call:?}").len()).sum();
        u64::try_from(said + called).unwrap_or(u64::MAX)
    }
}

impl ScriptedCall {
    pub fn tool(tool: impl Into<String>, input: Value) -> Self {
        Self::Tool { tool: tool.into(), input }
    }

    pub fn mcp(mcp: impl Into<String>, input: Value) -> Self {
        Self::Mcp { mcp: mcp.into(), input }
    }

    pub fn write(write: impl Into<String>, content: impl Into<String>) -> Self {
        Self::Write { write: write.into(), content: content.into() }
    }

    pub fn shell(shell: impl Into<String>) -> Self {
        Self::Shell { shell: shell.into() }
    }
}

/// A call as it is written in the answer.
#[derive(Clone, Debug)]
pub(crate) struct WrittenCall {
    pub name: String,
    pub namespace: Option<String>,
    pub form: Form,
}

#[derive(Clone, Debug)]
pub(crate) enum Form {
    Json(Value),
    /// Arguments as they are, which need not be JSON.
    Raw(String),
    /// Text for a tool that takes text instead of JSON.
    Freeform(String),
    /// The Responses API's search for deferred tools, which the client carries out.
    Search(Value),
}
