//! Who is told when something waits: one connection listens for those who put it there, and asks nothing.
//!
//! **Invariant:** what was put on a queue while nobody listened is found: the bell is rung whenever the
//! connection is made again, and each time the worker says that it is there it asks, too (`sweep.rs`).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;
use sqlx::postgres::PgListener;

/// As `schema.sql` calls it.
const CHANNEL: &str = "provost_cluster";
/// When the connection is made again that was cut.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is looked whether the worker leaves, while it moves.
const EAR: Duration = Duration::from_millis(50);

/// Rung when there is something to do. Threads and tasks wait by it.
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
    pub fn ring(&self) {
        let mut state = self.state();
        state.rings += 1;
        state.last = Instant::now();
        self.rung.notify_all();
    }

    /// Nobody waits any more.
    pub fn leave(&self) {
        self.state().leaves = true;
        self.rung.notify_all();
    }

    /// Waits until nobody has rung for so long, and returns how often it was rung until then. Nothing, where
    /// the worker leaves.
    pub async fn calm(&self, time: Duration) -> Option<u64> {
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

    /// Waits on this thread until it is rung again, for no longer than this.
    pub fn sleep(&self, rings: u64, time: Option<Duration>) {
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

/// Rings for every queue that is listened to, for ever.
pub(crate) async fn listen(pool: &PgPool, bell: &Bell, listens_to: impl Fn(&str) -> bool) {
    loop {
        if let Ok(mut listener) = PgListener::connect_with(pool).await
            && listener.listen(CHANNEL).await.is_ok()
        {
            // What was put there while nobody listened.
            bell.ring();
            while let Ok(Some(said)) = listener.try_recv().await {
                if listens_to(said.payload()) {
                    bell.ring();
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
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
