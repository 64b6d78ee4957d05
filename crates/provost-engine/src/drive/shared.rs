//! The loop, cut in two for a plan that many processes work on: one decides what is to be done and makes it
//! known, whoever takes it does it and says what came of it.
//!
//! **Invariant:** what is announced stands in the log, or was never announced: both are one transaction.

use provost_core::chain::{Head, Timestamp};
use provost_core::command::HarnessCommand;
use provost_core::run::Run;
use provost_core::schedule::{Action, InHand};
use provost_store::{Append, Effect};

use super::{Drive, Loop, REPLACED, Rest};
use crate::Error;
use crate::world::World;

/// What must follow from what begins now, and from the instant at which to look again.
pub type Effects<'a> = dyn FnMut(&Run, &[Action], Option<Timestamp>) -> Vec<Effect> + 'a;

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

    /// Does this one thing, and makes what came of it durable together with `effects`.
    pub fn once(
        self,
        run: Run,
        head: Head,
        action: Action,
        effects: &[Effect],
    ) -> Result<(Run, Rest), Error> {
        let mut state = Loop { shared: true, ..Loop::new(self, run, head) };
        state.looked_at = state.drive.world.now();
        if action == Action::End {
            state.decide(HarnessCommand::End);
        } else {
            let order = state.drive.world.order(&state.run, action);
            let said = state.drive.world.perform(order);
            state.decide_all(&said);
            state.results = said;
        }
        state.effects = effects.to_vec();
        state.flush()?;
        let rest = if state.drive.world.interrupted() { Rest::Interrupted } else { Rest::Nothing };
        Ok((state.run, rest))
    }

    /// Nothing is to be done: `effects` follow all the same.
    pub fn pass(self, run: Run, head: Head, effects: &[Effect]) -> Result<(Run, Rest), Error> {
        let mut state = Loop { shared: true, ..Loop::new(self, run, head) };
        state.effects = effects.to_vec();
        state.flush()?;
        Ok((state.run, Rest::Nothing))
    }
}

impl<W: World> Loop<'_, W> {
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
