//! The plan and its log as MCP resources, for clients that show them to people.

use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, SessionRefusal};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

use super::words;

const PLAN: &str = "provost://plan";
const TEXT: &str = "provost://plan.md";
const LOG: &str = "provost://log";
/// Number of events, the newest ones.
const EVENTS: usize = 500;

pub(super) fn all() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, description: &str, kind: &str| {
        let mut resource = Resource::new(uri, name);
        resource.description = Some(description.to_owned());
        resource.mime_type = Some(kind.to_owned());
        resource
    };
    vec![
        resource(PLAN, "plan", "The state of the plan of this session", "text/plain"),
        resource(TEXT, "plan text", "The text of the plan in the log", "text/markdown"),
        resource(LOG, "log", "The events of the plan, one JSON object per line", "application/x-ndjson"),
    ]
}

/// Reads a resource; `None` if it does not exist.
pub(super) fn read(
    sessions: &AgentSessions,
    session: &ClientSession,
    uri: &str,
) -> Option<Result<ReadResourceResult, SessionRefusal>> {
    let text = match uri {
        PLAN => sessions.show(session).map(|shown| words::plan(&shown.run, &shown.name)),
        TEXT => sessions.show(session).map(|shown| words::text(&shown.run)),
        LOG => sessions
            .log(session, EVENTS)
            .map(|events| events.iter().map(|event| event.line() + "\n").collect()),
        _ => return None,
    };
    Some(text.map(|text| ReadResourceResult::new(vec![ResourceContents::text(text, uri)])))
}
