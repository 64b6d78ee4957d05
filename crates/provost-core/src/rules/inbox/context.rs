//! Collects the context of an item: what was tried since the last reset, and the last output.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{DecisionKind, WaitingItem};
use crate::model::event::{AttemptEnd, EndedAttempt, Event, FailureClass};
use crate::model::timestamp::Timestamp;
use crate::model::verdict::Verdict;
use crate::rules::recover::last_words;
use crate::state::run::{PostState, Run};

/// Maximum number of bytes of the last output in an item.
const OUTPUT_BYTES: usize = 4096;

/// Earlier tries, and the last output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ItemContext {
    pub tried: Vec<FailedTry>,
    /// The last output of the check, or the agent's last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The end of the agent's report, if the agent did not end well and `output` is not it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The agent's claim. It decides nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The files that the attempt changed, one line each, if a person confirms the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The changes in the form of `diff -u`; a long one is cut and says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Things to configure outside of the run: names, never values.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub configure: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// One failure, and what followed from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedTry {
    pub attempt: u32,
    pub at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The end of the agent, if it did not end well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The line of the agent's report that says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<String>,
}

pub(super) fn context(run: &Run, waiting: &WaitingItem, events: &[(u64, Timestamp, Event)]) -> ItemContext {
    let Some(step) = waiting.step.and_then(|number| run.step(number)) else {
        let broke = run.postconditions().find_map(|(_, state)| match state {
            PostState::Broke(verdict) if waiting.kind == DecisionKind::Postcondition => {
                Some(printed(verdict))
            }
            _ => None,
        });
        let revision = matches!(waiting.kind, DecisionKind::Approval | DecisionKind::Question)
            .then(|| run.revision.0.clone());
        return ItemContext { output: broke.flatten(), revision, ..ItemContext::default() };
    };
    let configure = events.iter().filter_map(|(_, _, event)| match event {
        Event::PermissionRequired { configure, .. } if waiting.kind != DecisionKind::Confirmation => {
            Some(configure)
        }
        _ => None,
    });
    let last_words = || step.ended.as_ref().map(|(_, said)| said.clone()).filter(|said| !said.is_empty());
    let failed = step.verdict.as_ref().filter(|verdict| !verdict.held());
    let printed = failed.and_then(printed);
    ItemContext {
        tried: tried(events),
        said: last_words().filter(|_| printed.is_some()).map(|text| end_of(&text)),
        output: printed.or_else(last_words).map(|text| end_of(&text)),
        claim: step.claim.clone(),
        configure: configure.flatten().cloned().collect(),
        revision: None,
        ..ItemContext::default()
    }
}

/// Returns both streams and provost's own objections.
fn printed(verdict: &Verdict) -> Option<String> {
    let parts = [verdict.stdout.to_string(), verdict.stderr.to_string(), verdict.unmet.join("\n")];
    let text = parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect::<Vec<_>>();
    (!text.is_empty()).then(|| end_of(&text.join("\n")))
}

/// Keeps the end of a text, where the reason usually is.
fn end_of(text: &str) -> String {
    let mut from = text.len().saturating_sub(OUTPUT_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if from == 0 { text.to_owned() } else { format!("[…]\n{}", &text[from..]) }
}

fn tried(events: &[(u64, Timestamp, Event)]) -> Vec<FailedTry> {
    let mut all: Vec<FailedTry> = Vec::new();
    let fresh = |attempt, at| FailedTry {
        attempt,
        at,
        by: None,
        ended: None,
        said: None,
        failure: None,
        class: None,
        rule: None,
        recipe: None,
        followed: None,
    };
    for (_, at, event) in events {
        match event {
            Event::StepStarted { attempt, target, .. } => {
                all.push(FailedTry { by: Some(target.clone()), ..fresh(*attempt, *at) });
            }
            Event::FailureDetected { attempt, error_message, .. } => {
                // The check was repeated and the same attempt failed again.
                let open = all.last().is_some_and(|last| last.attempt == *attempt && last.failure.is_none());
                if !open {
                    all.push(fresh(*attempt, *at));
                }
                if let Some(last) = all.last_mut() {
                    last.failure = Some(error_message.clone());
                }
            }
            Event::AttemptEnded(EndedAttempt { end, report, .. })
                if *end != (AttemptEnd::Exited { exit_code: 0 }) =>
            {
                if let Some(last) = all.last_mut() {
                    (last.ended, last.said) = (Some(end.words()), last_words::of(report));
                }
            }
            Event::AttemptLost { .. } => {
                if let Some(last) = all.last_mut() {
                    last.ended = Some("provost was interrupted".to_owned());
                }
            }
            Event::FailureClassified { failure_type, rule, .. } => {
                if let Some(last) = all.last_mut() {
                    (last.class, last.rule) = (Some(*failure_type), Some(rule.clone()));
                }
            }
            Event::RecoveryApplied { recipe_name, outcome, .. } => {
                if let Some(last) = all.last_mut() {
                    (last.recipe, last.followed) = (Some(recipe_name.clone()), Some(outcome.clone()));
                }
            }
            _ => {}
        }
    }
    all
}
