//! Lays out what a step changed, as a diff.

use provost_core::model::plan::StepNumber;
use provost_engine::observe::overview::{Overview, PlanSnapshot};
use provost_engine::plan::human_check::Who;
use provost_engine::plan::step_changes::{self, FileComparison};
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::watch::known::{Said, Tone};

pub(super) fn page(overview: &Overview, seen: &PlanSnapshot, step: u32) -> Result<Vec<Said>, Failure> {
    let number = StepNumber(step);
    let harness = overview.harness(seen, Access::Read, Who::Here)?;
    let work = step_changes::look(&harness, number)?;
    let title = seen.run.title(number).unwrap_or_default();
    let mut page = vec![Said::strong(format!("Changes of step {step}. {title}"))];
    page.extend(work.lines().iter().map(Said::plain));
    work.files.iter().for_each(|file| diff(&mut page, file));
    Ok(page)
}

fn diff(page: &mut Vec<Said>, file: &FileComparison) {
    page.push(Said::gap());
    for line in file.unified().lines() {
        let tone = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Tone::Strong,
            [b'+', ..] => Tone::Good,
            [b'-', ..] => Tone::Bad,
            [b'@', ..] => Tone::Busy,
            _ => Tone::Plain,
        };
        page.push(Said::new(tone, line));
    }
}
