//! Tests machines without a shared disk: each has its own home, state folder and working folder. They share
//! the database, and a bare repository through which trees are sent.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use provost_store::postgres::cluster::Cluster;
use serde_json::Value;

use super::Worker;
use crate::env::{Env, HONEST, answer, plan};

const PATIENCE: Duration = Duration::from_secs(300);
const THREE: [&str; 3] = ["test -e out/1", "test -e out/2 && test -e out/1", "test -e out/3"];
/// Runs agents, and nothing else.
pub(super) const AGENTS: [&str; 4] = ["--roles", "coder", "--no-checks", "--no-ticks"];
/// Runs checks and scheduling passes, but no agent.
pub(super) const JUDGES: [&str; 2] = ["--roles", "reviewer"];

/// For tests in which nobody dies: no worker may be taken for dead because the machine is busy.
pub(super) const PATIENT: [&str; 2] = ["--lease", "60s"];

/// An agent that is slow and does not do its work.
const LAZY: &str = "sleep 2; mkdir -p out; echo nothing > out/notes; echo \"done\"\n";

/// The person's machine is `env`; the other machines are folders next to it.
pub(super) struct Machines {
    pub(super) env: Env,
    cluster: &'static Cluster,
    url: String,
}

impl Machines {
    /// Returns `None` if there is no Postgres; the test is then reported as skipped.
    pub(super) fn new(text: &str, agent: &str) -> Option<Self> {
        Self::with(text, agent, &[])
    }

    pub(super) fn with(text: &str, agent: &str, files: &[(&str, &str)]) -> Option<Self> {
        let fences = Env::new("").has_fences();
        Self::at(if fences { "clean" } else { "guard+clean" }, text, agent, files)
    }

    fn at(level: &str, text: &str, agent: &str, files: &[(&str, &str)]) -> Option<Self> {
        let cluster = Cluster::shared()?;
        let env = Env::new(text).agent(agent).isolation(level);
        files.iter().for_each(|(name, text)| env.write(name, text));
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", "all of it"]);
        let url = cluster.database();
        let machines = Self { env, cluster, url };
        machines.git(&["init", "--quiet", "--bare", &machines.remote()]);
        machines.env.provost(&["migrate", "--to", &machines.url]).exits(0);
        Some(machines)
    }

    pub(super) fn remote(&self) -> String {
        self.env.folder().join("carry.git").display().to_string()
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        let git = Command::new("git").args(arguments).current_dir(self.env.folder()).output().expect("git");
        assert!(git.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&git.stderr));
        String::from_utf8_lossy(&git.stdout).trim().to_owned()
    }

    /// Returns the refs of the remote.
    pub(super) fn names(&self) -> Vec<String> {
        let listed = self.git(&["--git-dir", &self.remote(), "for-each-ref", "--format=%(refname)"]);
        listed.lines().map(str::to_owned).collect()
    }

    pub(super) fn sets_remote(&self) {
        self.env.provost(&["cluster", "remote", &self.remote()]).exits(0);
    }

    pub(super) fn folder(&self, machine: &str, what: &str) -> PathBuf {
        let folder = self.env.folder().join(machine).join(what);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn command(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = self.env.command(arguments);
        command
            .current_dir(self.folder(machine, "here"))
            .env("HOME", self.folder(machine, "home"))
            .env("PROVOST_STATE", self.folder(machine, "state"));
        command
    }

    /// Starts a worker on a machine, and waits until it has joined.
    pub(super) fn worker(&self, machine: &str, arguments: &[&str]) -> Worker {
        self.worker_with(machine, arguments, &[])
    }

    pub(super) fn worker_with(
        &self,
        machine: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Worker {
        self.worker_at(&self.remote(), machine, arguments, environment)
    }

    /// Starts a worker with the remote at another address.
    pub(super) fn worker_at(
        &self,
        remote: &str,
        machine: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Worker {
        let joins = self.command(machine, &["migrate", "--to", &self.url]).output();
        answer(joins.expect("provost")).exits(0);
        let mut all = vec!["worker", "--json", "--poll", "50ms", "--remote", remote];
        all.extend(arguments);
        if !arguments.contains(&"--lease") {
            all.extend(["--lease", "5s"]);
        }
        let said = std::fs::OpenOptions::new().create(true).append(true).open(self.env.folder().join("said"));
        let mut command = self.command(machine, &all);
        command.envs(environment.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::from(said.expect("a file")));
        let mut child = command.spawn().expect("a worker");
        let mut out = std::io::BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).expect("its name");
        assert!(line.contains("worker"), "it did not join: {line}{}", self.said());
        Worker { child }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.env.folder().join("said")).unwrap_or_default()
    }

    pub(super) fn status(&self) -> Value {
        self.env.provost(&["cluster", "status", "--json"]).exits(0).json()
    }

    pub(super) fn trouble(&self) -> String {
        let status = self.status();
        let troubles = status["troubles"].as_array().cloned().unwrap_or_default();
        troubles.iter().filter_map(|trouble| trouble["what"].as_str()).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn events(&self, name: &str) -> Vec<Value> {
        let all = self.env.provost(&["log", "--json"]).exits(0).lines();
        all.into_iter().filter(|event| event["event"] == name).collect()
    }

    #[track_caller]
    pub(super) fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            let log = || self.env.provost(&["log"]).out;
            assert!(
                Instant::now() < deadline,
                "{what}: never\n{}\n{:#}\n{}",
                self.said(),
                self.status(),
                log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    pub(super) fn until_done(&self) {
        self.until("done", || self.env.stage() == "done");
    }

    /// Checks that every step passed once and that the audit is sound.
    #[track_caller]
    pub(super) fn is_sound(&self, steps: usize) {
        let passed: Vec<String> =
            self.events("TASK_COMPLETED").iter().map(|event| event["task_id"].to_string()).collect();
        assert_eq!(passed.len(), steps, "{passed:?}");
        assert_eq!(self.events("EXECUTION_COMPLETE").len(), 1);
        self.env.provost(&["audit"]).exits(0);
    }

    /// An attacker with write access to the remote points a ref to a tree with the finished work.
    fn puts_work_in_place_of(&self, name: &str) {
        let (remote, forged) = (self.remote(), self.folder("mallory", "clone").display().to_string());
        self.git(&["clone", "--quiet", &remote, &forged]);
        self.git(&["-C", &forged, "fetch", "--quiet", "origin", name]);
        self.git(&["-C", &forged, "checkout", "--quiet", "FETCH_HEAD"]);
        std::fs::write(self.folder("mallory", "clone/out").join("1"), "done").expect("a file");
        let by = ["-c", "user.name=mallory", "-c", "user.email="];
        self.git(&[&["-C", &forged], &by[..], &["add", "--all"]].concat());
        self.git(&[&["-C", &forged], &by[..], &["commit", "--quiet", "-m", "better"]].concat());
        self.git(&["-C", &forged, "push", "--quiet", "--force", "origin", &format!("HEAD:{name}")]);
    }

    fn machine(&self, machine: &str) -> String {
        std::fs::read_to_string(self.folder(machine, "state").join("machine")).expect("which machine it is")
    }

    /// Returns whether a machine had an agent's tree on its disk.
    fn had_agents(&self, machine: &str) -> bool {
        let rooms = self.folder(machine, "state").join("apart");
        let steps = rooms.read_dir().into_iter().flatten().flatten().flat_map(|room| {
            room.path().read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name())
        });
        steps.into_iter().any(|name| name.to_string_lossy().starts_with(|c: char| c.is_ascii_digit()))
    }
}

#[test]
fn agents_work_on_one_machine_and_another_judges() {
    let text = format!(
        "{}\n## Postconditions\n\n1. All of it\n   ```shell\n   test -e out/1 && test -e out/3\n   ```\n",
        plan(&THREE, "abort")
    );
    let Some(machines) = Machines::new(&text, HONEST) else { return };
    machines.sets_remote();
    let (_agents, _judges) = (machines.worker("a", &AGENTS), machines.worker("b", &JUDGES));
    machines.env.approve();
    machines.until_done();
    machines.is_sound(3);
    let ended = machines.events("ATTEMPT_ENDED");
    assert_eq!(ended.len(), 3, "{ended:?}");
    for (ended, passed) in ended.iter().zip(machines.events("TASK_COMPLETED")) {
        assert_eq!(ended["details"]["carried"]["machine"], machines.machine("a"), "{ended}");
        assert_eq!(ended["details"]["carried"]["tree"], passed["details"]["tree"], "{passed}");
    }
    assert!(!machines.had_agents("b"), "an agent worked where its work is judged");
    let names = machines.names();
    assert!(names.iter().any(|name| name.contains("/passed/")), "{names:?}");
    machines.until("attempts are taken off", || !machines.names().iter().any(|name| name.contains("/a1-e")));
    commits(&machines);
}

/// Commits on the person's machine, which has none of the trees and fetches the judged one.
fn commits(machines: &Machines) {
    assert!(!machines.env.work().join("out").exists());
    machines.env.provost(&["recheck", "2"]).exits(0);
    machines.env.provost(&["commit", "--branch", "judged"]).exits(0);
    let git = machines.env.work().join(".git").display().to_string();
    let listed = machines.git(&["--git-dir", &git, "ls-tree", "-r", "--name-only", "judged"]);
    let out: Vec<&str> = listed.lines().filter(|name| name.starts_with("out/")).collect();
    assert_eq!(out, ["out/1", "out/2", "out/3"]);
    machines.env.provost(&["fork", "--from", "3", "--name", "again", "--folder", "../again"]).exits(0);
    let forked = machines.env.folder().join("again/out");
    assert!(forked.join("2").exists() && !forked.join("3").exists());
    // Without the remote, the error says what is missing.
    machines.env.provost(&["cluster", "remote", "--none"]).exits(0);
    std::fs::remove_dir_all(machines.env.state().join("trees")).expect("what was fetched");
    let unknown = machines.env.provost(&["commit", "--branch", "again"]).exits(2);
    assert!(unknown.err.contains("provost cluster remote"), "{}", unknown.err);
}

#[test]
fn a_machine_that_dies_after_its_work_was_sent_is_not_needed_any_more() {
    let text = plan(&THREE, "abort");
    let Some(machines) = Machines::at("guard+clean", &text, HONEST, &[]) else { return };
    machines.sets_remote();
    let mut agents = machines.worker("a", &AGENTS);
    let looks = machines.worker("c", &["--ticks-only"]);
    machines.env.approve();
    // No worker judges the attempt yet: this one does only the checks before the work, and leaves.
    let before = machines.worker("b", &JUDGES);
    machines.until("an attempt has ended", || !machines.events("ATTEMPT_ENDED").is_empty());
    agents.kill();
    drop((before, looks));
    std::fs::remove_dir_all(machines.env.folder().join("a")).expect("its disk is gone");
    let _alone = machines.worker("d", &[]);
    machines.until_done();
    machines.is_sound(3);
}

#[test]
fn what_somebody_puts_in_the_place_of_a_tree_is_not_judged() {
    let Some(machines) = Machines::new(&plan(&["test -e out/1"], "abort"), LAZY) else { return };
    machines.sets_remote();
    let _agents = machines.worker("a", &AGENTS);
    let mut looks = machines.worker("b", &JUDGES);
    machines.env.approve();
    machines.until("an attempt begins", || !machines.events("TASK_STARTED").is_empty());
    looks.kill();
    machines.until("an attempt has ended", || !machines.events("ATTEMPT_ENDED").is_empty());
    let ended = machines.events("ATTEMPT_ENDED")[0].clone();
    let name = ended["details"]["carried"]["name"].as_str().expect("a name").to_owned();
    machines.puts_work_in_place_of(&name);
    let _judges = machines.worker("b", &JUDGES);
    machines.until("it waits for a person", || !machines.events("RECOVERY_ESCALATION").is_empty());
    let judged = machines.events("CONTRACT_JUDGED");
    let last = judged.last().expect("a verdict")["details"]["verdict"]["outcome"].to_string();
    assert!(last.contains("not verifiable") && last.contains(&name), "{last}");
    assert!(machines.events("TASK_COMPLETED").is_empty());
}

#[test]
fn what_an_agent_writes_where_it_may_not_stays_on_its_machine() {
    let files = [("check.sh", "test -e out/$1\n")];
    let cheats = "echo 'exit 0' > check.sh; mkdir -p out; echo almost > out/notes; echo done\n";
    let text = plan(&["bash check.sh 1"], "abort");
    let Some(machines) = Machines::with(&text, cheats, &files) else { return };
    machines.sets_remote();
    let (_agents, _judges) = (machines.worker("a", &AGENTS), machines.worker("b", &JUDGES));
    machines.env.approve();
    machines.until("failed", || machines.env.stage() == "failed");
    let verdict = machines.events("CONTRACT_JUDGED").pop().expect("a verdict")["details"]["verdict"].clone();
    assert_eq!(verdict["outcome"]["kind"], "broke", "{verdict}");
    assert_eq!(verdict["tree"]["files"], serde_json::json!(["out/notes"]), "{verdict}");
}

#[test]
fn a_remote_that_is_away_is_told_and_waited_for() {
    let slow = format!("sleep 3\n{HONEST}");
    let Some(machines) = Machines::new(&plan(&["test -e out/1"], "abort"), &slow) else { return };
    machines.sets_remote();
    let _agents = machines.worker("a", &[&AGENTS[..], &PATIENT].concat());
    let _judges = machines.worker("b", &[&JUDGES[..], &PATIENT].concat());
    machines.env.approve();
    machines.until("an attempt begins", || !machines.events("TASK_STARTED").is_empty());
    std::thread::sleep(Duration::from_secs(1));
    let away = format!("{}.away", machines.remote());
    std::fs::rename(machines.remote(), &away).expect("away");
    machines.until("the worker reports it", || machines.trouble().contains("waits to be sent"));
    std::fs::rename(&away, machines.remote()).expect("back");
    machines.until_done();
    machines.is_sound(1);
    assert_eq!(machines.events("TASK_STARTED").len(), 1, "nothing was done over");
}

#[test]
fn what_no_other_machine_can_begin_with_is_told_with_what_to_do() {
    let Some(machines) = Machines::new(&plan(&["bash check.sh 1"], "abort"), HONEST) else { return };
    // A file that is approved but not committed.
    machines.env.write("check.sh", "test -e out/$1\n");
    machines.env.approve();
    let _worker = machines.worker("a", &[]);
    machines.until("the worker reports it", || machines.trouble().contains("provost cluster push"));
    machines.env.provost(&["cluster", "push"]).exits(2);
    machines.sets_remote();
    let shown = machines.env.provost(&["cluster", "remote", "--json"]).exits(0).json();
    assert_eq!(shown["remote"], machines.remote());
    machines.env.provost(&["cluster", "push"]).exits(0);
    machines.until_done();
    machines.is_sound(1);
}

#[test]
fn a_plan_whose_checks_run_in_the_workspace_is_not_carried() {
    let Some(machines) = Machines::new(&plan(&["test -e out/1"], "abort"), HONEST) else { return };
    machines.sets_remote();
    let config =
        machines.env.read("provost.toml").replace("guard+clean", "in-place").replace("clean", "in-place");
    machines.env.write("provost.toml", config);
    machines.env.git(&["commit", "--quiet", "--all", "--message", "in place"]);
    machines.env.approve();
    let _worker = machines.worker("a", &[]);
    machines.until("the worker reports it", || machines.trouble().contains("share the disk"));
}

#[test]
fn where_there_are_two_machines_the_other_one_judges() {
    let Some(machines) = Machines::new(&plan(&THREE, "abort"), HONEST) else { return };
    machines.sets_remote();
    let _both = (machines.worker("a", &PATIENT), machines.worker("b", &PATIENT));
    machines.env.approve();
    machines.until_done();
    machines.is_sound(3);
    // Each contract ran on another machine than its attempt.
    let judged_at_home = "DO $$ BEGIN
        IF (SELECT count(*) FROM dbos.workflow_status a JOIN dbos.workflow_status j
            ON substring(a.inputs FROM 'attempt ([0-9]+) 1') = substring(j.inputs FROM 'contract ([0-9]+)')
            WHERE a.output LIKE '%done%' AND j.output LIKE '%done%' AND a.executor_id <> j.executor_id) <> 3
        THEN RAISE EXCEPTION 'judged where it was made'; END IF; END $$";
    machines.cluster.sql(&machines.url, judged_at_home);
}

#[test]
fn what_an_attempt_left_is_there_for_the_next_one_on_another_machine() {
    let agent = "mkdir -p out; touch out/${PROVOST_ATTEMPT##*/}; ls out\n";
    let text = plan(&["test -e out/1 && test -e out/2"], "retry(2)");
    let Some(machines) = Machines::new(&text, agent) else { return };
    machines.sets_remote();
    let mut first = machines.worker("a", &AGENTS);
    let judges = machines.worker("b", &JUDGES);
    machines.env.approve();
    machines.until("an attempt has ended", || !machines.events("ATTEMPT_ENDED").is_empty());
    first.kill();
    std::fs::remove_dir_all(machines.env.folder().join("a")).expect("its disk is gone");
    let _second = machines.worker("c", &AGENTS);
    machines.until_done();
    drop(judges);
    let makers: Vec<Value> = machines
        .events("ATTEMPT_ENDED")
        .iter()
        .map(|ended| ended["details"]["carried"]["machine"].clone())
        .collect();
    assert_eq!(makers.len(), 2, "{makers:?}");
    assert_ne!(makers[0], makers[1]);
}

#[test]
fn whoever_comes_back_too_late_has_written_nothing_but_a_name_of_its_own() {
    let agent = format!("case $PROVOST_ATTEMPT in */1/1) sleep 5 ;; esac\n{HONEST}");
    let Some(machines) = Machines::new(&plan(&["test -e out/1"], "retry(2)"), &agent) else { return };
    machines.sets_remote();
    let stopped = machines.worker("a", &AGENTS);
    let judges = machines.worker("b", &JUDGES);
    machines.env.approve();
    machines.until("taken", || {
        machines.status()["items"][0]["item"] == "attempt 1 1"
            && machines.status()["items"][0]["worker"].is_string()
    });
    stopped.signal("STOP");
    let _others = machines.worker("c", &AGENTS);
    machines.until_done();
    let before = machines.env.events().len();
    stopped.signal("CONT");
    machines.until("refused", || !machines.status()["refused"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(machines.env.events().len(), before, "it wrote to the log");
    machines.is_sound(1);
    drop(judges);
    // Names of trees end with a digest, which has no `-`.
    let is_attempt = |name: &String| name.rsplit('/').next().is_some_and(|last| last.contains("-e"));
    let attempts: Vec<String> = machines.names().into_iter().filter(is_attempt).collect();
    assert!(attempts.iter().all(|name| name.contains("/1/a1-e")), "{attempts:?}");
}

#[test]
fn nothing_that_opens_the_remote_reaches_an_agent_or_the_log() {
    let agent = "mkdir -p out; env > out/1; echo done\n";
    let contract = "test -s out/1 && ! grep -e REMOTE_TOKEN -e SSH -e GIT_SSL -e open.sesame out/1";
    let Some(machines) = Machines::new(&plan(&[contract], "abort"), agent) else { return };
    machines.sets_remote();
    let keys = [
        ("PROVOST_REMOTE_TOKEN", "open-sesame"),
        ("SSH_AUTH_SOCK", "/run/open-sesame"),
        ("GIT_SSH_COMMAND", "ssh -i /run/open-sesame"),
        ("GIT_SSL_KEY", "/run/open-sesame"),
    ];
    let _worker = machines.worker_with("a", &[], &keys);
    machines.env.approve();
    machines.until_done();
    assert!(!machines.env.provost(&["log", "--json"]).out.contains("open-sesame"));
}
