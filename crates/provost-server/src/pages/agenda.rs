//! The page of all plans: their state, their cost, and what waits.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::state::run::Stage;
use provost_engine::observe::overview::PlanSnapshot;
use serde::Deserialize;

use super::frame::{HtmlPage, Section, segment};
use super::status::word;
use super::text::T;
use super::times::instant;
use crate::partial::part;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::request::UrlQuery;
use crate::state::{SharedState, ask};
use provost_engine::observe::view::{PlanCard, PlanState};

/// Filter for the plans.
#[derive(Deserialize)]
pub(super) struct AgendaForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    stage: String,
}

impl AgendaForm {
    fn wants(&self, card: &PlanCard) -> bool {
        let name = self.name.trim().to_lowercase();
        let is_named = name.is_empty()
            || [&card.title, &card.name, &card.id.0].iter().any(|text| text.to_lowercase().contains(&name));
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
        let named = format!("agenda {:?} {:?} {running}", form.name, form.stage);
        let body = app.news.kept(named, after, || Ok(body(&plans, &form)?.into()))?;
        let page =
            HtmlPage { title: "Agenda".to_owned(), room: Section::Agenda, live: Some(String::new()), body };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

fn body(plans: &[PlanSnapshot], form: &AgendaForm) -> Answer<Markup> {
    let mut cards: Vec<PlanCard> = plans.iter().map(PlanCard::of).collect();
    cards.retain(|card| form.wants(card));
    // Plans that wait first, then the most recently changed ones.
    cards.sort_by_key(|card| std::cmp::Reverse((card.waits_for_person, card.moved)));
    Ok(html! {
        h1 { "Agenda" }
        @if plans.is_empty() {
            p { "No plan is in the log yet. Make one with " code { "provost new NAME" } "; " code { "provost verify" } " puts it on this page." }
        } @else {
            (filter(form))
            @if cards.is_empty() { p { "No plan matches the filter." } }
            @else { div class="scroll" { (table(&cards)) } }
        }
    })
}

fn filter(form: &AgendaForm) -> Markup {
    html! {
        form class="row" method="get" action="/" {
            div { label for="name" { "Name" } input id="name" name="name" value=(form.name); }
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

fn table(cards: &[PlanCard]) -> Markup {
    html! {
        table {
            thead { tr { th { "Plan" } th { "State" } th { "Steps" } th { "Waits" } th { "Cost" } th { "Moved" } } }
            tbody {
                @for card in cards { (part(html! {
                    tr {
                        td {
                            a href={ "/plans/" (segment(&card.id.0)) } { (T(titled(card))) }
                            div class="quiet" { (T(&card.name)) }
                            @if let Some(trouble) = &card.trouble { div class="bad" { (T(trouble)) } }
                        }
                        td {
                            (word(card.state.word()))
                            @if let Some(weaker) = &card.weaker { div class="wait" { (T(weaker)) } }
                        }
                        td class="number" {
                            (card.progress()) " "
                            progress max=(card.total.max(1)) value=(card.done) aria-label={ (card.done) " of " (card.total) " steps" } {}
                            @if !card.at_work.is_empty() {
                                div class="quiet" { "at step " @for (place, step) in card.at_work.iter().enumerate() { @if place > 0 { ", " } (step) } }
                            }
                        }
                        td {
                            @if card.stage == Stage::Verified && card.waiting > 0 {
                                a href={ "/plans/" (segment(&card.id.0)) "/gate" } { "for approval" }
                            } @else if card.waiting > 0 {
                                a href="/inbox" { (card.waiting) " for a person" }
                            }
                        }
                        td { (T(&card.cost.words())) }
                        td { @if let Some(moved) = card.moved { (instant(moved)) } }
                    }
                })) }
            }
        }
    }
}

/// Returns the title, or the id if it is empty, because a link needs a text.
fn titled(card: &PlanCard) -> &str {
    if card.title.trim().is_empty() { &card.id.0 } else { &card.title }
}
