//! The kinds of workers of a drive: agents that provost starts, or an agent that works in its own client.
//!
//! The second kind is given no work. It reports what it has done, and provost runs the checks that are due
//! then.

use std::time::Duration;

use provost_core::model::chain::SealedEvent;
use provost_core::model::event::Event;
use provost_core::rules::command::Refusal;
use provost_core::rules::decide;
use provost_core::state::run::Run;
use provost_store::Holder;

use crate::drive::Rest;
use crate::harness::Harness;
use crate::work_items::Share;
use crate::world::TaskOutcome;
use crate::{Error, plan_context};

/// Time a session waits for the process that holds its plan or its workspace.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The process that offered an item may still hold the plan for a moment.
const MOMENT: Duration = Duration::from_secs(2);

/// Returns what a session reports, given the current state.
pub(crate) type Words<'a> = dyn Fn(&Run) -> Result<Vec<TaskOutcome>, Refusal> + 'a;
pub(crate) type ProgressListener<'a> = dyn FnMut(&Run, &SealedEvent, &Event) + 'a;
type GoOn<'a> = dyn for<'t> FnMut(Run, &'t mut ProgressListener<'t>) -> Driven + 'a;
pub(crate) type Driven = Result<(Run, Rest), Error>;

pub(crate) enum Worker<'a> {
    /// Agents that provost starts.
    Agents { jobs: usize },
    /// A session of this client, which has stopped: every due check of its work runs once.
    Look { client: &'a str },
    /// An agent in its own client, outside of provost's sandbox.
    Session { words: &'a Words<'a> },
    /// One item of a plan that several processes work on.
    Share(&'a Share<'a>),
}

impl Worker<'_> {
    pub(crate) fn jobs(&self) -> usize {
        match self {
            Worker::Agents { jobs } => *jobs,
            Worker::Look { .. } | Worker::Session { .. } | Worker::Share(_) => 1,
        }
    }

    /// Returns whether provost starts the agents, in the sandbox of the attested level.
    pub(crate) fn starts_agents(&self) -> bool {
        match self {
            Worker::Agents { .. } | Worker::Share(_) => true,
            Worker::Look { .. } | Worker::Session { .. } => false,
        }
    }

    /// Returns how long to wait for a lease. Sessions wait longer: those of one workspace are judged one by
    /// one.
    pub(crate) fn patience(&self, configured: Duration) -> Duration {
        match self {
            Worker::Agents { .. } | Worker::Look { .. } => configured,
            Worker::Share(_) => configured.max(MOMENT),
            Worker::Session { .. } => configured.max(PATIENCE),
        }
    }
}

impl Harness {
    /// Runs the checks that are possible before the work, then records what the session reports and runs the
    /// checks that are due because of it.
    pub(crate) fn hear_session(
        &self,
        words: &Words<'_>,
        run: Run,
        told: &mut ProgressListener<'_>,
        go_on: &mut GoOn<'_>,
    ) -> Driven {
        // A step that is under way is judged after the session's report, not before.
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

    /// Records reports of a session that make no check due, under the plan's lease.
    pub(crate) fn note(&self, words: &Words<'_>) -> Result<Run, Error> {
        let holder = Holder::here(format!("plan {}", self.id()), plan_context::now());
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

fn decided(run: &Run, said: TaskOutcome) -> Result<Vec<Event>, Refusal> {
    match said {
        TaskOutcome::Agent(command) => decide::agent(run, command),
        TaskOutcome::Harness(command) => decide::harness(run, command),
    }
}
