//! One plan: its steps with what was tried, claimed and seen, and its text.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::layout::{Page, Room, instant, segment, word};
use super::text::T;
use crate::api::plan_of;
use crate::http::{Answer, Segment, Shared, Viewer, ask};
use crate::view::{Attempt, Check, Plan, Post, Step, Verdict};

pub async fn show(
    State(house): State<Shared>,
    Viewer(visitor): Viewer,
    Segment(id): Segment<String>,
) -> Answer<Response> {
    ask(&house, move |house| {
        let after = house.overview.cursor()?.0;
        let plan = plan_of(&house.overview, &id)?;
        let live = Some(format!("plan={}", segment(&id).0));
        let page = Page { title: plan.card.title.clone(), room: Room::Elsewhere, live, body: body(&plan) };
        Ok(page.shown(house, &visitor, after))
    })
    .await
}

fn body(plan: &Plan) -> Markup {
    let card = &plan.card;
    html! {
        h1 { (T(&card.title)) }
        p {
            (word(&card.stage)) " " (card.done) "/" (card.total) " steps"
            @if !card.cost.words().is_empty() { " · " (T(&card.cost.words())) }
            " · moved " (instant(&card.moved))
        }
        p {
            a href={ "/plans/" (segment(&card.id)) "/gate" } { "The gate" } " · "
            a href={ "/log?plan=" (segment(&card.id)) } { "Its log" }
        }
        @if let Some(trouble) = &card.trouble { p class="bad" { (T(trouble)) } }
        @if let Some(question) = &plan.question { p class="wait" { "A question is open: " (T(question)) } }
        @for item in &plan.waiting_items {
            p class="wait" { "Waits for a person: " (T(&item.reason)) " · " a href="/inbox" { "answer" } }
        }
        dl {
            dt { "Revision" } dd { code { (T(&card.revision)) } }
            @if let Some(by) = &card.approved_by { dt { "Approved by" } dd { (T(by)) } }
            dt { "Touches" }
            dd {
                @match &plan.touches {
                    Some(globs) => { (T(&globs.join(", "))) }
                    None => "not declared: the agent could edit its own checks",
                }
            }
            @for line in &plan.terms { dt { "Term" } dd { (T(line)) } }
        }
        h2 { "Steps" }
        @for each in &plan.steps { (step(each)) }
        @if !plan.postconditions.is_empty() {
            h2 { "Postconditions" }
            @for each in &plan.postconditions { (post(each)) }
        }
        h2 { "Text" }
        details id="text" { summary { "The plan as the log holds it" } pre { (T(&plan.text)) } }
    }
}

fn step(step: &Step) -> Markup {
    html! {
        section class="sheet" id={ "step-" (step.number) } {
            header {
                h3 { (step.number) ". " (T(&step.title)) }
                (word(&step.state))
                @if let Some(target) = &step.target { span class="quiet" { (T(target)) } }
                @if !step.needs.is_empty() {
                    span class="quiet" { "after " @for need in &step.needs { a href={ "#step-" (need) } { (need) } " " } }
                }
            }
            @if let Some(reason) = &step.blocked { p class="bad" { (T(reason)) } }
            @if let Some(by) = &step.waived_by { p class="wait" { "Waived by " (T(by)) "; it has not passed." } }
            @if let Some(until) = &step.not_before { p class="wait" { "Not tried again before " (instant(until)) } }
            @if let Some(task) = &step.task { pre { (T(task)) } }
            @if let Some(contract) = &step.contract { (check("Contract", contract)) }
            @if step.hidden { p class="quiet" { "Agents are not shown the contract." } }
            @if let Some(claim) = &step.claim {
                details id={ "claim-" (step.number) } { summary { "What the agent says (it decides nothing)" } pre { (T(claim)) } }
            }
            @if let Some(seen) = &step.verdict { (verdict(seen)) }
            @if !step.attempts.is_empty() {
                details id={ "attempts-" (step.number) } {
                    summary { (step.attempts.len()) @if step.attempts.len() == 1 { " attempt" } @else { " attempts" } }
                    @for each in &step.attempts { (attempt(each)) }
                }
            }
        }
    }
}

pub fn check(name: &str, check: &Check) -> Markup {
    html! {
        p class="quiet" {
            (name)
            @match check.kind.as_str() {
                "human" => ": a person confirms it",
                "judge" => ": a model judges by this rubric, the weaker kind",
                _ => ": the harness runs this",
            }
        }
        @if let Some(text) = &check.text { pre { (T(text)) @for line in &check.expectations { "\n" (T(line)) } } }
    }
}

fn attempt(attempt: &Attempt) -> Markup {
    html! {
        div class="sheet" {
            header {
                h3 { "Attempt " (attempt.number) }
                @if attempt.passed { (word("passed")) }
                span class="quiet" { (T(&attempt.target)) " · " (instant(&attempt.begun)) }
                @if let Some(ms) = attempt.duration_ms { span class="quiet" { (seconds(ms)) } }
                @if let Some(end) = &attempt.end { span class="quiet" { (T(end)) } } @else { (word("in_progress")) }
            }
            @for claim in &attempt.claims { p class="quiet" { "It claims:" } pre { (T(claim)) } }
            @if !attempt.report.is_empty() { p class="quiet" { "Its last words:" } pre { (T(&attempt.report)) } }
            @for note in &attempt.notes { p class="quiet" { (T(note)) } }
            @for seen in &attempt.verdicts { (verdict(seen)) }
            @if let Some(failure) = &attempt.failure {
                p { "Failure" @if let Some(class) = &attempt.class { " (" (T(class)) ")" } ": " (T(failure)) }
            }
            @for line in &attempt.followed { p { "Then: " (T(line)) } }
        }
    }
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}

pub fn verdict(verdict: &Verdict) -> Markup {
    html! {
        p {
            (word(&verdict.outcome)) " "
            @if let Some(subject) = &verdict.subject { (T(subject)) ": " }
            (T(&verdict.words)) " "
            span class="quiet" {
                "at " (T(&verdict.isolation)) ", " (seconds(verdict.duration_ms))
                @if let Some(tests) = verdict.tests { ", " (tests) " tests" }
                @if let Some(by) = &verdict.judged_by { ", " (T(by)) }
            }
        }
        @for line in &verdict.unmet { p class="bad" { "Not met: " (T(line)) } }
        @for (name, text) in [("Output", &verdict.stdout), ("Errors", &verdict.stderr)] {
            @if !text.is_empty() { p class="quiet" { (name) } pre { (T(text)) } }
        }
        @if !verdict.files.is_empty() { p class="quiet" { "Taken over: " (T(&verdict.files.join(", "))) } }
        @for line in &verdict.refused { p class="bad" { "Not taken over: " (T(line)) } }
    }
}

fn post(post: &Post) -> Markup {
    html! {
        section class="sheet" {
            header { h3 { (post.number) ". " (T(&post.description)) } (word(&post.state)) }
            @if let Some(contract) = &post.contract { (check("Contract", contract)) }
            @if let Some(seen) = &post.verdict { (verdict(seen)) }
        }
    }
}
