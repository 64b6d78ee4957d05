//! Code lenses: commands above a plan and above its steps, with the last verdict.
//!
//! **Invariant:** no lens approves anything: a person types the command in a terminal.

use provost_core::language::shell_word::quoted;
use provost_core::model::approved_spec;
use provost_core::model::plan::{Check, Span};
use provost_core::state::run::{Run, Stage};
use serde_json::{Value, json};

use super::documents::Document;
use super::hover;

pub(super) const TRY: &str = "provost.try";
pub(super) const APPROVE: &str = "provost.approve";

pub(super) fn find(document: &Document, run: Option<&Run>) -> Vec<Value> {
    let plan = document.plan();
    let mut lenses = Vec::new();
    let lens = |span: Span, title: String, command: &str, arguments: Value| {
        let range = document.range(Span::at(span.start));
        json!({ "range": range, "command": { "title": title, "command": command, "arguments": arguments } })
    };
    let top = document.line_at(plan.status.as_ref().map_or(0, |status| status.span.start));
    if plan.steps.is_empty() {
        return lenses;
    }
    let is_recorded = |run: &&Run| run.law == Some(approved_spec::digest(&document.text, plan));
    let stage = run.filter(is_recorded).map_or(Stage::Draft, |run| run.stage);
    if matches!(stage, Stage::Draft | Stage::Verified) && document.path.is_some() {
        lenses.push(lens(top, "approve in a terminal".to_owned(), APPROVE, json!([document.uri])));
    }
    if let Some(run) = run {
        let (done, total) = run.progress();
        let title = format!("{}, {done} of {total} steps over", run.stage.word());
        lenses.push(lens(top, title, "", json!([])));
    }
    for step in &plan.steps {
        let line = document.line_at(step.heading.start);
        let is_command =
            step.contract.as_ref().is_some_and(|contract| matches!(contract.check, Check::Shell(_)));
        if is_command && document.path.is_some() {
            let arguments = json!([document.uri, step.number.0]);
            lenses.push(lens(line, "try the contract".to_owned(), TRY, arguments));
        }
        let known = run.and_then(|run| Some((run, hover::known(run, step)?)));
        if let Some((run, state)) = known.filter(|(_, state)| state.attempts > 0 || state.verdict.is_some()) {
            let verdict = state.verdict.as_ref().map(|verdict| format!("; last check: {}", verdict.outcome));
            let title = format!("{}{}", hover::state_of(run, step.number), verdict.unwrap_or_default());
            lenses.push(lens(line, title, "", json!([])));
        }
    }
    lenses
}

/// Returns the command that a person types to approve a plan.
pub(super) fn approval(document: &Document) -> Option<String> {
    let path = document.path.as_deref()?;
    Some(format!("provost approve {}", quoted(&path.to_string_lossy())))
}
