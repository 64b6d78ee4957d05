//! The loop split in two for a plan that several processes work on: one process decides and announces, the
//! process that takes an item performs it and reports the outcome.
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

use super::{Drive, Loop, Rest};
use crate::Error;
use crate::journal::Commit;
use crate::run_loop::world::World;

/// Returns the effects for the actions that start now and for the time of the next scheduling pass.
pub type Effects<'a> = dyn FnMut(&Run, &[Action], Option<Timestamp>) -> Vec<Effect> + 'a;

/// Decides whether this process continues with the plan after an item, instead of leaving it to the next
/// tick.
pub trait Continues {
    /// Asked when an item is done. If `false`, another process schedules the plan.
    fn goes_on(&self) -> bool;
    /// Effects to write with the end of `done` if `begun` follows: they offer it to this process or to all.
    fn offers(&self, run: &Run, done: WorkItem, begun: WorkItem) -> Vec<Effect>;
    /// Returns whether `begun` was offered to this process; from then on this process holds it.
    fn has(&self, begun: WorkItem) -> bool;
    /// Effects to write with the end of `item` if the plan must be scheduled again.
    fn ends(&self, item: WorkItem) -> Vec<Effect>;
    /// Effects to write with the end of the last item.
    fn is_over(&self, item: WorkItem) -> Vec<Effect>;
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
        loop {
            let begun: Vec<Action> = state.start_due().tasks.into_iter().map(|(action, _)| action).collect();
            let decided = !state.journal.pending().is_empty();
            state.journal.effects = effects(&state.run, &begun, state.wakes());
            if !decided && state.journal.effects.is_empty() {
                return Ok(Some((state.run, state.rest.unwrap_or(Rest::Nothing))));
            }
            if state.journal.try_commit(&mut state.run)? == Commit::Conflict {
                return Ok(None);
            }
            // A decision about one step may allow another step to start.
            if !decided || !begun.is_empty() || state.rest.is_some() {
                return Ok(Some((state.run, state.rest.unwrap_or(Rest::Nothing))));
            }
        }
    }

    /// Performs what is due of the item and writes its outcome together with the effects that follow.
    /// Continues with the next item if this process holds it.
    pub fn items(
        self,
        run: Run,
        head: Head,
        item: WorkItem,
        ends: &[Effect],
        next: Option<&dyn Continues>,
    ) -> Result<(Run, Rest), Error> {
        let mut state = Loop::new(self, run, head);
        state.journal.is_shared = true;
        state.scheduled_at = state.world.now();
        let mut task = None;
        match item.due(&state.run, state.scheduled_at) {
            Some(Action::End) => {
                state.decide(HarnessCommand::End);
            }
            Some(action) => task = Some((action, state.world.order(&state.run, action))),
            None => {}
        }
        let (mut item, mut ends) = (item, ends.to_vec());
        loop {
            if let Some((action, order)) = task {
                let outcomes = state.world.perform(order);
                state.record(action, outcomes);
            }
            let went_on = match next {
                Some(next) if next.goes_on() => state.go_on_from(item, &ends, next)?,
                _ => {
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
            let mut due = self.start_due();
            // Other processes see these final checks as one item until they are durable.
            if self.may_wait(&due) && matches!(item, WorkItem::Judge { subject: CheckSubject::Final(_) }) {
                return Ok(due.tasks.pop().map(|order| (item, order)));
            }
            let begun = due.tasks.first().and_then(|(action, _)| WorkItem::of(&self.run, *action));
            let is_over = matches!(self.run.stage, Stage::Done | Stage::Failed);
            self.journal.effects = match begun {
                Some(begun) => next.offers(&self.run, item, begun),
                None if is_over => next.is_over(item),
                // The decision may allow another action to start, now or at a later time.
                None => ends.to_vec(),
            };
            match self.journal.commit(&mut self.run)? {
                Commit::Written => {
                    self.outcomes.clear();
                    let order = due.tasks.pop();
                    return Ok(begun.filter(|begun| next.has(*begun)).zip(order));
                }
                Commit::Conflict => {
                    self.abandon(due);
                    self.decide_outcomes(&self.outcomes.clone());
                }
            }
        }
    }
}
