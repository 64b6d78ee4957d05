//! Queues new events of the log for all open streams.
//!
//! **Invariant:** the id of an event is its position in the log and never changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Bytes;
use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::plan::StepNumber;
use provost_engine::Cursor;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Number of events that a stream may be behind before it is disconnected.
const QUEUE: usize = 1024;

/// An event and its bytes on the wire.
#[derive(Debug)]
pub(crate) struct StreamEvent {
    pub at: Cursor,
    pub plan: PlanId,
    pub step: Option<StepNumber>,
    pub name: String,
    pub bytes: Bytes,
}

impl StreamEvent {
    pub(crate) fn new(at: Cursor, sealed: &SealedEvent) -> Self {
        let bytes = format!("id: {}\nevent: {}\ndata: {}\n\n", at.0, sealed.name, sealed.line());
        let (plan, step, name) = (sealed.plan.clone(), sealed.step, sealed.name.clone());
        Self { at, plan, step, name, bytes: Bytes::from(bytes) }
    }
}

pub(crate) struct LiveEvents {
    queue: Sender<Arc<StreamEvent>>,
    /// Position of the last event that was queued.
    through: AtomicU64,
}

impl LiveEvents {
    pub(crate) fn new(from: Cursor) -> Self {
        Self { queue: broadcast::channel(QUEUE).0, through: AtomicU64::new(from.0) }
    }

    /// Queues an event for all subscribers.
    pub(crate) fn publish(&self, at: Cursor, sealed: &SealedEvent) {
        let _ = self.queue.send(Arc::new(StreamEvent::new(at, sealed)));
        self.through.store(at.0, Ordering::Release);
    }

    pub(crate) fn subscribe(&self) -> Receiver<Arc<StreamEvent>> {
        self.queue.subscribe()
    }

    pub(crate) fn subscribers(&self) -> usize {
        self.queue.receiver_count()
    }

    pub(crate) fn through(&self) -> Cursor {
        Cursor(self.through.load(Ordering::Acquire))
    }
}
