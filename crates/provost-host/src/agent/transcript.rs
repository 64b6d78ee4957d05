//! Turns what agents print into the entries of a transcript, as it arrives: one file per client.
//!
//! A client's message that has no entry is left out; what is no message of the client is text.
//!
//! **Invariant:** no output makes it fail, and memory stays bounded.

use provost_core::model::transcript::{TranscriptEntry, call_summary};
use provost_core::model::usage::Usage;
use serde_json::Value;

mod acp;
mod claude;
mod codex;
mod gemini;
mod opencode;
mod own;
#[cfg(test)]
mod tests;

pub(super) use acp::AcpEntries;
pub(super) use claude::entries as claude;
pub(super) use codex::entries as codex;
pub(super) use gemini::entries as gemini;
pub(super) use opencode::entries as opencode;
pub(super) use own::{OwnEntries, readable};

/// Receives the entries of a transcript, as they arrive.
pub type Ear<'a> = &'a (dyn Fn(TranscriptEntry) + Sync + 'a);

/// Longest result or arguments of a tool, in bytes; longer ones are cut in the middle.
const TEXT_MAX: usize = 16 * 1024;
/// Longest text in the arguments of a call, in bytes.
const ARGUMENT_MAX: usize = 4 * 1024;
/// Longest line of plain text that is held until it ends, in bytes.
const LINE_MAX: usize = 64 * 1024;
const NAME_MAX: usize = 100;

/// Passes entries on, and keeps each message on lines of its own.
pub(super) struct EntrySink<'a> {
    ear: Option<Ear<'a>>,
    /// The last text had no newline at its end.
    is_open: bool,
}

impl<'a> EntrySink<'a> {
    pub(super) fn new(ear: Option<Ear<'a>>) -> Self {
        Self { ear, is_open: false }
    }

    /// Returns whether the entries have no reader; the driver then skips parsing.
    pub(super) fn has_no_reader(&self) -> bool {
        self.ear.is_none()
    }

    /// Adds a part of a message.
    pub(super) fn chunk(&mut self, text: &str) {
        if !text.is_empty() {
            self.is_open = !text.ends_with('\n');
            self.pass(TranscriptEntry::Text { text: text.to_owned() });
        }
    }

    /// Ends the message whose parts were added.
    pub(super) fn close(&mut self) {
        if self.is_open {
            self.chunk("\n");
        }
    }

    /// Adds a whole message.
    pub(super) fn message(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        self.close();
        self.chunk(&format!("{}\n", text.trim_end()));
    }

    /// Adds an error that the client reports.
    pub(super) fn error(&mut self, text: &str) {
        self.message(&format!("error: {text}"));
    }

    pub(super) fn call(&mut self, id: &str, name: &str, arguments: &Value) {
        self.close();
        self.pass(TranscriptEntry::ToolCall {
            id: id.chars().take(NAME_MAX).collect(),
            name: name.chars().take(NAME_MAX).collect(),
            summary: call_summary(arguments),
            arguments: bounded(arguments),
        });
    }

    pub(super) fn result(&mut self, id: &str, ok: bool, text: &str) {
        self.close();
        let id = id.chars().take(NAME_MAX).collect();
        self.pass(TranscriptEntry::ToolResult { id, ok, text: middle(text, TEXT_MAX) });
    }

    pub(super) fn usage(&mut self, usage: &Usage) {
        if !usage.is_unknown() {
            self.close();
            self.pass(TranscriptEntry::Usage(usage.clone()));
        }
    }

    /// Passes on an entry that the agent made itself.
    pub(super) fn entry(&mut self, entry: TranscriptEntry) {
        match entry {
            TranscriptEntry::Text { text } => self.chunk(&text),
            TranscriptEntry::ToolCall { id, name, arguments, .. } => self.call(&id, &name, &arguments),
            TranscriptEntry::ToolResult { id, ok, text } => self.result(&id, ok, &text),
            // provost counts these itself.
            TranscriptEntry::Usage(_) | TranscriptEntry::Omitted { .. } => {}
        }
    }

    fn pass(&self, entry: TranscriptEntry) {
        self.ear.inspect(|ear| ear(entry));
    }
}

/// Plain text, passed on line by line: a line that is cut could hide a secret from the redaction.
#[derive(Default)]
pub(super) struct TextLines(Vec<u8>);

impl TextLines {
    pub(super) fn take(&mut self, chunk: &[u8], sink: &mut EntrySink<'_>) {
        if sink.has_no_reader() {
            return;
        }
        let end = chunk.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if end > 0 {
            self.0.extend_from_slice(&chunk[..end]);
            self.pass_on(sink);
        }
        self.0.extend_from_slice(&chunk[end..]);
        if self.0.len() > LINE_MAX {
            self.pass_on(sink);
        }
    }

    /// Passes on what is left of the last line.
    pub(super) fn pass_on(&mut self, sink: &mut EntrySink<'_>) {
        if !self.0.is_empty() {
            sink.close();
            sink.chunk(&String::from_utf8_lossy(&self.0));
            self.0.clear();
        }
    }
}

/// Returns the arguments with long texts cut; as one text if they are still too long.
fn bounded(arguments: &Value) -> Value {
    let cut = shortened(arguments);
    let text = cut.to_string();
    if text.len() <= TEXT_MAX { cut } else { Value::String(middle(&text, TEXT_MAX)) }
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(middle(text, ARGUMENT_MAX)),
        Value::Array(values) => values.iter().map(shortened).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shortened(value))).collect()
        }
        other => other.clone(),
    }
}

/// Returns the beginning and the end of a text that is longer than `most` bytes.
fn middle(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut head = most / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - most / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Returns the text of a result: a text, or a list of parts that have one.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |part: &Value| match part["text"].as_str().or(part["content"]["text"].as_str()) {
                Some(text) => text.to_owned(),
                None => format!("[{}]", part["type"].as_str().unwrap_or("something without text")),
            };
            parts.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns what a client says about an error.
pub(super) fn error_text(error: &Value) -> String {
    let words = error.as_str().or(error["message"].as_str()).or(error["name"].as_str());
    words.unwrap_or("the client reports an error").to_owned()
}
