//! Connects to the provider: directly or through the user's proxy, plain or with TLS.
//!
//! **Invariant:** a thread that waits for the provider notices when the agent disconnects, and ends the
//! connection.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::http::Uri;

use crate::egress::proxy::{Address, Upstream};
use crate::egress::trust_roots::TrustRoots;

const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
/// A model may think for minutes before the next byte arrives.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// The address of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    is_tls: bool,
    address: Address,
    /// As sent in the `host` header: without a default port.
    host: String,
    /// Prefix of each request's path, without a trailing slash.
    path: String,
}

impl Target {
    /// Parses `https://host[:port][/path]`, or `http://` for a server of the user's own.
    pub fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.trim().parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (host, path) = (uri.authority()?.as_str(), uri.path());
        if host.contains('@') || uri.query().is_some() || url.contains('#') || !path.is_ascii() {
            return None;
        }
        let address = Address::of_url(url, 0)?;
        Some(Self { is_tls, address, host: host.to_owned(), path: path.trim_end_matches('/').to_owned() })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.host, self.path)
    }
}

/// The user's network settings: the proxy and the trusted certificates.
pub struct NetworkSettings {
    proxy: Option<Upstream>,
    roots: TrustRoots,
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl NetworkSettings {
    pub fn of(environment: &[(OsString, OsString)]) -> Self {
        let roots = TrustRoots::from_environment(environment);
        Self { proxy: Upstream::of(environment), roots, tls: OnceLock::new() }
    }

    pub(super) fn connect(&self, target: &Target) -> io::Result<UpstreamConnection> {
        let raw = match self.proxy.as_ref().filter(|proxy| proxy.leads_to(&target.address)) {
            Some(proxy) => proxy.connect(&target.address)?,
            None => directly(&target.address)?,
        };
        raw.set_nodelay(true)?;
        raw.set_write_timeout(Some(IDLE))?;
        let watched = UpstreamSocket { wire: raw.try_clone()?, agent: None, patience: CONNECT_PATIENCE };
        let stream = match target.is_tls {
            false => UpstreamStream::Plain(watched),
            true => {
                let config = self.tls.get_or_init(|| config(&self.roots)).clone();
                let name = ServerName::try_from(target.address.host.clone()).map_err(io::Error::other)?;
                let config = config.map_err(io::Error::other)?;
                let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
                let mut stream = StreamOwned::new(connection, watched);
                // Verified before anything is sent, so that a wrong server gets neither the request nor the
                // key.
                while stream.conn.is_handshaking() {
                    stream.conn.complete_io(&mut stream.sock)?;
                }
                UpstreamStream::Tls(Box::new(stream))
            }
        };
        Ok(UpstreamConnection { raw, reader: BufReader::with_capacity(64 * 1024, stream) })
    }
}

fn directly(to: &Address) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn config(trusted: &TrustRoots) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.load()?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// A connection to the provider.
pub(super) struct UpstreamConnection {
    raw: TcpStream,
    pub reader: BufReader<UpstreamStream>,
}

impl UpstreamConnection {
    /// Sets the agent that waits for the next answer.
    pub(super) fn wait_for(&mut self, agent: &TcpStream) -> io::Result<()> {
        let watched = match self.reader.get_mut() {
            UpstreamStream::Plain(watched) => watched,
            UpstreamStream::Tls(stream) => &mut stream.sock,
        };
        (watched.agent, watched.patience) = (Some(agent.try_clone()?), IDLE);
        Ok(())
    }

    /// Returns a handle with which another thread can end the connection.
    pub(super) fn handle(&self) -> Option<TcpStream> {
        self.raw.try_clone().ok()
    }

    /// Returns whether nothing has arrived since the last answer, not even the end of the stream.
    pub(super) fn is_quiet(&self) -> bool {
        let mut looked_at = [PollFd::new(&self.raw, PollFlags::IN | PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.reader.buffer().is_empty() && rustix::event::poll(&mut looked_at, Some(&at_once)) == Ok(0)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.reader.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }
}

pub(super) enum UpstreamStream {
    Plain(UpstreamSocket),
    Tls(Box<StreamOwned<ClientConnection, UpstreamSocket>>),
}

impl Read for UpstreamStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            UpstreamStream::Plain(stream) => stream.read(into),
            UpstreamStream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for UpstreamStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            UpstreamStream::Plain(stream) => stream.write(bytes),
            UpstreamStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            UpstreamStream::Plain(stream) => stream.flush(),
            UpstreamStream::Tls(stream) => stream.flush(),
        }
    }
}

/// Reads from the provider while the agent is connected.
pub(super) struct UpstreamSocket {
    wire: TcpStream,
    agent: Option<TcpStream>,
    /// Timeout for the next byte.
    patience: Duration,
}

impl Read for UpstreamSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let patience =
            Timespec { tv_sec: i64::try_from(self.patience.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 };
        let mut looked_at = vec![PollFd::new(&self.wire, PollFlags::IN)];
        looked_at.extend(self.agent.as_ref().map(|agent| PollFd::new(agent, PollFlags::RDHUP)));
        loop {
            match rustix::event::poll(&mut looked_at, Some(&patience)) {
                Ok(0) => return Err(ErrorKind::TimedOut.into()),
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            if looked_at.get(1).is_some_and(|agent| agent.revents().intersects(gone)) {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            return (&self.wire).read(into);
        }
    }
}

impl Write for UpstreamSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.wire).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn an_upstream_is_a_url_and_nothing_more() {
        let target =
            |url: &str| Target::parse(url).map(|target| (target.to_string(), target.address.to_string()));
        let both = |shown: &str, address: &str| Some((shown.to_owned(), address.to_owned()));
        assert_eq!(
            target("https://api.anthropic.com"),
            both("https://api.anthropic.com", "api.anthropic.com:443")
        );
        assert_eq!(
            target("https://openrouter.ai/api/v1/"),
            both("https://openrouter.ai/api/v1", "openrouter.ai:443")
        );
        assert_eq!(target("http://127.0.0.1:11434/v1"), both("http://127.0.0.1:11434/v1", "127.0.0.1:11434"));
        for url in
            ["", "api.anthropic.com", "ftp://a", "https://", "https://k@a", "https://a/?x", "https://a b"]
        {
            assert_eq!(target(url), None, "{url}");
        }
    }
}
