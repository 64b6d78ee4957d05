//! Lists every revision of a plan in the log.

use crate::plan::{queries, recording};
use std::ops::ControlFlow;

use provost_core::language::{parse, patch};
use provost_core::model::approved_spec::{self, Binding, Law};
use provost_core::model::event::{Event, Revision};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::Refusal;
use provost_core::state::run::{Run, StepState};
use provost_store::Query;

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::reading::BoundPlan;

const LAWS: [&str; 5] =
    ["PLAN_CREATED", "PLAN_REWRITTEN", "GATE_APPROVED", "GATE_REJECTED", "GATE_QUESTION_ASKED"];

/// A revision of the plan, approved or not.
#[derive(Clone, Debug)]
pub struct Version {
    pub revision: Revision,
    pub text: String,
    pub binding: Binding,
    /// Its event and time in the log; `None` for the current file.
    pub seq: Option<u64>,
    pub at: Option<Timestamp>,
    pub approved_by: Option<String>,
    /// Changes from the revision before.
    pub changes: Vec<String>,
}

/// Returns all revisions in the log, oldest first.
pub fn versions(harness: &Harness) -> Result<Vec<Version>, Error> {
    let names = LAWS.map(str::to_owned).to_vec();
    let mut versions: Vec<Version> = Vec::new();
    // Approvers of the latest revision, cleared by a question or a rejection.
    let mut asked: Vec<String> = Vec::new();
    let mut unread = Ok(());
    queries::each(harness, &Query { names, ..Query::plan(harness.id()) }, &mut |sealed| {
        let (changes, event) = match sealed.event() {
            Ok(Event::PlanRewritten { ref changes, .. }) => (changes.clone(), sealed.event()),
            event => (Vec::new(), event),
        };
        let is_yes = matches!(event, Ok(Event::Approved { .. }));
        if !is_yes {
            asked.clear();
        }
        match event {
            Ok(
                Event::PlanCreated { text, revision, base, files, terms, included, .. }
                | Event::PlanRewritten { text, revision, base, files, terms, included, .. },
            ) => versions.push(Version {
                revision,
                text,
                binding: Binding { base, files, terms, included },
                seq: Some(sealed.seq),
                at: Some(sealed.at),
                approved_by: None,
                changes,
            }),
            Ok(Event::Approved { revision, by, missing, .. }) => {
                asked.push(by.to_string());
                let named = versions.iter_mut().rev().find(|version| version.revision == revision);
                let enough = named.filter(|_| missing == 0);
                enough.into_iter().for_each(|version| version.approved_by = Some(asked.join(", ")));
            }
            Ok(_) => {}
            Err(error) => unread = Err(error),
        }
        if unread.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    unread?;
    Ok(versions)
}

/// Returns a revision by name: `now` is the file, `approved` the last approved revision; anything else is
/// the prefix of a revision.
pub fn version(harness: &Harness, word: &str) -> Result<Version, Error> {
    if word == "now" {
        let BoundPlan { text, binding, revision, .. } = recording::read(harness)?;
        let (seq, at, approved_by, changes) = (None, None, None, Vec::new());
        return Ok(Version { revision, text, binding, seq, at, approved_by, changes });
    }
    let versions = versions(harness)?;
    let is_it = |version: &&Version| match word {
        "approved" => version.approved_by.is_some(),
        start => !start.is_empty() && version.revision.0.starts_with(start),
    };
    let mut found: Vec<&Version> = versions.iter().filter(is_it).collect();
    let revisions: std::collections::BTreeSet<&str> =
        found.iter().map(|version| version.revision.0.as_str()).collect();
    match found.pop() {
        Some(version) if word == "approved" || revisions.len() == 1 => Ok(version.clone()),
        _ if word == "approved" => Err(Refusal::NeverApproved.into()),
        _ => {
            let known = versions.iter().map(|version| version.revision.short().to_owned()).collect();
            Err(Refusal::NoSuchRevision { asked: word.to_owned(), known }.into())
        }
    }
}

/// Returns the text with the steps from `first` on replaced; refuses if the patch changes a step that has
/// run.
pub fn patched(
    harness: &Harness,
    before: &BoundPlan,
    first: StepNumber,
    patch: &str,
) -> Result<String, Error> {
    if !patch.lines().any(|line| line.starts_with("### ")) {
        return Err(Refusal::Empty { what: "which steps come instead, each under its `###`" }.into());
    }
    let text = patch::from(&before.text, &before.plan, first, patch);
    let run = harness.run()?;
    let plan = parse::plan(&text).plan;
    let old = Law { text: &run.text, plan: &run.plan, binding: None };
    let new = Law { text: &text, plan: &plan, binding: None };
    let hit = patch::rewritten(old, new, |number| number < first || has_run(&run, number));
    match hit.first() {
        Some(step) if has_run(&run, step.number) => {
            Err(Refusal::HasRun { step: step.number, title: step.title.clone() }.into())
        }
        Some(step) => Err(Refusal::BeforePatch { step: step.number, first }.into()),
        None => Ok(text),
    }
}

/// Returns whether the step has passed, was waived, or is being worked on.
fn has_run(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| match step.state {
        StepState::Passed
        | StepState::Waived { .. }
        | StepState::Running { .. }
        | StepState::Ended { .. } => true,
        StepState::Pending | StepState::Failed | StepState::Blocked { .. } => false,
    })
}

/// Returns what changed between two revisions, in steps and contracts.
pub fn diff(old: &Version, new: &Version) -> Vec<String> {
    let (before, after) = (parse::plan(&old.text).plan, parse::plan(&new.text).plan);
    approved_spec::diff(
        Law { text: &old.text, plan: &before, binding: Some(&old.binding) },
        Law { text: &new.text, plan: &after, binding: Some(&new.binding) },
    )
}
