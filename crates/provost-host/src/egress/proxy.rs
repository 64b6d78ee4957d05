//! Proxy through which a sandboxed agent reaches its model's API, and nothing else.
//!
//! The sandbox's network contains only the [`portal`], which forwards every connection to a Unix socket
//! that is mounted in the sandbox. Outside, the proxy reads the requested address from the socket (HTTP
//! `CONNECT`, or a full address in the first line), asks [`AllowedHosts`], resolves the name and forwards bytes.
//! It records refused addresses for people.
//!
//! **Invariant:** the proxy connects to the address that it checked; a name is resolved once.
//! **Invariant:** everything an agent does here is bounded: connections, the size of a request's head, and
//! idle time. All of it ends with the [`Proxy`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

mod address;
mod allowed;
pub mod sandbox_forwarder;
mod pump;
mod request;
mod upstream;

pub use address::Address;
pub use allowed::AllowedHosts;
pub use upstream::Upstream;

use allowed::Leave;
use pump::pump;
use request::{ProxyRequest, RequestForm};

use crate::egress::connections::Wires;

/// File name of the socket.
pub const SOCKET: &str = "proxy";

/// Most simultaneous connections; an agent needs a handful.
const CONNECTIONS: usize = 64;
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
/// A model may think for minutes before the next byte arrives.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Most refused hosts that are listed.
const NAMED: usize = 8;

/// The proxy of one attempt, until it is closed.
pub struct Proxy {
    folder: TempDir,
    counter: Arc<Counter>,
    accepting: Option<JoinHandle<()>>,
    /// The socket's folder; by this handle the socket's path stays short.
    handle: File,
}

/// State that the threads share.
struct Counter {
    allowed: AllowedHosts,
    /// The user's own proxy.
    upstream: Option<Upstream>,
    wires: Arc<Wires<UnixStream>>,
    refused: Mutex<BTreeMap<String, u32>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Listens on a socket in a new folder inside `scratch`.
    pub fn open(scratch: &Path, allowed: AllowedHosts, upstream: Option<Upstream>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("proxy-").tempdir_in(scratch)?;
        let handle = File::open(folder.path())?;
        let listener = UnixListener::bind(socket(&handle))?;
        let wires = Wires::new(CONNECTIONS);
        let counter = Arc::new(Counter { allowed, upstream, wires, refused: Mutex::default() });
        let of_thread = counter.clone();
        let accepting = thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || accept(&listener, &of_thread))
            .map(Some)?;
        Ok(Self { folder, counter, accepting, handle })
    }

    /// Returns the folder of the socket, which is mounted in the sandbox.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends every connection, and returns the refused addresses: `host:port`, and how often.
    pub fn close(mut self) -> Vec<String> {
        self.end();
        let refused = locked(&self.counter.refused);
        let told = |(host, times): (&String, &u32)| match times {
            1 => host.clone(),
            times => format!("{host} ({times} times)"),
        };
        let mut lines: Vec<String> = refused.iter().take(NAMED).map(told).collect();
        if refused.len() > NAMED {
            lines.push(format!("and {} more hosts", refused.len() - NAMED));
        }
        lines
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.counter.wires.close();
        // Wakes the thread that waits in `accept`.
        let woken = UnixStream::connect(socket(&self.handle));
        self.counter.wires.hang_up(Duration::ZERO);
        if woken.is_ok() {
            let _ = accepting.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns a short path of the socket; socket paths are limited to about a hundred bytes.
fn socket(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()).into()
}

fn accept(listener: &UnixListener, counter: &Arc<Counter>) {
    let of_thread = counter.clone();
    let refuse = |stream: &UnixStream| {
        let _ = answer(stream, "503 Service Unavailable", "too many connections at once");
    };
    counter.wires.serve("proxy", listener.incoming(), refuse, move |stream, number| {
        // An I/O error concerns only this connection.
        let _ = of_thread.serve(stream, number);
    });
}

impl Counter {
    fn serve(&self, inside: &UnixStream, number: u64) -> io::Result<()> {
        inside.set_read_timeout(Some(HEAD_PATIENCE))?;
        inside.set_write_timeout(Some(IDLE))?;
        let (head, rest) = match request::read_head(inside) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return answer(inside, "431 Request Header Fields Too Large", "the head is too large");
            }
            Err(error) => return Err(error),
        };
        let request = match ProxyRequest::parse(&head) {
            Ok(request) => request,
            Err(why) => return answer(inside, "400 Bad Request", why),
        };
        let to = &request.to;
        let Some(leave) = self.allowed.leave(to) else {
            self.refuse(to);
            let why = format!(
                "{to} is not the model's API; to allow it, name it in `api` of this agent in \
                 provost.toml, or set network = \"on\""
            );
            return answer(inside, "403 Forbidden", &why);
        };
        let outside = match &self.upstream {
            // The user's own proxy decides itself which addresses it connects to.
            Some(upstream) if upstream.leads_to(to) => upstream.connect(to).map(Some),
            _ => connect(to, &leave),
        };
        let outside = match outside {
            Ok(Some(outside)) => outside,
            Ok(None) => {
                self.refuse(to);
                let why = format!("{to} is a private address; to allow it, name it in `api`");
                return answer(inside, "403 Forbidden", &why);
            }
            Err(error) => {
                return answer(inside, "502 Bad Gateway", &format!("{to} cannot be reached: {error}"));
            }
        };
        if !outside.try_clone().is_ok_and(|end| self.wires.attach(number, Some(end))) {
            return Ok(());
        }
        outside.set_write_timeout(Some(IDLE))?;
        match request.form {
            RequestForm::Tunnel => (&*inside).write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n")?,
            RequestForm::Whole(head) => (&outside).write_all(&head)?,
        }
        (&outside).write_all(&rest)?;
        pump(inside, &outside, IDLE)
    }

    fn refuse(&self, to: &Address) {
        let mut refused = locked(&self.refused);
        // Limits memory; a thousand names are enough.
        if refused.len() < 1000 || refused.contains_key(&to.to_string()) {
            *refused.entry(to.to_string()).or_default() += 1;
        }
    }
}

/// Connects to the address; `None` if the name resolves only to addresses that are not allowed.
fn connect(to: &Address, leave: &Leave) -> io::Result<Option<TcpStream>> {
    let found: Vec<_> = (to.host.as_str(), to.port).to_socket_addrs()?.collect();
    let fit: Vec<_> = found.iter().filter(|address| leave.covers(&to.host, address.ip())).collect();
    if fit.is_empty() && !found.is_empty() {
        return Ok(None);
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in fit {
        match TcpStream::connect_timeout(address, CONNECT_PATIENCE) {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn answer(mut to: &UnixStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("provost: {why}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: \
         text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    to.write_all(answer.as_bytes())?;
    to.shutdown(Shutdown::Write)?;
    // Reads what is still arriving, so that a reset does not destroy the answer.
    to.set_read_timeout(Some(Duration::from_secs(1)))?;
    let _ = io::copy(&mut to.take(1 << 20), &mut io::sink());
    Ok(())
}
