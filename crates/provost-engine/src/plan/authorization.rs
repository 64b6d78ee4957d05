//! Refuses commands for people that do not come from a person, and records the attempt.
//!
//! **Invariant:** a command for people is refused if it comes from inside an attempt.

use provost_core::model::chain::PlanId;
use provost_core::model::plan::Step;
use provost_core::rules::command::HarnessCommand;

use crate::plan::harness::Harness;
use crate::plan::human_check::{self, Who};
use crate::plan::plan_registry;
use crate::plan::sessions::Sessions;
use crate::{CommandOrigin, Error, journal};

/// Refuses and records a caller that runs, or may run, inside an attempt.
pub fn only_people(harness: &Harness) -> Result<(), Error> {
    let sessions = Sessions::new(harness.state());
    match human_check::intruder(harness.log(), &harness.workspace_lease(), &sessions, harness.who())? {
        Some(why) => Err(not_a_person(harness, why)?),
        None => Ok(()),
    }
}

/// Records a command for people that came from an agent, and returns its refusal.
pub(crate) fn not_a_person(harness: &Harness, why: CommandOrigin) -> Result<Error, Error> {
    let what = format!("a command for people came {why}");
    harness.own_command(|_| HarnessCommand::Tampered { step: None, what: what.clone() })?;
    Ok(Error::NotAPerson { why })
}

/// If agents have run without a sandbox, requires a terminal that none of them can have.
pub(crate) fn only_at_a_terminal(harness: &Harness) -> Result<(), Error> {
    let why = |plan: &PlanId| match harness.who() {
        Who::Here => human_check::no_terminal(harness.log(), plan, harness.begun),
        Who::Caller(caller) => human_check::no_old_program(harness.log(), plan, caller),
    };
    // An agent of a parent plan is as close to this plan as its own agents.
    let mut found = why(harness.id())?;
    for plan in plans_above(harness)? {
        found = found.or(why(&plan)?);
    }
    let Some(why) = found else { return Ok(()) };
    let what = format!("a decision for people was refused: {why}");
    harness.own_command(|_| HarnessCommand::Tampered { step: None, what: what.clone() })?;
    Err(Error::NoTerminal { why })
}

/// Returns started plans of this folder that have this plan as a sub-plan, directly or indirectly.
fn plans_above(harness: &Harness) -> Result<Vec<PlanId>, Error> {
    let mut begun: Vec<(PlanId, String, Vec<String>)> = Vec::new();
    for id in harness.log().plans()? {
        let Some(place) = plan_registry::find(harness.state(), &id) else { continue };
        if place.path.parent() != Some(harness.place().dir.as_path()) {
            continue;
        }
        // A plan that cannot be read starts nothing.
        let Ok(run) = journal::read(harness.log(), &id) else { continue };
        let carried = run.plan.steps.iter().filter_map(Step::carried_by).map(str::to_owned);
        let carried: Vec<String> = carried.collect();
        if run.started() && !carried.is_empty() {
            begun.push((id, place.name, carried));
        }
    }
    let (mut names, mut above) = (vec![harness.place().slug.clone()], Vec::new());
    while let Some(name) = names.pop() {
        for (id, slug, carried) in &begun {
            if carried.contains(&name) && !above.contains(id) {
                above.push(id.clone());
                names.push(slug.clone());
            }
        }
    }
    Ok(above)
}
