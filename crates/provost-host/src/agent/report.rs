//! Parses what an agent's client prints: the last message, the usage, and errors of clients that exit with
//! 0.
//!
//! A JSON stream can be far larger than the output that provost keeps, so it is parsed line by line as it
//! arrives. Lines that cannot be parsed are ignored; an output without a parsed report counts as plain
//! text.
//!
//! **Invariant:** no output makes a reader fail, and memory stays bounded.
//! **Invariant:** a usage count is known only if the client reported it for the whole attempt.

use provost_core::model::usage::Usage;
use serde_json::Value;

mod counting;

use counting::{Calls, claude_message, claude_usage, gemini_usage, turn_tokens};

use super::transcript::{self, Ear, EntrySink, OwnEntries, TextLines, error_text};
use crate::config::Speaks;

/// Longest line that is parsed, in bytes; a longer one is skipped.
const LINE_MAX: usize = 8 << 20;
/// Longest text that is kept of what the agent said since its last tool call, in bytes.
const WORDS_MAX: usize = 256 * 1024;

/// Largest count that is believed; no attempt uses that much.
const COUNT_MAX: u64 = 1_000_000_000_000;
const NAME_MAX: usize = 100;
const REWRITES_MAX: usize = 20;
const REWRITE_MAX: usize = 2000;

impl Speaks {
    /// Returns the usage of one turn in a conversation that had used `before`. Some clients count from the
    /// start of the conversation.
    pub fn since(self, before: &Usage, heard: &ParsedReport) -> Usage {
        let told = &heard.usage;
        let goes_on = match self {
            Speaks::Codex => true,
            // Some versions count the whole conversation in their numbers by model, others do not.
            Speaks::Claude => {
                let both = before.tokens().zip(heard.turn_tokens).map(|(before, turn)| before + turn);
                told.tokens().zip(both).is_some_and(|(told, both)| told >= both)
            }
            Speaks::Text | Speaks::Json | Speaks::Gemini | Speaks::Opencode => false,
        };
        match goes_on {
            true => Usage { calls: told.calls, ..told.less(before) },
            false => told.clone(),
        }
    }
}

/// Returns whether a conversation's id is safe for the log and for a command line.
pub fn is_session(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() <= NAME_MAX && name.bytes().all(fits) && name.bytes().next().is_some_and(|first| first != b'-')
}

/// The parsed output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedReport {
    /// The last message, if the format has a field for it.
    pub report: Option<String>,
    pub usage: Usage,
    /// Tokens of this turn alone, if the client reports them separately.
    pub turn_tokens: Option<u64>,
    /// The conversation's id, if its client can continue it.
    pub session: Option<String>,
    /// The error that the client reported.
    pub failure: Option<String>,
    /// The last line was a report for provost and is no part of the text.
    pub last_line_is_ours: bool,
    /// Each change that the agent made to its own plan.
    pub rewrites: Vec<String>,
}

/// Parses an output as it arrives.
pub struct Reader<'a> {
    speaks: Speaks,
    /// Gets the entries of the transcript.
    sink: EntrySink<'a>,
    plain: TextLines,
    stderr: TextLines,
    own: OwnEntries,
    line: Vec<u8>,
    /// The last line that was not blank, for a format in which only that line is parsed.
    last: Vec<u8>,
    /// The current line is longer than `LINE_MAX`.
    overlong: bool,
    heard: ParsedReport,
    words: String,
    calls: Calls,
}

/// Reads a line of a client into the report, or into the transcript.
type ReadLine<'a> = fn(&mut Reader<'a>, &str, &Value);
type TellLine = fn(&str, &Value, &mut EntrySink<'_>);

impl<'a> Reader<'a> {
    /// `ear` gets the transcript.
    pub fn new(speaks: Speaks, ear: Option<Ear<'a>>) -> Self {
        Self {
            speaks,
            sink: EntrySink::new(ear),
            plain: TextLines::default(),
            stderr: TextLines::default(),
            own: OwnEntries::default(),
            line: Vec::new(),
            last: Vec::new(),
            overlong: false,
            heard: ParsedReport::default(),
            words: String::new(),
            calls: Calls::default(),
        }
    }

    pub fn take(&mut self, mut chunk: &[u8]) {
        if self.speaks == Speaks::Text {
            return self.plain.take(chunk, &mut self.sink);
        }
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.grow(&chunk[..end]);
            self.end_of_line();
            chunk = &chunk[end + 1..];
        }
        self.grow(chunk);
    }

    /// Takes what the client printed to stderr; it is text for people.
    pub fn take_stderr(&mut self, chunk: &[u8]) {
        self.stderr.take(chunk, &mut self.sink);
    }

    /// Adds the usage of the attempt to the transcript.
    pub fn tell_usage(&mut self, usage: &Usage) {
        self.sink.usage(usage);
    }

    fn grow(&mut self, bytes: &[u8]) {
        self.overlong |= self.line.len() + bytes.len() > LINE_MAX;
        if self.overlong {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let blank = !std::mem::take(&mut self.overlong) && line.iter().all(u8::is_ascii_whitespace);
        self.line = match (blank, self.speaks) {
            (true, _) => line,
            // Only the last line counts; it is parsed when the output has ended.
            (false, Speaks::Json) => {
                self.own.line(&line, &mut self.sink);
                std::mem::replace(&mut self.last, line)
            }
            (false, _) => {
                self.read(&line);
                line
            }
        };
        // Keeps the allocation.
        self.line.clear();
    }

    /// Returns what the client has reported as used so far, for clients that report each call.
    pub fn spent(&self) -> Usage {
        match self.speaks {
            Speaks::Claude | Speaks::Opencode => self.calls.so_far(),
            Speaks::Text | Speaks::Json | Speaks::Codex | Speaks::Gemini => Usage::default(),
        }
    }

    /// Ends the parsing. `by_itself`: provost did not kill the client.
    pub fn finish(&mut self, by_itself: bool) -> ParsedReport {
        if !self.line.is_empty() || self.overlong {
            self.end_of_line();
        }
        if self.speaks == Speaks::Json {
            let last = std::mem::take(&mut self.last);
            self.read(&last);
            let (is_report, report) = (self.heard.last_line_is_ours, self.heard.report.as_deref());
            std::mem::take(&mut self.own).finish(is_report, report, &mut self.sink);
        }
        self.plain.pass_on(&mut self.sink);
        self.stderr.pass_on(&mut self.sink);
        // opencode prints no final line.
        if self.speaks == Speaks::Opencode && by_itself {
            self.heard.usage = self.calls.opencode();
        }
        let mut heard = std::mem::take(&mut self.heard);
        heard.usage = believable(heard.usage);
        if heard.report.is_none() && !self.words.trim().is_empty() {
            heard.report = Some(std::mem::take(&mut self.words));
        }
        heard
    }

    fn read(&mut self, line: &[u8]) {
        let value = serde_json::from_slice::<Value>(line).ok().filter(Value::is_object);
        match (self.speaks, value) {
            (Speaks::Json, value) => self.heard = value.and_then(own).unwrap_or_default(),
            (Speaks::Text, _) => {}
            // Not the client's format, so it is a message for people.
            (_, None) => self.sink.message(&String::from_utf8_lossy(line)),
            (speaks, Some(value)) => {
                let kind = value["type"].as_str().unwrap_or_default();
                let (read, entries): (ReadLine<'a>, TellLine) = match speaks {
                    Speaks::Claude => (Self::claude, transcript::claude),
                    Speaks::Codex => (Self::codex, transcript::codex),
                    Speaks::Gemini => (Self::gemini, transcript::gemini),
                    Speaks::Opencode => (Self::opencode, transcript::opencode),
                    Speaks::Text | Speaks::Json => return,
                };
                read(self, kind, &value);
                if !self.sink.has_no_reader() {
                    entries(kind, &value, &mut self.sink);
                }
            }
        }
    }

    fn named(&mut self, session: &Value) {
        if let Some(name) = session.as_str().filter(|name| is_session(name)) {
            self.heard.session = Some(name.to_owned());
        }
    }

    fn claude(&mut self, kind: &str, value: &Value) {
        self.named(&value["session_id"]);
        match kind {
            "assistant" => {
                let id = value["message"]["id"].as_str().unwrap_or_default();
                if id != self.calls.message {
                    self.calls.messages += 1;
                    self.calls.message = id.to_owned();
                    self.calls.next_message();
                }
                self.calls.message_usage =
                    claude_message(&value["message"]).or(self.calls.message_usage.take());
                let parts = value["message"]["content"].as_array().into_iter().flatten();
                for text in parts.filter_map(|part| part["text"].as_str()) {
                    self.say_anew(text);
                }
            }
            "result" => {
                self.heard.report = string(&value["result"]).filter(|text| !text.is_empty());
                self.heard.usage = claude_usage(value, self.calls.messages);
                self.heard.turn_tokens = turn_tokens(&value["usage"]);
                // An error of the API comes with the subtype "success".
                let is_error = value["is_error"] == Value::Bool(true);
                self.heard.failure = is_error.then(|| {
                    let words = [&value["result"], &value["terminal_reason"], &value["subtype"]];
                    let words = words.into_iter().filter_map(Value::as_str).find(|words| !words.is_empty());
                    words.unwrap_or("the client reports an error").to_owned()
                });
            }
            _ => {}
        }
    }

    fn codex(&mut self, kind: &str, value: &Value) {
        self.named(&value["thread_id"]);
        match kind {
            "item.completed" if value["item"]["type"] == "agent_message" => {
                self.heard.report = string(&value["item"]["text"]);
            }
            "turn.completed" => {
                let usage = &value["usage"];
                self.heard.usage = Usage {
                    input_tokens: usage["input_tokens"].as_u64(),
                    output_tokens: usage["output_tokens"].as_u64(),
                    cache_read_tokens: usage["cached_input_tokens"].as_u64(),
                    cache_write_tokens: usage["cache_write_input_tokens"].as_u64(),
                    ..Usage::default()
                };
            }
            "turn.failed" => self.heard.failure = Some(error_text(&value["error"])),
            _ => {}
        }
    }

    fn gemini(&mut self, kind: &str, value: &Value) {
        match kind {
            "init" => self.named(&value["session_id"]),
            "message" if value["role"] == "assistant" => {
                let text = value["content"].as_str().unwrap_or_default();
                match value["delta"] == Value::Bool(true) {
                    true => self.say(text),
                    false => self.say_anew(text),
                }
            }
            // Text before a tool call is not the last message.
            "tool_use" => self.words.clear(),
            "result" => {
                self.heard.usage = gemini_usage(&value["stats"]);
                if value["status"].as_str().is_some_and(|status| status != "success") {
                    self.heard.failure = Some(error_text(&value["error"]));
                }
            }
            _ => {}
        }
    }

    fn opencode(&mut self, kind: &str, value: &Value) {
        self.named(&value["sessionID"]);
        match kind {
            "text" => self.heard.report = string(&value["part"]["text"]),
            "step_finish" => self.calls.step(&value["part"]),
            "error" => {
                let error = &value["error"];
                let words = error_text(if error["data"].is_object() { &error["data"] } else { error });
                let status = error["data"]["statusCode"].as_u64();
                self.heard.failure =
                    Some(status.map_or(words.clone(), |status| format!("HTTP {status}: {words}")));
            }
            _ => {}
        }
    }

    fn say_anew(&mut self, text: &str) {
        self.words.clear();
        self.say(text);
    }

    fn say(&mut self, text: &str) {
        if self.words.len() + text.len() <= WORDS_MAX {
            self.words.push_str(text);
        }
    }
}

/// Drops implausible values, because the usage goes into the log.
pub(super) fn believable(usage: Usage) -> Usage {
    let count = |count: Option<u64>| count.filter(|count| *count <= COUNT_MAX);
    let is_name = |name: &String| name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_graphic());
    Usage {
        model: usage.model.filter(is_name),
        calls: count(usage.calls),
        input_tokens: count(usage.input_tokens),
        output_tokens: count(usage.output_tokens),
        cache_read_tokens: count(usage.cache_read_tokens),
        cache_write_tokens: count(usage.cache_write_tokens),
        micro_usd: count(usage.micro_usd),
    }
}

/// Parses `{"report": "…", "usage": {…}, "error": "…"}`; each part is optional.
fn own(value: Value) -> Option<ParsedReport> {
    let parts = ["report", "usage", "error"];
    if !parts.iter().any(|part| value.get(part).is_some()) {
        return None;
    }
    Some(ParsedReport {
        report: string(&value["report"]),
        // A usage that cannot be parsed as a whole is unknown.
        usage: serde_json::from_value(value["usage"].clone()).unwrap_or_default(),
        turn_tokens: None,
        session: None,
        failure: string(&value["error"]),
        last_line_is_ours: true,
        rewrites: rewrites(&value["rewrites"]),
    })
}

/// Returns at most `REWRITES_MAX` changes, each cut to `REWRITE_MAX` characters; they are shown to people.
fn rewrites(told: &Value) -> Vec<String> {
    let all = told.as_array().into_iter().flatten().filter_map(Value::as_str);
    all.take(REWRITES_MAX).map(|diff| diff.chars().take(REWRITE_MAX).collect()).collect()
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Converts dollars to micro-dollars.
pub(super) fn micro(usd: f64) -> Option<u64> {
    (usd.is_finite() && (0.0..1e9).contains(&usd)).then(|| (usd * 1e6).round() as u64)
}

#[cfg(test)]
mod tests;
