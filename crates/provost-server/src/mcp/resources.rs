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

pub fn all() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, description: &str, kind: &str| {
        let mut resource = Resource::new(uri, name);
        resource.description = Some(description.to_owned());
        resource.mime_type = Some(kind.to_owned());
        resource
    };
    vec![
        resource(PLAN, "plan", "The plan of this session as it stands", "text/plain"),
        resource(TEXT, "plan text", "The text of the plan as the log holds it", "text/markdown"),
        resource(LOG, "log", "What happened to the plan, one JSON object a line", "application/x-ndjson"),
    ]
}

/// Reads a resource; `None` if it does not exist.
pub fn read(
    desk: &AgentSessions,
    session: &ClientSession,
    uri: &str,
) -> Option<Result<ReadResourceResult, SessionRefusal>> {
    let text = match uri {
        PLAN => desk.show(session).map(|shown| words::plan(&shown.run, &shown.name)),
        TEXT => desk.show(session).map(|shown| words::text(&shown.run)),
        LOG => {
            desk.log(session, EVENTS).map(|events| events.iter().map(|event| event.line() + "\n").collect())
        }
        _ => return None,
    };
    Some(text.map(|text| ReadResourceResult::new(vec![ResourceContents::text(text, uri)])))
}
