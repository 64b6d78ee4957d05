//! Takes the lock of a file or folder, and waits for it a bounded time.
//!
//! Any process that can open the file can hold its lock for ever: an agent, or a process that was stopped.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

/// Longest wait for a lock that a living process holds for milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// Locks the file for this process alone. Returns `false` if another process keeps the lock, or if the file
/// system has none.
pub(crate) fn exclusive(file: &File, patience: Duration) -> bool {
    within(patience, || file.try_lock())
}

/// Locks the file together with other readers, in the same way.
pub(crate) fn shared(file: &File, patience: Duration) -> bool {
    within(patience, || file.try_lock_shared())
}

fn within(patience: Duration, attempt: impl Fn() -> Result<(), TryLockError>) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        match attempt() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_keeps_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || File::open(folder.path()).expect("the folder");
        let (keeper, other) = (open(), open());
        assert!(exclusive(&keeper, Duration::ZERO));
        assert!(!exclusive(&other, Duration::from_millis(10)));
        assert!(!shared(&other, Duration::ZERO));
        drop(keeper);
        assert!(exclusive(&other, Duration::ZERO));
    }
}
