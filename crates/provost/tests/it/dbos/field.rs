//! Test support for every engine: some plans in separate folders with one state folder, and questions about
//! them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Worker;
use crate::env::{Answer, Env, answer};

pub(super) struct Field {
    pub env: Env,
    pub places: Vec<PathBuf>,
}

impl Field {
    /// Creates each plan in a repository with one commit, with this agent.
    pub(super) fn new(plans: usize, text: &str, agent: &str, config: &str) -> Self {
        let mut field = Self { env: Env::new(text), places: Vec::new() };
        for number in 0..plans {
            let place = field.env.folder().join(format!("work-{number}"));
            std::fs::create_dir(&place).expect("a folder");
            let level = if config.contains("[verify]") { "" } else { "[verify]\nisolation = \"in-place\"\n" };
            let config = format!(
                "[agents.coder]\ndriver = \"command\"\ncommand = [\"bash\", \"agent.sh\"]\n{config}\n{level}"
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
                    .env("HOME", field.env.folder().join("home"))
                    .status();
                assert!(status.expect("git").success());
            }
            field.places.push(place);
        }
        field
    }

    pub(super) fn command(&self, place: usize, arguments: &[&str]) -> Command {
        let mut command = self.env.command(arguments);
        command.current_dir(&self.places[place]);
        command
    }

    pub(super) fn provost(&self, place: usize, arguments: &[&str]) -> Answer {
        answer(self.command(place, arguments).output().expect("provost"))
    }

    pub(super) fn approve(&self, place: usize) {
        let shown = self.provost(place, &["show", "--json"]).exits(0).json();
        let revision = shown["revision"].as_str().expect("a revision").to_owned();
        self.provost(place, &["approve", "--revision", &revision]).exits(0);
    }

    pub(super) fn approve_all(&self) {
        (0..self.places.len()).for_each(|place| self.approve(place));
    }

    /// Returns the output of all workers.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(self.env.folder().join("said")).unwrap_or_default()
    }

    pub(super) fn stage(&self, place: usize) -> String {
        let status = self.provost(place, &["status", "--json"]).exits(0).json();
        status["stage"].as_str().unwrap_or_default().to_owned()
    }

    /// Starts it and waits until it has joined.
    pub(super) fn join(&self, command: Command) -> Worker {
        self.try_join(command).unwrap_or_else(|| panic!("it did not join: {}", self.said()))
    }

    /// Returns `None` if it ended before.
    pub(super) fn try_join(&self, command: Command) -> Option<Worker> {
        self.joined(command).map(|(worker, _)| worker)
    }

    /// The same, with what the worker printed when it had joined.
    pub(super) fn joined(&self, mut command: Command) -> Option<(Worker, Value)> {
        let said = self.env.folder().join("said");
        let said = std::fs::OpenOptions::new().create(true).append(true).open(said).expect("a file");
        command.stdout(Stdio::piped()).stderr(Stdio::from(said));
        let mut worker = Worker { child: command.spawn().expect("a worker") };
        let mut out = std::io::BufReader::new(worker.child.stdout.take().expect("its output"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).expect("its name");
        line.contains("worker").then(|| (worker, serde_json::from_str(&line).expect("a document")))
    }

    pub(super) fn events(&self, place: usize) -> Vec<Value> {
        self.provost(place, &["log", "--json"]).exits(0).lines()
    }

    /// Returns how often the log has this event, by step.
    pub(super) fn count(&self, place: usize, name: &str) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for event in self.events(place).iter().filter(|event| event["event"] == name) {
            *found.entry(event["task_id"].as_str().unwrap_or("-").to_owned()).or_default() += 1;
        }
        found
    }

    #[track_caller]
    pub(super) fn until(&self, what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + patience;
        while !is_so() {
            assert!(
                Instant::now() < deadline,
                "{what}: never\n{}\n{}\n{:?}",
                self.said(),
                self.provost(0, &["cluster", "status", "--json"]).out,
                (0..self.places.len()).map(|place| self.stage(place)).collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    pub(super) fn until_done(&self, patience: Duration) {
        for place in 0..self.places.len() {
            self.until("done", patience, || self.stage(place) == "done");
        }
    }

    /// Checks that every step passed exactly once and that the audit is sound.
    #[track_caller]
    pub(super) fn is_sound(&self, place: usize, steps: usize) {
        let passed = self.count(place, "TASK_COMPLETED");
        assert_eq!(passed.len(), steps, "{passed:?}");
        assert!(passed.values().all(|times| *times == 1), "{passed:?}");
        assert_eq!(self.count(place, "EXECUTION_COMPLETE").values().sum::<usize>(), 1);
        self.provost(place, &["audit"]).exits(0);
    }

    pub(super) fn has(&self, sign: &str) -> bool {
        self.env.folder().join(sign).exists()
    }

    pub(super) fn go(&self) {
        std::fs::write(self.env.folder().join("go"), "").expect("a sign");
    }

    /// Returns the attempts that agents got, in order.
    pub(super) fn ledger(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.env.folder().join("ledger")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns whether the agent that wrote its pid is alive.
    pub(super) fn agent_lives(&self) -> bool {
        let pid = std::fs::read_to_string(self.env.folder().join("pid")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    /// Returns the names of all events, in order.
    pub(super) fn names(&self, place: usize) -> Vec<String> {
        self.events(place).iter().map(|event| event["event"].as_str().unwrap_or("?").to_owned()).collect()
    }

    /// Checks that no attempt was given to an agent twice.
    #[track_caller]
    pub(super) fn gave_nothing_twice(&self) {
        let mut ledger = self.ledger();
        let given = ledger.len();
        ledger.sort();
        ledger.dedup();
        assert_eq!(ledger.len(), given, "{ledger:?}");
    }
}
