//! Many processes on one Postgres: workers that take what is offered, die, are stopped and come back.
//!
//! `suite.rs` is what every engine is asked, `chaos.rs` all of it at once, `apart.rs` machines that share no disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use provost_store::postgres::cluster::Cluster;
use serde_json::Value;

use crate::env::{Answer, Env, HONEST, answer, plan};

mod apart;
mod chaos;
mod suite;

/// Some plans in folders of their own, one state folder, one database.
struct Fleet {
    env: Env,
    cluster: &'static Cluster,
    url: String,
    places: Vec<PathBuf>,
}

/// A worker that dies with the test.
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

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it has left by itself.
    fn has_left(&mut self) -> bool {
        self.child.try_wait().ok().flatten().is_some()
    }
}

impl Fleet {
    /// Nothing, where there is no server to be had; then a line says so.
    fn new(plans: usize, contracts: &[&str], agent: &str) -> Option<Self> {
        Self::with(plans, &plan(contracts, "abort"), agent, "")
    }

    fn with(plans: usize, text: &str, agent: &str, config: &str) -> Option<Self> {
        Some(Self::on(Cluster::shared()?, plans, text, agent, config))
    }

    fn on(cluster: &'static Cluster, plans: usize, text: &str, agent: &str, config: &str) -> Self {
        let env = Env::new(text);
        let url = cluster.database();
        let mut fleet = Self { env, cluster, url, places: Vec::new() };
        for number in 0..plans {
            let place = fleet.env.folder().join(format!("work-{number}"));
            std::fs::create_dir(&place).expect("a folder");
            let config = format!(
                "[agents.coder]\ndriver = \"command\"\ncommand = [\"bash\", \"agent.sh\"]\n{config}\n\
                 [verify]\nisolation = \"in-place\"\n"
            );
            for (name, text) in [("PLAN.md", text), ("agent.sh", agent), ("provost.toml", config.as_str())] {
                std::fs::write(place.join(name), text).expect("a file");
            }
            for arguments in
                [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "-m", "start"]]
            {
                let status = Command::new("git")
                    .args(["-c", "user.name=test", "-c", "user.email=test@localhost"])
                    .args(arguments)
                    .current_dir(&place)
                    .env("HOME", fleet.env.folder().join("home"))
                    .status();
                assert!(status.expect("git").success());
            }
            fleet.places.push(place);
        }
        fleet.env.provost(&["migrate", "--to", &fleet.url]).exits(0);
        fleet
    }

    fn command(&self, place: usize, arguments: &[&str]) -> Command {
        let mut command = self.env.command(arguments);
        command.current_dir(&self.places[place]);
        command
    }

    fn provost(&self, place: usize, arguments: &[&str]) -> Answer {
        answer(self.command(place, arguments).output().expect("provost"))
    }

    fn approve(&self, place: usize) {
        let shown = self.provost(place, &["show", "--json"]).exits(0).json();
        let revision = shown["revision"].as_str().expect("a revision").to_owned();
        self.provost(place, &["approve", "--revision", &revision]).exits(0);
    }

    fn approve_all(&self) {
        (0..self.places.len()).for_each(|place| self.approve(place));
    }

    /// Starts a worker and waits until it has joined.
    fn worker(&self, arguments: &[&str]) -> Worker {
        self.worker_of(&self.env.state(), arguments)
    }

    /// The same on a machine with a state folder of its own.
    fn worker_of(&self, state: &std::path::Path, arguments: &[&str]) -> Worker {
        let mut all = vec!["worker", "--json", "--lease", "5s", "--poll", "50ms"];
        all.extend(arguments);
        let said = self.env.folder().join("said");
        let said = std::fs::OpenOptions::new().create(true).append(true).open(said).expect("a file");
        let mut command = self.command(0, &all);
        command.env("PROVOST_STATE", state).stdout(Stdio::piped()).stderr(Stdio::from(said));
        let mut child = command.spawn().expect("a worker");
        let mut out = std::io::BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).expect("its name");
        assert!(line.contains("worker"), "it did not join: {line}{}", self.said());
        Worker { child }
    }

    /// What all workers said.
    fn said(&self) -> String {
        std::fs::read_to_string(self.env.folder().join("said")).unwrap_or_default()
    }

    fn stage(&self, place: usize) -> String {
        let status = self.provost(place, &["status", "--json"]).exits(0).json();
        status["stage"].as_str().unwrap_or_default().to_owned()
    }

    fn status(&self) -> Value {
        self.provost(0, &["cluster", "status", "--json"]).exits(0).json()
    }

    fn events(&self, place: usize) -> Vec<Value> {
        self.provost(place, &["log", "--json"]).exits(0).lines()
    }

    /// How often each event of these names is in the log, with its step.
    fn count(&self, place: usize, name: &str) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for event in self.events(place).iter().filter(|event| event["event"] == name) {
            *found.entry(event["task_id"].as_str().unwrap_or("-").to_owned()).or_default() += 1;
        }
        found
    }

    #[track_caller]
    fn until(&self, what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + patience;
        while !is_so() {
            assert!(
                Instant::now() < deadline,
                "{what}: never\n{}\n{:#}\n{:?}",
                self.said(),
                self.status(),
                (0..self.places.len()).map(|place| self.stage(place)).collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn until_done(&self, patience: Duration) {
        for place in 0..self.places.len() {
            self.until("done", patience, || self.stage(place) == "done");
        }
    }

    /// Every step passed exactly once, and the log can be believed.
    #[track_caller]
    fn is_sound(&self, place: usize, steps: usize) {
        let passed = self.count(place, "TASK_COMPLETED");
        assert_eq!(passed.len(), steps, "{passed:?}");
        assert!(passed.values().all(|times| *times == 1), "{passed:?}");
        assert_eq!(self.count(place, "EXECUTION_COMPLETE").values().sum::<usize>(), 1);
        self.provost(place, &["audit"]).exits(0);
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

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
