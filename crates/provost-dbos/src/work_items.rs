//! A plan that several processes work on. One of them decides what is next and offers it ([`turn`]);
//! the process that takes an item performs it and reports the outcome ([`carry_out_item`]).
//!
//! Rules, executor and log are those of a run on one machine; only the callers differ. Every turn and every
//! item holds the plan's lease and writes with its fence, so a process that was declared dead and returns
//! cannot write.
//!
//! An attempt whose agent works in a tree of its own, behind a fence of the kernel, holds the lease of its step
//! instead while the agent works, so that others work on the plan meanwhile. Its outcome is written with the
//! plan's lease, in a transaction that fails unless the item is still taken under the lease of the step.
//!
//! **Invariant:** an offer and its events are written in one transaction; so are the end of an item and the
//! next wake-up of the plan.
//! **Invariant:** a lost attempt is judged under the lease of its step, so never while its worker still has it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::{Head, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::Action;
use provost_core::state::run::{Run, Stage};
use provost_engine::exec::executor::{Executor, TaskInput};
use provost_engine::plan::harness::{Harness, step_lease};
use provost_engine::plan::plan_context;
use provost_engine::plan::subplan::SubplanRunner;
use provost_engine::run::run_strategy::{AttestedLevel, RunResult, RunStrategy};
use provost_engine::run::{run_environment, run_plan, starting};
use provost_engine::run_loop::world::{TaskOutcome, World};
use provost_engine::run_loop::{Continues as _, Drive, Rest};
use provost_engine::{Error, journal};
use provost_host::config::Demand;
use provost_host::exec::environment::{self, RunPaths};
use provost_host::tree::Trees;
use provost_store::{Effect, Error as StoreError, Fence, Holder, Lease};

use crate::continuation::Stint;
use crate::open_items::OpenItems;
use crate::outpost::Outpost;
use crate::worker_context::OpenPlan;

/// The process that offered an item may still hold the plan for a moment.
const MOMENT: Duration = Duration::from_secs(2);
/// Validity of a self-test.
const GOOD_FOR: Duration = Duration::from_secs(300);
/// How long a worker that was asked to stop waits for the plan's lease, to report an attempt.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Returns the effects to write with a decision: the offered items, and the time of the next tick.
pub(crate) type OfferEffects<'a> = dyn FnMut(&Run, &[WorkItem], Option<Timestamp>) -> Vec<Effect> + 'a;

/// Returns what is in hand of a plan; `None` if this is unknown.
pub(crate) type AskOpenItems<'a> = dyn Fn() -> Option<OpenItems> + 'a;

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
    /// A budget of all plans is used up, for this reason. The plan is woken when it is raised.
    OverBudget(String),
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

fn trees_of(harness: &Harness) -> Result<Trees, Error> {
    Ok(environment::trees_of(&harness.place().workspace, harness.state())?)
}

/// An item to perform: who takes it, and what follows from it.
struct Share<'a> {
    item: WorkItem,
    outpost: Option<&'a Outpost>,
    stint: &'a Stint<'a>,
    jobs: usize,
    carried: Cell<ItemResult>,
    /// The attempt to perform without the plan's lease, and later its outcome.
    aside: RefCell<Option<TaskInput>>,
    outcome: RefCell<Option<Vec<TaskOutcome>>>,
}

impl Share<'_> {
    /// Returns whether the item is an attempt to perform without the plan's lease.
    fn is_apart(&self, run: &Run) -> bool {
        let is_attempt = matches!(self.item, WorkItem::Attempt { .. });
        let is_apart = self.item.action().is_some_and(|action| action.is_apart(run));
        self.jobs > 1 && is_attempt && is_apart
    }

    /// Takes the lease of the step if the item needs it.
    fn take_step(&self, harness: &Harness, run: &Run) -> Result<Option<Lease>, Error> {
        let step = match self.item {
            WorkItem::Attempt { step, .. } if self.is_apart(run) => step,
            WorkItem::JudgeLost { step, .. } => step,
            _ => return Ok(None),
        };
        let name = step_lease(harness.id(), step);
        Ok(Some(harness.log().lease(&name, &Holder::here(name.clone(), plan_context::now()))?))
    }
}

impl RunStrategy for Share<'_> {
    /// An attempt that has ended waits as long as another task of the plan takes.
    fn patience(&self, configured: Duration) -> Duration {
        if self.outcome.borrow().is_some() { Duration::MAX } else { configured.max(MOMENT) }
    }

    fn last_patience(&self) -> Duration {
        if self.outcome.borrow().is_some() { LAST_WORD } else { Duration::ZERO }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn jobs(&self) -> usize {
        self.jobs
    }

    fn executor<'a>(&self, executor: Executor<'a>) -> Executor<'a> {
        executor.side_by_side(self.jobs > 1)
    }

    fn starts_agents(&self) -> bool {
        true
    }

    /// Returns the run if nothing has to be done: another process took the item, or it is no longer due.
    fn begin(&self, harness: &Harness, fence: &Fence) -> Result<Option<Run>, Error> {
        let mut run = harness.genuine()?;
        run_environment::can_see_the_work(harness, &run)?;
        if self.outcome.borrow().is_some() {
            self.stint.holds(fence);
            return Ok(None);
        }
        // Fetch before claiming, so that an item whose trees are unavailable is offered again.
        let needs_trees = !matches!(self.item, WorkItem::Attest | WorkItem::End);
        if let Some(outpost) = self.outpost.filter(|_| needs_trees) {
            outpost.fetch_trees(&trees_of(harness)?, harness.id(), &run, self.item.step())?;
        }
        let step = self.take_step(harness, &run)?;
        if !self.stint.take(fence, step) {
            self.carried.set(ItemResult::Taken);
            return Ok(Some(run));
        }
        if self.item == WorkItem::Attest || self.item.due(&run, plan_context::now()).is_some() {
            return Ok(None);
        }
        self.carried.set(ItemResult::PassedOver);
        harness.append_with(&mut run, &[], Some(fence), &self.stint.ends(self.item))?;
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
        let done = self.outcome.take();
        // The lease of the step is held only if the attempt was one of these when it was taken.
        let is_aside = done.is_none() && self.is_aside() && self.is_apart(&run);
        let due = self.item.due(&run, plan_context::now()).filter(|_| is_aside);
        if let Some(action) = due {
            self.aside.replace(Some(drive.world.set_out(drive.world.order(&run, action))));
            return Ok((run, Rest::Nothing));
        }
        drive.items(run, head, self.item, done, &self.stint.ends(self.item), Some(self.stint))
    }

    fn is_aside(&self) -> bool {
        self.stint.is_aside()
    }

    fn aside(&self) -> Option<TaskInput> {
        self.aside.take()
    }

    fn comes_back(&self, outcomes: Vec<TaskOutcome>) {
        self.outcome.replace(Some(outcomes));
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
    in_hand: &AskOpenItems<'_>,
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
            let is_given = in_hand().is_some_and(|open| open.is_held);
            return Ok(if is_given { PassResult::Idle } else { PassResult::Busy });
        }
        taken => taken?,
    };
    let Some(open) = in_hand() else { return Ok(PassResult::Busy) };
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
    let known = open.in_hand(None);
    let drive = Drive {
        log: harness.log(),
        plan: harness.id(),
        fence: Some(lease.fence().clone()),
        world: &Overseer { harness },
        jobs: open.jobs,
        watch: &mut |_: &Run, _: &SealedEvent, _: &Event| {},
    };
    Ok(match drive.announce(run, head, known, &mut effects)? {
        None => PassResult::Moved,
        Some((_, Rest::LawChanged(_))) => PassResult::LawChanged,
        Some(_) if offered => PassResult::Offered,
        Some((_, Rest::OverBudget(why))) => PassResult::OverBudget(why),
        Some(_) => PassResult::Idle,
    })
}

/// Takes an item, performs it, and makes its outcome durable. The stint decides whether to continue with what
/// follows. `jobs` is the number of items of the plan that may be in hand.
pub(crate) fn carry_out_item(
    plan: &OpenPlan,
    item: WorkItem,
    jobs: usize,
    stint: &Stint<'_>,
) -> Result<ItemResult, Error> {
    let OpenPlan { harness, outpost, .. } = plan;
    let outpost = outpost.as_deref();
    let (aside, outcome) = Default::default();
    let carried = Cell::new(ItemResult::Done);
    let share = Share { item, outpost, stint, jobs, carried, aside, outcome };
    let (run, rest) = run_plan::drive_for(harness, &share, &mut |_, _, _| {})?;
    if let (Some(outpost), WorkItem::End, Stage::Done) = (outpost, item, run.stage) {
        outpost.forget_attempts(harness.state(), harness.id());
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
