//! Measures a durable decision (G10, goal 4): through the store against a bare FULL commit of the same
//! rows, and next to a writer that never pauses.

use std::time::{Duration, Instant};

use provost_store::Sqlite;

use crate::Asked;
use crate::children::Beside;
use crate::events::{Bare, Chain};
use crate::measure::{folder, interleaved, median, quantile, time};
use crate::table::{Kind, Row, Table};

const BATCH: usize = 20;
const COMMITS: usize = 2_000;

pub(crate) fn measure(_: &Asked, table: &mut Table) {
    let (ours, bare) = (folder("append"), folder("append-bare"));
    let log = Sqlite::open(&ours).expect("a log");
    let mut chain = Chain::new(&log, "plan");
    let (mut floor, mut again) = (Bare::open(&bare, 5_000), Bare::open(&folder("append-again"), 5_000));
    let times = |work: &mut dyn FnMut()| (0..BATCH).for_each(|_| work());
    let [subject, floor, again] = interleaved(
        200,
        [
            &mut || times(&mut || chain.decide().expect("a commit")),
            &mut || times(&mut || floor.decide().expect("a commit")),
            &mut || times(&mut || again.decide().expect("a commit")),
        ],
    );
    table.guard("bare commit against itself", again.cpu_over(&floor));
    let each = BATCH as f64;
    table.row(Row {
        what: "append: a decision of 3 events, durable",
        subject: time(subject.cpu_median() / each),
        floor: time(floor.cpu_median() / each),
        figure: subject.cpu_over(&floor),
        unit: "×",
        goal: 1.3,
        kind: Kind::Cpu,
    });
}

pub(crate) fn contention(_: &Asked, table: &mut Table) {
    let ours = folder("contention");
    let log = Sqlite::open(&ours).expect("a log");
    let mut chain = Chain::new(&log, "plan");
    let alone = median(&commits(COMMITS / 4, Duration::MAX, || chain.decide().is_ok()).0);
    let writer = Beside::start("--as-writer", &ours);
    let (waits, failed) = commits(COMMITS, Duration::MAX, || chain.decide().is_ok());
    drop(writer);
    let worst = quantile(&waits, 0.99);
    table.row(Row {
        what: "contention: commits failed, of 2,000 beside a writer",
        subject: failed.to_string(),
        floor: String::new(),
        figure: f64::from(failed),
        unit: "",
        goal: 0.0,
        kind: Kind::Counter,
    });
    table.row(Row {
        what: "contention: wall p99 against own median alone",
        subject: time(worst),
        floor: time(alone),
        figure: worst / alone,
        unit: "×",
        goal: 100.0,
        kind: Kind::Wall,
    });
    let bare = folder("contention-bare");
    let mut without = Bare::open(&bare, 1_000);
    let writer = Beside::start("--as-bare-writer", &bare);
    let (waits, failed) = commits(COMMITS, Duration::from_secs(8), || without.decide().is_ok());
    drop(writer);
    let bad = quantile(&waits, 0.99);
    let seen = format!("{failed} of {} failed, p99 {}", waits.len(), time(bad));
    table.control("busy time-out of 1 s, no lock", &seen, failed > 0 || bad > worst * 5.0);
}

/// Returns how long each commit took, and how many failed.
fn commits(most: usize, patience: Duration, mut commit: impl FnMut() -> bool) -> (Vec<f64>, u32) {
    let begun = Instant::now();
    let (mut waits, mut failed) = (Vec::new(), 0);
    while waits.len() < most && begun.elapsed() < patience {
        let start = Instant::now();
        failed += u32::from(!commit());
        waits.push(start.elapsed().as_secs_f64());
    }
    (waits, failed)
}
