//! The log page: events of all plans, newest first, with filters and live updates.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::DESCRIPTIONS;
use provost_core::text::render;
use provost_engine::observe::overview::{Overview, PlanSnapshot};
use provost_engine::{Cursor, Query as Wanted};
use serde::Deserialize;
use serde_json::Value;

use super::frame::{HtmlPage, Section, segment};
use super::text::T;
use super::times::instant;
use crate::api;
use crate::api::LogFilter;
use crate::partial::{Main, News, PagePart, parts_here};
use crate::principal::Viewer;
use crate::problem::{Answer, Problem};
use crate::request::UrlQuery;
use crate::state::{AppState, SharedState, ask};

/// Longest JSON of an event on the page, in characters.
const FIELDS_MAX: usize = 1500;

/// Content of the filter form; an empty field does not filter.
#[derive(Deserialize)]
pub(super) struct LogForm {
    #[serde(default)]
    plan: String,
    #[serde(default)]
    event: String,
    #[serde(default)]
    task: String,
    before: Option<u64>,
}

impl LogForm {
    fn filter(self) -> Answer<LogFilter> {
        let said = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let task = said(self.task).map(|task| task.parse::<u32>()).transpose();
        let task = task.map_err(|_| Problem::bad("a step is a number"))?;
        let (plan, event) = (said(self.plan), said(self.event));
        Ok(LogFilter { plan, event, task, before: self.before, ..LogFilter::default() })
    }
}

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    UrlQuery(asked): UrlQuery<LogForm>,
) -> Answer<Response> {
    let filter = asked.filter()?;
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let named = onward(&filter, filter.before.unwrap_or(u64::MAX));
        let body = app.news.kept(named, after, || body(app, &filter))?;
        // Older pages are static.
        let live = filter.before.is_none().then(|| query(&filter));
        let page = HtmlPage { title: "Log".to_owned(), room: Section::Log, live, body };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

fn body(app: &AppState, filter: &LogFilter) -> Answer<Main> {
    let (rows, next) = rows(app, filter)?;
    let around = html! {
        h1 { "Log" }
        (form(filter))
        @if rows.is_empty() {
            div class="empty" { strong { "No event matches." } a href="/log" { "Show the whole log" } }
        }
        @else {
            div class="scroll" {
                table class="rows log" {
                    thead { tr { th { "When" } th { "Plan" } th { "Event" } th { "Step" } th { "Details" } } }
                    tbody { (parts_here()) }
                }
            }
        }
        @if let Some(next) = next { p { a href=(onward(filter, next)) { "Older" } } }
    };
    Ok(Main::around(&around, &rows))
}

/// Returns the rows of the page, and where the next page starts.
fn rows(app: &AppState, filter: &LogFilter) -> Answer<(Vec<Arc<PagePart>>, Option<u64>)> {
    let mut plans = Plans { overview: &app.overview, known: BTreeMap::new() };
    // The newest rows of all plans are kept for everybody.
    if *filter != LogFilter::default() || app.overview.is_limited() {
        let (events, next) = api::log_page(&app.overview, filter)?;
        let rows = events.iter().map(|(at, event)| plans.row(&app.news, *at, event));
        return Ok((rows.collect::<Answer<_>>()?, next));
    }
    // One more, to know whether there are older ones.
    let rows = app.news.newest(api::PAGE + 1, |after, limit| {
        let wanted =
            Wanted { after: Some(after), limit: Some(limit as u64), newest_first: true, ..Wanted::default() };
        let mut events = Vec::new();
        app.overview.each(&wanted, &mut |at, event| {
            events.push((at, event));
            ControlFlow::Continue(())
        })?;
        events.iter().map(|(at, event)| Ok((*at, plans.row(&app.news, *at, event)?))).collect()
    })?;
    let next = rows.get(api::PAGE).and(rows.get(api::PAGE - 1)).map(|(at, _)| at.0);
    Ok((rows.into_iter().take(api::PAGE).map(|(_, row)| row).collect(), next))
}

fn query(filter: &LogFilter) -> String {
    let task = filter.task.map(|task| task.to_string());
    let parts = [("plan", filter.plan.as_ref()), ("event", filter.event.as_ref()), ("task", task.as_ref())];
    let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", segment(value?).0)));
    parts.collect::<Vec<_>>().join("&")
}

fn onward(filter: &LogFilter, before: u64) -> String {
    let rest = query(filter);
    format!("/log?{rest}{}before={before}", if rest.is_empty() { "" } else { "&" })
}

fn form(filter: &LogFilter) -> Markup {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    html! {
        form class="row" method="get" action="/log" {
            div { label for="plan" { "Plan" } input id="plan" name="plan" value=(text(&filter.plan)); }
            div {
                label for="event" { "Event" }
                input id="event" name="event" list="names" value=(text(&filter.event));
                datalist id="names" { @for (name, _) in DESCRIPTIONS { option value=(name) {} } }
            }
            div {
                label for="task" { "Step" }
                input id="task" name="task" inputmode="numeric" value=[filter.task];
            }
            button { "Filter" }
        }
    }
}

/// Plans of the shown events, each read once.
struct Plans<'a> {
    overview: &'a Overview,
    known: BTreeMap<PlanId, Option<PlanSnapshot>>,
}

impl Plans<'_> {
    fn row(&mut self, news: &News, at: Cursor, event: &SealedEvent) -> Answer<Arc<PagePart>> {
        news.row(at, || Ok(row(&self.words(event)?, at, event)))
    }

    /// Describes an event as the terminal does; if it cannot be read, by its fields.
    fn words(&mut self, event: &SealedEvent) -> Answer<String> {
        let seen = match self.known.entry(event.plan.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(self.overview.plan(&event.plan)?),
        };
        Ok(match (event.event(), seen) {
            (Ok(read), Some(seen)) => cut(&render::event(&seen.run, &read).words),
            _ => short(event),
        })
    }
}

fn row(words: &str, at: Cursor, event: &SealedEvent) -> Markup {
    let plan = segment(&event.plan.0);
    html! {
        tr {
            td { (instant(event.at)) }
            td { a href={ "/plans/" (plan) } { (T(&event.plan.0)) } " " span class="quiet" { (event.seq) } }
            td class="name" { code { (T(&event.name)) } }
            td {
                @if let Some(step) = event.step {
                    a href={ "/plans/" (plan) "/steps/" (step) } {
                        (step) @if let Some(name) = &event.task_name { " " (T(name)) }
                    }
                }
            }
            td {
                details id={ "e" (at.0) } {
                    summary { (T(words)) }
                    pre { (T(&fields(event))) }
                }
            }
        }
    }
}

/// Returns the fields of an event as JSON; a long text is cut.
fn fields(event: &SealedEvent) -> String {
    let text = serde_json::to_string_pretty(&details(event)).unwrap_or_default();
    match text.char_indices().nth(FIELDS_MAX) {
        Some((end, _)) => format!("{}…\n(cut; `provost log --json` prints all of it)", &text[..end]),
        None => text,
    }
}

fn details(event: &SealedEvent) -> Value {
    serde_json::from_str(&event.details).unwrap_or_default()
}

/// Returns the beginning of its fields as text.
fn short(event: &SealedEvent) -> String {
    let details = details(event);
    let fields = details.as_object().into_iter().flatten();
    let words: Vec<String> = fields
        .filter(|(name, _)| *name != "step" && *name != "text")
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}: {text}"),
            None => format!("{name}: {value}"),
        })
        .collect();
    cut(&words.join(" · "))
}

fn cut(words: &str) -> String {
    let line = words.replace('\n', " ");
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "–".to_owned(),
        None => line,
    }
}
