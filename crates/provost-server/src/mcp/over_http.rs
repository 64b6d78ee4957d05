//! The MCP service over HTTP: streamable, at `/mcp`, for agents whose client cannot start a server.
//!
//! A session is the protocol's session; a client without one is known by its token. A client on this machine
//! is also known by its process, so that nothing inside it passes for a person, and its stop hook finds the
//! plan.
//!
//! **Invariant:** only a token of scope `agent` gives access here, and it gives access to nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use provost_engine::manage::tokens::{TokenKind, TokenScope};
use provost_engine::plan::sessions::{ClientProcess, ClientSession, name_over_http};
use provost_engine::session::agent_session::AgentSessions;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Mcp;
use crate::principal;
use crate::problem::Problem;
use crate::state::{CallerKind, SharedState, ask};

const SESSION: &str = "mcp-session-id";

/// The requesting session.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    /// Name of its session.
    pub name: String,
    /// Its client, if that runs on this machine.
    pub client: Option<ClientProcess>,
}

#[derive(Clone)]
struct Entrance {
    app: SharedState,
    sessions: Arc<AgentSessions>,
}

pub(crate) fn over_http(app: &SharedState, sessions: &Arc<AgentSessions>, patience: Duration) -> Router {
    // `guard` has already checked hosts and origins.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts();
    let (for_all, cwd) = (sessions.clone(), app.overview.settings().cwd.clone());
    let service = StreamableHttpService::new(
        move || Ok(Mcp::new(for_all.clone(), ClientSession::over_http(&cwd), patience)),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let entrance = Entrance { app: app.clone(), sessions: sessions.clone() };
    Router::new().route_service("/mcp", service).layer(middleware::from_fn_with_state(entrance, admit))
}

async fn admit(State(entrance): State<Entrance>, request: Request, next: Next) -> Response {
    match admitted(&entrance, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn admitted(Entrance { app, sessions }: &Entrance, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let principal = principal::known(&mut parts, app).await?;
    principal::within(app, CallerKind::View, &principal.token.id)?;
    if principal.token.scope != TokenScope::Agent || principal.token.kind != TokenKind::Token {
        return Err(Problem::forbidden("scope", "this needs a token with scope `agent`")
            .hint("Make one with `provost serve token --scope agent`; agents cannot use a person's token."));
    }
    principal.must_see_folder(app)?;
    let session = parts.headers.get(SESSION).and_then(|name| name.to_str().ok()).map(str::to_owned);
    let name = name_over_http(session.as_deref(), &principal.token.id);
    let (sessions, asker) = (sessions.clone(), name.clone());
    let client = ask(app, move |app| {
        let client = principal.client(app);
        if session.is_none() {
            let session = ClientSession::over_http(&app.overview.settings().cwd);
            let arrived = sessions.arrive(&session.named(&asker).with_client(client));
            arrived.map_err(|refused| Problem::broken(refused.to_string()))?;
        }
        Ok(client)
    })
    .await?;
    parts.extensions.insert(Asker { name, client });
    Ok(Request::from_parts(parts, body))
}
