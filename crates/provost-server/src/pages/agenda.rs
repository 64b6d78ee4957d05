//! The page of all plans: those that wait for a person, those that run, and the rest.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::state::run::Stage;
use provost_engine::observe::overview::PlanSnapshot;
use provost_engine::observe::view::{PlanCard, PlanState};
use serde::Deserialize;

use super::drawing;
use super::frame::{HtmlPage, Section, segment};
use super::status::word;
use super::text::T;
use super::times::instant;
use crate::partial::part;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::request::UrlQuery;
use crate::state::{SharedState, ask};

/// Number of plans that wait, and of plans that neither wait nor run, unless all are asked for.
const WAITING: usize = 20;
const REST: usize = 10;

/// Filter for the plans, as it is in the URL.
#[derive(Deserialize)]
pub(super) struct AgendaForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    stage: String,
    #[serde(default)]
    all: String,
}

impl AgendaForm {
    fn wants(&self, card: &PlanCard) -> bool {
        let name = self.name.trim().to_lowercase();
        let own = [Some(&card.title), Some(&card.name), Some(&card.id.0), card.repository.as_ref()];
        let is_named =
            name.is_empty() || own.into_iter().flatten().any(|text| text.to_lowercase().contains(&name));
        is_named
            && (self.stage.is_empty() || self.stage == card.stage.word() || self.stage == card.state.word())
    }
}

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    UrlQuery(form): UrlQuery<AgendaForm>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let plans = app.overview.plans()?;
        // A process can start or end without an event.
        let running =
            plans.iter().filter(|seen| seen.is_worked_on).fold(String::new(), |all, seen| all + &seen.id.0);
        let named = format!("agenda {:?} {:?} {:?} {running}", form.name, form.stage, form.all);
        let archived = app.overview.archived()?;
        let body = app.news.kept(named, after, || Ok(body(&plans, &form, archived).into()))?;
        let page =
            HtmlPage { title: "Agenda".to_owned(), room: Section::Agenda, live: Some(String::new()), body };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

/// A plan of the page, and the state of its steps.
type Row<'p> = (PlanCard, &'p PlanSnapshot);

fn body(plans: &[PlanSnapshot], form: &AgendaForm, archived: u64) -> Markup {
    let mut rows: Vec<Row<'_>> = plans.iter().map(|seen| (PlanCard::of(seen), seen)).collect();
    rows.retain(|(card, _)| form.wants(card));
    rows.sort_by_key(|(card, _)| std::cmp::Reverse(card.moved));
    let (mut waiting, others): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|(card, _)| card.state == PlanState::WaitingForYou || card.waits_for_person);
    let (running, mut rest): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|(card, _)| card.state == PlanState::Running);
    let cut = |rows: &mut Vec<Row<'_>>, most: usize| {
        let left_out = if form.all.is_empty() { rows.len().saturating_sub(most) } else { 0 };
        rows.truncate(rows.len() - left_out);
        left_out
    };
    let left_out = cut(&mut waiting, WAITING) + cut(&mut rest, REST);
    let none = waiting.is_empty() && running.is_empty() && rest.is_empty();
    html! {
        div class="next-action" { h1 { "Agenda" } a class="button" href="/new" { "New plan" } }
        @if plans.is_empty() {
            div class="empty" {
                strong { "No plan is in the log yet." }
                a href="/new" { "Make one here" } ", or with " code { "provost new NAME" } "; " code { "provost verify" } " puts it on this page."
            }
        } @else {
            (filter(form))
            div id="plans" {
                @if none {
                    div class="empty" { strong { "No plan matches the filter." } a href="/" { "Show all plans" } }
                }
                (group("Waiting for you", &waiting))
                (group("Running", &running))
                (group("Other plans", &rest))
                @if left_out > 0 { p { a href=(onward(form)) { "Show " (left_out) " more plans" } } }
            }
        }
        @match archived {
            0 => {}
            1 => p { "1 plan is archived and not listed." }
            many => p { (many) " plans are archived and not listed." }
        }
    }
}

/// Returns the address of the page with all plans that match the filter.
fn onward(form: &AgendaForm) -> String {
    format!("/?all=yes&name={}&stage={}", segment(&form.name).0, segment(&form.stage).0)
}

fn filter(form: &AgendaForm) -> Markup {
    html! {
        form class="filter" method="get" action="/" role="search" data-search="#plans" {
            div class="grow" {
                label for="name" { "Filter by title, name or repository" }
                input id="name" name="name" type="search" autocomplete="off" value=(form.name);
            }
            div {
                label for="stage" { "State" }
                select id="stage" name="stage" {
                    option value="" { "any" }
                    @for state in PlanState::ALL.map(PlanState::word) { option value=(state) selected[form.stage == state] { (state) } }
                }
            }
            button { "Filter" }
        }
    }
}

fn group(name: &str, rows: &[Row<'_>]) -> Markup {
    html! {
        @if !rows.is_empty() {
            h2 class="group" { (name) span class="number" { (rows.len()) } }
            ul class="plans" { @for (card, seen) in rows { (part(row(card, seen))) } }
        }
    }
}

fn row(card: &PlanCard, seen: &PlanSnapshot) -> Markup {
    html! {
        li {
            div class="state" { (word(card.state.word())) }
            div class="what" {
                a class="title" href={ "/plans/" (segment(&card.id.0)) } data-row { (T(titled(card))) }
                div class="quiet small" {
                    @if let Some(repository) = &card.repository { (T(repository)) " / " } (T(&card.name))
                    @if !card.at_work.is_empty() { " · at step " (numbers(&card.at_work)) }
                    @if let Some(weaker) = &card.weaker { " · " span class="weak" { (T(weaker)) } }
                    (next(card))
                }
                @if let Some(trouble) = &card.trouble { div class="bad small" { (T(trouble)) } }
            }
            div class="blocks" { (drawing::strip(&seen.run)) }
            div class="figure" { (card.progress()) }
            @let cost = card.cost.short();
            @if cost.is_empty() { div class="figure none" { "–" } } @else { div class="figure" { (T(&cost)) } }
            div class="figure age" { @if let Some(moved) = card.moved { (instant(moved)) } }
        }
    }
}

/// Renders the link to the decision that the plan waits for.
fn next(card: &PlanCard) -> Markup {
    html! {
        @if card.waiting > 0 {
            " · "
            @if card.stage == Stage::Verified {
                a class="next" href={ "/plans/" (segment(&card.id.0)) "/gate" } { "Review and approve" }
            } @else {
                a class="next" href="/inbox" { (card.waiting) @if card.waiting == 1 { " decision" } @else { " decisions" } }
            }
        }
    }
}

fn numbers(steps: &[u32]) -> String {
    steps.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the title, or the id if it is empty, because a link needs a text.
fn titled(card: &PlanCard) -> &str {
    if card.title.trim().is_empty() { &card.id.0 } else { &card.title }
}
