//! Describes the result of a tried check, for people and for programs.

use provost_core::model::verdict::{CheckOutcome, Verdict};
use provost_engine::observe::view::VerdictView;

use crate::terminal;

/// Longest line of output that is shown.
const LINE_MAX: usize = 120;

pub(crate) fn mark(verdict: &Verdict) -> &'static str {
    match verdict.outcome {
        CheckOutcome::Held => "✓",
        CheckOutcome::NotRun { .. } => "·",
        _ => "✗",
    }
}

/// Returns the result for programs.
pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict.outcome {
        CheckOutcome::Held => "holds",
        CheckOutcome::NotRun { .. } => "cannot_run",
        _ => "fails",
    }
}

/// Describes the result in one line.
pub(crate) fn words(verdict: &Verdict) -> String {
    let seconds = format!("{:.1} s", verdict.duration_ms as f64 / 1000.0);
    let tests =
        verdict.tests.map(|count| format!("{}, ", terminal::count(count, "test"))).unwrap_or_default();
    let seen = VerdictView::of(verdict);
    let last = [&seen.stderr, &seen.stdout].into_iter().find_map(|text| last_line(text));
    match &verdict.outcome {
        CheckOutcome::Held => format!("holds ({tests}{seconds})"),
        CheckOutcome::NotRun { reason } => format!("cannot run: {reason}"),
        CheckOutcome::Broke { exit_code: 0 } if verdict.tests == Some(0) => {
            "fails: it ran no test".to_owned()
        }
        outcome => {
            let unmet =
                seen.unmet.first().filter(|_| matches!(outcome, CheckOutcome::Broke { exit_code: 0 }));
            let why = unmet.cloned().or(last).map(|line| format!(": {line}")).unwrap_or_default();
            match outcome {
                CheckOutcome::Broke { exit_code } if *exit_code != 0 => {
                    format!("fails (exit {exit_code}, {seconds}){why}")
                }
                CheckOutcome::Broke { .. } => format!("fails{why}"),
                outcome => format!("fails: {outcome}"),
            }
        }
    }
}

fn last_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(LINE_MAX).collect())
}
