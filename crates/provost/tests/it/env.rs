//! Test support: a workspace, a state folder and an empty HOME for each test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use provost_rehearsal::{failure, skip};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Env {
    folder: TempDir,
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Answer {
    /// Checks the exit code; prints the whole output if it differs.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\n--- stdout\n{}\n--- stderr\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Parses one JSON object per line.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

/// Returns the configuration with the gate that lets agents write their own checks, unless it has a gate.
pub(crate) fn own_checks(configuration: &str) -> String {
    match configuration.contains("[mcp]") {
        true => configuration.to_owned(),
        false => format!("{configuration}\n[mcp]\ngate = \"self-checked\"\n"),
    }
}

impl Env {
    /// Creates a repository with one commit: the plan, the configuration and the agent.
    pub(crate) fn new(plan: &str) -> Self {
        failure::print_at_once();
        let env = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        for folder in ["work", "home", "state"] {
            std::fs::create_dir(env.folder.path().join(folder)).expect("a folder");
        }
        env.write("PLAN.md", plan);
        env.write(
            "provost.toml",
            "[agents.coder]\ndriver = \"command\"\ncommand = [\"bash\", \"agent.sh\"]\n",
        );
        env.git(&["init", "--quiet"]);
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", "start"]);
        env
    }

    /// Sets the agent: a script that reads the prompt from stdin and works in the workspace.
    pub(crate) fn agent(self, script: &str) -> Self {
        self.write("agent.sh", script);
        self.git(&["add", "agent.sh"]);
        self.git(&["commit", "--quiet", "--amend", "--no-edit", "--", "agent.sh"]);
        self
    }

    /// Requires a level instead of the strongest one.
    pub(crate) fn isolation(self, level: &str) -> Self {
        self.write(
            "provost.toml",
            format!("{}[verify]\nisolation = \"{level}\"\n", self.read("provost.toml")),
        );
        self
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"])
            .args(arguments.first())
            // Everything may be committed already.
            .args((arguments.first() == Some(&"commit")).then_some("--allow-empty"))
            .args(arguments.iter().skip(1))
            .current_dir(self.work())
            .env("HOME", self.folder.path().join("home"))
            .status();
        assert!(status.expect("git").success(), "git {arguments:?}");
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provost"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path().join("home"))
            .env("PROVOST_STATE", self.state())
            .env("USER", "ada")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn provost(&self, arguments: &[&str]) -> Answer {
        answer(self.command(arguments).output().expect("provost"))
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("provost")
    }

    /// Returns a person at a terminal that is opened now.
    pub(crate) fn person(&self) -> Person<'_> {
        Person { env: self, seat: Seat::take(self) }
    }

    /// Returns whether this machine attests the level `clean`. If not, the test is counted as skipped.
    #[track_caller]
    pub(crate) fn has_fences(&self) -> bool {
        let doctor = self.provost(&["doctor", "--json"]).exits(0).json();
        let is_clean = doctor["level"] == "clean";
        if !is_clean {
            skip::fences("`provost doctor` says what is missing");
        }
        is_clean
    }

    pub(crate) fn revision(&self) -> String {
        let shown = self.provost(&["show", "--json"]).exits(0).json();
        shown["revision"].as_str().expect("a revision").to_owned()
    }

    /// Approves the current revision.
    pub(crate) fn approve(&self) -> &Self {
        self.provost(&["approve", "--revision", &self.revision()]).exits(0);
        self
    }

    /// Approves the current revision with uncommitted files as part of the base.
    pub(crate) fn approve_with_uncommitted(&self) -> &Self {
        let shown = self.provost(&["show", "--include-uncommitted", "--json"]).exits(0).json();
        let revision = shown["revision"].as_str().expect("a revision").to_owned();
        self.provost(&["approve", "--include-uncommitted", "--revision", &revision]).exits(0);
        self
    }

    pub(crate) fn stage(&self) -> String {
        self.provost(&["status", "--json"]).exits(0).json()["stage"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns `number state` of every step.
    pub(crate) fn states(&self) -> String {
        let status = self.provost(&["status", "--json"]).exits(0).json();
        let steps = status["steps"].as_array().cloned().unwrap_or_default();
        let words: Vec<String> = steps
            .iter()
            .map(|step| format!("{} {}", step["number"], step["state"].as_str().unwrap_or("?")))
            .collect();
        words.join(", ")
    }

    /// Returns the names of all events.
    pub(crate) fn events(&self) -> Vec<String> {
        let log = self.provost(&["log", "--json"]).exits(0);
        log.lines().iter().map(|event| event["event"].as_str().unwrap_or("?").to_owned()).collect()
    }
}

/// A person at a terminal: if agents run without a sandbox, some decisions need one.
pub(crate) struct Person<'a> {
    env: &'a Env,
    /// `None` without the program `script`; commands that need no terminal still work.
    seat: Option<Seat>,
}

impl Person<'_> {
    /// Types the command. The output of both streams is in `out`.
    #[track_caller]
    pub(crate) fn provost(&mut self, arguments: &[&str]) -> Answer {
        match &mut self.seat {
            Some(seat) => seat.provost(arguments),
            None => self.env.provost(arguments),
        }
    }

    #[track_caller]
    pub(crate) fn approve(&mut self) {
        self.provost(&["approve", "--revision", &self.env.revision()]).exits(0);
    }
}

/// A shell on a pseudo-terminal, made by `script`.
struct Seat {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Seat {
    fn take(env: &Env) -> Option<Self> {
        let shell = "bash -c 'while read -r line; do eval \"$line\"; echo \"=code=$?\"; done'";
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", shell, "/dev/null"]);
        script.env_clear().current_dir(env.work()).env("TERM", "dumb");
        for (name, value) in env.command(&[]).get_envs() {
            script.env(name, value.unwrap_or_default());
        }
        let started = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = started else {
            skip::tool("script", "apt-get install bsdutils");
            return None;
        };
        let said = BufReader::new(child.stdout.take()?);
        let mut seat = Self { child, said };
        seat.types("true");
        Some(seat)
    }

    fn provost(&mut self, arguments: &[&str]) -> Answer {
        let program = env!("CARGO_BIN_EXE_provost");
        let words = std::iter::once(&program).chain(arguments).map(|word| format!("'{word}'"));
        self.types(&words.collect::<Vec<_>>().join(" "))
    }

    fn types(&mut self, line: &str) -> Answer {
        let stdin = self.child.stdin.as_mut().expect("a terminal");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("typed");
        let mut out = String::new();
        loop {
            let mut said = String::new();
            assert!(self.said.read_line(&mut said).expect("said") > 0, "the terminal is gone: {out}");
            match said.trim().strip_prefix("=code=") {
                Some(code) => return Answer { code: code.parse().expect("a code"), out, err: String::new() },
                None => out.push_str(&said),
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // When its input closes, the shell ends, and then `script`.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether a program starts. If not, the test is counted as skipped.
pub(crate) fn works(program: &str, how: &str) -> bool {
    let starts = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !starts {
        skip::tool(program, how);
    }
    starts
}

pub(crate) fn answer(output: Output) -> Answer {
    Answer {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns a plan whose steps run these contracts, with this `on_fail`.
pub(crate) fn plan(contracts: &[&str], on_fail: &str) -> String {
    let mut text = String::from(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n",
    );
    for (index, contract) in contracts.iter().enumerate() {
        let number = index + 1;
        text.push_str(&format!(
            "\n### {number}. Step {number}\n\n**target:** coder\n\n**task:**\nDo part {number} of the work.\n\n\
             **contract:**\n```shell\n{contract}\n```\nexit_code == 0\n**on_fail:** {on_fail}\n"
        ));
    }
    text
}

/// An agent that does its work: it makes `out/N` for part N.
pub(crate) const HONEST: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; echo done > out/$part; echo \"wrote out/$part\"\n";
