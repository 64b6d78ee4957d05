//! Checks whether the steps can be done in some order.

use crate::language::diagnostic::say;
use crate::language::parse::Sink;
use crate::model::graph::{self, Graph};
use crate::model::plan::{Needs, Plan, StepNumber};

/// Maximum number of reported cycles; more would not help.
const MOST_CYCLES: usize = 3;

pub(super) fn check(plan: &Plan, sink: &mut Sink) {
    let explicit = plan.steps.iter().any(|step| matches!(step.needs, Needs::Steps(_)));
    if !explicit {
        return;
    }
    let index = graph::places(plan);
    let cycles = Graph::of(plan).cycles(MOST_CYCLES);
    let mut in_cycle = vec![false; plan.steps.len()];
    for cycle in &cycles {
        cycle.iter().for_each(|at| in_cycle[*at] = true);
        let mut round: Vec<StepNumber> = cycle.iter().map(|at| plan.steps[*at].number).collect();
        round.extend(round.first().copied());
        let step = &plan.steps[cycle.iter().copied().min().unwrap_or(0)];
        let at = match &step.needs {
            Needs::Steps(needs) => needs.first().map_or(step.heading, |need| need.span),
            Needs::Before => step.heading,
        };
        sink.push(say::step_cycle(at, &round));
    }
    for (at, step) in plan.steps.iter().enumerate() {
        let Needs::Steps(needs) = &step.needs else { continue };
        for need in needs {
            match index.get(&need.value) {
                None => sink.push(say::needs_unknown(need.span, need.value, plan.steps.len())),
                Some(to) if *to == at => sink.push(say::needs_itself(need.span, need.value)),
                Some(to) if *to > at && !in_cycle[at] => {
                    sink.push(say::needs_later(need.span, step.number, need.value));
                }
                Some(_) => {}
            }
        }
    }
}
