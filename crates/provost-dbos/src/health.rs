//! Health of a worker, for the probes of an orchestrator.
//!
//! The worker's loop notes here that it turns, and when the database last answered. Probes read only this, so
//! they answer at once while the database is unreachable.
//!
//! **Invariant:** a worker that only waits for the database is alive, and not ready. An orchestrator that
//! restarted it would end agents that can still finish.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time without a turn of the worker's loop after which it counts as stuck, besides its lease.
const STUCK: Duration = Duration::from_secs(60);

/// What probes know of a worker.
#[derive(Debug, Default)]
pub struct WorkerHealth {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Lease time of the worker; set when it has joined.
    ttl: Duration,
    /// When the database last confirmed a heartbeat.
    heard: Option<Instant>,
    /// When the loop last turned; `None` before the worker has joined and while it leaves its queues.
    turned: Option<Instant>,
    leaves: bool,
}

impl WorkerHealth {
    /// Answers whether the process works; otherwise why a restart is needed.
    pub fn is_alive(&self) -> Result<(), String> {
        self.alive_at(Instant::now())
    }

    /// Answers whether the worker takes items; otherwise why not.
    pub fn is_ready(&self) -> Result<(), String> {
        self.ready_at(Instant::now())
    }

    fn alive_at(&self, now: Instant) -> Result<(), String> {
        let state = *self.state();
        match state.turned.map(|turned| now.saturating_duration_since(turned)) {
            Some(idle) if idle > state.ttl + STUCK => {
                Err(format!("the loop of this worker has not turned for {} s", idle.as_secs()))
            }
            _ => Ok(()),
        }
    }

    fn ready_at(&self, now: Instant) -> Result<(), String> {
        let state = *self.state();
        if state.leaves {
            return Err("this worker leaves, and takes no new items".to_owned());
        }
        let Some(heard) = state.heard else { return Err("this worker has not joined yet".to_owned()) };
        let silent = now.saturating_duration_since(heard);
        match silent > state.ttl * 2 / 3 {
            true => Err(format!("the database has not answered for {} s", silent.as_secs())),
            false => Ok(()),
        }
    }

    /// Notes a confirmed heartbeat that was sent at this time.
    pub(crate) fn heard(&self, sent: Instant, ttl: Duration) {
        let mut state = self.state();
        state.heard = Some(sent);
        state.ttl = ttl;
    }

    pub(crate) fn turns(&self) {
        self.state().turned = Some(Instant::now());
    }

    /// Notes that it takes nothing new. Leaving the queues has no time limit of its own.
    pub(crate) fn leaves(&self) {
        let mut state = self.state();
        state.leaves = true;
        state.turned = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::WorkerHealth;

    #[test]
    fn it_is_ready_while_the_database_answers_and_alive_while_it_turns() {
        let health = WorkerHealth::default();
        let ttl = Duration::from_secs(30);
        assert!(health.is_alive().is_ok());
        assert!(health.is_ready().unwrap_err().contains("not joined"));
        health.heard(Instant::now(), ttl);
        health.turns();
        assert_eq!((health.is_alive(), health.is_ready()), (Ok(()), Ok(())));
        let later = Instant::now() + Duration::from_secs(21);
        assert!(health.ready_at(later).unwrap_err().contains("has not answered for 2"));
        assert_eq!(health.alive_at(later), Ok(()));
        let much_later = Instant::now() + Duration::from_secs(100);
        assert!(health.alive_at(much_later).unwrap_err().contains("not turned"));
        health.leaves();
        assert_eq!(health.alive_at(much_later), Ok(()));
        assert!(health.is_ready().unwrap_err().contains("leaves"));
    }
}
