//! Runs the HTTP server: one process for pages, API, events and MCP over HTTP.
//!
//! A request passes `http/accept.rs` (connections), `router/guard.rs` (host and origin), `principal.rs`
//! (authentication and rate limits), and is then answered by a module that `router.rs` lists.
//!
//! **Invariant:** it listens on loopback, or with TLS, or a person has declared a proxy in front of it.

pub(crate) mod accept;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_engine::manage::sign_in::{self, SignIn, SignInError};
use provost_engine::manage::tokens::{TokenGrant, TokenScope};
use provost_engine::observe::overview::{Overview, ServerAddressFile};
use provost_engine::session::agent_session::AgentSessions;
use provost_engine::settings::EngineSettings;
use tokio::signal::unix::{SignalKind, signal};

use crate::oidc::Oidc;
use crate::router::router;
use crate::state::{AppState, ServerNames};
use crate::stream;

pub use crate::state::{Beside, ClusterTables, Family, PageTable};

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
    /// The tables of the cluster page, if the log is shared.
    pub cluster: Option<Arc<ClusterTables>>,
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
    #[error(transparent)]
    SignIn(SignInError),
}

impl From<SignInError> for Error {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Engine(error) => Error::Engine(error),
            error => Error::SignIn(error),
        }
    }
}

/// Address of the running server, and the link for a person.
#[derive(Clone, Debug)]
pub struct ServerAddress {
    pub address: SocketAddr,
    /// Valid once.
    pub link: String,
    pub sign_in: OfferedSignIn,
}

/// How people can sign in, besides links.
#[derive(Clone, Debug)]
pub enum OfferedSignIn {
    Off,
    /// Agents can have written the section with the provider; it is not used.
    Untrusted,
    /// [`Oidc::probe`] says whether the provider can be reached.
    On(Arc<Oidc>),
}

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
    let overview = Overview::open(settings.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(32)
        .enable_all()
        .build()?;
    let socket = runtime
        .block_on(tokio::net::TcpListener::bind(options.listen))
        .map_err(|source| Error::Listen { address: options.listen, source })?;
    let address = socket.local_addr()?;
    let names = ServerNames::new(address, tls.is_some(), &options.behind_proxy);
    let link = format!("{}/enter?key=", names.shown());
    let sign_in = match sign_in::read(&overview)? {
        SignIn::Off => OfferedSignIn::Off,
        SignIn::Untrusted => OfferedSignIn::Untrusted,
        SignIn::On(settings) => OfferedSignIn::On(Arc::new(Oidc::new(*settings, &names.shown()))),
    };
    let oidc = if let OfferedSignIn::On(oidc) = &sign_in { Some(oidc.clone()) } else { None };
    let app = AppState::new(overview, names, (options.beside.clone(), options.cluster.clone()), oidc)?;
    let _listening = ServerAddressFile::at(app.overview.state(), address, &link)?;
    let grant = TokenGrant { scope: TokenScope::Admin, name: options.by.clone(), repositories: Vec::new() };
    let word = app.tokens.link(&grant)?.word;
    let sessions = Arc::new(AgentSessions::open(settings)?);
    stream::follow(&app)?;
    let service = router(&app, &sessions, options.patience);
    ready(&ServerAddress { address, link: format!("{link}{word}"), sign_in });
    runtime.block_on(async {
        tokio::select! {
            () = accept::all(socket, tls, service) => {}
            stopped = stopped() => stopped?,
        }
        Ok::<(), std::io::Error>(())
    })?;
    // A running check is killed with its processes, and is due again next time.
    sessions.stop();
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
