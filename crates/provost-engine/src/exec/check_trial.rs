//! Tries commands as checks on the base: the same environment, tree and judge as for the checks of a plan,
//! without a plan in the log.

use std::time::Duration;

use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_core::state::run::Run;
use provost_host::check::judge;
use provost_host::exec::environment::{self, RunPaths};
use provost_host::process;
use provost_host::project::CheckCandidates;

use crate::Error;
use crate::exec::approved_base::on_the_base;
use crate::exec::confined;
use crate::exec::executor::Executor;
use crate::exec::trial::unrecorded;
use crate::plan::harness::Harness;

/// Longest run of one command.
const LIMIT: Duration = Duration::from_secs(600);
/// A path that no repository has, so that no file of the workspace takes part.
const NOTHING: &str = ".harness/nothing";

/// The best command of a check, and its verdict.
#[derive(Clone, Debug)]
pub struct TriedCheck {
    pub name: String,
    pub command: String,
    pub verdict: Verdict,
}

/// Progress of a trial.
pub enum TrialEvent<'a> {
    /// Dependencies are installed, then the commands run at this level.
    Begun(Isolation),
    Starting(&'a str),
    Tried(&'a TriedCheck),
}

/// Runs the commands of each check until one holds. If none holds, the first one that ran counts.
pub fn try_checks(
    harness: &Harness,
    checks: &[CheckCandidates],
    watch: &mut dyn FnMut(TrialEvent<'_>),
) -> Result<Vec<TriedCheck>, Error> {
    let _ = process::become_subreaper();
    let run = as_plan(harness, checks.iter().flat_map(|check| &check.commands).map(String::as_str))?;
    let launcher = confined::launcher(&harness.site().launcher);
    let workspace = &harness.place().workspace;
    let paths =
        RunPaths { workspace, state: harness.state(), read_only: &[], secrets: &[], launcher: &launcher };
    let (features, seen) = environment::attest(harness.config().verify.isolation, &paths)?;
    watch(TrialEvent::Begun(seen.level));
    let executor = Executor::new(harness.site(), on_the_base(harness, &run, features, seen.level, &paths)?);
    let mut steps = run.plan.steps.iter().map(|step| step.number);
    let mut tried = Vec::new();
    for check in checks {
        let numbers: Vec<StepNumber> = steps.by_ref().take(check.commands.len()).collect();
        let best = first_to_hold(&executor, &run, check, &numbers, watch)?;
        watch(TrialEvent::Tried(&best));
        tried.push(best);
    }
    judge::leave();
    Ok(tried)
}

fn first_to_hold(
    executor: &Executor<'_>,
    run: &Run,
    check: &CheckCandidates,
    numbers: &[StepNumber],
    watch: &mut dyn FnMut(TrialEvent<'_>),
) -> Result<TriedCheck, Error> {
    let mut best: Option<TriedCheck> = None;
    for (command, number) in check.commands.iter().zip(numbers) {
        watch(TrialEvent::Starting(command));
        let verdict = executor.step_on_base(run, *number, LIMIT).ok_or(Error::Interrupted)?;
        let did_run = |verdict: &Verdict| !matches!(verdict.outcome, CheckOutcome::NotRun { .. });
        let is_better = match &best {
            None => true,
            Some(best) => verdict.held() || did_run(&verdict) && !did_run(&best.verdict),
        };
        let is_over = verdict.held();
        if is_better {
            best = Some(TriedCheck { name: check.name.to_owned(), command: command.clone(), verdict });
        }
        if is_over {
            break;
        }
    }
    best.ok_or(Error::Interrupted)
}

/// Returns a run that is in no log: one step for each command.
pub(crate) fn as_plan<'c>(harness: &Harness, commands: impl Iterator<Item = &'c str>) -> Result<Run, Error> {
    let mut text = format!("---\nstatus: draft\ntouches: [\"{NOTHING}\"]\n---\n# Trial\n## Steps\n");
    for (index, command) in commands.enumerate() {
        text.push_str(&format!(
            "### {}. Try\n**target:** coder\n**task:** Try.\n**contract:**\n```shell\n{command}\n```\n\
             **guard:** yes\n**contract_timeout:** 10 minutes\n",
            index + 1
        ));
    }
    unrecorded(harness, &text)
}
