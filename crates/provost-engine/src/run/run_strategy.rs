//! The ways to run a plan, behind one trait: who does the work, and what differs before and after it.
//!
//! [`Agents`] and [`StoppedSession`] are here, [`LiveSession`](crate::run::live_session::LiveSession) beside
//! what it needs. The cluster has one more, for a single item of a plan.

use std::path::Path;
use std::time::Duration;

use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_core::state::run::Run;
use provost_host::config::Demand;
use provost_host::exec::environment::{self, RunPaths};
use provost_host::sandbox::{Attestation, SandboxFeatures};
use provost_store::{Fence, Holder};

use crate::Error;
use crate::exec::executor::{Executor, TaskInput};
use crate::plan::harness::Harness;
use crate::run_loop::world::TaskOutcome;
use crate::run_loop::{Drive, Rest};

/// Called with every event of a run.
pub type ProgressListener<'a> = dyn FnMut(&Run, &SealedEvent, &Event) + 'a;
/// Enters the loop with this run.
pub type EnterLoop<'a> = dyn for<'t> FnMut(Run, &'t mut ProgressListener<'t>) -> RunResult + 'a;
/// The run, and why it stopped.
pub type RunResult = Result<(Run, Rest), Error>;
/// The attested isolation, with the sandbox that provides it.
pub type AttestedLevel = (Option<SandboxFeatures>, Attestation);

pub trait RunStrategy {
    /// Describes the process that holds the plan's lease.
    fn holder(&self, plan: &PlanId, since: Timestamp) -> Holder {
        Holder::here(format!("plan {plan}"), since)
    }

    /// Longest wait for a lease.
    fn patience(&self, configured: Duration) -> Duration {
        configured
    }

    /// Longest wait for a lease after this process was asked to stop.
    fn last_patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether other processes perform tasks of the plan meanwhile, each with a lease of its own.
    fn is_shared(&self) -> bool {
        false
    }

    /// Number of tasks at a time.
    fn jobs(&self) -> usize {
        1
    }

    /// Returns whether provost starts the agents, in the sandbox of the attested level.
    fn starts_agents(&self) -> bool;

    /// Returns whether steps are resumed that waited for their sub-plan.
    fn resumes_steps(&self) -> bool {
        false
    }

    /// Called each time the leases are held. Returns the run if nothing has to be done.
    fn begin(&self, _harness: &Harness, _fence: &Fence) -> Result<Option<Run>, Error> {
        Ok(None)
    }

    /// Tests the isolation of this machine. `plan` is the plan file.
    fn attest(&self, demand: Demand, paths: &RunPaths<'_>, _plan: &Path) -> Result<AttestedLevel, Error> {
        Ok(environment::attest(demand, paths)?)
    }

    /// Returns the events to record before the attested level; `None` if it is not recorded. `is_known` says
    /// that the log already has this level.
    fn before_attestation(&self, _run: &Run, _is_known: bool) -> Result<Option<Vec<Event>>, Error> {
        Ok(Some(Vec::new()))
    }

    /// Adapts the executor.
    fn executor<'a>(&self, executor: Executor<'a>) -> Executor<'a> {
        executor
    }

    /// Enters the loop, with reports before it where there are any.
    fn work(
        &self,
        _harness: &Harness,
        run: Run,
        told: &mut ProgressListener<'_>,
        enter: &mut EnterLoop<'_>,
    ) -> RunResult {
        enter(run, told)
    }

    /// Runs the loop.
    fn drive(&self, drive: Drive<'_, Executor<'_>>, run: Run, head: Head) -> RunResult {
        drive.go_on(run, head)
    }

    /// Returns whether a task is performed without the leases, so that others write for the plan meanwhile.
    fn is_aside(&self) -> bool {
        false
    }

    /// Returns the task to perform without the leases, if the loop stopped for one.
    fn aside(&self) -> Option<TaskInput> {
        None
    }

    /// Receives the outcome of that task. The leases are then taken again, and the loop is entered again.
    fn comes_back(&self, _outcomes: Vec<TaskOutcome>) {}

    /// Returns whether this process may still run checks of the plan, so that their folders stay.
    fn keeps_check_folders(&self) -> bool {
        false
    }
}

/// Agents that provost starts.
pub(crate) struct Agents {
    pub jobs: usize,
}

impl RunStrategy for Agents {
    fn holder(&self, plan: &PlanId, since: Timestamp) -> Holder {
        Holder::running(format!("plan {plan}"), since)
    }

    fn jobs(&self) -> usize {
        self.jobs
    }

    fn starts_agents(&self) -> bool {
        true
    }

    fn resumes_steps(&self) -> bool {
        true
    }

    fn executor<'a>(&self, executor: Executor<'a>) -> Executor<'a> {
        executor.side_by_side(self.jobs > 1)
    }
}

/// A session of this client, which has stopped: every due check of its work runs once.
pub(crate) struct StoppedSession<'a> {
    pub client: &'a str,
}

impl RunStrategy for StoppedSession<'_> {
    fn holder(&self, plan: &PlanId, since: Timestamp) -> Holder {
        session_holder(self.client, plan, since)
    }

    fn starts_agents(&self) -> bool {
        false
    }

    fn executor<'a>(&self, executor: Executor<'a>) -> Executor<'a> {
        executor.for_a_session(self.client)
    }
}

/// Describes a process that checks the work of a session of `client`.
pub(crate) fn session_holder(client: &str, plan: &PlanId, since: Timestamp) -> Holder {
    Holder::checking_session(format!("a check of a session of {client}, at plan {plan}"), since)
}
