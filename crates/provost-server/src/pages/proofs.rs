//! The proofs page: whether the log of a plan can be trusted, and what is proved about it.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::model::proof::{Envelope, ProofStatement, PublicKey};
use serde_json::Value;

use super::frame::{HtmlPage, PlanRoom, Section, plan_rooms, segment};
use super::status::word;
use super::text::T;
use crate::api::{find, proofs_of};
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::request::Segment;
use crate::state::{SharedState, ask};

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment(id): Segment<String>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let seen = find(&app.overview, &id)?;
        let proofs = proofs_of(&app.overview, &id)?;
        let key = proofs.public_key.as_deref().and_then(|key| PublicKey::read(key).ok());
        let title = format!("Proofs: {}", seen.run.plan.title);
        let body = html! {
            h1 { (T(&title)) }
            (plan_rooms(&id, PlanRoom::Proofs))
            p {
                (word(if proofs.sound { "sound" } else { "not sound" })) " "
                (proofs.events) " events; chain, approvals, verdicts and proofs "
                @if proofs.sound { "fit together." } @else { "do not fit together:" }
            }
            @for line in &proofs.findings { p class="bad" { (T(line)) } }
            dl {
                dt { "Head" } dd { code { (T(&proofs.head)) } }
                @if let Some(key) = &proofs.public_key { dt { "Public key" } dd { code { (T(key)) } } }
            }
            p class="quiet" {
                "The same on a command line: " code { "provost audit" } ". "
                a href={ "/api/plans/" (segment(&id)) "/proofs" } { "The envelopes as JSON" }
            }
            h2 { "Statements" }
            @if proofs.envelopes.is_empty() { p { "There is no statement yet. provost signs the first one when a step passes." } }
            @for (place, envelope) in proofs.envelopes.iter().enumerate() { (statement(place, envelope, key.as_ref())) }
        };
        let live = Some(format!("plan={}", segment(&id).0));
        Ok(HtmlPage { title, room: Section::Elsewhere, live, body: body.into() }.shown(app, &principal, after))
    })
    .await
}

fn opened(envelope: &Value, key: Option<&PublicKey>) -> Result<ProofStatement, String> {
    let envelope: Envelope = serde_json::from_value(envelope.clone()).map_err(|error| error.to_string())?;
    let key = key.ok_or("there is no public key")?;
    key.open(&envelope).map_err(|doubt| doubt.to_string())
}

fn statement(place: usize, envelope: &Value, key: Option<&PublicKey>) -> Markup {
    html! {
        section class="sheet" {
            @match opened(envelope, key) {
                Err(doubt) => { header { h3 { "Statement " (place + 1) } (word("failed")) } p class="bad" { (T(&doubt)) } }
                Ok(statement) => {
                    header { h3 { (T(&named(&statement))) } (word(result(&statement))) @if let Some(pass) = statement.predicate["pass"].as_str().filter(|pass| *pass != "verified") { span class="word wait" { (T(&pass.replace('_', " "))) } } @if statement.predicate["verdict"]["uncontrolled"].is_string() { span class="word wait" { "uncontrolled" } } span class="quiet" { "signature good" } }
                    dl {
                        @for subject in &statement.subject {
                            dt { (T(&subject.name)) }
                            dd { code { (T(&subject.digest.sha256)) (T(&subject.digest.git_commit)) } }
                        }
                    }
                    details id={ "statement-" (place) } {
                        summary { "Content" }
                        pre { (T(&serde_json::to_string_pretty(&statement.predicate).unwrap_or_default())) }
                    }
                }
            }
        }
    }
}

/// Returns the title of a statement: its step, or the plan.
fn named(statement: &ProofStatement) -> String {
    let step = &statement.predicate["step"];
    match step["number"].as_u64() {
        Some(number) => format!("Step {number}: {}", step["title"].as_str().unwrap_or_default()),
        None => "The plan".to_owned(),
    }
}

/// Returns how the step passed, or the stage of the plan.
fn result(statement: &ProofStatement) -> &str {
    let text = |name: &str| statement.predicate[name].as_str();
    text("result").or(text("stage")).unwrap_or("unknown")
}
