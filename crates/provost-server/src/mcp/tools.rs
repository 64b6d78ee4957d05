//! The MCP tools as clients list them.
//!
//! Schemas are flat and avoid `null`, because some clients refuse other tools. Every tool asks to be shown to
//! the model from the start; models do not use a tool that they have to search for.

use std::sync::Arc;

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

pub(super) const NAMES: [&str; 7] = [
    "plan_create",
    "plan_show",
    "plan_next",
    "step_update",
    "postcondition_verify",
    "topic_read",
    "topic_publish",
];

/// Names of the tools for the agent of an attempt.
pub(super) const OF_AN_ATTEMPT: [&str; 5] =
    ["plan_show", "plan_next", "step_update", "topic_read", "topic_publish"];

/// Returns the tools for an agent that provost has started: it is given its step, and is judged after it has
/// ended.
pub(super) fn of_an_attempt() -> Vec<Tool> {
    vec![
        tool(
            "plan_show",
            "Show the plan: its steps, and which of them have passed.",
            json!({}),
            &[],
            reads(),
        ),
        tool("plan_next", "Show your step and its task.", json!({}), &[], reads()),
        tool(
            "step_update",
            "Report the state of your step: `done` with evidence, or `blocked` with a reason. This is a claim: \
             provost runs the check after you have ended.",
            json!({
                "step": { "type": "integer", "description": "The number of your step." },
                "status": { "type": "string", "enum": ["in_progress", "done", "blocked"] },
                "evidence": text("For done: what you did, and where it can be seen."),
                "reason": text("For blocked: what stops you."),
            }),
            &["step", "status"],
            writes(),
        ),
        tool(
            "topic_read",
            "Read a topic that your step subscribes to. Without a topic, lists them.",
            json!({ "topic": text("The topic's name.") }),
            &[],
            reads(),
        ),
        tool(
            "topic_publish",
            "Add text to a topic that your step publishes; other steps see it after yours has passed.",
            json!({ "topic": text("The topic's name."), "text": text("Text to add, in Markdown.") }),
            &["topic", "text"],
            writes(),
        ),
    ]
}

pub(super) fn all() -> Vec<Tool> {
    vec![
        plan_create(),
        tool(
            "plan_show",
            "Show the plan of this session: steps, checks and the last results.",
            json!({ "plan": text("Name of a plan to continue, if its own session is over. Leave it out otherwise.") }),
            &[],
            reads(),
        ),
        tool(
            "plan_next",
            "Show what to do next. If a check is still running, waits for it and returns its result.",
            json!({}),
            &[],
            reads(),
        ),
        tool(
            "step_update",
            "Report the state of a step. `in_progress` starts it, `done` makes provost run its check and returns \
             the verdict, `blocked` asks a person, `pending` resets it.",
            json!({
                "step": { "type": "integer", "description": "The number of the step, from 1." },
                "status": { "type": "string", "enum": ["pending", "in_progress", "done", "blocked"] },
                "evidence": text("For done: what you did, and where it can be seen."),
                "reason": text("For blocked: what stops you."),
            }),
            &["step", "status"],
            writes(),
        ),
        tool(
            "postcondition_verify",
            "When every step has passed, run all checks and the postconditions once more on the final state. \
             The plan is done if they hold.",
            json!({
                "postcondition": { "type": "integer", "description": "Number of one postcondition; provost runs all of them." },
                "evidence": text("Why you think that they hold."),
            }),
            &[],
            ToolAnnotations::from_raw(None, Some(false), Some(false), Some(true), Some(false)),
        ),
        tool(
            "topic_read",
            "Read a topic. Without a topic, lists them.",
            json!({ "topic": text("The topic's name.") }),
            &[],
            reads(),
        ),
        tool(
            "topic_publish",
            "Add text to a topic that other steps and sessions can read.",
            json!({ "topic": text("The topic's name: a-z, 0-9, `.`, `_`, `-`."), "text": text("Text to add, in Markdown.") }),
            &["topic", "text"],
            writes(),
        ),
    ]
}

fn plan_create() -> Tool {
    tool(
        "plan_create",
        "Make the plan of this session, or replace it. Every step should have a `check`: a shell \
         command that fails until the step is done. provost runs it; your word does not count. A step \
         without a check waits for a person.",
        json!({
            "objective": text("The goal, in one sentence."),
            "steps": {
                "type": "array",
                "description": "Three to seven steps, in order.",
                "items": object(
                    json!({
                        "title": text("The step in a few words."),
                        "task": text("The work, with files and behaviour."),
                        "check": text("Shell command, run with bash in a clean copy of the workspace; exit code 0 means done."),
                        "needs": {
                            "type": "array",
                            "items": { "type": "integer" },
                            "description": "Numbers of the steps that must be done first; if left out, all earlier steps.",
                        },
                        "guard": { "type": "boolean", "description": "True if the check should hold before the work too: it shows that nothing broke. Otherwise a check that holds before the work waits for a person." },
                        "network": { "type": "boolean", "description": "True if the check needs the network; a person must allow it." },
                        "publishes": {
                            "type": "array",
                            "items": { "type": "string" },
                            "description": "Topics this step may publish to, for the steps after it.",
                        },
                    }),
                    &["title"],
                ),
            },
            "postconditions": {
                "type": "array",
                "description": "Conditions that must hold when everything is done.",
                "items": object(
                    json!({
                        "text": text("The condition, in one sentence."),
                        "check": text("Shell command; exit code 0 means that the condition holds."),
                    }),
                    &["text"],
                ),
            },
            "touches": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Globs of the files you will change, such as src/**; checks see only these changes.",
            },
        }),
        &["objective", "steps"],
        writes(),
    )
}

fn reads() -> ToolAnnotations {
    ToolAnnotations::from_raw(None, Some(true), None, Some(true), Some(false))
}

fn writes() -> ToolAnnotations {
    ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), Some(false))
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: Value,
    required: &[&str],
    annotations: ToolAnnotations,
) -> Tool {
    let schema = match object(properties, required) {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let mut meta = JsonObject::new();
    meta.insert("anthropic/alwaysLoad".to_owned(), Value::Bool(true));
    Tool::new(name, description, Arc::new(schema)).with_annotations(annotations).with_meta(MetaObject(meta))
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(value: &Value, path: &str) {
        match value {
            Value::Object(map) => {
                for key in ["anyOf", "oneOf", "allOf", "$ref"] {
                    assert!(!map.contains_key(key), "{path} has {key}");
                }
                if let Some(kind) =
                    map.get("type").filter(|_| !map.contains_key("properties") || path.is_empty())
                {
                    assert!(kind.is_string() || kind.is_object(), "{path} has a union of types: {kind}");
                }
                map.iter().for_each(|(key, value)| walk(value, &format!("{path}/{key}")));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, path)),
            _ => {}
        }
    }

    #[test]
    fn tools_are_flat_shown_from_the_start_and_named_in_the_instructions() {
        let tools = all();
        assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), NAMES);
        for tool in &tools {
            walk(&Value::Object((*tool.input_schema).clone()), "");
            assert_eq!(
                tool.meta.as_ref().and_then(|meta| meta.0.get("anthropic/alwaysLoad")),
                Some(&Value::Bool(true))
            );
            assert!(
                super::super::INSTRUCTIONS.contains(tool.name.as_ref()),
                "{} is not in the instructions",
                tool.name
            );
        }
    }
}
