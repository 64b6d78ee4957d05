//! Tests many processes on one Postgres: workers that take work, die, are stopped and come back.
//!
//! `suite.rs` has the tests that every engine must pass (`engine.rs`: the cluster and a single machine);
//! `joining.rs` the tests that only a cluster has; `apart.rs` machines without a shared disk; `remotes.rs` what
//! happens with their git remote and their disks; `beside.rs` steps of one plan on several workers at once; `idle.rs` the
//! cost while nothing is to do; `cost.rs` the cost of a step; `stint.rs` the continuation with the same
//! plan; `metrics.rs`, `restore.rs`, `operate.rs` and `deploy.rs` what operators need; `chaos.rs` all of it at once, with machines
//! (`station.rs`) whose connection to the database is disturbed; `rolling.rs` the same for minutes, with parallel steps; `lines.rs` the failures that chaos found;
//! `upgrade.rs` workers of two versions; `pooler.rs` a cluster behind a pooler (`bouncer.rs`); `trust.rs` which logins can make a step pass; `teams.rs` projects that share a database, `team_budget.rs` their budget; `waiting.rs` what waits and why.

use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use provost_store::postgres::cluster::Cluster;
use serde_json::Value;

use crate::env::{Env, HONEST, plan};

mod apart;
mod beside;
mod bouncer;
mod chaos;
mod cost;
mod deploy;
mod engine;
mod field;
mod idle;
mod joining;
mod lines;
mod metrics;
mod net;
mod operate;
mod pooler;
mod remote_parallel;
mod remotes;
mod restore;
mod rolling;
mod station;
mod stint;
mod suite;
mod team_budget;
mod teams;
mod trust;
mod upgrade;
mod waiting;

use field::Field;

/// Plans whose log is in a database.
struct Fleet {
    field: Field,
    cluster: &'static Cluster,
    url: String,
    /// Lease time of the workers.
    lease: &'static str,
}

impl Deref for Fleet {
    type Target = Field;

    fn deref(&self) -> &Field {
        &self.field
    }
}

/// A worker that is killed with the test.
struct Worker {
    child: Child,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.signal("CONT");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args([&format!("-{signal}"), &pid]).stderr(Stdio::null()).status();
    }

    /// Sends a signal to the one child of this process, which is a sandbox.
    fn signal_inside(&self, signal: &str) {
        let pid = self.child.id();
        let inside = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let _ = Command::new("kill").args([&format!("-{signal}"), inside.trim()]).status();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns whether it has ended by itself.
    fn has_left(&mut self) -> bool {
        self.child.try_wait().ok().flatten().is_some()
    }
}

impl Fleet {
    /// Returns `None` if there is no Postgres; the test is then reported as skipped.
    fn new(plans: usize, contracts: &[&str], agent: &str) -> Option<Self> {
        Self::with(plans, &plan(contracts, "abort"), agent, "")
    }

    fn with(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self> {
        Some(Self::on(Cluster::shared()?, plans, text, agent, config))
    }

    fn on(cluster: &'static Cluster, plans: usize, text: &str, agent: &str, config: &str) -> Self {
        Self::at(cluster, cluster.database(), plans, text, agent, config)
    }

    /// Uses an existing database.
    fn at(
        cluster: &'static Cluster,
        url: String,
        plans: usize,
        text: &str,
        agent: &str,
        config: &str,
    ) -> Self {
        let field = Field::new(plans, text, agent, config);
        field.env.provost(&["migrate", "--to", &url]).exits(0);
        Self { field, cluster, url, lease: "5s" }
    }

    /// Starts a worker and waits until it has joined.
    fn worker(&self, arguments: &[&str]) -> Worker {
        self.worker_of(&self.env.state(), arguments)
    }

    /// Starts a worker on a machine with its own state folder.
    fn worker_of(&self, state: &std::path::Path, arguments: &[&str]) -> Worker {
        self.join(self.worker_command(state, arguments))
    }

    fn worker_command(&self, state: &std::path::Path, arguments: &[&str]) -> Command {
        let mut all = vec!["--poll", "50ms"];
        if !arguments.contains(&"--lease") {
            all.extend(["--lease", self.lease]);
        }
        all.extend(arguments);
        self.plain_worker(state, &all)
    }

    /// Starts a worker with only these options.
    fn joining(&self, state: &std::path::Path, arguments: &[&str]) -> Worker {
        self.join(self.plain_worker(state, arguments))
    }

    fn plain_worker(&self, state: &std::path::Path, arguments: &[&str]) -> Command {
        let all = [&["worker", "--json"], arguments].concat();
        let mut command = self.command(0, &all);
        command.env("PROVOST_STATE", state);
        command
    }

    /// The name of the database.
    fn database(&self) -> &str {
        let path = self.url.split('?').next().unwrap_or(&self.url);
        path.rsplit('/').next().unwrap_or(path)
    }

    fn status(&self) -> Value {
        self.provost(0, &["cluster", "status", "--json"]).exits(0).json()
    }

    fn workers(&self) -> usize {
        self.status()["workers"].as_array().map_or(0, Vec::len)
    }
}

const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn a_plan_that_is_approved_is_carried_out_by_whoever_is_there() {
    let Some(fleet) = Fleet::new(1, &["test -e out/1", "test -e out/2"], HONEST) else { return };
    fleet.approve(0);
    let _worker = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    let status = fleet.status();
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status["items"].as_array().map(Vec::len), Some(0), "{status}");
    assert_eq!(status["troubles"].as_array().map(Vec::len), Some(0), "{status}");
}

#[test]
fn what_is_asked_before_anybody_works_is_answered() {
    let Some(fleet) = Fleet::new(1, &["true"], HONEST) else { return };
    let alone = fleet.provost(0, &["cluster", "status"]).exits(2);
    assert!(alone.err.contains("provost worker"), "{}", alone.err);
    let embedded = Env::new(&plan(&["true"], "abort"));
    let refused = embedded.provost(&["worker"]).exits(2);
    assert!(refused.err.contains("provost migrate --to"), "{}", refused.err);
}
