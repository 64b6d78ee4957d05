//! Wakes the threads and tasks of a worker that have nothing to do.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a running worker checks whether it leaves.
const EAR: Duration = Duration::from_millis(50);

/// Signals that there is something to do; threads and tasks wait for it.
pub(crate) struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

struct State {
    rings: u64,
    last: Instant,
    leaves: bool,
}

impl Default for Bell {
    fn default() -> Self {
        let state = State { rings: 0, last: Instant::now(), leaves: false };
        Self { state: Mutex::new(state), rung: Condvar::new() }
    }
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut state = self.state();
        state.rings += 1;
        state.last = Instant::now();
        self.rung.notify_all();
    }

    /// Ends all waits.
    pub(crate) fn leave(&self) {
        self.state().leaves = true;
        self.rung.notify_all();
    }

    /// Waits until there was no wake-up for `time`, and returns the number of wake-ups so far. `None` if the
    /// worker leaves.
    pub(crate) async fn calm(&self, time: Duration) -> Option<u64> {
        let begun = Instant::now();
        loop {
            let (rings, last) = match &*self.state() {
                State { leaves: true, .. } => return None,
                state => (state.rings, state.last),
            };
            let calm = last.max(begun) + time;
            if Instant::now() >= calm {
                return Some(rings);
            }
            tokio::time::sleep_until(calm.min(Instant::now() + EAR).into()).await;
        }
    }

    /// Blocks this thread until the next wake-up, at most for `time`.
    pub(crate) fn sleep(&self, rings: u64, time: Option<Duration>) {
        let is_calm = |state: &mut State| state.rings == rings && !state.leaves;
        let state = self.state();
        match time {
            Some(time) => drop(self.rung.wait_timeout_while(state, time, is_calm)),
            None => drop(self.rung.wait_while(state, is_calm)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Bell;
    use std::time::{Duration, Instant};

    #[test]
    fn whoever_rings_before_one_sleeps_is_heard() {
        let bell = Bell::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let rings = runtime.block_on(bell.calm(Duration::ZERO)).unwrap();
        bell.ring();
        let begun = Instant::now();
        bell.sleep(rings, Some(Duration::from_secs(600)));
        assert!(begun.elapsed() < Duration::from_secs(300), "it slept");
        bell.sleep(rings + 1, Some(Duration::ZERO));
        bell.leave();
        bell.sleep(rings + 1, None);
        assert_eq!(runtime.block_on(bell.calm(Duration::from_secs(600))), None);
    }
}
