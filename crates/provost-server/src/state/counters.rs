//! Counts responses, and caches the parts of the metrics that take long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

/// Time limit for each part of the metrics.
const AWHILE: Duration = Duration::from_secs(4);
/// Time for which a part is reused for other requests.
const FRESH: Duration = Duration::from_secs(1);

/// A metric family: samples with their labels.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: &'static str,
    pub kind: &'static str,
    pub help: &'static str,
    pub samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Returns extra metric families from the caller. Called outside of the async threads.
pub type Beside = dyn Fn() -> Vec<Family> + Send + Sync;

/// A table of a page, from the caller.
#[derive(Clone, Debug)]
pub struct PageTable {
    pub title: &'static str,
    pub heads: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
    /// Shown if there is no row.
    pub if_empty: &'static str,
}

/// Returns the tables of the cluster from the caller, or why it cannot. Called outside of the async threads.
pub type ClusterTables = dyn Fn() -> Result<Vec<PageTable>, String> + Send + Sync;

/// A slow part of the response: computed once at a time, and cached.
#[derive(Default)]
pub(crate) struct CachedPart {
    turn: Arc<tokio::sync::Mutex<()>>,
    kept: Mutex<Option<(Instant, String)>>,
}

impl CachedPart {
    /// Returns the part; `None` if it takes too long. It then continues in the background, and other requests
    /// wait for it.
    pub(crate) async fn ask(
        &self,
        asked: impl Future<Output = Option<String>> + Send + 'static,
    ) -> Option<String> {
        let told = tokio::time::timeout(AWHILE, async {
            let turn = self.turn.clone().lock_owned().await;
            if let Some(kept) = self.kept() {
                return Some(kept);
            }
            let asked = tokio::spawn(async move {
                let _turn = turn;
                asked.await
            });
            let told = asked.await.ok().flatten()?;
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), told.clone()));
            Some(told)
        });
        told.await.ok().flatten()
    }

    fn kept(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, text)| text.clone())
    }
}

#[derive(Default)]
pub(crate) struct ResponseCounts {
    /// By the first digit of the status, from 1 to 5.
    pub by_class: [AtomicU64; 5],
    /// Time until the responses began.
    pub micros: AtomicU64,
}

impl ResponseCounts {
    pub(crate) fn add(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        if let Some(count) = self.by_class.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}
