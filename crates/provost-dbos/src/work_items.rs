//! A plan that several processes work on. One of them decides what is next and offers it ([`turn`]);
//! the process that takes an item performs it and reports the outcome ([`carry_out_item`]).
//!
//! Rules, executor and log are those of a run on one machine; only the callers differ. Every turn and every
//! item holds the plan's lease and writes with its fence, so a process that was declared dead and returns
//! cannot write.
//!
//! **Invariant:** an offer and its events are written in one transaction; so are the end of an item and the
//! next wake-up of the plan.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::{Head, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::{Action, InHand};
use provost_core::state::run::{Run, Stage};
use provost_engine::exec::executor::Executor;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::plan_context;
use provost_engine::plan::subplan::SubplanRunner;
use provost_engine::run::run_strategy::{AttestedLevel, RunResult, RunStrategy};
use provost_engine::run::{run_environment, run_plan, starting};
use provost_engine::run_loop::world::{TaskOutcome, World};
use provost_engine::run_loop::{Continues, Drive, Rest};
use provost_engine::{Error, journal};
use provost_host::config::Demand;
use provost_host::exec::environment::{self, RunPaths};
use provost_host::tree::Trees;
use provost_store::{Effect, Error as StoreError, Fence, Holder};

use crate::outpost::Outpost;

/// The process that offered an item may still hold the plan for a moment.
const MOMENT: Duration = Duration::from_secs(2);
/// Validity of a self-test.
const GOOD_FOR: Duration = Duration::from_secs(300);
/// Items of a plan that run at a time; one, because the plan has one workspace.
const JOBS: usize = 1;

/// Returns the effects to write with a decision: the offered items, and the time of the next tick.
pub(crate) type OfferEffects<'a> = dyn FnMut(&Run, &[WorkItem], Option<Timestamp>) -> Vec<Effect> + 'a;

/// Returns the items of a plan that were offered and are not done; `None` if this is unknown.
pub(crate) type OpenItems<'a> = dyn Fn() -> Option<Vec<WorkItem>> + 'a;

/// Result of a scheduling pass over a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PassResult {
    /// The due items were offered.
    Offered,
    /// Nothing is due, or a process works on it and will report.
    Idle,
    /// A process outside the cluster or one that is not finished holds the plan, or a plan it depends on is
    /// not done.
    Busy,
    /// Another process wrote meanwhile; the plan must be scheduled again.
    Moved,
    /// The plan file differs from the approved spec.
    LawChanged,
}

/// Result of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemResult {
    Done,
    /// It was no longer due.
    PassedOver,
    /// Another process had taken it.
    Taken,
    /// It was done, and the plan file differs from the approved spec.
    LawChanged,
}

/// A plan that this worker has opened.
pub(crate) struct OpenPlan {
    pub harness: Harness,
    /// Set if this machine does not have the workspace of the plan.
    pub outpost: Option<Arc<Outpost>>,
}

fn trees_of(harness: &Harness) -> Result<Trees, Error> {
    Ok(environment::trees_of(&harness.place().workspace, harness.state())?)
}

/// An item to perform: who may take it, and what follows from it.
struct Share<'a> {
    item: WorkItem,
    outpost: Option<&'a Outpost>,
    /// Takes the item for the holder of this lease. Called after the lease is taken and before anything
    /// starts.
    claim: &'a dyn Fn(&Fence) -> bool,
    effects: &'a [Effect],
    next: Option<&'a dyn Continues>,
    carried: Cell<ItemResult>,
}

impl RunStrategy for Share<'_> {
    fn patience(&self, configured: Duration) -> Duration {
        configured.max(MOMENT)
    }

    fn starts_agents(&self) -> bool {
        true
    }

    /// Returns the run if nothing has to be done: another process took the item, or it is no longer due.
    fn begin(&self, harness: &Harness, fence: &Fence) -> Result<Option<Run>, Error> {
        let mut run = harness.genuine()?;
        run_environment::can_see_the_work(harness, &run)?;
        // Fetch before claiming, so that an item whose trees are unavailable is offered again.
        let needs_trees = !matches!(self.item, WorkItem::Attest | WorkItem::End);
        if let Some(outpost) = self.outpost.filter(|_| needs_trees) {
            outpost.fetch_trees(&trees_of(harness)?, harness.id(), &run)?;
        }
        if !(self.claim)(fence) {
            self.carried.set(ItemResult::Taken);
            return Ok(Some(run));
        }
        if self.item == WorkItem::Attest || self.item.due(&run, plan_context::now()).is_some() {
            return Ok(None);
        }
        self.carried.set(ItemResult::PassedOver);
        harness.append_with(&mut run, &[], Some(fence), self.effects)?;
        Ok(Some(run))
    }

    fn attest(&self, demand: Demand, paths: &RunPaths<'_>, plan: &Path) -> Result<AttestedLevel, Error> {
        attest(demand, paths, plan)
    }

    /// Several processes work on one run: the level is recorded again only if it differs. An attempt is then
    /// given back, because it must not run at another level than it was started for.
    fn before_attestation(&self, run: &Run, is_known: bool) -> Result<Option<Vec<Event>>, Error> {
        if is_known {
            return Ok(None);
        }
        match self.item {
            WorkItem::Attempt { step, attempt } | WorkItem::TakeUp { step, attempt } => {
                Ok(Some(decide::harness(run, HarnessCommand::AttemptInterrupted { step, attempt })?))
            }
            WorkItem::Attest | WorkItem::Judge { .. } | WorkItem::JudgeLost { .. } | WorkItem::End => {
                Ok(Some(Vec::new()))
            }
        }
    }

    /// Performs what is due of the item on the current state.
    fn drive(&self, drive: Drive<'_, Executor<'_>>, run: Run, head: Head) -> RunResult {
        drive.items(run, head, self.item, self.effects, self.next)
    }

    fn keeps_check_folders(&self) -> bool {
        true
    }
}

/// Schedules the plan and offers the next items. `in_hand` returns the items that were offered and are
/// not done. It is called while the lease is held, so that no process can offer or take one meanwhile;
/// older knowledge could count an item as lost that another process has just taken.
pub(crate) fn turn(
    harness: &Harness,
    in_hand: &OpenItems<'_>,
    offer: &mut OfferEffects<'_>,
) -> Result<PassResult, Error> {
    let run = harness.genuine()?;
    if !matches!(run.stage, Stage::Approved | Stage::InProgress) {
        return Ok(PassResult::Idle);
    }
    match starting::ready_to_drive(harness, &run) {
        // The plan is scheduled again later; the other plan may be done by then.
        Err(Error::Refused(Refusal::DependsOn { .. })) => return Ok(PassResult::Busy),
        ready => ready?,
    }
    let name = format!("plan {}", harness.id());
    let lease = match harness.log().lease(&name, &Holder::here(name.clone(), plan_context::now())) {
        Err(StoreError::LeaseHeld { .. }) => {
            let is_given = in_hand().is_some_and(|items| items.len() >= JOBS);
            return Ok(if is_given { PassResult::Idle } else { PassResult::Busy });
        }
        taken => taken?,
    };
    let Some(in_hand) = in_hand() else { return Ok(PassResult::Busy) };
    if in_hand.len() >= JOBS {
        return Ok(PassResult::Idle);
    }
    let (mut run, mut head) = journal::replay(harness.log(), harness.id(), &mut |_, _, _| {})?;
    while let Some(step) = harness.resumable_step(&run) {
        let events = decide::harness(&run, HarnessCommand::PlanGoesOn { step })?;
        let sealed = harness.append_with(&mut run, &events, Some(lease.fence()), &[])?;
        head = sealed.last().map_or(head, |last| Head { seq: last.seq, hash: last.hash });
    }
    let mut offered = false;
    let mut effects = |run: &Run, begun: &[Action], wake: Option<Timestamp>| {
        let mut items: Vec<WorkItem> = begun.iter().filter_map(|action| WorkItem::of(run, *action)).collect();
        if run.isolation.is_none() && items.is_empty() {
            items.push(WorkItem::Attest);
        }
        offered |= !items.is_empty();
        offer(run, &items, wake)
    };
    if run.isolation.is_none() {
        let effects = effects(&run, &[], None);
        harness.append_with(&mut run, &[], Some(lease.fence()), &effects)?;
        return Ok(PassResult::Offered);
    }
    let mut known = InHand::default();
    in_hand.iter().filter_map(|item| item.action()).for_each(|action| known.take(action));
    let drive = Drive {
        log: harness.log(),
        plan: harness.id(),
        fence: Some(lease.fence().clone()),
        world: &Overseer { harness },
        jobs: JOBS,
        watch: &mut |_: &Run, _: &SealedEvent, _: &Event| {},
    };
    Ok(match drive.announce(run, head, known, &mut effects)? {
        None => PassResult::Moved,
        Some((_, Rest::LawChanged(_))) => PassResult::LawChanged,
        Some(_) if offered => PassResult::Offered,
        Some(_) => PassResult::Idle,
    })
}

/// Performs one item and makes its outcome durable together with `effects`. Calls `claim` first, and asks
/// `next` whether to continue with what follows.
pub(crate) fn carry_out_item(
    plan: &OpenPlan,
    item: WorkItem,
    claim: &dyn Fn(&Fence) -> bool,
    effects: &[Effect],
    next: Option<&dyn Continues>,
) -> Result<ItemResult, Error> {
    let OpenPlan { harness, outpost } = plan;
    let outpost = outpost.as_deref();
    let share = Share { item, outpost, claim, effects, next, carried: Cell::new(ItemResult::Done) };
    let (run, rest) = run_plan::drive_for(harness, &share, &mut |_, _, _| {})?;
    if let (Some(outpost), WorkItem::End, Stage::Done) = (outpost, item, run.stage) {
        outpost.forget_attempts(&trees_of(harness)?, harness.id(), &run);
    }
    match rest {
        Rest::LawChanged(_) => Ok(ItemResult::LawChanged),
        _ => Ok(share.carried.into_inner()),
    }
}

/// Returns the attested isolation, from a new self-test or a recent one. A process that performs many items
/// of a plan tests itself as often as one that runs the plan as a whole.
fn attest(demand: Demand, estate: &RunPaths<'_>, plan: &Path) -> Result<AttestedLevel, Error> {
    static SEEN: Mutex<BTreeMap<PathBuf, (Instant, Demand, AttestedLevel)>> = Mutex::new(BTreeMap::new());
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, wanted, attested)) = seen().get(plan)
        && at.elapsed() < GOOD_FOR
        && *wanted == demand
    {
        return Ok(attested.clone());
    }
    let attested = environment::attest(demand, estate)?;
    let mut seen = seen();
    seen.retain(|_, (at, ..)| at.elapsed() < GOOD_FOR);
    seen.insert(plan.to_owned(), (Instant::now(), demand, attested.clone()));
    Ok(attested)
}

/// Removes the folders that checks ran in; called once, when this process performs no more items.
pub(crate) fn leave() {
    provost_host::check::judge::leave();
}

/// Sees what is to be done and performs none of it.
struct Overseer<'a> {
    harness: &'a Harness,
}

impl World for Overseer<'_> {
    type Order = ();

    fn now(&self) -> Timestamp {
        plan_context::now()
    }

    fn wait(&self, _until: Timestamp) {}

    fn recipes(&self) -> &Recipes {
        &self.harness.config().recipes
    }

    fn law_changes(&self, run: &Run) -> Option<Vec<String>> {
        self.harness.site().law_changes(run)
    }

    fn held_up(&self, run: &Run, step: StepNumber) -> Option<String> {
        SubplanRunner::held_up(self.harness, run.carried_by(step)?)
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn ends(&self) -> bool {
        false
    }

    fn order(&self, _run: &Run, _action: Action) {}

    fn perform(&self, _order: ()) -> Vec<TaskOutcome> {
        Vec::new()
    }
}
