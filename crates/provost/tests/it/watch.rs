//! Tests the terminal view as a person uses it, in tmux.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use provost_rehearsal::skip;

use crate::env::{Env, HONEST, plan};

const PATIENCE: Duration = Duration::from_secs(200);

/// A terminal with a shell in it.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// Returns `None` without tmux.
    fn open(env: &Env) -> Option<Self> {
        let socket = env.folder().join("tmux").display().to_string();
        let mut command = Command::new("tmux");
        command.args(["-S", &socket, "-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30"]);
        command.args(["bash", "--norc", "--noprofile"]);
        command.env_clear().current_dir(env.work()).env("TERM", "xterm-256color").env("PS1", "$ ");
        command.env("LC_ALL", "C.UTF-8");
        for (name, value) in env.command(&[]).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        match command.status() {
            Ok(status) if status.success() => Some(Self { socket }),
            other => {
                skip::tool("tmux", &format!("apt-get install tmux; {other:?}"));
                None
            }
        }
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket]).args(arguments).output().expect("tmux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types each element: a key by its name, or text.
    fn keys(&self, keys: &[&str]) -> &Self {
        self.tmux(&[&["send-keys"], keys].concat());
        self
    }

    fn types(&self, line: &str) -> &Self {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"])
    }

    fn provost(&self, arguments: &str) -> &Self {
        self.types(&format!("{} {arguments}", env!("CARGO_BIN_EXE_provost")))
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn sees(&self, words: &str) -> String {
        self.until(words, |screen| screen.contains(words))
    }

    #[track_caller]
    fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "no “{what}” in:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the state of the terminal itself.
    fn state(&self) -> String {
        self.tmux(&[
            "display-message",
            "-p",
            "alternate #{alternate_on} mouse #{mouse_any_flag} cursor #{cursor_flag} width #{pane_width}",
        ])
    }

    /// Returns the process that draws: the last one that the shell started.
    fn watcher(&self) -> i32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let mut last: i32 = shell.trim().parse().expect("a shell");
        let child = |of: i32| -> Option<i32> {
            let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).ok()?;
            children.split_whitespace().next()?.parse().ok()
        };
        while let Some(next) = child(last) {
            last = next;
        }
        last
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.watcher().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Checks that the shell has its terminal in the old state.
    #[track_caller]
    fn is_given_back(&self) {
        // The result does not occur in the typed line.
        self.types("echo here=$((20+22)); stty -a");
        // The last line that `stty` prints.
        let screen =
            self.until("the modes", |screen| screen.contains("here=42") && screen.contains("extproc"));
        let modes: Vec<&str> = screen.split_whitespace().collect();
        for mode in ["icanon", "echo", "isig", "opost", "icrnl"] {
            assert!(modes.contains(&mode), "{mode} is off:\n{screen}");
        }
        assert!(self.state().starts_with("alternate 0 mouse 0 cursor 1"), "{}", self.state());
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_gate_has_the_checks_tried_and_says_which_hold_already() {
    let env = Env::new(&plan(&["test -d ."], "escalate")).agent(HONEST);
    if !env.has_fences() {
        return;
    }
    env.provost(&["verify"]).exits(0);
    let Some(tmux) = Tmux::open(&env) else { return };
    tmux.provost("watch");
    tmux.sees("A plan");
    tmux.keys(&["g"]).sees("1 of 1 check holds already");
}

#[test]
fn a_plan_is_read_and_approved_with_the_keyboard() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let Some(tmux) = Tmux::open(&env) else { return };
    env.provost(&["run"]).exits(4);
    tmux.provost("watch").sees("[1 Agenda]");
    assert!(tmux.sees("waiting for you").contains("A plan"));
    assert!(tmux.state().starts_with("alternate 1 mouse 1 cursor 0"), "{}", tmux.state());
    tmux.keys(&["Enter"]).sees("Task");
    tmux.sees("Do part 1 of the work.");
    tmux.keys(&["g"]).sees(&format!("binds to revision {}", env.revision()));
    tmux.sees("test -f out/1");
    // The view asks for confirmation, and a no changes nothing.
    tmux.keys(&["a"]).sees("y: yes");
    tmux.keys(&["n"]).sees("nothing was decided");
    assert_eq!(env.stage(), "verified");
    tmux.keys(&["a"]).sees("y: yes");
    tmux.keys(&["y"]).sees("is approved at revision");
    assert_eq!(env.stage(), "approved");
    let approved = env.provost(&["log", "--json", "--event", "GATE_APPROVED"]).exits(0).lines().remove(0);
    assert_eq!(approved["details"]["by"]["person"], "ada", "{approved}");
    tmux.keys(&["q"]).sees("$");
    tmux.is_given_back();
}

#[test]
fn a_plan_that_changed_meanwhile_is_not_approved() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let Some(tmux) = Tmux::open(&env) else { return };
    env.provost(&["verify"]).exits(0);
    tmux.provost("watch PLAN.md").sees("Do part 1");
    tmux.keys(&["g"]).sees("binds to revision");
    env.write("PLAN.md", plan(&["test -f out/other"], "escalate"));
    tmux.keys(&["a"]).sees("y: yes");
    tmux.keys(&["y"]).sees("provost show");
    // The screen shows the current text.
    tmux.sees("test -f out/other");
    assert!(!env.events().contains(&"GATE_APPROVED".to_owned()));
}

#[test]
fn an_escalation_is_answered_and_a_run_shows_by_itself() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent("exit 0\n").isolation("in-place");
    let Some(tmux) = Tmux::open(&env) else { return };
    tmux.provost("watch").sees("No plan is in the log yet");
    env.approve();
    tmux.sees("idle");
    env.provost(&["run"]).exits(4);
    tmux.sees("(1)");
    tmux.keys(&["3"]).sees("waits for a person");
    tmux.keys(&["2"]).sees("waive the step");
    tmux.keys(&["s"]).sees("Reason for skip");
    tmux.types("done by hand").sees("Answer skip to");
    tmux.keys(&["y"]).sees("continues");
    tmux.sees("Nothing waits for a person");
    assert_eq!(env.states(), "1 waived");
    let answer = env.provost(&["log", "--json", "--event", "HUMAN_ANSWERED"]).exits(0).lines().remove(0);
    assert_eq!(answer["details"]["note"], "done by hand", "{answer}");
}

#[test]
fn the_changes_of_a_step_are_shown_as_a_diff() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    let Some(tmux) = Tmux::open(&env) else { return };
    env.approve();
    env.provost(&["run"]).exits(0);
    tmux.provost("watch PLAN.md").sees("d diff");
    tmux.keys(&["d"]).sees("added out/1");
    tmux.sees("+++ b/out/1");
    tmux.keys(&["Escape"]).sees("Attempt 1");
    tmux.keys(&["t"]).sees("Transcript of step 1, attempt 1 by coder");
    tmux.sees("wrote out/1");
    tmux.keys(&["Escape"]).sees("Attempt 1");
}

#[test]
fn what_an_agent_prints_shows_while_it_works_and_no_secret_does() {
    let agent = "echo halfway there; echo key $API_KEY; for i in {1..400}; do [ -e ../go ] && exit; sleep 0.05; done\n";
    let env = Env::new(&plan(&["true"], "escalate")).agent(agent).isolation("in-place");
    let Some(tmux) = Tmux::open(&env) else { return };
    env.approve();
    let mut run = env.command(&["run"]);
    run.env("API_KEY", "zq81-vbh7-trustno1-x").stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().expect("a run");
    tmux.provost("watch PLAN.md").sees("halfway there");
    let screen = tmux.sees("key [redacted");
    assert!(screen.contains("Live output") && !screen.contains("trustno1"), "{screen}");
    let live = env.state().join("live");
    let files = || std::fs::read_dir(&live).expect("a folder").flatten().count();
    assert_eq!(files(), 1);
    std::fs::write(env.folder().join("go"), "").expect("a file");
    assert!(run.wait().expect("an end").success());
    tmux.until("the end", |screen| !screen.contains("Live output"));
    assert_eq!(files(), 0);
}

#[test]
fn it_fits_any_size_and_every_signal_gives_the_terminal_back() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let Some(tmux) = Tmux::open(&env) else { return };
    env.provost(&["verify"]).exits(0);
    for signal in ["-TERM", "-INT", "-HUP", "-QUIT"] {
        tmux.types("clear").provost("watch").sees("[1 Agenda]");
        tmux.sees("waiting for you");
        tmux.signal(signal);
        tmux.until("the shell", |screen| !screen.contains("[1 Agenda]"));
        tmux.types("echo code=$?").sees("code=130");
        tmux.is_given_back();
    }
    tmux.types("clear").provost("watch").sees("[1 Agenda]");
    // A key that arrives together with a resize is not lost.
    for (width, key, tab) in [("70", "2", "[2 Inbox"), ("80", "3", "[3 Log"), ("90", "1", "[1 Agenda")] {
        tmux.tmux(&["resize-window", "-x", width, "-y", "20"]);
        tmux.keys(&[key]).sees(tab);
    }
    tmux.tmux(&["resize-window", "-x", "60", "-y", "20"]);
    tmux.keys(&["Enter"]).sees("───");
    let narrow = tmux.sees("Do part 1");
    assert!(
        narrow.lines().count() <= 20 && narrow.lines().all(|line| line.chars().count() <= 60),
        "{narrow}"
    );
    tmux.tmux(&["resize-window", "-x", "130", "-y", "40"]);
    tmux.until("two halves", |screen| screen.contains("│"));
    tmux.signal("-TERM");
    tmux.until("the shell", |screen| !screen.contains("│"));
    tmux.is_given_back();
}

#[test]
fn stopped_it_lends_the_terminal_to_the_shell() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let Some(tmux) = Tmux::open(&env) else { return };
    env.provost(&["verify"]).exits(0);
    tmux.provost("watch").sees("[1 Agenda]");
    tmux.keys(&["C-z"]).sees("Stopped");
    tmux.is_given_back();
    tmux.types("clear").types("fg").sees("[1 Agenda]");
    tmux.signal("-TSTP");
    tmux.sees("Stopped");
    tmux.is_given_back();
    tmux.types("clear").types("fg").sees("[1 Agenda]");
    assert!(tmux.state().starts_with("alternate 1 mouse 1 cursor 0"), "{}", tmux.state());
    tmux.keys(&["q"]).until("the shell", |screen| !screen.contains("[1 Agenda]"));
    tmux.is_given_back();
}

#[test]
fn when_the_terminal_vanishes_so_does_it() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).isolation("in-place");
    // In a separate session the process gets no signal.
    for before in ["", "setsid --wait "] {
        let Some(tmux) = Tmux::open(&env) else { return };
        tmux.types(&format!("{before}{} watch", env!("CARGO_BIN_EXE_provost"))).sees("[1 Agenda]");
        let pid = tmux.watcher();
        drop(tmux);
        let begun = Instant::now();
        while std::fs::exists(format!("/proc/{pid}")).expect("an answer") {
            assert!(begun.elapsed() < PATIENCE, "process {pid} is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn without_a_terminal_it_says_where_to_look_instead() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    let answer = env.provost(&["watch"]).exits(2);
    assert!(answer.err.contains("provost status") && answer.err.contains("log --follow"), "{}", answer.err);
    assert_eq!(answer.out, "");
    env.provost(&["watch", "--json"]).exits(2);
}

#[test]
fn idle_it_takes_no_time_of_the_processor() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let Some(tmux) = Tmux::open(&env) else { return };
    env.provost(&["verify"]).exits(0);
    tmux.provost("watch").sees("waiting for you");
    let before = ticks(tmux.watcher());
    // Other processes read the same log meanwhile, and change nothing.
    for _ in 0..20 {
        env.provost(&["status"]).exits(0);
    }
    let used = ticks(tmux.watcher()) - before;
    assert!(used <= 10, "{used} ticks of the processor");
}

/// User and system time of a process, in clock ticks.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let after_name = stat.rsplit(") ").next().expect("numbers");
    after_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}
