//! The loop split in two for a plan that several processes work on: one process decides and announces, the
//! process that takes an item performs it and reports the outcome.
//!
//! A process performs its item with the plan's lease, so one after the other. Only agents that work in trees
//! of their own run without it: their outcome is reported when the process has the lease again.
//!
//! **Invariant:** an announcement and its events are written in one transaction, or neither is written.

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::Head;
use provost_core::model::event::CheckSubject;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::schedule::{Action, InHand};
use provost_core::state::run::{Run, Stage};
use provost_store::Effect;

use super::{Drive, Due, Loop, Rest};
use crate::Error;
use crate::journal::Commit;
use crate::run_loop::world::{TaskOutcome, World};

/// Returns the effects for the actions that start now and for the time of the next scheduling pass.
pub type Effects<'a> = dyn FnMut(&Run, &[Action], Option<Timestamp>) -> Vec<Effect> + 'a;

/// Decides whether this process continues with the plan after an item, instead of leaving it to the next
/// tick.
pub trait Continues {
    /// Asked when an item is done. If `false`, another process schedules the plan.
    fn goes_on(&self) -> bool;
    /// Returns the tasks of the plan that are in hand beside `done`, and how many may be; `None` if this is
    /// unknown, and another process schedules the plan. Asked while this process holds the plan's lease.
    fn in_hand(&self, done: WorkItem) -> Option<(InHand, usize)>;
    /// Effects to write with the end of `done` if others follow.
    fn offers(&self, run: &Run, done: WorkItem, follows: &Follows) -> Vec<Effect>;
    /// Returns whether `begun` was offered to this process; from then on this process holds it.
    fn has(&self, begun: WorkItem) -> bool;
    /// Effects to write with the end of `item` if the plan must be scheduled again.
    fn ends(&self, item: WorkItem) -> Vec<Effect>;
    /// Effects to write with the end of the last item.
    fn is_over(&self, item: WorkItem) -> Vec<Effect>;
}

/// What follows from an item.
pub struct Follows {
    /// Items that begin now.
    pub begun: Vec<WorkItem>,
    /// The one of them that this process would perform next; the others are offered to all.
    pub own: Option<WorkItem>,
    /// Time of the next scheduling pass, if a step waits for it and others may work on the plan.
    pub wake: Option<Timestamp>,
}

impl<W: World> Drive<'_, W> {
    /// Decides which actions start now and writes them in one transaction, together with the effects that
    /// `effects` returns for them; performs none of them. Returns `None` if another process wrote first.
    pub fn announce(
        self,
        run: Run,
        head: Head,
        in_hand: InHand,
        effects: &mut Effects<'_>,
    ) -> Result<Option<(Run, Rest)>, Error> {
        let mut state = Loop { in_hand, ..Loop::new(self, run, head) };
        state.journal.is_shared = true;
        loop {
            let begun: Vec<Action> = state.start_due()?.tasks.into_iter().map(|(action, _)| action).collect();
            let decided = !state.journal.pending().is_empty();
            state.journal.effects = effects(&state.run, &begun, state.wakes());
            if !decided && state.journal.effects.is_empty() {
                let rest = state.why_it_rests();
                return Ok(Some((state.run, rest)));
            }
            if state.journal.try_commit(&mut state.run)? == Commit::Conflict {
                return Ok(None);
            }
            // A decision about one step may allow another step to start.
            if !decided || !begun.is_empty() || state.rest.is_some() {
                let rest = state.why_it_rests();
                return Ok(Some((state.run, rest)));
            }
        }
    }

    /// Performs what is due of the item and writes its outcome together with the effects that follow.
    /// Continues with the next item if this process holds it. `done` is the outcome of an item that was
    /// performed without the plan's lease.
    pub fn items(
        self,
        run: Run,
        head: Head,
        item: WorkItem,
        done: Option<Vec<TaskOutcome>>,
        ends: &[Effect],
        next: Option<&dyn Continues>,
    ) -> Result<(Run, Rest), Error> {
        let mut state = Loop::new(self, run, head);
        state.journal.is_shared = true;
        state.scheduled_at = state.world.now();
        let mut task = None;
        match (done, item.due(&state.run, state.scheduled_at)) {
            (Some(outcomes), _) => state.note(outcomes),
            (None, Some(Action::End)) => {
                state.decide(HarnessCommand::End);
            }
            (None, Some(action)) => task = Some((action, state.world.order(&state.run, action))),
            (None, None) => {}
        }
        let (mut item, mut ends) = (item, ends.to_vec());
        loop {
            if let Some((action, order)) = task {
                let outcomes = state.world.perform(order);
                state.record(action, outcomes);
            }
            let others =
                next.filter(|next| next.goes_on()).and_then(|next| next.in_hand(item).zip(Some(next)));
            let went_on = match others {
                Some(((in_hand, jobs), next)) => {
                    (state.in_hand, state.jobs) = (in_hand, jobs);
                    state.go_on_from(item, &ends, next)?
                }
                None => {
                    state.journal.effects = ends;
                    state.commit()?;
                    None
                }
            };
            let (Some((begun, order)), Some(next)) = (went_on, next) else { break };
            (item, ends) = (begun, next.ends(begun));
            task = Some(order);
        }
        let interrupted = state.world.interrupted().then_some(Rest::Interrupted);
        Ok((state.run, state.rest.or(interrupted).unwrap_or(Rest::Nothing)))
    }
}

/// Next item, with the action and order that this process will perform.
type Begun<W> = (WorkItem, (Action, <W as World>::Order));

impl<W: World> Loop<'_, W> {
    /// Decides what follows from the item and writes it in the transaction that ends the item. Returns it if
    /// this process is to perform it.
    fn go_on_from(
        &mut self,
        item: WorkItem,
        ends: &[Effect],
        next: &dyn Continues,
    ) -> Result<Option<Begun<W>>, Error> {
        loop {
            let mut due = self.start_due()?;
            // Other processes see these final checks as one item until they are durable.
            if self.may_wait(&due) && matches!(item, WorkItem::Judge { subject: CheckSubject::Final(_) }) {
                return Ok(due.tasks.pop().map(|order| (item, order)));
            }
            let follows = self.follows(&due);
            let is_over = matches!(self.run.stage, Stage::Done | Stage::Failed);
            self.journal.effects = match follows.begun.as_slice() {
                [_, ..] => next.offers(&self.run, item, &follows),
                [] if is_over => next.is_over(item),
                // The decision may allow another action to start, now or at a later time.
                [] => ends.to_vec(),
            };
            match self.journal.commit(&mut self.run)? {
                Commit::Written => {
                    self.outcomes.clear();
                    let own = follows.own.filter(|own| next.has(*own));
                    let order = due.tasks.into_iter().find(|(action, _)| self.is_own(*action));
                    return Ok(own.zip(order));
                }
                Commit::Conflict => {
                    self.abandon(due);
                    self.decide_outcomes(&self.outcomes.clone());
                }
            }
        }
    }

    fn follows(&self, due: &Due<impl World>) -> Follows {
        let item = |action: &Action| WorkItem::of(&self.run, *action);
        let actions = || due.tasks.iter().map(|(action, _)| action);
        Follows {
            begun: actions().filter_map(item).collect(),
            own: actions().find(|action| self.is_own(**action)).and_then(item),
            wake: self.wakes().filter(|_| self.jobs > 1),
        }
    }

    /// Returns whether this process would perform the task next. An agent in a tree of its own goes to any
    /// worker, if there may be others.
    fn is_own(&self, action: Action) -> bool {
        self.jobs == 1 || !action.is_apart(&self.run)
    }
}
