//! `provost log --transcript`: what an agent said and did in one attempt.

use std::path::Path;
use std::str::FromStr;

use provost_core::model::plan::StepNumber;
use provost_core::text::render;
use provost_engine::observe::history::History;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;
use crate::watch::text::visible;

/// A step, and one of its attempts: `2` or `2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Which {
    step: u32,
    attempt: Option<u32>,
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (step, attempt) = match text.split_once('.') {
            Some((step, attempt)) => (step, Some(attempt)),
            None => (text, None),
        };
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        let expected = || format!("`{text}` is neither a step (2) nor a step and its attempt (2.1)");
        let attempt = attempt.map(|attempt| number(attempt).ok_or_else(expected)).transpose()?;
        Ok(Self { step: number(step).ok_or_else(expected)?, attempt })
    }
}

pub(super) fn show(global: &Global, history: &History, which: Which, document: Option<&Path>) -> Answer {
    let plans = history.plans()?;
    let [plan] = plans.as_slice() else {
        return Err(Failure::usage("--transcript shows one plan", "Name one plan."));
    };
    let found = history.transcript(plan, StepNumber(which.step), which.attempt)?;
    let Some(found) = found else {
        let attempt = which.attempt.map(|number| format!(" {number}")).unwrap_or_default();
        return Err(Failure::usage(
            format!("step {} of {plan} has no attempt{attempt}", which.step),
            "`provost log --event TASK_STARTED` lists the attempts.",
        ));
    };
    if let Some(note) = found.note {
        terminal::talk(note);
    }
    let title = found.title();
    if global.json {
        let lines: Result<Vec<String>, _> = found.entries.iter().map(serde_json::to_string).collect();
        let lines: String = lines.unwrap_or_default().iter().map(|line| format!("{line}\n")).collect();
        terminal::print(&lines)?;
    } else if let Some(path) = document {
        write(path, &visible(&render::transcript::markdown(&format!("{title} ({plan})"), &found.entries)))?;
    } else if !found.entries.is_empty() {
        let text = format!("{title}\n\n{}", render::transcript::text(&found.entries));
        terminal::page(&visible(&text))?;
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return terminal::print(text);
    }
    let what = format!("write {}", path.display());
    std::fs::write(path, text).map_err(|source| Failure::Io { what, source })
}

#[cfg(test)]
mod tests {
    use super::Which;

    #[test]
    fn a_step_or_a_step_and_its_attempt() {
        let read = |text: &str| text.parse::<Which>().map(|which| (which.step, which.attempt));
        assert_eq!(read("2"), Ok((2, None)));
        assert_eq!(read("12.3"), Ok((12, Some(3))));
        for wrong in ["", "0", "2.", ".1", "2.0", "a", "2.1.1", "-1"] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("2.1"), "{error}");
        }
    }
}
