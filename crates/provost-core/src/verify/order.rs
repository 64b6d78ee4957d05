//! Whether the steps can be done in some order at all.
//!
//! A step without `needs` waits for all before it. Those edges are not written out one by one: a chain of
//! stand-ins ("everything up to here") keeps the graph linear in the text.

use crate::diagnostic::say;
use crate::parse::Sink;
use crate::plan::{Needs, Plan, StepNumber};

/// More circles than this do not help anybody to find the first.
const MOST_CYCLES: usize = 3;

pub fn check(plan: &Plan, sink: &mut Sink) {
    let explicit = plan.steps.iter().any(|step| matches!(step.needs, Needs::Steps(_)));
    if !explicit {
        return;
    }
    let index: std::collections::HashMap<StepNumber, usize> =
        plan.steps.iter().enumerate().rev().map(|(at, step)| (step.number, at)).collect();
    let cycles = cycles(&graph(plan, &index));
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

/// Node `n + i` stands for all steps up to `i`.
fn graph(plan: &Plan, index: &std::collections::HashMap<StepNumber, usize>) -> Vec<Vec<usize>> {
    let n = plan.steps.len();
    let mut edges: Vec<Vec<usize>> = Vec::with_capacity(2 * n);
    for (at, step) in plan.steps.iter().enumerate() {
        edges.push(match &step.needs {
            Needs::Before if at == 0 => Vec::new(),
            Needs::Before => vec![n + at - 1],
            Needs::Steps(needs) => needs
                .iter()
                .filter_map(|need| index.get(&need.value).copied())
                .filter(|to| *to != at)
                .collect(),
        });
    }
    for at in 0..n {
        edges.push(if at == 0 { vec![0] } else { vec![at, n + at - 1] });
    }
    edges
}

/// The first few circles, as steps in the order in which they wait for each other.
fn cycles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        Open,
        Done,
    }
    let steps = edges.len() / 2;
    let mut seen = vec![Seen::Never; edges.len()];
    let mut found = Vec::new();
    for start in 0..steps {
        if seen[start] != Seen::Never {
            continue;
        }
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        seen[start] = Seen::Open;
        while let Some((node, next)) = path.last_mut() {
            let Some(to) = edges[*node].get(*next).copied() else {
                seen[*node] = Seen::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match seen[to] {
                Seen::Never => {
                    seen[to] = Seen::Open;
                    path.push((to, 0));
                }
                Seen::Open if found.len() < MOST_CYCLES => {
                    let from = path.iter().position(|(node, _)| *node == to).unwrap_or(0);
                    found.push(
                        path[from..].iter().map(|(node, _)| *node).filter(|node| *node < steps).collect(),
                    );
                }
                Seen::Open | Seen::Done => {}
            }
        }
    }
    found
}
