//! The trait that the loop uses to reach the world: the time, the plan file on disk, and tasks.
//!
//! It has two shipped implementations: the real one ([`crate::exec::executor::Executor`]) and one that performs
//! nothing, for scheduling only (`work_items.rs` of the cluster). Tests have simulated ones that lie, stall and crash by a seed.

use provost_core::model::event::{Event, StartTree};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::{AgentCommand, HarnessCommand};
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::Action;
use provost_core::state::run::Run;

use crate::journal::JournalContext;

pub trait World: Sync {
    /// Input of a task, taken from the run before the task starts.
    type Order: Send + 'static;

    fn now(&self) -> Timestamp;

    /// Waits until `until`; may return earlier so that other events are noticed.
    fn wait(&self, until: Timestamp);

    /// Recipes of the configuration: what follows from which failure.
    fn recipes(&self) -> &Recipes;

    /// Returns the differences between the plan file and the approved spec, or `None` if there are none.
    fn law_changes(&self, run: &Run) -> Option<Vec<String>>;

    /// Returns whether provost starts agents for the steps. If not, an external session does the work and
    /// provost only checks it.
    fn starts_agents(&self) -> bool {
        true
    }

    /// Returns why a ready step cannot start: the sub-plan that carries it out waits for a person.
    fn held_up(&self, _run: &Run, _step: StepNumber) -> Option<String> {
        None
    }

    /// Returns the tree that an attempt at the step starts with, if one is kept, or why it cannot be made.
    fn start(&self, _run: &Run, _step: StepNumber) -> Result<Option<StartTree>, String> {
        Ok(None)
    }

    /// Returns whether the run must stop: a person interrupted it, the limits of a sub-plan are used up, or
    /// an external session must act next.
    fn interrupted(&self) -> bool;

    /// Returns whether work is dispatched here. If not, the loop judges the existing work and stops.
    fn dispatches(&self) -> bool {
        true
    }

    /// Returns whether the end of a plan is decided inline. If `false`, it is dispatched as a task.
    fn ends(&self) -> bool {
        true
    }

    /// Returns the event without secrets. Every event of a drive passes through here before it is logged.
    fn redacted(&self, event: Event) -> Event {
        event
    }

    fn order(&self, run: &Run, action: Action) -> Self::Order;

    /// Prepares a task that is performed without the plan's lease: does now what needs the workspace.
    fn set_out(&self, order: Self::Order) -> Self::Order {
        order
    }

    /// Performs a task; returns when it is done.
    fn perform(&self, order: Self::Order) -> Vec<TaskOutcome>;
}

/// Outcome of a task. The variant says who reports it: the agent or provost.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a task has a few, and they are dropped with it")]
pub enum TaskOutcome {
    Agent(AgentCommand),
    Harness(HarnessCommand),
}

impl<W: World> JournalContext for W {
    fn now(&self) -> Timestamp {
        World::now(self)
    }

    fn redacted(&self, event: Event) -> Event {
        World::redacted(self, event)
    }
}
