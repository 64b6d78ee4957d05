//! Runs a task: without provost, and as a whole run of an approved plan at the level `clean`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::phases::{Account, account};
use super::task::{Task, agent};
use crate::measure::cpu_seconds;

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");
/// Files of the plans.
pub(crate) const PLAN: &str = "PLAN.md";
const SECOND: &str = "SECOND.md";

/// Seconds that something took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub wall: f64,
    pub cpu: f64,
}

/// A whole run.
pub(crate) struct Subject {
    /// `provost verify` and `provost approve`.
    pub gate: Cost,
    /// `provost run`.
    pub run: Cost,
    /// The same for a second plan with the same check on the same commit.
    pub second: Cost,
    pub account: Account,
}

/// Programs that a run started, counted by strace.
pub(crate) struct Started {
    pub contracts: u32,
    pub programs: u32,
}

/// One task in its folder.
pub(crate) struct Bench<'a> {
    task: &'a Task,
    folder: PathBuf,
    agent: Vec<String>,
    number: u32,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(task: &'a Task, folder: PathBuf, pause_seconds: u32) -> Self {
        let solution = folder.join("solution");
        task.write_solution(&solution);
        Self { task, agent: agent(&solution, pause_seconds), folder, number: 0 }
    }

    /// Makes a repository that nothing was done in.
    fn fresh(&mut self) -> (PathBuf, PathBuf) {
        self.number += 1;
        let top = self.folder.join(self.number.to_string());
        let (workspace, state) = (top.join("work"), top.join("state"));
        fs::create_dir_all(&workspace).expect("a workspace");
        self.task.write_repository(&workspace, &self.agent);
        (workspace, state)
    }

    /// Does the work and runs the check, with the programs that provost's check found.
    pub(crate) fn floor(&mut self, path: &[String]) -> Cost {
        let (workspace, _) = self.fresh();
        let path = std::env::join_paths(path).expect("a PATH");
        let (cost, ()) = timed(|| {
            let mut work = Command::new(&self.agent[0]);
            let work = work.args(&self.agent[1..]).current_dir(&workspace).stdin(Stdio::null()).status();
            assert!(work.is_ok_and(|status| status.success()), "the work of {}", self.task.name);
            let mut check = Command::new("bash");
            check.args(["--noprofile", "--norc", "-c", &self.task.head.check]).current_dir(&workspace);
            // A fresh checkout on a fresh machine, as for provost with its empty state folder.
            check.env("GOCACHE", workspace.with_file_name("go-build"));
            let output = check.env("PATH", &path).stdin(Stdio::null()).output().expect("bash");
            assert!(output.status.success(), "the check of {}: {output:?}", self.task.name);
        });
        self.remove(&workspace);
        cost
    }

    /// Approves and runs the plan.
    pub(crate) fn subject(&mut self) -> Result<Subject, String> {
        let (workspace, state) = self.fresh();
        let (gate, approved) = timed(|| approve(&workspace, &state, PLAN));
        approved?;
        let begun = now();
        let (run, output) = timed(|| run(&workspace, &state, PLAN));
        let ended = now();
        let account = account(&events(&workspace, &state, PLAN), begun, ended);
        if !output.status.success() || !account.verified {
            return Err(last_line(&output));
        }
        let second = self.second_plan(&workspace, &state);
        self.remove(&workspace);
        Ok(Subject { gate, run, second: second?, account })
    }

    /// Runs another plan with the same check, on the commit that the first plan began with.
    fn second_plan(&self, workspace: &Path, state: &Path) -> Result<Cost, String> {
        let reset = format!("git checkout -q . && git clean -fdq && cp {PLAN} {SECOND}");
        let made = Command::new("sh").args(["-c", &reset]).current_dir(workspace).status();
        assert!(made.is_ok_and(|status| status.success()), "a second plan for {}", self.task.name);
        approve(workspace, state, SECOND)?;
        let (cost, output) = timed(|| run(workspace, state, SECOND));
        let account = account(&events(workspace, state, SECOND), 0.0, now());
        if output.status.success() && account.verified { Ok(cost) } else { Err(last_line(&output)) }
    }

    /// Runs the plan under strace, and counts what it starts; `None` without strace.
    pub(crate) fn started(&mut self) -> Option<Started> {
        let (workspace, state) = self.fresh();
        approve(&workspace, &state, PLAN).ok()?;
        let report = self.folder.join("calls");
        let output = Command::new("strace")
            .args([
                "-f",
                "-qq",
                "--seccomp-bpf",
                "-e",
                "trace=execve",
                "-e",
                "status=successful",
                "-s",
                "4096",
                "-o",
            ])
            .arg(&report)
            .args([PROVOST, "run"])
            .current_dir(&workspace)
            .env("PROVOST_STATE", &state)
            .stdin(Stdio::null())
            .output();
        self.remove(&workspace);
        output.ok().filter(|output| output.status.success())?;
        let text = fs::read_to_string(report).ok()?;
        let ends = format!("\"-c\", {:?}]", self.task.head.check);
        let is_contract = |line: &&str| line.contains("bash\", [\"") && line.contains(&ends);
        Some(Started {
            contracts: text.lines().filter(is_contract).count() as u32,
            programs: text.lines().filter(|line| line.ends_with(" = 0")).count() as u32,
        })
    }

    /// Removes a repository now, so that the disk of the next measurement is not busy with it.
    fn remove(&self, workspace: &Path) {
        let _ = fs::remove_dir_all(workspace.parent().expect("a folder"));
    }
}

fn provost(workspace: &Path, state: &Path) -> Command {
    let mut command = Command::new(PROVOST);
    command.current_dir(workspace).env("PROVOST_STATE", state).stdin(Stdio::null());
    command
}

pub(crate) fn run(workspace: &Path, state: &Path, plan: &str) -> Output {
    provost(workspace, state).args(["run", plan]).output().expect("provost")
}

pub(crate) fn approve(workspace: &Path, state: &Path, plan: &str) -> Result<(), String> {
    let verified = provost(workspace, state).args(["verify", plan, "--json"]).output().expect("provost");
    let text = String::from_utf8_lossy(&verified.stdout);
    let summary: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default();
    let revision = summary["revision"].as_str().ok_or_else(|| last_line(&verified))?;
    let approved = provost(workspace, state).args(["approve", plan, "--revision", revision]).output();
    let approved = approved.expect("provost");
    if approved.status.success() { Ok(()) } else { Err(last_line(&approved)) }
}

pub(crate) fn events(workspace: &Path, state: &Path, plan: &str) -> Vec<Value> {
    let output = provost(workspace, state).args(["log", plan, "--json"]).output().expect("provost");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Cost, T) {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let done = work();
    (Cost { wall: wall.elapsed().as_secs_f64(), cpu: cpu_seconds() - cpu }, done)
}

pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

fn last_line(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&said).into_owned();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output").to_owned()
}
