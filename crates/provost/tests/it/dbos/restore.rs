//! Tests backup and restore: copies the database while a plan runs and restores it on another server, with
//! exactly the commands of docs/cluster.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use provost_store::postgres::cluster::Cluster;

use super::{Fleet, PATIENCE};
use crate::env::{Answer, answer, plan};

const MANUAL: &str = include_str!("../../../../../docs/cluster.md");
const THREE: [&str; 3] = ["test -e out/1", "test -e out/2", "test -e out/3"];
/// Each attempt waits until the test lets it continue.
const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; touch ../begun-$part\n\
                     while [ ! -e ../go-$part ]; do sleep 0.05; done; touch out/$part; echo \"did $part\"\n";

/// Returns the commands under a heading of the manual.
fn commands(heading: &str) -> Vec<String> {
    let (_, section) = MANUAL.split_once(&format!("\n### {heading}\n")).expect("the heading");
    let section = section.split("\n#").next().unwrap_or_default();
    let mut lines = Vec::new();
    for block in section.split("```shell\n").skip(1) {
        let (text, _) = block.split_once("```").expect("the end of a block");
        lines.extend(text.lines().map(str::to_owned));
    }
    assert!(!lines.is_empty(), "{heading} has no commands");
    lines
}

/// The server that is lost, and its replacement.
struct Move {
    fleet: Fleet,
    old: &'static Cluster,
    new: &'static Cluster,
}

impl Move {
    /// Returns a plan whose second step is running.
    fn half_way() -> Option<Self> {
        let [old, new] = [Cluster::start()?, Cluster::start()?].map(|server| &*Box::leak(Box::new(server)));
        old.sql(&old.url("postgres"), "CREATE ROLE provost LOGIN CREATEROLE");
        old.sql(&old.url("postgres"), "CREATE DATABASE provost OWNER provost");
        let url = old.url_as("provost", "provost");
        let fleet = Fleet::at(old, url, 1, &plan(&THREE, "abort"), AGENT, "");
        Some(Self { fleet, old, new })
    }

    fn sign(&self, name: &str) {
        std::fs::write(self.fleet.env.folder().join(name), "").expect("a sign");
    }

    fn until_begun(&self, part: u32) {
        let sign = self.fleet.env.folder().join(format!("begun-{part}"));
        self.fleet.until("begun", PATIENCE, || sign.exists());
    }

    /// Runs a command of the manual with these servers and this state folder.
    #[track_caller]
    fn by_the_letter(&self, line: &str, state: &Path) -> Answer {
        let mut line = line.to_owned();
        for (host, server) in [("db", self.old), ("new", self.new)] {
            for (user, role) in [("postgres", "olga"), ("provost", "provost")] {
                let written = format!("postgres://{user}@{host}.example.org/{user}");
                line = line.replace(&written, &server.url_as(role, user));
            }
        }
        assert!(!line.contains("example.org"), "{line}");
        let program = Path::new(env!("CARGO_BIN_EXE_provost")).parent().expect("a folder");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("bash")
            .args(["-euc", &line])
            .current_dir(&self.fleet.places[0])
            .env("PATH", path)
            .env("PROVOST_STATE", state)
            .env("HOME", self.fleet.env.folder().join("home"))
            .output();
        answer(output.expect("bash"))
    }

    /// Creates a machine with an empty state folder.
    fn machine(&self, name: &str) -> PathBuf {
        let state = self.fleet.env.folder().join(name);
        std::fs::create_dir(&state).expect("a state folder");
        state
    }

    fn stage(&self, state: &Path) -> String {
        let mut status = self.fleet.command(0, &["status", "--json"]);
        let status = answer(status.env("PROVOST_STATE", state).output().expect("provost")).exits(0).json();
        status["stage"].as_str().unwrap_or_default().to_owned()
    }

    fn audit(&self, state: &Path) -> Answer {
        let mut audit = self.fleet.command(0, &["audit", "--json"]);
        answer(audit.env("PROVOST_STATE", state).output().expect("provost"))
    }

    /// Starts a worker from this state folder and waits until the plan is done.
    #[track_caller]
    fn goes_on(&self, state: &Path, arguments: &[&str]) {
        let _worker = self.fleet.worker_of(state, arguments);
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.stage(state) != "done" {
            assert!(std::time::Instant::now() < deadline, "never done\n{}", self.fleet.said());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

#[test]
fn a_dump_that_is_brought_back_is_gone_on_from_and_what_it_lacks_is_noticed() {
    let Some(moved) = Move::half_way() else { return };
    let (fleet, here) = (&moved.fleet, moved.fleet.env.state());
    moved.old.sql(&fleet.url, "CREATE ROLE hand LOGIN; GRANT provost_worker TO hand");
    let worker = fleet.worker(&[]);
    fleet.approve(0);
    moved.sign("go-1");
    moved.until_begun(2);
    for line in commands("A copy") {
        moved.by_the_letter(&line, &here).exits(0);
    }
    let copied = fleet.events(0).len();
    moved.sign("go-2");
    moved.sign("go-3");
    fleet.until_done(PATIENCE);
    drop(worker);
    assert!(fleet.events(0).len() > copied);
    moved.old.stop();

    let there = moved.machine("there");
    for line in commands("Bringing it back") {
        // Roles that exist already cause only a message.
        let is_roles = line.starts_with("psql --file=roles.sql");
        let done = moved.by_the_letter(&line, &there);
        assert!(is_roles || done.code == 0, "{line}\n{}{}", done.out, done.err);
    }
    let audit = moved.audit(&there).exits(0).json();
    assert_eq!(audit["events"], copied, "{audit}");

    // This machine has proofs of events that came after the backup.
    std::fs::copy(there.join("log.url"), here.join("log.url")).expect("the address");
    let doubt = moved.audit(&here).exits(70).json();
    let doubts = doubt["disproved"].to_string();
    assert!(doubts.contains("is in the proof but not in the log"), "{doubt}");
    let refused = fleet.provost(0, &["run"]).exits(70);
    assert!(refused.err.contains("does not match its proofs"), "{}", refused.err);
    let doubting = fleet.worker_of(&here, &[]);
    fleet.until("it is told", PATIENCE, || {
        fleet.status()["troubles"].to_string().contains("does not match its proofs")
    });
    drop(doubting);
    assert_eq!(moved.audit(&there).exits(0).json()["events"], copied, "it wrote to a log it doubts");

    // With the rights of a worker, from the restored roles.
    let hand = moved.machine("hand");
    let url = moved.new.url_as("hand", "provost");
    std::fs::write(hand.join("log.url"), &url).expect("the address");
    assert!(moved.new.try_sql(&url, "DELETE FROM provost.event").is_err(), "a worker took events away");
    let _looks = fleet.worker_of(&there, &["--ticks-only"]);
    // The key of the machine is made with its first command.
    let _ = fleet.worker_command(&hand, &["--no-ticks", "--roles", "coder"]).output();
    let key = std::fs::read_to_string(hand.join("key.pub")).expect("its key");
    let mut trust = fleet.command(0, &["cluster", "trust", key.trim()]);
    crate::env::answer(trust.env("PROVOST_STATE", &there).output().expect("provost")).exits(0);
    moved.goes_on(&hand, &["--no-ticks", "--roles", "coder"]);
    moved.audit(&there).exits(0);

    for line in commands("What is lost") {
        moved.by_the_letter(&line, &here).exits(0);
    }
    let audit = moved.audit(&here).exits(0).json();
    assert_eq!(audit["sound"], true, "{audit}");
}

#[test]
fn a_base_backup_is_started_as_it_is() {
    let Some(moved) = Move::half_way() else { return };
    let (fleet, here) = (&moved.fleet, moved.fleet.env.state());
    let worker = fleet.worker(&[]);
    fleet.approve(0);
    moved.sign("go-1");
    moved.until_begun(2);
    for line in commands("A copy of the whole server") {
        moved.by_the_letter(&line, &here).exits(0);
    }
    let copied = fleet.events(0).len();
    drop(worker);
    moved.old.kill();
    moved.new.stop();
    let (data, copy) = (moved.new.folder().join("data"), fleet.places[0].join("copy"));
    let owner = std::fs::metadata(&data).map(|data| std::os::unix::fs::MetadataExt::uid(&data)).expect("it");
    std::fs::remove_dir_all(&data).expect("room for the copy");
    let placed = Command::new("cp").arg("-a").args([&copy, &data]).status().expect("cp");
    let owned = Command::new("chown").args(["-R", &owner.to_string()]).arg(&data).status().expect("chown");
    assert!(placed.success() && owned.success());
    moved.new.run();

    let there = moved.machine("there");
    std::fs::write(there.join("log.url"), moved.new.url_as("provost", "provost")).expect("the address");
    let audit = moved.audit(&there).exits(0).json();
    assert_eq!(audit["events"], copied, "{audit}");
    moved.sign("go-2");
    moved.sign("go-3");
    moved.goes_on(&there, &[]);
    moved.audit(&there).exits(0);
}
