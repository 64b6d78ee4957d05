//! What provost is busy with right now, for people who wait.
//!
//! **Invariant:** nothing is decided by it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

struct Running {
    id: u64,
    what: String,
    done: Arc<AtomicU64>,
    total: Option<u64>,
}

/// Something that takes time. It is over when this is dropped.
pub struct Activity {
    id: u64,
    done: Arc<AtomicU64>,
}

impl Activity {
    pub fn begin(what: impl Into<String>) -> Self {
        Self::with_total(what.into(), None)
    }

    /// Begins something that goes through `total` items.
    pub fn counting(what: impl Into<String>, total: usize) -> Self {
        Self::with_total(what.into(), Some(total as u64))
    }

    fn with_total(what: String, total: Option<u64>) -> Self {
        let (id, done) = (NEXT.fetch_add(1, Ordering::Relaxed), Arc::new(AtomicU64::new(0)));
        let running = Running { id, what, done: done.clone(), total };
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push(running);
        Self { id, done }
    }

    /// Says how many items are done.
    pub fn has_done(&self, items: usize) {
        self.done.store(items as u64, Ordering::Relaxed);
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|running| running.id != self.id);
    }
}

/// Describes what began last and is not over.
pub fn current() -> Option<String> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).last().map(Running::to_string)
}

impl fmt::Display for Running {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            Some(total) => write!(out, "{} ({} of {total})", self.what, self.done.load(Ordering::Relaxed)),
            None => out.write_str(&self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process have activities too, so only this one is looked at.
    fn shown(activity: &Activity) -> Option<String> {
        let running = RUNNING.lock().unwrap();
        running.iter().find(|running| running.id == activity.id).map(Running::to_string)
    }

    #[test]
    fn an_activity_is_shown_with_its_count_until_it_is_over() {
        let plain = Activity::begin("looking at the repository");
        assert_eq!(shown(&plain).as_deref(), Some("looking at the repository"));
        let counting = Activity::counting("copying files", 3);
        counting.has_done(2);
        assert_eq!(shown(&counting).as_deref(), Some("copying files (2 of 3)"));
        let id = counting.id;
        drop(counting);
        assert!(RUNNING.lock().unwrap().iter().all(|running| running.id != id));
    }
}
