//! Answers the probes of an orchestrator for a process that is no HTTP server, such as a worker.
//!
//! **Invariant:** the answers contain no plan, no person and no address; they need no token and no TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use crate::http::{Error, accept};

/// Answers a probe: `Err` with the reason.
pub type ProbeAnswer = dyn Fn() -> Result<(), String> + Send + Sync;

/// Listens on its own thread until the process ends; returns the address. `alive` answers `/healthz`, `ready`
/// answers `/readyz`.
pub fn listen(
    address: SocketAddr,
    alive: Arc<ProbeAnswer>,
    ready: Arc<ProbeAnswer>,
) -> Result<SocketAddr, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = runtime
        .block_on(tokio::net::TcpListener::bind(address))
        .map_err(|source| Error::Listen { address, source })?;
    let bound = socket.local_addr()?;
    let answer = |probe: Arc<ProbeAnswer>| {
        get(move || async move {
            match probe() {
                Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            }
        })
    };
    let service = Router::new().route("/healthz", answer(alive)).route("/readyz", answer(ready));
    std::thread::Builder::new()
        .name("provost-probes".to_owned())
        .spawn(move || runtime.block_on(accept::all(socket, None, service)))?;
    Ok(bound)
}
