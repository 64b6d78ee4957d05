//! Delivers notifications over one channel, on its own thread and with retries.
//!
//! **Invariant:** passing a message to a courier never blocks. Only [`Courier::finish`] does, for a limited
//! time.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Channel, DeliveryError, Notification, SentNotifications};

/// Pauses between tries; after the last one, the next run tries again.
const BACKOFF: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
];
/// Timeout of one try while the run is active.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a program has to end after the request, when the run is over.
const LAST_WORDS: Duration = Duration::from_millis(1500);

pub struct Courier {
    desk: Arc<Desk>,
    name: String,
    key: String,
    /// `false` for a webhook and a mail, which cannot be interrupted and is therefore not waited for.
    can_be_ended: bool,
}

struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    /// Ends a program that is still running.
    stop: AtomicBool,
    memory: Arc<SentNotifications>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Notification>,
    /// Ids of all messages that were ever queued.
    taken: BTreeSet<String>,
    /// The time at which everything has to be over.
    closing: Option<Instant>,
    over: bool,
    complaints: Vec<String>,
}

impl Courier {
    pub fn start(
        way: Channel,
        environment: Vec<(OsString, OsString)>,
        memory: Arc<SentNotifications>,
    ) -> Self {
        let desk = Arc::new(Desk {
            state: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            memory,
        });
        let (name, key) = (way.name(), way.key());
        let can_be_ended = !matches!(way, Channel::Webhook(_) | Channel::Mail(_));
        let own = desk.clone();
        std::thread::spawn(move || {
            own.serve(&way, &environment);
            own.lock().over = true;
            own.changed.notify_all();
        });
        Self { desk, name, key, can_be_ended }
    }

    /// Queues a message once, unless it was delivered before.
    pub fn take(&self, message: &Notification) {
        if self.desk.memory.has(&message.id, &self.key) {
            return;
        }
        let mut state = self.desk.lock();
        if state.taken.insert(message.id.clone()) {
            state.queue.push_back(message.clone());
            self.desk.changed.notify_all();
        }
    }

    /// Ends the queue. Each courier may try until `patience` is over.
    pub fn close(&self, patience: Duration) {
        self.desk.lock().closing = Some(Instant::now() + patience);
        self.desk.changed.notify_all();
    }

    /// Waits until the time of `close` is over at most. Returns one line for each message that was not
    /// delivered.
    pub fn finish(self) -> Vec<String> {
        let mut state = self.desk.lock();
        let until = |state: &State| state.closing.unwrap_or_else(Instant::now);
        state = self.wait_for_the_end(state, until);
        if !state.over && self.can_be_ended {
            self.desk.stop.store(true, Ordering::Relaxed);
            let end = Instant::now() + LAST_WORDS;
            state = self.wait_for_the_end(state, |_| end);
        }
        let mut complaints = std::mem::take(&mut state.complaints);
        if !state.over {
            complaints.push("it has not answered yet".to_owned());
        }
        complaints.dedup();
        complaints.into_iter().map(|why| format!("provost could not notify {}: {why}", self.name)).collect()
    }

    fn wait_for_the_end<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        until: impl Fn(&State) -> Instant,
    ) -> MutexGuard<'s, State> {
        loop {
            let left = until(&state).saturating_duration_since(Instant::now());
            if state.over || left.is_zero() {
                return state;
            }
            state = self.desk.wait(state, left);
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    fn serve(&self, way: &Channel, environment: &[(OsString, OsString)]) {
        while let Some(message) = self.next() {
            if let Err(failed) = self.carry(way, environment, &message) {
                self.lock().complaints.push(failed.why);
            }
        }
    }

    /// Returns the next message; `None` after the end of the queue.
    fn next(&self) -> Option<Notification> {
        let mut state = self.lock();
        loop {
            if let Some(message) = state.queue.pop_front() {
                return Some(message);
            }
            if state.closing.is_some() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry(
        &self,
        way: &Channel,
        environment: &[(OsString, OsString)],
        message: &Notification,
    ) -> Result<(), DeliveryError> {
        let mut tries = 0;
        loop {
            let closing = self.lock().closing;
            let patience = closing.map_or(PATIENCE, |end| end.saturating_duration_since(Instant::now()));
            if patience.is_zero() {
                return Err(DeliveryError::for_now("the run had ended"));
            }
            match way.deliver(message, environment, patience, &self.stop) {
                Ok(()) => {
                    let kept = self.memory.keep(&message.id, &way.key());
                    return kept.map_err(|error| {
                        DeliveryError::for_good(format!(
                            "it was sent, but provost could not record that: {error}"
                        ))
                    });
                }
                Err(failed) if failed.hopeless || tries >= BACKOFF.len() => return Err(failed),
                Err(failed) => match closing.map(|end| end.saturating_duration_since(Instant::now())) {
                    None => self.pause(BACKOFF[tries]),
                    Some(left) if left <= BACKOFF[0] => return Err(failed),
                    // The run is over, so there is no time for a longer pause.
                    Some(_) => std::thread::sleep(BACKOFF[0]),
                },
            }
            tries += 1;
        }
    }

    /// Waits; ends early when the run is over.
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while state.closing.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.wait(state, left);
        }
    }
}
