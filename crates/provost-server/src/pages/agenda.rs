//! All plans: how they stand, what they cost, what waits.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::layout::{Page, Room, instant, segment, word};
use super::text::T;
use crate::http::{Answer, Shared, Viewer, ask};
use crate::view::Card;

pub async fn show(State(house): State<Shared>, Viewer(visitor): Viewer) -> Answer<Response> {
    ask(&house, move |house| {
        let after = house.overview.cursor()?.0;
        let mut cards: Vec<Card> = house.overview.plans()?.iter().map(Card::of).collect();
        // What waits first, then what moved last.
        cards.sort_by(|a, b| (b.waiting > 0, &b.moved).cmp(&(a.waiting > 0, &a.moved)));
        let body = html! {
            h1 { "Agenda" }
            @if cards.is_empty() {
                p { "No plan is in the log yet. " code { "provost new NAME" } " makes one, " code { "provost verify" } " brings it here." }
            } @else {
                div class="scroll" { (table(&cards)) }
            }
        };
        let page = Page { title: "Agenda".to_owned(), room: Room::Agenda, live: Some(String::new()), body };
        Ok(page.shown(house, &visitor, after))
    })
    .await
}

fn table(cards: &[Card]) -> Markup {
    html! {
        table {
            thead { tr { th { "Plan" } th { "Stage" } th { "Steps" } th { "Waits" } th { "Cost" } th { "Moved" } } }
            tbody {
                @for card in cards {
                    tr {
                        td {
                            a href={ "/plans/" (segment(&card.id)) } { (T(&card.title)) }
                            div class="quiet" { (T(&card.name)) }
                            @if let Some(trouble) = &card.trouble { div class="bad" { (T(trouble)) } }
                        }
                        td { (word(&card.stage)) }
                        td class="number" { (card.done) "/" (card.total) }
                        td {
                            @if card.waiting > 0 { a href="/inbox" { (card.waiting) " for a person" } }
                        }
                        td { (T(&card.cost.words())) }
                        td { (instant(&card.moved)) }
                    }
                }
            }
        }
    }
}
