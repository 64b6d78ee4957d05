//! Measures the cost of a step in a cluster, by the counters of the database and the kernel: the table in
//! docs/scale.md.
//!
//! `cargo test -p provost --features cluster --test it dbos::cost -- --ignored --nocapture` prints it;
//! add `--release` for an optimised build. `PROVOST_COST_PLANS` sets the number of plans.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use provost_store::postgres::cluster::Cluster;

use super::{Fleet, Worker};
use crate::env::plan;

/// The smallest possible work of an agent.
const AGENT: &str = "mkdir -p out; touch out/$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p')\n";
const STEPS: usize = 5;
/// Time after which a new worker no longer polls.
const SETTLED: Duration = Duration::from_secs(15);
/// Time in which there is nothing to do.
const IDLE: Duration = Duration::from_secs(10);
/// Backends publish their counters after about a second.
const TOLD: Duration = Duration::from_secs(2);
const COUNTS_CALLS: &str = "DO $$ BEGIN \
    EXECUTE format('ALTER DATABASE %I SET track_functions = ''all''', current_database()); END $$";
/// Unit in which Linux counts CPU time.
const TICKS_A_SECOND: f64 = 100.0;

/// The values of all counters at one time.
struct Look {
    at: Instant,
    of_database: BTreeMap<&'static str, f64>,
    server_s: f64,
    workers_s: Vec<f64>,
}

impl Look {
    fn at(fleet: &Fleet, workers: &[Worker]) -> Self {
        std::thread::sleep(TOLD);
        let questions = [
            ("commits", "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"),
            ("wal", "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"),
            ("syncs", "SELECT wal_sync FROM pg_stat_wal"),
            ("events", "SELECT count(*) FROM provost.event"),
            ("event bytes", "SELECT coalesce(sum(octet_length(details) + 200), 0) FROM provost.event"),
            (
                "log disk",
                "SELECT pg_total_relation_size('provost.event') + pg_total_relation_size('provost.plan')",
            ),
            ("rows", "SELECT last_value FROM provost_cluster.number"),
            (
                "append ms",
                "SELECT coalesce(sum(total_time), 0) FROM pg_stat_user_functions \
                 WHERE schemaname = 'provost' AND funcname = 'append'",
            ),
            (
                "appends",
                "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions \
                 WHERE schemaname = 'provost' AND funcname = 'append'",
            ),
        ];
        let of_database =
            questions.into_iter().map(|(name, question)| (name, number(&fleet.url, question))).collect();
        let server = postgres_processes(fleet.cluster);
        Self {
            at: Instant::now(),
            of_database,
            server_s: server.iter().map(|pid| cpu(pid, true)).sum(),
            workers_s: workers.iter().map(|worker| cpu(&worker.child.id().to_string(), false)).collect(),
        }
    }

    fn since(&self, earlier: &Look, name: &str) -> f64 {
        self.of_database[name] - earlier.of_database[name]
    }

    fn seconds_since(&self, earlier: &Look) -> f64 {
        (self.at - earlier.at).as_secs_f64()
    }
}

fn number(url: &str, question: &str) -> f64 {
    let asked = Command::new("psql").args(["-AtX", "-c", question, url]).output().expect("psql");
    let text = String::from_utf8_lossy(&asked.stdout);
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("{question}: {text}{}", String::from_utf8_lossy(&asked.stderr)))
}

/// Returns the processes of the server, the postmaster first; CPU time of ended children is added to it.
fn postgres_processes(cluster: &Cluster) -> Vec<String> {
    let file = std::fs::read_to_string(cluster.folder().join("data/postmaster.pid")).expect("it runs");
    let first = file.lines().next().expect("its number").trim().to_owned();
    let children =
        std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap_or_default();
    std::iter::once(first).chain(children.split_whitespace().map(str::to_owned)).collect()
}

/// Returns the CPU seconds of a process, on request with those of its ended children.
fn cpu(pid: &str, with_children: bool) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split(' ').map(|field| field.parse().unwrap_or(0.0)).collect())
        .unwrap_or_default();
    let (first, many) = (11, if with_children { 4 } else { 2 });
    fields.iter().skip(first).take(many).sum::<f64>() / TICKS_A_SECOND
}

fn memory_mb(worker: &Worker) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

#[test]
#[ignore = "takes two minutes, and prints two tables"]
fn what_a_step_costs() {
    let apart: [&[&str]; 2] = [&["--ticks-only"], &["--no-ticks", "--roles", "coder", "--jobs", "4"]];
    measure("one that looks, one that works", apart);
    measure("two that do everything, and go on with what they have begun", [&["--jobs", "2"]; 2]);
}

fn measure(who: &str, arguments: [&[&str]; 2]) {
    let plans = std::env::var("PROVOST_COST_PLANS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let contracts: Vec<String> = (1..=STEPS).map(|part| format!("test -e out/{part}")).collect();
    let contracts: Vec<&str> = contracts.iter().map(String::as_str).collect();
    let fleet = Fleet::on(own, plans, &plan(&contracts, "abort"), AGENT, "");
    own.sql(&fleet.url, COUNTS_CALLS);
    let state = fleet.env.state();
    let workers = arguments.map(|arguments| fleet.joining(&state, arguments));
    std::thread::sleep(SETTLED);
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    // Reading the counters is counted too; two reads in a row show how much it costs.
    let first = Look::at(&fleet, &workers);
    let rested = Look::at(&fleet, &workers);
    std::thread::sleep(IDLE);
    let idle = Look::at(&fleet, &workers);
    let connected_idle = number(&fleet.url, connections);
    (0..plans).for_each(|place| drop(fleet.provost(place, &["verify"]).exits(0)));
    let begun = Look::at(&fleet, &workers);
    let started = Instant::now();
    fleet.approve_all();
    let done = "SELECT count(*) FROM provost.event WHERE name = 'EXECUTION_COMPLETE'";
    let mut connected: f64 = 0.0;
    while number(&fleet.url, done) < plans as f64 {
        connected = connected.max(number(&fleet.url, connections));
        assert!(started.elapsed() < Duration::from_secs(400), "{}", fleet.said());
        std::thread::sleep(Duration::from_millis(500));
    }
    let took = started.elapsed().as_secs_f64();
    let ended = Look::at(&fleet, &workers);
    let steps = (plans * STEPS) as f64;
    let busy_s = ended.seconds_since(&begun);
    let looking = |name: &str| rested.since(&first, name);
    let a_second = |name: &str| {
        let quiet = idle.seconds_since(&rested) - rested.seconds_since(&first);
        (idle.since(&rested, name) - looking(name)) / quiet
    };
    let per_step = |name: &str| (ended.since(&begun, name) - looking(name) - a_second(name) * busy_s) / steps;
    let cpu_per_step = |of: &dyn Fn(&Look) -> f64| {
        let at_rest = (of(&idle) - of(&rested)) / idle.seconds_since(&rested);
        (of(&ended) - of(&begun) - at_rest * busy_s) / steps * 1e3
    };
    let at_rest = |name: &str| a_second(name) / workers.len() as f64;
    println!(
        "\n{who}: {plans} plans of {STEPS} steps in {took:.1} s ({:.1} steps/s), {} build",
        steps / took,
        build()
    );
    println!("| a step | |\n| --- | ---: |");
    println!("| events | {:.1} |", per_step("events"));
    println!("| bytes of events | {:.0} |", per_step("event bytes"));
    println!("| bytes of the log on disk, with indexes | {:.0} |", per_step("log disk"));
    println!("| rows of queues | {:.1} |", per_step("rows"));
    println!("| appends to the log | {:.1} |", per_step("appends"));
    println!("| time inside of one append | {:.2} ms |", per_step("append ms") / per_step("appends"));
    println!("| transactions | {:.0} |", per_step("commits"));
    println!("| times the write-ahead log was synced | {:.1} |", per_step("syncs"));
    println!("| bytes of the write-ahead log | {:.0} |", per_step("wal"));
    println!("| time of a core, workers | {:.0} ms |", cpu_per_step(&|look| look.workers_s.iter().sum()));
    println!("| time of a core, database | {:.0} ms |", cpu_per_step(&|look| look.server_s));
    println!("| **a worker** | |");
    println!("| connections at rest | {:.1} |", connected_idle / workers.len() as f64);
    println!("| connections at work, at most | {:.1} |", connected / workers.len() as f64);
    println!("| bytes of the write-ahead log a second at rest | {:.0} |", at_rest("wal"));
    let memory = workers.iter().map(memory_mb).fold(0.0, f64::max);
    println!("| memory, at most | {memory:.0} MB |");
    assert!(per_step("events") >= 4.0, "a step begins, ends, is judged and passes");
}

fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}
