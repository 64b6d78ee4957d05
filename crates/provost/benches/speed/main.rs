//! Measures how fast provost is, against the cost of the same work without it.
//!
//! Every goal is a ratio: the floor (bare spawns, bare SQLite, bare Markdown) is measured in the same run
//! as the subject, alternately with it. CPU time, counters and slopes decide; wall time is judged only if
//! nothing else is possible, and only on an idle machine.
//!
//! `cargo bench` runs all, `cargo bench -- NAME` those whose name contains NAME. `--large` takes ten
//! million events, `--strict` exits with 1 if a goal is missed. With `--features cluster` it also measures
//! many machines.

mod agent;
mod append;
mod children;
#[cfg(feature = "cluster")]
mod cluster;
mod events;
mod judge;
mod mcp;
mod measure;
mod plans;
mod proved;
mod queries;
mod reports;
mod serve;
mod start;
mod step;
mod summary;
mod table;

use std::process::ExitCode;

use table::Table;

/// Options of the command line.
pub struct Asked {
    large: bool,
    strict: bool,
    names: Vec<String>,
}

type Goal = (&'static str, fn(&Asked, &mut Table));

const GOALS: &[Goal] = &[
    ("plan", plans::measure),
    ("start", start::measure),
    ("append", append::measure),
    ("contention", append::contention),
    ("queries", queries::measure),
    ("summary", summary::measure),
    ("step", step::measure),
    ("judge", judge::measure),
    ("reports", reports::measure),
    ("proved", proved::measure),
    ("agent", agent::measure),
    ("mcp", mcp::measure),
    ("serve", serve::fan_out),
    ("serve-pages", serve::pages),
    #[cfg(feature = "cluster")]
    ("cluster-steps", cluster::steps),
    #[cfg(feature = "cluster")]
    ("cluster-flat", cluster::flat),
    #[cfg(feature = "cluster")]
    ("cluster-idle", cluster::idle),
];

fn main() -> ExitCode {
    let mut asked = Asked { large: false, strict: false, names: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--large" => asked.large = true,
            "--strict" => asked.strict = true,
            // Cargo passes this to every bench.
            "--bench" => {}
            role if role.starts_with("--as-") => return children::play(role, words.collect()),
            name => asked.names.push(name.to_owned()),
        }
    }
    let mut table = Table::begin();
    for (name, measure) in GOALS.iter().copied() {
        if asked.names.is_empty() || asked.names.iter().any(|wanted| name.contains(wanted.as_str())) {
            measure(&asked, &mut table);
        }
    }
    let missed = table.end();
    measure::leave();
    ExitCode::from(u8::from(asked.strict && missed > 0))
}
