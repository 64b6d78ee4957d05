//! The log of all plans, newest first, with filters; live.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, PreEscaped, html};
use provost_core::chain::Sealed;
use provost_core::event::DESCRIPTIONS;
use provost_core::render;
use provost_engine::Cursor;
use provost_engine::overview::Overview;
use serde::Deserialize;
use serde_json::Value;

use super::layout::{Page, Room, instant, segment};
use super::news::part;
use super::text::T;
use crate::api::{self, LogFilter};
use crate::http::{Answer, House, Problem, Query, Shared, Viewer, ask};

/// What the form asks for; a field that was left empty asks for nothing.
#[derive(Deserialize)]
pub struct Form {
    #[serde(default)]
    plan: String,
    #[serde(default)]
    event: String,
    #[serde(default)]
    task: String,
    before: Option<u64>,
}

impl Form {
    fn filter(self) -> Answer<LogFilter> {
        let said = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let task = said(self.task).map(|task| task.parse::<u32>()).transpose();
        let task = task.map_err(|_| Problem::bad("a step is a number"))?;
        let (plan, event) = (said(self.plan), said(self.event));
        Ok(LogFilter { plan, event, task, before: self.before, ..LogFilter::default() })
    }
}

pub async fn show(
    State(house): State<Shared>,
    Viewer(visitor): Viewer,
    Query(asked): Query<Form>,
) -> Answer<Response> {
    let filter = asked.filter()?;
    ask(&house, move |house| {
        let after = house.overview.cursor()?.0;
        let named = onward(&filter, filter.before.unwrap_or(u64::MAX));
        let body = house.news.kept(named, after, || body(house, &filter))?;
        // An older page stands still.
        let live = filter.before.is_none().then(|| query(&filter));
        let page = Page { title: "Log".to_owned(), room: Room::Log, live, body };
        Ok(page.shown(house, &visitor, after))
    })
    .await
}

fn body(house: &House, filter: &LogFilter) -> Answer<Markup> {
    let (events, next) = api::log_page(&house.overview, filter)?;
    let rows = events.iter().map(|(at, event)| house.news.row(*at, || row(&house.overview, *at, event)));
    let rows = rows.collect::<Answer<Vec<_>>>()?;
    Ok(html! {
        h1 { "Log" }
        (form(filter))
        @if rows.is_empty() { p { "Nothing." } }
        @else {
            div class="scroll" {
                table {
                    thead { tr { th { "When" } th { "Plan" } th { "Event" } th { "Step" } th { "Details" } } }
                    tbody { @for row in &rows { (PreEscaped(row)) } }
                }
            }
        }
        @if let Some(next) = next { p { a href=(onward(filter, next)) { "Older" } } }
    })
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

/// In words, as the terminal says it; where it cannot be read, in its own fields.
fn words(overview: &Overview, event: &Sealed) -> Answer<String> {
    let seen = overview.plan(&event.plan)?;
    Ok(match (event.event(), seen) {
        (Ok(read), Some(seen)) => cut(&render::event(&seen.run, &read).words),
        _ => short(event),
    })
}

fn row(overview: &Overview, at: Cursor, event: &Sealed) -> Answer<Markup> {
    let words = words(overview, event)?;
    let plan = segment(&event.plan.0);
    Ok(part(html! {
        tr {
            td { (instant(&event.at.to_string())) }
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
                    summary { (T(&words)) }
                    pre { (T(&serde_json::to_string_pretty(&details(event)).unwrap_or_default())) }
                }
            }
        }
    }))
}

fn details(event: &Sealed) -> Value {
    serde_json::from_str(&event.details).unwrap_or_default()
}

/// The first words of it.
fn short(event: &Sealed) -> String {
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
