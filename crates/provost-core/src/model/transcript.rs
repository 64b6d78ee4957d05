//! The transcript of an attempt in one form for all agents: text, tool calls, their results and usage.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::usage::Usage;

/// Longest summary of a call, in characters.
const SUMMARY_MAX: usize = 160;
/// Arguments that say most about a call, the most telling first.
const TELLING: [&str; 16] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "objective",
    "title",
    "description",
    "name",
    "evidence",
    "text",
];

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

/// Returns the most telling argument of a call, on one line.
pub fn call_summary(arguments: &Value) -> String {
    let text = match arguments {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        // Some clients wrap the arguments of tools of MCP servers.
        Value::Object(fields) if fields.get("arguments").is_some_and(Value::is_object) => {
            return call_summary(&fields["arguments"]);
        }
        Value::Object(fields) => match TELLING.iter().find_map(|name| words(fields.get(*name)?)) {
            Some(telling) => telling,
            None => arguments.to_string(),
        },
        other => other.to_string(),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SUMMARY_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns a text, or the words of a list of texts.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(all) if !all.is_empty() => {
            Some(all.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?.join(" "))
        }
        _ => None,
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
