//! One step: every attempt with what the agent said against what the harness saw, and what it changed.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_engine::overview::{Attempt, Changed, Content, Seen};

use super::layout::{Page, PlanRoom, Room, plan_rooms, segment, word};
use super::parts::{self, check, difference, verdict};
use super::text::T;
use crate::api::find;
use crate::http::{Answer, House, Problem, Segment, Shared, Viewer, ask};
use crate::view::{Plan, Step, diff};

pub async fn show(
    State(house): State<Shared>,
    Viewer(visitor): Viewer,
    Segment((id, number)): Segment<(String, u32)>,
) -> Answer<Response> {
    ask(&house, move |house| {
        let after = house.overview.cursor()?.0;
        let seen = find(&house.overview, &id)?;
        let attempts = house.overview.attempts(&seen.id)?;
        let plan = Plan::of(&seen, &attempts, Vec::new());
        let step = plan.steps.iter().find(|step| step.number == number);
        let step = step.ok_or_else(|| Problem::unknown(format!("the plan has no step {number}")))?;
        let own: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.step.0 == number).collect();
        let body = html! {
            h1 { (step.number) ". " (T(&step.title)) }
            (plan_rooms(&id, PlanRoom::Elsewhere))
            (body(&plan, step))
            (changed(house, &seen, &own))
        };
        let live = Some(format!("plan={}&task={number}", segment(&id).0));
        let page = Page { title: format!("{number}. {}", step.title), room: Room::Elsewhere, live, body };
        Ok(page.shown(house, &visitor, after))
    })
    .await
}

fn body(plan: &Plan, step: &Step) -> Markup {
    html! {
        p {
            (word(&step.state)) " of "
            a href={ "/plans/" (segment(&plan.card.id)) "#step-" (step.number) } { (T(&plan.card.title)) }
            @if let Some(target) = &step.target { " · " (T(target)) }
        }
        @if let Some(reason) = &step.blocked { p class="bad" { (T(reason)) } }
        @if let Some(by) = &step.waived_by { p class="wait" { "Waived by " (T(by)) "; it has not passed." } }
        @if let Some(task) = &step.task { h2 { "Task" } pre { (T(task)) } }
        @if step.contract.is_some() || step.precondition.is_some() { h2 { "Contract" } }
        @if let Some(contract) = &step.precondition { (check("Precondition", contract)) }
        @if let Some(contract) = &step.contract { (check("Contract", contract)) }
        @if step.hidden { p class="quiet" { "Agents are not shown the contract." } }
        p class="quiet" { "On failure: " (T(&step.on_fail)) }
        h2 { "Attempts" }
        @if step.attempts.is_empty() {
            p class="quiet" { "It has not been tried." }
            @if let Some(seen) = &step.verdict { (verdict(seen)) }
        }
        @for each in step.attempts.iter().rev() { (parts::attempt(each)) }
    }
}

/// What the harness took over from the last attempt that it judged.
fn changed(house: &House, seen: &Seen, attempts: &[&Attempt]) -> Markup {
    let judged = attempts.iter().rev().flat_map(|attempt| attempt.verdicts.iter().rev());
    let Some(tree) =
        judged.filter_map(|judged| judged.verdict.tree.as_ref()).find(|tree| tree.base != tree.id)
    else {
        return html! {};
    };
    let kept = house.overview.snapshot(seen, tree);
    html! {
        h2 id="changed" { "What it changed" }
        p class="quiet" { "Tree " code { (short(&tree.id)) } " on " code { (short(&tree.base)) } ", as the check saw it." }
        @match kept {
            Ok(Some(files)) => {
                @if files.is_empty() { p { "Nothing." } }
                @for file in &files { (one(file)) }
            }
            Ok(None) => {
                p { "Only trees on which a contract held are kept; of this one there are the names:" }
                ul { @for file in &tree.files { li { code { (T(file)) } } } }
            }
            Err(error) => p class="wait" { "It cannot be looked at: " (T(&error.to_string())) }
        }
    }
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

fn one(file: &Changed) -> Markup {
    let text = |content: &Content| match content {
        Content::Nothing => Some(String::new()),
        Content::Text(text) => Some(text.clone()),
        Content::Other { .. } => None,
    };
    let what = match (&file.before, &file.after) {
        (Content::Nothing, _) => "new",
        (_, Content::Nothing) => "deleted",
        _ => "changed",
    };
    let size = |content: &Content| match content {
        Content::Nothing => 0,
        Content::Text(text) => text.len() as u64,
        Content::Other { bytes } => *bytes,
    };
    html! {
        section class="sheet" {
            header { h3 { code { (T(&file.path)) } } (word(what)) }
            @match (text(&file.before), text(&file.after)) {
                (Some(before), Some(after)) if before == after => p class="quiet" { "It holds nothing, or the same as before." }
                (Some(before), Some(after)) => (difference(&diff::lines(&before, &after))),
                _ => p class="quiet" {
                    "No text, or too long to be shown: " (size(&file.before)) " bytes before, " (size(&file.after)) " after."
                }
            }
        }
    }
}
