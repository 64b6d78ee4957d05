//! Entries of the updates of an ACP session.
//!
//! Many agents announce a call first and tell its arguments later, and some tell only of calls that are over.
//! A call is passed on when its arguments are known or it has ended.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{EntrySink, text_of};

/// Most calls that are under way at once; others are passed on without waiting for their arguments.
const CALLS_MAX: usize = 256;

/// The calls that are under way, by id: the name of those that were not passed on yet.
#[derive(Default)]
pub(in crate::agent) struct AcpEntries {
    calls: BTreeMap<String, Option<String>>,
    message: Value,
}

impl AcpEntries {
    pub(in crate::agent) fn update(&mut self, update: &Value, sink: &mut EntrySink<'_>) {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                if update["messageId"] != self.message {
                    self.message = update["messageId"].clone();
                    sink.close();
                }
                sink.chunk(update["content"]["text"].as_str().unwrap_or_default());
            }
            "tool_call" | "tool_call_update" => self.call(update, sink),
            _ => {}
        }
    }

    fn call(&mut self, update: &Value, sink: &mut EntrySink<'_>) {
        let id = update["toolCallId"].as_str().unwrap_or_default().to_owned();
        let name = update["name"].as_str().or(update["title"].as_str());
        let known = self.calls.get(&id).cloned();
        let name = match &known {
            // It was passed on.
            Some(None) => None,
            Some(Some(before)) => Some(before.clone()),
            None => Some(name.unwrap_or("tool").to_owned()),
        };
        let has_ended = matches!(update["status"].as_str(), Some("completed" | "failed"));
        let input = &update["rawInput"];
        let has_input = input.as_object().is_some_and(|fields| !fields.is_empty()) || input.is_string();
        match name {
            Some(name) if has_input || has_ended || self.calls.len() >= CALLS_MAX => {
                sink.call(&id, &name, if has_input { input } else { &Value::Null });
                if self.calls.len() < CALLS_MAX {
                    self.calls.insert(id.clone(), None);
                }
            }
            Some(name) => _ = self.calls.insert(id.clone(), Some(name)),
            None => {}
        }
        if has_ended {
            self.calls.remove(&id);
            sink.result(&id, update["status"] == "completed", &outcome(update));
        }
    }
}

/// Returns the text of a call's result: its content, or else its raw output.
fn outcome(update: &Value) -> String {
    let content: Vec<String> = update["content"].as_array().into_iter().flatten().filter_map(part).collect();
    if !content.is_empty() {
        return content.join("\n");
    }
    let raw = &update["rawOutput"];
    let parts = [&raw["output"], &raw["result"]["content"], &raw["error"]["message"], raw];
    parts.into_iter().map(text_of).find(|text| !text.is_empty()).unwrap_or_default()
}

fn part(part: &Value) -> Option<String> {
    match part["type"].as_str()? {
        "content" => part["content"]["text"].as_str().map(str::to_owned),
        "diff" => Some(format!("changed {}", part["path"].as_str().unwrap_or_default())),
        _ => None,
    }
}
