//! Streams the events of the log to clients as server-sent events.
//!
//! One thread reads the log for all subscribers and queues each event once, as bytes. A client that names the
//! last event it saw gets the later ones from the log, so it misses nothing while it or the server was away.
//!
//! **Invariant:** the server disconnects a client that is too slow; the client comes back with its last id
//! and catches up.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use provost_core::model::chain::PlanId;
use provost_core::model::plan::StepNumber;
use provost_engine::{Cursor, Query as Wanted};
use serde::Deserialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{place, step};
use crate::live_events::StreamEvent;
use crate::principal::Viewer;
use crate::problem::{Answer, Problem, ReadRefusals};
use crate::request::UrlQuery;
use crate::state::{SharedState, ask, for_sender};

/// Maximum number of events that are read from the log at a time.
const PAGE: u64 = 256;
/// Interval at which a quiet stream sends a comment, so that proxies keep it open.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);
/// Time limit of one wait for the log.
const LOOK: Duration = Duration::from_secs(60);
/// Pause after an error.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> OpenApiRouter<SharedState> {
    OpenApiRouter::default().routes(routes!(events))
}

/// Reads the log for all streams, on its own thread, until the process ends.
pub(crate) fn follow(app: &SharedState) -> std::io::Result<JoinHandle<()>> {
    let app = app.clone();
    std::thread::Builder::new().name("follower".to_owned()).spawn(move || {
        // Fold the plans now, so that the first page is fast.
        let _ = app.overview.plans();
        loop {
            let after = app.live.through();
            let Ok(now) = app.overview.wait(after, LOOK) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if now <= after {
                continue;
            }
            let news = Wanted { after: Some(after), through: Some(now), ..Wanted::default() };
            let told = app.overview.each(&news, &mut |at, sealed| {
                app.live.publish(at, &sealed);
                if sealed.name == "EXECUTION_COMPLETE" {
                    app.traces.send_ended(sealed.plan);
                }
                ControlFlow::Continue(())
            });
            if told.is_err() {
                std::thread::sleep(PAUSE);
            }
            // A client that gets the event reads the plan, so fold the event first.
            let _ = app.overview.waiting();
        }
    })
}

/// Filter for events.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventFilter {
    /// Only events of this plan.
    plan: Option<String>,
    /// Only events of this step.
    #[param(minimum = 1, maximum = 1000000)]
    #[serde(default, deserialize_with = "step")]
    task: Option<u32>,
    /// Only events with these names, separated by commas.
    event: Option<String>,
    /// Start after this position in the log. Without it, and without `Last-Event-ID`, only new events are
    /// sent.
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
    app: SharedState,
    queue: Receiver<Arc<StreamEvent>>,
    filter: EventFilter,
    names: Vec<String>,
    /// Position of the last event that was read.
    seen: Cursor,
    /// Events up to here come from the log, later ones from the queue.
    until: Cursor,
    waiting: VecDeque<Bytes>,
    over: bool,
}

/// Stream events as they happen
///
/// `text/event-stream`: `id` is the position in the log, `event` the name, `data` the event as `provost
/// log --json` prints it. A client that reconnects with `Last-Event-ID` misses nothing, also after a
/// restart of the server. A client that is too slow gets an event `behind` and is disconnected; it
/// reconnects in the same way.
#[utoipa::path(
    get, path = "/api/events", tag = "log", operation_id = "events",
    params(EventFilter, ("Last-Event-ID" = Option<u64>, Header, description = "The last event that was seen.")),
    responses(
        (status = 200, description = "A stream of events.", content_type = "text/event-stream", body = String),
        ReadRefusals,
    )
)]
pub(crate) async fn events(
    State(app): State<SharedState>,
    _viewer: Viewer,
    UrlQuery(filter): UrlQuery<EventFilter>,
    headers: HeaderMap,
) -> Answer<Response> {
    let last = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").trim()) {
        None | Some("") => None,
        Some(text) => match text.parse::<u64>() {
            Ok(last) => Some(last),
            Err(_) => return Err(Problem::bad("Last-Event-ID must be the number of an event")),
        },
    };
    // Subscribe first: an event that comes in between is in the queue and in the log, and is sent once.
    let queue = app.live.subscribe();
    let until = app.live.through();
    // A cursor beyond the end belongs to another log: start with the next event.
    let seen = last.or(filter.after).map_or(until, Cursor).min(until);
    let names = filter.names();
    // The stream goes on after the request is answered, so it takes along what its sender may see.
    let app = for_sender(&app);
    let subscriber =
        Subscriber { app, queue, names, filter, seen, until, waiting: VecDeque::new(), over: false };
    let stream = futures_util::stream::unfold(subscriber, |mut subscriber| async move {
        let bytes = subscriber.next().await?;
        Some((Ok::<_, Infallible>(bytes), subscriber))
    });
    let mut response = Body::from_stream(stream).into_response();
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    // Otherwise a proxy may buffer the stream.
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
                Ok(Ok(event)) => {
                    if event.at > self.seen {
                        self.seen = event.at;
                        if self.wants(&event) && self.may_see(&event).await {
                            return Some(event.bytes.clone());
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

    fn wants(&self, event: &StreamEvent) -> bool {
        self.filter.plan.as_ref().is_none_or(|plan| *plan == event.plan.0)
            && self.filter.task.is_none_or(|task| event.step == Some(StepNumber(task)))
            && (self.names.is_empty() || self.names.contains(&event.name))
    }

    async fn may_see(&self, event: &StreamEvent) -> bool {
        if !self.app.overview.is_limited() {
            return true;
        }
        let plan = event.plan.clone();
        ask(&self.app, move |app| Ok(app.overview.has(&plan)?)).await.unwrap_or(false)
    }

    /// Reads the next page of events from the log.
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
        let page = ask(&self.app, move |app| {
            let mut page = Vec::new();
            app.overview.each(&wanted, &mut |at, sealed| {
                page.push((at, StreamEvent::new(at, &sealed).bytes));
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
