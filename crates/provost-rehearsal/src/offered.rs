//! Finds the tools that a request offers, and turns a script's call into a call of one of them.

use serde_json::{Value, json};

use crate::dialect::ModelApi;
use crate::turn::{Form, ScriptedCall, WrittenCall};

pub(crate) struct Tool {
    pub name: String,
    kind: String,
    /// The MCP server of a group of tools, as Codex sends it.
    namespace: Option<String>,
    schema: Value,
}

const WRITERS: [&str; 4] = ["Write", "write_file", "write", "create_file"];
const SHELLS: [&str; 6] = ["Bash", "run_shell_command", "bash", "shell_command", "exec_command", "shell"];

pub(crate) fn tools(dialect: ModelApi, body: &Value) -> Vec<Tool> {
    let mut found = Vec::new();
    let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for tool in listed(&body["tools"]) {
        match dialect {
            ModelApi::Anthropic => found.push(Tool::of(&tool, "input_schema", None)),
            ModelApi::Chat => found.push(Tool::of(&tool["function"], "parameters", None)),
            ModelApi::Responses => found.extend(responses_tools(&tool)),
            ModelApi::Gemini => {
                found.extend(listed(&tool["functionDeclarations"]).iter().map(Tool::of_gemini));
            }
        }
    }
    // Tools that a search has found in the meantime.
    for item in listed(&body["input"]).iter().filter(|item| item["type"] == "tool_search_output") {
        found.extend(listed(&item["tools"]).iter().flat_map(responses_tools));
    }
    found.retain(|tool| !tool.name.is_empty());
    found
}

fn responses_tools(tool: &Value) -> Vec<Tool> {
    if tool["type"] != "namespace" {
        return vec![Tool::of(tool, "parameters", None)];
    }
    let inside = tool["tools"].as_array().cloned().unwrap_or_default();
    inside.iter().map(|each| Tool::of(each, "parameters", tool["name"].as_str())).collect()
}

impl Tool {
    fn of(value: &Value, schema: &str, namespace: Option<&str>) -> Self {
        let kind = value["type"].as_str().unwrap_or("function");
        Self {
            name: value["name"].as_str().unwrap_or(kind).to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            schema: value[schema].clone(),
        }
    }

    fn of_gemini(value: &Value) -> Self {
        let schema =
            if value["parametersJsonSchema"].is_object() { "parametersJsonSchema" } else { "parameters" };
        Self::of(value, schema, None)
    }

    fn takes(&self, property: &str) -> bool {
        self.schema["properties"].get(property).is_some()
    }

    fn is_freeform(&self) -> bool {
        self.kind == "custom"
    }

    fn called(&self, input: Value) -> WrittenCall {
        let form = match (self.kind.as_str(), input) {
            ("custom", Value::String(text)) => Form::Freeform(text),
            ("custom", other) => Form::Freeform(other.to_string()),
            ("tool_search", input) => Form::Search(input),
            (_, input) => Form::Json(input),
        };
        WrittenCall { name: self.name.clone(), namespace: self.namespace.clone(), form }
    }
}

/// Returns the call as the client expects it, or an error if the client offers no such tool.
pub(crate) fn called(call: &ScriptedCall, tools: &[Tool]) -> Result<WrittenCall, String> {
    let named = |name: &str| tools.iter().find(|tool| tool.name == name);
    let first = |names: &[&str]| names.iter().find_map(|name| named(name));
    let offered = || tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ");
    match call {
        ScriptedCall::Raw { tool, raw } => {
            let namespace = named(tool).and_then(|tool| tool.namespace.clone());
            Ok(WrittenCall { name: tool.clone(), namespace, form: Form::Raw(raw.clone()) })
        }
        // A tool that is not offered is called anyway, as a model may do.
        ScriptedCall::Tool { tool, input } => Ok(match named(tool) {
            Some(tool) => tool.called(input.clone()),
            None => WrittenCall { name: tool.clone(), namespace: None, form: Form::Json(input.clone()) },
        }),
        ScriptedCall::Mcp { mcp, input } => {
            let fits = |tool: &&Tool| {
                let before = tool.name.strip_suffix(mcp.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with(['_', '.', ':', '-']))
            };
            let tool = tools.iter().filter(fits).min_by_key(|tool| tool.name.len());
            let tool =
                tool.ok_or_else(|| format!("no tool is the MCP tool {mcp}; offered: {}", offered()))?;
            Ok(tool.called(input.clone()))
        }
        ScriptedCall::Write { write, content } => {
            if let Some(tool) = first(&WRITERS) {
                let path = ["file_path", "filePath", "path"].into_iter().find(|name| tool.takes(name));
                return Ok(tool.called(json!({ path.unwrap_or("file_path"): write, "content": content })));
            }
            if let Some(tool) = named("apply_patch").filter(|tool| tool.is_freeform()) {
                let added: String = content.lines().map(|line| format!("+{line}\n")).collect();
                let patch = format!("*** Begin Patch\n*** Add File: {write}\n{added}*** End Patch\n");
                return Ok(tool.called(Value::String(patch)));
            }
            let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
            let shell = format!("printf %s {} > {}", quoted(content), quoted(write));
            called(&ScriptedCall::Shell { shell }, tools)
        }
        ScriptedCall::Shell { shell } => {
            let tool = first(&SHELLS).ok_or_else(|| format!("no tool is a shell; offered: {}", offered()))?;
            let input = match tool.name.as_str() {
                "exec_command" => json!({ "cmd": shell }),
                "shell" => json!({ "command": ["bash", "-lc", shell] }),
                _ if tool.takes("description") => json!({ "command": shell, "description": "run a command" }),
                _ => json!({ "command": shell }),
            };
            Ok(tool.called(input))
        }
        ScriptedCall::Search { search } => match (named("ToolSearch"), named("tool_search")) {
            (Some(tool), _) => Ok(tool.called(json!({ "query": search, "max_results": 10 }))),
            (None, Some(tool)) => Ok(tool.called(json!({ "query": search, "limit": 10 }))),
            (None, None) => Err(format!("no tool searches for tools; offered: {}", offered())),
        },
    }
}
