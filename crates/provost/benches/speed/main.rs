//! Measures how fast provost is, against the cost of the same work without it.
//!
//! Every goal is a ratio: the floor (bare spawns, bare SQLite, bare Markdown) is measured in the same run
//! as the subject, alternately with it. CPU time, counters and slopes decide; wall time is judged only if
//! nothing else is possible, and only on an idle machine.
//!
//! `cargo bench` runs all, `cargo bench -- NAME` those whose name contains NAME. `--large` takes ten
//! million events, `--strict` exits with 1 if a goal is missed. With `--features cluster` it also measures
//! many machines. Three take minutes and run only by name: `real`, whole runs on the tasks of `benches/real`
//! (`--task NAME` for some of them, `--rounds N`), `minute`, a run whose agent works for a minute, and `large`, runs
//! in a repository of 30,000 files (with `--large` of 500,000).
//!
//! `--check` compares each row with `benches/ratios.toml` and exits with 1 if one got worse while nothing else
//! used the machine; `--check --update` writes the figures of this run into that file.

mod agent;
mod append;
mod baseline;
mod children;
#[cfg(feature = "cluster")]
mod cluster;
mod events;
mod judge;
mod large;
mod mcp;
mod measure;
#[cfg(feature = "cluster")]
mod peer;
mod plans;
mod proved;
mod queries;
mod real;
mod reports;
mod serve;
mod start;
mod step;
mod summary;
mod table;

use std::process::ExitCode;

use baseline::Baseline;
use table::Table;

/// Options of the command line.
#[derive(Default)]
pub struct Asked {
    large: bool,
    strict: bool,
    check: bool,
    update: bool,
    names: Vec<String>,
    /// Names of tasks of `real`; empty for all.
    tasks: Vec<String>,
    rounds: Option<usize>,
}

impl Asked {
    fn wants(&self, name: &str) -> bool {
        match self.names.is_empty() {
            true => !BY_NAME.contains(&name),
            false => self.names.iter().any(|wanted| name.contains(wanted.as_str())),
        }
    }

    fn wants_task(&self, name: &str) -> bool {
        self.tasks.is_empty() || self.tasks.iter().any(|wanted| name.contains(wanted.as_str()))
    }
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
    ("large", large::measure),
    ("reports", reports::measure),
    ("proved", proved::measure),
    ("agent", agent::measure),
    ("mcp", mcp::measure),
    ("serve", serve::fan_out),
    ("serve-pages", serve::pages),
    ("real", real::measure),
    ("minute", real::minute),
    #[cfg(feature = "cluster")]
    ("cluster-steps", cluster::steps),
    #[cfg(feature = "cluster")]
    ("cluster-flat", cluster::flat),
    #[cfg(feature = "cluster")]
    ("cluster-idle", cluster::idle),
];

/// Those that take minutes.
const BY_NAME: [&str; 3] = ["real", "minute", "large"];

const RATIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/ratios.toml");

fn main() -> ExitCode {
    let mut asked = Asked::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--large" => asked.large = true,
            "--strict" => asked.strict = true,
            "--check" => asked.check = true,
            "--update" => asked.update = true,
            "--task" => asked.tasks.extend(words.next()),
            "--rounds" => asked.rounds = words.next().and_then(|number| number.parse().ok()),
            // Cargo passes this to every bench.
            "--bench" => {}
            role if role.starts_with("--as-") => return children::play(role, words.collect()),
            name => asked.names.push(name.to_owned()),
        }
    }
    match kept_figures(&asked) {
        Ok(baseline) => run(&asked, baseline),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Returns the figures that rows are compared with, if they are compared.
fn kept_figures(asked: &Asked) -> Result<Option<Baseline>, String> {
    if !asked.check {
        return if asked.update { Err("--update goes with --check".to_owned()) } else { Ok(None) };
    }
    let text = std::fs::read_to_string(RATIOS).unwrap_or_default();
    let kept = if text.is_empty() { Baseline::default() } else { Baseline::parse(&text)? };
    if kept.profile != baseline::profile() && !asked.update {
        return Err(format!(
            "benches/ratios.toml was measured with a {} build, and this is a {} build; \
             `cargo bench -- --check --update` measures anew",
            kept.profile,
            baseline::profile()
        ));
    }
    Ok(Some(kept))
}

fn run(asked: &Asked, baseline: Option<Baseline>) -> ExitCode {
    let mut table = Table::begin(baseline.clone());
    for (name, measure) in GOALS.iter().copied() {
        if asked.wants(name) {
            table.group();
            measure(asked, &mut table);
        }
    }
    let outcome = table.end();
    measure::leave();
    if let (Some(mut kept), true) = (baseline, asked.update) {
        kept.update(&outcome.measured);
        std::fs::write(RATIOS, kept.text()).expect("the figures are written");
        return ExitCode::SUCCESS;
    }
    ExitCode::from(u8::from(outcome.is_worse || asked.strict && outcome.missed > 0))
}
