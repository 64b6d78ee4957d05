//! The page of a transcript, and the parts of a step's page that show what its agent says and does.

use axum::extract::State;
use axum::response::{Html, Response};
use maud::{Markup, html};
use provost_core::model::chain::PlanId;
use provost_core::model::plan::StepNumber;
use provost_core::model::transcript::TranscriptEntry;
use provost_core::text::render;
use provost_engine::observe::overview::AttemptTranscript;
use provost_engine::observe::view::{AttemptView, StepView};

use super::ansi::Ansi;
use super::frame::{HtmlPage, PlanRoom, Section, plan_rooms, segment};
use super::text::T;
use crate::api::{self, WhichAttempt, transcript_of};
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::request::{Segment, UrlQuery};
use crate::state::{AppState, SharedState, ask};

/// Entries that the page of a step shows at most; the last ones.
const LAST: usize = 200;

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment((id, number)): Segment<(String, u32)>,
    UrlQuery(which): UrlQuery<WhichAttempt>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let found = transcript_of(&app.overview, &id, number, which.attempt)?;
        let body = html! {
            h1 { (T(&found.title())) }
            (plan_rooms(&id, PlanRoom::Elsewhere))
            p {
                a href={ "/plans/" (segment(&id)) "/steps/" (number) } { "Step " (number) } " · "
                a href={ "/api" (address(&id, number, found.attempt.number)) } { "as JSON" }
            }
            (entries(&found.entries, found.note))
        };
        let live = Some(format!("plan={}&task={number}", segment(&id).0));
        let page = HtmlPage { title: found.title(), room: Section::Elsewhere, live, body: body.into() };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

/// Answers the last lines of a running attempt as markup, for `assets/live.js`.
pub(super) async fn output(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment((id, number)): Segment<(String, u32)>,
) -> Answer<Html<String>> {
    ask(&app, move |app| {
        let seen = api::find(&app.overview, &id)?;
        let output = app.overview.output(&seen.id, StepNumber(number));
        Ok(Html(lines(&output.unwrap_or_default()).into_string()))
    })
    .await
}

/// Renders output with an element for each line, so that lines can be searched.
fn lines(output: &str) -> Markup {
    html! { @for line in output.lines() { span class="line" { (Ansi(line)) "\n" } } }
}

/// Renders what the agent of an attempt says and does, or said and did. Of the attempts that have ended, only
/// the last one is shown on the step's page; the others have a page of their own.
pub(super) fn part(app: &AppState, id: &str, step: &StepView, attempt: &AttemptView) -> Markup {
    let last_ended = step.attempts.iter().rev().find(|each| each.ended.is_some());
    match attempt.ended {
        None if step.state == "in_progress" => live(app, id, step, attempt),
        None => html! {},
        Some(_) => {
            let is_last = last_ended.is_some_and(|last| last.begun == attempt.begun);
            let is_checked = is_last && is_under_check(step);
            html! {
                @if is_checked { (tail(app, id, step, "Live output of the check")) }
                (ended(app, id, step, attempt, is_last))
            }
        }
    }
}

/// Renders what the agent of a running attempt says and does.
fn live(app: &AppState, id: &str, step: &StepView, attempt: &AttemptView) -> Markup {
    let found = find(app, id, step, attempt);
    html! {
        (tail(app, id, step, "Live output of the agent"))
        @if let Some(found) = found.filter(|found| !found.entries.is_empty()) {
            p { a href=(address(id, step.number, found.attempt.number)) { "Transcript so far" } }
        }
    }
}

/// Returns whether the agent has ended and its work is being checked, or waits for that.
fn is_under_check(step: &StepView) -> bool {
    let is_last_over = step.attempts.last().is_some_and(|last| last.ended.is_some());
    step.state == "in_progress" && is_last_over
}

/// Renders the last lines of the agent or the check that runs; `assets/live.js` keeps them up to date.
fn tail(app: &AppState, id: &str, step: &StepView, title: &str) -> Markup {
    let output = app.overview.output(&PlanId(id.to_owned()), StepNumber(step.number));
    let url = format!("/plans/{}/steps/{}/output", segment(id).0, step.number);
    html! {
        div class="actions" {
            h4 { (title) }
            label class="inline scripted" data-search="" { input id="follow" type="checkbox" checked; " Follow the end" }
            input id="find" type="search" placeholder="Only lines with …" aria-label="Only lines with" autocomplete="off" class="scripted" data-search="";
        }
        pre id="output" class="output tall" tabindex="0" role="region" aria-label=(title) data-output=(url) {
            @match output { Some(output) => (lines(&output)), None => "Nothing yet." }
        }
    }
}

/// Renders the transcript of an attempt that has ended, or the last part of it.
fn ended(app: &AppState, id: &str, step: &StepView, attempt: &AttemptView, whole: bool) -> Markup {
    let link = html! { a href=(address(id, step.number, attempt.number)) { "Whole transcript" } };
    if !whole {
        return html! { p class="quiet" { (link) } };
    }
    let Some(found) = find(app, id, step, attempt) else { return html! {} };
    let left_out = found.entries.len().saturating_sub(LAST);
    html! {
        details id={ "transcript-" (attempt.number) } {
            summary { "Transcript" }
            p class="quiet" { (link) @if left_out > 0 { "; these are its last " (LAST) " entries" } }
            (entries(&found.entries[left_out..], found.note))
        }
    }
}

fn find(app: &AppState, id: &str, step: &StepView, attempt: &AttemptView) -> Option<AttemptTranscript> {
    transcript_of(&app.overview, id, step.number, Some(attempt.number)).ok()
}

fn address(id: &str, step: u32, attempt: u32) -> String {
    format!("/plans/{}/steps/{step}/transcript?attempt={attempt}", segment(id).0)
}

fn entries(all: &[TranscriptEntry], note: Option<&str>) -> Markup {
    html! {
        @if let Some(note) = note { p class="quiet" { (T(note)) } }
        @for entry in all {
            @let text = render::transcript::text(std::slice::from_ref(entry));
            @match entry {
                TranscriptEntry::Text { text } => pre { (T(text)) },
                TranscriptEntry::ToolCall { name, summary, arguments, .. } => {
                    details class="call" {
                        summary { strong { (T(name)) } " " code { (T(summary)) } }
                        @if !arguments.is_null() {
                            pre { (T(&serde_json::to_string_pretty(arguments).unwrap_or_default())) }
                        }
                    }
                }
                TranscriptEntry::ToolResult { ok, .. } => {
                    pre class=[(!ok).then_some("bad")] { (T(&text)) }
                }
                TranscriptEntry::Usage(_) | TranscriptEntry::Omitted { .. } => p class="quiet" { (T(&text)) },
            }
        }
    }
}
