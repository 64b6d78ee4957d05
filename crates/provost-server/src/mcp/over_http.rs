//! The MCP service over HTTP: streamable, at `/mcp`, for agents whose client cannot start a server.
//!
//! A session is the protocol's session; a client without one is known by its token. A client on this machine
//! is also known by its process, so that nothing inside it passes for a person.
//!
//! **Invariant:** only a token of scope `agent` gives access here, and it gives access to nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use provost_engine::manage::tokens::{TokenKind, TokenScope};
use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::AgentSessions;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Mcp;
use crate::http::{Problem, Shared, ask, principal};

const SESSION: &str = "mcp-session-id";

/// The requesting session.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Name of its session.
    pub name: String,
}

#[derive(Clone)]
struct Entrance {
    house: Shared,
    desk: Arc<AgentSessions>,
}

pub(crate) fn over_http(house: &Shared, desk: &Arc<AgentSessions>, patience: Duration) -> Router {
    // `guard` has already checked hosts and origins.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts();
    let (for_all, cwd) = (desk.clone(), house.overview.settings().cwd.clone());
    let service = StreamableHttpService::new(
        move || Ok(Mcp::new(for_all.clone(), ClientSession::over_http("", &cwd, None), patience)),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let entrance = Entrance { house: house.clone(), desk: desk.clone() };
    Router::new().route_service("/mcp", service).layer(middleware::from_fn_with_state(entrance, admit))
}

async fn admit(State(entrance): State<Entrance>, request: Request, next: Next) -> Response {
    match admitted(&entrance, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn admitted(Entrance { house, desk }: &Entrance, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let visitor = principal::known(&mut parts, house).await?;
    principal::within(house, principal::CallerKind::View, &visitor.token.id)?;
    if visitor.token.scope != TokenScope::Agent || visitor.token.kind != TokenKind::Token {
        return Err(Problem::forbidden("scope", "this takes scope `agent`")
            .hint("`provost serve token --scope agent` makes one; a person's token is not for agents."));
    }
    let session = parts.headers.get(SESSION).and_then(|name| name.to_str().ok()).map(str::to_owned);
    let name = match &session {
        Some(id) => format!("http {id}"),
        None => format!("token {}", visitor.token.id),
    };
    if session.is_none() {
        let (desk, name) = (desk.clone(), name.clone());
        ask(house, move |house| {
            let client = visitor.who(house).client();
            let session = ClientSession::over_http(&name, &house.overview.settings().cwd, client);
            desk.arrive(&session).map_err(|refused| Problem::broken(refused.to_string()))
        })
        .await?;
    }
    parts.extensions.insert(Asker { name });
    Ok(Request::from_parts(parts, body))
}
