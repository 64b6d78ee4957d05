//! Tool calls in plain text, for models without calls of their own: the system prompt describes the tools,
//! and the model writes each call as a fenced block of JSON.
//!
//! The loop sees no difference: this provider stands between it and the model.

use serde_json::{Value, json};

use crate::Future;
use crate::provider::{Ask, Failure, Listener, Provider, Reply};
use crate::tool::Spec;
use crate::transcript::{Call, Message, ToolResult};

/// Words that open a block with a call.
const FENCES: [&str; 4] = ["```tool_call", "```tool", "```json", "<tool_call>"];

/// A model that is asked without tools, and its calls read from its text.
pub struct TextTools<P> {
    pub model: P,
}

impl<P: Provider> Provider for TextTools<P> {
    fn model(&self) -> &str {
        self.model.model()
    }

    fn answer<'a>(&'a self, ask: Ask<'a>, hear: Listener<'a>) -> Future<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            let system = system(ask.system, ask.tools);
            let messages: Vec<Message> = ask.messages.iter().map(plain).collect();
            let asked = Ask { system: &system, tools: &[], messages: &messages, ..ask };
            let reply = self.model.answer(asked, hear).await?;
            let (text, calls) = calls(&reply.text, messages.len());
            // The calls are sent back as text, so the turn is not replayed in another form.
            Ok(Reply { text, calls, replay: None, ..reply })
        })
    }
}

fn system(system: &str, tools: &[Spec]) -> String {
    if tools.is_empty() {
        return system.to_owned();
    }
    let tool = |spec: &Spec| {
        let properties = spec.schema.get("properties").cloned().unwrap_or_else(|| json!({}));
        format!("- {}: {}\n  arguments: {properties}\n", spec.name, spec.description)
    };
    let tools: String = tools.iter().map(tool).collect();
    let words = include_str!("../prompt/text_tools.md").trim_end();
    format!("{system}\n\n{}", words.replace("{tools}", &tools))
}

/// Returns a message without calls and results of the API's own form.
fn plain(message: &Message) -> Message {
    match message {
        Message::Assistant { text, calls, .. } => {
            let blocks: Vec<String> = calls.iter().map(block).collect();
            let parts = std::iter::once(text.clone()).filter(|text| !text.is_empty()).chain(blocks);
            let text = parts.collect::<Vec<_>>().join("\n");
            Message::Assistant { text, calls: Vec::new(), replay: None }
        }
        Message::Results(results) => {
            let result = |result: &ToolResult| format!("{} answered: {}", result.tool, result.text);
            Message::User(results.iter().map(result).collect::<Vec<_>>().join("\n\n"))
        }
        Message::User(_) | Message::Images(_) => message.clone(),
    }
}

fn block(call: &Call) -> String {
    format!("```tool\n{}\n```", json!({ "tool": call.tool, "arguments": call.arguments }))
}

/// Splits an answer into its text and its calls. A block that is no call stays in the text.
fn calls(answer: &str, turn: usize) -> (String, Vec<Call>) {
    let (mut text, mut calls) = (String::new(), Vec::new());
    let mut rest = answer;
    while let Some((at, fence)) =
        FENCES.iter().filter_map(|fence| Some((rest.find(fence)?, *fence))).min_by_key(|(at, _)| *at)
    {
        let inside = &rest[at + fence.len()..];
        let close = if fence.starts_with('<') { "</tool_call>" } else { "\n```" };
        // The end may be missing at the end of an answer.
        let (body, after) = inside.split_once(close).unwrap_or((inside, ""));
        match call(body, turn, calls.len()) {
            Some(call) => {
                text.push_str(&rest[..at]);
                calls.push(call);
                rest = after;
            }
            None => {
                let end = at + fence.len();
                text.push_str(&rest[..end]);
                rest = &rest[end..];
            }
        }
    }
    text.push_str(rest);
    // Some models write the object without a block around it.
    if let (true, Some(call)) = (calls.is_empty(), call(&text, turn, 0)) {
        return (String::new(), vec![call]);
    }
    (text.trim().to_owned(), calls)
}

/// Reads `{"tool": …, "arguments": …}`, also with the names that other programs use.
fn call(body: &str, turn: usize, number: usize) -> Option<Call> {
    let value: Value = serde_json::from_str(body.trim()).ok()?;
    let tool = ["tool", "name", "function"].iter().find_map(|key| value.get(key)?.as_str())?;
    let arguments = ["arguments", "parameters", "args", "input"].iter().find_map(|key| value.get(key));
    let arguments = match arguments {
        Some(Value::String(text)) => serde_json::from_str(text).ok()?,
        Some(arguments) => arguments.clone(),
        None => json!({}),
    };
    Some(Call { id: format!("text-{turn}-{number}"), tool: tool.to_owned(), arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_in_every_form_that_models_write() {
        let read = |answer: &str| {
            let (text, calls) = calls(answer, 3);
            let calls = calls.iter().map(|call| format!("{}{}", call.tool, call.arguments));
            (text, calls.collect::<Vec<_>>().join(" "))
        };
        let is = |text: &str, calls: &str| (text.to_owned(), calls.to_owned());
        let list = "list{\"path\":\".\"}";
        for answer in [
            "I look.\n```tool\n{\"tool\": \"list\", \"arguments\": {\"path\": \".\"}}\n```",
            "I look.\n```json\n{\"name\": \"list\", \"parameters\": {\"path\": \".\"}}\n```\n",
            "I look.\n<tool_call>\n{\"name\": \"list\", \"arguments\": \"{\\\"path\\\": \\\".\\\"}\"}\n</tool_call>",
            "I look.\n```tool_call\n{\"tool\": \"list\", \"args\": {\"path\": \".\"}}",
        ] {
            assert_eq!(read(answer), is("I look.", list), "{answer}");
        }
        let bare = "{\"tool\": \"list\", \"arguments\": {\"path\": \".\"}}";
        assert_eq!(read(bare), is("", list));
        assert_eq!(
            read(&format!("```tool\n{bare}\n```\n```tool\n{bare}\n```")),
            is("", &format!("{list} {list}"))
        );
        let example = "The file is:\n```json\n{\"a\": 1}\n```";
        assert_eq!(read(example), is(example, ""));
        assert_eq!(read("done"), is("done", ""));
        let fence =
            "```tool\n{\"tool\": \"write_file\", \"arguments\": {\"content\": \"```js\\nx\\n```\"}}\n```";
        assert_eq!(read(fence).1, "write_file{\"content\":\"```js\\nx\\n```\"}");
    }
}
