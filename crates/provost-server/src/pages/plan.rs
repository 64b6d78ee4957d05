//! The pages of one plan: an overview with its next action and its graph, its steps, the files it changed, its
//! timeline and its text.

use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use provost_core::model::chain::PlanId;
use provost_core::rules::inbox::FailedPart;
use provost_engine::observe::overview::{AttemptRecord, PlanSnapshot};
use provost_engine::observe::view::{InboxItemView, PlanState, PlanView, PostconditionView, StepView};
use serde::Deserialize;

use super::drawing;
use super::frame::{HtmlPage, PlanRoom, Section, form_key, plan_rooms, segment};
use super::graph;
use super::markdown::markdown;
use super::parts::{check, copy, policy, said_by_agent, titled, verdict};
use super::status::{post_word, step_word, word};
use super::text::{T, Ticks};
use super::times::{instant, now};
use crate::api;
use crate::api::find;
use crate::layout::timeline::lasted;
use crate::partial::part;
use crate::principal::{Principal, Viewer};
use crate::problem::{Answer, Problem};
use crate::request::{PageForm, Segment};
use crate::state::{AppState, SharedState, ask};

/// Most steps in the list of the overview, and how many of them are from before the first that is not over. The
/// graph and the page of the steps have all.
const LISTED: usize = 50;
const LISTED_BEFORE: usize = 5;

/// A plan and all that its pages show of it.
struct Shown {
    seen: PlanSnapshot,
    attempts: Vec<AttemptRecord>,
    view: PlanView,
}

async fn page(
    app: SharedState,
    Viewer(principal): Viewer,
    Segment(id): Segment<String>,
    room: PlanRoom,
    body: fn(&AppState, &Shown, &Principal) -> Markup,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let seen = find(&app.overview, &id)?;
        let attempts = app.overview.attempts(&seen.id)?;
        let items = app.overview.items(&seen)?;
        let view = PlanView::of(&seen, &attempts, items.iter().map(InboxItemView::from).collect());
        let title = view.card.title.clone();
        let shown = Shown { seen, attempts, view };
        let card = &shown.view.card;
        let body = html! {
            p class="crumbs" { @if let Some(repository) = &card.repository { (T(repository)) " / " } (T(&card.name)) }
            h1 { (T(&card.title)) }
            (plan_rooms(&card.id.0, room))
            (body(app, &shown, &principal))
        };
        let live = Some(format!("plan={}", segment(&id).0));
        let page = HtmlPage { title, room: Section::Elsewhere, live, body: body.into() };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

pub(super) async fn show(
    State(app): State<SharedState>,
    by: Viewer,
    id: Segment<String>,
) -> Answer<Response> {
    page(app, by, id, PlanRoom::Overview, overview).await
}

pub(super) async fn steps(
    State(app): State<SharedState>,
    by: Viewer,
    id: Segment<String>,
) -> Answer<Response> {
    page(app, by, id, PlanRoom::Steps, |_, shown, _| all_steps(&shown.view)).await
}

pub(super) async fn changes(
    State(app): State<SharedState>,
    by: Viewer,
    id: Segment<String>,
) -> Answer<Response> {
    page(app, by, id, PlanRoom::Changes, |_, shown, _| changed_files(&shown.view)).await
}

pub(super) async fn timeline(
    State(app): State<SharedState>,
    by: Viewer,
    id: Segment<String>,
) -> Answer<Response> {
    page(app, by, id, PlanRoom::Timeline, |_, shown, _| {
        let place = format!("/plans/{}/steps/", segment(&shown.seen.id.0).0);
        drawing::timeline(&shown.seen.run, &shown.attempts, now(), &place)
            .unwrap_or_else(|| not_run_yet(&shown.view))
    })
    .await
}

pub(super) async fn text(
    State(app): State<SharedState>,
    by: Viewer,
    id: Segment<String>,
) -> Answer<Response> {
    page(app, by, id, PlanRoom::Text, |_, shown, _| spec(&shown.view)).await
}

/// Answers what the run is busy with, for `assets/live.js`; empty if nothing takes long.
pub(super) async fn busy(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment(id): Segment<String>,
) -> Answer<Html<String>> {
    ask(&app, move |app| {
        let seen = find(&app.overview, &id)?;
        let busy = app.overview.busy(&seen.id).filter(|_| seen.is_worked_on);
        Ok(Html(html! { @if let Some(busy) = busy { (T(&busy)) } }.into_string()))
    })
    .await
}

fn overview(app: &AppState, shown: &Shown, principal: &Principal) -> Markup {
    let plan = &shown.view;
    let place = format!("/plans/{}/steps/", segment(&plan.card.id.0).0);
    html! {
        (head(shown))
        @if let Some(trouble) = &plan.card.trouble { p class="note bad" { (Ticks(trouble)) } }
        @if let Some(question) = &plan.question { p class="note wait" { "A question is open: " (T(question)) } }
        (next(shown, app.overview.busy(&plan.card.id).as_deref(), principal))
        div class="columns" {
            section class="beside" { h2 { "Graph" } (graph::graph(&app.graphs, &shown.seen.run, &shown.attempts, &place)) }
            section {
                h2 { "Steps" }
                ol class="steps" { @for each in listed(&plan.steps) { (part(row(&place, each))) } }
                @if plan.steps.len() > LISTED {
                    p { a href={ "/plans/" (segment(&plan.card.id.0)) "/steps" } { "All " (plan.steps.len()) " steps" } }
                }
            }
        }
        @if !plan.postconditions.is_empty() {
            h2 { "Postconditions" }
            @for each in &plan.postconditions { (part(post(each))) }
        }
    }
}

/// Renders state, progress, cost and age in one line.
fn head(shown: &Shown) -> Markup {
    let card = &shown.view.card;
    let cost = card.cost.words();
    part(html! {
        div class="lead" {
            (word(card.state.word()))
            (drawing::strip(&shown.seen.run))
            span class="number" { (card.progress()) " steps" }
            @if let Some(weaker) = &card.weaker { span class="weak" { (T(weaker)) } }
            @if !cost.is_empty() { span class="number" { "used " (T(&cost)) } }
            @if let Some(by) = &card.approved_by { span { "approved by " (T(by)) } }
            @if !card.depends_on.is_empty() { span { "after " (T(&card.depends_on.join(", "))) } }
            @if let Some(moved) = card.moved { span { "moved " (instant(moved)) } }
        }
    })
}

/// Renders the one next action: whose turn it is, and what to do.
fn next(shown: &Shown, busy: Option<&str>, principal: &Principal) -> Markup {
    let plan = &shown.view;
    let card = &plan.card;
    let id = segment(&card.id.0);
    if let Some(item) = plan.waiting_items.first() {
        let (place, name) = match item.kind.is_at_gate() {
            true => (format!("/plans/{}/gate", id.0), "Review and approve"),
            false => (format!("/inbox/{}", segment(&item.id.to_string()).0), "Decide"),
        };
        return html! {
            div class="note wait next-action" {
                div {
                    strong { "It waits for a person: " } (Ticks(&item.reason))
                    @if let Some(step) = item.step { " (step " (step) ")" }
                    " · " (instant(item.since))
                    @if plan.waiting_items.len() > 1 { " · " (plan.waiting_items.len() - 1) " more in the inbox" }
                }
                a class="button first" href=(place) { (name) }
            }
        };
    }
    let run = format!("provost run {}", card.name);
    html! {
        @match card.state {
            PlanState::Draft => { p { "It is a draft. Check it, and it waits for approval:" } (copy(&format!("provost verify {}", card.name))) }
            PlanState::Idle => {
                p { "It can continue, and no process works on it. Run it here, or in a terminal:" }
                (act(&card.id, principal, "start", "Run it"))
                (copy(&run))
            }
            PlanState::Running => div class="note run next-action" {
                div {
                    "At work: "
                    @for (at, step) in card.at_work.iter().enumerate() {
                        @if at > 0 { ", " }
                        a href={ "/plans/" (id) "/steps/" (step) } { "step " (step) ", live output" }
                    }
                    @if card.at_work.is_empty() { "provost is between two steps." }
                    p class="busy" data-busy={ "/plans/" (id) "/busy" } { @if let Some(busy) = busy { (T(busy)) } }
                }
                (act(&card.id, principal, "stop", "Stop the run"))
            }
            PlanState::Done => @match &card.landed {
                Some(branch) => p class="note good" { "Done, and on branch " code { (T(branch)) } "." }
                None => { p { "Done. Commit its work:" } (copy(&format!("provost commit {}", card.name))) }
            }
            PlanState::Failed => (failed(&shown.seen, principal))
            PlanState::WaitingForYou => p class="note wait" { "It waits for a person. " a href={ "/plans/" (id) "/gate" } { "To the gate" } }
        }
    }
}

/// Says how a failed plan can continue.
fn failed(seen: &PlanSnapshot, principal: &Principal) -> Markup {
    let name = seen.name();
    html! {
        div class="note bad next-action" {
            div {
                "It ended as failed. To change its text: " code { "provost amend " (T(name)) } "."
                @if let Some(part) = FailedPart::of(&seen.run) {
                    " To " (part.retry()) ": " code { "provost answer " (T(name)) ":" (part.id()) " retry" }
                    ". Steps that passed stay passed."
                }
            }
            (retry_button(seen, principal, ""))
        }
    }
}

/// Renders the button that opens a failed plan again; `before` comes before its words.
pub(super) fn retry_button(seen: &PlanSnapshot, principal: &Principal, before: &str) -> Markup {
    html! {
        @if let Some(part) = FailedPart::of(&seen.run) {
            (act(&seen.id, principal, "retry", &titled(&format!("{before}{}", part.retry()))))
        }
    }
}

/// Renders a button that starts, stops or retries, for a person who may decide.
fn act(plan: &PlanId, principal: &Principal, action: &str, name: &str) -> Markup {
    html! {
        @if principal.token.scope.may_decide() {
            form method="post" action={ "/plans/" (segment(&plan.0)) } {
                (form_key(principal))
                button class=[(action == "start").then_some("first")] name="action" value=(action) { (name) }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ActForm {
    action: String,
}

/// Starts or stops the run, or opens a failed plan again.
pub(super) async fn act_on(
    State(app): State<SharedState>,
    Segment(id): Segment<String>,
    PageForm { by, said }: PageForm<ActForm>,
) -> Answer<Response> {
    let onward = format!("/plans/{}", segment(&id).0);
    ask(&app, move |app| match said.action.as_str() {
        "start" => api::start(app, &by, &id),
        "stop" => api::stop(app, &by, &id),
        "retry" => api::retry(app, &by, &id),
        _ => Err(Problem::bad("the action must be start, stop or retry")),
    })
    .await?;
    Ok(Redirect::to(&onward).into_response())
}

/// Returns the steps around the first one that is not over; all, if they are not many.
fn listed(steps: &[StepView]) -> &[StepView] {
    let is_over = |step: &StepView| matches!(step.state, "passed" | "waived");
    let first = steps.iter().position(|step| !is_over(step)).unwrap_or(0);
    let from = first.saturating_sub(LISTED_BEFORE).min(steps.len().saturating_sub(LISTED));
    &steps[from..steps.len().min(from + LISTED)]
}

/// Renders a step in one line.
fn row(place: &str, step: &StepView) -> Markup {
    html! {
        li id={ "step-" (step.number) } {
            span class="quiet number" { (step.number) }
            a class="title" href={ (place) (step.number) } data-row { (T(&step.title)) }
            span { (step_word(step)) }
            span class="quiet small number" { (tried(step)) }
        }
    }
}

/// Describes the attempts of a step and their time, with the running one.
fn tried(step: &StepView) -> String {
    let took: u64 = step.attempts.iter().filter_map(|attempt| attempt.duration_ms).sum();
    match step.attempts.len() {
        0 => String::new(),
        1 if took == 0 => "1 attempt".to_owned(),
        1 => format!("1 attempt, {}", lasted(took)),
        count => format!("{count} attempts, {}", lasted(took)),
    }
}

fn not_run_yet(plan: &PlanView) -> Markup {
    html! {
        div class="empty" {
            strong { "No step was tried yet." }
            "After the approval, start the plan with " code { "provost run " (T(&plan.card.name)) } "."
        }
    }
}

fn all_steps(plan: &PlanView) -> Markup {
    html! { @for each in &plan.steps { (part(step(&plan.card.id.0, each))) } }
}

fn step(plan: &str, step: &StepView) -> Markup {
    html! {
        section class="sheet" id={ "step-" (step.number) } {
            header {
                h2 class="small-title" { a href={ "/plans/" (segment(plan)) "/steps/" (step.number) } { (step.number) ". " (T(&step.title)) } }
                (step_word(step))
                @if let Some(target) = &step.target { span class="quiet" { (T(target)) } }
                span class="quiet" { (tried(step)) }
            }
            @if let Some(reason) = &step.blocked { p class="note bad" { (Ticks(reason)) } }
            @if let Some(weaker) = &step.weaker { p class="weak" { (T(weaker)) "." } }
            @if let Some(by) = &step.waived_by { p class="weak" { "Waived by " (T(by)) "; it has not passed." } }
            @if let Some(until) = step.not_before { p class="wait" { "The next attempt starts " (instant(until)) } }
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
                        h3 { "The agent says" }
                        @match &step.claim {
                            Some(claim) => (said_by_agent(claim)),
                            None => p class="quiet" { "Nothing." }
                        }
                    }
                    div {
                        h3 { "provost checked" }
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
            @if let Some(weaker) = &post.weaker { p class="weak" { (T(weaker)) "." } }
            @if let Some(why) = &post.uncontrolled { p class="weak" { "Uncontrolled: " (T(why)) "." } }
            @if let Some(contract) = &post.contract { (check("Contract", contract)) }
            @if let Some(seen) = &post.verdict { (verdict(seen)) }
        }
    }
}

/// Lists the files that were taken over from the agents, by step.
fn changed_files(plan: &PlanView) -> Markup {
    let with_files =
        |step: &&StepView| step.verdict.as_ref().is_some_and(|verdict| !verdict.files.is_empty());
    let steps: Vec<&StepView> = plan.steps.iter().filter(with_files).collect();
    html! {
        @if steps.is_empty() {
            div class="empty" {
                strong { "No file was taken over yet." }
                "When the check of a step has run on the work of its agent, the changed files are listed here."
            }
        }
        @for step in steps {
            @let files = step.verdict.as_ref().map(|verdict| (&verdict.files, verdict.files_more));
            section class="sheet" {
                header {
                    h2 class="small-title" { a href={ "/plans/" (segment(&plan.card.id.0)) "/steps/" (step.number) "#changed" } { (step.number) ". " (T(&step.title)) } }
                    (step_word(step))
                }
                @if let Some((files, more)) = files {
                    ul class="files" { @for file in files { li { code { (T(file)) } } } }
                    @if more > 0 { p class="quiet" { "and " (more) " more" } }
                }
            }
        }
    }
}

/// Renders the text of the plan and what its approval covers.
fn spec(plan: &PlanView) -> Markup {
    let card = &plan.card;
    html! {
        dl {
            dt { "Revision" } dd { code { (T(&card.revision.0)) } }
            @if let Some(by) = &card.approved_by { dt { "Approved by" } dd { (T(by)) } }
            dt { "Touches" }
            dd {
                @match &card.touches {
                    Some(globs) => { code { (T(&globs.join(", "))) } }
                    None => "not declared: an agent can edit its own checks",
                }
            }
            (policy(&plan.terms))
            @if let Some(path) = &card.path { dt { "File" } dd { code { (T(path)) } } }
        }
        (part(html! { pre aria-label="The plan as it is in the log" { (T(&plan.text)) } }))
    }
}
