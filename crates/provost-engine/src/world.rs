//! What the loop needs of the world: the time, the law as it stands on disk, and deeds.
//!
//! Two worlds exist: the real one ([`crate::site::Site`]) and a simulated one that lies, stalls and
//! crashes by a seed.

use provost_core::model::event::{Event, StartTree};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::{AgentCommand, HarnessCommand};
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::Action;
use provost_core::state::run::Run;

pub trait World: Sync {
    /// Everything a deed needs, taken from the run before it begins.
    type Order: Send + 'static;

    fn now(&self) -> Timestamp;

    /// Lets time pass until `until`. It may come back before, so that others are heard.
    fn wait(&self, until: Timestamp);

    /// What follows from failures, by the configuration.
    fn recipes(&self) -> &Recipes;

    /// What differs between the plan file and the approved law, if anything does.
    fn law_changes(&self, run: &Run) -> Option<Vec<String>>;

    /// Steps are given to agents of ours. Otherwise somebody else does the work, and it is only looked at.
    fn starts_agents(&self) -> bool {
        true
    }

    /// Why a step cannot be begun whose turn has come, where the plan that carries it out waits for a person.
    fn held_up(&self, _run: &Run, _step: StepNumber) -> Option<String> {
        None
    }

    /// The tree that an attempt at the step begins with, where it is kept; or why it cannot be.
    fn start(&self, _run: &Run, _step: StepNumber) -> Result<Option<StartTree>, String> {
        Ok(None)
    }

    /// A person wants the harness to stop.
    fn interrupted(&self) -> bool;

    /// Whether work is given out here. Where it is not, the loop judges what there is and rests.
    fn dispatches(&self) -> bool {
        true
    }

    /// The end is decided as soon as it is due. Where it is not, it is given out like any deed.
    fn ends(&self) -> bool {
        true
    }

    /// The event as it may stand in the log: without secrets. Every event of a drive passes here.
    fn redacted(&self, event: Event) -> Event {
        event
    }

    fn order(&self, run: &Run, action: Action) -> Self::Order;

    /// Does it, however long it takes.
    fn perform(&self, order: Self::Order) -> Vec<Said>;
}

/// What was said during a deed, and by whom: each goes in by its own door.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a deed brings a handful, and they are gone with it")]
pub enum Said {
    Agent(AgentCommand),
    Harness(HarnessCommand),
}
