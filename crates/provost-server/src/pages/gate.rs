//! The gate page: what changed since the last approval, what will run, and the four decisions of a person.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use provost_core::language::parse;
use provost_core::model::approved_spec;
use provost_core::rules::quorum;
use provost_core::state::run::Stage;
use serde::Deserialize;

use super::difference;
use super::frame::{HtmlPage, PlanRoom, Section, form_key, plan_rooms, segment};
use super::markdown::markdown;
use super::parts::{check, findings, policy, questions};
use super::status::word;
use super::text::{T, Ticks};
use crate::api;
use crate::api::{Amendment, Approval, Decision, Question, Rejection};
use crate::layout::diff::Difference;
use crate::principal::{Principal, Viewer};
use crate::problem::{Answer, Problem};
use crate::request::{PageForm, Segment};
use crate::state::{SharedState, ask};
use provost_engine::observe::view::{DiagnosticView, GateView, IntentView, UncommittedView};

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment(id): Segment<String>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let gate = GateView::of(&app.overview, &api::find(&app.overview, &id)?)?;
        let live = Some(format!("plan={}", segment(&id).0));
        let title = format!("Gate: {}", gate.title);
        let page =
            HtmlPage { title, room: Section::Elsewhere, live, body: body(&gate, &principal, None).into() };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

/// Content of one of the forms.
#[derive(Deserialize)]
pub(super) struct GateForm {
    decision: String,
    #[serde(default)]
    revision: String,
    /// The revision with uncommitted files as part of the base.
    #[serde(default)]
    included: String,
    /// A question or a reason.
    #[serde(default)]
    words: String,
    /// The step that a question is about.
    step: Option<u32>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    digest: String,
}

pub(super) async fn decide(
    State(app): State<SharedState>,
    Segment(id): Segment<String>,
    PageForm { by, said }: PageForm<GateForm>,
) -> Answer<Response> {
    let draft = said.text.clone();
    let decision = match said.decision.as_str() {
        "approve" => Decision::Approve(Approval { revision: said.revision, include_uncommitted: false }),
        "include" => Decision::Approve(Approval { revision: said.included, include_uncommitted: true }),
        "ask" => Decision::Ask(Question { question: said.words, step: said.step }),
        "reject" => Decision::Reject(Rejection { reason: said.words }),
        "amend" => Decision::Amend(Amendment { text: said.text, digest: said.digest }),
        _ => return Err(Problem::bad("the decision must be approve, include, ask, reject or amend")),
    };
    let onward = format!("/plans/{}/gate", segment(&id).0);
    ask(&app, move |app| match api::decide(app, &by, &id, decision) {
        Ok(_) => Ok(Redirect::to(&onward).into_response()),
        // The person's text is shown again with its diagnostics.
        Err(problem) if !problem.diagnostics.is_empty() => {
            let gate = GateView::of(&app.overview, &api::find(&app.overview, &id)?)?;
            let draft = Draft { text: &draft, problem: &problem };
            let title = format!("Gate: {}", gate.title);
            let body = body(&gate, &by, Some(&draft)).into();
            let mut response =
                HtmlPage { title, room: Section::Elsewhere, live: None, body }.shown(app, &by, 0);
            *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            Ok(response)
        }
        Err(problem) => Err(problem),
    })
    .await
}

/// A new text that was refused, and why.
struct Draft<'a> {
    text: &'a str,
    problem: &'a Problem,
}

fn body(gate: &GateView, principal: &Principal, draft: Option<&Draft<'_>>) -> Markup {
    html! {
        h1 { (T(&gate.title)) }
        (plan_rooms(&gate.plan, PlanRoom::Gate))
        p class="lead" {
            (word(gate.stage.word()))
            span { "Revision " code { (T(short(&gate.revision))) } }
            span { (gate.intents.len()) @if gate.intents.len() == 1 { " step" } @else { " steps" } }
            @if let (Some(by), Some(approved)) = (&gate.approved_by, &gate.approved) {
                span { (T(by)) " approved " code { (T(short(approved))) } }
            }
        }
        @if let Some(draft) = draft {
            section class="note bad" role="alert" {
                p { "The plan was not changed: " (T(&draft.problem.detail)) }
                (findings(&draft.problem.diagnostics))
                p { a href="#amend" { "To your text" } }
            }
        }
        @if gate.stage == Stage::Approved { p class="note good" { "The plan is approved. Run it with " code { "provost run " (T(&gate.name)) } "." } }
        @if let Some(reason) = &gate.rejected { p class="note bad" { "This revision was rejected: " (T(reason)) } }
        @if let Some(question) = &gate.question { p class="note wait" { "A question is open: " (T(question)) } }
        @if let Some(words) = &gate.approvals.words { p class="note wait" { (T(words)) } }
        (warnings(gate))
        (changes(gate))
        (intents(gate, principal))
        (decision(gate, principal, draft))
    }
}

/// Lists all that speaks against an approval, worst first.
fn warnings(gate: &GateView) -> Markup {
    let (serious, advice): (Vec<&DiagnosticView>, Vec<&DiagnosticView>) =
        gate.diagnostics.iter().partition(|each| each.severity != "advice");
    let is_clear = serious.is_empty()
        && !gate.changed
        && gate.touches.is_some()
        && gate.already_hold == 0
        && gate.uncommitted.is_empty()
        && gate.not_checked.is_empty();
    html! {
        h2 { "Warnings" }
        @if is_clear { p class="note good" { "provost found nothing that speaks against this plan." } }
        @if gate.changed { p class="note wait" { "The plan file has changed since provost last read it." } }
        @if gate.touches.is_none() { p class="note bad" { "The plan does not declare which files it may change: an agent can edit its own checks." } }
        @if !serious.is_empty() { (findings(serious)) }
        @if let Some((first, rest)) = gate.on_base.split_first() {
            div class=(if gate.already_hold > 0 { "note wait" } else { "note" }) {
                p { (T(first)) }
                @if gate.already_hold > 0 { ul { @for line in rest { li { (T(line.trim())) } } } }
            }
        } @else if gate.on_base_under_way {
            p class="note" { "provost is running the checks on the base. Reload this page in a moment to see which of them hold already." }
        }
        (uncommitted(gate))
        @if !advice.is_empty() { details id="advice" { summary { (advice.len()) " more hints" } (findings(advice)) } }
    }
}

/// Lists the files that are not in the base commit: an agent would be credited with them, or no check sees
/// them.
fn uncommitted(gate: &GateView) -> Markup {
    let list = |files: &[UncommittedView]| {
        html! {
            ul {
                @for file in files { li { code { (T(&file.path)) } " " (T(&file.change)) ", " (T(&file.whose)) } }
            }
        }
    };
    html! {
        @if !gate.uncommitted.is_empty() {
            div class="note bad" {
                p { strong { "Not committed: " } "these files are inside " code { "touches" } ". The plan cannot be approved while they are there, because provost would take them for the work of an agent. Commit them, stash them, or include them in the base." }
                (list(&gate.uncommitted))
            }
        }
        @if !gate.not_checked.is_empty() {
            div class="note" {
                p { strong { "Not part of the check: " } "these files are not committed and outside of " code { "touches" } ". Commit what a check needs." }
                (list(&gate.not_checked))
            }
        }
    }
}

fn short(revision: &str) -> &str {
    revision.get(..12).unwrap_or(revision)
}

/// Renders the changes in words of steps and contracts, and line by line.
fn changes(gate: &GateView) -> Markup {
    // provost writes status and marks; they are not part of the spec.
    let bare = |text: &str| approved_spec::mark(text, &parse::plan(text).plan, "draft", |_| None);
    let before = gate.approved_text.as_ref();
    let lines = before.map(|before| Difference::of(&bare(before), &bare(&gate.text))).unwrap_or_default();
    html! {
        h2 { "Changes" }
        @match &gate.approved_by {
            None => p { "No revision was approved before; all of it is new." }
            Some(by) if gate.changes.is_empty() => p { "Nothing has changed since " (T(by)) " approved it." }
            Some(by) => {
                p class="quiet" { "Changed since " (T(by)) " approved it:" }
                ul class="changes" { @for line in &gate.changes { li { (Ticks(line)) } } }
                @if !lines.is_empty() {
                    details id="lines" open[lines.shown() <= 60] { summary { "Line by line" } (difference::texts(&lines)) }
                }
            }
        }
    }
}

/// Lists what an approval allows.
fn intents(gate: &GateView, principal: &Principal) -> Markup {
    let may_ask = principal.token.scope.may_decide() && (gate.open || gate.stage == Stage::Approved);
    let asked_by = may_ask.then_some(principal);
    html! {
        h2 { "Steps" }
        @for each in &gate.intents { (intent(each, &gate.plan, asked_by)) }
        @if !gate.postconditions.is_empty() { h2 { "At the end" } }
        @for each in &gate.postconditions {
            section class="sheet" {
                header { h3 { "Postcondition " (each.number) ". " (T(&each.description)) } }
                @if let Some(contract) = &each.contract { (check("Contract", contract)) (on_base(each.on_base.as_deref())) }
            }
        }
        h2 { "Rights and limits of the whole plan" }
        dl {
            dt { "Files" }
            dd {
                @match &gate.touches {
                    Some(globs) => { "agents may change " code { (T(&globs.join(", "))) } }
                    None => span class="bad" { "the plan declares none: an agent can edit its own checks" }
                }
            }
            (policy(&gate.terms))
            @if let Some(caveat) = &gate.caveat { dt { "Not enforced" } dd { (Ticks(caveat)) } }
        }
    }
}

fn intent(intent: &IntentView, plan: &str, asked_by: Option<&Principal>) -> Markup {
    html! {
        section class="sheet step" id={ "step-" (intent.number) } {
            header {
                h3 { (intent.number) ". " (T(&intent.title)) }
                @if let Some(target) = &intent.target { span class="quiet small" { "by " (T(target)) } }
            }
            div class="versus" {
                div {
                    h4 { "Task for the agent" }
                    @match &intent.task { Some(task) => (markdown(task)), None => p class="quiet" { "None." } }
                    dl class="small" {
                        @if let Some(program) = &intent.program { dt { "Program" } dd { (Ticks(program)) } }
                        dt { "Rights" } dd { (T(&intent.reach)) @if let Some(limit) = &intent.attempt_limit { "; at most " (limit) } }
                        @if let Some(budget) = &intent.budget { dt { "Budget" } dd { (T(budget)) } }
                        dt { "On failure" } dd { (T(&intent.on_fail)) }
                    }
                }
                div {
                    h4 { "Check by provost" }
                    @if let Some(contract) = &intent.precondition { (check("Precondition", contract)) }
                    @match &intent.contract {
                        Some(contract) => { (check("Contract", contract)) (on_base(intent.on_base.as_deref())) }
                        None => p class="note wait" { "This step has no contract: provost checks nothing, and only the agent says that it is done." }
                    }
                    dl class="small" {
                        dt { "Network" } dd { @if intent.check_network { span class="wait" { "the check has one" } } @else { "none" } }
                        @if let Some(limit) = &intent.check_limit { dt { "Time" } dd { "at most " (limit) } }
                        @if !intent.protect.is_empty() { dt { "Restored before the check" } dd { code { (T(&intent.protect.join(", "))) } } }
                        @if intent.hidden { dt { "Hidden" } dd { "agents do not see the contract" } }
                        @if intent.writes_tests { dt { "Writes" } dd { "its own checks" } }
                    }
                }
            }
            (questions(&intent.questions))
            @if let Some(principal) = asked_by { (ask_about(intent.number, plan, principal)) }
        }
    }
}

/// Renders a form that asks about one step.
fn ask_about(step: u32, plan: &str, principal: &Principal) -> Markup {
    html! {
        details class="ask" id={ "ask-" (step) } {
            summary { "Comment or ask about step " (step) }
            form method="post" action={ "/plans/" (segment(plan)) "/gate#step-" (step) } {
                (form_key(principal))
                input type="hidden" name="step" value=(step);
                label for={ "words-" (step) } { "Everybody sees it here; the plan waits at the gate until it is amended or approved" }
                textarea id={ "words-" (step) } class="prose" name="words" required {}
                div class="actions" { button name="decision" value="ask" { "Ask about step " (step) } }
            }
        }
    }
}

/// Says what the check said on the base, before any work.
fn on_base(words: Option<&str>) -> Markup {
    html! {
        @if let Some(words) = words {
            p class="small" { "On the base: " span class=[words.starts_with("holds").then_some("wait")] { (T(words)) } }
        }
    }
}

/// Returns why this person's approval would not count, if others must approve.
fn cannot_add(gate: &GateView, name: &str) -> Option<&'static str> {
    let approvals = &gate.approvals;
    let is_them = |other: &String| quorum::is_same(other, name);
    if !gate.open || approvals.words.is_none() {
        None
    } else if approvals.given.iter().any(is_them) {
        Some("You have approved it. Others must approve it too.")
    } else if approvals.self_approval {
        None
    } else if gate.changed {
        Some("The log does not say yet who wrote this text. Its author must run `provost verify` first.")
    } else if approvals.author.as_ref().is_none_or(is_them) {
        Some("You wrote this revision. Another person must approve it.")
    } else {
        None
    }
}

/// Renders the four decisions in a bar that is always in sight.
fn decision(gate: &GateView, principal: &Principal, draft: Option<&Draft<'_>>) -> Markup {
    let place = format!("/plans/{}/gate", segment(&gate.plan).0);
    html! {
        div class="decision-bar" id="decide" role="region" aria-label="Your decision" {
            @if !principal.token.scope.may_decide() {
                p class="quiet" { "Your session can look, but not decide. For a session that can decide: " code { "provost serve link" } "." }
            } @else {
                (amend(gate, principal, draft, &place))
                details class="pop" id="say" {
                    summary class="button" { "Ask or reject" }
                    form method="post" action=(place) {
                        (form_key(principal))
                        label for="words" { "A question, or the reason for a rejection" }
                        textarea id="words" class="prose" name="words" required {}
                        div class="actions" {
                            button name="decision" value="ask" { "Ask: the plan waits for the answer" }
                            button class="danger" name="decision" value="reject" { "Reject: the plan goes back to draft" }
                        }
                    }
                }
                (approve(gate, principal, &place))
            }
        }
    }
}

fn approve(gate: &GateView, principal: &Principal, place: &str) -> Markup {
    html! {
        @if let Some(why) = cannot_add(gate, &principal.name()) {
            p class="quiet" { (why) }
        } @else if gate.open {
            form method="post" action=(place) {
                (form_key(principal))
                input type="hidden" name="revision" value=(gate.revision);
                @if let Some(included) = &gate.revision_with_uncommitted {
                    input type="hidden" name="included" value=(included);
                    button class="first" name="decision" value="include" { "Approve " code { (T(short(included))) } " with the files that are not committed, as " (T(&principal.name())) }
                } @else {
                    button class="first" name="decision" value="approve" { "Approve " code { (T(short(&gate.revision))) } " as " (T(&principal.name())) }
                }
            }
        } @else {
            p class="quiet" { "Nothing waits for approval." }
        }
    }
}

fn amend(gate: &GateView, principal: &Principal, draft: Option<&Draft<'_>>, place: &str) -> Markup {
    html! {
        details class="pop" id="amend" open[draft.is_some()] {
            summary class="button" { "Amend" }
            form method="post" action=(place) {
                (form_key(principal))
                input type="hidden" name="digest" value=(gate.digest);
                label for="text" { "The whole plan; provost checks it before it writes the file" }
                // Without `T`, which replaces characters: the text that is sent back must be the text of the
                // file.
                textarea id="text" class="tall" name="text" spellcheck="false" {
                    "\n" (draft.map_or(gate.text.as_str(), |draft| draft.text))
                }
                div class="actions" { button name="decision" value="amend" { "Change the plan" } }
            }
        }
    }
}
