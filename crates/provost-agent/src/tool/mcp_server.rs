//! Tools of MCP servers. The loop is the client of each server, over stdio or HTTP.
//!
//! If there are many tools, the model does not get them all at once: it searches for one and calls it.
//!
//! **Invariant:** a server gets no variable that may hold the key of the model's API.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, ContentBlock, Implementation};
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::process::Child;

use super::files::Workspace;
use super::{Spec, Tool, ToolAnswer};

/// Time for a server to start and to list its tools.
const START: Duration = Duration::from_secs(60);
/// Time for one call.
const CALL: Duration = Duration::from_secs(600);
/// Most tools of servers that the model gets without a search.
const SHOWN_MAX: usize = 40;
/// Most tools that one search shows.
const FOUND_MAX: usize = 8;
/// Longest name of a tool that every provider accepts.
const NAME_MAX: usize = 64;

/// An MCP server, as the configuration of a role names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct McpServer {
    pub name: String,
    /// The program to start, with its arguments; it speaks MCP on stdin and stdout.
    pub command: Vec<String>,
    /// The address, if no program is started.
    pub url: Option<String>,
    /// The variable with the bearer token for the address.
    pub key_env: Option<String>,
    /// The only tools of it that the model gets; `None` for all.
    pub tools: Option<Vec<String>>,
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the MCP server `{name}` cannot be used: {why}")]
pub struct McpServerError {
    name: String,
    why: String,
}

/// A connected server. Its process ends with it.
pub struct McpConnection {
    tools: Vec<Tool>,
    _service: Arc<RunningService<RoleClient, ClientConfig>>,
    _process: Option<Child>,
}

impl McpConnection {
    /// Connects to the server and lists its tools. A stdio server starts in the workspace.
    pub async fn open(server: &McpServer, workspace: &Workspace) -> Result<Self, McpServerError> {
        let failed = |why: String| McpServerError { name: server.name.clone(), why };
        match tokio::time::timeout(START, Self::connect(server, workspace)).await {
            Ok(connected) => connected.map_err(failed),
            Err(_) => Err(failed(format!("it did not answer within {} s", START.as_secs()))),
        }
    }

    async fn connect(server: &McpServer, workspace: &Workspace) -> Result<Self, String> {
        let mut client = ClientConfig::default();
        client.client_info = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
        let (service, process) = match (&server.url, server.command.split_first()) {
            (Some(url), _) => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                if let Some(name) = &server.key_env {
                    let key = std::env::var(name).map_err(|_| format!("{name} is not set"))?;
                    config = config.auth_header(key.trim());
                }
                let transport = StreamableHttpClientTransport::from_config(config);
                (client.serve(transport).await.map_err(|error| error.to_string())?, None)
            }
            (None, Some((program, arguments))) => {
                let mut command = workspace.command(program);
                command.args(arguments).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.spawn().map_err(|error| format!("`{program}`: {error}"))?;
                let (Some(stdout), Some(stdin)) = (child.stdout.take(), child.stdin.take()) else {
                    return Err(format!("`{program}` has no stdin and stdout"));
                };
                (client.serve((stdout, stdin)).await.map_err(|error| error.to_string())?, Some(child))
            }
            (None, None) => return Err("it has neither a command nor a url".to_owned()),
        };
        let service = Arc::new(service);
        let listed = service.list_all_tools().await.map_err(|error| error.to_string())?;
        let tools = chosen(server, listed)?;
        let tools = tools.into_iter().map(|each| tool(&server.name, each, &service)).collect();
        Ok(Self { tools, _service: service, _process: process })
    }
}

/// Returns the tools that the role may use; an error if the server lacks one of them.
fn chosen(server: &McpServer, listed: Vec<rmcp::model::Tool>) -> Result<Vec<rmcp::model::Tool>, String> {
    let Some(wanted) = &server.tools else { return Ok(listed) };
    let names: Vec<&str> = listed.iter().map(|tool| &*tool.name).collect();
    if let Some(missing) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("it has no tool `{missing}`; it has {}", names.join(", ")));
    }
    Ok(listed.into_iter().filter(|tool| wanted.iter().any(|name| *name == tool.name)).collect())
}

fn tool(
    server: &str,
    listed: rmcp::model::Tool,
    service: &Arc<RunningService<RoleClient, ClientConfig>>,
) -> Tool {
    let spec = Spec {
        name: name(server, &listed.name),
        description: listed.description.as_deref().unwrap_or_default().trim().to_owned(),
        schema: Value::Object((*listed.input_schema).clone()),
    };
    let reads_only = listed.annotations.as_ref().and_then(|hints| hints.read_only_hint).unwrap_or(false);
    let (service, theirs) = (service.clone(), listed.name.clone());
    let tool = Tool::described(spec, move |arguments| {
        let (service, theirs) = (service.clone(), theirs.clone());
        async move {
            let mut params = CallToolRequestParams::new(theirs);
            params.arguments = arguments.as_object().cloned();
            match tokio::time::timeout(CALL, service.call_tool(params)).await {
                Ok(Ok(result)) => answer(result),
                Ok(Err(error)) => Err(format!("the MCP server reports: {error}")),
                Err(_) => Err(format!("the MCP server did not answer within {} s", CALL.as_secs())),
            }
        }
    });
    if reads_only { tool.reading_only() } else { tool }
}

/// Returns the name for the model, in characters that every provider accepts: `SERVER__TOOL`.
fn name(server: &str, tool: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => letter,
        _ => '_',
    };
    format!("{server}__{tool}").chars().map(plain).take(NAME_MAX).collect()
}

/// Returns the text of a result; what is not text is named.
fn answer(result: CallToolResult) -> ToolAnswer {
    let parts = result.content.iter().map(|part| match part {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio, {}]", audio.mime_type),
        other => serde_json::to_string(other).unwrap_or_default(),
    });
    let mut text = parts.collect::<Vec<_>>().join("\n");
    if let Some(value) = result.structured_content.as_ref().filter(|_| text.trim().is_empty()) {
        text = value.to_string();
    }
    if result.is_error.unwrap_or(false) { Err(text) } else { Ok(text) }
}

/// Returns the tools of all servers as the model gets them: each one, or a search if there are many.
pub fn tools(servers: &[McpConnection]) -> Vec<Tool> {
    let all: Vec<Tool> = servers.iter().flat_map(|server| server.tools.iter().cloned()).collect();
    if all.len() <= SHOWN_MAX { all } else { searchable(all) }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Words about what the tool should do, or a part of its name.
    query: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Use {
    /// Name of a tool that tool_search showed.
    tool: String,
    /// Its arguments.
    #[serde(default)]
    arguments: serde_json::Map<String, Value>,
}

fn searchable(all: Vec<Tool>) -> Vec<Tool> {
    let all = Arc::new(all);
    let count = all.len();
    let servers: std::collections::BTreeSet<&str> =
        all.iter().filter_map(|tool| tool.spec.name.split("__").next()).collect();
    let servers = servers.into_iter().collect::<Vec<_>>().join(", ");
    let description =
        format!("Finds tools among {count} of these MCP servers: {servers}. Call one with tool_call.");
    let known = all.clone();
    let search = Tool::new("tool_search", &description, move |ask: Search| {
        let known = known.clone();
        async move { found(&known, &ask.query) }
    });
    let call = Tool::new("tool_call", "Calls a tool that tool_search found.", move |ask: Use| {
        let tool = all.iter().find(|tool| tool.spec.name == ask.tool).cloned();
        async move {
            match tool {
                Some(tool) => tool.call(Value::Object(ask.arguments)).await,
                None => Err(format!("there is no tool `{}`; find one with tool_search", ask.tool)),
            }
        }
    });
    vec![search.reading_only(), call]
}

/// Lists the tools that have the most words of the query in their name and description.
fn found(all: &[Tool], query: &str) -> ToolAnswer {
    let words: Vec<String> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let hits = |tool: &Tool| {
        let (name, text) = (tool.spec.name.to_lowercase(), tool.spec.description.to_lowercase());
        let of_word = |word: &String| 2 * usize::from(name.contains(word)) + usize::from(text.contains(word));
        words.iter().map(of_word).sum::<usize>()
    };
    let mut ranked: Vec<(usize, &Tool)> =
        all.iter().map(|tool| (hits(tool), tool)).filter(|(hits, _)| *hits > 0).collect();
    ranked.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits));
    if ranked.is_empty() {
        let names: Vec<&str> = all.iter().map(|tool| tool.spec.name.as_str()).collect();
        return Err(format!("no tool has these words; there are {}", names.join(", ")));
    }
    let shown = ranked.into_iter().take(FOUND_MAX).map(|(_, tool)| {
        let Spec { name, description, schema } = &tool.spec;
        json!({ "name": name, "description": description, "arguments": schema }).to_string()
    });
    Ok(shown.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, description: &str) -> Tool {
        let spec = Spec { name: name.to_owned(), description: description.to_owned(), schema: json!({}) };
        let said = name.to_owned();
        Tool::described(spec, move |arguments| {
            let said = said.clone();
            async move { Ok(format!("{said} {arguments}")) }
        })
    }

    #[tokio::test]
    async fn many_tools_are_searched_and_called_by_name() {
        let mut all: Vec<Tool> =
            (0..SHOWN_MAX).map(|n| named(&format!("db__table_{n}"), "Reads rows.")).collect();
        all.push(named("git__push", "Sends commits to a remote."));
        let tools = searchable(all);
        let [search, call] = &tools[..] else { panic!("two tools") };
        assert!(search.spec.description.contains("41 of these MCP servers: db, git"));
        let seen = search.call(json!({ "query": "push commits" })).await.expect("found");
        assert!(seen.starts_with(r#"{"name":"git__push","description":"Sends commits"#), "{seen}");
        let asked = json!({ "tool": "git__push", "arguments": { "to": "origin" } });
        assert_eq!(call.call(asked).await, Ok(r#"git__push {"to":"origin"}"#.to_owned()));
        let unknown = call.call(json!({ "tool": "git_push" })).await.expect_err("unknown");
        assert!(unknown.contains("tool_search"), "{unknown}");
    }

    #[test]
    fn names_have_only_letters_that_every_provider_accepts() {
        assert_eq!(name("my server", "a.b/c"), "my_server__a_b_c");
        assert_eq!(name("s", &"x".repeat(90)).len(), NAME_MAX);
    }
}
