//! Registry of an attempt's connections through provost: limits their number, runs each on its own thread,
//! and ends all of them.
//!
//! **Invariant:** after the end, no connection is accepted, and both sides of every connection are shut
//! down.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Pause after a failed accept, most likely because of missing file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The agent's side of a connection.
pub(crate) trait Inside: Sized + Send + 'static {
    fn again(&self) -> io::Result<Self>;
    fn shut(&self);
}

impl Inside for TcpStream {
    fn again(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn shut(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Inside for UnixStream {
    fn again(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn shut(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

pub(crate) struct Wires<I> {
    most: usize,
    is_over: AtomicBool,
    open: Mutex<Open<I>>,
    left: Condvar,
}

struct Open<I> {
    next: u64,
    /// Both sides of each connection.
    wires: BTreeMap<u64, (I, Option<TcpStream>)>,
}

impl<I: Inside> Wires<I> {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let open = Mutex::new(Open { next: 0, wires: BTreeMap::new() });
        Arc::new(Self { most, is_over: AtomicBool::new(false), open, left: Condvar::new() })
    }

    /// Serves incoming connections, each with a number, until `close`. Calls `refuse` for a connection
    /// above the limit.
    pub(crate) fn serve(
        self: &Arc<Self>,
        name: &str,
        incoming: impl Iterator<Item = io::Result<I>>,
        refuse: impl Fn(&I),
        serve: impl Fn(&I, u64) + Clone + Send + 'static,
    ) {
        for stream in incoming {
            if self.is_over() {
                return;
            }
            let Ok(stream) = stream else {
                thread::sleep(PAUSE);
                continue;
            };
            let Some(number) = self.enter(&stream) else {
                refuse(&stream);
                continue;
            };
            let (wires, serve) = (self.clone(), serve.clone());
            let serving = thread::Builder::new().name(name.to_owned()).spawn(move || {
                serve(&stream, number);
                stream.shut();
                wires.leave(number);
            });
            if serving.is_err() {
                self.leave(number);
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Registers the other side of a connection, so that it can be ended from here. Returns `false` after
    /// `close`.
    pub(crate) fn attach(&self, number: u64, outside: Option<TcpStream>) -> bool {
        if let Some(wires) = self.open().wires.get_mut(&number) {
            wires.1 = outside;
        }
        !self.is_over()
    }

    /// Stops accepting connections; the caller has to wake the thread that waits for the next one.
    pub(crate) fn close(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Shuts down all connections, and waits up to `patience` for their threads to end.
    pub(crate) fn hang_up(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut open = self.open();
        for (inside, outside) in open.wires.values() {
            inside.shut();
            let _ = outside.as_ref().map(|outside| outside.shutdown(Shutdown::Both));
        }
        while !open.wires.is_empty() {
            let patience = until.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                break;
            }
            open = self.left.wait_timeout(open, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn enter(&self, stream: &I) -> Option<u64> {
        let mut open = self.open();
        if open.wires.len() >= self.most {
            return None;
        }
        let inside = stream.again().ok()?;
        open.next += 1;
        let number = open.next;
        open.wires.insert(number, (inside, None));
        Some(number)
    }

    fn leave(&self, number: u64) {
        self.open().wires.remove(&number);
        self.left.notify_all();
    }

    fn open(&self) -> MutexGuard<'_, Open<I>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
