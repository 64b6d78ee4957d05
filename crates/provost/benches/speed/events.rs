//! The events of a passing step, and a bare SQLite that stores the same rows without provost.

use std::path::Path;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{AttemptEnd, CheckSubject, EndedAttempt, Event};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Amount;
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_store::{Append, Log, LogEntry, Sqlite};
use rusqlite::{Connection, TransactionBehavior, params};

const SCHEMA: &str = include_str!("../../../provost-store/src/sqlite/schema.sql");
const TITLE: &str = "Step with a title";

/// Returns the events when a contract holds: the verdict, the pass, and the start of the next step.
pub(crate) fn decision(step: u32) -> [Event; 3] {
    let (this, next) = (StepNumber(step), StepNumber(step + 1));
    let verdict = Verdict { duration_ms: 3, ..Verdict::bare(Isolation::InPlace, CheckOutcome::Held) };
    [
        Event::Judged { step: Some(this), subject: CheckSubject::Contract(this), verdict, plan: None },
        Event::StepPassed { step: this, attempt: 1, result: "held".to_owned(), tree: None, pass: None },
        Event::StepStarted {
            step: next,
            attempt: 1,
            target: "coder".to_owned(),
            reserved: Amount::default(),
            start: None,
        },
    ]
}

pub(crate) fn ended(step: u32) -> Event {
    Event::AttemptEnded(EndedAttempt {
        duration_ms: 3,
        ..EndedAttempt::new(StepNumber(step), 1, AttemptEnd::Exited { exit_code: 0 })
    })
}

/// A plan's chain, written through the store.
pub(crate) struct Chain<'a> {
    log: &'a Sqlite,
    plan: PlanId,
    pub seq: u64,
    step: u32,
}

impl<'a> Chain<'a> {
    pub(crate) fn new(log: &'a Sqlite, plan: &str) -> Self {
        let plan = PlanId(plan.to_owned());
        let seq = log.head(&plan).expect("a head").seq;
        Self { log, plan, seq, step: 1 }
    }

    /// Writes one durable decision.
    pub(crate) fn decide(&mut self) -> Result<(), provost_store::Error> {
        let events = decision(self.step);
        self.append(&events, Timestamp(1_700_000_000_000 + self.seq))?;
        self.step += 1;
        Ok(())
    }

    pub(crate) fn append(&mut self, events: &[Event], at: Timestamp) -> Result<(), provost_store::Error> {
        let entries: Vec<LogEntry<'_>> =
            events.iter().map(|event| LogEntry { event, task_name: event.step().map(|_| TITLE) }).collect();
        let append = Append {
            plan: &self.plan,
            expected_seq: self.seq,
            at,
            fence: None,
            events: &entries,
            effects: &[],
        };
        self.seq += self.log.append(append)?.len() as u64;
        Ok(())
    }
}

/// A database with the same table, indexes and durability, and nothing else.
pub(crate) struct Bare {
    connection: Connection,
    rows: Vec<(String, String)>,
    seq: i64,
}

impl Bare {
    pub(crate) fn open(folder: &Path, patience_ms: u64) -> Self {
        let connection = Connection::open(folder.join("bare.db")).expect("a database");
        connection.busy_timeout(std::time::Duration::from_millis(patience_ms)).expect("a patience");
        let is_new: bool = connection
            .query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
            .expect("a schema");
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;").expect("WAL");
        if is_new {
            connection.execute_batch(SCHEMA).expect("a schema");
        }
        let wire = |event: &Event| {
            let value = serde_json::to_value(event).expect("an event");
            (event.name().to_owned(), value["details"].to_string())
        };
        let rows = decision(1).iter().chain([&ended(1)]).map(wire).collect();
        Self { connection, rows, seq: i64::from(std::process::id()) << 32 }
    }

    /// Commits the rows of a decision durably.
    pub(crate) fn decide(&mut self) -> rusqlite::Result<()> {
        self.commit(0..3)
    }

    /// Commits the row of an agent's end durably.
    pub(crate) fn end(&mut self) -> rusqlite::Result<()> {
        self.commit(3..4)
    }

    fn commit(&mut self, rows: std::ops::Range<usize>) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (name, details) in &self.rows[rows] {
            self.seq += 1;
            let hash = [0x5a_u8; 32];
            transaction
                .prepare_cached(
                    "INSERT INTO event (plan, seq, at_ms, name, step, task_name, details, prev, hash)
                     VALUES (1, ?1, ?2, ?3, 1, ?4, ?5, ?6, ?6)",
                )?
                .execute(params![
                    self.seq,
                    1_700_000_000_000 + (self.seq & 0xffff_ffff),
                    name,
                    TITLE,
                    details,
                    hash
                ])?;
        }
        transaction.commit()
    }
}
