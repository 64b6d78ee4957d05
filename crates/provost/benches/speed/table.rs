//! The printed table, line by line, and the rules that judge a line.
//!
//! **Invariant:** a figure measured on a busy machine is printed but not judged, unless it is a counter.

use crate::baseline::{Baseline, Change, Measured, compare, fails};
use crate::measure;

/// Most of the time, in percent, in which other processes may use a CPU while a figure is judged.
const OTHERS_MAX: f64 = 10.0;

pub(crate) struct Table {
    missed: u32,
    /// The figures of the repository, if rows are compared with them.
    baseline: Option<Baseline>,
    measured: Vec<Measured>,
    changes: Vec<Change>,
    /// How much of the CPUs other processes used before the following rows were measured.
    others: f64,
    /// The guard of the following rows: a floor measured against itself.
    guard: f64,
}

/// How far a figure can be trusted while other processes use the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Exact on every machine.
    Counter,
    /// Not valid if the guard is off.
    Cpu,
    /// Valid only on an idle machine.
    Wall,
}

impl Kind {
    /// Returns by how much a figure may differ from the one in the repository, if that does not say it.
    fn tolerance(self) -> f64 {
        match self {
            Self::Counter => 0.05,
            Self::Cpu => 0.15,
            Self::Wall => 0.3,
        }
    }
}

/// What all rows say together.
pub(crate) struct Outcome {
    pub missed: u32,
    /// A row got worse on a quiet machine.
    pub is_worse: bool,
    pub measured: Vec<Measured>,
}

pub(crate) struct Row<'a> {
    pub what: &'a str,
    pub subject: String,
    pub floor: String,
    /// The figure that is compared with the goal; mostly subject divided by floor.
    pub figure: f64,
    pub unit: &'a str,
    pub goal: f64,
    pub kind: Kind,
}

/// The goal of a row that is only printed.
pub(crate) const NO_GOAL: f64 = f64::INFINITY;

impl Table {
    pub(crate) fn begin(baseline: Option<Baseline>) -> Self {
        println!(
            "floors are measured beside each subject, in turn with it; ratios are of CPU time unless the row says otherwise"
        );
        let sync = measure::sync_ms();
        let remark = if sync < 0.1 { " (a write cache: syncs are nearly free here)" } else { "" };
        println!(
            "fdatasync of 300 bytes, median: {sync:.3} ms{remark}; cpu pressure: {:.0} %\n",
            measure::pressure()
        );
        println!("{:<50} {:>13} {:>13} {:>9} {:>8}", "what", "subject", "floor", "ratio", "goal");
        Self { missed: 0, guard: 1.0, baseline, measured: Vec::new(), changes: Vec::new(), others: 0.0 }
    }

    /// Begins rows that are measured together.
    pub(crate) fn group(&mut self) {
        self.guard = 1.0;
        self.others = measure::others();
    }

    /// Measures a floor against itself, which shows whether this machine gives useful figures now.
    pub(crate) fn guard(&mut self, what: &str, ratio: f64) {
        self.guard = ratio;
        let word = if is_steady(ratio) { "steady" } else { "busy" };
        println!(
            "{:<50} {:>13} {:>13} {:>8.2}× {:>8} {word}",
            format!("  guard: {what}"),
            "",
            "",
            ratio,
            "≈1"
        );
    }

    pub(crate) fn row(&mut self, row: Row<'_>) {
        let is_quiet = self.others.max(measure::others()) < OTHERS_MAX;
        let trusted = match row.kind {
            Kind::Counter => true,
            Kind::Cpu => is_steady(self.guard),
            Kind::Wall => is_quiet,
        };
        let change = self.compare(&row, is_quiet && trusted);
        let word = if !trusted {
            "busy"
        } else if row.goal == NO_GOAL {
            ""
        } else if row.figure <= row.goal {
            "ok"
        } else {
            self.missed += 1;
            "MISSED"
        };
        let figure = shown(row.figure, row.unit);
        let goal =
            if row.goal == NO_GOAL { "none".to_owned() } else { format!("≤{}", shown(row.goal, row.unit)) };
        println!(
            "{:<50} {:>13} {:>13} {figure:>9} {goal:>8} {word}{change}",
            row.what, row.subject, row.floor
        );
    }

    /// Compares a row with the repository; returns the words for its line.
    fn compare(&mut self, row: &Row<'_>, is_quiet: bool) -> String {
        let Some(baseline) = &self.baseline else { return String::new() };
        let (what, figure, tolerance) = (row.what.to_owned(), row.figure, row.kind.tolerance());
        let measured = Measured { what, figure, tolerance, is_quiet };
        let stored = baseline.find(row.what);
        let change = compare(&measured, stored);
        self.changes.push(change);
        self.measured.push(measured);
        let was = stored.map_or(String::new(), |stored| format!(" (was {})", shown(stored.figure, row.unit)));
        format!("; check: {}{was}", change.word())
    }

    /// Prints a control that must fail; otherwise the rows next to it prove nothing.
    pub(crate) fn control(&mut self, what: &str, seen: &str, does_fail: bool) {
        let word =
            if does_fail { "fails, as it must" } else { "did not fail: the row above proves nothing now" };
        println!("{:<50} {seen:>38} {word}", format!("  control: {what}"));
    }

    /// Counts something that could not be measured because it does not work, as a goal that was missed.
    pub(crate) fn broken(&mut self, what: &str, why: &str) {
        self.missed += 1;
        println!("{what:<18} failed: {why}");
    }

    pub(crate) fn note(&mut self, what: &str, seen: &str) {
        println!("{what:<50} {seen:>27}");
    }

    /// Prints the last line.
    pub(crate) fn end(self) -> Outcome {
        println!("\n{} missed; cpu pressure: {:.0} %", self.missed, measure::pressure());
        if let Some(baseline) = &self.baseline {
            let is_there = |what: &str| self.measured.iter().any(|measured| measured.what == what);
            let gone = baseline.row.iter().filter(|row| !is_there(&row.what)).count();
            let count = |change: Change| self.changes.iter().filter(|seen| **seen == change).count();
            let (worse, busy) = (count(Change::Worse), count(Change::Busy));
            println!("check: {worse} worse, {busy} busy, {gone} of the file not measured");
        }
        Outcome { missed: self.missed, is_worse: fails(&self.changes), measured: self.measured }
    }
}

fn is_steady(ratio: f64) -> bool {
    (0.97..=1.03).contains(&ratio)
}

fn shown(figure: f64, unit: &str) -> String {
    if figure >= 100.0 { format!("{figure:.0}{unit}") } else { format!("{figure:.2}{unit}") }
}
