//! The printed table, line by line, and the rules that judge a line.
//!
//! **Invariant:** a figure measured on a busy machine is printed but not judged, unless it is a counter.

use crate::measure;

pub(crate) struct Table {
    missed: u32,
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

impl Table {
    pub(crate) fn begin() -> Self {
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
        Self { missed: 0, guard: 1.0 }
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
        let trusted = match row.kind {
            Kind::Counter => true,
            Kind::Cpu => is_steady(self.guard),
            Kind::Wall => measure::pressure() < 10.0,
        };
        let word = if !trusted {
            "busy"
        } else if row.figure <= row.goal {
            "ok"
        } else {
            self.missed += 1;
            "MISSED"
        };
        let (figure, goal) = (shown(row.figure, row.unit), shown(row.goal, row.unit));
        println!(
            "{:<50} {:>13} {:>13} {figure:>9} {:>8} {word}",
            row.what,
            row.subject,
            row.floor,
            format!("≤{goal}")
        );
    }

    /// Prints a control that must fail; otherwise the rows next to it prove nothing.
    pub(crate) fn control(&mut self, what: &str, seen: &str, does_fail: bool) {
        let word =
            if does_fail { "fails, as it must" } else { "did not fail: the row above proves nothing now" };
        println!("{:<50} {seen:>38} {word}", format!("  control: {what}"));
    }

    pub(crate) fn note(&mut self, what: &str, seen: &str) {
        println!("{what:<50} {seen:>27}");
    }

    /// Returns how many goals were missed.
    pub(crate) fn end(self) -> u32 {
        println!("\n{} missed; cpu pressure: {:.0} %", self.missed, measure::pressure());
        self.missed
    }
}

fn is_steady(ratio: f64) -> bool {
    (0.97..=1.03).contains(&ratio)
}

fn shown(figure: f64, unit: &str) -> String {
    if figure >= 100.0 { format!("{figure:.0}{unit}") } else { format!("{figure:.2}{unit}") }
}
