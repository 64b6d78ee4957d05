//! What an experiment needs of an engine, and the two there are: many processes on one Postgres, and the one of a
//! single machine, whose log is a file.

use std::cell::RefCell;
use std::ops::Deref;
use std::process::Stdio;
use std::time::Duration;

use provost_store::postgres::cluster::Cluster;

use super::{Field, Fleet, Worker};
use crate::env::Answer;

/// As the tests' workers say.
pub const TTL: Duration = Duration::from_secs(5);

pub trait Engine: Deref<Target = Field> + Sized {
    const HAS_QUEUES: bool;

    /// Some plans with this text, agent and configuration. Nothing, where the engine cannot be had here.
    fn make(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self>;

    /// The same where [`Engine::goes_away`] disturbs nobody else.
    fn make_alone(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self> {
        Self::make(plans, text, agent, config)
    }

    /// Whoever carries out what is approved, and waits for it.
    fn hand(&self) -> Hand;

    /// Another one while there is one. Nothing, where there is one at a time: then it is started afterwards.
    fn standby(&self) -> Option<Hand>;

    /// What the log is in is not to be had, and is again.
    fn goes_away(&self);
    fn comes_back(&self);

    /// Somebody does not want any more what is under way.
    fn cancel(&self, hand: &Hand);

    /// A newer program was here. What one says then that wants to work.
    fn refuses_what_is_newer(&self) -> Answer;

    /// So many agents at a time, over all plans, where [`Engine::HAS_QUEUES`].
    fn limit(&self, most: usize);
}

/// The processes of one who carries out plans.
pub struct Hand(pub Vec<Worker>);

impl Hand {
    pub fn kill(&mut self) {
        self.0.iter_mut().for_each(Worker::kill);
    }

    pub fn signal(&self, signal: &str) {
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
        // Longer than a slow machine takes to start a server.
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

    fn refuses_what_is_newer(&self) -> Answer {
        drop(self.hand());
        self.cluster.sql(&self.url, "UPDATE provost_cluster.wire SET version = 'provost-wire-2'");
        self.provost(0, &["worker"])
    }

    fn limit(&self, most: usize) {
        let most = most.to_string();
        self.provost(0, &["cluster", "limit", "coder", "--concurrency", &most]).exits(0);
    }
}

/// One process for each plan, on one file.
pub struct Embedded {
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

    pub fn run(&self, place: usize) -> Worker {
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

    /// A file does not go away. What can happen is that another program has it locked.
    fn goes_away(&self) {
        let log = self.log();
        log.busy_timeout(Duration::from_secs(10)).expect("patience");
        log.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
        *self.lock.borrow_mut() = Some(log);
    }

    fn comes_back(&self) {
        self.lock.borrow_mut().take();
    }

    /// Whoever runs it is the one who can say so.
    fn cancel(&self, hand: &Hand) {
        hand.signal("TERM");
    }

    fn refuses_what_is_newer(&self) -> Answer {
        self.provost(0, &["verify"]).exits(0);
        self.log().execute_batch("PRAGMA user_version = 2").expect("a version");
        self.provost(0, &["run"])
    }

    fn limit(&self, _most: usize) {}
}
