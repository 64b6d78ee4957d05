//! A plan that many processes work on. One of them decides what is next and offers it ([`Harness::turn`]);
//! whoever takes it does it and says what came of it ([`Harness::carry_out_item`]).
//!
//! Rules, hands and log are those of a run on one machine; only who calls whom is different. Every turn and
//! every item has the plan's lease while it lasts, and writes with its fence: whoever was taken for dead and
//! comes back writes nothing.
//!
//! **Invariant:** what is offered and what the log says of it are one transaction, and so are the end of an
//! item and the next look at the plan.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::fleet::work_item::Item;
use provost_core::model::chain::{Head, Sealed};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::{Action, InHand};
use provost_core::state::run::{Run, Stage};
use provost_host::config::Demand;
use provost_host::ground::Estate;
use provost_host::sandbox::Attestation;
use provost_host::{ground, sandbox};
use provost_store::{Effect, Error as StoreError, Fence, Holder};

use crate::drive::{Drive, Next, Rest};
use crate::errand::Carrier;
use crate::harness::Harness;
use crate::worker::Worker;
use crate::world::{Said, World};
use crate::{Error, drive, site};

/// For how long a self-test is good.
const GOOD_FOR: Duration = Duration::from_secs(300);
/// So many items of a plan are in hand at a time: its workspace is one.
const JOBS: usize = 1;

/// What is to be written with what was decided: the items that are offered, and when to look again.
pub type Offer<'a> = dyn FnMut(&Run, &[Item], Option<Timestamp>) -> Vec<Effect> + 'a;

/// What of a plan was offered and is not done; nothing, where that cannot be found out.
pub type Known<'a> = dyn Fn() -> Option<Vec<Item>> + 'a;

/// What came of a look at a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// What there is to do was offered.
    Offered,
    /// Nothing is to be done, or somebody does it who will say so.
    Idle,
    /// Somebody has the plan in hand who does not work for the cluster, or is not done yet.
    Busy,
    /// Somebody else wrote meanwhile, and the plan is to be looked at again.
    Moved,
    /// The plan file is not what was approved.
    LawChanged,
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    Done,
    /// It was not wanted any more.
    PassedOver,
    /// Somebody else had taken it.
    Taken,
    /// It was done, and the plan file is not what was approved.
    LawChanged,
}

/// An item as it is done: who asks whether it may be, and what follows from it.
pub(crate) struct Share<'a> {
    item: Item,
    /// Takes the item for the holder of this lease. It is asked once the lease is held, and before anything
    /// is begun.
    claim: &'a dyn Fn(&Fence) -> bool,
    effects: &'a [Effect],
    next: Option<&'a dyn Next>,
    carried: Cell<Carried>,
}

impl Share<'_> {
    /// What is wanted of it is done, on the state as it is now.
    pub(crate) fn done_by<W: World>(
        &self,
        drive: Drive<'_, W>,
        run: Run,
        head: Head,
    ) -> Result<(Run, Rest), Error> {
        drive.items(run, head, self.item, self.effects, self.next)
    }

    /// An attempt is not begun on another level than its beginning was written for.
    pub(crate) fn given_back(&self, run: &Run) -> Result<Vec<Event>, Error> {
        match self.item {
            Item::Attempt { step, attempt } | Item::TakeUp { step, attempt } => {
                Ok(decide::harness(run, HarnessCommand::AttemptInterrupted { step, attempt })?)
            }
            Item::Attest | Item::Judge { .. } | Item::JudgeLost { .. } | Item::End => Ok(Vec::new()),
        }
    }
}

impl Harness {
    /// Looks at the plan and offers what is to be done next. `in_hand` says what was offered and is not done;
    /// it is asked while the lease is held, so that nobody offers or takes meanwhile: what was known before
    /// could make lost work of what another has just been given.
    pub fn turn(&self, in_hand: &Known<'_>, offer: &mut Offer<'_>) -> Result<Turn, Error> {
        let run = self.genuine()?;
        if !matches!(run.stage, Stage::Approved | Stage::InProgress) {
            return Ok(Turn::Idle);
        }
        match self.ready_to_drive(&run) {
            // The plan is looked at again, and the other one may be done by then.
            Err(Error::Refused(Refusal::DependsOn { .. })) => return Ok(Turn::Busy),
            ready => ready?,
        }
        let name = format!("plan {}", self.id());
        let lease = match self.log().lease(&name, &Holder::here(name.clone(), site::now())) {
            Err(StoreError::LeaseHeld { .. }) => {
                let is_given = in_hand().is_some_and(|items| items.len() >= JOBS);
                return Ok(if is_given { Turn::Idle } else { Turn::Busy });
            }
            taken => taken?,
        };
        let Some(in_hand) = in_hand() else { return Ok(Turn::Busy) };
        if in_hand.len() >= JOBS {
            return Ok(Turn::Idle);
        }
        let (mut run, mut head) = drive::retell(self.log(), self.id(), &mut |_, _, _| {})?;
        while let Some(step) = self.plan_goes_on(&run) {
            let events = decide::harness(&run, HarnessCommand::PlanGoesOn { step })?;
            let sealed = self.append_with(&mut run, &events, Some(lease.fence()), &[])?;
            head = sealed.last().map_or(head, |last| Head { seq: last.seq, hash: last.hash });
        }
        let mut offered = false;
        let mut effects = |run: &Run, begun: &[Action], wake: Option<Timestamp>| {
            let mut items: Vec<Item> = begun.iter().filter_map(|action| Item::of(run, *action)).collect();
            if run.isolation.is_none() && items.is_empty() {
                items.push(Item::Attest);
            }
            offered |= !items.is_empty();
            offer(run, &items, wake)
        };
        if run.isolation.is_none() {
            let effects = effects(&run, &[], None);
            self.append_with(&mut run, &[], Some(lease.fence()), &effects)?;
            return Ok(Turn::Offered);
        }
        let mut known = InHand::default();
        in_hand.iter().filter_map(|item| item.action()).for_each(|action| known.take(action));
        let drive = Drive {
            log: self.log(),
            plan: self.id(),
            fence: Some(lease.fence().clone()),
            world: &Overseer { harness: self },
            jobs: JOBS,
            watch: &mut |_: &Run, _: &Sealed, _: &Event| {},
        };
        Ok(match drive.announce(run, head, known, &mut effects)? {
            None => Turn::Moved,
            Some((_, Rest::LawChanged(_))) => Turn::LawChanged,
            Some(_) if offered => Turn::Offered,
            Some(_) => Turn::Idle,
        })
    }

    /// Does one item, and makes what came of it durable together with `effects`. `claim` is asked first, and
    /// `next` whether to go on with what follows.
    pub fn carry_out_item(
        &self,
        item: Item,
        claim: &dyn Fn(&Fence) -> bool,
        effects: &[Effect],
        next: Option<&dyn Next>,
    ) -> Result<Carried, Error> {
        let share = Share { item, claim, effects, next, carried: Cell::new(Carried::Done) };
        let (run, rest) = self.drive_for(&Worker::Share(&share), &mut |_, _, _| {})?;
        if let (Some(carrying), Item::End, Stage::Done) = (&self.carrying, item, run.stage) {
            carrying.forget(self, &run);
        }
        match rest {
            Rest::LawChanged(_) => Ok(Carried::LawChanged),
            _ => Ok(share.carried.into_inner()),
        }
    }

    /// The run, where there is nothing to do about the item: it is somebody else's, or nobody wants it now.
    pub(crate) fn take_share(&self, share: &Share<'_>, fence: &Fence) -> Result<Option<Run>, Error> {
        let mut run = self.genuine()?;
        self.can_see_the_work(&run)?;
        // Before it is ours: what is not to be had now is offered again.
        let needs_trees = !matches!(share.item, Item::Attest | Item::End);
        if let Some(carrying) = self.carrying.as_ref().filter(|_| needs_trees) {
            carrying.bring(self, &run)?;
        }
        if !(share.claim)(fence) {
            share.carried.set(Carried::Taken);
            return Ok(Some(run));
        }
        if share.item == Item::Attest || share.item.due(&run, site::now()).is_some() {
            return Ok(None);
        }
        share.carried.set(Carried::PassedOver);
        self.append_with(&mut run, &[], Some(fence), share.effects)?;
        Ok(Some(run))
    }

    /// Whoever looks after plans is to look at this one, where somebody does.
    pub(crate) fn wakes(&self) -> Vec<Effect> {
        if self.is_shared() { vec![Effect::Wake(self.id().clone())] } else { Vec::new() }
    }
}

type Attested = (Option<sandbox::Offer>, Attestation);

/// What this machine holds, by the self-test or by the last one: a process that does many items of a plan tests
/// itself as often as one that carries it out from its beginning to its end.
pub(crate) fn attest(demand: Demand, estate: &Estate<'_>, plan: &Path) -> Result<Attested, Error> {
    static SEEN: Mutex<BTreeMap<PathBuf, (Instant, Demand, Attested)>> = Mutex::new(BTreeMap::new());
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, wanted, attested)) = seen().get(plan)
        && at.elapsed() < GOOD_FOR
        && *wanted == demand
    {
        return Ok(attested.clone());
    }
    let attested = ground::attest(demand, estate)?;
    let mut seen = seen();
    seen.retain(|_, (at, ..)| at.elapsed() < GOOD_FOR);
    seen.insert(plan.to_owned(), (Instant::now(), demand, attested.clone()));
    Ok(attested)
}

/// Called once, when this process does no more items: what checks were run in is taken away.
pub fn leave() {
    provost_host::judge::leave();
}

/// Sees what is to be done, and does nothing of it.
struct Overseer<'a> {
    harness: &'a Harness,
}

impl World for Overseer<'_> {
    type Order = ();

    fn now(&self) -> Timestamp {
        site::now()
    }

    fn wait(&self, _until: Timestamp) {}

    fn recipes(&self) -> &Recipes {
        &self.harness.config().recipes
    }

    fn law_changes(&self, run: &Run) -> Option<Vec<String>> {
        self.harness.site().law_changes(run)
    }

    fn held_up(&self, run: &Run, step: StepNumber) -> Option<String> {
        Carrier::held_up(self.harness, run.carried_by(step)?)
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn ends(&self) -> bool {
        false
    }

    fn order(&self, _run: &Run, _action: Action) {}

    fn perform(&self, _order: ()) -> Vec<Said> {
        Vec::new()
    }
}
