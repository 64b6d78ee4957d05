//! Runs steps by sub-plans.
//!
//! Such a step has no agent. Its work is the run of the sub-plan in the same workspace, with the sub-plan's
//! own spec, gate and log. When the sub-plan is done the step is claimed, and provost judges the step's own
//! contract as usual.
//!
//! **Invariant:** a sub-plan needs its own approval; the approval of its parent starts nothing of it.
//! **Invariant:** no plan is a sub-plan of itself, directly or indirectly.

use crate::observe::inbox;
use crate::plan::{commands, queries, recording};
use crate::run::{run_plan, starting};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Instant;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{AttemptEnd, EndedAttempt, Event};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Usage;
use provost_core::rules::command::{AgentCommand, HarnessCommand};
use provost_core::rules::schedule::{self, InHand};
use provost_core::state::run::{PostState, Run, Stage};
use provost_host::plans::plan_file;
use provost_store::Query;

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::plan_context;
use crate::plan::subplan::{self, ParentContext, SubplanLimits, SubplanRequest, SubplanRunner};
use crate::run::run_strategy::Agents;
use crate::run_loop::Rest;
use crate::run_loop::world::TaskOutcome;
use crate::settings::{Access, EngineSettings};

/// State of a sub-plan.
enum Standing {
    /// A person must act first, as described.
    Waits(String),
    Ready,
    Done,
    Failed(String),
    /// The budget or time of the step is used up.
    Stopped,
    Interrupted,
}

/// Opens the sub-plan of a step of this plan.
fn below(harness: &Harness, plan: &str, errand: Option<(&SubplanRequest, &Usage)>) -> Result<Harness, Error> {
    let place = plan_file::beside(harness.place(), plan)?;
    let id = plan_file::id(&place);
    let above = harness.within.as_ref().map(|within| within.plans.clone()).unwrap_or_default();
    let plans: Vec<PlanId> = above.into_iter().chain([harness.id().clone()]).collect();
    if plans.contains(&id) {
        return Err(Error::CarriesItself { plan: plan.to_owned() });
    }
    let site = harness.site();
    let settings = EngineSettings {
        cwd: place.workspace.clone(),
        state: harness.state().to_owned(),
        plan: None,
        launcher: site.launcher.clone(),
        stop: site.stop.clone(),
        environment: site.environment.clone(),
        workplace: harness.workplace.clone(),
    };
    let own = harness.place();
    let files = harness.within.iter().flat_map(|within| within.files.clone());
    let within = ParentContext {
        plans,
        files: files.chain([own.path.clone(), own.progress.clone()]).collect(),
        tree: errand.and_then(|(errand, _)| errand.tree.clone()),
        leash: errand.map_or(SubplanLimits::default(), |(errand, spent)| {
            SubplanLimits::new(errand.limit, errand.timeout, spent)
        }),
    };
    let mut below = Harness::at(place, settings, Access::Write)?;
    below.within = Some(within);
    below.tell_of_plans_below(harness.told());
    Ok(below)
}

/// Returns the state of this sub-plan before anything of it starts. Its policies may approve it.
fn standing(harness: &Harness) -> Result<(Run, Standing), Error> {
    let name = &harness.place().name;
    let run = match recording::bring_up(harness) {
        Ok((run, _)) => run,
        Err(Error::Diagnosed { .. }) => {
            let words = format!("{name} has errors; run `provost verify {name}`");
            return Ok((harness.run()?, Standing::Waits(words)));
        }
        Err(error) => return Err(error),
    };
    let rejected = |run: &Run| {
        let (revision, reason) = run.rejection.as_ref()?;
        (*revision == run.revision).then(|| format!("it was rejected: {reason}"))
    };
    let run = match run.stage {
        Stage::Verified if rejected(&run).is_none() => commands::ask_policies(harness, &run)?.0,
        _ => run,
    };
    let standing = match run.stage {
        Stage::Draft | Stage::Verified => match rejected(&run) {
            Some(reason) => Standing::Failed(reason),
            None => {
                commands::request_approval(harness)?;
                let revision = run.revision.short();
                Standing::Waits(format!(
                    "{name} is not approved: `provost show {name}`, then `provost approve {name} --revision {revision}`"
                ))
            }
        },
        Stage::Approved | Stage::InProgress => match is_idle(harness, &run) {
            true => Standing::Waits(waits_for(harness, &run)?),
            false => match starting::dependencies_are_done(harness, &run) {
                Err(Error::Refused(refusal)) => Standing::Waits(format!("{name}: {refusal}")),
                ready => ready.map(|()| Standing::Ready)?,
            },
        },
        Stage::Done => Standing::Done,
        Stage::Failed => Standing::Failed(why_failed(harness, &run)?),
    };
    Ok((run, standing))
}

fn is_idle(harness: &Harness, run: &Run) -> bool {
    let now = plan_context::now();
    schedule::next(run, &InHand::default(), 1, now).is_empty()
        && schedule::wakes(run, now).is_none()
        && harness.resumable_step(run).is_none()
}

/// Describes what a person has to answer in this plan.
fn waits_for(harness: &Harness, run: &Run) -> Result<String, Error> {
    let name = &harness.place().name;
    let items = inbox::plan_items(harness, run)?;
    let Some(item) = items.first() else { return Ok(format!("{name} waits: `provost status {name}`")) };
    let choices: Vec<&str> = item.choices.iter().map(|offer| offer.choice).collect();
    Ok(format!("in {name}, {item}; `provost answer {} {}`", item.id, choices.join("|")))
}

/// Describes which step failed and how, or which postcondition does not hold.
fn why_failed(harness: &Harness, run: &Run) -> Result<String, Error> {
    let broke = run.postconditions().find_map(|(post, state)| match state {
        PostState::Broke(verdict) => Some(format!("its postcondition {} {}", post.number, verdict.outcome)),
        PostState::Open | PostState::Held(_) => None,
    });
    if let Some(broke) = broke {
        return Ok(broke);
    }
    let query = Query {
        names: vec!["TASK_FAILED".to_owned()],
        newest_first: true,
        limit: Some(1),
        ..Query::plan(harness.id())
    };
    let mut why = "it failed".to_owned();
    queries::each(harness, &query, &mut |sealed| {
        if let Ok(Event::StepFailed { step, error }) = sealed.event() {
            why = format!("its step {step} “{}”: {error}", run.title(step).unwrap_or_default());
        }
        ControlFlow::Break(())
    })?;
    Ok(why)
}

/// Runs this sub-plan until it stops.
fn carried(harness: &Harness) -> Result<(Run, Standing), Error> {
    let (run, standing) = standing(harness)?;
    if !matches!(standing, Standing::Ready) {
        return Ok((run, standing));
    }
    starting::ready_to_drive(harness, &run)?;
    let leash = harness.within.as_ref().map(|within| &within.leash);
    let told = harness.told();
    let (run, rest) = run_plan::drive_for(harness, &Agents { jobs: 1 }, &mut |run, sealed, event| {
        if let Some(leash) = leash {
            leash.hear(event);
        }
        if let Some(told) = &told {
            told(&harness.place().name, run, sealed, event);
        }
    })?;
    let name = &harness.place().name;
    let stopped = leash.is_some_and(SubplanLimits::is_at_its_end) && !harness.site().is_stopped();
    let standing = match rest {
        Rest::Interrupted if stopped && leash.is_some_and(SubplanLimits::is_out_of_time) => {
            Standing::Failed("its time limit is reached".to_owned())
        }
        Rest::Interrupted if stopped => Standing::Stopped,
        Rest::Interrupted => Standing::Interrupted,
        Rest::LawChanged(changes) => Standing::Waits(format!(
            "the file of {name} differs from what was approved ({}); restore it, or approve it as it is now",
            changes.join("; ")
        )),
        Rest::OverBudget(reason) => Standing::Waits(reason),
        Rest::Nothing => match run.stage {
            Stage::Done => Standing::Done,
            Stage::Failed => Standing::Failed(why_failed(harness, &run)?),
            Stage::Draft => Standing::Failed("it is a draft again".to_owned()),
            Stage::Verified | Stage::Approved | Stage::InProgress => {
                Standing::Waits(waits_for(harness, &run)?)
            }
        },
    };
    Ok((run, standing))
}

/// Returns when the current attempt started.
fn begun_at(harness: &Harness, errand: &SubplanRequest) -> Result<Timestamp, Error> {
    let query = Query {
        step: Some(errand.step),
        names: vec!["TASK_STARTED".to_owned()],
        newest_first: true,
        limit: Some(1),
        ..Query::plan(harness.id())
    };
    let mut at = plan_context::now();
    queries::each(harness, &query, &mut |sealed| {
        at = sealed.at;
        ControlFlow::Break(())
    })?;
    Ok(at)
}

/// Returns what this plan has used since then: zero if no agent was called, unknown if an attempt was
/// lost in a crash.
fn used_since(harness: &Harness, since: Timestamp) -> Result<Usage, Error> {
    let mut sum = Usage {
        calls: Some(0),
        input_tokens: Some(0),
        output_tokens: Some(0),
        cache_read_tokens: Some(0),
        cache_write_tokens: Some(0),
        micro_usd: Some(0),
        model: None,
    };
    let mut open: BTreeSet<StepNumber> = BTreeSet::new();
    queries::each(harness, &Query { since: Some(since), ..Query::plan(harness.id()) }, &mut |sealed| {
        let Ok(event) = sealed.event() else { return ControlFlow::Continue(()) };
        let lost = match &event {
            Event::StepStarted { step, .. } => !open.insert(*step),
            Event::AttemptEnded(EndedAttempt { step, .. }) => {
                open.remove(step);
                false
            }
            Event::AttemptLost { step, .. } | Event::StepPassed { step, .. } => open.remove(step),
            _ => false,
        };
        if lost {
            sum = sum.and(&Usage::default());
        }
        if let Some(used) = subplan::used(&event) {
            sum = sum.and(used);
        }
        ControlFlow::Continue(())
    })?;
    Ok(sum)
}

fn run_errand(harness: &Harness, errand: &SubplanRequest) -> Result<(Standing, Usage, Run), Error> {
    let since = begun_at(harness, errand)?;
    let spent = used_since(&below(harness, &errand.plan, None)?, since)?;
    let below = below(harness, &errand.plan, Some((errand, &spent)))?;
    let (run, standing) = carried(&below)?;
    Ok((standing, used_since(&below, since)?, run))
}

impl SubplanRunner for Harness {
    fn held_up(&self, plan: &str) -> Option<String> {
        match below(self, plan, None).and_then(|below| standing(&below)) {
            Ok((_, Standing::Waits(reason))) => Some(reason),
            // Other problems show when the sub-plan starts, as an ordinary failure.
            Ok(_) | Err(_) => None,
        }
    }

    fn carry_out(&self, errand: &SubplanRequest) -> Vec<TaskOutcome> {
        let begun = Instant::now();
        let SubplanRequest { step, attempt, .. } = *errand;
        let plan = errand.plan.clone();
        let (standing, usage, run) = match run_errand(self, errand) {
            Ok(carried) => carried,
            Err(error) => (Standing::Failed(error.to_string()), Usage::default(), Run::default()),
        };
        let end = match standing {
            Standing::Interrupted => return Vec::new(),
            Standing::Done | Standing::Ready => AttemptEnd::Exited { exit_code: 0 },
            Standing::Failed(reason) => AttemptEnd::PlanFailed {
                plan: plan.clone(),
                reason: self.redactor().text(&reason).into_owned(),
            },
            Standing::Waits(reason) => AttemptEnd::PlanWaits {
                plan: plan.clone(),
                reason: self.redactor().text(&reason).into_owned(),
            },
            Standing::Stopped => AttemptEnd::PlanStopped { plan: plan.clone() },
        };
        let is_done = matches!(end, AttemptEnd::Exited { .. });
        let ended = TaskOutcome::Harness(HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: begun.elapsed().as_millis() as u64,
            usage,
            ..EndedAttempt::new(step, attempt, end)
        }));
        let (done, total) = run.progress();
        let evidence =
            format!("the plan {plan} is done: {done} of {total} steps, event {} of its log", run.seq);
        let claim = is_done.then_some(TaskOutcome::Agent(AgentCommand::Claim { step, evidence }));
        std::iter::once(ended).chain(claim).collect()
    }
}
