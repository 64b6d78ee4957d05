//! Tells a client that a resource it subscribed to has changed.
//!
//! Both ways of the protocol work: `resources/subscribe` up to version 2025-11-25, where a session collects
//! addresses, and `subscriptions/listen` since 2026-07-28, where one request stays open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, LogWatch};
use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};

use super::resources;

/// Maximum time of one wait for the log; then a client that has gone is noticed.
const WAIT: Duration = Duration::from_secs(1);
/// Maximum number of addresses of one subscription.
const MOST: usize = 100;

/// Addresses that a client subscribed to, with the version that it knows of each.
#[derive(Default)]
pub(super) struct Subscriptions {
    known: Mutex<BTreeMap<String, Option<String>>>,
    is_followed: AtomicBool,
}

/// The client of a subscription.
pub(super) enum Subscriber {
    Session(Peer<RoleServer>),
    Request(SubscriptionSink),
}

impl Subscriber {
    /// Reports a change. Returns whether the client is still there.
    async fn tell(&self, uri: String) -> bool {
        match self {
            Self::Session(peer) => {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_ok()
            }
            Self::Request(sink) => sink.notify_resource_updated(uri).await.is_ok(),
        }
    }

    fn is_gone(&self) -> bool {
        match self {
            Self::Session(peer) => peer.is_transport_closed(),
            Self::Request(_) => false,
        }
    }
}

impl Subscriptions {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with these addresses; those beyond the limit are left out.
    pub(super) fn to(sessions: &AgentSessions, session: &ClientSession, uris: &[String]) -> Self {
        let list = Self::default();
        for uri in uris.iter().take(MOST) {
            list.add(sessions, session, uri);
        }
        list
    }

    /// Adds an address as it is now. Returns whether there was room for it.
    pub(super) fn add(&self, sessions: &AgentSessions, session: &ClientSession, uri: &str) -> bool {
        let version = resources::version(sessions, session, uri);
        let mut known = self.known();
        if known.len() >= MOST && !known.contains_key(uri) {
            return false;
        }
        known.insert(uri.to_owned(), version);
        true
    }

    pub(super) fn remove(&self, uri: &str) {
        self.known().remove(uri);
    }

    /// Returns `true` the first time: the caller then starts to follow the log.
    pub(super) fn needs_follower(&self) -> bool {
        !self.is_followed.swap(true, Ordering::Relaxed)
    }

    /// Returns the addresses whose resource has changed, and remembers the new versions.
    fn changed(&self, sessions: &AgentSessions, session: &ClientSession) -> Vec<String> {
        let wanted: Vec<String> = self.known().keys().cloned().collect();
        let mut changed = Vec::new();
        for uri in wanted {
            let now = resources::version(sessions, session, &uri);
            // It may have been removed meanwhile.
            if let Some(before) = self.known().get_mut(&uri).filter(|before| **before != now) {
                *before = now;
                changed.push(uri);
            }
        }
        changed
    }
}

/// Follows the log and reports changes until the client or its subscriptions are gone.
pub(super) async fn follow(
    list: Weak<Subscriptions>,
    sessions: Arc<AgentSessions>,
    session: ClientSession,
    subscriber: Subscriber,
) {
    let mut log = None;
    while let Some(list) = list.upgrade().filter(|_| !subscriber.is_gone()) {
        let (sessions, session) = (sessions.clone(), session.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let log = waited(log, &sessions);
            (log, list.changed(&sessions, &session))
        });
        let Ok((read, changed)) = looked.await else { return };
        log = read;
        for uri in changed {
            if !subscriber.tell(uri).await {
                return;
            }
        }
    }
}

/// Waits a moment for new events. A log that is opened only now may have grown before: it is not waited for.
fn waited(log: Option<LogWatch>, sessions: &AgentSessions) -> Option<LogWatch> {
    let Some(mut log) = log else {
        return sessions.watch().inspect_err(|_| std::thread::sleep(WAIT)).ok();
    };
    log.wait(WAIT).is_ok().then_some(log)
}
