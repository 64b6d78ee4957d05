//! The view of a run: one line per event, on a terminal a status line below them, and the agents' output if
//! it is wanted.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::pass::Pass;
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::Resource;
use provost_core::state::run::{Run, StepState};
use provost_core::text::render::{self, EventLine, Symbol};
use provost_engine::exec::live;
use provost_engine::plan::harness::{Below, Harness};

use crate::activity_line::{self, PlainLines};
use crate::terminal::{colour_on_stdout, print, talk};
use crate::watch::text::visible;

/// Live output of a run: one line per event and, on a terminal, a status line below them.
pub(crate) struct Live {
    json: bool,
    colour: bool,
    bar: Option<ProgressBar>,
    /// Names what takes long, where there is no bar.
    _lines: Option<PlainLines>,
    /// The steps under way, for the thread that shows their output.
    at_work: Mutex<Vec<StepNumber>>,
}

/// Time between two looks at the agents' output.
const LOOK: Duration = Duration::from_millis(200);

impl Live {
    pub(crate) fn new(json: bool, run: &Run) -> Self {
        let shown = !json && std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let bar = shown.then(|| {
            let bar = activity_line::with_message();
            bar.set_message(doing(run));
            bar
        });
        let lines = (!json && !shown).then(activity_line::plain_lines);
        Self { json, colour: colour_on_stdout(), bar, _lines: lines, at_work: Mutex::default() }
    }

    /// Returns output with lines only, on any device.
    pub(crate) fn plain(json: bool) -> Self {
        let lines = (!json).then(activity_line::plain_lines);
        Self { json, colour: false, bar: None, _lines: lines, at_work: Mutex::default() }
    }

    pub(crate) fn event(&self, run: &Run, sealed: &SealedEvent, event: &Event) {
        self.show("", run, sealed, event);
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = run.under_way().collect();
        if let Some(bar) = &self.bar {
            bar.set_message(doing(run));
        }
    }

    /// Returns a callback that shows the events of sub-plans; their lines start with the sub-plan's name.
    pub(crate) fn below(&self) -> Arc<Below> {
        let (json, colour, bar) = (self.json, self.colour, self.bar.clone());
        let live = Self { json, colour, bar, _lines: None, at_work: Mutex::default() };
        Arc::new(move |name, run, sealed, event| live.show(&format!("{name} │ "), run, sealed, event))
    }

    fn show(&self, indent: &str, run: &Run, sealed: &SealedEvent, event: &Event) {
        if self.json {
            // If the reader closes the pipe, the run continues.
            let _ = print(&format!("{}\n", sealed.line()));
            return;
        }
        let line = render::event(run, event);
        if !line.told_elsewhere {
            let text = format!("{indent}{}", dressed(&line, self.colour));
            self.above_the_bar(|| {
                let _ = print(&format!("{text}\n"));
            });
        }
    }

    /// Calls `drive`, and prints what the agents write meanwhile, on stderr.
    pub(crate) fn with_output<T>(&self, harness: &Harness, drive: impl FnOnce() -> T) -> T {
        let (state, plan, is_over) = (harness.state(), harness.id(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut shown = BTreeMap::new();
                while !is_over.load(Ordering::Relaxed) {
                    self.show_output(state, plan, &mut shown);
                    std::thread::sleep(LOOK);
                }
            });
            // A panic must end the thread too, or the scope would wait for ever.
            let _over = EndOfRun(&is_over);
            drive()
        })
    }

    /// Prints the lines that have come since the last look.
    fn show_output(&self, state: &Path, plan: &PlanId, shown: &mut BTreeMap<StepNumber, String>) {
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        shown.retain(|step, _| at_work.contains(step));
        for step in at_work {
            let Some(output) = live::output(state, plan, step) else { continue };
            let before = shown.entry(step).or_default();
            let fresh: String =
                added(before, &output).lines().map(|line| format!("[Step {step}] │ {line}\n")).collect();
            if !fresh.is_empty() {
                self.above_the_bar(|| talk(&visible(&fresh)));
            }
            *before = output;
        }
    }

    /// Prints lines above the status line.
    fn above_the_bar(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Describes the current activity: every step under way, and what happens to it.
fn doing(run: &Run) -> String {
    let (done, total) = run.progress();
    let at_work: Vec<String> = run.under_way().map(|step| doing_of_step(run, step)).collect();
    let now = match at_work.is_empty() {
        false => at_work.join(" · "),
        true if run.all_settled() => "checking all contracts and postconditions on the final tree".to_owned(),
        true if run.started() => "before the next step".to_owned(),
        true => "before the first step".to_owned(),
    };
    let cost = run.ledger.cost();
    let spent = [cost.tokens.map(|n| Resource::Tokens.say(n)), cost.micro_usd.map(|n| Resource::Usd.say(n))];
    let spent: String = spent.into_iter().flatten().map(|spent| format!(" · {spent}")).collect();
    let spent = if cost.is_none() { String::new() } else { spent };
    format!("{done}/{total} steps{spent} · {now}")
}

fn doing_of_step(run: &Run, step: StepNumber) -> String {
    match run.step(step).map(|state| &state.state) {
        Some(StepState::Ended { .. }) => format!("step {step}: provost runs the check"),
        _ => format!("step {step}: {} works on “{}”", run.role(step), run.title(step).unwrap_or_default()),
    }
}

fn dressed(line: &EventLine, colour: bool) -> String {
    let text = line.to_string();
    if !colour {
        return text;
    }
    let code = match line.symbol {
        Symbol::Passed(Pass::Verified) | Symbol::Good => "32",
        Symbol::Failed | Symbol::Bad => "31",
        Symbol::Passed(_) | Symbol::Blocked | Symbol::Waived | Symbol::Waiting => "33",
        Symbol::Claim => "35",
        Symbol::Begun => "36",
        Symbol::Note => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Sets the flag when it is dropped.
struct EndOfRun<'f>(&'f AtomicBool);

impl Drop for EndOfRun<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns what the text `now` has at its end that `before` had not; both are the end of the same output.
fn added<'t>(before: &str, now: &'t str) -> &'t str {
    let mut from = before;
    loop {
        if let Some(added) = now.strip_prefix(from) {
            return added;
        }
        // The beginning of the older text was dropped, a line at a time.
        from = from.split_once('\n').map_or("", |(_, rest)| rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_lines_of_the_output_are_shown() {
        assert_eq!(added("", "a\nb\n"), "a\nb\n");
        assert_eq!(added("a\nb\n", "a\nb\nc\n"), "c\n");
        assert_eq!(added("a\nb\nc\n", "b\nc\nd\n"), "d\n");
        assert_eq!(added("a\n", "x\ny\n"), "x\ny\n");
        assert_eq!(added("a\n", "a\n"), "");
    }
}
