//! The loop, cut in two for a plan that many processes work on: one decides what is to be done and makes it
//! known, whoever takes it does it and says what came of it.
//!
//! **Invariant:** what is announced stands in the log, or was never announced: both are one transaction.

use provost_core::fleet::work_item::Item;
use provost_core::model::chain::Head;
use provost_core::model::event::Subject;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::schedule::{Action, InHand};
use provost_core::state::run::{Run, Stage};
use provost_store::{Append, Effect};

use super::{Drive, Loop, REPLACED, Rest};
use crate::Error;
use crate::world::World;

/// What must follow from what begins now, and from the instant at which to look again.
pub type Effects<'a> = dyn FnMut(&Run, &[Action], Option<Timestamp>) -> Vec<Effect> + 'a;

/// Whoever may go on with the plan when an item of it is done, instead of leaving it to the next look.
pub trait Next {
    /// Asked when an item is done. If not, the plan is looked at by others.
    fn goes_on(&self) -> bool;
    /// What is written with the end of `done`, where `begun` follows: it is offered, to us or to all.
    fn offers(&self, run: &Run, done: Item, begun: Item) -> Vec<Effect>;
    /// Whether it was offered to us; from then on it is what we have in hand.
    fn has(&self, begun: Item) -> bool;
    /// What is written with the end of an item that the plan is to be looked at after.
    fn ends(&self, item: Item) -> Vec<Effect>;
    /// What is written with the end of the last one.
    fn is_over(&self, item: Item) -> Vec<Effect>;
}

impl<W: World> Drive<'_, W> {
    /// Decides what begins now and makes it known in one transaction, together with what `effects` makes of
    /// it; does nothing of it. Nothing, where somebody else wrote first.
    pub fn announce(
        self,
        run: Run,
        head: Head,
        in_hand: InHand,
        effects: &mut Effects<'_>,
    ) -> Result<Option<(Run, Rest)>, Error> {
        let mut state = Loop { in_hand, ..Loop::new(self, run, head) };
        loop {
            let begun: Vec<Action> = state.next().into_iter().map(|(action, _)| action).collect();
            let decided = !state.events.is_empty();
            state.effects = effects(&state.run, &begun, state.wakes());
            if !decided && state.effects.is_empty() {
                return Ok(Some((state.run, state.rest.unwrap_or(Rest::Nothing))));
            }
            let known = state.head.hash;
            match state.append() {
                Ok(before) if before != known => return Err(state.disbelieve(1, REPLACED.to_owned())),
                Ok(_) => {}
                Err(provost_store::Error::Conflict { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // What was decided about one step may leave another to be begun.
            if !decided || !begun.is_empty() || state.rest.is_some() {
                return Ok(Some((state.run, state.rest.unwrap_or(Rest::Nothing))));
            }
        }
    }

    /// Does what is due of the item, and makes what came of it durable together with what follows from it.
    /// Goes on with what is next, where that is had here.
    pub fn items(
        self,
        run: Run,
        head: Head,
        item: Item,
        ends: &[Effect],
        next: Option<&dyn Next>,
    ) -> Result<(Run, Rest), Error> {
        let mut state = Loop { shared: true, ..Loop::new(self, run, head) };
        state.looked_at = state.drive.world.now();
        let mut deed = None;
        match item.due(&state.run, state.looked_at) {
            Some(Action::End) => {
                state.decide(HarnessCommand::End);
            }
            Some(action) => deed = Some((action, state.drive.world.order(&state.run, action))),
            None => {}
        }
        let (mut item, mut ends) = (item, ends.to_vec());
        loop {
            if let Some((action, order)) = deed {
                let said = state.drive.world.perform(order);
                state.in_hand.done(action);
                state.decide_all(&said);
                state.results.extend(said);
            }
            let went_on = match next {
                Some(next) if next.goes_on() => state.go_on_from(item, &ends, next)?,
                _ => {
                    state.effects = ends;
                    state.flush()?;
                    None
                }
            };
            let (Some((begun, order)), Some(next)) = (went_on, next) else { break };
            (item, ends) = (begun, next.ends(begun));
            deed = Some(order);
        }
        let interrupted = state.drive.world.interrupted().then_some(Rest::Interrupted);
        Ok((state.run, state.rest.or(interrupted).unwrap_or(Rest::Nothing)))
    }
}

/// What follows from an item, as it is to be done here.
type Begun<W> = (Item, (Action, <W as World>::Order));

impl<W: World> Loop<'_, W> {
    /// Decides what follows from the item, makes it known in the transaction that ends the item, and returns
    /// it where it is to be done here.
    fn go_on_from(
        &mut self,
        item: Item,
        ends: &[Effect],
        next: &dyn Next,
    ) -> Result<Option<Begun<W>>, Error> {
        loop {
            let mut orders = self.next();
            // It is all one item to others, until it is durable.
            if self.may_wait(&orders) && matches!(item, Item::Judge { subject: Subject::Final(_) }) {
                return Ok(orders.pop().map(|order| (item, order)));
            }
            let begun = orders.first().and_then(|(action, _)| Item::of(&self.run, *action));
            let is_over = matches!(self.run.stage, Stage::Done | Stage::Failed);
            self.effects = match begun {
                Some(begun) => next.offers(&self.run, item, begun),
                None if is_over => next.is_over(item),
                // What was decided may leave something to be begun, now or at a time.
                None => ends.to_vec(),
            };
            let known = self.head.hash;
            match self.append() {
                Ok(before) if before != known => return Err(self.disbelieve(1, REPLACED.to_owned())),
                Ok(_) => {}
                Err(provost_store::Error::Conflict { .. }) => {
                    self.drop_orders(orders);
                    self.events.clear();
                    self.catch_up()?;
                    self.decide_all(&self.results.clone());
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            self.results.clear();
            let order = orders.pop();
            return Ok(begun.filter(|begun| next.has(*begun)).zip(order));
        }
    }

    /// Whoever was taken over from finds events of those who took over, and must not take them for forged.
    pub(super) fn still_ours(&self) -> Result<(), Error> {
        let Drive { log, plan, fence, world, .. } = &self.drive;
        loop {
            let nothing = Append {
                plan,
                expected_seq: log.head(plan)?.seq,
                at: world.now(),
                fence: fence.as_ref(),
                events: &[],
                effects: &[],
            };
            match log.append(nothing) {
                Err(provost_store::Error::Conflict { .. }) => {}
                answered => return Ok(answered.map(|_| ())?),
            }
        }
    }
}
