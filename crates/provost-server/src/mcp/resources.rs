//! Plans, their logs and the inbox as MCP resources, for clients that show them to people.
//!
//! A session reads every plan of its folder, and writes only to its own.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, SessionPlan, SessionRefusal};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::{folder, words};

const PLAN: &str = "provost://plan";
const TEXT: &str = "provost://plan.md";
const LOG: &str = "provost://log";
const INBOX: &str = "provost://inbox";
/// Followed by the name of a plan.
const PLANS: &str = "provost://plans/";
/// Number of events, the newest ones.
const EVENTS: usize = 500;

/// Characters of a name that an address cannot have.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

const PLAIN: &str = "text/plain";
const MARKDOWN: &str = "text/markdown";
const LINES: &str = "application/x-ndjson";

/// A resource, by its address.
enum Found {
    Plan,
    Text,
    Log,
    Inbox,
    Named(String),
}

fn found(uri: &str) -> Option<Found> {
    Some(match uri {
        PLAN => Found::Plan,
        TEXT => Found::Text,
        LOG => Found::Log,
        INBOX => Found::Inbox,
        uri => {
            let name = percent_decode_str(uri.strip_prefix(PLANS)?).decode_utf8().ok()?;
            Found::Named(Some(name.into_owned()).filter(|name| !name.is_empty())?)
        }
    })
}

/// Lists the resources of the session, and the plans of its folder.
pub(super) fn all(sessions: &AgentSessions, session: &ClientSession) -> Vec<Resource> {
    let resource = |uri: &str, name: &str, description: &str, kind: &str| {
        let mut resource = Resource::new(uri, name);
        resource.description = Some(description.to_owned());
        resource.mime_type = Some(kind.to_owned());
        resource
    };
    let mut all = vec![
        resource(PLAN, "plan", "The state of the plan of this session", PLAIN),
        resource(TEXT, "plan text", "The text of the plan in the log", MARKDOWN),
        resource(LOG, "log", "The events of the plan, one JSON object per line", LINES),
        resource(INBOX, "inbox", "Items of the plans of this folder that wait for a person", PLAIN),
    ];
    // A folder whose plans cannot be listed still has the others.
    for plan in sessions.plans(session).unwrap_or_default() {
        let name = &plan.card.name;
        all.push(resource(&uri_of(name), name, &format!("The state of the plan {name}"), PLAIN));
    }
    all
}

pub(super) fn template() -> ResourceTemplate {
    let template = ResourceTemplate::new(format!("{PLANS}{{name}}"), "plan by name");
    template.with_description("The state of a plan of this folder").with_mime_type(PLAIN)
}

fn uri_of(name: &str) -> String {
    format!("{PLANS}{}", utf8_percent_encode(name, ENCODED))
}

/// Reads a resource; `None` if it does not exist.
pub(super) fn read(
    sessions: &AgentSessions,
    session: &ClientSession,
    uri: &str,
) -> Option<Result<ReadResourceResult, SessionRefusal>> {
    let (kind, text) = match found(uri)? {
        Found::Plan => (PLAIN, sessions.show(session).map(|shown| state(&shown))),
        Found::Named(name) => (PLAIN, sessions.show_named(session, &name).map(|shown| state(&shown))),
        Found::Text => (MARKDOWN, sessions.show(session).map(|shown| words::text(&shown.run))),
        Found::Inbox => (PLAIN, sessions.inbox().map(|items| folder::inbox(&items))),
        Found::Log => {
            let events = sessions.log(session, EVENTS);
            (LINES, events.map(|events| events.iter().map(|event| event.line() + "\n").collect()))
        }
    };
    let contents = |text: String| ResourceContents::text(text, uri).with_mime_type(kind);
    Some(text.map(|text| ReadResourceResult::new(vec![contents(text)])))
}

fn state(plan: &SessionPlan) -> String {
    match plan.is_own {
        true => words::plan(&plan.run, &plan.name),
        false => words::other_plan(&plan.run, &plan.name),
    }
}

/// Returns whether there can be a resource of that address.
pub(super) fn is_address(uri: &str) -> bool {
    found(uri).is_some()
}

/// Returns a value that changes with the resource; `None` as long as it cannot be read.
pub(super) fn version(sessions: &AgentSessions, session: &ClientSession, uri: &str) -> Option<String> {
    let events = match found(uri)? {
        Found::Inbox => {
            let items = sessions.inbox().ok()?;
            return Some(items.iter().map(|item| format!("{}\n", item.id)).collect());
        }
        Found::Named(name) => sessions.length(session, Some(&name)),
        Found::Plan | Found::Text | Found::Log => sessions.length(session, None),
    };
    Some(events.ok()?.to_string())
}
