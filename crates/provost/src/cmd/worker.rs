use std::net::SocketAddr;
use std::time::Duration;

use provost_core::fleet::labels::Label;
use provost_engine::observe::overview::Overview;
use provost_engine::plan::human_check::Who;

use crate::open_plan::Global;
use crate::outcome::Answer;

/// Run a cluster worker: it schedules plans, and runs agents and checks
///
/// Every machine whose log is in the same Postgres database (`provost migrate --to URL`) can run any number
/// of workers. Free workers carry out approved plans; if a worker dies, others take over its items. The
/// first SIGTERM or Ctrl-C lets a worker finish its current items, the second ends it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost worker                                 all kinds of work, one item at a time
  provost worker --jobs 4 --label gpu            four at a time, on a machine with a GPU
  provost worker --roles coder,reviewer          work for these roles, and run checks
  provost worker --ticks-only                    schedule plans; run no agents and no checks
  provost worker --remote git@host:carry.git     no shared disk: exchange trees through this remote
  provost worker --roles coder --no-checks --no-ticks --remote git@host:carry.git
                                                 run agents only; other machines run the checks
  provost cluster status                         workers, queues, waiting items")]
pub(super) struct Args {
    /// Work for these roles only [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ROLE")]
    roles: Option<Vec<String>>,
    /// Number of items to work on at the same time
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Label of this machine, such as `gpu` or `os=linux`; can be repeated
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<Label>,
    /// Only schedule plans; run no agents and no checks
    #[arg(long)]
    ticks_only: bool,
    /// Do not schedule or end plans; other workers do
    #[arg(long, conflicts_with = "ticks_only", requires = "roles")]
    no_ticks: bool,
    /// Do not run checks; other workers do
    #[arg(long, conflicts_with = "ticks_only", requires = "roles")]
    no_checks: bool,
    /// Git remote that carries trees between machines without a shared disk [default: the one that `provost
    /// cluster remote` has set]
    #[arg(long, value_name = "URL")]
    remote: Option<String>,
    /// Time without a heartbeat after which other workers take over its items
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lifetime)]
    lease: Duration,
    /// Interval between polls of a queue that is not empty
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = humantime::parse_duration)]
    poll: Duration,
    /// When it leaves, end items that still run after this time [default: wait for them]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    grace: Option<Duration>,
    /// Answer `/healthz` and `/readyz` at this address, for an orchestrator; port 0 takes any free port
    #[arg(long, value_name = "ADDR")]
    probes: Option<SocketAddr>,
}

/// Shorter ones would be over before they are renewed, on a machine that is busy.
fn lifetime(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match time.as_millis() {
        2_000..=3_600_000 => Ok(time),
        _ => Err("must be between 2s and 1h".to_owned()),
    }
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    Overview::open(settings.clone())?.only_people(&Who::Here)?;
    work(global, settings, args)
}

#[cfg(not(feature = "cluster"))]
fn work(_global: &Global, _settings: provost_engine::settings::EngineSettings, args: Args) -> Answer {
    let Args { .. } = args;
    Err(crate::failure::no_cluster())
}

#[cfg(feature = "cluster")]
fn work(global: &Global, settings: provost_engine::settings::EngineSettings, args: Args) -> Answer {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use provost_dbos::health::WorkerHealth;
    use provost_dbos::remote;
    use provost_dbos::worker::{self, WorkerOptions};
    use serde_json::json;

    use crate::outcome::Outcome;
    use crate::terminal;

    let mut settings = settings;
    let address =
        args.remote.map_or_else(|| remote::address(&settings.state), |address| Ok(Some(address)))?;
    if address.is_some() {
        remote::keep_all_keys(&mut settings.environment);
    }
    let health = Arc::new(WorkerHealth::default());
    let (alive, ready) = (health.clone(), health.clone());
    let listen = |address| {
        provost_server::probes::listen(
            address,
            Arc::new(move || alive.is_alive()),
            Arc::new(move || ready.is_ready()),
        )
    };
    let probes = args.probes.map(listen).transpose()?;
    let options = WorkerOptions {
        grace: args.grace,
        health,
        remote: address,
        checks_never: args.no_checks,
        roles: args.roles,
        jobs: usize::from(args.jobs),
        labels: args.labels,
        looks_only: args.ticks_only,
        looks_never: args.no_ticks,
        ttl: args.lease,
        poll: args.poll,
        // The first signal lets agents go on; it is only heard here.
        drain: settings.stop.clone(),
        settings: provost_engine::settings::EngineSettings {
            stop: Arc::new(AtomicBool::new(false)),
            ..settings
        },
    };
    let json = global.json;
    let joined = |id: &str| {
        if json {
            let _ = terminal::print(&format!("{}\n", json!({ "worker": id, "probes": probes })));
        } else {
            terminal::talk(&format!("joined as {id}; Ctrl-C lets it finish its current items"));
        }
    };
    worker::run(options, joined, terminal::talk)?;
    Ok(Outcome::Done)
}
