//! The gate: what changed since the last approval, what will run, and the four things a person can say.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Page, Room, form_key, segment, word};
use super::text::T;
use crate::api::{self, Amendment, Approval, Decision, Question, Rejection};
use crate::http::problem::Found;
use crate::http::{Answer, Posted, Problem, Segment, Shared, Viewer, Visitor, ask};
use crate::view::Gate;

pub async fn show(
    State(house): State<Shared>,
    Viewer(visitor): Viewer,
    Segment(id): Segment<String>,
) -> Answer<Response> {
    ask(&house, move |house| {
        let after = house.overview.cursor()?.0;
        let gate = Gate::of(&house.overview, &api::find(&house.overview, &id)?)?;
        let live = Some(format!("plan={}", segment(&id).0));
        let title = format!("Gate: {}", gate.title);
        let page = Page { title, room: Room::Elsewhere, live, body: body(&gate, &visitor) };
        Ok(page.shown(house, &visitor, after))
    })
    .await
}

/// What one of the forms says.
#[derive(Deserialize)]
pub struct Form {
    decision: String,
    #[serde(default)]
    revision: String,
    /// A question, or a reason.
    #[serde(default)]
    words: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    digest: String,
}

pub async fn decide(
    State(house): State<Shared>,
    Segment(id): Segment<String>,
    Posted { by, said }: Posted<Form>,
) -> Answer<Response> {
    let decision = match said.decision.as_str() {
        "approve" => Decision::Approve(Approval { revision: said.revision }),
        "ask" => Decision::Ask(Question { question: said.words }),
        "reject" => Decision::Reject(Rejection { reason: said.words }),
        "amend" => Decision::Amend(Amendment { text: said.text, digest: said.digest }),
        _ => return Err(Problem::bad("approve, ask, reject or amend")),
    };
    let onward = format!("/plans/{}/gate", segment(&id).0);
    ask(&house, move |house| api::decide(house, &by, &id, decision)).await?;
    Ok(Redirect::to(&onward).into_response())
}

fn body(gate: &Gate, visitor: &Visitor) -> Markup {
    html! {
        h1 { (T(&gate.title)) }
        p {
            (word(&gate.stage)) " revision " code { (T(gate.revision.get(..12).unwrap_or(&gate.revision))) } " · "
            a href={ "/plans/" (segment(&gate.plan)) } { "The plan" }
        }
        @if gate.changed { p class="wait" { "The plan file has changed since the log last saw it." } }
        @if let Some(question) = &gate.question { p class="wait" { "A question is open: " (T(question)) } }
        @if let Some(reason) = &gate.rejected { p class="bad" { "This revision was rejected: " (T(reason)) } }
        h2 { "What changed" }
        @match &gate.approved_by {
            None => p { "It has not been approved before: all of it is new." }
            Some(by) if gate.changes.is_empty() => p { "Nothing, since " (T(by)) " approved it." }
            Some(by) => {
                p class="quiet" { "Since " (T(by)) " approved it:" }
                ul { @for line in &gate.changes { li { (T(line)) } } }
            }
        }
        @if !gate.diagnostics.is_empty() { h2 { "What the static checks say" } (findings(&gate.diagnostics)) }
        h2 { "What will run" }
        pre { (T(&gate.shown)) }
        h2 { "Decide" }
        @if visitor.token.scope.may_decide() { (forms(gate, visitor)) }
        @else { p class="quiet" { "Your session may look, not decide." } }
    }
}

fn forms(gate: &Gate, visitor: &Visitor) -> Markup {
    let place = html! { "/plans/" (segment(&gate.plan)) "/gate" }.into_string();
    html! {
        @if gate.open {
            form method="post" action=(place) {
                (form_key(visitor))
                input type="hidden" name="revision" value=(gate.revision);
                button class="first" name="decision" value="approve" { "Approve this revision as " (T(&visitor.name())) }
            }
        } @else {
            p class="quiet" { "There is nothing to approve." }
        }
        form method="post" action=(place) {
            (form_key(visitor))
            label for="words" { "A question, or the reason for a rejection" }
            textarea id="words" name="words" required {}
            p {
                button name="decision" value="ask" { "Ask" } " "
                button name="decision" value="reject" { "Reject" }
            }
        }
        details id="amend" {
            summary { "Amend the text" }
            form method="post" action=(place) {
                (form_key(visitor))
                input type="hidden" name="digest" value=(gate.digest);
                label for="text" { "The whole plan; it is checked before it is written" }
                // As it is: what is sent back must be what is there.
                textarea id="text" class="tall" name="text" spellcheck="false" { "\n" (gate.text) }
                p { button name="decision" value="amend" { "Change the plan" } }
            }
        }
    }
}

pub fn findings(found: &[Found]) -> Markup {
    html! {
        ul {
            @for each in found {
                li {
                    (word(&each.severity)) " line " (each.line) ": " (T(&each.message)) " "
                    code class="quiet" { (T(&each.code)) }
                    @if let Some(hint) = &each.hint { div class="quiet" { (T(hint)) } }
                }
            }
        }
    }
}
