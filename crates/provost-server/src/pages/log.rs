//! The log of all plans, newest first, with filters; live.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::chain::{PlanId, Sealed};
use provost_core::event::DESCRIPTIONS;
use provost_core::render;
use provost_core::run::Run;
use provost_engine::Cursor;
use provost_engine::overview::Overview;
use serde::Deserialize;
use serde_json::Value;

use super::layout::{Page, Room, instant, segment};
use super::news::part;
use super::text::T;
use crate::api::{self, LogFilter};
use crate::http::{Answer, Problem, Query, Shared, Viewer, ask};

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
        let body = house.news.kept(named, after, || body(&house.overview, &filter))?;
        // An older page stands still.
        let live = filter.before.is_none().then(|| query(&filter));
        let page = Page { title: "Log".to_owned(), room: Room::Log, live, body };
        Ok(page.shown(house, &visitor, after))
    })
    .await
}

fn body(overview: &Overview, filter: &LogFilter) -> Answer<Markup> {
    let (events, next) = api::log_page(overview, filter)?;
    let words = words(overview, &events)?;
    Ok(html! {
        h1 { "Log" }
        (form(filter))
        @if events.is_empty() { p { "Nothing." } }
        @else { div class="scroll" { (table(&events, &words)) } }
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

/// Each event in words, as the terminal says it; where it cannot be read, in its own fields.
fn words(overview: &Overview, events: &[(Cursor, Sealed)]) -> Answer<Vec<String>> {
    let mut runs: BTreeMap<&PlanId, Option<Arc<Run>>> = BTreeMap::new();
    let mut all = Vec::with_capacity(events.len());
    for (_, event) in events {
        if let Entry::Vacant(entry) = runs.entry(&event.plan) {
            entry.insert(overview.plan(&event.plan)?.map(|seen| seen.run));
        }
        let run = runs.get(&event.plan).and_then(Option::as_ref);
        all.push(match (event.event(), run) {
            (Ok(read), Some(run)) => cut(&render::event(run, &read).words),
            _ => short(event),
        });
    }
    Ok(all)
}

fn table(events: &[(Cursor, Sealed)], words: &[String]) -> Markup {
    html! {
        table {
            thead { tr { th { "When" } th { "Plan" } th { "Event" } th { "Step" } th { "Details" } } }
            tbody {
                @for ((at, event), words) in events.iter().zip(words) { (part(row(*at, event, words))) }
            }
        }
    }
}

fn row(at: Cursor, event: &Sealed, words: &str) -> Markup {
    let plan = segment(&event.plan.0);
    html! {
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
                    summary { (T(words)) }
                    pre { (T(&serde_json::to_string_pretty(&details(event)).unwrap_or_default())) }
                }
            }
        }
    }
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
