//! Compares two plans: what each used, and its outcome.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{CheckSubject, Event};
use provost_core::state::run::Run;
use provost_core::text::summary::{PlanRow, PlansSummary, SummaryReader};
use provost_host::plans::plan_file;
use provost_store::{Log, Query};

use crate::Error;
use crate::plan::{plan_context, plan_registry};
use crate::settings::EngineSettings;

/// One of the two plans.
pub struct ComparedPlan {
    pub plan: PlanId,
    pub name: String,
    pub run: Run,
    pub row: PlanRow,
    /// Files changed by its passed steps, as far as verdicts name them.
    pub files: BTreeSet<String>,
}

/// Reads a plan: a path, a name here, the name of a plan in another worktree, or an id.
pub fn side(settings: &EngineSettings, argument: &str) -> Result<ComparedPlan, Error> {
    let log = crate::journal::log_locator::for_reading(&settings.state)?;
    let plan = match plan_file::resolve(Some(argument), &settings.cwd) {
        Ok(place) => plan_file::id(&place),
        Err(error) => elsewhere(&*log, settings, argument)?.ok_or(error)?,
    };
    let mut run = Run::default();
    let mut hearing = SummaryReader::since(None);
    let (mut files, mut held) = (BTreeSet::new(), Vec::new());
    let mut unread = Ok(());
    log.read(&Query::plan(&plan), &mut |sealed| {
        unread = sealed.event().map(|event| {
            match &event {
                Event::Judged { subject: CheckSubject::Contract(_), verdict, .. } if verdict.held() => {
                    held = verdict.tree.as_ref().map(|tree| tree.files.clone()).unwrap_or_default();
                }
                Event::StepPassed { .. } => files.extend(std::mem::take(&mut held)),
                _ => {}
            }
            hearing.hear(sealed.at, &event);
            run.apply_at(&event, sealed.at);
        });
        if unread.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    unread?;
    let mut summary = PlansSummary::default();
    hearing.end(plan.clone(), plan_context::now(), &mut summary);
    let row = summary.plans.pop().ok_or(provost_core::rules::command::Refusal::NoPlan)?;
    let name =
        plan_registry::find(&settings.state, &plan).map_or_else(|| argument.to_owned(), |place| place.name);
    Ok(ComparedPlan { plan, name, run, row, files })
}

fn elsewhere(log: &dyn Log, settings: &EngineSettings, argument: &str) -> Result<Option<PlanId>, Error> {
    let here = plan_registry::Here::of(&settings.cwd);
    let is_it = |plan: &PlanId| {
        let place = plan_registry::find(&settings.state, plan);
        plan.0 == argument || place.is_some_and(|place| place.name == argument && here.has(&place))
    };
    Ok(log.plans()?.into_iter().find(is_it))
}
