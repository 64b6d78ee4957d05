//! The same simulation with the loop split: one process announces what is next, and another one, which
//! knows only the item's name and the log, does it.

use provost_engine::journal;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::{Action, InHand};
use provost_core::state::run::Run;
use provost_engine::run_loop::world::{TaskOutcome, World};
use provost_engine::run_loop::{Continues, Drive, Follows, Rest};
use provost_store::{Append, Cursor, Effect, Error, Holder, Lease, Log, Memory, Query};

use super::{Dice, Mortal, SimWorld, approved, harness};

/// Runs one life of a cluster, until it stops or dies.
pub(super) fn live(log: &Mortal<'_>, plan: &PlanId, world: &SimWorld) -> (Run, Rest) {
    loop {
        let (mut offered, mut wake) = (Vec::new(), None);
        let overseer = Overseer(world);
        let drive = Drive { log, plan, fence: None, world: &overseer, jobs: 1, watch: &mut |_, _, _| {} };
        let (run, head) = journal::replay(log, plan, &mut |_, _, _| {}).unwrap();
        let announced = drive.announce(run, head, InHand::default(), &mut |run, begun, at| {
            offered = begun.iter().filter_map(|action| WorkItem::of(run, *action)).collect();
            wake = at;
            Vec::new()
        });
        let (run, rest) = announced.unwrap().expect("nobody else writes");
        if rest != Rest::Nothing || offered.is_empty() && wake.is_none() {
            return (run, rest);
        }
        if let (Some(until), true) = (wake, offered.is_empty()) {
            world.wait(until);
        }
        for item in offered {
            carry_out(log, plan, world, &item.to_string());
        }
    }
}

/// Does an item, from its name and the log alone. May continue with the items that follow, or leave them to
/// others.
fn carry_out(log: &Mortal<'_>, plan: &PlanId, world: &SimWorld, name: &str) {
    let item: WorkItem = name.parse().unwrap();
    let (run, head) = journal::replay(log, plan, &mut |_, _, _| {}).unwrap();
    let drive = Drive { log, plan, fence: None, world, jobs: 1, watch: &mut |_, _, _| {} };
    let stint = Stint { world, left: RefCell::default() };
    // Clocks jump: an item that is no longer due is offered again.
    if item.due(&run, world.now()).is_some() {
        drive.items(run, head, item, None, &[], Some(&stint)).unwrap();
    }
    for item in stint.left.into_inner() {
        carry_out(log, plan, world, &item.to_string());
    }
}

/// Continues with the next item, or does not, at random.
struct Stint<'a> {
    world: &'a SimWorld,
    left: RefCell<Vec<WorkItem>>,
}

impl Continues for Stint<'_> {
    fn goes_on(&self) -> bool {
        self.world.with(|_, dice| dice.chance(70))
    }

    fn in_hand(&self, _done: WorkItem) -> Option<(InHand, usize)> {
        Some((InHand::default(), 1))
    }

    fn offers(&self, _run: &Run, _done: WorkItem, _follows: &Follows) -> Vec<Effect> {
        Vec::new()
    }

    fn has(&self, begun: WorkItem) -> bool {
        let has = self.world.with(|_, dice| dice.chance(70));
        if !has {
            self.left.borrow_mut().push(begun);
        }
        has
    }

    fn ends(&self, _item: WorkItem) -> Vec<Effect> {
        Vec::new()
    }

    fn is_over(&self, _item: WorkItem) -> Vec<Effect> {
        Vec::new()
    }
}

struct Overseer<'a>(&'a SimWorld);

impl World for Overseer<'_> {
    type Order = ();

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn wait(&self, until: Timestamp) {
        self.0.wait(until);
    }

    fn recipes(&self) -> &Recipes {
        self.0.recipes()
    }

    fn law_changes(&self, run: &Run) -> Option<Vec<String>> {
        self.0.law_changes(run)
    }

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }

    fn ends(&self) -> bool {
        false
    }

    fn order(&self, _run: &Run, _action: Action) {}

    fn perform(&self, _order: ()) -> Vec<TaskOutcome> {
        unreachable!("it only announces")
    }
}

/// A log that checks the sequence number before the fence, as a log behind a network does.
struct Hasty(Memory);

impl Log for Hasty {
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error> {
        let found = self.0.head(append.plan)?.seq;
        if found != append.expected_seq {
            let plan = append.plan.clone();
            return Err(Error::Conflict { plan, expected: append.expected_seq, found });
        }
        self.0.append(append)
    }

    handed_on_to!(0);

    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error> {
        self.0.lease(name, holder)
    }
}

#[test]
fn whoever_was_taken_over_from_does_not_take_the_others_for_forgers() {
    let (log, plan, step) = (Memory::default(), PlanId("zombie-1".to_owned()), StepNumber(1));
    let text = "---\ntype: plan\nstatus: draft\nowner: sim\n---\n# Simulated\n\n## Steps\n\n### 1. One\n\
                **target:** agent\n**task:**\nDo 1.\n**contract:**\n```shell\ntest -f 1\n```\n";
    approved(&log, &plan, text, None);
    harness(&log, &plan, |_| HarnessCommand::Start { step });
    let world = SimWorld {
        has_trees: false,
        deadly: false,
        truth: Mutex::default(),
        dice: Mutex::new(Dice(1)),
        law_edit: Mutex::new(false),
        steady: true,
        recipes: Recipes::default(),
    };
    let (run, head) = journal::replay(&log, &plan, &mut |_, _, _| {}).unwrap();
    let holder = Holder::here("plan", Timestamp(0));
    let stale = log.lease("plan", &holder).unwrap().fence().clone();
    // The process stops here. Another one takes over and continues.
    let _current = log.lease("plan", &holder).unwrap();
    harness(&log, &plan, |_| HarnessCommand::AttemptInterrupted { step, attempt: 1 });
    let before = log.head(&plan).unwrap();
    let hasty = Hasty(log.clone());
    let drive = Drive {
        log: &hasty,
        plan: &plan,
        fence: Some(stale),
        world: &world,
        jobs: 1,
        watch: &mut |_, _, _| {},
    };
    let attempt = WorkItem::Attempt { step, attempt: 1 };
    let late = drive.items(run, head, attempt, None, &[Effect::Wake(plan.clone())], None);
    assert!(matches!(late, Err(provost_engine::Error::Store(Error::Fenced { .. }))), "{late:?}");
    assert_eq!(log.head(&plan).unwrap(), before, "it wrote to the log");
    assert!(log.take_wakes().unwrap().is_empty(), "what follows from a refused write does not happen");
}
