//! The page of one step: every attempt with the agent's words against provost's verdicts, and what it
//! changed.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_core::model::plan::StepNumber;
use provost_core::model::proof_map::{HunkMark, LineChange, ProofMap};
use provost_core::rules::command::Refusal;
use provost_engine::Error;
use provost_engine::exec::proof_map;
use provost_engine::observe::overview::PlanSnapshot;
use provost_engine::plan::human_check::Who;
use provost_engine::plan::step_changes::{self, FileComparison};
use provost_engine::settings::Access;

use super::frame::{HtmlPage, PlanRoom, Section, plan_rooms, segment, step_word, word};
use super::parts::{self, check, difference_with, verdict};
use super::text::T;
use super::transcript;
use crate::api::find;
use crate::layout::diff::{self, Line, Side};
use crate::principal::Viewer;
use crate::problem::{Answer, Problem};
use crate::request::Segment;
use crate::state::{AppState, SharedState, ask};
use provost_engine::observe::view::{PlanView, StepView};

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    Segment((id, number)): Segment<(String, u32)>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let seen = find(&app.overview, &id)?;
        let attempts = app.overview.attempts(&seen.id)?;
        let plan = PlanView::of(&seen, &attempts, Vec::new());
        let step = plan.steps.iter().find(|step| step.number == number);
        let step = step.ok_or_else(|| Problem::unknown(format!("the plan has no step {number}")))?;
        let body = html! {
            h1 { (step.number) ". " (T(&step.title)) }
            (plan_rooms(&id, PlanRoom::Elsewhere))
            (body(app, &plan, step))
            (changed(app, &seen, StepNumber(number)))
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
        @if let Some(task) = &step.task { h2 { "Task" } pre { (T(task)) } }
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

/// Renders the changes that provost took over from the last judged attempt.
fn changed(app: &AppState, seen: &PlanSnapshot, number: StepNumber) -> Markup {
    let Some(step) = seen.run.step(number).filter(|step| step.attempts > 0) else { return html! {} };
    let tree = step.verdict.as_ref().and_then(|verdict| verdict.tree.as_ref());
    if tree.is_none() && step.left.is_none() {
        return html! {};
    }
    let harness = app.overview.harness(seen, Access::Read, Who::Here);
    let work = harness.and_then(|harness| {
        let map = proof_map::known(&harness, number).unwrap_or_default();
        Ok((step_changes::look(&harness, number)?, map))
    });
    html! {
        h2 id="changed" { "Changes" }
        @if let Some(tree) = tree {
            p class="quiet" { "Tree " code { (short(&tree.id)) } " on " code { (short(&tree.base)) } ", as the check saw it." }
        }
        @match work {
            Ok((work, map)) => {
                @if work.files.is_empty() { p { "Nothing." } }
                @if !map.hunks.is_empty() { (shares(&map)) }
                @for file in &work.files { (one(file, &map)) }
                @if !work.others.is_empty() {
                    p { "These files had changed before the attempt began; they are not counted as its work:" }
                    ul { @for file in &work.others { li { code { (T(file)) } } } }
                }
            }
            Err(Error::Refused(Refusal::NoTree)) => {
                p { "provost no longer has this tree; these are the names of its changed files:" }
                ul { @for file in tree.iter().flat_map(|tree| &tree.files) { li { code { (T(file)) } } } }
            }
            Err(error) => p class="wait" { "provost cannot show the changes: " (T(&error.to_string())) }
        }
    }
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Says how much of the change the contract proves, and what the marks mean.
fn shares(map: &ProofMap) -> Markup {
    let signs = [HunkMark::Proved, HunkMark::Unproved, HunkMark::NotBuildable, HunkMark::NotTried];
    let meaning: Vec<String> = signs.iter().map(|mark| format!("{} {}", mark.sign(), mark.words())).collect();
    html! {
        p id="proved" { (map.share().to_string()) ", as far as " code { "provost proved" } " has found out. "
            span class="quiet" { (meaning.join(" · ")) } }
    }
}

/// Returns the mark of the hunk that each line of a diff belongs to.
fn margin<'m>(file: &'m FileComparison, map: &'m ProofMap) -> impl FnMut(&Line) -> Markup + 'm {
    // The line of the judged tree that follows.
    let mut next = 1;
    move |line| {
        let hunk = match (line.side, line.number) {
            (Side::Come, Some(number)) => map.of_line(&file.path, number, LineChange::Added),
            (Side::Gone, _) => map.of_line(&file.path, next, LineChange::Removed),
            (Side::Come | Side::Same | Side::Cut, _) => None,
        };
        if let (Side::Come | Side::Same, Some(number)) = (line.side, line.number) {
            next = number + 1;
        }
        match hunk {
            Some(hunk) => {
                let why = format!("{}: {}", hunk.mark.words(), hunk.why);
                html! { span title=(T(&why)) { (hunk.mark.sign().to_string()) } }
            }
            None if map.hunks.is_empty() => html! {},
            None => html! { " " },
        }
    }
}

fn one(file: &FileComparison, map: &ProofMap) -> Markup {
    let what = match (&file.unshown, &file.old, &file.new) {
        (None, None, Some(_)) => "new",
        (None, Some(_), None) => "deleted",
        _ => "changed",
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = diff::lines(&text(&file.old), &text(&file.new));
    html! {
        section class="sheet" {
            header { h3 { code { (T(&file.path)) } } (word(what)) }
            @if let Some(why) = file.unshown { p class="quiet" { "Not shown: " (why) "." } }
            @else if lines.is_empty() { p class="quiet" { "The file is empty or unchanged." } }
            @else { (difference_with(&lines, margin(file, map))) }
        }
    }
}
