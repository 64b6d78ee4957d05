//! The transcript of an attempt in one form for all agents: text, tool calls, their results and usage.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::usage::Usage;

/// One entry of a transcript. Its JSON is one line of the file and of `provost log --transcript --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TranscriptEntry {
    /// What the agent or its client wrote. Texts that follow each other are one text.
    Text { text: String },
    ToolCall {
        /// The client's id of the call; its result has the same.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        id: String,
        name: String,
        /// The most telling argument, on one line.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        summary: String,
        /// All arguments; a text if they were too long.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        arguments: Value,
    },
    ToolResult {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        id: String,
        ok: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// What the agent used in this attempt, as its client reports it.
    Usage(Usage),
    /// provost left something out here, because the transcript was too long.
    Omitted { entries: u64, bytes: u64 },
}

impl TranscriptEntry {
    /// Returns the bytes of its texts, for limits.
    pub fn size(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::ToolCall { name, summary, arguments, .. } => name.len() + summary.len() + weight(arguments),
            Self::ToolResult { text, .. } => text.len(),
            Self::Usage(_) | Self::Omitted { .. } => 0,
        }
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
    }
}

/// Joins texts that follow each other.
pub fn joined(entries: impl IntoIterator<Item = TranscriptEntry>) -> Vec<TranscriptEntry> {
    let mut all: Vec<TranscriptEntry> = Vec::new();
    for entry in entries {
        match (all.last_mut(), entry) {
            (Some(TranscriptEntry::Text { text }), TranscriptEntry::Text { text: more }) => {
                text.push_str(&more)
            }
            (_, entry) => all.push(entry),
        }
    }
    all
}
