//! Measures queries, replay, verification and following (G14, G15, G19, goal 5): how much more they cost in
//! a log of ten times the size.

use std::ops::ControlFlow;
use std::path::Path;

use provost_core::model::chain::{Auditor, PlanId};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_store::{Cursor, Log as _, Query, Sqlite};
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use crate::Asked;
use crate::children::{Beside, clock_ns};
use crate::events::{Chain, decision, ended};
use crate::measure::{folder, interleaved, quantile, time};
use crate::table::{Kind, Row, Table};

const PLAN_EVENTS: usize = 1_000;
const FIRST_MS: u64 = 1_700_000_000_000;
const BATCH: u64 = 50;

struct Stock {
    log: Sqlite,
    plans: u64,
    events: u64,
    dice: u64,
}

impl Stock {
    /// Writes plans of 1,000 events each, one after the other, with a millisecond between commits.
    fn make(at: &Path, events: usize) -> Self {
        let log = Sqlite::open(at).expect("a log");
        let plans = events / PLAN_EVENTS;
        for plan in 0..plans {
            let mut chain = Chain::new(&log, &format!("plan-{plan}"));
            let first = FIRST_MS + (plan * PLAN_EVENTS) as u64;
            let steps: Vec<Event> = (1..).flat_map(step).take(PLAN_EVENTS).collect();
            for (at, events) in steps.chunks(100).enumerate() {
                chain.append(events, Timestamp(first + at as u64 * 100)).expect("a commit");
            }
        }
        Self { log, plans: plans as u64, events: events as u64, dice: 7 }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % below
    }

    fn plan(&mut self) -> Query {
        Query::plan(&PlanId(format!("plan-{}", self.roll(self.plans))))
    }

    fn read(&self, query: &Query) -> u64 {
        let mut count = 0;
        self.log
            .read(query, &mut |_| {
                count += 1;
                ControlFlow::Continue(())
            })
            .expect("a reading");
        count
    }
}

/// Returns the events of a passing step, and sometimes of a failed one.
fn step(number: u32) -> Vec<Event> {
    let mut events = vec![ended(number)];
    events.extend(decision(number));
    if number.is_multiple_of(50) {
        events.push(Event::StepFailed { step: StepNumber(number), error: "exit code 1".to_owned() });
    }
    events
}

type Ask = fn(&mut Stock) -> u64;

const QUERIES: [(&str, u64, Ask); 7] = [
    ("query: one event", BATCH, |stock| {
        let query = Query { after_seq: Some(stock.roll(900)), limit: Some(1), ..stock.plan() };
        stock.read(&query)
    }),
    ("query: 100 events of a plan", BATCH, |stock| {
        let query = Query { after_seq: Some(stock.roll(800)), limit: Some(100), ..stock.plan() };
        stock.read(&query)
    }),
    ("query: one step of a plan", 10, |stock| {
        let query = Query { step: Some(StepNumber(7)), ..stock.plan() };
        stock.read(&query)
    }),
    ("query: 100 failures, newest first", BATCH, |stock| {
        let query = Query {
            names: vec!["TASK_FAILED".to_owned()],
            newest_first: true,
            limit: Some(100),
            ..Query::default()
        };
        stock.read(&query)
    }),
    ("query: 100 ms of time", BATCH, |stock| {
        let since = FIRST_MS + stock.roll(stock.events - 1_000);
        let query =
            Query { since: Some(Timestamp(since)), until: Some(Timestamp(since + 100)), ..Query::default() };
        stock.read(&query)
    }),
    ("query: the last 100 events", BATCH, |stock| {
        let query = Query { after: Some(Cursor(stock.events - 100)), ..Query::default() };
        stock.read(&query)
    }),
    ("query: replay a plan of 1,000 events", 5, |stock| {
        let query = stock.plan();
        stock.read(&query)
    }),
];

pub(crate) fn measure(asked: &Asked, table: &mut Table) {
    let (few, most) = if asked.large { (1_000_000, 10_000_000) } else { (100_000, 1_000_000) };
    let (small_at, large_at) = (folder("events-small"), folder("events-large"));
    let (mut small, mut large) = (Stock::make(&small_at, few), Stock::make(&large_at, most));
    table.note("query: rows below compare a log of", &format!("{most} events with one of {few}"));
    table.guard("one event, small log against itself", guard(&mut small));
    for (what, batch, ask) in QUERIES {
        let [subject, floor] =
            interleaved(60, [&mut || many(ask, batch, &mut large), &mut || many(ask, batch, &mut small)]);
        table.row(Row {
            what,
            subject: time(subject.cpu_median() / batch as f64),
            floor: time(floor.cpu_median() / batch as f64),
            figure: subject.cpu_over(&floor),
            unit: "×",
            goal: 1.6,
            kind: Kind::Cpu,
        });
    }
    append(table, &small, &large);
    verification(table, &small, &small_at);
    wake(table, &small, &small_at);
    drop((small, large));
    let _ = std::fs::remove_dir_all(small_at);
    let _ = std::fs::remove_dir_all(large_at);
}

fn many(ask: Ask, batch: u64, stock: &mut Stock) {
    let found: u64 = (0..batch).map(|_| ask(stock)).sum();
    assert!(found > 0, "a query that finds nothing measures nothing");
}

/// Measures the same query against itself.
fn guard(stock: &mut Stock) -> f64 {
    let ask = QUERIES[0].2;
    let stock = std::cell::RefCell::new(stock);
    let work = || many(ask, BATCH, &mut stock.borrow_mut());
    let [one, again] = interleaved(150, [&mut || work(), &mut || work()]);
    again.cpu_over(&one)
}

/// Measures an append to each log (G15).
fn append(table: &mut Table, small: &Stock, large: &Stock) {
    let (mut few, mut many) = (Chain::new(&small.log, "new"), Chain::new(&large.log, "new"));
    let [subject, floor] = interleaved(
        100,
        [&mut || (0..20).for_each(|_| many.decide().expect("a commit")), &mut || {
            (0..20).for_each(|_| few.decide().expect("a commit"))
        }],
    );
    table.row(Row {
        what: "append: a decision, to the larger log",
        subject: time(subject.cpu_median() / 20.0),
        floor: time(floor.cpu_median() / 20.0),
        figure: subject.cpu_over(&floor),
        unit: "×",
        goal: 1.2,
        kind: Kind::Cpu,
    });
}

/// Measures the verification of every chain, against reading the same rows and hashing their bytes.
fn verification(table: &mut Table, stock: &Stock, at: &Path) {
    let connection = Connection::open(at.join("log.db")).expect("the database");
    let verify = || {
        for plan in 0..stock.plans {
            let mut auditor = Auditor::default();
            let query = Query::plan(&PlanId(format!("plan-{plan}")));
            stock
                .log
                .read(&query, &mut |sealed| {
                    auditor.next(&sealed).expect("a whole chain");
                    ControlFlow::Continue(())
                })
                .expect("a reading");
        }
    };
    let [subject, floor] = interleaved(5, [&mut || verify(), &mut || scan(&connection)]);
    table.row(Row {
        what: &format!("verify: the chains of {} events", stock.events),
        subject: time(subject.cpu_median()),
        floor: time(floor.cpu_median()),
        figure: subject.cpu_over(&floor),
        unit: "×",
        goal: 2.5,
        kind: Kind::Cpu,
    });
}

fn scan(connection: &Connection) {
    let mut statement = connection
        .prepare_cached(
            "SELECT plan, seq, at_ms, name, step, task_name, details, prev, hash FROM event ORDER BY plan, seq",
        )
        .expect("a statement");
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        let numbers: [i64; 3] = [0, 1, 2].map(|column| row.get(column).expect("a number"));
        let step: Option<i64> = row.get(4).expect("a step");
        let words: [Option<String>; 3] = [3, 5, 6].map(|column| row.get(column).expect("words"));
        let hashes: [[u8; 32]; 2] = [7, 8].map(|column| row.get(column).expect("a hash"));
        let mut hash = Sha256::new();
        numbers.iter().for_each(|number| hash.update(number.to_string()));
        words.iter().flatten().for_each(|word| hash.update(word));
        hash.update(step.unwrap_or_default().to_string());
        hash.update([b'0'; 64]);
        hash.update([b'x'; 100]);
        std::hint::black_box((hash.finalize(), hashes));
    }
}

/// Measures how long after a commit a follower in another process learns of it.
fn wake(table: &mut Table, stock: &Stock, at: &Path) {
    let mut chain = Chain::new(&stock.log, "followed");
    chain.decide().expect("a commit");
    let mut follower = Beside::start("--as-follower", at);
    let mut waits = Vec::new();
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        chain.decide().expect("a commit");
        let committed = clock_ns();
        let seen: u128 = follower.line().parse().expect("a time");
        waits.push(seen.saturating_sub(committed) as f64 / 1e6);
    }
    let worst = quantile(&waits, 0.99);
    table.row(Row {
        what: "follow: woken in another process, wall p99",
        subject: format!("{worst:.2} ms"),
        floor: format!("p50 {:.2} ms", quantile(&waits, 0.5)),
        figure: worst,
        unit: "ms",
        goal: 50.0,
        kind: Kind::Wall,
    });
}
