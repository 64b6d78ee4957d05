//! The inbox page: one item that waits for a person, with all that helps to decide it, and the list of the
//! others.
//!
//! **Invariant:** the key Enter decides nothing, and an answer that ends a plan is asked for twice.

use std::ops::ControlFlow;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use provost_core::model::event::{Choice, Event};
use provost_core::model::plan::StepNumber;
use provost_core::rules::inbox::{DecisionKind, FailedTry};
use provost_core::text::render;
use provost_engine::Query;
use provost_engine::observe::overview::PlanSnapshot;
use provost_engine::observe::view::{ChoiceView, InboxItemView, PlanState, PlanView, StepView};
use serde::Deserialize;

use super::difference::{self, DiffView};
use super::frame::{HtmlPage, Section, form_key, segment};
use super::markdown::markdown;
use super::parts::{check, output, said_by_agent, titled, verdict};
use super::plan;
use super::status::word;
use super::text::{T, Ticks};
use super::times::instant;
use crate::api;
use crate::api::InboxAnswerBody;
use crate::principal::{Principal, Viewer};
use crate::problem::Answer;
use crate::request::{PageForm, Segment, UrlQuery};
use crate::state::{AppState, SharedState, ask};

/// Number of items in the list.
const LISTED: usize = 100;

#[derive(Deserialize)]
pub(super) struct InboxQuery {
    /// The plan about which the person has just decided.
    #[serde(default)]
    answered: String,
    #[serde(default)]
    diff: DiffView,
}

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    UrlQuery(query): UrlQuery<InboxQuery>,
) -> Answer<Response> {
    ask(&app, move |app| page(app, &principal, None, &query)).await
}

pub(super) async fn show_item(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment(item): Segment<String>,
    UrlQuery(query): UrlQuery<InboxQuery>,
) -> Answer<Response> {
    ask(&app, move |app| page(app, &principal, Some(&item), &query)).await
}

fn page(app: &AppState, principal: &Principal, asked: Option<&str>, query: &InboxQuery) -> Answer<Response> {
    let after = app.overview.cursor()?.0;
    let mut items: Vec<InboxItemView> = app.overview.inbox()?.iter().map(InboxItemView::from).collect();
    // A plan that has begun waits before one that has not.
    items.sort_by_key(|item| item.kind.is_at_gate());
    let shown = match asked {
        Some(asked) => items.iter().find(|item| item.id.to_string() == asked),
        None => items.first(),
    };
    let body = html! {
        h1 { "Inbox" }
        (feedback(app, principal, &query.answered)?)
        @if let (Some(asked), None) = (asked, shown) { (gone(app, asked)?) }
        @if items.is_empty() {
            div class="empty" {
                strong { "Nothing waits for you." }
                "A plan that needs an approval, an answer or a larger budget appears here. " a href="/" { "To the agenda" }
            }
        } @else {
            div class="desk" {
                (list(&items, shown))
                @if let Some(item) = shown { (one(app, principal, item, query)?) }
            }
        }
    };
    let page = HtmlPage {
        title: "Inbox".to_owned(),
        room: Section::Inbox,
        live: Some(String::new()),
        body: body.into(),
    };
    Ok(page.shown(app, principal, after))
}

fn address(item: &InboxItemView) -> String {
    format!("/inbox/{}", segment(&item.id.to_string()).0)
}

fn list(items: &[InboxItemView], shown: Option<&InboxItemView>) -> Markup {
    html! {
        nav class="items" aria-label="Items that wait" {
            @for each in items.iter().take(LISTED) {
                @let is_here = shown.is_some_and(|item| item.id == each.id);
                a href=(address(each)) data-row aria-current=[is_here.then_some("true")] {
                    strong { (T(&each.title)) }
                    span class="small" {
                        (each.kind.word())
                        @if let (Some(step), Some(title)) = (each.step, &each.step_title) { ", step " (step) ": " (T(title)) }
                    }
                    span class="quiet small" { (instant(each.since)) }
                }
            }
            @if items.len() > LISTED { p class="quiet small" { "and " (items.len() - LISTED) " more" } }
        }
    }
}

/// Says in the words of the log what became of the last answer.
fn feedback(app: &AppState, principal: &Principal, plan: &str) -> Answer<Markup> {
    if plan.is_empty() {
        return Ok(html! {});
    }
    let seen = api::find(&app.overview, plan)?;
    let state = PlanState::of(&seen.run, seen.is_worked_on);
    let Some(answer) = last_answer(app, &seen)? else { return Ok(html! {}) };
    let place = format!("/plans/{}", segment(plan).0);
    Ok(html! {
        div class="note good" role="status" {
            p { strong { "Recorded: " } (T(&answer.words)) }
            p {
                a href=(place) { (T(&seen.run.plan.title)) } " is " (word(state.word())) " "
                @if state == PlanState::Idle { "No process works on it. Continue it with " code { "provost run " (T(seen.name())) } "." }
            }
            (undo(answer.choice, &seen, principal))
        }
    })
}

/// Offers what takes an answer back, or says how far the rules allow it.
fn undo(choice: Choice, seen: &PlanSnapshot, principal: &Principal) -> Markup {
    let gate = format!("/plans/{}/gate", segment(&seen.id.0).0);
    html! {
        @match choice {
            Choice::Abort => (plan::retry_button(seen, principal, "Undo: ")),
            Choice::Revise => p { a class="button" href=(gate) { "Undo: approve the same text again" } }
            Choice::Retry => p { "Until the next attempt begins, you can take this back: " a href=(gate) { "reject the plan" } "." }
            Choice::Skip | Choice::Confirm => p {
                "To have the step done after all, change its text: " code { "provost amend " (T(seen.name())) } "."
            }
        }
    }
}

/// The last answer that the log records for a plan.
struct LastAnswer {
    choice: Choice,
    /// The answer in the words of the log.
    words: String,
}

fn last_answer(app: &AppState, seen: &PlanSnapshot) -> Answer<Option<LastAnswer>> {
    let names = vec!["HUMAN_ANSWERED".to_owned()];
    let wanted = Query { names, newest_first: true, limit: Some(1), ..Query::plan(&seen.id) };
    let mut answer = None;
    app.overview.each(&wanted, &mut |_, sealed| {
        if let Ok(event @ Event::Answered { choice, .. }) = sealed.event() {
            answer = Some(LastAnswer { choice, words: render::event(&seen.run, &event).words });
        }
        ControlFlow::Break(())
    })?;
    Ok(answer)
}

/// Says that an item is not open any more, and by which answer it was closed.
fn gone(app: &AppState, asked: &str) -> Answer<Markup> {
    let plan = asked.rsplit_once(':').map_or(asked, |(plan, _)| plan);
    let answer = match api::find(&app.overview, plan) {
        Ok(seen) => last_answer(app, &seen)?,
        Err(_) => None,
    };
    Ok(html! {
        div class="note" {
            p { "This item is not open any more." @if let Some(answer) = answer { " The last answer of its plan: " (T(&answer.words)) } }
            p { a href="/inbox" { "To the open items" } }
        }
    })
}

fn one(app: &AppState, principal: &Principal, item: &InboxItemView, query: &InboxQuery) -> Answer<Markup> {
    let seen = api::find(&app.overview, &item.plan.0)?;
    let attempts = app.overview.attempts(&seen.id)?;
    let plan = PlanView::of(&seen, &attempts, Vec::new());
    let step = plan.steps.iter().find(|step| Some(step.number) == item.step);
    let place = address(item);
    let changes =
        item.step.and_then(|step| difference::of_step(app, &seen, StepNumber(step), query.diff, &place));
    // An update of the open page shows this item again, and not another one in its place.
    let again = match query.answered.as_str() {
        "" => place.clone(),
        plan => format!("{place}?answered={}", segment(plan).0),
    };
    Ok(html! {
        article data-place=(again) {
            p class="crumbs" {
                a href={ "/plans/" (segment(&item.plan.0)) } { (T(&item.title)) }
                @if let Some(step) = item.step { " / " a href={ "/plans/" (segment(&item.plan.0)) "/steps/" (step) } { "Step " (step) } }
            }
            h2 { (T(&question(item))) }
            p class="lead" { (word(item.kind.word())) span { "opened " (instant(item.since)) } }
            p class="note wait" { (Ticks(&item.reason)) }
            @for name in &item.context.configure { p { "Configure this outside of the run: " code { (T(name)) } } }
            (tried(&item.context.tried))
            @if let Some(step) = step { (claim_and_check(step)) }
            @else if let Some(text) = &item.context.output { h3 { "Last output" } (output(text)) }
            @if let Some(changes) = changes { h3 id="changed" { "Changes" } (changes) }
            @else if !item.context.changed.is_empty() {
                h3 { "Changes" } ul { @for line in &item.context.changed { li { (T(line)) } } }
            }
            @if let Some(step) = step { (asked_for(step)) }
        }
        aside class="decide" id="decide" aria-label="Your decision" {
            @if item.kind.is_at_gate() {
                h2 { "Your decision" }
                p { "Read what the plan does, and approve, change or reject it there." }
                a class="button first" href={ "/plans/" (segment(&item.plan.0)) "/gate" } { "Review at the gate" }
            } @else if principal.token.scope.may_decide() { (form(item, principal)) }
            @else { p class="quiet" { "Your session can look, but not decide. For a session that can decide: " code { "provost serve link" } "." } }
        }
        a class="button first jump" href="#decide" { "To the decision" }
    })
}

/// Returns the question that the person answers.
fn question(item: &InboxItemView) -> String {
    let step = match (item.step, &item.step_title) {
        (Some(step), Some(title)) => format!("step {step}, “{title}”"),
        _ => "the plan".to_owned(),
    };
    match item.kind {
        DecisionKind::Approval => "May this plan run?".to_owned(),
        DecisionKind::Question => "A question about the plan is open".to_owned(),
        DecisionKind::Changed => "The plan file changed. May the new text run?".to_owned(),
        DecisionKind::Confirmation => format!("Is the work of {step} right?"),
        DecisionKind::Budget => format!("May {step} cost more?"),
        DecisionKind::Permission => format!("{step} needs a permission. How does it continue?"),
        DecisionKind::Quota => format!("The account of {step} is used up. How does it continue?"),
        DecisionKind::Postcondition => {
            "A check of the whole plan does not hold. How does it continue?".to_owned()
        }
        DecisionKind::Escalation => format!("How does {step} continue?"),
    }
}

/// Lists the failed attempts, each with its consequence.
fn tried(all: &[FailedTry]) -> Markup {
    let all: Vec<&FailedTry> =
        all.iter().filter(|tried| tried.failure.is_some() || tried.ended.is_some()).collect();
    html! {
        @if !all.is_empty() {
            h3 { "Tried" }
            ol class="tried" {
                @for tried in all {
                    li value=(tried.attempt) {
                        (T(tried.failure.as_deref().or(tried.ended.as_deref()).unwrap_or_default()))
                        span class="quiet small" {
                            @if let Some(by) = &tried.by { " · by " (T(by)) }
                            " · " (instant(tried.at))
                            @if let Some(said) = &tried.said { " · the agent said: " (T(said)) }
                            @if let Some(followed) = &tried.followed { " · then: " (T(followed)) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the last words of the agent against the last verdict.
fn claim_and_check(step: &StepView) -> Markup {
    let last = step.attempts.last();
    let said = step.claim.as_deref().or(last.map(|attempt| attempt.report.as_str())).unwrap_or_default();
    html! {
        div class="versus" {
            div {
                h3 { "The agent says" }
                @if said.trim().is_empty() { p class="quiet" { "Nothing." } } @else { (said_by_agent(said)) }
            }
            div {
                h3 { "provost checked" }
                @match (&step.verdict, step.contract.as_ref().map(|contract| contract.kind)) {
                    (Some(seen), _) => (verdict(seen)),
                    (None, Some("human")) => p { "Nothing: a person decides about this step." },
                    (None, _) => p class="quiet" { "No check has run." },
                }
            }
        }
    }
}

fn asked_for(step: &StepView) -> Markup {
    html! {
        h3 { "Task" }
        @if let Some(task) = &step.task { (markdown(task)) }
        @if let Some(contract) = &step.contract { (check("Contract", contract)) }
    }
}

/// Returns whether an answer ends the plan.
fn ends_plan(choice: &str) -> bool {
    choice == "abort"
}

fn form(item: &InboxItemView, principal: &Principal) -> Markup {
    let (last, others): (Vec<&ChoiceView>, Vec<&ChoiceView>) =
        item.choices.iter().partition(|each| ends_plan(each.choice));
    let button = |each: &ChoiceView, class: &str, more: &str| {
        html! {
            button class={ "choice " (class) } name="choice" value=(each.choice) {
                strong { (titled(each.choice)) (more) } span { (each.does) }
            }
        }
    };
    html! {
        h2 { "Your decision" }
        form method="post" action=(address(item)) {
            (form_key(principal))
            // Enter in a field presses the first button of a form. This one is disabled, so Enter decides
            // nothing.
            button disabled hidden {}
            label for="note" { "Reason (recorded in the log)" }
            textarea id="note" class="prose" name="note" rows="2" {}
            @if item.kind == DecisionKind::Budget {
                label for="budget" { "With retry: new limits, such as max $3, 400k tokens" }
                input id="budget" name="budget" autocomplete="off";
            }
            @for (at, each) in others.into_iter().enumerate() { (button(each, if at == 0 { "first" } else { "" }, "")) }
            @if !last.is_empty() { hr; }
            @for each in last { (button(each, "danger", "…")) }
        }
        p class="quiet small" { "The log records the answer under " (T(&principal.name())) "." }
    }
}

#[derive(Deserialize)]
pub(super) struct InboxForm {
    choice: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    budget: String,
    /// `yes` if the person was asked again.
    #[serde(default)]
    sure: String,
}

pub(super) async fn answer(
    State(app): State<SharedState>,
    Segment(item): Segment<String>,
    PageForm { by, said }: PageForm<InboxForm>,
) -> Answer<Response> {
    if ends_plan(&said.choice) && said.sure != "yes" {
        return ask(&app, move |app| ask_again(app, &by, &item, &said)).await;
    }
    let budget = Some(said.budget).filter(|text| !text.trim().is_empty());
    let answer = InboxAnswerBody { choice: said.choice, note: said.note, budget };
    let plan = ask(&app, move |app| api::answered(app, &by, &item, answer)).await?.plan;
    Ok(Redirect::to(&format!("/inbox?answered={}", segment(&plan).0)).into_response())
}

/// Asks once more before an answer that ends the plan.
fn ask_again(app: &AppState, principal: &Principal, item: &str, said: &InboxForm) -> Answer<Response> {
    let items: Vec<InboxItemView> = app.overview.inbox()?.iter().map(InboxItemView::from).collect();
    let found = items.iter().find(|each| each.id.to_string() == item);
    let does = found.and_then(|item| item.choices.iter().find(|each| each.choice == said.choice));
    let body = html! {
        h1 { (titled(&said.choice)) ": are you sure?" }
        @match (found, does) {
            (Some(item), Some(choice)) => section class="sheet" {
                p { "Plan " strong { (T(&item.title)) } ": " (choice.does) ". Steps that passed stay passed, and you can take this back." }
                form method="post" action=(address(item)) {
                    (form_key(principal))
                    button disabled hidden {}
                    input type="hidden" name="sure" value="yes";
                    label for="note" { "Reason (recorded in the log)" }
                    textarea id="note" class="prose" name="note" rows="2" { "\n" (said.note) }
                    div class="actions" {
                        a class="button" href=(address(item)) { "No, go back" }
                        button class="danger" name="choice" value=(choice.choice) { "Yes, " (choice.does) }
                    }
                }
            }
            _ => (gone(app, item)?),
        }
    };
    let page =
        HtmlPage { title: "Are you sure?".to_owned(), room: Section::Inbox, live: None, body: body.into() };
    Ok(page.shown(app, principal, 0))
}
