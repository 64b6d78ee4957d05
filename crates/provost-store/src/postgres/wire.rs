//! Connection to a test server that can be cut, held and slowed down.
//!
//! Held bytes are neither delivered nor is the connection closed: a client that waits for an answer
//! receives nothing, as in a network failure.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cluster::{Cluster, USER};

/// Forwards to the server's socket, which needs no password. Ends on drop.
pub struct Wire {
    at: SocketAddr,
    ends: Arc<Ends>,
}

struct Ends {
    server: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Connections with a smaller number are held.
    held: u64,
    next: u64,
    refuses: bool,
    is_unheard: bool,
    delay: Duration,
    is_over: bool,
    open: Vec<(TcpStream, UnixStream)>,
}

impl Wire {
    pub fn to(cluster: &Cluster) -> Self {
        Self::at(cluster, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Listens on the given address, for access from another network.
    pub fn at(cluster: &Cluster, here: IpAddr) -> Self {
        let listener = TcpListener::bind((here, 0)).expect("a port");
        let at = listener.local_addr().expect("its number");
        let server = cluster.folder().join(format!(".s.PGSQL.{}", cluster.port()));
        let ends = Arc::new(Ends { server, state: Mutex::default(), changed: Condvar::new() });
        let accepting = ends.clone();
        std::thread::spawn(move || accepting.accept(&listener));
        Self { at, ends }
    }

    /// Returns the URL of a database over this connection.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@{}/{database}?sslmode=disable", self.at)
    }

    /// Ends every connection at once; new ones are accepted.
    pub fn cut(&self) {
        for (near, far) in std::mem::take(&mut self.ends.state().open) {
            let _ = near.shutdown(Shutdown::Both);
            let _ = far.shutdown(Shutdown::Both);
        }
    }

    /// Cuts the clients' sides without telling the server, which still executes its requests.
    pub fn cut_unheard(&self) {
        let mut state = self.ends.state();
        state.is_unheard = true;
        for (near, _) in &state.open {
            let _ = near.shutdown(Shutdown::Both);
        }
    }

    /// Holds all bytes until [`Wire::open`].
    pub fn hold(&self) {
        self.ends.state().held = u64::MAX;
    }

    /// Holds the current connections only; new connections are not held.
    pub fn hold_those_there(&self) {
        let mut state = self.ends.state();
        state.held = state.next;
    }

    /// Refuses new connections and ends the current ones.
    pub fn refuse(&self) {
        self.ends.state().refuses = true;
        self.cut();
    }

    pub fn slow_down(&self, delay: Duration) {
        self.ends.state().delay = delay;
    }

    /// Resets everything. Held bytes are delivered.
    pub fn open(&self) {
        let mut state = self.ends.state();
        (state.held, state.refuses, state.is_unheard, state.delay) = (0, false, false, Duration::ZERO);
        self.ends.changed.notify_all();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.ends.state().is_over = true;
        self.open();
        self.cut();
        let _ = TcpStream::connect(self.at);
    }
}

impl Ends {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for near in listener.incoming().flatten() {
            if self.state().is_over {
                return;
            }
            // If there is no server, the connection is dropped and ends.
            let _ = self.join(near);
        }
    }

    fn join(self: &Arc<Self>, near: TcpStream) -> io::Result<()> {
        let _ = near.set_nodelay(true);
        let far = UnixStream::connect(&self.server)?;
        let mut state = self.state();
        if state.refuses {
            return Ok(());
        }
        state.open.push((near.try_clone()?, far.try_clone()?));
        let number = state.next;
        state.next += 1;
        drop(state);
        let (asking, answering) = (self.clone(), self.clone());
        let (mut from_near, mut to_far) = (near.try_clone()?, far.try_clone()?);
        let (mut from_far, mut to_near) = (far, near);
        std::thread::spawn(move || {
            asking.pass(number, |bytes| from_near.read(bytes), |bytes| to_far.write_all(bytes));
            if !asking.state().is_unheard {
                let _ = to_far.shutdown(Shutdown::Both);
            }
        });
        std::thread::spawn(move || {
            answering.pass(number, |bytes| from_far.read(bytes), |bytes| to_near.write_all(bytes));
            let _ = to_near.shutdown(Shutdown::Both);
        });
        Ok(())
    }

    /// Copies one direction until it ends. The end is held like bytes.
    fn pass(
        &self,
        number: u64,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) {
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let count = read(&mut bytes).unwrap_or(0);
            let state = self.state();
            let state = self.changed.wait_while(state, |state| number < state.held);
            let delay = state.unwrap_or_else(PoisonError::into_inner).delay;
            std::thread::sleep(delay);
            if count == 0 || write(&bytes[..count]).is_err() {
                return;
            }
        }
    }
}
