//! Accepts connections: their number, the time for a request to arrive, and TLS.
//!
//! **Invariant:** an idle connection costs little and is closed soon.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::Error;
use crate::principal::Ends;

/// Maximum number of connections; many pages stay open for long.
const CONNECTIONS_MAX: usize = 20_000;
/// Time limit for the head of a request, and for the TLS handshake.
const PATIENCE: Duration = Duration::from_secs(15);
/// Buffer size per connection.
const BUFFER: usize = 16 * 1024;

pub(super) fn tls(files: &(PathBuf, PathBuf)) -> Result<TlsAcceptor, Error> {
    let (chain, key) = files;
    let bad = |path: &PathBuf, why: String| Error::Tls { path: path.clone(), why };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad(chain, error.to_string()))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, secret))
        .map_err(|error| bad(chain, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves all connections, as long as it is polled.
pub(crate) async fn all(listener: TcpListener, tls: Option<TlsAcceptor>, service: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let Ok((stream, theirs)) = listener.accept().await else {
            // Usually too many open files; this passes.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (tls, service) = (tls.clone(), service.clone());
        tokio::spawn(async move {
            serve(stream, theirs, tls, service).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, theirs: SocketAddr, tls: Option<TlsAcceptor>, service: Router) {
    let Ok(ours) = stream.local_addr() else { return };
    let _ = stream.set_nodelay(true);
    let ends = Ends { ours, theirs, outside: Arc::default(), client: Arc::default() };
    match tls {
        None => talk(stream, ends, service).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
                talk(stream, ends, service).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, ends: Ends, service: Router) {
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ends.clone());
        let mut service = service.clone();
        async move { service.call(request.map(Body::new)).await }
    });
    // A client that disconnects in the middle is no error.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
