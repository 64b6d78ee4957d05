//! A run for an agent that works in its own client, outside of provost's sandbox, over MCP.
//!
//! provost gives it no work. The agent reports what it has done, and provost runs the checks that are due
//! then.

use std::time::Duration;

use provost_core::model::chain::PlanId;
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::Refusal;
use provost_core::rules::decide;
use provost_core::state::run::Run;
use provost_store::Holder;

use crate::Error;
use crate::exec::executor::Executor;
use crate::plan::harness::Harness;
use crate::plan::{plan_context, recording};
use crate::run::run_strategy::{EnterLoop, ProgressListener, RunResult, RunStrategy, session_holder};
use crate::run_loop::Rest;
use crate::run_loop::world::TaskOutcome;

/// Time a session waits for the process that holds its plan or its workspace: the sessions of one workspace
/// are judged one by one.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Returns what a session reports, given the current state.
pub(crate) type Words<'a> = dyn Fn(&Run) -> Result<Vec<TaskOutcome>, Refusal> + 'a;

pub(crate) struct LiveSession<'a> {
    pub words: &'a Words<'a>,
}

impl RunStrategy for LiveSession<'_> {
    fn holder(&self, plan: &PlanId, since: Timestamp) -> Holder {
        session_holder("an MCP client", plan, since)
    }

    fn patience(&self, configured: Duration) -> Duration {
        configured.max(PATIENCE)
    }

    fn starts_agents(&self) -> bool {
        false
    }

    fn executor<'a>(&self, executor: Executor<'a>) -> Executor<'a> {
        executor.without_dispatch()
    }

    /// Runs the checks that are possible before the work, then records what the session reports and runs the
    /// checks that are due because of it.
    fn work(
        &self,
        harness: &Harness,
        run: Run,
        told: &mut ProgressListener<'_>,
        enter: &mut EnterLoop<'_>,
    ) -> RunResult {
        // A step that is under way is judged after the session's report, not before.
        let begun = run.under_way().any(|step| !run.confirmed_by_person(step));
        let (mut run, rest) = if begun { (run, Rest::Nothing) } else { enter(run, told)? };
        if rest != Rest::Nothing {
            return Ok((run, rest));
        }
        for said in (self.words)(&run)? {
            let events = decided(&run, said)?;
            harness.tell(&mut run, &events, None, told)?;
        }
        enter(run, told)
    }
}

/// Records reports of a session that make no check due, under the plan's lease.
pub(crate) fn note(harness: &Harness, words: &Words<'_>) -> Result<Run, Error> {
    let holder = Holder::here(format!("plan {}", harness.id()), plan_context::now());
    let patience = PATIENCE.max(harness.config().run.lease_timeout);
    let _lease = crate::plan::harness::lease(harness, &format!("plan {}", harness.id()), &holder, patience)?;
    let mut run = harness.genuine()?;
    for said in words(&run)? {
        let events = decided(&run, said)?;
        harness.append(&mut run, &events)?;
    }
    recording::project(harness, &run);
    Ok(run)
}

fn decided(run: &Run, said: TaskOutcome) -> Result<Vec<Event>, Refusal> {
    match said {
        TaskOutcome::Agent(command) => decide::agent(run, command),
        TaskOutcome::Harness(command) => decide::harness(run, command),
    }
}
