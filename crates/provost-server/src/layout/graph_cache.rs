//! Caches the graph layouts of plans: one per approved spec, because a run does not change its layout.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::model::hash::Hash;
use provost_core::model::plan::Needs;
use provost_core::state::run::Run;

use super::graph::{self, GraphLayout, Node};

/// Maximum number of cached layouts.
const LAYOUTS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct GraphCache(Mutex<VecDeque<(Hash, Arc<GraphLayout>)>>);

impl GraphCache {
    /// Returns the layout of a plan's steps.
    pub(crate) fn layout(&self, run: &Run) -> Arc<GraphLayout> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let law = run.law.unwrap_or_else(|| Hash::of(run.text.as_bytes()));
        if let Some((_, layout)) = known().iter().find(|(known, _)| *known == law) {
            return layout.clone();
        }
        let layout = Arc::new(steps(run));
        let mut known = known();
        while known.len() >= LAYOUTS_MAX {
            known.pop_front();
        }
        known.push_back((law, layout.clone()));
        layout
    }
}

fn steps(run: &Run) -> GraphLayout {
    let nodes: Vec<Node> = run
        .plan
        .steps
        .iter()
        .map(|step| Node {
            id: step.number.0,
            needs: match &step.needs {
                Needs::Before => (1..step.number.0).collect(),
                Needs::Steps(steps) => steps.iter().map(|step| step.value.0).collect(),
            },
        })
        .collect();
    graph::drawn(&nodes)
}
