//! The MCP tools as clients list them.
//!
//! Schemas are flat and avoid `null`, because some clients refuse other tools. Every tool asks to be shown to
//! the model from the start; models do not use a tool that they have to search for.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::answers;
use super::answers::text;

pub(super) const NAMES: [&str; 9] = [
    "plan_create",
    "plan_list",
    "plan_show",
    "plan_take",
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
pub(super) fn of_an_attempt() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(make_those_of_an_attempt);
    &TOOLS
}

/// Returns the tools for an agent in its own client.
pub(super) fn all() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(make_all);
    &TOOLS
}

fn make_those_of_an_attempt() -> Vec<Tool> {
    vec![
        tool(
            "plan_show",
            "Show a plan",
            "Show the plan: its steps, and which of them have passed.",
            json!({}),
            &[],
            reads(),
        ),
        tool("plan_next", "Show what to do next", "Show your step and its task.", json!({}), &[], reads()),
        tool(
            "step_update",
            "Report a step",
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
            "Read a topic",
            "Read a topic that your step subscribes to. Without a topic, lists them.",
            json!({ "topic": text("The topic's name.") }),
            &[],
            reads(),
        ),
        tool(
            "topic_publish",
            "Publish to a topic",
            "Add text to a topic that your step publishes; other steps see it after yours has passed.",
            json!({ "topic": text("The topic's name."), "text": text("Text to add, in Markdown.") }),
            &["topic", "text"],
            writes(),
        ),
    ]
}

fn make_all() -> Vec<Tool> {
    let tools = vec![
        plan_create(),
        tool(
            "plan_list",
            "List the plans",
            "List the plans of this folder, their state, and how much of each waits for a person.",
            json!({}),
            &[],
            reads(),
        ),
        tool(
            "plan_show",
            "Show a plan",
            "Show the plan of this session: steps, checks and the last results.",
            json!({ "plan": text("Name of another plan of this folder, to read it. Leave it out otherwise.") }),
            &[],
            reads(),
        ),
        tool(
            "plan_take",
            "Take a plan",
            "Take a plan that is there as the plan of this session, to carry it out. From then on you are sent back \
             to work if you stop before it is done. Take one only if your user asks you to carry it out.",
            json!({ "plan": text("Name of the plan. Leave it out for the active plan of this folder.") }),
            &[],
            repeatable(),
        ),
        tool(
            "plan_next",
            "Show what to do next",
            "Show what to do next. If a check is still running, waits for it and returns its result.",
            json!({}),
            &[],
            reads(),
        ),
        step_update(),
        postcondition_verify(),
        tool(
            "topic_read",
            "Read a topic",
            "Read a topic. Without a topic, lists them.",
            json!({ "topic": text("The topic's name.") }),
            &[],
            reads(),
        ),
        tool(
            "topic_publish",
            "Publish to a topic",
            "Add text to a topic that other steps and sessions can read.",
            json!({ "topic": text("The topic's name: a-z, 0-9, `.`, `_`, `-`."), "text": text("Text to add, in Markdown.") }),
            &["topic", "text"],
            writes(),
        ),
    ];
    tools.into_iter().map(|tool| tool.clone().with_raw_output_schema(answers::schema(&tool.name))).collect()
}

fn step_update() -> Tool {
    tool(
        "step_update",
        "Report a step",
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
    )
}

fn postcondition_verify() -> Tool {
    tool(
        "postcondition_verify",
        "Check the whole plan",
        "When every step has passed, run all checks and the postconditions once more on the final state. \
         The plan is done if they hold.",
        json!({
            "postcondition": { "type": "integer", "description": "Number of one postcondition; provost runs all of them." },
            "evidence": text("Why you think that they hold."),
        }),
        &[],
        repeatable(),
    )
}

fn plan_create() -> Tool {
    tool(
        "plan_create",
        "Make a plan",
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

/// Returns the annotations of a tool that writes, and changes nothing more if it is called again.
fn repeatable() -> ToolAnnotations {
    ToolAnnotations::from_raw(None, Some(false), Some(false), Some(true), Some(false))
}

fn tool(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    properties: Value,
    required: &[&str],
    mut annotations: ToolAnnotations,
) -> Tool {
    let schema = match object(properties, required) {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let mut meta = JsonObject::new();
    meta.insert("anthropic/alwaysLoad".to_owned(), Value::Bool(true));
    // Older clients look for the title in the annotations.
    annotations.title = Some(title.to_owned());
    let tool = Tool::new(name, description, Arc::new(schema)).with_title(title);
    tool.with_annotations(annotations).with_meta(MetaObject(meta))
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
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
        for tool in tools {
            walk(&Value::Object((*tool.input_schema).clone()), "");
            let output = tool.output_schema.as_ref().expect("a schema of its answer");
            walk(&Value::Object((**output).clone()), "");
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

    #[test]
    fn annotations_say_what_a_tool_does() {
        let words = |tool: &Tool| {
            let hints = tool.annotations.clone().unwrap_or_default();
            assert_eq!((hints.title, hints.open_world_hint), (tool.title.clone(), Some(false)));
            let kind = match (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) {
                (Some(true), None, Some(true)) => "reads",
                (Some(false), Some(false), Some(true)) => "writes, repeatable",
                (Some(false), Some(false), Some(false)) => "writes",
                other => panic!("{}: {other:?}", tool.name),
            };
            (tool.name.to_string(), tool.title.clone().unwrap_or_default(), kind)
        };
        let said: Vec<_> = all().iter().map(words).collect();
        let wanted = [
            ("plan_create", "Make a plan", "writes"),
            ("plan_list", "List the plans", "reads"),
            ("plan_show", "Show a plan", "reads"),
            ("plan_take", "Take a plan", "writes, repeatable"),
            ("plan_next", "Show what to do next", "reads"),
            ("step_update", "Report a step", "writes"),
            ("postcondition_verify", "Check the whole plan", "writes, repeatable"),
            ("topic_read", "Read a topic", "reads"),
            ("topic_publish", "Publish to a topic", "writes"),
        ];
        let said = said.iter().map(|(name, title, kind)| (name.as_str(), title.as_str(), *kind));
        assert_eq!(said.collect::<Vec<_>>(), wanted);
        of_an_attempt().iter().for_each(|tool| drop(words(tool)));
    }

    #[test]
    fn the_fields_of_steps_and_postconditions_are_those_that_are_read() {
        let create = &all()[0];
        let fields = |list: &str| {
            let items = create
                .input_schema
                .get("properties")
                .and_then(|known| known.pointer(&format!("/{list}/items/properties"))?.as_object());
            items.into_iter().flat_map(|known| known.keys().cloned()).collect::<Vec<_>>()
        };
        let sorted = |known: &[&str]| {
            let mut known: Vec<String> = known.iter().map(ToString::to_string).collect();
            known.sort();
            known
        };
        let mut of_schema = [fields("steps"), fields("postconditions")];
        of_schema.iter_mut().for_each(|known| known.sort());
        use super::super::arguments::{POSTCONDITION, STEP};
        assert_eq!(of_schema, [sorted(&STEP), sorted(&POSTCONDITION)]);
    }
}
