//! The page of one step: an attempt with the agent's words against provost's verdicts, what it changed, and
//! how to run its check again.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::model::plan::StepNumber;
use provost_engine::observe::view::{AttemptView, CheckView, PlanView, StepView, VerdictView};
use serde::Deserialize;

use super::difference::{self, DiffView};
use super::frame::{HtmlPage, PlanRoom, Section, plan_rooms, segment};
use super::markdown::markdown;
use super::parts::{self, check, copy, verdict};
use super::status::{step_word, word};
use super::text::{T, Ticks};
use super::transcript;
use crate::api::find;
use crate::layout::timeline::lasted;
use crate::principal::Viewer;
use crate::problem::{Answer, Problem};
use crate::request::{Segment, UrlQuery};
use crate::state::{AppState, SharedState, ask};

#[derive(Deserialize)]
pub(super) struct StepQuery {
    #[serde(default)]
    diff: DiffView,
    /// The attempt to show; the last one by default.
    attempt: Option<u32>,
}

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment((id, number)): Segment<(String, u32)>,
    UrlQuery(query): UrlQuery<StepQuery>,
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
        let since = shown(step, query.attempt).and_then(|after| {
            let before = step.attempts.iter().rev().find(|each| each.begun < after.begun)?;
            let place = format!("{place}?attempt={}", after.number);
            let changes = difference::between(app, &seen, (before, after), query.diff, &place)?;
            Some((before.number, changes))
        });
        let body = html! {
            (head(&plan, step))
            (notes(step))
            (asked_for(step))
            (attempt(app, &plan, step, &query, &place))
            @if let Some((before, changes)) = since { h2 id="since" { "Changes since attempt " (before) } (changes) }
            @if let Some(changes) = changes { h2 id="changed" { "Changes" } (changes) }
            (reproduce(&plan, step))
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

fn head(plan: &PlanView, step: &StepView) -> Markup {
    let id = segment(&plan.card.id.0);
    let took: u64 = step.attempts.iter().filter_map(|attempt| attempt.duration_ms).sum();
    let at = |number: u32| plan.steps.iter().any(|step| step.number == number);
    html! {
        p class="crumbs" {
            @if let Some(repository) = &plan.card.repository { (T(repository)) " / " }
            a href={ "/plans/" (id) } { (T(&plan.card.title)) }
        }
        h1 { (step.number) ". " (T(&step.title)) }
        (plan_rooms(&plan.card.id.0, PlanRoom::Elsewhere))
        p class="lead" {
            (step_word(step))
            @if let Some(target) = &step.target { span { "by " (T(target)) } }
            @if took > 0 { span { (lasted(took)) } }
            @if let Some(tokens) = step.cost.tokens.filter(|tokens| *tokens > 0) { span { (tokens) " tokens" } }
            @if let Some(usd) = step.cost.usd.filter(|usd| *usd > 0.0) { span { "$" (format!("{usd:.2}")) } }
            @for (number, name) in [(step.number.saturating_sub(1), "Step before"), (step.number + 1, "Next step")] {
                @if at(number) { a href={ "/plans/" (id) "/steps/" (number) } { (name) } }
            }
        }
    }
}

fn notes(step: &StepView) -> Markup {
    html! {
        (parts::questions(&step.questions))
        @if let Some(reason) = &step.blocked { p class="note bad" { (Ticks(reason)) " " a href="/inbox" { "To the inbox" } } }
        @if let Some(weaker) = &step.weaker { p class="note" { (T(weaker)) "." } }
        @if let Some(by) = &step.waived_by { p class="note" { "Waived by " (T(by)) "; it has not passed." } }
    }
}

fn asked_for(step: &StepView) -> Markup {
    html! {
        section class="sheet versus" {
            div {
                h2 { "Task" }
                @match &step.task { Some(task) => (markdown(task)), None => p class="quiet" { "None." } }
            }
            div {
                h2 { "Check" }
                @if let Some(contract) = &step.precondition { (check("Precondition", contract)) }
                @match &step.contract {
                    Some(contract) => (check("Contract", contract)),
                    None => p class="note wait" { "This step has no contract: provost checks nothing." }
                }
                @if step.hidden { p class="quiet small" { "Agents do not see the contract." } }
                p class="quiet small" { "On failure: " (T(&step.on_fail)) }
            }
        }
    }
}

/// Returns the chosen attempt, or the last one.
fn shown(step: &StepView, chosen: Option<u32>) -> Option<&AttemptView> {
    step.attempts.iter().rev().find(|attempt| chosen.is_none_or(|number| attempt.number == number))
}

/// Renders the chosen attempt, with a tab for each of the others.
fn attempt(app: &AppState, plan: &PlanView, step: &StepView, query: &StepQuery, place: &str) -> Markup {
    let shown = shown(step, query.attempt);
    html! {
        @if step.attempts.is_empty() {
            div class="empty" {
                strong { "No attempt yet." }
                "Start the plan with " code { "provost run " (T(&plan.card.name)) } "; its output appears here while it works."
            }
            @if let Some(seen) = &step.verdict { (verdict(seen)) }
        } @else if step.attempts.len() > 1 {
            nav class="rooms" aria-label="Attempts" {
                @for each in &step.attempts {
                    @let is_here = shown.is_some_and(|shown| shown.begun == each.begun);
                    a href={ (place) "?attempt=" (each.number) } aria-current=[is_here.then_some("true")] {
                        "Attempt " (each.number) " " (word(outcome(each)))
                    }
                }
            }
        }
        @match shown {
            Some(each) => (parts::attempt(each, &transcript::part(app, &plan.card.id.0, step, each))),
            None if step.attempts.is_empty() => {}
            None => p class="note" { "The step has no such attempt." }
        }
    }
}

/// Returns the word for the result of an attempt.
fn outcome(attempt: &AttemptView) -> &'static str {
    match (attempt.passed, attempt.ended) {
        (true, _) => "passed",
        (false, None) => "running",
        (false, Some(_)) if attempt.failure.is_none() && attempt.verdicts.is_empty() => "claimed",
        (false, Some(_)) => "failed",
    }
}

/// Renders how to run the check again, and what it ran with.
fn reproduce(plan: &PlanView, step: &StepView) -> Markup {
    let contract = step.contract.as_ref().filter(|contract| contract.kind == "shell");
    let name = &plan.card.name;
    let has_tree = step.verdict.as_ref().is_some_and(|verdict| verdict.tree.is_some());
    html! {
        @if let Some(contract) = contract {
            h2 { "Run the check again" }
            @if step.pass.is_some() && has_tree {
                p { "On the tree that it passed on:" }
                (copy(&format!("provost recheck {name} {}", step.number)))
            }
            p { "On the base and on the workspace:" }
            (copy(&format!("provost try {name} {}", step.number)))
            @if let Some(seen) = &step.verdict { (ran_with(contract, seen)) }
        }
    }
}

/// Lists the command, the tree and the environment of the last check.
fn ran_with(contract: &CheckView, verdict: &VerdictView) -> Markup {
    html! {
        details id="environment" {
            summary { "The last check ran with" }
            dl {
                @if let Some(command) = &contract.command { dt { "Command" } dd { (copy(command)) } }
                dt { "Isolation" } dd { (T(&verdict.isolation)) }
                @if let Some(tree) = &verdict.tree { dt { "Tree" } dd { code { (T(tree)) } } }
                @for line in &verdict.provisioned { dt { "Installed for it" } dd { (T(line)) } }
                @for runner in &verdict.runners { dt { "Test runner" } dd { (T(runner)) } }
                @if let Some(environment) = &verdict.environment {
                    dt { "PATH" } dd { code { (T(&environment.path.join(":"))) } }
                    @for (name, value) in &environment.variables { dt { code { (T(name)) } } dd { code { (T(value)) } } }
                    @for (name, tool) in &environment.tools { dt { (T(name)) } dd { code { (T(&tool.path)) } " " (T(&tool.version)) } }
                    dt { "Digest" } dd { code { (T(&environment.sha256)) } }
                }
            }
        }
    }
}
