//! The page of one plan: its text beside its graph, its timeline, and the state of its steps.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::drawing;
use super::frame::{HtmlPage, PlanRoom, Section, plan_rooms, segment};
use super::markdown::markdown;
use super::parts::{check, verdict};
use super::status::{post_word, step_word, word};
use super::text::T;
use super::times::{instant, now};
use crate::api::find;
use crate::layout::timeline::lasted;
use crate::partial::part;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::request::Segment;
use crate::state::{SharedState, ask};
use provost_engine::observe::view::{InboxItemView, PlanView, PostconditionView, StepView};

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment(id): Segment<String>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let seen = find(&app.overview, &id)?;
        let attempts = app.overview.attempts(&seen.id)?;
        let items = app.overview.items(&seen)?;
        let plan = PlanView::of(&seen, &attempts, items.iter().map(InboxItemView::from).collect());
        let pictures = Pictures {
            graph: drawing::graph(&app.graphs, &seen.run, "#step-"),
            timeline: drawing::timeline(&seen.run, &attempts, now(), "#step-"),
        };
        let live = Some(format!("plan={}", segment(&id).0));
        let body = body(&plan, &pictures);
        let page =
            HtmlPage { title: plan.card.title.clone(), room: Section::Elsewhere, live, body: body.into() };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

struct Pictures {
    graph: Markup,
    timeline: Markup,
}

fn body(plan: &PlanView, pictures: &Pictures) -> Markup {
    let card = &plan.card;
    html! {
        h1 { (T(&card.title)) }
        (plan_rooms(&card.id.0, PlanRoom::Plan))
        (part(html! { p {
            (word(card.state.word())) " " (card.progress()) " steps "
            progress max=(card.total.max(1)) value=(card.done) aria-label={ (card.done) " of " (card.total) " steps" } {}
            @if !card.cost.words().is_empty() { " · " (T(&card.cost.words())) }
            @if let Some(weaker) = &card.weaker { " · " span class="wait" { (T(weaker)) } }
            @if let Some(moved) = card.moved { " · moved " (instant(moved)) }
        } }))
        @if let Some(trouble) = &card.trouble { p class="bad" { (T(trouble)) } }
        @if let Some(question) = &plan.question { p class="wait" { "A question is open: " (T(question)) } }
        @for item in &plan.waiting_items { (waits(item)) }
        div class="columns" {
            section aria-labelledby="graph" { h2 id="graph" { "Graph" } (pictures.graph) }
            section aria-labelledby="text" {
                h2 id="text" { "Text" }
                (part(html! { pre class="tall" tabindex="0" role="region" aria-label="The plan as it is in the log" { (T(&plan.text)) } }))
            }
        }
        (pictures.timeline)
        h2 { "Steps" }
        @for each in &plan.steps { (part(step(&card.id.0, each))) }
        @if !plan.postconditions.is_empty() {
            h2 { "Postconditions" }
            @for each in &plan.postconditions { (part(post(each))) }
        }
        h2 { "Approved spec" }
        dl {
            dt { "Revision" } dd { code { (T(&card.revision.0)) } }
            @if let Some(by) = &card.approved_by { dt { "Approved by" } dd { (T(by)) } }
            dt { "Touches" }
            dd {
                @match &card.touches {
                    Some(globs) => { (T(&globs.join(", "))) }
                    None => "not declared: an agent can edit its own checks",
                }
            }
            @for line in &plan.terms { dt { "Term" } dd { (T(line)) } }
            @if let Some(path) = &card.path { dt { "File" } dd { code { (T(path)) } } }
        }
    }
}

fn waits(item: &InboxItemView) -> Markup {
    html! {
        p class="wait" {
            "Waits for a person: " (T(&item.reason)) " · "
            @if item.kind.is_at_gate() { a href={ "/plans/" (segment(&item.plan.0)) "/gate" } { "to the gate" } }
            @else { a href={ "/inbox#" (segment(&item.id.to_string())) } { "answer" } }
        }
    }
}

fn step(plan: &str, step: &StepView) -> Markup {
    let tried = step.attempts.len();
    let took: u64 = step.attempts.iter().filter_map(|attempt| attempt.duration_ms).sum();
    html! {
        section class="sheet" id={ "step-" (step.number) } {
            header {
                h3 { a href={ "/plans/" (segment(plan)) "/steps/" (step.number) } { (step.number) ". " (T(&step.title)) } }
                (step_word(step))
                @if let Some(target) = &step.target { span class="quiet" { (T(target)) } }
                @if tried > 0 {
                    span class="quiet" { (tried) @if tried == 1 { " attempt, " } @else { " attempts, " } (lasted(took)) }
                }
            }
            @if let Some(reason) = &step.blocked { p class="bad" { (T(reason)) } }
            @if let Some(weaker) = &step.weaker { p class="wait" { (T(weaker)) "." } }
            @if let Some(by) = &step.waived_by { p class="wait" { "Waived by " (T(by)) "; it has not passed." } }
            @if let Some(until) = step.not_before { p class="wait" { "The next attempt starts after " (instant(until)) } }
            details id={ "law-" (step.number) } {
                summary { "Task and contract" }
                @if let Some(task) = &step.task { (markdown(task)) }
                @if let Some(contract) = &step.precondition { (check("Precondition", contract)) }
                @if let Some(contract) = &step.contract { (check("Contract", contract)) }
                @if step.hidden { p class="quiet" { "Agents do not see the contract." } }
                p class="quiet" { "On failure: " (T(&step.on_fail)) }
            }
            @if step.claim.is_some() || step.verdict.is_some() {
                div class="versus" {
                    div {
                        h4 { "The agent says" }
                        @match &step.claim {
                            Some(claim) => pre { (T(claim)) }
                            None => p class="quiet" { "Nothing." }
                        }
                    }
                    div {
                        h4 { "provost checked" }
                        @match &step.verdict {
                            Some(seen) => (verdict(seen)),
                            None => p class="quiet" { "No check has run." }
                        }
                    }
                }
            }
        }
    }
}

fn post(post: &PostconditionView) -> Markup {
    html! {
        section class="sheet" {
            header { h3 { (post.number) ". " (T(&post.description)) } (post_word(post.state, post.pass, post.mark, &post.word)) }
            @if let Some(weaker) = &post.weaker { p class="wait" { (T(weaker)) "." } }
            @if let Some(why) = &post.uncontrolled { p class="wait" { "Uncontrolled: " (T(why)) "." } }
            @if let Some(contract) = &post.contract { (check("Contract", contract)) }
            @if let Some(seen) = &post.verdict { (verdict(seen)) }
        }
    }
}
