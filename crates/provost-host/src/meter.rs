//! The meter: what stands between an agent and its model, counts what passes, and has the key.
//!
//! Every client of a model takes a base URL. The agent of a metered role is given one that leads here, on
//! loopback, and a token that is good for this attempt. Here the token is taken off, the key put on, and the
//! request sent on; what comes back is passed on as it comes, and looked at for what it says was used.
//!
//! **Invariant:** the key is in no environment, no file and no event of ours: it goes into the head of a
//! request to the upstream that was approved, and nowhere else.
//! **Invariant:** what may be spent is looked at before each call. A call that is under way is not broken
//! off for it.
//! **Invariant:** whatever an agent does here is bounded, and nothing of it outlives the [`Account`].

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use provost_core::model::usage::Usage;

mod api;
mod closing;
mod count;
mod exchange;
mod http;
mod key;
mod question;
mod tally;
mod upstream;

pub use api::Api;
pub use key::{Key, NoKey, Source};
pub use tally::Limit;
pub use upstream::{Target, Way};

use closing::Closing;
use tally::Tally;
use upstream::Wire;

use crate::wires::Wires;

/// So many connections of one agent at once; a client needs a handful.
const CONNECTIONS: usize = 64;
/// How long the threads of an account may take to end when it is closed.
const FAREWELL: Duration = Duration::from_secs(5);

/// What so many tokens of a model cost, in millionths of a dollar; nothing, where it is not known.
pub type Price = Arc<dyn Fn(&str, &Usage) -> Option<u64> + Send + Sync>;

/// What an account is opened for.
pub struct Service {
    pub api: Api,
    pub target: Target,
    /// Some servers of one's own want none.
    pub key: Option<Key>,
    pub limit: Limit,
    pub price: Price,
}

/// One attempt's way to its model, until it is closed.
pub struct Account {
    address: SocketAddr,
    counter: Arc<Counter>,
    accepting: Option<JoinHandle<()>>,
}

/// An account that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    pub usage: Usage,
    /// For people.
    pub notes: Vec<String>,
}

/// What the threads share.
struct Counter {
    service: Service,
    way: Arc<Way>,
    token: String,
    wires: Arc<Wires<TcpStream>>,
    tally: Mutex<Tally>,
    closing: Closing,
    /// A connection to the upstream that the last call left in order.
    idle: Mutex<Vec<Wire>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Account {
    pub fn open(service: Service, way: Arc<Way>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let counter = Arc::new(Counter {
            service,
            way,
            token: token()?,
            wires: Wires::new(CONNECTIONS),
            tally: Mutex::default(),
            closing: Closing::default(),
            idle: Mutex::default(),
        });
        let of_thread = counter.clone();
        let accepting =
            thread::Builder::new().name("meter".to_owned()).spawn(move || accept(&listener, &of_thread))?;
        Ok(Self { address, counter, accepting: Some(accepting) })
    }

    /// Where it listens: `127.0.0.1:port`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As the clients of this API want it.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.counter.service.api.base_path())
    }

    /// What the agent has instead of a key.
    pub fn token(&self) -> &str {
        &self.counter.token
    }

    /// The agent's environment: the base URL and the token in it, and not the key.
    pub fn environment(&self, given: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let Service { api, key, .. } = &self.counter.service;
        let own = api.variables(&self.base_url(), self.token());
        let is_kept = |(name, value): &&(OsString, OsString)| {
            let is_set =
                own.iter().any(|(set, _)| name == set) || api.hides().iter().any(|hidden| name == hidden);
            !is_set && !key.as_ref().is_some_and(|key| key.is_in(name, value))
        };
        let mut environment: Vec<_> = given.iter().filter(is_kept).cloned().collect();
        environment.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
        for name in ["NO_PROXY", "no_proxy"] {
            let old = environment.iter().position(|(known, _)| known == name);
            let old = old.map(|place| environment.swap_remove(place).1).filter(|value| !value.is_empty());
            let mut value = old.map_or(OsString::new(), |mut old| {
                old.push(",");
                old
            });
            // A proxy of the user's would not find this machine's loopback.
            value.push("127.0.0.1,localhost");
            environment.push((name.into(), value));
        }
        environment
    }

    /// What was used until now.
    pub fn usage(&self) -> Usage {
        locked(&self.counter.tally).usage()
    }

    /// Ends every connection, and counts together.
    pub fn close(mut self) -> Bill {
        self.end();
        let tally = locked(&self.counter.tally);
        Bill { usage: tally.usage(), notes: tally.notes() }
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.counter.wires.close();
        // It waits for somebody to come.
        let woken = TcpStream::connect(self.address);
        self.counter.wires.hang_up(FAREWELL);
        locked(&self.counter.idle).clear();
        if woken.is_ok() {
            let _ = accepting.join();
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(listener: &TcpListener, counter: &Arc<Counter>) {
    let of_thread = counter.clone();
    counter.wires.serve(
        "meter",
        listener.incoming(),
        |_| {},
        move |stream, number| {
            // What goes wrong on the way is between the two ends.
            let _ = exchange::serve(&of_thread, stream, number);
        },
    );
}

/// Nobody guesses it, and it is good for one attempt.
fn token() -> io::Result<String> {
    let mut bytes = [0; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold("sk-provost-".to_owned(), |text, byte| format!("{text}{byte:02x}")))
}
