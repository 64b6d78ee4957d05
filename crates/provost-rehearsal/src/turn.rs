//! One answer of the model: what it says, what it calls, what it used, and how it fails.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    pub text: Option<String>,
    /// Said before the text, as thinking, where the dialect has it.
    pub thinking: Option<String>,
    /// It declines; the dialect's own way of saying so.
    pub refusal: Option<String>,
    /// All in one answer.
    #[serde(rename = "do")]
    pub calls: Vec<Call>,
    pub usage: Option<Usage>,
    /// Why it stops; by itself it stops for its calls, or at its end.
    pub stop: Option<Stop>,
    /// What the newest message must hold when this turn is due.
    pub expect: Vec<String>,
    /// Before the first byte.
    pub delay_ms: u64,
    /// Half of it is sent, and the rest when somebody says [`crate::Rehearsal::release`].
    pub held: bool,
    /// Sent a few bytes at a time, wherever they end.
    pub dribbled: bool,
    pub fault: Option<Fault>,
}

/// A tool call. All but `tool` are found among the tools the request offers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a call is `{ tool, input }`, `{ tool, raw }`, `{ mcp, input }`, `{ write, content }`, \
                 `{ shell }` or `{ search }`"
)]
pub enum Call {
    /// Arguments as they stand, which need not be JSON.
    Raw { tool: String, raw: String },
    Tool {
        tool: String,
        #[serde(default = "nothing")]
        input: Value,
    },
    /// A tool of an MCP server, however the client spells it.
    Mcp {
        mcp: String,
        #[serde(default = "nothing")]
        input: Value,
    },
    /// The client's way to write a file.
    Write { write: String, content: String },
    /// The client's shell.
    Shell { shell: String },
    /// The client's search among tools it has not offered yet.
    Search { search: String },
}

fn nothing() -> Value {
    Value::Object(serde_json::Map::new())
}

/// Tokens, counted as provost counts them: the input holds what came from a cache or went into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// Of the output, what was thinking.
    pub thinking: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    End,
    Tools,
    MaxTokens,
    Refusal,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An error instead of an answer.
    Status(Failure),
    /// An error after half of the answer, inside its stream.
    InStream(Failure),
    /// The dialect's error for a prompt that does not fit the model's window.
    TooLong,
    /// The connection breaks after half of the answer.
    Cut,
    /// The connection breaks before the first byte.
    HangUp,
    /// Half of the stream, then what is no stream of this dialect.
    Garbage,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub status: u16,
    #[serde(default)]
    pub message: Option<String>,
    /// As the dialect calls it: `overloaded_error`, `insufficient_quota`, `RESOURCE_EXHAUSTED`.
    #[serde(default)]
    pub kind: Option<String>,
    /// `retry-after`, `retry-after-ms`, `anthropic-ratelimit-…`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Instead of the dialect's own form of an error.
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

    /// Arguments that are not what they should be.
    pub fn raw_call(tool: impl Into<String>, raw: impl Into<String>) -> Self {
        Self::calls([Call::Raw { tool: tool.into(), raw: raw.into() }])
    }

    pub fn calls(calls: impl IntoIterator<Item = Call>) -> Self {
        Self { calls: calls.into_iter().collect(), ..Self::default() }
    }

    pub fn refusal(words: impl Into<String>) -> Self {
        Self { refusal: Some(words.into()), ..Self::default() }
    }

    pub fn status(status: u16) -> Self {
        Self::fault(Fault::Status(Failure { status, ..Failure::default() }))
    }

    pub fn fault(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// One more, in the same answer.
    #[must_use]
    pub fn and_call(mut self, tool: impl Into<String>, input: Value) -> Self {
        self.calls.push(Call::Tool { tool: tool.into(), input });
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
        self.usage = Some(Usage { input, output, ..Usage::default() });
        self
    }

    /// Of the input that was given with [`Turn::using`].
    #[must_use]
    pub fn cached(mut self, cache_read: u64, cache_write: u64) -> Self {
        let used = self.usage.get_or_insert_default();
        (used.cache_read, used.cache_write) = (cache_read, cache_write);
        self
    }

    #[must_use]
    pub fn stopping(mut self, stop: Stop) -> Self {
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

    /// A header of the error this turn is.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Some(Fault::Status(failure)) = &mut self.fault {
            failure.headers.insert(name.into(), value.into());
        }
        self
    }

    /// What the error this turn is says.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        if let Some(Fault::Status(failure) | Fault::InStream(failure)) = &mut self.fault {
            failure.message = Some(message.into());
        }
        self
    }

    /// All it says, whatever it is: the measure of its output where no usage is given.
    pub(crate) fn length(&self) -> u64 {
        let parts = [&self.text, &self.thinking, &self.refusal];
        let said: usize = parts.into_iter().flatten().map(String::len).sum();
        let called: usize = self.calls.iter().map(|call| format!("{call:?}").len()).sum();
        u64::try_from(said + called).unwrap_or(u64::MAX)
    }
}

impl Call {
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

/// A call as the answer holds it.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub name: String,
    pub namespace: Option<String>,
    pub form: Form,
}

#[derive(Clone, Debug)]
pub(crate) enum Form {
    Json(Value),
    /// Arguments as they stand, which need not be JSON.
    Raw(String),
    /// A tool that takes text instead of JSON.
    Freeform(String),
    /// The Responses API's search among deferred tools, carried out by the client.
    Search(Value),
}
