//! Who does the work of a drive: agents that the harness starts, or one that works in a client of its own.
//!
//! For the second nothing is given out. It says what it has done; what its words make due is judged.

use std::time::Duration;

use provost_core::model::chain::Sealed;
use provost_core::model::event::Event;
use provost_core::rules::command::Refusal;
use provost_core::rules::decide;
use provost_core::state::run::Run;
use provost_store::Holder;

use crate::drive::Rest;
use crate::harness::Harness;
use crate::share::Share;
use crate::world::Said;
use crate::{Error, site};

/// How long a session waits for whoever has its plan or its workspace in hand.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Whoever offered an item may still have the plan in hand.
const MOMENT: Duration = Duration::from_secs(2);

/// What a session has to say, on the state it is said on.
pub(crate) type Words<'a> = dyn Fn(&Run) -> Result<Vec<Said>, Refusal> + 'a;
pub(crate) type Told<'a> = dyn FnMut(&Run, &Sealed, &Event) + 'a;
type GoOn<'a> = dyn for<'t> FnMut(Run, &'t mut Told<'t>) -> Driven + 'a;
pub(crate) type Driven = Result<(Run, Rest), Error>;

pub(crate) enum Worker<'a> {
    /// Agents that the harness starts.
    Agents { jobs: usize },
    /// A session of this client, which has stopped: what it left is looked at, once.
    Look { client: &'a str },
    /// An agent in a client of its own: no fence of ours is around it.
    Session { words: &'a Words<'a> },
    /// One item of a plan that many processes work on.
    Share(&'a Share<'a>),
}

impl Worker<'_> {
    pub(crate) fn jobs(&self) -> usize {
        match self {
            Worker::Agents { jobs } => *jobs,
            Worker::Look { .. } | Worker::Session { .. } | Worker::Share(_) => 1,
        }
    }

    /// Agents are behind the fence of the level that was attested.
    pub(crate) fn starts_agents(&self) -> bool {
        match self {
            Worker::Agents { .. } | Worker::Share(_) => true,
            Worker::Look { .. } | Worker::Session { .. } => false,
        }
    }

    /// Other sessions of the workspace are judged one after the other.
    pub(crate) fn patience(&self, configured: Duration) -> Duration {
        match self {
            Worker::Agents { .. } | Worker::Look { .. } => configured,
            Worker::Share(_) => configured.max(MOMENT),
            Worker::Session { .. } => configured.max(PATIENCE),
        }
    }
}

impl Harness {
    /// What can be looked at before the work is looked at first; then the words are taken in, and what
    /// they make due is judged.
    pub(crate) fn hear_session(
        &self,
        words: &Words<'_>,
        run: Run,
        told: &mut Told<'_>,
        go_on: &mut GoOn<'_>,
    ) -> Driven {
        // What waits for its check is judged by what is said of it, not before.
        let begun = run.under_way().any(|step| !run.confirmed_by_person(step));
        let (mut run, rest) = if begun { (run, Rest::Nothing) } else { go_on(run, told)? };
        if rest != Rest::Nothing {
            return Ok((run, rest));
        }
        for said in words(&run)? {
            let events = decided(&run, said)?;
            self.tell(&mut run, &events, told)?;
        }
        go_on(run, told)
    }

    /// Words of a session that make nothing due, said while nobody else has the plan in hand.
    pub(crate) fn note(&self, words: &Words<'_>) -> Result<Run, Error> {
        let holder = Holder::here(format!("plan {}", self.id()), site::now());
        let patience = PATIENCE.max(self.config().run.lease_timeout);
        let _lease = self.lease(&format!("plan {}", self.id()), &holder, patience)?;
        let mut run = self.genuine()?;
        for said in words(&run)? {
            let events = decided(&run, said)?;
            self.append(&mut run, &events)?;
        }
        self.project(&run);
        Ok(run)
    }
}

fn decided(run: &Run, said: Said) -> Result<Vec<Event>, Refusal> {
    match said {
        Said::Agent(command) => decide::agent(run, command),
        Said::Harness(command) => decide::harness(run, command),
    }
}
