//! Metering proxy between an agent and its model: it holds the key, counts usage and enforces the limit.
//!
//! Every model client accepts a base URL. The agent of a metered role gets one that leads to this proxy on
//! loopback, and a token that is valid for this attempt. The proxy replaces the token by the key and
//! forwards the request. It streams the answer back and reads the reported usage from it.
//!
//! **Invariant:** the key is in no environment, file or event of provost's; it goes only into request heads
//! to the approved upstream.
//! **Invariant:** the limit is checked before each call; a running call is not interrupted because of it.
//! **Invariant:** everything an agent does here is bounded and ends with the [`Account`].

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
mod counters;
mod upstream;

pub use api::MeteredApi;
pub use counters::{ApiRefusal, Limit};
pub use key::{MeterKey, NoKey, Source};
pub use upstream::{NetworkSettings, Target};

use closing::OpenAnswers;
use counters::UsageCounters;
use upstream::UpstreamConnection;

use crate::egress::connections::Wires;

/// Most simultaneous connections of one agent; a client needs a handful.
const CONNECTIONS: usize = 64;
/// How long the threads of an account may take to end when it is closed.
const FAREWELL: Duration = Duration::from_secs(5);

/// Returns the cost of a model's usage in micro-dollars; `None` if the price is unknown.
pub type PriceLookup = Arc<dyn Fn(&str, &Usage) -> Option<u64> + Send + Sync>;

/// The parameters of an account.
pub struct Service {
    pub api: MeteredApi,
    pub target: Target,
    /// `None` for a server that needs no key.
    pub key: Option<MeterKey>,
    pub limit: Limit,
    pub price: PriceLookup,
}

/// One attempt's access to its model, until it is closed.
pub struct Account {
    address: SocketAddr,
    counter: Arc<Counter>,
    accepting: Option<JoinHandle<()>>,
}

/// The final count of a closed account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    pub usage: Usage,
    /// Notes for people.
    pub notes: Vec<String>,
    /// The last answer of the model's API, if it was an error.
    pub refused: Option<ApiRefusal>,
}

/// State that the threads share.
struct Counter {
    service: Service,
    way: Arc<NetworkSettings>,
    token: String,
    wires: Arc<Wires<TcpStream>>,
    tally: Mutex<UsageCounters>,
    closing: OpenAnswers,
    /// Idle connections to the upstream that can be reused.
    idle: Mutex<Vec<UpstreamConnection>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Account {
    pub fn open(service: Service, way: Arc<NetworkSettings>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let counter = Arc::new(Counter {
            service,
            way,
            token: token()?,
            wires: Wires::new(CONNECTIONS),
            tally: Mutex::default(),
            closing: OpenAnswers::default(),
            idle: Mutex::default(),
        });
        let of_thread = counter.clone();
        let accepting =
            thread::Builder::new().name("meter".to_owned()).spawn(move || accept(&listener, &of_thread))?;
        Ok(Self { address, counter, accepting: Some(accepting) })
    }

    /// Returns the address on which it listens: `127.0.0.1:port`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL in the form that clients of this API expect.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.counter.service.api.base_path())
    }

    /// Returns the token that the agent has instead of a key.
    pub fn token(&self) -> &str {
        &self.counter.token
    }

    /// Returns the agent's environment: with the base URL and the token, without the key.
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
            // The user's proxy could not reach this machine's loopback.
            value.push("127.0.0.1,localhost");
            environment.push((name.into(), value));
        }
        environment
    }

    /// Returns the usage so far.
    pub fn usage(&self) -> Usage {
        locked(&self.counter.tally).usage()
    }

    /// Ends every connection and returns the final count.
    pub fn close(mut self) -> Bill {
        self.end();
        let tally = locked(&self.counter.tally);
        Bill { usage: tally.usage(), notes: tally.notes(), refused: tally.refused() }
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.counter.wires.close();
        // Wakes the thread that waits in `accept`.
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
            // An I/O error concerns only this connection.
            let _ = exchange::serve(&of_thread, stream, number);
        },
    );
}

/// Returns a random token for one attempt.
fn token() -> io::Result<String> {
    let mut bytes = [0; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold("sk-provost-".to_owned(), |text, byte| format!("{text}{byte:02x}")))
}
