//! Rate limits: a token bucket for each kind of request and each client.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Maximum number of remembered clients; the oldest are forgotten.
const ASKERS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallerKind {
    /// A client without an authenticated principal.
    Unknown,
    View,
    Write,
}

impl CallerKind {
    /// Returns the bucket size and the refill rate per second.
    fn measure(self) -> (f64, f64) {
        match self {
            CallerKind::Unknown => (60.0, 1.0),
            CallerKind::View => (2000.0, 1000.0),
            CallerKind::Write => (200.0, 20.0),
        }
    }
}

#[derive(Default)]
pub(crate) struct RateLimits {
    buckets: Mutex<HashMap<(CallerKind, String), (f64, Instant)>>,
}

impl RateLimits {
    /// Returns whether one more request is allowed; if not, the number of seconds to wait.
    pub(crate) fn allow(&self, kind: CallerKind, asker: &str) -> Result<(), u64> {
        self.allow_at(kind, asker, Instant::now())
    }

    fn allow_at(&self, kind: CallerKind, asker: &str, now: Instant) -> Result<(), u64> {
        let (most, a_second) = kind.measure();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = |left: f64, since: Instant| {
            (left + now.saturating_duration_since(since).as_secs_f64() * a_second).min(most)
        };
        if buckets.len() >= ASKERS_MAX {
            let full = |(kind, _): &(CallerKind, String), (left, since): &(f64, Instant)| {
                let (most, a_second) = kind.measure();
                left + now.saturating_duration_since(*since).as_secs_f64() * a_second >= most
            };
            buckets.retain(|key, bucket| !full(key, bucket));
            if buckets.len() >= ASKERS_MAX {
                return Err(1);
            }
        }
        let bucket = buckets.entry((kind, asker.to_owned())).or_insert((most, now));
        let left = filled(bucket.0, bucket.1);
        let is_within = left >= 1.0;
        *bucket = (if is_within { left - 1.0 } else { left }, now);
        if is_within { Ok(()) } else { Err(((1.0 - left) / a_second).ceil() as u64) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{CallerKind, RateLimits};

    #[test]
    fn a_bucket_runs_out_and_fills_up_again() {
        let (limits, now) = (RateLimits::default(), Instant::now());
        let allowed = |at| (0..100).filter(|_| limits.allow_at(CallerKind::Unknown, "a", at).is_ok()).count();
        assert_eq!(allowed(now), 60);
        assert_eq!(limits.allow_at(CallerKind::Unknown, "a", now), Err(1));
        assert_eq!(limits.allow_at(CallerKind::Unknown, "b", now), Ok(()));
        assert_eq!(allowed(now + Duration::from_secs(10)), 10);
    }
}
