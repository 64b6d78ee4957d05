//! Measures many machines on one Postgres: steps per second against empty workflows of the bare SDK, the
//! cost of other plans in the log, and the cost of plans that wait for a person.
//!
//! Both sides have two processes, the same server, the same number of jobs and the same poll interval.
//! The time is from when the work exists until the last result is written.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use provost_dbos::dbos::{self, Config, DBOS, QueueConflict, QueueOptions};
use provost_store::postgres::cluster::{Cluster, USER};
use serde_json::Value;

use crate::children::Beside;
use crate::measure::{folder, median, time};
use crate::table::{Kind, Row, Table};
use crate::{Asked, plans};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");
const JOBS: i32 = 4;
const POLL: Duration = Duration::from_millis(100);
const STEPS: usize = 10;
const PLANS: usize = 24;
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(120);
/// The SDK starts slowly and reaches its poll interval only after this time.
const WARM: Duration = Duration::from_secs(11);

/// The bare SDK as a process: takes empty workflows from a queue until stdin ends.
pub(crate) fn bare_queue(at: &str) -> ExitCode {
    let (name, url) = at.split_once(' ').expect("a name and an address");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let dbos = DBOS::new(Config {
            executor_id: Some(name.to_owned()),
            app_version: Some("bare".to_owned()),
            use_listen_notify: false,
            max_connections: 6,
            ..Config::new("bare", url)
        });
        dbos.register_workflow("nothing", async |_: Value| Ok::<_, dbos::Error>(String::new()))
            .expect("known");
        dbos.launch().await.expect("joined");
        let limits = QueueOptions {
            worker_concurrency: Some(JOBS),
            polling_interval: POLL,
            ..QueueOptions::default()
        };
        dbos.register_queue("empty", limits, QueueConflict::AlwaysUpdate).await.expect("a queue");
        println!("begun");
        let _ = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new())).await;
        dbos.shutdown().await;
    });
    ExitCode::SUCCESS
}

/// Returns the empty workflows per second that two processes take.
fn bare_rate(cluster: &Cluster, many: usize) -> f64 {
    let url = cluster.database();
    // The SDK needs the folder of the socket as the host.
    let database = url.split(['/', '?']).nth(3).expect("its name");
    let socket = cluster.folder().display().to_string().replace('/', "%2F");
    let address = format!("postgres://{USER}@{socket}:{}/{database}", cluster.port());
    let at = |name: &str| PathBuf::from(format!("{name} {address}"));
    let first = Beside::start("--as-bare-queue", &at("one"));
    let second = Beside::start("--as-bare-queue", &at("other"));
    std::thread::sleep(WARM);
    cluster.sql(
        &url,
        &format!(
            "SELECT dbos.enqueue_workflow('nothing', 'empty', positional_args => ARRAY['1'::json], \
             app_version => 'bare', application_name => 'bare') FROM generate_series(1, {many})"
        ),
    );
    let left = "SELECT FROM dbos.workflow_status WHERE status <> 'SUCCESS' LIMIT 1";
    until("the queue is empty", || cluster.sql(&url, left).is_empty());
    drop((first, second));
    let taken =
        "SELECT (max(completed_at) - min(started_at_epoch_ms))::bigint::text AS ms FROM dbos.workflow_status";
    many as f64 / (number(cluster, &url, taken) / 1e3)
}

/// Returns the result of a query with one number.
fn number(cluster: &Cluster, url: &str, question: &str) -> f64 {
    let question = format!("DO $$ BEGIN RAISE WARNING 'measured %', ({question}); END $$");
    cluster.sql(url, &question);
    let said = cluster.said();
    let last = said.lines().rev().find_map(|line| line.split_once("measured "));
    last.and_then(|(_, number)| number.trim().parse().ok()).expect("a number")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Approved plans in separate folders, with a log in a separate database.
struct Fleet<'a> {
    cluster: &'a Cluster,
    url: String,
    at: PathBuf,
}

impl<'a> Fleet<'a> {
    fn make(cluster: &'a Cluster, at: PathBuf, plans: usize) -> Self {
        let fleet = Self { cluster, url: cluster.database(), at };
        for number in 0..plans {
            let workspace = fleet.at.join(format!("work-{number}"));
            fs::create_dir_all(&workspace).expect("a workspace");
            fs::write(workspace.join("PLAN.md"), plans::text(STEPS, "Do nothing.")).expect("a plan");
            let config = "[agents.coder]\ndriver = \"command\"\ncommand = [\"/bin/true\"]\n\
                          [verify]\nisolation = \"in-place\"\n";
            fs::write(workspace.join("provost.toml"), config).expect("a configuration");
            if number == 0 {
                fleet.provost(&workspace, &["migrate", "--to", &fleet.url]);
            }
            let verified = fleet.provost(&workspace, &["verify", "PLAN.md", "--json"]);
            let said: Value =
                serde_json::from_str(verified.lines().last().unwrap_or_default()).expect("a plan");
            let revision = said["revision"].as_str().expect("a revision");
            fleet.provost(&workspace, &["approve", "PLAN.md", "--revision", revision]);
        }
        fleet
    }

    fn provost(&self, cwd: &Path, arguments: &[&str]) -> String {
        let output = self.command(cwd, arguments).output().expect("provost");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn command(&self, cwd: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROVOST);
        command.args(arguments).current_dir(cwd).env("PROVOST_STATE", self.at.join("state"));
        command.stdin(Stdio::null());
        command
    }

    /// Adds this many plans to the log, each in the same state as the first when it asked a person.
    fn others_at_the_gate(&self, many: usize) {
        self.cluster.sql(
            &self.url,
            &format!(
                "WITH first AS (SELECT * FROM provost.event WHERE plan = 1 AND seq < (
                     SELECT min(seq) FROM provost.event WHERE plan = 1 AND name = 'GATE_APPROVED')),
                 plans AS (INSERT INTO provost.plan (name, seq, hash)
                     SELECT '\"other-' || n || '\"', (SELECT max(seq) FROM first), (SELECT hash FROM first ORDER BY seq DESC LIMIT 1)
                     FROM generate_series(1, {many}) n RETURNING id)
                 INSERT INTO provost.event (id, plan, seq, at_ms, name, step, task_name, details, prev, hash)
                 SELECT (SELECT max(id) FROM provost.event) + row_number() OVER (ORDER BY plans.id, seq), plans.id, seq,
                     at_ms, name, step, task_name, details, prev, hash FROM plans, first"
            ),
        );
    }

    /// Returns how many pages of its database were read so far.
    fn pages(&self) -> f64 {
        // A backend publishes its counters a moment after it ends.
        std::thread::sleep(Duration::from_secs(1));
        let pages = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()";
        number(self.cluster, &self.url, pages)
    }

    fn worker(&self, more: &[&str]) -> Worker {
        let (jobs, poll) = (JOBS.to_string(), format!("{}ms", POLL.as_millis()));
        let arguments = ["worker", "--json", "--jobs", &jobs, "--poll", &poll];
        let mut command = self.command(&self.at, &arguments);
        command.args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a worker");
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        said.read_line(&mut line).expect("its name");
        assert!(line.contains("worker"), "it did not join");
        Worker(child)
    }

    /// Runs everything with two workers; returns the time from when the plans can be scheduled until the
    /// last end.
    fn is_done(&self, plans: usize) -> f64 {
        drop(self.worker(&["--no-ticks", "--roles", "nobody"]));
        let sql = |statements: &str| self.cluster.sql(&self.url, statements);
        // Held back until both workers have reached full speed.
        sql("UPDATE dbos.workflow_status SET queue_name = 'held' WHERE queue_name = 'ticks'");
        let _workers = [self.worker(&[]), self.worker(&[])];
        std::thread::sleep(WARM);
        let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let begun = number(self.cluster, &self.url, &format!("SELECT {now}"));
        sql("UPDATE dbos.workflow_status SET queue_name = 'ticks' WHERE queue_name = 'held'; \
             SELECT provost_cluster.ring('ticks')");
        // Uses the index whatever the planner knows, because the query runs often.
        let ends = "SET enable_seqscan = off; SELECT FROM provost.event WHERE name = 'EXECUTION_COMPLETE'";
        until("the plans end", || sql(ends).len() == plans);
        let ended = "SELECT max(at_ms) FROM provost.event WHERE name = 'EXECUTION_COMPLETE'";
        (number(self.cluster, &self.url, ended) - begun) / 1e3
    }
}

/// A worker that is ended in order.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

pub(crate) fn steps(_: &Asked, table: &mut Table) {
    let Some(cluster) = Cluster::start() else { return };
    let many = PLANS * STEPS;
    let (mut ours, mut bare, mut queued) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        bare.push(bare_rate(&cluster, many));
        let fleet = Fleet::make(&cluster, folder(&format!("cluster-{round}")), PLANS);
        ours.push(many as f64 / fleet.is_done(PLANS));
        queued.push(number(&cluster, &fleet.url, "SELECT count(*) FROM dbos.workflow_status"));
    }
    let ratio = |each: &dyn Fn(usize) -> f64| median(&(0..ROUNDS).map(each).collect::<Vec<_>>());
    table.row(Row {
        what: "cluster: empty workflows a second against steps",
        subject: format!("{:.0} steps/s", median(&ours)),
        floor: format!("{:.0} wf/s", median(&bare)),
        figure: ratio(&|round| bare[round] / ours[round]),
        unit: "×",
        goal: 2.0,
        kind: Kind::Wall,
    });
    let seen = format!(
        "{:.0} rows for {many} steps, {:.2}× as long as they take empty",
        median(&queued),
        ratio(&|round| (many as f64 / ours[round]) / (queued[round] / bare[round]))
    );
    table.note("  of which went by a queue", &seen);
}

pub(crate) fn flat(_: &Asked, table: &mut Table) {
    let Some(cluster) = Cluster::start() else { return };
    // Returns the time of a step, and how many pages the server read for it.
    let took = |name: &str, others: usize| {
        let fleet = Fleet::make(&cluster, folder(name), PLANS);
        fleet.others_at_the_gate(others);
        // Excludes the server's maintenance after many new rows, and the start of a worker, which reads all
        // plans once.
        cluster.sql(&fleet.url, "VACUUM ANALYZE");
        drop(fleet.worker(&["--no-ticks", "--roles", "nobody"]));
        let start = fleet.pages();
        drop(fleet.worker(&["--no-ticks", "--roles", "nobody"]));
        let joining = fleet.pages() - start;
        let before = fleet.pages();
        let each = (PLANS * STEPS) as f64;
        (fleet.is_done(PLANS) / each, (fleet.pages() - before - 3.0 * joining) / each)
    };
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        few.push(took(&format!("cluster-few-{round}"), 10));
        many.push(took(&format!("cluster-many-{round}"), 10_000));
    }
    let ratio = |of: &dyn Fn(&(f64, f64)) -> f64| {
        median(&few.iter().zip(&many).map(|(few, many)| of(many) / of(few)).collect::<Vec<_>>())
    };
    let of = |side: &[(f64, f64)], of: &dyn Fn(&(f64, f64)) -> f64| {
        median(&side.iter().map(of).collect::<Vec<_>>())
    };
    table.row(Row {
        what: "cluster: a step among 10,000 plans against 10",
        subject: time(of(&many, &|took| took.0)),
        floor: time(of(&few, &|took| took.0)),
        figure: ratio(&|took| took.0),
        unit: "×",
        goal: 1.2,
        kind: Kind::Wall,
    });
    table.row(Row {
        what: "cluster: pages the server looks at for it",
        subject: format!("{:.0}", of(&many, &|took| took.1)),
        floor: format!("{:.0}", of(&few, &|took| took.1)),
        figure: ratio(&|took| took.1),
        unit: "×",
        goal: 1.2,
        kind: Kind::Counter,
    });
}

pub(crate) fn idle(asked: &Asked, table: &mut Table) {
    let Some(cluster) = Cluster::start() else { return };
    let fleet = Fleet::make(&cluster, folder("cluster-idle"), 1);
    fleet.others_at_the_gate(1_000);
    let _workers = [fleet.worker(&[]), fleet.worker(&[])];
    let over = "SELECT FROM provost.event WHERE name = 'EXECUTION_COMPLETE'";
    until("the one plan ends", || !cluster.sql(&fleet.url, over).is_empty());
    // Workers poll for some seconds after they have joined.
    std::thread::sleep(Duration::from_secs(15));
    let statements = || {
        let is_one = |line: &&str| line.contains("LOG:  statement: ") || line.contains("LOG:  execute ");
        cluster.said().lines().filter(is_one).count()
    };
    cluster.sql(&cluster.url("postgres"), "ALTER SYSTEM SET log_statement = 'all'");
    cluster.sql(&cluster.url("postgres"), "SELECT pg_reload_conf()");
    std::thread::sleep(Duration::from_secs(1));
    let time = Duration::from_secs(if asked.large { 300 } else { 60 });
    let before = statements();
    std::thread::sleep(time);
    let each_second = (statements() - before) as f64 / time.as_secs_f64();
    table.row(Row {
        what: "cluster: queries a second, 1,000 plans at the gate",
        subject: format!("{each_second:.2}"),
        floor: String::new(),
        figure: each_second,
        unit: "",
        goal: 1.0,
        kind: Kind::Counter,
    });
}
