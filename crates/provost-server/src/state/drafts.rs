//! Remembers the plans that the planner drafts for a page, until the server ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::model::timestamp::Timestamp;
use provost_engine::plan::plan_context;

/// Number of drafts that are remembered.
const DRAFTS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DraftStatus {
    pub name: String,
    pub goal: String,
    pub begun: Timestamp,
    /// `None` while the planner works; the last lines of its output if it made no plan.
    pub result: Option<Result<(), String>>,
}

/// The drafts, newest first.
#[derive(Clone, Default)]
pub(crate) struct Drafts(Arc<Mutex<VecDeque<DraftStatus>>>);

impl Drafts {
    pub(crate) fn all(&self) -> Vec<DraftStatus> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn begin(&self, name: &str, goal: &str) {
        let mut all = self.lock();
        let (name, goal) = (name.to_owned(), goal.to_owned());
        all.push_front(DraftStatus { name, goal, begun: plan_context::now(), result: None });
        all.truncate(DRAFTS_MAX);
    }

    pub(crate) fn end(&self, name: &str, result: Result<(), String>) {
        let is_it = |draft: &&mut DraftStatus| draft.name == name && draft.result.is_none();
        if let Some(draft) = self.lock().iter_mut().find(is_it) {
            draft.result = Some(result);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<DraftStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
