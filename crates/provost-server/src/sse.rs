//! What happens, as it happens: server-sent events, one for each event of the log.
//!
//! One thread reads the log for all subscribers and makes one piece of bytes of each event. What a
//! subscriber has of its own is a place in the queue. Whoever names the last event it has seen gets what came
//! after from the log itself, so that nothing is lost when either side was gone.
//!
//! **Invariant:** the id of an event is its place in the log, the same for ever.
//! **Invariant:** the server disconnects a client that is too slow; the client comes back with its last id and
//! catches up.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::plan::StepNumber;
use provost_engine::{Cursor, Query as Wanted};
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};
use utoipa::IntoParams;

use crate::api::{place, step};
use crate::http::problem::ReadRefusals;
use crate::http::{Answer, Problem, Query, Shared, Viewer, ask};
use crate::traces;

/// So far behind somebody may be before the log has to be asked.
const QUEUE: usize = 1024;
/// So many events are taken from the log at a time.
const PAGE: u64 = 256;
/// A quiet stream says that it is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);
/// How long the log is waited for at a time.
const LOOK: Duration = Duration::from_secs(60);
/// After something went wrong.
const PAUSE: Duration = Duration::from_secs(1);

/// An event and its bytes on the wire.
#[derive(Debug)]
struct Told {
    at: Cursor,
    plan: PlanId,
    step: Option<StepNumber>,
    name: String,
    bytes: Bytes,
}

impl Told {
    fn new(at: Cursor, sealed: &SealedEvent) -> Self {
        let bytes = format!("id: {}\nevent: {}\ndata: {}\n\n", at.0, sealed.name, sealed.line());
        let (plan, step, name) = (sealed.plan.clone(), sealed.step, sealed.name.clone());
        Self { at, plan, step, name, bytes: Bytes::from(bytes) }
    }
}

pub struct LiveEvents {
    queue: Sender<Arc<Told>>,
    /// Everything up to here is in the queue, or was.
    through: AtomicU64,
}

impl LiveEvents {
    pub fn new(from: Cursor) -> Self {
        Self { queue: broadcast::channel(QUEUE).0, through: AtomicU64::new(from.0) }
    }

    pub fn subscribers(&self) -> usize {
        self.queue.receiver_count()
    }

    fn through(&self) -> Cursor {
        Cursor(self.through.load(Ordering::Acquire))
    }
}

/// Reads the log for everybody, on a thread of its own, for as long as the process lives.
pub fn follow(house: &Shared) -> std::io::Result<JoinHandle<()>> {
    let house = house.clone();
    std::thread::Builder::new().name("follower".to_owned()).spawn(move || {
        // Kept warm for whoever looks first.
        let _ = house.overview.plans();
        loop {
            let after = house.live.through();
            let Ok(now) = house.overview.wait(after, LOOK) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if now <= after {
                continue;
            }
            let news = Wanted { after: Some(after), through: Some(now), ..Wanted::default() };
            let told = house.overview.each(&news, &mut |at, sealed| {
                let _ = house.live.queue.send(Arc::new(Told::new(at, &sealed)));
                house.live.through.store(at.0, Ordering::Release);
                if sealed.name == "EXECUTION_COMPLETE" {
                    traces::ended(&house, sealed.plan);
                }
                ControlFlow::Continue(())
            });
            if told.is_err() {
                std::thread::sleep(PAUSE);
            }
            // A client that gets the event reads the plan, so fold the event first.
            let _ = house.overview.waiting();
        }
    })
}

/// Which events are wanted.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventFilter {
    /// Of this plan only.
    plan: Option<String>,
    /// Of this step only.
    #[param(minimum = 1, maximum = 1000000)]
    #[serde(default, deserialize_with = "step")]
    task: Option<u32>,
    /// With these names only, with commas between them.
    event: Option<String>,
    /// After this place in the log; without it, and without `Last-Event-ID`, from now on.
    #[serde(default, deserialize_with = "place")]
    after: Option<u64>,
}

impl EventFilter {
    fn names(&self) -> Vec<String> {
        let names = self.event.iter().flat_map(|names| names.split(','));
        names.map(|name| name.trim().to_uppercase()).filter(|name| !name.is_empty()).collect()
    }
}

struct Subscriber {
    house: Shared,
    queue: Receiver<Arc<Told>>,
    filter: EventFilter,
    names: Vec<String>,
    /// The last place that was looked at.
    seen: Cursor,
    /// What is to be taken from the log before the queue is listened to.
    until: Cursor,
    waiting: VecDeque<Bytes>,
    over: bool,
}

/// Events as they happen
///
/// `text/event-stream`: `id` is the place in the log, `event` its name, `data` the event as `provost log --json`
/// prints it. A client that reconnects with `Last-Event-ID` misses nothing, also after a restart of the server.
/// One that is too slow gets an event `behind` and is let go; it reconnects the same way.
#[utoipa::path(
    get, path = "/api/events", tag = "log", operation_id = "events",
    params(EventFilter, ("Last-Event-ID" = Option<u64>, Header, description = "The last event that was seen.")),
    responses(
        (status = 200, description = "A stream of events.", content_type = "text/event-stream", body = String),
        ReadRefusals,
    )
)]
pub async fn events(
    State(house): State<Shared>,
    _viewer: Viewer,
    Query(filter): Query<EventFilter>,
    headers: HeaderMap,
) -> Answer<Response> {
    let last = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").trim()) {
        None | Some("") => None,
        Some(text) => match text.parse::<u64>() {
            Ok(last) => Some(last),
            Err(_) => return Err(Problem::bad("Last-Event-ID is the number of an event")),
        },
    };
    // Listened to first: what comes in between is in both, and told once.
    let queue = house.live.queue.subscribe();
    let until = house.live.through();
    // A cursor beyond the end belongs to another log: start with the next event.
    let seen = last.or(filter.after).map_or(until, Cursor).min(until);
    let names = filter.names();
    let subscriber =
        Subscriber { house, queue, names, filter, seen, until, waiting: VecDeque::new(), over: false };
    let stream = futures_util::stream::unfold(subscriber, |mut subscriber| async move {
        let bytes = subscriber.next().await?;
        Some((Ok::<_, Infallible>(bytes), subscriber))
    });
    let mut response = Body::from_stream(stream).into_response();
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    // A proxy that keeps it back would make it late.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl Subscriber {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.waiting.pop_front() {
                return Some(bytes);
            }
            if self.over {
                return None;
            }
            if self.seen < self.until {
                if self.catch_up().await.is_err() {
                    self.over = true;
                }
                continue;
            }
            match tokio::time::timeout(SIGN_OF_LIFE, self.queue.recv()).await {
                Err(_) => return Some(Bytes::from_static(b":\n\n")),
                Ok(Ok(told)) => {
                    if told.at > self.seen {
                        self.seen = told.at;
                        if self.wants(&told) {
                            return Some(told.bytes.clone());
                        }
                    }
                }
                Ok(Err(RecvError::Lagged(_))) => {
                    self.over = true;
                    return Some(Bytes::from(format!("event: behind\ndata: {}\n\n", self.seen.0)));
                }
                Ok(Err(RecvError::Closed)) => return None,
            }
        }
    }

    fn wants(&self, told: &Told) -> bool {
        self.filter.plan.as_ref().is_none_or(|plan| *plan == told.plan.0)
            && self.filter.task.is_none_or(|task| told.step == Some(StepNumber(task)))
            && (self.names.is_empty() || self.names.contains(&told.name))
    }

    /// A page of what is in the log already.
    async fn catch_up(&mut self) -> Result<(), Problem> {
        let wanted = Wanted {
            plan: self.filter.plan.clone().map(PlanId),
            step: self.filter.task.map(StepNumber),
            names: self.names.clone(),
            after: Some(self.seen),
            through: Some(self.until),
            limit: Some(PAGE),
            ..Wanted::default()
        };
        let page = ask(&self.house, move |house| {
            let mut page = Vec::new();
            house.overview.each(&wanted, &mut |at, sealed| {
                page.push((at, Told::new(at, &sealed).bytes));
                ControlFlow::Continue(())
            })?;
            Ok(page)
        })
        .await?;
        self.seen = match page.last() {
            Some((at, _)) if page.len() as u64 == PAGE => *at,
            _ => self.until,
        };
        self.waiting.extend(page.into_iter().map(|(_, bytes)| bytes));
        Ok(())
    }
}
