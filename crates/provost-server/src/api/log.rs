//! The log of all plans: filters and cursors.

use std::ops::ControlFlow;

use axum::Json;
use axum::extract::State;
use provost_core::chain::{PlanId, Timestamp};
use provost_core::plan::StepNumber;
use provost_engine::overview::Overview;
use provost_engine::{Cursor, Query as Wanted};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::look::limit;
use crate::http::problem::Looked;
use crate::http::{Answer, Problem, Query, Shared, Viewer, ask};
use crate::view::Event;

/// Which events.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Of this plan only.
    pub plan: Option<String>,
    /// Of this step only.
    #[param(minimum = 1, maximum = 1000000)]
    #[serde(default, deserialize_with = "step")]
    pub task: Option<u32>,
    /// With these names only, with commas between them.
    pub event: Option<String>,
    /// At this instant or later.
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// Before this instant.
    #[param(format = DateTime)]
    pub until: Option<String>,
    /// After this place in the log, oldest first; without it, newest first.
    #[serde(default, deserialize_with = "place")]
    pub after: Option<u64>,
    /// Before this place in the log.
    #[serde(default, deserialize_with = "place")]
    pub before: Option<u64>,
    /// So many at most; 100 where nothing is said.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<usize>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Events {
    pub items: Vec<Event>,
    /// What to ask for next: `after` where it goes forward, `before` where it goes back; null at the end.
    pub next: Option<u64>,
}

/// No plan has more steps.
const STEPS_MAX: u32 = 1_000_000;

/// A step's number, as the document has it.
pub(crate) fn step<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let number = u32::deserialize(from)?;
    let is_one = (1..=STEPS_MAX).contains(&number);
    if is_one { Ok(Some(number)) } else { Err(D::Error::custom(format!("a step is 1 to {STEPS_MAX}"))) }
}

/// A place in the log: what fits the document's 64 bits with a sign.
pub(crate) fn place<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let place = i64::deserialize(from)?;
    u64::try_from(place).map(Some).map_err(|_| D::Error::custom("a place in the log is not below zero"))
}

fn instant(text: Option<&String>) -> Answer<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let bad = || Problem::bad(format!("`{text}` is no instant; write it as 2026-01-31T12:00:00Z"));
    let at = humantime::parse_rfc3339(text).map_err(|_| bad())?;
    let since = at.duration_since(std::time::UNIX_EPOCH).map_err(|_| bad())?;
    Ok(Some(Timestamp(u64::try_from(since.as_millis()).map_err(|_| bad())?)))
}

pub(crate) fn read(overview: &Overview, filter: &Filter) -> Answer<Events> {
    let limit = limit(filter.limit)?;
    let names = filter.event.iter().flat_map(|names| names.split(','));
    let names = names.map(|name| name.trim().to_uppercase()).filter(|name| !name.is_empty()).collect();
    let wanted = Wanted {
        plan: filter.plan.clone().map(PlanId),
        step: filter.task.map(StepNumber),
        names,
        since: instant(filter.since.as_ref())?,
        until: instant(filter.until.as_ref())?,
        after: filter.after.map(Cursor),
        through: filter.before.map(|before| Cursor(before.saturating_sub(1))),
        limit: Some(limit as u64 + 1),
        newest_first: filter.after.is_none(),
        after_seq: None,
    };
    let mut items = Vec::new();
    overview.each(&wanted, &mut |at, sealed| {
        items.push(Event::of(at, &sealed));
        ControlFlow::Continue(())
    })?;
    let next = if items.len() > limit {
        items.truncate(limit);
        items.last().map(|event| event.cursor)
    } else {
        None
    };
    Ok(Events { items, next })
}

/// What happened
#[utoipa::path(
    get, path = "/api/log", tag = "log", params(Filter),
    responses(
        (status = 200, description = "Events.", body = Events),
        Looked,
    )
)]
pub async fn log(
    State(house): State<Shared>,
    _viewer: Viewer,
    Query(filter): Query<Filter>,
) -> Answer<Json<Events>> {
    ask(&house, move |house| read(&house.overview, &filter).map(Json)).await
}
