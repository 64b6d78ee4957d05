//! Tracks which steps may begin.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{StepRun, StepState};
use crate::model::graph::{self, Graph};
use crate::model::plan::{Needs, Plan, StepNumber};

/// The pending steps whose needs are met, updated in constant time per event.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadySteps {
    pub steps: BTreeSet<StepNumber>,
    /// The same in critical-path order (longest remaining chain first).
    pub longest: BTreeSet<(Reverse<u64>, StepNumber)>,
    /// Length of the remaining chain, by step.
    remaining: Vec<u64>,
    /// Running or ended, not judged.
    pub under_way: BTreeSet<StepNumber>,
    /// Number of open needs, by step.
    open_needs: Vec<u32>,
    /// The steps that name each step in their `needs`.
    waiters: Vec<Vec<u32>>,
    /// Number of settled steps at the start of the plan, without a gap.
    prefix: usize,
    pub settled: u32,
    pub failed: u32,
    pub blocked: u32,
}

impl ReadySteps {
    pub(super) fn new(plan: &Plan, steps: &[StepRun]) -> Self {
        let count = steps.len();
        let mut ready = ReadySteps {
            remaining: Graph::of(plan).remaining(|at| graph::length_ms(&plan.steps[at])),
            open_needs: vec![0; count],
            waiters: vec![Vec::new(); count],
            ..ReadySteps::default()
        };
        for (index, step) in plan.steps.iter().enumerate() {
            let Needs::Steps(needs) = &step.needs else { continue };
            for need in needs {
                let needed = (need.value.0 as usize).wrapping_sub(1);
                if steps.get(needed).is_some_and(|step| !step.state.is_settled()) {
                    ready.open_needs[index] += 1;
                    ready.waiters[needed].push(index as u32);
                }
            }
        }
        ready.settled = steps.iter().filter(|step| step.state.is_settled()).count() as u32;
        ready.failed = steps.iter().filter(|step| step.state == StepState::Failed).count() as u32;
        ready.blocked = steps.iter().filter(|step| step.state.is_blocked()).count() as u32;
        ready.prefix = steps.iter().take_while(|step| step.state.is_settled()).count();
        for index in 0..count {
            ready.refresh(index, steps, plan);
        }
        ready
    }

    pub(super) fn moved(&mut self, index: usize, before: &StepState, steps: &[StepRun], plan: &Plan) {
        let now = &steps[index].state;
        count(&mut self.settled, before.is_settled(), now.is_settled());
        count(&mut self.failed, *before == StepState::Failed, *now == StepState::Failed);
        count(&mut self.blocked, before.is_blocked(), now.is_blocked());
        self.refresh(index, steps, plan);
        if !now.is_settled() || before.is_settled() {
            return;
        }
        for waiter in std::mem::take(&mut self.waiters[index]) {
            let waiter = waiter as usize;
            self.open_needs[waiter] -= 1;
            self.refresh(waiter, steps, plan);
        }
        while steps.get(self.prefix).is_some_and(|step| step.state.is_settled()) {
            self.prefix += 1;
        }
        if self.prefix < steps.len() {
            self.refresh(self.prefix, steps, plan);
        }
    }

    fn refresh(&mut self, index: usize, steps: &[StepRun], plan: &Plan) {
        let needs_met = match plan.steps[index].needs {
            Needs::Before => self.prefix >= index,
            Needs::Steps(_) => self.open_needs[index] == 0,
        };
        let number = StepNumber(index as u32 + 1);
        if matches!(steps[index].state, StepState::Running { .. } | StepState::Ended { .. }) {
            self.under_way.insert(number);
        } else {
            self.under_way.remove(&number);
        }
        let place = (Reverse(self.remaining[index]), number);
        if needs_met && steps[index].state == StepState::Pending {
            self.steps.insert(number);
            self.longest.insert(place);
        } else {
            self.steps.remove(&number);
            self.longest.remove(&place);
        }
    }
}

fn count(counter: &mut u32, before: bool, now: bool) {
    match (before, now) {
        (false, true) => *counter += 1,
        (true, false) => *counter -= 1,
        (true, true) | (false, false) => {}
    }
}
