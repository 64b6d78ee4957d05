//! Makes the proof map of a step, outside of a run.

use provost_core::model::plan::StepNumber;
use provost_core::rules::command::Refusal;
use provost_host::check::judge;
use provost_host::config::Demand;
use provost_host::exec::environment;
use provost_host::process;

use crate::Error;
use crate::exec::approved_base::{PlanPaths, on_the_base_with};
use crate::exec::executor::Executor;
use crate::exec::proof_map::{self, Change, MadeMap, MapListener, MapSettings, MappedStep};
use crate::plan::harness::Harness;

/// Makes the map of a step, and records nothing in the log.
pub fn map(
    harness: &Harness,
    number: StepNumber,
    settings: &MapSettings,
    watch: MapListener<'_>,
) -> Result<MadeMap, Error> {
    let run = harness.run()?;
    let subject = MappedStep::of(&run, number)?;
    let change = Change::read(harness, &run, &subject.before, &subject.after)?;
    let _ = process::become_subreaper();
    let paths = PlanPaths::of(harness);
    let paths = paths.for_checks(harness);
    let demand = subject.level.map_or(harness.config().verify.isolation, Demand::Exactly);
    let (offer, seen) = environment::attest(demand, &paths)?;
    if !seen.level.has_clean_tree() {
        return Err(Refusal::NoOwnTree { level: seen.level }.into());
    }
    let ground = on_the_base_with(harness, &run, offer, seen.level, &paths, subject.environment())?;
    let executor = Executor::new(harness.site(), ground);
    let no_command = || Error::from(Refusal::NoCommand { step: number });
    let order = executor.order_of(&run, number).ok_or_else(no_command)?;
    let contract = executor.on_tree(&order, &subject.after).ok_or_else(no_command)?;
    let stop = &harness.site().stop;
    let made = proof_map::make(harness.state(), &change, &subject, &contract, settings, stop, watch);
    judge::leave();
    Ok(made)
}
