//! Puts the routes of all modules together, and wraps every request.

mod compress;
mod guard;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::middleware;
use axum::routing::get;
use provost_engine::session::agent_session::AgentSessions;

use crate::principal::Viewer;
use crate::request::BODY_MAX;
use crate::state::SharedState;
use crate::{api, assets, mcp, metrics, pages, stream};

/// Returns the service of all routes. MCP tools keep an agent waiting for at most `patience`.
pub(crate) fn router(app: &SharedState, sessions: &Arc<AgentSessions>, patience: Duration) -> Router {
    let (api, document) = api::routes().merge(stream::routes()).split_for_parts();
    let document = Bytes::from(document.to_pretty_json().unwrap_or_default());
    let openapi =
        move |_viewer: Viewer| async move { ([(header::CONTENT_TYPE, "application/json")], document) };
    let inside = Router::new()
        .merge(api)
        .route("/api/openapi.json", get(openapi))
        .merge(pages::routes())
        .merge(metrics::routes())
        .route("/assets/{file}", get(assets::serve))
        .with_state(app.clone())
        .merge(mcp::over_http(app, sessions, patience))
        .fallback(guard::nothing_here)
        .method_not_allowed_fallback(guard::not_so);
    inside
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(app.clone(), guard::wrap))
}
