//! The loop: schedule → perform → decide → append → apply.
//!
//! Resume is the fold followed by the same first line; there is no resume code. With one job deeds are
//! done on this thread; with more, each has a thread and the loop waits for whichever ends first.
//!
//! **Invariant:** nothing is performed before every event it rests on is durable.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread::Scope;

use provost_core::chain::{Auditor, PlanId, Sealed};
use provost_core::command::HarnessCommand;
use provost_core::decide;
use provost_core::event::Event;
use provost_core::run::Run;
use provost_core::schedule::{self, Action, InHand};
use provost_store::{Append, Entry, Fence, Log, Query};

use crate::Error;
use crate::world::{Said, World};

/// What a plan is driven with.
pub struct Drive<'a, W: World> {
    pub log: &'a dyn Log,
    pub plan: &'a PlanId,
    pub fence: Option<Fence>,
    pub world: &'a W,
    pub jobs: usize,
    /// Is told every event once it is durable, with the run as it is after it.
    pub watch: &'a mut dyn FnMut(&Run, &Sealed, &Event),
}

/// Why the loop came to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The plan is done or has failed, or a person is waited for: the run's stage says which.
    Nothing,
    /// The plan file is not what was approved.
    LawChanged(Vec<String>),
    Interrupted,
}

impl<W: World> Drive<'_, W> {
    pub fn run(self) -> Result<(Run, Rest), Error> {
        let run = read(self.log, self.plan)?;
        self.go_on(run)
    }

    /// From `run`, which was read from the log while the lease was held.
    pub fn go_on(self, run: Run) -> Result<(Run, Rest), Error> {
        let mut state = Loop {
            drive: self,
            run,
            in_hand: InHand::default(),
            results: Vec::new(),
            events: Vec::new(),
            rest: None,
        };
        let channel = mpsc::channel();
        std::thread::scope(|scope| {
            loop {
                let orders = state.next();
                if !state.flush()? {
                    state.drop_orders(orders);
                    continue;
                }
                if orders.is_empty() && state.in_hand.is_empty() {
                    let rest = state.rest.take().unwrap_or(Rest::Nothing);
                    return Ok((state.run, rest));
                }
                let (action, said) = state.perform(orders, scope, &channel);
                state.in_hand.done(action);
                state.results = said;
                state.decide_results();
            }
        })
    }
}

/// Reads a plan's whole log, and goes no further than it verifies.
pub fn read(log: &dyn Log, plan: &PlanId) -> Result<Run, Error> {
    retell(log, plan, &mut |_, _, _| {})
}

/// The same, and tells every event as a drive would.
pub fn retell(
    log: &dyn Log,
    plan: &PlanId,
    watch: &mut dyn FnMut(&Run, &Sealed, &Event),
) -> Result<Run, Error> {
    let mut run = Run::default();
    let mut auditor = Auditor::default();
    let mut bad = Ok(());
    log.read(&Query::plan(plan), &mut |sealed| {
        bad = auditor
            .next(&sealed)
            .map_err(|found| Error::Broken { plan: plan.clone(), found })
            .and_then(|()| Ok(sealed.event()?))
            .map(|event| {
                run.apply(&event);
                watch(&run, &sealed, &event);
            });
        if bad.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    bad.map(|()| run)
}

struct Loop<'a, W: World> {
    drive: Drive<'a, W>,
    run: Run,
    in_hand: InHand,
    /// What was said by the last deed, until it is durable: after a conflict it is decided again.
    results: Vec<Said>,
    /// Decided and applied, not yet durable.
    events: Vec<Event>,
    rest: Option<Rest>,
}

impl<'a, W: World> Loop<'a, W> {
    /// Decides what begins now. What is begun is announced in the log before it is done.
    fn next(&mut self) -> Vec<(Action, W::Order)> {
        if self.rest.is_none() && self.drive.world.interrupted() {
            self.rest = Some(Rest::Interrupted);
        }
        let mut orders = Vec::new();
        if self.rest.is_some() {
            return orders;
        }
        for action in schedule::next(&self.run, &self.in_hand, self.drive.jobs) {
            match action {
                Action::End => self.decide(HarnessCommand::End),
                Action::Dispatch { step } => {
                    if let Some(changes) = self.drive.world.law_changes(&self.run) {
                        self.decide(HarnessCommand::LawChanged { changes: changes.clone() });
                        self.rest = Some(Rest::LawChanged(changes));
                        break;
                    }
                    self.decide(HarnessCommand::Start { step });
                    self.begin(action, &mut orders);
                }
                Action::Judge { .. } | Action::JudgeLost { .. } => self.begin(action, &mut orders),
            }
        }
        orders
    }

    fn begin(&mut self, action: Action, orders: &mut Vec<(Action, W::Order)>) {
        self.in_hand.take(action);
        orders.push((action, self.drive.world.order(&self.run, action)));
    }

    fn decide(&mut self, command: HarnessCommand) {
        // What schedule asks for is allowed; a refusal means the log moved, and flush will notice.
        if let Ok(events) = decide::harness(&self.run, command) {
            self.take(events);
        }
    }

    fn decide_results(&mut self) {
        for said in self.results.clone() {
            let decision = match said {
                Said::Agent(command) => decide::agent(&self.run, command),
                Said::Harness(command) => decide::harness(&self.run, command),
            };
            // Refused: a person or a new law got there first, and the word comes too late.
            if let Ok(events) = decision {
                self.take(events);
            }
        }
    }

    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            self.run.apply(&event);
            self.events.push(event);
        }
    }

    /// Makes what was decided durable. `false`: somebody else wrote first; what the deed brought was
    /// decided again on the new state, and what was only begun must be scheduled again.
    fn flush(&mut self) -> Result<bool, Error> {
        let mut clean = true;
        while !self.events.is_empty() {
            match self.append() {
                Ok(()) => self.results.clear(),
                Err(provost_store::Error::Conflict { .. }) => {
                    clean = false;
                    self.run = read(self.drive.log, self.drive.plan)?;
                    self.events.clear();
                    self.decide_results();
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.results.clear();
        Ok(clean)
    }

    fn append(&mut self) -> Result<(), provost_store::Error> {
        let run = &self.run;
        let entries: Vec<Entry<'_>> = self
            .events
            .iter()
            .map(|event| Entry { event, task_name: event.step().and_then(|step| run.title(step)) })
            .collect();
        let sealed = self.drive.log.append(Append {
            plan: self.drive.plan,
            expected_seq: run.seq - entries.len() as u64,
            at: self.drive.world.now(),
            fence: self.drive.fence.as_ref(),
            events: &entries,
            effects: &[],
        })?;
        for (sealed, event) in sealed.iter().zip(std::mem::take(&mut self.events)) {
            (self.drive.watch)(&self.run, sealed, &event);
        }
        Ok(())
    }

    fn drop_orders(&mut self, orders: Vec<(Action, W::Order)>) {
        for (action, _) in orders {
            self.in_hand.done(action);
        }
        self.rest = None;
    }

    /// Begins the orders and waits until one deed is done.
    fn perform<'scope>(
        &self,
        mut orders: Vec<(Action, W::Order)>,
        scope: &'scope Scope<'scope, '_>,
        (sender, receiver): &(mpsc::Sender<Deed>, mpsc::Receiver<Deed>),
    ) -> (Action, Vec<Said>)
    where
        'a: 'scope,
    {
        let world = self.drive.world;
        if self.drive.jobs == 1
            && let Some((action, order)) = orders.pop()
        {
            return (action, world.perform(order));
        }
        for (action, order) in orders {
            let sender = sender.clone();
            scope.spawn(move || {
                let said = catch_unwind(AssertUnwindSafe(|| world.perform(order)));
                let _ = sender.send((action, said));
            });
        }
        match receiver.recv() {
            Ok((action, Ok(said))) => (action, said),
            Ok((_, Err(panic))) => resume_unwind(panic),
            Err(_) => unreachable!("this loop holds a sender itself"),
        }
    }
}

/// A deed that is done, or the panic it ended in.
type Deed = (Action, std::thread::Result<Vec<Said>>);
