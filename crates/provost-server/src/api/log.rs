//! Answers with events of the log of all plans, by filter and page.

use std::ops::ControlFlow;

use axum::Json;
use axum::extract::State;
use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_engine::observe::overview::Overview;
use provost_engine::{Cursor, Query as Wanted};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::look::limit;
use crate::principal::Viewer;
use crate::problem::{Answer, Problem, ReadRefusals};
use crate::request::UrlQuery;
use crate::state::{SharedState, ask};
use provost_engine::observe::view::EventView;

/// Filter for events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only events of this plan.
    pub plan: Option<String>,
    /// Only events of this step.
    #[param(minimum = 1, maximum = 1000000)]
    #[serde(default, deserialize_with = "step")]
    pub task: Option<u32>,
    /// Only events with these names, separated by commas.
    pub event: Option<String>,
    /// Only events at this time or later.
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// Only events before this time.
    #[param(format = DateTime)]
    pub until: Option<String>,
    /// Only events after this position in the log, oldest first. By default the newest come first.
    #[serde(default, deserialize_with = "place")]
    pub after: Option<u64>,
    /// Only events before this position in the log.
    #[serde(default, deserialize_with = "place")]
    pub before: Option<u64>,
    /// Maximum number of events [default: 100].
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<usize>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Events {
    pub items: Vec<EventView>,
    /// Position of the next page: pass it as `after` if you read forwards, as `before` if you read
    /// backwards. Null at the end.
    pub next: Option<u64>,
}

/// Maximum number of a step.
const STEPS_MAX: u32 = 1_000_000;

/// Reads the number of a step.
pub(crate) fn step<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let number = u32::deserialize(from)?;
    let is_one = (1..=STEPS_MAX).contains(&number);
    if is_one { Ok(Some(number)) } else { Err(D::Error::custom(format!("a step is 1 to {STEPS_MAX}"))) }
}

/// Reads a position in the log; it fits the signed 64 bits of the OpenAPI document.
pub(crate) fn place<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let place = i64::deserialize(from)?;
    u64::try_from(place).map(Some).map_err(|_| D::Error::custom("a place in the log is 0 or more"))
}

fn instant(text: Option<&String>) -> Answer<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let bad = || Problem::bad(format!("`{text}` is not a time; write it as 2026-01-31T12:00:00Z"));
    rfc3339(text).map(Some).ok_or_else(bad)
}

/// Reads any time of RFC 3339. Times before 1970 become 1970.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let text = text.to_ascii_uppercase();
    let (local, minutes) = match text.strip_suffix('Z') {
        Some(local) => (local, 0),
        None => {
            let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
            let (hours, rest) = offset.get(1..)?.split_once(':')?;
            let (hours, rest): (i64, i64) = (hours.parse().ok()?, rest.parse().ok()?);
            let minutes = (hours < 24 && rest < 60).then_some(hours * 60 + rest)?;
            match offset.get(..1)? {
                "+" => (local, minutes),
                "-" => (local, -minutes),
                _ => return None,
            }
        }
    };
    let year: u32 = local.get(..4)?.parse().ok()?;
    // humantime reads no year before 1970: take one in which the same days exist.
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let readable = if year < 1970 { if is_leap { "2000" } else { "2001" } } else { local.get(..4)? };
    let at = humantime::parse_rfc3339(&format!("{readable}{}Z", local.get(4..)?)).ok()?;
    let ms = at.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis();
    let ms = i64::try_from(ms).ok()?.saturating_sub(minutes * 60_000);
    Some(Timestamp(if year < 1970 { 0 } else { u64::try_from(ms).unwrap_or(0) }))
}

/// Events of a page, and the position where the next page starts.
pub(crate) type Page = (Vec<(Cursor, SealedEvent)>, Option<u64>);

fn read(overview: &Overview, filter: &Filter) -> Answer<Events> {
    let (items, next) = page(overview, filter)?;
    Ok(Events { items: items.iter().map(|(at, sealed)| EventView::of(*at, sealed)).collect(), next })
}

pub(crate) fn page(overview: &Overview, filter: &Filter) -> Answer<Page> {
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
        items.push((at, sealed));
        ControlFlow::Continue(())
    })?;
    let next = if items.len() > limit {
        items.truncate(limit);
        items.last().map(|(at, _)| at.0)
    } else {
        None
    };
    Ok((items, next))
}

/// List events of the log
#[utoipa::path(
    get, path = "/api/log", tag = "log", params(Filter),
    responses(
        (status = 200, description = "Events.", body = Events),
        ReadRefusals,
    )
)]
pub(super) async fn log(
    State(app): State<SharedState>,
    _viewer: Viewer,
    UrlQuery(filter): UrlQuery<Filter>,
) -> Answer<Json<Events>> {
    ask(&app, move |app| read(&app.overview, &filter).map(Json)).await
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn instants_are_read_in_every_time_zone() {
        let ms = |text| rfc3339(text).map(|at| at.0);
        assert_eq!(ms("1970-01-01T00:00:01Z"), Some(1000));
        assert_eq!(ms("1970-01-01T01:00:01+01:00"), Some(1000));
        assert_eq!(ms("1969-12-31t23:00:00.5z"), Some(0));
        assert_eq!(ms("0875-03-09T16:14:42.535-03:59"), Some(0));
        assert_eq!(ms("0876-02-29T00:00:00Z"), Some(0));
        for bad in [
            "",
            "yesterday",
            "2026-02-30T00:00:00Z",
            "0875-02-29T00:00:00Z",
            "2026-01-01",
            "2026-01-01T00:00:00+25:00",
        ] {
            assert_eq!(ms(bad), None, "{bad}");
        }
    }
}
