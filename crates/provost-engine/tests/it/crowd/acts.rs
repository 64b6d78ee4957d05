//! The acts of a worker for a plan, split where other workers can interfere: it takes a lease, time passes,
//! and then it writes. Scheduling passes and items follow `provost_dbos` and the engine's `share.rs`; the
//! loop is the engine's.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::{Head, PlanId};
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::{Action, InHand};
use provost_core::state::run::{Run, Stage};
use provost_engine::run_loop::world::{TaskOutcome, World};
use provost_engine::run_loop::{Continues, Drive, Follows, Rest};
use provost_store::{Effect, Error as StoreError, Fence};

use super::database::{Database, Line, Name, TTL, end};
use super::{Crowd, JOBS, Next, workspace};
use crate::sim::{Died, SimWorld};

/// The next act of a worker for a plan.
pub(super) struct Act {
    pub desk: usize,
    pub worker: Name,
    pub row: u64,
    pub plan: usize,
    pub stage: Doing,
}

pub(super) enum Doing {
    Looks {
        tries: u32,
    },
    Decides {
        fence: Fence,
        in_hand: InHand,
        run: Run,
        head: Head,
    },
    Has(WorkItem),
    /// It holds the plan's lease, and also `apart` if it reports an attempt that was made without it.
    Works {
        fence: Fence,
        item: WorkItem,
        action: Action,
        run: Run,
        head: Head,
        apart: Option<Apart>,
    },
    /// Its agent works in a tree of its own, under the lease of the step.
    Apart {
        item: WorkItem,
        action: Action,
        apart: Apart,
    },
}

/// An attempt that is made without the plan's lease.
pub(super) struct Apart {
    pub own: Fence,
    order: <SimWorld as World>::Order,
}

/// The world of a worker: the plan's workspace, and the worker's own clock.
struct Member<'a> {
    site: &'a SimWorld,
    now: Timestamp,
    only_looks: bool,
}

impl World for Member<'_> {
    type Order = Option<<SimWorld as World>::Order>;

    fn now(&self) -> Timestamp {
        self.now
    }

    fn wait(&self, _until: Timestamp) {}

    fn recipes(&self) -> &Recipes {
        self.site.recipes()
    }

    fn law_changes(&self, _run: &Run) -> Option<Vec<String>> {
        None
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn ends(&self) -> bool {
        !self.only_looks
    }

    fn order(&self, run: &Run, action: Action) -> Self::Order {
        (!self.only_looks).then(|| self.site.order(run, action))
    }

    fn perform(&self, order: Self::Order) -> Vec<TaskOutcome> {
        self.site.perform(order.expect("whoever only looks does nothing"))
    }
}

impl Crowd {
    /// Lets the agent of a dead worker finish its work, sometimes.
    pub(super) fn left_by_the_dead(&mut self, act: &Act) {
        let attempt = match &act.stage {
            Doing::Works { action: Action::Dispatch { step }, fence, apart, .. } => {
                Some((*step, apart.as_ref().map_or(fence, |apart| &apart.own).clone()))
            }
            Doing::Apart { action: Action::Dispatch { step }, apart, .. } => Some((*step, apart.own.clone())),
            _ => None,
        };
        if let Some((step, fence)) = attempt
            && self.db().is_last(&fence)
            && self.dice.chance(50)
        {
            let mut truth = self.sites[act.plan].world.truth();
            truth.done.insert(step.0);
            truth.ever.insert(step.0);
        }
    }

    pub(super) fn finish(&mut self, act: &Act) {
        self.db().rows.remove(&act.row);
        if self.desks[act.desk].name == act.worker {
            self.desks[act.desk].acts -= 1;
        }
    }

    fn world(&self, act: &Act, only_looks: bool) -> Member<'_> {
        let now = self.db().now.saturating_add_signed(self.desks[act.desk].ahead);
        Member { site: &self.sites[act.plan].world, now: Timestamp(now), only_looks }
    }

    /// Returns whether the worker dies before the next append, and whether after it.
    fn dies(&mut self) -> (bool, bool) {
        match self.is_restless() {
            true => (self.dice.chance(2), self.dice.chance(2)),
            false => (false, false),
        }
    }

    fn line(&self, act: &Act, dies: (bool, bool)) -> Line<'_> {
        let log = self.db().plans[act.plan].log.clone();
        Line { database: &self.database, plan: act.plan, log, dies }
    }

    /// Does a scheduling pass, like `provost_dbos::tick` and `Harness::turn`.
    pub(super) fn look(&mut self, mut act: Act) {
        let Doing::Looks { tries } = &mut act.stage else { unreachable!() };
        *tries += 1;
        let tries = *tries;
        self.sites[act.plan].looks += u64::from(tries == 1);
        let run = self.sites[act.plan].run.clone();
        if !matches!(run.stage, Stage::Approved | Stage::InProgress) {
            return self.finish(&act);
        }
        let taken = self.db().lease(act.plan, act.worker);
        let (in_hand, is_held) = (self.in_hand(act.plan, None), self.db().is_held(act.plan));
        match taken {
            Some(fence) => {
                act.stage = Doing::Decides { fence, in_hand, run, head: self.sites[act.plan].head };
                self.hold(act);
            }
            None if is_held => self.finish(&act),
            None if tries < 30 => self.after(act, 50),
            None => {
                let soon = self.db().now + 1_000;
                self.db().wake(act.plan, soon);
                self.finish(&act);
            }
        }
    }

    fn in_hand(&self, plan: usize, done: Option<WorkItem>) -> InHand {
        in_hand(&self.db(), plan, done)
    }

    fn hold(&mut self, act: Act) {
        self.then(act);
        self.soon(Next::Renew(self.numbers - 1), TTL / 3);
    }

    pub(super) fn decide(&mut self, mut act: Act) {
        let stage = std::mem::replace(&mut act.stage, Doing::Looks { tries: 0 });
        let Doing::Decides { fence, in_hand, run, head } = stage else { unreachable!() };
        let plan = self.db().plans[act.plan].id.clone();
        let dies = self.dies();
        let line = self.line(&act, dies);
        let world = self.world(&act, true);
        let announced = catch_unwind(AssertUnwindSafe(|| {
            let watch = &mut |_: &Run, _: &_, _: &_| {};
            let drive = Drive {
                log: &line,
                plan: &plan,
                fence: Some(fence.clone()),
                world: &world,
                jobs: JOBS,
                watch,
            };
            drive.announce(run, head, in_hand, &mut |run, begun, wake| {
                let items: Vec<WorkItem> =
                    begun.iter().filter_map(|action| WorkItem::of(run, *action)).collect();
                offers(&plan, run, &items, wake)
            })
        }));
        match announced {
            Err(panic) => self.died(&act, panic),
            Ok(Ok(Some((_, rest)))) => {
                assert_eq!(rest, Rest::Nothing);
                self.db().release(&fence);
                self.finish(&act);
            }
            Ok(Ok(None)) => {
                self.tally.conflicts += 1;
                self.db().release(&fence);
                self.then(act);
            }
            Ok(Err(provost_engine::Error::Store(StoreError::Fenced { .. }))) => {
                self.tally.refused += 1;
                let later = self.db().now + 15_000;
                self.db().wake(act.plan, later);
                self.finish(&act);
            }
            Ok(Err(error)) => panic!("{plan}: {error}"),
        }
    }

    /// Takes an item, like `provost_dbos::item` and `Harness::carry_out_item`.
    pub(super) fn take(&mut self, mut act: Act) {
        let Doing::Has(item) = act.stage else { unreachable!() };
        if !self.db().is_offered(act.plan, item, act.row) {
            return self.finish(&act);
        }
        let taken = self.db().lease(act.plan, act.worker);
        let Some(fence) = taken else {
            self.db().give_back(act.plan, item, act.row, 500);
            return self.finish(&act);
        };
        let (run, head) = (self.sites[act.plan].run.clone(), self.sites[act.plan].head);
        let Ok(own) = self.take_step(&act, item, &run) else {
            self.db().release(&fence);
            self.db().give_back(act.plan, item, act.row, 500);
            return self.finish(&act);
        };
        let is_apart = own.is_some() && matches!(item, WorkItem::Attempt { .. });
        let under = own.clone().filter(|_| is_apart).unwrap_or_else(|| fence.clone());
        let is_ours = self.db().take(act.plan, item, act.row, (act.worker, under));
        let Some(action) = item.due(&run, self.world(&act, false).now).filter(|_| is_ours) else {
            own.iter().filter(|_| !is_ours).for_each(|own| self.db().release(own));
            if is_ours {
                return self.write(act, (fence, own.filter(|_| is_apart)), item, (run, head), None);
            }
            self.db().release(&fence);
            return self.finish(&act);
        };
        if let Action::Dispatch { step } = action {
            let attempt = run.step(step).map_or(0, |step| step.attempts);
            let is_first = self.given.insert((act.plan, step.0, attempt));
            assert!(is_first, "attempt {attempt} of step {step} was given to two");
            assert!(!self.sites[act.plan].is_over(), "step {step} was given to an agent after the end");
        }
        // From now on the tree that the step starts with is on the disk.
        let order = self.sites[act.plan].world.order(&run, action);
        act.stage = match own.filter(|_| is_apart) {
            Some(own) => {
                let others = self.in_hand(act.plan, Some(item));
                let is_beside = others.iter().any(|other| matches!(other, Action::Dispatch { .. }));
                self.tally.beside += usize::from(is_beside);
                self.db().release(&fence);
                Doing::Apart { item, action, apart: Apart { own, order } }
            }
            None => Doing::Works { fence, item, action, run, head, apart: None },
        };
        self.hold(act);
    }

    /// Takes the lease of the step if the item needs it; an error if another worker has it.
    fn take_step(&mut self, act: &Act, item: WorkItem, run: &Run) -> Result<Option<Fence>, ()> {
        let is_apart = item.action().is_some_and(|action| action.is_apart(run));
        match item {
            WorkItem::Attempt { step, .. } if is_apart => {
                self.db().step_lease(act.plan, step, act.worker).map(Some).ok_or(())
            }
            WorkItem::JudgeLost { step, .. } => {
                self.db().step_lease(act.plan, step, act.worker).map(Some).ok_or(())
            }
            _ => Ok(None),
        }
    }

    /// Takes the plan's lease again when the agent has ended, to report it.
    pub(super) fn come_back(&mut self, mut act: Act) {
        let Some(fence) = self.db().lease(act.plan, act.worker) else { return self.hold(act) };
        let Doing::Apart { item, action, apart } =
            std::mem::replace(&mut act.stage, Doing::Has(WorkItem::End))
        else {
            unreachable!()
        };
        let (run, head) = (self.sites[act.plan].run.clone(), self.sites[act.plan].head);
        act.stage = Doing::Works { fence, item, action, run, head, apart: Some(apart) };
        self.hold(act);
    }

    pub(super) fn report(&mut self, mut act: Act) {
        let Doing::Works { fence, item, run, head, apart, .. } =
            std::mem::replace(&mut act.stage, Doing::Has(WorkItem::End))
        else {
            unreachable!()
        };
        let (own, order) = apart.map(|apart| (apart.own, apart.order)).unzip();
        self.write(act, (fence, own), item, (run, head), order);
    }

    /// Writes the result of an item, or that it is no longer due. `order` is that of an attempt that was made
    /// without the plan's lease.
    fn write(
        &mut self,
        act: Act,
        (fence, own): (Fence, Option<Fence>),
        item: WorkItem,
        (run, head): (Run, Head),
        order: Option<<SimWorld as World>::Order>,
    ) {
        let plan = self.db().plans[act.plan].id.clone();
        let effects = [end(item, own.as_ref()), Effect::Wake(plan.clone())];
        // If another worker has taken over, the agent of this one was ended, but it still reports.
        let name = item.to_string();
        let is_own = own.as_ref().is_none_or(|own| self.db().is_own(act.plan, &name, own));
        let is_last = self.db().is_last(&fence) && is_own;
        let goes_on = self.dice.chance(50);
        let ghost = workspace(self.dice.roll());
        let dies = self.dies();
        let line = self.line(&act, dies);
        let mut world = self.world(&act, false);
        if !is_last {
            world.site = &ghost;
        }
        let written = catch_unwind(AssertUnwindSafe(|| {
            let watch = &mut |_: &Run, _: &_, _: &_| {};
            let drive = Drive {
                log: &line,
                plan: &plan,
                fence: Some(fence.clone()),
                world: &world,
                jobs: JOBS,
                watch,
            };
            let done = order.map(|order| world.perform(Some(order)));
            let next = Decides { line: &line, plan: &plan, own: own.as_ref(), goes_on };
            drive.items(run, head, item, done, &effects, Some(&next))
        }));
        match written {
            Err(panic) => return self.died(&act, panic),
            Ok(Ok(_)) => assert!(is_last, "{item}: heard, though it was taken over from"),
            Ok(Err(provost_engine::Error::Store(StoreError::Fenced { .. }))) => self.tally.refused += 1,
            Ok(Err(error)) => panic!("{plan}: {item}: {error}"),
        }
        self.db().release(&fence);
        let step = match item {
            WorkItem::Attempt { step, .. } | WorkItem::JudgeLost { step, .. } => Some(step),
            _ => None,
        };
        step.iter().for_each(|step| self.db().release_step(act.plan, *step, act.worker));
        self.finish(&act);
    }

    fn died(&mut self, act: &Act, panic: Box<dyn std::any::Any + Send>) {
        if !panic.is::<Died>() {
            resume_unwind(panic);
        }
        self.kill(act.desk);
    }
}

/// Decides at the end of an item what follows, and offers it to all.
struct Decides<'a> {
    line: &'a Line<'a>,
    plan: &'a PlanId,
    own: Option<&'a Fence>,
    goes_on: bool,
}

impl Continues for Decides<'_> {
    fn goes_on(&self) -> bool {
        self.goes_on
    }

    fn in_hand(&self, done: WorkItem) -> Option<(InHand, usize)> {
        Some((in_hand(&self.line.database.lock().unwrap(), self.line.plan, Some(done)), JOBS))
    }

    fn offers(&self, run: &Run, done: WorkItem, follows: &Follows) -> Vec<Effect> {
        let offers = offers(self.plan, run, &follows.begun, follows.wake);
        std::iter::once(end(done, self.own)).chain(offers).collect()
    }

    fn has(&self, _begun: WorkItem) -> bool {
        false
    }

    fn ends(&self, item: WorkItem) -> Vec<Effect> {
        vec![end(item, self.own), Effect::Wake(self.plan.clone())]
    }

    fn is_over(&self, item: WorkItem) -> Vec<Effect> {
        vec![end(item, self.own)]
    }
}

/// Returns the tasks of a plan that are in hand beside `done`.
fn in_hand(database: &Database, plan: usize, done: Option<WorkItem>) -> InHand {
    let mut in_hand = InHand::default();
    let others = database.offered(plan).into_iter().filter(|item| Some(*item) != done);
    others.filter_map(WorkItem::action).for_each(|action| in_hand.take(action));
    in_hand
}

fn offers(plan: &PlanId, run: &Run, begun: &[WorkItem], wake: Option<Timestamp>) -> Vec<Effect> {
    let items = begun.iter().map(|item| Effect::Enqueue {
        pool: item.role(run).unwrap_or("judge").to_owned(),
        plan: plan.clone(),
        key: item.to_string(),
        body: String::new(),
        priority: 0,
    });
    let wake = wake.map(|at| Effect::WakeAt { plan: plan.clone(), at, key: at.0.to_string() });
    items.chain(wake).collect()
}
