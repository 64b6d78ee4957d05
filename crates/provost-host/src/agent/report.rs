//! What an agent's client prints, read as that client writes it: the agent's last words, what it used,
//! and errors that the client itself reports as a success.
//!
//! A stream of JSON can be far larger than what is kept of an output, so it is read line by line as it
//! comes. What cannot be read counts for nothing: the output is then plain text.
//!
//! **Invariant:** nothing that is printed makes a reader fail, and memory stays bounded.
//! **Invariant:** a part of the usage is known only where the client said so for the whole attempt.

use provost_core::model::usage::Usage;
use serde_json::Value;

use crate::config::Speaks;

/// A line that is longer is passed over.
const LINE_MAX: usize = 8 << 20;
/// Of what was said since the last tool was used.
const WORDS_MAX: usize = 256 * 1024;

/// A million millions of anything: no attempt uses that.
const COUNT_MAX: u64 = 1_000_000_000_000;
const NAME_MAX: usize = 100;
const REWRITES_MAX: usize = 20;
const REWRITE_MAX: usize = 2000;

impl Speaks {
    /// What one turn used, in a conversation that had used `before`: some clients go on counting from there.
    pub fn since(self, before: &Usage, heard: &Heard) -> Usage {
        let told = &heard.usage;
        let goes_on = match self {
            Speaks::Codex => true,
            // Some versions do, with everything they tell by model, and some do not.
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

/// A name that goes into the log, and onto a command line.
pub fn is_session(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() <= NAME_MAX && name.bytes().all(fits) && name.bytes().next().is_some_and(|first| first != b'-')
}

/// What was understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The last words, where the form has a place for them.
    pub report: Option<String>,
    pub usage: Usage,
    /// Tokens of this turn alone, where they are told beside the others.
    pub turn_tokens: Option<u64>,
    /// The conversation it was, where its client can go on with it.
    pub session: Option<String>,
    /// The client says that it failed.
    pub failure: Option<String>,
    /// The last line was for us, and is no part of the report.
    pub last_line_is_ours: bool,
    /// How the agent changed its own plan, each time it did.
    pub rewrites: Vec<String>,
}

/// Reads an output as it comes.
pub struct Reader {
    speaks: Speaks,
    line: Vec<u8>,
    /// The last one that said something, where only that one is read.
    last: Vec<u8>,
    /// The line is longer than a line may be.
    overlong: bool,
    heard: Heard,
    words: String,
    calls: Calls,
}

/// Calls of a model, as they are told one by one.
#[derive(Default)]
struct Calls {
    /// Messages that were begun, and the last one: a message is told in parts.
    messages: u64,
    message: String,
    steps: u64,
    /// The sum of the steps, unless one of them left something out.
    sum: Option<Usage>,
    cost: f64,
    /// The last step said that it was the last.
    complete: bool,
}

impl Reader {
    pub fn new(speaks: Speaks) -> Self {
        Self {
            speaks,
            line: Vec::new(),
            last: Vec::new(),
            overlong: false,
            heard: Heard::default(),
            words: String::new(),
            calls: Calls::default(),
        }
    }

    pub fn take(&mut self, mut chunk: &[u8]) {
        if self.speaks == Speaks::Text {
            return;
        }
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.grow(&chunk[..end]);
            self.end_of_line();
            chunk = &chunk[end + 1..];
        }
        self.grow(chunk);
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
            // Only the last line counts; it is read when it is known to be the last.
            (false, Speaks::Json) => std::mem::replace(&mut self.last, line),
            (false, _) => {
                self.read(&line);
                line
            }
        };
        // Its room is used again.
        self.line.clear();
    }

    /// Nothing more comes. `by_itself`: the client was not ended before its time.
    pub fn finish(mut self, by_itself: bool) -> Heard {
        if !self.line.is_empty() || self.overlong {
            self.end_of_line();
        }
        if self.speaks == Speaks::Json {
            let last = std::mem::take(&mut self.last);
            self.read(&last);
        }
        // This client has no line that says that all is over.
        if self.speaks == Speaks::Opencode && by_itself {
            self.heard.usage = self.calls.opencode();
        }
        self.heard.usage = believable(self.heard.usage);
        if self.heard.report.is_none() && !self.words.trim().is_empty() {
            self.heard.report = Some(self.words);
        }
        self.heard
    }

    fn read(&mut self, line: &[u8]) {
        let value = serde_json::from_slice::<Value>(line).ok().filter(Value::is_object);
        let kind = |value: &Value| value["type"].as_str().unwrap_or_default().to_owned();
        match (self.speaks, value) {
            (Speaks::Json, value) => self.heard = value.and_then(own).unwrap_or_default(),
            (Speaks::Text, _) | (_, None) => {}
            (Speaks::Claude, Some(value)) => self.claude(&kind(&value), &value),
            (Speaks::Codex, Some(value)) => self.codex(&kind(&value), &value),
            (Speaks::Gemini, Some(value)) => self.gemini(&kind(&value), &value),
            (Speaks::Opencode, Some(value)) => self.opencode(&kind(&value), &value),
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
                }
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
            "turn.failed" => self.heard.failure = Some(message(&value["error"])),
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
            // What was said before a tool was used is not the last word.
            "tool_use" => self.words.clear(),
            "result" => {
                self.heard.usage = gemini_usage(&value["stats"]);
                if value["status"].as_str().is_some_and(|status| status != "success") {
                    self.heard.failure = Some(message(&value["error"]));
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
                let words = message(if error["data"].is_object() { &error["data"] } else { error });
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

/// Without what nobody can have meant: it goes into the log.
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

/// `{"report": "…", "usage": {…}, "error": "…"}`, each part optional.
fn own(value: Value) -> Option<Heard> {
    let parts = ["report", "usage", "error"];
    if !parts.iter().any(|part| value.get(part).is_some()) {
        return None;
    }
    Some(Heard {
        report: string(&value["report"]),
        // A count that is half understood is no count.
        usage: serde_json::from_value(value["usage"].clone()).unwrap_or_default(),
        turn_tokens: None,
        session: None,
        failure: string(&value["error"]),
        last_line_is_ours: true,
        rewrites: rewrites(&value["rewrites"]),
    })
}

/// A few, and none long: they are for people.
fn rewrites(told: &Value) -> Vec<String> {
    let all = told.as_array().into_iter().flatten().filter_map(Value::as_str);
    all.take(REWRITES_MAX).map(|diff| diff.chars().take(REWRITE_MAX).collect()).collect()
}

fn claude_usage(value: &Value, messages: u64) -> Usage {
    let models = value["modelUsage"].as_object();
    let sum = |part: &str| {
        let models = models.filter(|models| !models.is_empty())?;
        models.values().try_fold(0u64, |sum, model| sum.checked_add(model[part].as_u64()?))
    };
    let part = |of_models: &str, of_all: &str| sum(of_models).or(value["usage"][of_all].as_u64());
    let read = part("cacheReadInputTokens", "cache_read_input_tokens");
    let written = part("cacheCreationInputTokens", "cache_creation_input_tokens");
    let fresh = part("inputTokens", "input_tokens");
    Usage {
        model: models.filter(|models| models.len() == 1).and_then(|models| models.keys().next().cloned()),
        calls: (messages > 0).then_some(messages),
        // This client counts what came from a cache apart.
        input_tokens: fresh.map(|fresh| total(&[fresh, read.unwrap_or(0), written.unwrap_or(0)])),
        output_tokens: part("outputTokens", "output_tokens"),
        cache_read_tokens: read,
        cache_write_tokens: written,
        micro_usd: value["total_cost_usd"].as_f64().and_then(micro),
    }
}

fn turn_tokens(usage: &Value) -> Option<u64> {
    let part = |name: &str| usage[name].as_u64();
    let cached =
        ["cache_read_input_tokens", "cache_creation_input_tokens"].map(|name| part(name).unwrap_or(0));
    Some(total(&[part("input_tokens")?, part("output_tokens")?, cached[0], cached[1]]))
}

fn gemini_usage(stats: &Value) -> Usage {
    let input = stats["input_tokens"].as_u64();
    let written = stats["output_tokens"].as_u64();
    // Thinking is only in the total.
    let rest = stats["total_tokens"].as_u64().zip(input).map(|(total, input)| total.saturating_sub(input));
    let models = stats["models"].as_object();
    Usage {
        model: models.filter(|models| models.len() == 1).and_then(|models| models.keys().next().cloned()),
        input_tokens: input,
        output_tokens: written.map(|written| written.max(rest.unwrap_or(0))),
        cache_read_tokens: stats["cached"].as_u64(),
        ..Usage::default()
    }
}

impl Calls {
    fn step(&mut self, part: &Value) {
        let tokens = &part["tokens"];
        let cache = |what: &str| tokens["cache"][what].as_u64().unwrap_or(0);
        let one = tokens["input"].as_u64().zip(tokens["output"].as_u64());
        let before = if self.steps == 0 { Some(Usage::default()) } else { self.sum.take() };
        self.steps += 1;
        self.sum = before.zip(one).map(|(sum, (input, output))| {
            let add = |sum: Option<u64>, more: &[u64]| Some(total(&[sum.unwrap_or(0), total(more)]));
            Usage {
                input_tokens: add(sum.input_tokens, &[input, cache("read"), cache("write")]),
                output_tokens: add(sum.output_tokens, &[output, tokens["reasoning"].as_u64().unwrap_or(0)]),
                cache_read_tokens: add(sum.cache_read_tokens, &[cache("read")]),
                cache_write_tokens: add(sum.cache_write_tokens, &[cache("write")]),
                ..Usage::default()
            }
        });
        self.cost += part["cost"].as_f64().unwrap_or(f64::NAN);
        self.complete = part["reason"].as_str().is_some_and(|reason| reason != "tool-calls");
    }

    fn opencode(&mut self) -> Usage {
        let Some(sum) = self.sum.take().filter(|_| self.complete) else { return Usage::default() };
        // It says 0 for a model whose price it does not know.
        let micro_usd = micro(self.cost).filter(|cost| *cost > 0);
        Usage { calls: Some(self.steps), micro_usd, ..sum }
    }
}

fn message(error: &Value) -> String {
    let words = error.as_str().or(error["message"].as_str()).or(error["name"].as_str());
    words.unwrap_or("the client reports an error").to_owned()
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn total(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
}

/// Dollars to millionths of them.
pub(super) fn micro(usd: f64) -> Option<u64> {
    (usd.is_finite() && (0.0..1e9).contains(&usd)).then(|| (usd * 1e6).round() as u64)
}

#[cfg(test)]
mod tests;
