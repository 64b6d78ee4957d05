//! What a plan shows while it is worked on, besides its events.

use provost_core::model::chain::PlanId;
use provost_core::model::plan::StepNumber;

use super::Overview;
use crate::exec::{busy, live};

impl Overview {
    /// Returns the last lines of the running attempt's output, if there is any.
    pub fn output(&self, id: &PlanId, step: StepNumber) -> Option<String> {
        if !self.has(id).unwrap_or(false) {
            return None;
        }
        live::output(self.state(), id, step)
    }

    /// Returns what the run of the plan is busy with, if it takes a while and is no agent's work. It means
    /// something only while the plan is worked on.
    pub fn busy(&self, id: &PlanId) -> Option<String> {
        if !self.has(id).unwrap_or(false) {
            return None;
        }
        busy::read(self.state(), id)
    }
}
