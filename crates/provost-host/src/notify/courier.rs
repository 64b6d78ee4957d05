//! Carries messages one way, on a thread of its own: tries, waits, tries again.
//!
//! **Invariant:** giving a message to a courier never waits. Only [`Courier::finish`] does, and no
//! longer than it was told.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Memory, Message, Undelivered, Way};

/// Between one try and the next; after the last one it is for another run.
const BACKOFF: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
];
/// One try, while the run is under way.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a program gets to end after it was asked to, when the run is over.
const LAST_WORDS: Duration = Duration::from_millis(1500);

pub struct Courier {
    desk: Arc<Desk>,
    name: String,
    key: String,
    /// What cannot be ended is not waited for.
    can_be_ended: bool,
}

struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    /// Ends a program that is still at work.
    stop: AtomicBool,
    memory: Arc<Memory>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Message>,
    /// Whatever was ever in the queue.
    taken: BTreeSet<String>,
    /// When everything has to be over.
    closing: Option<Instant>,
    over: bool,
    complaints: Vec<String>,
}

impl Courier {
    pub fn start(way: Way, environment: Vec<(OsString, OsString)>, memory: Arc<Memory>) -> Self {
        let desk = Arc::new(Desk {
            state: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            memory,
        });
        let (name, key) = (way.name(), way.key());
        let can_be_ended = !matches!(way, Way::Webhook(_));
        let own = desk.clone();
        std::thread::spawn(move || {
            own.serve(&way, &environment);
            own.lock().over = true;
            own.changed.notify_all();
        });
        Self { desk, name, key, can_be_ended }
    }

    /// Takes it along, once, unless it was delivered before.
    pub fn take(&self, message: &Message) {
        if self.desk.memory.has(&message.id, &self.key) {
            return;
        }
        let mut state = self.desk.lock();
        if state.taken.insert(message.id.clone()) {
            state.queue.push_back(message.clone());
            self.desk.changed.notify_all();
        }
    }

    /// The run is over, and there will be no more: the time in which all couriers have a last try.
    pub fn close(&self, patience: Duration) {
        self.desk.lock().closing = Some(Instant::now() + patience);
        self.desk.changed.notify_all();
    }

    /// Waits for the end of that time at most. What could not be delivered, a line each.
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
        complaints.into_iter().map(|why| format!("{} was not told: {why}", self.name)).collect()
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

    fn serve(&self, way: &Way, environment: &[(OsString, OsString)]) {
        while let Some(message) = self.next() {
            if let Err(failed) = self.carry(way, environment, &message) {
                self.lock().complaints.push(failed.why);
            }
        }
    }

    /// The next message; nothing once there will be none.
    fn next(&self) -> Option<Message> {
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
        way: &Way,
        environment: &[(OsString, OsString)],
        message: &Message,
    ) -> Result<(), Undelivered> {
        let mut tries = 0;
        loop {
            let closing = self.lock().closing;
            let patience = closing.map_or(PATIENCE, |end| end.saturating_duration_since(Instant::now()));
            if patience.is_zero() {
                return Err(Undelivered::for_now("the run was over"));
            }
            match way.deliver(message, environment, patience, &self.stop) {
                Ok(()) => {
                    let kept = self.memory.keep(&message.id, &way.key());
                    return kept.map_err(|error| {
                        Undelivered::for_good(format!("it was, but that cannot be remembered: {error}"))
                    });
                }
                Err(failed) if failed.hopeless || tries >= BACKOFF.len() => return Err(failed),
                Err(failed) => match closing.map(|end| end.saturating_duration_since(Instant::now())) {
                    None => self.pause(BACKOFF[tries]),
                    Some(left) if left <= BACKOFF[0] => return Err(failed),
                    // There is no later than this.
                    Some(_) => std::thread::sleep(BACKOFF[0]),
                },
            }
            tries += 1;
        }
    }

    /// Cut short when the run is over.
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
