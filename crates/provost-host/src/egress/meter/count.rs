//! Reads the usage from an answer while it passes.
//!
//! Nothing is delayed: only the current line of a stream, or the body, is buffered for parsing.

use provost_core::model::usage::Usage;
use serde_json::Value;

use super::api::Form;

/// Longest line of a stream that is parsed, in bytes; some streams repeat the whole answer in one line.
const LINE_MAX: usize = 32 * 1024 * 1024;
const BODY_MAX: usize = 64 * 1024 * 1024;

/// The usage that one answer reported, as far as it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedUsage {
    pub model: Option<String>,
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
}

impl ReportedUsage {
    /// Returns zero usage, for an error.
    pub(super) fn nothing() -> Self {
        let zero = Some(0);
        Self { model: None, input: zero, output: zero, cache_read: zero, cache_write: zero }
    }

    /// Returns the usage as one call.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            model: self.model.clone(),
            calls: Some(1),
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            micro_usd: None,
        }
    }
}

pub(super) struct Tap {
    form: Form,
    body: Body,
    counted: ReportedUsage,
    pub bytes: usize,
}

enum Body {
    /// Server-sent events: the line that has not ended yet.
    Stream {
        line: Vec<u8>,
        is_too_long: bool,
    },
    Whole(Vec<u8>),
}

impl Tap {
    pub(super) fn new(form: Form, content_type: Option<&str>) -> Self {
        let is_stream = content_type.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"));
        let body = match is_stream {
            true => Body::Stream { line: Vec::new(), is_too_long: false },
            false => Body::Whole(Vec::new()),
        };
        Self { form, body, counted: ReportedUsage::default(), bytes: 0 }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        match &mut self.body {
            Body::Whole(body) if body.len() + bytes.len() <= BODY_MAX => body.extend_from_slice(bytes),
            Body::Whole(_) => {}
            Body::Stream { line, is_too_long } => {
                let mut rest = bytes;
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    line.extend_from_slice(&rest[..end]);
                    if !*is_too_long {
                        event(self.form, line, &mut self.counted);
                    }
                    line.clear();
                    *is_too_long = false;
                    rest = &rest[end + 1..];
                }
                match line.len() + rest.len() <= LINE_MAX {
                    true if !*is_too_long => line.extend_from_slice(rest),
                    true => {}
                    false => {
                        line.clear();
                        *is_too_long = true;
                    }
                }
            }
        }
    }

    /// Returns whether the answer has reported its output tokens, normally the last usage that it reports.
    pub(super) fn has_said_all(&self) -> bool {
        self.counted.output.is_some()
    }

    pub(super) fn end(mut self) -> ReportedUsage {
        match &self.body {
            Body::Stream { line, .. } => event(self.form, line, &mut self.counted),
            Body::Whole(body) => match serde_json::from_slice(body) {
                // A stream of Gemini that was not requested as server-sent events.
                Ok(Value::Array(parts)) => {
                    parts.iter().for_each(|part| read(self.form, part, &mut self.counted));
                }
                Ok(whole) => read(self.form, &whole, &mut self.counted),
                Err(_) => {}
            },
        }
        self.counted
    }
}

fn event(form: Form, line: &[u8], counted: &mut ReportedUsage) {
    let Some(data) = line.strip_prefix(b"data:") else { return };
    // Most lines are a few words of the answer and need no parsing.
    if data.windows(6).any(|six| six == b"\"usage")
        && let Ok(value) = serde_json::from_slice::<Value>(data)
    {
        read(form, &value, counted);
    }
}

/// Merges the usage of this part of an answer into `counted`.
fn read(form: Form, part: &Value, counted: &mut ReportedUsage) {
    let (usage, model) = match form {
        Form::Messages if part["message"].is_object() => {
            (&part["message"]["usage"], &part["message"]["model"])
        }
        Form::Responses if part["response"].is_object() => {
            (&part["response"]["usage"], &part["response"]["model"])
        }
        Form::Messages | Form::Responses | Form::Completions => (&part["usage"], &part["model"]),
        Form::Gemini => (&part["usageMetadata"], &part["modelVersion"]),
    };
    if let Some(model) = model.as_str() {
        counted.model = Some(model.to_owned());
    }
    if !usage.is_object() {
        return;
    }
    let number = |name: &str| usage[name].as_u64();
    let or_none = |name: &str| number(name).unwrap_or(0);
    match form {
        Form::Messages => {
            // Cached input is reported separately from the rest.
            if let Some(fresh) = number("input_tokens") {
                let (read, written) =
                    (or_none("cache_read_input_tokens"), or_none("cache_creation_input_tokens"));
                counted.input = Some(fresh + read + written);
                (counted.cache_read, counted.cache_write) = (Some(read), Some(written));
            }
            // The first event of a stream cannot know the output.
            if part["type"] != "message_start" {
                counted.output = number("output_tokens").or(counted.output);
            }
        }
        Form::Responses => {
            counted.input = number("input_tokens").or(counted.input);
            counted.output = number("output_tokens").or(counted.output);
            counted.cache_read =
                usage["input_tokens_details"]["cached_tokens"].as_u64().or(counted.cache_read);
        }
        Form::Completions => {
            counted.input = number("prompt_tokens").or(counted.input);
            // An embedding has no output.
            let total = number("total_tokens");
            let rest = || Some(total?.saturating_sub(number("prompt_tokens")?));
            counted.output = number("completion_tokens").or_else(rest).or(counted.output);
            counted.cache_read =
                usage["prompt_tokens_details"]["cached_tokens"].as_u64().or(counted.cache_read);
        }
        Form::Gemini => {
            // Gemini leaves out counts that are zero.
            counted.input = Some(or_none("promptTokenCount") + or_none("toolUsePromptTokenCount"));
            counted.cache_read = Some(or_none("cachedContentTokenCount"));
            let is_over = part["candidates"]
                .as_array()
                .is_some_and(|all| all.iter().any(|candidate| candidate["finishReason"].is_string()))
                || part["promptFeedback"].is_object();
            if is_over {
                counted.output = Some(or_none("candidatesTokenCount") + or_none("thoughtsTokenCount"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, ReportedUsage, Tap};

    fn counted(form: Form, kind: &str, body: &str) -> ReportedUsage {
        // Fed in pieces of several sizes.
        let mut all: Vec<ReportedUsage> = [1, 7, body.len().max(1)]
            .into_iter()
            .map(|size| {
                let mut tap = Tap::new(form, Some(kind));
                body.as_bytes().chunks(size).for_each(|piece| tap.feed(piece));
                tap.end()
            })
            .collect();
        all.dedup();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn of(model: &str, input: u64, output: Option<u64>, read: u64, written: Option<u64>) -> ReportedUsage {
        let (input, cache_read) = (Some(input), Some(read));
        ReportedUsage { model: Some(model.to_owned()), input, output, cache_read, cache_write: written }
    }

    const SSE: &str = "text/event-stream; charset=utf-8";

    #[test]
    fn a_stream_of_messages_says_it_at_both_ends() {
        let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":\
                     {\"input_tokens\":300,\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":600,\
                     \"output_tokens\":1}}}\n\n";
        let end =
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":50}}\n\n";
        assert_eq!(
            counted(Form::Messages, SSE, &format!("{start}{end}")),
            of("m", 1000, Some(50), 600, Some(100))
        );
        // A stream that is cut off has not reported its output.
        assert_eq!(counted(Form::Messages, SSE, start), of("m", 1000, None, 600, Some(100)));
    }

    #[test]
    fn each_form_is_understood_whole() {
        let json = "application/json";
        let messages = r#"{"type":"message","model":"m","usage":{"input_tokens":3,"output_tokens":5}}"#;
        assert_eq!(counted(Form::Messages, json, messages), of("m", 3, Some(5), 0, Some(0)));
        let responses = r#"{"object":"response","model":"m","usage":{"input_tokens":9,"output_tokens":5,
            "input_tokens_details":{"cached_tokens":4}}}"#;
        assert_eq!(counted(Form::Responses, json, responses), of("m", 9, Some(5), 4, None));
        let chat = r#"{"model":"m","usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,
            "prompt_tokens_details":{"cached_tokens":4}}}"#;
        assert_eq!(counted(Form::Completions, json, chat), of("m", 9, Some(5), 4, None));
        let embedding = r#"{"model":"m","usage":{"prompt_tokens":9,"total_tokens":9}}"#;
        assert_eq!(counted(Form::Completions, json, embedding).output, Some(0));
        let gemini = r#"[{"usageMetadata":{"promptTokenCount":9},"modelVersion":"m"},
            {"candidates":[{"finishReason":"STOP"}],"modelVersion":"m",
             "usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":2}}]"#;
        assert_eq!(counted(Form::Gemini, json, gemini), of("m", 9, Some(5), 0, None));
    }

    #[test]
    fn what_says_nothing_is_unknown() {
        for body in
            ["", "{", "[]", "null", "data: {\"usage\": 7}\n\n", "data: \"usage\n", "<html>\"usage\"</html>"]
        {
            for kind in ["text/event-stream", "application/json"] {
                assert_eq!(counted(Form::Responses, kind, body), ReportedUsage::default(), "{body}");
            }
        }
    }
}
