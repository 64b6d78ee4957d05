//! The page of one step: every attempt with the agent's words against provost's verdicts, and what it
//! changed.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::model::plan::StepNumber;

use super::difference::{self, DiffQuery};
use super::frame::{HtmlPage, PlanRoom, Section, plan_rooms, segment};
use super::markdown::markdown;
use super::parts::{self, check, verdict};
use super::status::step_word;
use super::text::T;
use super::transcript;
use crate::api::find;
use crate::principal::Viewer;
use crate::problem::{Answer, Problem};
use crate::request::{Segment, UrlQuery};
use crate::state::{AppState, SharedState, ask};
use provost_engine::observe::view::{PlanView, StepView};

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment((id, number)): Segment<(String, u32)>,
    UrlQuery(query): UrlQuery<DiffQuery>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let seen = find(&app.overview, &id)?;
        let attempts = app.overview.attempts(&seen.id)?;
        let plan = PlanView::of(&seen, &attempts, Vec::new());
        let step = plan.steps.iter().find(|step| step.number == number);
        let step = step.ok_or_else(|| Problem::unknown(format!("the plan has no step {number}")))?;
        let place = format!("/plans/{}/steps/{number}", segment(&id).0);
        let changes = difference::of_step(app, &seen, StepNumber(number), query.diff, &place);
        let body = html! {
            h1 { (step.number) ". " (T(&step.title)) }
            (plan_rooms(&id, PlanRoom::Elsewhere))
            (body(app, &plan, step))
            @if let Some(changes) = changes { h2 id="changed" { "Changes" } (changes) }
        };
        let live = Some(format!("plan={}&task={number}", segment(&id).0));
        let page = HtmlPage {
            title: format!("{number}. {}", step.title),
            room: Section::Elsewhere,
            live,
            body: body.into(),
        };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

fn body(app: &AppState, plan: &PlanView, step: &StepView) -> Markup {
    html! {
        p {
            (step_word(step)) " of "
            a href={ "/plans/" (segment(&plan.card.id.0)) "#step-" (step.number) } { (T(&plan.card.title)) }
            @if let Some(target) = &step.target { " · " (T(target)) }
        }
        @if let Some(reason) = &step.blocked { p class="bad" { (T(reason)) } }
        @if let Some(weaker) = &step.weaker { p class="wait" { (T(weaker)) "." } }
        @if let Some(by) = &step.waived_by { p class="wait" { "Waived by " (T(by)) "; it has not passed." } }
        @if let Some(task) = &step.task { h2 { "Task" } (markdown(task)) }
        @if step.contract.is_some() || step.precondition.is_some() { h2 { "Contract" } }
        @if let Some(contract) = &step.precondition { (check("Precondition", contract)) }
        @if let Some(contract) = &step.contract { (check("Contract", contract)) }
        @if step.hidden { p class="quiet" { "Agents do not see the contract." } }
        p class="quiet" { "On failure: " (T(&step.on_fail)) }
        h2 { "Attempts" }
        @if step.attempts.is_empty() {
            p class="quiet" { "No attempt yet." }
            @if let Some(seen) = &step.verdict { (verdict(seen)) }
        }
        @for each in step.attempts.iter().rev() {
            (parts::attempt(each, &transcript::part(app, &plan.card.id.0, step, each)))
        }
    }
}
