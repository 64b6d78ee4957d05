//! Measures a summary of a log with twenty times the events and the same steps: the time may grow with the
//! events, the memory may not grow.

use std::path::Path;
use std::process::{Command, Stdio};

use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_store::Sqlite;

use crate::Asked;
use crate::events::{Chain, decision, ended};
use crate::measure::{folder, time};
use crate::table::{Kind, Row, Table};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");
const STEPS: u32 = 10;

struct Used {
    cpu: f64,
    mb: f64,
}

/// Writes one plan whose steps are retried again and again.
fn stock(at: &Path, events: usize) {
    let log = Sqlite::open(at).expect("a log");
    let mut chain = Chain::new(&log, "plan-1");
    let all: Vec<Event> = (0..).flat_map(|round| attempt(round % STEPS + 1)).take(events).collect();
    for (at, events) in all.chunks(1_000).enumerate() {
        chain.append(events, Timestamp(1_700_000_000_000 + at as u64 * 1_000)).expect("a commit");
    }
}

fn attempt(number: u32) -> Vec<Event> {
    let step = StepNumber(number);
    let [judged, passed, _] = decision(number);
    vec![
        Event::StepStarted {
            step,
            attempt: 1,
            target: "coder".to_owned(),
            reserved: Default::default(),
            start: None,
        },
        ended(number),
        judged,
        passed,
    ]
}

fn used(state: &Path) -> Used {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--as-runner", PROVOST, "log", "--all", "--summary"])
        .env("PROVOST_STATE", state)
        .stdin(Stdio::null())
        .output()
        .expect("a summary");
    assert!(output.status.success(), "the log can be summed up");
    let said = String::from_utf8_lossy(&output.stdout);
    let mut numbers = said.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let mut number = || numbers.next().expect("a number");
    Used { cpu: number(), mb: number() }
}

pub(crate) fn measure(asked: &Asked, table: &mut Table) {
    let few = if asked.large { 500_000 } else { 50_000 };
    let many = few * 20;
    let (few_at, many_at) = (folder("summary-few"), folder("summary-many"));
    stock(&few_at, few);
    stock(&many_at, many);
    let (small, large, again) = (used(&few_at), used(&many_at), used(&few_at));
    table.guard("summary of the small log against itself", again.cpu / small.cpu);
    let (each, floor) = (large.cpu / many as f64, small.cpu / few as f64);
    table.row(Row {
        what: &format!("summary: an event of {many}"),
        subject: time(each),
        floor: time(floor),
        figure: each / floor,
        unit: "×",
        goal: 1.2,
        kind: Kind::Cpu,
    });
    table.row(Row {
        what: &format!("summary: memory for {many} events of {STEPS} steps"),
        subject: format!("{:.1} MB", large.mb),
        floor: format!("{:.1} MB", small.mb),
        figure: large.mb / small.mb,
        unit: "×",
        goal: 1.2,
        kind: Kind::Counter,
    });
    let _ = std::fs::remove_dir_all(few_at);
    let _ = std::fs::remove_dir_all(many_at);
}
