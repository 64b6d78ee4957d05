//! Tracks answers that have reached the agent, or are about to, but whose usage is not booked yet.
//!
//! **Invariant:** the request after an answer is checked after the answer is booked, unless booking takes
//! longer than `PATIENCE`.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for an upstream that has reported its usage but does not end its answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct OpenAnswers {
    answers: Mutex<u32>,
    booked: Condvar,
}

/// An answer that is not booked yet; dropped when it is booked.
pub(super) struct OpenAnswer<'a>(&'a OpenAnswers);

impl OpenAnswers {
    pub(super) fn begin(&self) -> OpenAnswer<'_> {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        OpenAnswer(self)
    }

    /// Waits until every answer is booked.
    pub(super) fn wait(&self) {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.booked.wait_timeout_while(answers, PATIENCE, |answers| *answers > 0);
        drop(waited);
    }
}

impl Drop for OpenAnswer<'_> {
    fn drop(&mut self) {
        *self.0.answers.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.booked.notify_all();
    }
}
