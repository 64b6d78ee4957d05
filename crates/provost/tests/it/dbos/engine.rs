//! The interface of an engine for the tests, and the two engines: many processes on one Postgres, and a
//! single machine with a log file.

use std::cell::RefCell;
use std::ops::Deref;
use std::process::Stdio;
use std::time::Duration;

use provost_store::postgres::cluster::Cluster;

use super::{Field, Fleet, Worker};
use crate::env::Answer;

/// Lease time of the tests' workers.
pub(super) const TTL: Duration = Duration::from_secs(5);

pub(super) trait Engine: Deref<Target = Field> + Sized {
    const HAS_QUEUES: bool;

    /// Creates plans with this text, agent and configuration. Returns `None` if the engine is not available
    /// here.
    fn make(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self>;

    /// Creates plans for a test that uses [`Engine::goes_away`], so that it does not disturb other tests.
    fn make_alone(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self> {
        Self::make(plans, text, agent, config)
    }

    /// Starts the processes that run approved plans.
    fn hand(&self) -> Hand;

    /// Starts a second set while the first one runs. `None` if only one is possible: start it afterwards
    /// then.
    fn standby(&self) -> Option<Hand>;

    /// Makes the log unavailable, and available again.
    fn goes_away(&self);
    fn comes_back(&self);

    /// Cancels what runs.
    fn cancel(&self, hand: &Hand);

    /// Simulates a newer version of the program. Returns the answer of the current one, and the two versions that
    /// it must name.
    fn refuses_what_is_newer(&self) -> (Answer, [String; 2]);

    /// Limits the number of agents over all plans, if [`Engine::HAS_QUEUES`].
    fn limit(&self, most: usize);
}

/// Processes that run plans.
pub(super) struct Hand(pub Vec<Worker>);

impl Hand {
    pub(super) fn kill(&mut self) {
        self.0.iter_mut().for_each(Worker::kill);
    }

    pub(super) fn signal(&self, signal: &str) {
        self.0.iter().for_each(|worker| worker.signal(signal));
    }
}

impl Engine for Fleet {
    const HAS_QUEUES: bool = true;

    fn make(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self> {
        Fleet::with(plans, text, agent, config)
    }

    fn make_alone(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self> {
        let own: &'static Cluster = Box::leak(Box::new(Cluster::start()?));
        // Longer than a slow machine needs to start a server.
        Some(Fleet { lease: "60s", ..Fleet::on(own, plans, text, agent, config) })
    }

    fn hand(&self) -> Hand {
        Hand(vec![self.worker(&["--jobs", "2", "--roles", "coder"])])
    }

    fn standby(&self) -> Option<Hand> {
        Some(self.hand())
    }

    fn goes_away(&self) {
        self.cluster.kill();
    }

    fn comes_back(&self) {
        self.cluster.run();
    }

    fn cancel(&self, _hand: &Hand) {
        self.provost(0, &["reject", "--reason", "not like this"]).exits(0);
    }

    fn refuses_what_is_newer(&self) -> (Answer, [String; 2]) {
        drop(self.hand());
        self.cluster.sql(&self.url, "UPDATE provost_cluster.wire SET version = 'provost-wire-2'");
        (self.provost(0, &["worker"]), ["provost-wire-1", "provost-wire-2"].map(str::to_owned))
    }

    fn limit(&self, most: usize) {
        let most = most.to_string();
        self.provost(0, &["cluster", "limit", "coder", "--concurrency", &most]).exits(0);
    }
}

/// One process per plan, with one log file.
pub(super) struct Embedded {
    field: Field,
    lock: RefCell<Option<rusqlite::Connection>>,
}

impl Deref for Embedded {
    type Target = Field;

    fn deref(&self) -> &Field {
        &self.field
    }
}

impl Embedded {
    fn log(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.env.state().join("log.db")).expect("the log")
    }

    pub(super) fn run(&self, place: usize) -> Worker {
        let said = self.env.folder().join("said");
        let said = std::fs::OpenOptions::new().create(true).append(true).open(said).expect("a file");
        let mut command = self.command(place, &["run", "--wait"]);
        Worker { child: command.stdout(Stdio::null()).stderr(said).spawn().expect("a run") }
    }
}

impl Engine for Embedded {
    const HAS_QUEUES: bool = false;

    fn make(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self> {
        Some(Self { field: Field::new(plans, text, agent, config), lock: RefCell::default() })
    }

    fn hand(&self) -> Hand {
        Hand((0..self.places.len()).map(|place| self.run(place)).collect())
    }

    fn standby(&self) -> Option<Hand> {
        None
    }

    /// A file does not become unavailable, but another program can lock it.
    fn goes_away(&self) {
        let log = self.log();
        log.busy_timeout(Duration::from_secs(10)).expect("patience");
        log.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
        *self.lock.borrow_mut() = Some(log);
    }

    fn comes_back(&self) {
        self.lock.borrow_mut().take();
    }

    /// Only the process that runs the plan can cancel it.
    fn cancel(&self, hand: &Hand) {
        hand.signal("TERM");
    }

    fn refuses_what_is_newer(&self) -> (Answer, [String; 2]) {
        self.provost(0, &["verify"]).exits(0);
        let log = self.log();
        let known: i64 = log.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a version");
        let newer = known + 1;
        log.execute_batch(&format!("PRAGMA user_version = {newer}")).expect("a version");
        (self.provost(0, &["run"]), [format!("schema {newer}"), format!("this one knows {known}")])
    }

    fn limit(&self, _most: usize) {}
}
