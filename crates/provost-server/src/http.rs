//! The HTTP server: one process for pages, API, events and MCP over HTTP.
//!
//! A request passes these modules in order: `accept` (connections), `guard` (host and origin), `door`
//! (requests without a principal), `visitor` (authentication), `limit` (rate limits), `again` (idempotency).
//!
//! **Invariant:** it listens on loopback, or with TLS, or a person has declared a proxy in front of it.

mod accept;
mod idempotency;
pub(crate) mod door;
mod guard;
mod limit;
pub(crate) mod problem;
pub(crate) mod principal;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::get;
use provost_engine::manage::tokens::{TokenScope, Tokens};
use provost_engine::observe::overview::{Overview, ServerAddressFile};
use provost_engine::session::agent_session::AgentSessions;
use provost_engine::settings::EngineSettings;
use tokio::signal::unix::{SignalKind, signal};

use crate::sse::LiveEvents;
use crate::traces::Traces;
use crate::{api, assets, mcp, metrics, pages};

pub use crate::metrics::{Beside, Family};
use guard::ServerNames;
pub(crate) use principal::{JsonBody, PageForm, Query, Scraper, Segment, Viewer, Visitor};
pub(crate) use problem::{Answer, Problem};

/// Maximum body size; no plan or text of a person is longer.
const BODY_MAX: usize = 4 << 20;

/// Options of the server.
#[derive(Clone)]
pub struct ServeOptions {
    pub listen: SocketAddr,
    /// Certificate chain and key, as PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Host names under which a proxy forwards requests; empty without a proxy.
    pub behind_proxy: Vec<String>,
    /// Person that the link is for.
    pub by: String,
    /// Maximum time that MCP tools keep an agent waiting.
    pub patience: Duration,
    /// Extra metric families from the caller (the cluster).
    pub beside: Option<Arc<Beside>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{0} can be reached from other machines, and what is sent there would be open to all: a session, \
         tokens, plans"
    )]
    Open(SocketAddr),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot use {} for TLS: {why}", .path.display())]
    Tls { path: PathBuf, why: String },
    #[error("cannot start the server")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Engine(#[from] provost_engine::Error),
}

/// Address of the running server, and the link for a person.
#[derive(Clone, Debug)]
pub struct ServerAddress {
    pub address: SocketAddr,
    /// Valid once.
    pub link: String,
}

/// App state shared by all requests.
pub(crate) struct AppState {
    pub overview: Overview,
    pub tokens: Tokens,
    pub origin: ServerNames,
    pub live: LiveEvents,
    pub limits: limit::RateLimits,
    pub writes: idempotency::WriteLog,
    pub counts: metrics::Counts,
    pub plan_numbers: metrics::CachedPart,
    pub other_numbers: metrics::CachedPart,
    pub beside: Option<Arc<Beside>>,
    pub machine: api::MachineKept,
    pub traces: Traces,
    pub news: pages::News,
    pub drawings: pages::Drawings,
}

pub(crate) type Shared = Arc<AppState>;

/// Serves until a signal arrives. Calls `ready` once it listens.
pub fn serve(
    settings: EngineSettings,
    options: &ServeOptions,
    ready: impl FnOnce(&ServerAddress),
) -> Result<(), Error> {
    let is_open = !options.listen.ip().is_loopback();
    if is_open && options.tls.is_none() && options.behind_proxy.is_empty() {
        return Err(Error::Open(options.listen));
    }
    let tls = options.tls.as_ref().map(accept::tls).transpose()?;
    let traces = Traces::by_environment(&settings)?;
    let overview = Overview::open(settings.clone())?;
    let tokens = Tokens::new(overview.state());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(32)
        .enable_all()
        .build()?;
    let socket = runtime
        .block_on(tokio::net::TcpListener::bind(options.listen))
        .map_err(|source| Error::Listen { address: options.listen, source })?;
    let address = socket.local_addr()?;
    let origin = ServerNames::new(address, tls.is_some(), &options.behind_proxy);
    let link = format!("{}/enter?key=", origin.shown());
    let _listening = ServerAddressFile::at(overview.state(), address, &link)?;
    let word = tokens.link(TokenScope::Decide, &options.by)?.word;
    let house = Arc::new(AppState {
        live: LiveEvents::new(overview.cursor()?),
        overview,
        tokens,
        origin,
        limits: limit::RateLimits::default(),
        writes: idempotency::WriteLog::default(),
        counts: metrics::Counts::default(),
        plan_numbers: metrics::CachedPart::default(),
        other_numbers: metrics::CachedPart::default(),
        beside: options.beside.clone(),
        machine: api::MachineKept::default(),
        traces,
        news: pages::News::default(),
        drawings: pages::Drawings::default(),
    });
    let desk = Arc::new(AgentSessions::open(settings)?);
    crate::sse::follow(&house)?;
    let app = router(&house, &desk, options.patience);
    ready(&ServerAddress { address, link: format!("{link}{word}") });
    runtime.block_on(async {
        tokio::select! {
            () = accept::all(socket, tls, app) => {}
            stopped = stopped() => stopped?,
        }
        Ok::<(), std::io::Error>(())
    })?;
    // A running check is killed with its processes, and is due again next time.
    desk.stop();
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

/// Waits for a signal.
async fn stopped() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn router(house: &Shared, desk: &Arc<AgentSessions>, patience: Duration) -> Router {
    let inside = Router::new()
        .merge(api::routes())
        .merge(pages::routes())
        .route("/metrics", get(metrics::show))
        .route("/healthz", get(metrics::healthy))
        .route("/readyz", get(metrics::ready))
        .route("/assets/{file}", get(assets::serve))
        .with_state(house.clone())
        .merge(mcp::over_http(house, desk, patience))
        .fallback(guard::nothing_here)
        .method_not_allowed_fallback(guard::not_so);
    inside
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(house.clone(), idempotency::once))
        .layer(middleware::from_fn_with_state(house.clone(), guard::look))
}

/// Runs a blocking call of the engine outside of the async threads.
pub(crate) async fn ask<T: Send + 'static>(
    house: &Shared,
    ask: impl FnOnce(&AppState) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let house = house.clone();
    match tokio::task::spawn_blocking(move || ask(&house)).await {
        Ok(answer) => answer,
        Err(_) => Err(Problem::broken("something broke on the way")),
    }
}
