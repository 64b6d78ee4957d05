//! Represents the steps of a plan as a graph: dependencies, cycles, and the longest remaining path.
//!
//! A step without `needs` waits for all steps before it. The graph does not store these edges one by one: a
//! chain of placeholder nodes ("everything up to here") keeps it linear in the size of the plan.

use std::collections::HashMap;
use std::time::Duration;

use crate::model::plan::{Needs, Plan, Step, StepNumber};

/// Assumed duration of a step without a timeout.
const USUAL: Duration = Duration::from_secs(600);

/// The dependency graph. Node `i` is the step at that index of the plan; node `steps + i` joins all
/// steps up to that index, so that one edge replaces many.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    steps: usize,
    /// The nodes that each node waits for.
    needs: Vec<Vec<usize>>,
}

impl Graph {
    pub fn of(plan: &Plan) -> Self {
        let index = places(plan);
        let n = plan.steps.len();
        let mut needs: Vec<Vec<usize>> = Vec::with_capacity(2 * n);
        for (at, step) in plan.steps.iter().enumerate() {
            needs.push(match &step.needs {
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
            needs.push(if at == 0 { vec![0] } else { vec![at, n + at - 1] });
        }
        Self { steps: n, needs }
    }

    /// Returns the first cycles, at most `most`, as indexes of steps in the order in which they wait for each
    /// other.
    pub fn cycles(&self, most: usize) -> Vec<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            Never,
            Open,
            Done,
        }
        let edges = &self.needs;
        let mut seen = vec![Seen::Never; edges.len()];
        let mut found = Vec::new();
        for start in 0..self.steps {
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
                    Seen::Open if found.len() < most => {
                        let from = path.iter().position(|(node, _)| *node == to).unwrap_or(0);
                        let round = path[from..].iter().map(|(node, _)| *node);
                        found.push(round.filter(|node| *node < self.steps).collect());
                    }
                    Seen::Open | Seen::Done => {}
                }
            }
        }
        found
    }

    /// Returns for each step the length of the longest path from its start to the end of the last step that
    /// waits for it. Steps in a cycle have no such path; their values mean nothing.
    pub fn remaining(&self, length_ms: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut waiters = vec![0_u32; self.needs.len()];
        for need in self.needs.iter().flatten() {
            waiters[*need] += 1;
        }
        let mut behind = vec![0_u64; self.needs.len()];
        let mut whole = vec![0_u64; self.needs.len()];
        let mut free: Vec<usize> = (0..self.needs.len()).filter(|node| waiters[*node] == 0).collect();
        while let Some(node) = free.pop() {
            let own = if node < self.steps { length_ms(node) } else { 0 };
            whole[node] = behind[node].saturating_add(own);
            for need in &self.needs[node] {
                behind[*need] = behind[*need].max(whole[node]);
                waiters[*need] -= 1;
                if waiters[*need] == 0 {
                    free.push(*need);
                }
            }
        }
        whole.truncate(self.steps);
        whole
    }
}

/// Maps each step number to its index in the plan.
pub fn places(plan: &Plan) -> HashMap<StepNumber, usize> {
    plan.steps.iter().enumerate().rev().map(|(at, step)| (step.number, at)).collect()
}

/// Returns the estimated duration of a step: its timeout.
pub fn length_ms(step: &Step) -> u64 {
    let length = step.timeout.as_ref().map_or(USUAL, |timeout| timeout.value);
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::parse;

    fn remaining(needs: &[&str]) -> Vec<u64> {
        let mut text = String::from("# Plan\n\n## Steps\n");
        for (at, needs) in needs.iter().enumerate() {
            text.push_str(&format!(
                "\n### {}. Step\n**timeout:** 1 second\n{needs}\n**task:**\nDo.\n",
                at + 1
            ));
        }
        let plan = parse::plan(&text).plan;
        Graph::of(&plan).remaining(|at| length_ms(&plan.steps[at]) / 1000)
    }

    #[test]
    fn what_remains_is_the_longest_way_to_the_end() {
        assert_eq!(remaining(&["", "", ""]), [3, 2, 1]);
        let none = "**needs:** none\n";
        assert_eq!(
            remaining(&[none, none, "**needs:** 1\n", "**needs:** 3\n", "**needs:** 2\n"]),
            [3, 2, 2, 1, 1]
        );
        // The last step waits for all before it, also for the one without needs.
        assert_eq!(remaining(&[none, none, "**needs:** 1\n", ""]), [3, 2, 2, 1]);
        assert_eq!(remaining(&["**needs:** 2\n", "**needs:** 1\n", none]), [0, 0, 1]);
    }
}
