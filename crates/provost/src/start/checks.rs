//! Tries the checks of the project and shows each result as it comes.

use provost_engine::exec::check_trial::{self, TrialEvent, TriedCheck};
use provost_engine::plan::harness::Harness;
use provost_engine::project::Project;

use super::report::StartReport;
use super::result_words::{mark, words};
use crate::failure::Failure;

pub(super) fn run(
    harness: &Harness,
    project: &Project,
    report: &mut StartReport<'_>,
) -> Result<Vec<TriedCheck>, Failure> {
    let tried = check_trial::try_checks(harness, &project.checks, &mut |event| match event {
        TrialEvent::Begun(level) => {
            report.say(&format!("Checks, run on the last commit (isolation: {level}):"))
        }
        TrialEvent::Starting(command) => report.progress(&format!("  … {command}")),
        TrialEvent::Tried(check) => {
            let (mark, words) = (mark(&check.verdict), words(&check.verdict));
            report.say(&format!("  {mark} {}: {} — {words}", check.name, check.command));
        }
    })?;
    report.tried(&tried);
    Ok(tried)
}
