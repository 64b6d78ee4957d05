//! Measures whole runs on 20 small tasks in five languages, against the same work and the same check without
//! provost.
//!
//! The floor copies the solution into a fresh checkout and runs the check there. The subject is `provost run`
//! of an approved plan at the level `clean`, with the same copy as its agent and an empty state folder; then that of
//! a second plan with the same check on the same commit, which finds the result of the check without the work.

pub(crate) mod phases;
pub(crate) mod run;
pub(crate) mod task;

use crate::Asked;
use crate::measure::{folder, median, time};
use crate::table::{Kind, NO_GOAL, Row, Table};
use phases::Phases;
use run::{Bench, Cost, Started, Subject};
use task::Task;

const ROUNDS: usize = 3;
/// How long the agent of the slow row works, in seconds.
const MINUTE: u32 = 60;

/// The rounds of one task, in the order in which they were measured.
#[derive(Default)]
struct Rounds {
    floor: Vec<Cost>,
    again: Vec<Cost>,
    subject: Vec<Subject>,
    started: Option<Started>,
}

/// Ratios of one task, each the median of its rounds.
struct Ratios {
    wall: f64,
    cpu: f64,
    /// Wall time with `verify` and `approve`.
    whole: f64,
    whole_cpu: f64,
    second: f64,
    guard: f64,
}

pub(crate) fn measure(asked: &Asked, table: &mut Table) {
    let tasks = task::all();
    let wanted: Vec<&Task> = tasks.iter().filter(|task| asked.wants_task(&task.name)).collect();
    let mut ratios = Vec::new();
    heading();
    for task in wanted {
        let missing = task.missing();
        if !missing.is_empty() {
            let (language, missing) = (&task.head.language, missing.join(", no "));
            println!("{:<18} left out: no {missing} here ({language})", task.name);
            continue;
        }
        match measured(task, asked.rounds.unwrap_or(ROUNDS), 0) {
            Ok(rounds) => {
                line(&task.name, &rounds);
                ratios.push(rounds.ratios());
            }
            Err(why) => table.broken(&task.name, &why),
        }
    }
    explain();
    let of = |pick: fn(&Ratios) -> f64| median(&ratios.iter().map(pick).collect::<Vec<_>>());
    table.guard("work and check, against themselves", of(|ratio| ratio.guard));
    let count = ratios.len();
    for (what, figure, goal, kind) in [
        ("real: run, wall", of(|ratio| ratio.wall), 1.3, Kind::Wall),
        ("real: run, CPU", of(|ratio| ratio.cpu), NO_GOAL, Kind::Cpu),
        ("real: verify, approve and run, wall", of(|ratio| ratio.whole), NO_GOAL, Kind::Wall),
        ("real: verify, approve and run, CPU", of(|ratio| ratio.whole_cpu), NO_GOAL, Kind::Cpu),
        ("real: run of a second plan, wall", of(|ratio| ratio.second), NO_GOAL, Kind::Wall),
    ] {
        let (subject, floor) = (format!("{count} tasks"), "median".to_owned());
        table.row(Row { what, subject, floor, figure, unit: "×", goal, kind });
    }
}

/// One task with an agent that works for a minute.
pub(crate) fn minute(asked: &Asked, table: &mut Table) {
    let tasks = task::all();
    let wanted = tasks.iter().find(|task| task.missing().is_empty() && asked.wants_task(&task.name));
    let Some(task) = wanted else { return table.note("agent of a minute", "no task can run here") };
    heading();
    let rounds = match measured(task, 1, MINUTE) {
        Ok(rounds) => rounds,
        Err(why) => return table.broken(&task.name, &why),
    };
    line(&task.name, &rounds);
    table.row(Row {
        what: "an agent that works for a minute: run, wall",
        subject: time(rounds.subject[0].run.wall),
        floor: time(rounds.floor[0].wall),
        figure: rounds.ratios().wall,
        unit: "×",
        goal: 1.1,
        kind: Kind::Wall,
    });
}

fn measured(task: &Task, rounds: usize, pause: u32) -> Result<Rounds, String> {
    let mut bench = Bench::new(task, folder(&format!("real-{}", task.name)), pause);
    // Fills the caches of the disk, and says which programs the check uses.
    let path = bench.subject()?.account.path;
    let started = if pause == 0 { bench.started() } else { None };
    let mut all = Rounds { started, ..Rounds::default() };
    for round in 0..rounds {
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => all.floor.push(bench.floor(&path)),
                1 => all.subject.push(bench.subject()?),
                // A minute more would say nothing more.
                _ if pause > 0 => all.again.push(all.floor.last().copied().unwrap_or_default()),
                _ => all.again.push(bench.floor(&path)),
            }
        }
    }
    Ok(all)
}

impl Rounds {
    fn ratios(&self) -> Ratios {
        let over = |subject: &dyn Fn(&Subject) -> f64, floor: fn(&Cost) -> f64| {
            let floors = self.floor.iter().zip(&self.again).map(|(a, b)| (floor(a) + floor(b)) / 2.0);
            median(
                &self.subject.iter().zip(floors).map(|(all, floor)| subject(all) / floor).collect::<Vec<_>>(),
            )
        };
        let guard = self.floor.iter().zip(&self.again).map(|(a, b)| b.cpu / a.cpu);
        Ratios {
            wall: over(&|subject| subject.run.wall, |cost| cost.wall),
            cpu: over(&|subject| subject.run.cpu, |cost| cost.cpu),
            whole: over(&|subject| subject.run.wall + subject.gate.wall, |cost| cost.wall),
            whole_cpu: over(&|subject| subject.run.cpu + subject.gate.cpu, |cost| cost.cpu),
            second: over(&|subject| subject.second.wall, |cost| cost.wall),
            guard: median(&guard.collect::<Vec<_>>()),
        }
    }

    /// Returns the phases of the run in the middle.
    fn phases(&self) -> (Phases, f64) {
        let mut runs: Vec<&Subject> = self.subject.iter().collect();
        runs.sort_by(|a, b| a.run.wall.total_cmp(&b.run.wall));
        let middle = &runs[runs.len() / 2].account;
        (middle.phases.clone(), middle.base_run)
    }
}

fn heading() {
    println!(
        "\n{:<18} {:>8} {:>8} {:>7} {:>7} {:>7} {:>5} {:>9} | {:>8} {:>15} {:>6} {:>6} {:>8} {:>6} {:>6}",
        "task",
        "floor",
        "run",
        "wall",
        "CPU",
        "+gate",
        "runs",
        "programs",
        "prepare",
        "base (own run)",
        "agent",
        "check",
        "control",
        "final",
        "exit"
    );
}

fn line(name: &str, rounds: &Rounds) {
    let walls = |cost: &mut dyn Iterator<Item = f64>| median(&cost.collect::<Vec<_>>());
    let floor = walls(&mut rounds.floor.iter().chain(&rounds.again).map(|cost| cost.wall));
    let run = walls(&mut rounds.subject.iter().map(|subject| subject.run.wall));
    let ratios = rounds.ratios();
    let (runs, programs) = match &rounds.started {
        Some(started) => (started.contracts.to_string(), started.programs.to_string()),
        None => (rounds.subject.first().map_or(0, |one| one.account.runs).to_string() + "?", "?".to_owned()),
    };
    let (phases, base_run) = rounds.phases();
    let base = format!("{:.2} ({base_run:.2})", phases.base);
    println!(
        "{name:<18} {floor:>6.2} s {run:>6.2} s {:>6.2}× {:>6.2}× {:>6.2}× {runs:>5} {programs:>9} | {:>8.2} {base:>15} \
         {:>6.2} {:>6.2} {:>8.2} {:>6.2} {:>6.2}",
        ratios.wall,
        ratios.cpu,
        ratios.whole,
        phases.prepare,
        phases.agent,
        phases.check,
        phases.control,
        phases.last,
        phases.exit
    );
}

fn explain() {
    println!(
        "\nfloor: copy the solution and run the check; run: `provost run`; +gate: with `verify` and `approve`, \
         wall;\nruns: how often the contract ran, and programs started in all, counted by strace (?: from the \
         log);\nseconds of the run in the middle: prepare: until the level is tested; base: until the agent starts \
         (own run:\nthe contract alone); control: from the agent's end to the verdict without the contract's own \
         run\n"
    );
}
