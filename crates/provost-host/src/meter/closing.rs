//! Answers whose end the agent has, or is about to get, and which are not in the books yet.
//!
//! **Invariant:** who asks again after an answer asks behind its booking, however long that takes.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// An upstream that said what it took, and then does not end, holds up nobody for longer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Closing {
    answers: Mutex<u32>,
    booked: Condvar,
}

/// One of them; gone once it is in the books.
pub struct Answer<'a>(&'a Closing);

impl Closing {
    pub fn begin(&self) -> Answer<'_> {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Answer(self)
    }

    /// Until everything that was answered is booked.
    pub fn wait(&self) {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.booked.wait_timeout_while(answers, PATIENCE, |answers| *answers > 0);
        drop(waited);
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        *self.0.answers.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.booked.notify_all();
    }
}
