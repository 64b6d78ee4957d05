//! Measures a verified step (G1, G2, G5, G6, goal 1): `provost run` with agents and contracts that do
//! nothing, against the same bare spawns (the agent, its check, and the check once more at the end) and two
//! durable commits of the same rows.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::events::Bare;
use crate::measure::{folder, interleaved, median, time};
use crate::table::{Kind, Row, Table};
use crate::{Asked, plans};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");
const FEW: usize = 100;
const MANY: usize = 1_100;
const ROUNDS: usize = 5;
const FLOOR_STEPS: usize = 500;

/// A workspace with an approved plan.
pub(crate) struct Bed {
    pub workspace: PathBuf,
    pub state: PathBuf,
}

/// Usage of a run, including its children.
struct Used {
    cpu: f64,
    mb: f64,
}

impl Bed {
    pub(crate) fn make(at: &Path, steps: usize, agent: &str) -> Self {
        let bed = Self { workspace: at.join("workspace"), state: at.join("state") };
        fs::create_dir_all(&bed.workspace).expect("a workspace");
        fs::write(bed.workspace.join("PLAN.md"), plans::text(steps, "Do nothing.")).expect("a plan");
        let config = format!(
            "[agents.coder]\ndriver = \"command\"\ncommand = [\"{agent}\"]\n[verify]\nisolation = \"in-place\"\n"
        );
        fs::write(bed.workspace.join("provost.toml"), config).expect("a configuration");
        let output = bed.provost().args(["verify", "PLAN.md", "--json"]).output().expect("provost");
        let line = String::from_utf8_lossy(&output.stdout);
        let summary = line.lines().last().unwrap_or_default();
        let said: serde_json::Value = serde_json::from_str(summary).expect("the summary of a plan");
        let revision = said["revision"].as_str().expect("a revision");
        let approved = bed.provost().args(["approve", "PLAN.md", "--revision", revision]).output();
        assert!(approved.is_ok_and(|output| output.status.success()), "the plan is approved");
        bed
    }

    fn provost(&self) -> Command {
        let mut command = Command::new(PROVOST);
        command.current_dir(&self.workspace).env("PROVOST_STATE", &self.state).stdin(Stdio::null());
        command
    }

    /// Runs the plan to its end, in a child of a child, so that its usage is measured separately.
    pub(crate) fn run(&self) -> (f64, f64) {
        let used = self.used();
        (used.cpu, used.mb)
    }

    fn used(&self) -> Used {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--as-runner", PROVOST, "run", "PLAN.md"])
            .current_dir(&self.workspace)
            .env("PROVOST_STATE", &self.state)
            .stdin(Stdio::null())
            .output()
            .expect("a run");
        assert!(output.status.success(), "the plan is done");
        let said = String::from_utf8_lossy(&output.stdout);
        let mut numbers = said.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        let mut number = || numbers.next().expect("a number");
        Used { cpu: number(), mb: number() }
    }
}

pub(crate) fn measure(asked: &Asked, table: &mut Table) {
    let mut few: Vec<Used> = Vec::new();
    let mut many: Vec<Used> = Vec::new();
    let used = |steps| Bed::make(&folder("step"), steps, "/bin/true").used();
    let (mut floor, mut again) = (Floor::new(&folder("step-floor")), Floor::new(&folder("step-floor-again")));
    let [_, _, floor, again] = interleaved(
        ROUNDS,
        [
            &mut || few.push(used(FEW)),
            &mut || many.push(used(MANY)),
            &mut || floor.steps(FLOOR_STEPS),
            &mut || again.steps(FLOOR_STEPS),
        ],
    );
    let slopes: Vec<f64> =
        few.iter().zip(&many).map(|(few, many)| (many.cpu - few.cpu) / (MANY - FEW) as f64).collect();
    let bare: Vec<f64> =
        floor.cpu.iter().zip(&again.cpu).map(|(a, b)| (a + b) / 2.0 / FLOOR_STEPS as f64).collect();
    let ratios: Vec<f64> = slopes.iter().zip(&bare).map(|(slope, bare)| slope / bare).collect();
    table.guard("three spawns, two commits, against itself", again.cpu_over(&floor));
    table.row(Row {
        what: "step: verified and durable, slope 100 → 1,100",
        subject: time(median(&slopes)),
        floor: time(median(&bare)),
        figure: median(&ratios),
        unit: "×",
        goal: 1.3,
        kind: Kind::Cpu,
    });
    counters(table);
    linear(asked, table, median(&slopes), &few, &many);
}

/// Runs 10,000 steps once: a step must cost no more than in a plan of 1,000, in time and memory.
fn linear(_: &Asked, table: &mut Table, slope: f64, few: &[Used], many: &[Used]) {
    let all = Bed::make(&folder("step"), 10_000, "/bin/true").used();
    let each = (all.cpu - few.iter().map(|used| used.cpu).fold(f64::MAX, f64::min)) / (10_000 - FEW) as f64;
    table.row(Row {
        what: "step: at 10,000 steps against 1,000",
        subject: time(each),
        floor: time(slope),
        figure: each / slope,
        unit: "×",
        goal: 1.15,
        kind: Kind::Cpu,
    });
    let mb = |runs: &[Used]| median(&runs.iter().map(|used| used.mb).collect::<Vec<_>>());
    table.row(Row {
        what: "step: resident memory at 10,000 steps",
        subject: format!("{:.1} MB", all.mb),
        floor: format!("{:.1} → {:.1} MB", mb(few), mb(many)),
        figure: all.mb,
        unit: "MB",
        goal: 40.0,
        kind: Kind::Counter,
    });
}

/// The same two children and the same rows, without provost.
struct Floor {
    log: Bare,
}

impl Floor {
    fn new(at: &Path) -> Self {
        Self { log: Bare::open(at, 5_000) }
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            spawn(&mut Command::new("/bin/true"));
            self.log.end().expect("a commit");
            spawn(&mut check());
            self.log.decide().expect("a commit");
            spawn(&mut check());
        }
    }
}

/// Returns the check with the environment that the judge gives it.
fn check() -> Command {
    let mut check = Command::new("/bin/bash");
    check.args(["--noprofile", "--norc", "-c", "true"]).env_clear();
    check.envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_CTYPE", "C.UTF-8"), ("TERM", "dumb")]);
    check.envs([("HOME", "/nowhere"), ("TMPDIR", "/tmp"), ("CI", "true"), ("SHELL", "/bin/bash")]);
    check
}

fn spawn(command: &mut Command) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    let mut said = Vec::new();
    for pipe in [
        child.stdout.take().map(|p| Box::new(p) as Box<dyn std::io::Read>),
        child.stderr.take().map(|p| Box::new(p) as _),
    ] {
        pipe.expect("a pipe").read_to_end(&mut said).expect("its end");
    }
    assert!(child.wait().is_ok_and(|status| status.success()));
}

/// Counts exactly what one more step adds.
fn counters(table: &mut Table) {
    let (Some(few), Some(many)) = (traced(100), traced(300)) else {
        return table.note("step: syncs and programs started", "strace not here");
    };
    for (what, at, goal) in
        [("step: syncs for one more step", 0, 2.1), ("step: programs started for one more step", 1, 3.0)]
    {
        let each = (many[at] - few[at]) / 200.0;
        table.row(Row {
            what,
            subject: format!("{each:.2}"),
            floor: String::new(),
            figure: each,
            unit: "",
            goal,
            kind: Kind::Counter,
        });
    }
}

/// Returns the syncs and execs of a whole run.
fn traced(steps: usize) -> Option<[f64; 2]> {
    let bed = Bed::make(&folder("step"), steps, "/bin/true");
    let report = folder("step-trace").join("calls");
    let status = Command::new("strace")
        .args(["-f", "--seccomp-bpf", "-c", "-e", "trace=fsync,fdatasync,execve", "-o"])
        .arg(&report)
        .args([PROVOST, "run", "PLAN.md"])
        .current_dir(&bed.workspace)
        .env("PROVOST_STATE", &bed.state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return None;
    }
    let text = fs::read_to_string(report).ok()?;
    let count = |name: &str| -> f64 {
        let of = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.last() == Some(&name)).then(|| words.get(3)?.parse::<f64>().ok()).flatten()
        };
        text.lines().find_map(of).unwrap_or(0.0)
    };
    Some([count("fsync") + count("fdatasync"), count("execve")])
}
