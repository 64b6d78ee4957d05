//! Runs steps by sub-plans.
//!
//! Such a step has no agent. Its work is the run of the sub-plan in the same workspace, with the sub-plan's
//! own spec, gate and log. When the sub-plan is done the step is claimed, and provost judges the step's own
//! contract as usual.
//!
//! **Invariant:** a sub-plan needs its own approval; the approval of its parent starts nothing of it.
//! **Invariant:** no plan is a sub-plan of itself, directly or indirectly.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Instant;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{AttemptEnd, EndedAttempt, Event};
use provost_core::model::plan::{Step, StepNumber};
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Usage;
use provost_core::rules::command::{AgentCommand, HarnessCommand};
use provost_core::rules::schedule::{self, InHand};
use provost_core::state::run::{PostState, Run, Stage};
use provost_host::plans::plan_file;
use provost_store::Query;

use crate::drive::Rest;
use crate::harness::{Access, EngineSettings, Harness};
use crate::subplan::{ParentContext, SubplanLimits, SubplanRequest, SubplanRunner};
use crate::worker::Worker;
use crate::world::TaskOutcome;
use crate::{Error, drive, plan_context, plan_registry, subplan};

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

impl Harness {
    /// Returns a step that waits for its sub-plan although the sub-plan can continue.
    pub(crate) fn plan_goes_on(&self, run: &Run) -> Option<StepNumber> {
        let waiting = run.steps().map(|(step, _)| step.number).filter(|step| run.waits_for_its_plan(*step));
        waiting
            .into_iter()
            .find(|step| run.carried_by(*step).is_some_and(|plan| self.held_up(plan).is_none()))
    }

    /// Returns started plans of this folder that have this plan as a sub-plan, directly or indirectly.
    pub(crate) fn plans_above(&self) -> Result<Vec<PlanId>, Error> {
        let mut begun: Vec<(PlanId, String, Vec<String>)> = Vec::new();
        for id in self.log().plans()? {
            let Some(place) = plan_registry::find(self.state(), &id) else { continue };
            if place.path.parent() != Some(self.place().dir.as_path()) {
                continue;
            }
            // A plan that cannot be read starts nothing.
            let Ok(run) = journal::read(self.log(), &id) else { continue };
            let carried = run.plan.steps.iter().filter_map(Step::carried_by).map(str::to_owned);
            let carried: Vec<String> = carried.collect();
            if run.started() && !carried.is_empty() {
                begun.push((id, place.name, carried));
            }
        }
        let (mut names, mut above) = (vec![self.place().slug.clone()], Vec::new());
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

    /// Opens the sub-plan of a step of this plan.
    fn below(&self, plan: &str, errand: Option<(&SubplanRequest, &Usage)>) -> Result<Harness, Error> {
        let place = plan_file::beside(self.place(), plan)?;
        let id = plan_file::id(&place);
        let above = self.within.as_ref().map(|within| within.plans.clone()).unwrap_or_default();
        let plans: Vec<PlanId> = above.into_iter().chain([self.id().clone()]).collect();
        if plans.contains(&id) {
            return Err(Error::CarriesItself { plan: plan.to_owned() });
        }
        let site = self.site();
        let settings = EngineSettings {
            cwd: place.workspace.clone(),
            state: self.state().to_owned(),
            plan: None,
            launcher: site.launcher.clone(),
            stop: site.stop.clone(),
            environment: site.environment.clone(),
        };
        let own = self.place();
        let files = self.within.iter().flat_map(|within| within.files.clone());
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
        below.tell_of_plans_below(self.told());
        Ok(below)
    }

    /// Returns the state of this sub-plan before anything of it starts. Its policies may approve it.
    fn standing(&self) -> Result<(Run, Standing), Error> {
        let name = &self.place().name;
        let run = match self.bring_up() {
            Ok((run, _)) => run,
            Err(Error::Diagnosed { .. }) => {
                let words = format!("{name} has errors: `provost verify {name}` names them");
                return Ok((self.run()?, Standing::Waits(words)));
            }
            Err(error) => return Err(error),
        };
        let rejected = |run: &Run| {
            let (revision, reason) = run.rejection.as_ref()?;
            (*revision == run.revision).then(|| format!("it was rejected: {reason}"))
        };
        let run = match run.stage {
            Stage::Verified if rejected(&run).is_none() => self.ask_policies(&run)?.0,
            _ => run,
        };
        let standing = match run.stage {
            Stage::Draft | Stage::Verified => match rejected(&run) {
                Some(reason) => Standing::Failed(reason),
                None => {
                    self.request_approval()?;
                    let revision = run.revision.short();
                    Standing::Waits(format!(
                        "{name} is not approved: `provost show {name}`, then `provost approve {name} --revision {revision}`"
                    ))
                }
            },
            Stage::Approved | Stage::InProgress => match self.is_idle(&run) {
                true => Standing::Waits(self.waits_for(&run)?),
                false => match self.dependencies_are_done(&run) {
                    Err(Error::Refused(refusal)) => Standing::Waits(format!("{name}: {refusal}")),
                    ready => ready.map(|()| Standing::Ready)?,
                },
            },
            Stage::Done => Standing::Done,
            Stage::Failed => Standing::Failed(self.why_failed(&run)?),
        };
        Ok((run, standing))
    }

    fn is_idle(&self, run: &Run) -> bool {
        let now = plan_context::now();
        schedule::next(run, &InHand::default(), 1, now).is_empty()
            && schedule::wakes(run, now).is_none()
            && self.plan_goes_on(run).is_none()
    }

    /// Describes what a person has to answer in this plan.
    fn waits_for(&self, run: &Run) -> Result<String, Error> {
        let name = &self.place().name;
        let items = self.items(run)?;
        let Some(item) = items.first() else { return Ok(format!("{name} waits: `provost status {name}`")) };
        let choices: Vec<&str> = item.choices.iter().map(|offer| offer.choice).collect();
        Ok(format!("in {name}, {item}; `provost answer {} {}`", item.id, choices.join("|")))
    }

    /// Describes which step failed and how, or which postcondition does not hold.
    fn why_failed(&self, run: &Run) -> Result<String, Error> {
        let broke = run.postconditions().find_map(|(post, state)| match state {
            PostState::Broke(verdict) => {
                Some(format!("its postcondition {} {}", post.number, verdict.outcome))
            }
            PostState::Open | PostState::Held(_) => None,
        });
        if let Some(broke) = broke {
            return Ok(broke);
        }
        let query = Query {
            names: vec!["TASK_FAILED".to_owned()],
            newest_first: true,
            limit: Some(1),
            ..Query::plan(self.id())
        };
        let mut why = "it failed".to_owned();
        self.each(&query, &mut |sealed| {
            if let Ok(Event::StepFailed { step, error }) = sealed.event() {
                why = format!("its step {step} “{}”: {error}", run.title(step).unwrap_or_default());
            }
            ControlFlow::Break(())
        })?;
        Ok(why)
    }

    /// Runs this sub-plan until it stops.
    fn carried(&self) -> Result<(Run, Standing), Error> {
        let (run, standing) = self.standing()?;
        if !matches!(standing, Standing::Ready) {
            return Ok((run, standing));
        }
        self.ready_to_drive(&run)?;
        let leash = self.within.as_ref().map(|within| &within.leash);
        let told = self.told();
        let (run, rest) = self.drive_for(&Worker::Agents { jobs: 1 }, &mut |run, sealed, event| {
            if let Some(leash) = leash {
                leash.hear(event);
            }
            if let Some(told) = &told {
                told(&self.place().name, run, sealed, event);
            }
        })?;
        let name = &self.place().name;
        let stopped = leash.is_some_and(SubplanLimits::is_at_its_end) && !self.is_stopped();
        let standing = match rest {
            Rest::Interrupted if stopped && leash.is_some_and(SubplanLimits::is_out_of_time) => {
                Standing::Failed("its time is up".to_owned())
            }
            Rest::Interrupted if stopped => Standing::Stopped,
            Rest::Interrupted => Standing::Interrupted,
            Rest::LawChanged(changes) => Standing::Waits(format!(
                "the file of {name} is not what was approved ({}): restore it, or approve what it says now",
                changes.join("; ")
            )),
            Rest::Nothing => match run.stage {
                Stage::Done => Standing::Done,
                Stage::Failed => Standing::Failed(self.why_failed(&run)?),
                Stage::Draft => Standing::Failed("it went back to draft".to_owned()),
                Stage::Verified | Stage::Approved | Stage::InProgress => {
                    Standing::Waits(self.waits_for(&run)?)
                }
            },
        };
        Ok((run, standing))
    }

    /// Returns when the current attempt started.
    fn begun_at(&self, errand: &SubplanRequest) -> Result<Timestamp, Error> {
        let query = Query {
            step: Some(errand.step),
            names: vec!["TASK_STARTED".to_owned()],
            newest_first: true,
            limit: Some(1),
            ..Query::plan(self.id())
        };
        let mut at = plan_context::now();
        self.each(&query, &mut |sealed| {
            at = sealed.at;
            ControlFlow::Break(())
        })?;
        Ok(at)
    }

    /// Returns what this plan has used since then: zero if no agent was called, unknown if an attempt was
    /// lost in a crash.
    fn used_since(&self, since: Timestamp) -> Result<Usage, Error> {
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
        self.each(&Query { since: Some(since), ..Query::plan(self.id()) }, &mut |sealed| {
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

    fn run_errand(&self, errand: &SubplanRequest) -> Result<(Standing, Usage, Run), Error> {
        let since = self.begun_at(errand)?;
        let spent = self.below(&errand.plan, None)?.used_since(since)?;
        let below = self.below(&errand.plan, Some((errand, &spent)))?;
        let (run, standing) = below.carried()?;
        Ok((standing, below.used_since(since)?, run))
    }
}

impl SubplanRunner for Harness {
    fn held_up(&self, plan: &str) -> Option<String> {
        match self.below(plan, None).and_then(|below| below.standing()) {
            Ok((_, Standing::Waits(reason))) => Some(reason),
            // Other problems show when the sub-plan starts, as an ordinary failure.
            Ok(_) | Err(_) => None,
        }
    }

    fn carry_out(&self, errand: &SubplanRequest) -> Vec<TaskOutcome> {
        let begun = Instant::now();
        let SubplanRequest { step, attempt, .. } = *errand;
        let plan = errand.plan.clone();
        let (standing, usage, run) = match self.run_errand(errand) {
            Ok(carried) => carried,
            Err(error) => (Standing::Failed(error.to_string()), Usage::default(), Run::default()),
        };
        let end = match standing {
            Standing::Interrupted => return Vec::new(),
            Standing::Done | Standing::Ready => AttemptEnd::Exited { exit_code: 0 },
            Standing::Failed(reason) => {
                AttemptEnd::PlanFailed { plan: plan.clone(), reason: self.clean(&reason) }
            }
            Standing::Waits(reason) => {
                AttemptEnd::PlanWaits { plan: plan.clone(), reason: self.clean(&reason) }
            }
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
