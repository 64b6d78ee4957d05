//! Applies new revisions of the plan, and the answers of its approvers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::language::{named_checks, parse};
use crate::model::approved_spec::{self, Binding};
use crate::model::check_author::CheckAuthor;
use crate::model::event::{Approver, Event, Revision, SESSION_POLICY};
use crate::model::plan::{Budget, Plan, Shell, Step, StepNumber};
use crate::state::run::area::Areas;
use crate::state::run::ready::ReadySteps;
use crate::state::run::{PostState, Run, Stage, StepQuestion, StepRun};

impl Run {
    /// Takes a new text of the plan, with what it is bound to.
    pub(super) fn take_text(&mut self, event: &Event) {
        let (Event::PlanCreated { text, revision, base, files, terms, included, author, checks_by, .. }
        | Event::PlanRewritten {
            text, revision, base, files, terms, included, author, checks_by, ..
        }) = event
        else {
            return;
        };
        self.author.clone_from(author);
        let (base, files, included) = (base.clone(), files.clone(), included.clone());
        let binding = Binding { base, files, terms: terms.clone(), included };
        self.take_law(text, revision, binding, checks_by);
    }

    /// Takes a new spec. Steps whose own text and named checks are unchanged keep their results.
    fn take_law(&mut self, text: &str, revision: &Revision, binding: Binding, by: &CheckAuthor) {
        let mut plan = parse::plan(text).plan;
        named_checks::apply(&mut plan, &binding.terms.checks);
        self.check_authors = authors(&self.check_authors, &self.plan, &plan, by);
        self.ledger.new_law(|scope| written(&self.plan, scope) != written(&plan, scope));
        let before = std::mem::take(&mut self.steps);
        self.steps = plan
            .steps
            .iter()
            .map(|step| {
                let digest = approved_spec::results_digest(text, step);
                let index = (step.number.0 as usize).wrapping_sub(1);
                match before.get(index) {
                    Some(known) if known.digest == digest => known.under_new_law(),
                    // Attempts are not counted from zero, so that a late report of an old attempt matches no
                    // new one.
                    Some(known) => StepRun { attempts: known.attempts, ..StepRun::new(digest) },
                    None => StepRun::new(digest),
                }
            })
            .collect();
        self.postconditions = vec![PostState::Open; plan.postconditions.len()];
        self.law = Some(approved_spec::digest(text, &plan));
        self.text = text.to_owned();
        self.hides = plan.steps.iter().any(Step::is_hidden);
        self.has_areas = plan.steps.iter().any(|step| step.touches.is_some());
        self.plan = Arc::new(plan);
        self.revision = revision.clone();
        // Trees and checks that are based on another commit say nothing about this one.
        if self.binding.base != binding.base {
            self.forget_sent();
            self.began_with = None;
            for step in self.steps.iter_mut().filter(|step| !step.state.is_settled()) {
                (step.held_before, step.tests_before, step.looked_at_before) = (None, None, None);
            }
        }
        self.binding = binding;
        // The newly approved base applies; the results of passed steps are imported from the workspace.
        self.tree = None;
        self.held_on_tree.clear();
        self.require_final_checks();
        self.question = None;
        self.law_changed = None;
        self.given_up = false;
        self.landed = None;
        self.withdraw();
        self.ready = ReadySteps::new(&self.plan, &self.steps);
        self.areas = Areas::default();
    }

    /// Records an approval; `missing` others are still required.
    pub(super) fn approved(&mut self, by: &Approver, missing: u32) {
        self.approvals.push(by.clone());
        if missing > 0 {
            // Each approver relied on the other approvals that the quorum requires.
            self.held_to = Some(self.quorum());
            return;
        }
        self.held_to = Some(self.binding.terms.quorum);
        self.approved = Some(self.binding.clone());
        // The approver was shown these changes.
        self.outside.clear();
        self.stage = if self.started() { Stage::InProgress } else { Stage::Approved };
        self.approved_by = Some(by.clone());
        (self.checks_unread, self.trusted_checks) = match by {
            Approver::Person(_) => (false, Vec::new()),
            // The agent may have answered the dialog itself.
            Approver::Dialog { .. } => (true, Vec::new()),
            Approver::Policy { name, unread, trusted, .. } => {
                (*unread || name == SESSION_POLICY, trusted.clone())
            }
        };
        self.question = None;
        self.rejection = None;
    }

    pub(super) fn rejected(&mut self, revision: &Revision, reason: &str) {
        self.rejection = Some((revision.clone(), reason.to_owned()));
        self.withdraw();
    }

    pub(super) fn question_asked(
        &mut self,
        revision: &Revision,
        question: &str,
        by: &str,
        step: Option<StepNumber>,
    ) {
        self.question = Some(match step {
            Some(step) => format!("step {step}: {question}"),
            None => question.to_owned(),
        });
        self.step_questions.extend(step.map(|step| StepQuestion {
            step,
            question: question.to_owned(),
            by: by.to_owned(),
            revision: revision.clone(),
        }));
        self.stage = self.stage.min(Stage::Verified);
        self.approved_by = None;
        self.approvals.clear();
    }

    pub(super) fn withdraw(&mut self) {
        self.stage = Stage::Draft;
        self.approved_by = None;
        self.approvals.clear();
        self.requested = None;
    }
}

/// Returns the authors of the checks of a new plan that no person wrote, by their digests. A check that was there
/// before keeps its author.
fn authors(
    known: &BTreeMap<String, CheckAuthor>,
    before: &Plan,
    plan: &Plan,
    by: &CheckAuthor,
) -> BTreeMap<String, CheckAuthor> {
    let digest = |shell: &Shell| approved_spec::check_digest(shell).to_string();
    let old: BTreeSet<String> = before.shells().map(digest).collect();
    let author = |digest: String| {
        let author = if old.contains(&digest) { known.get(&digest)? } else { by };
        (!author.is_person()).then(|| (digest, author.clone()))
    };
    plan.shells().map(digest).filter_map(author).collect()
}

/// Returns the written budget of a plan, or of one of its steps.
fn written(plan: &Plan, scope: Option<StepNumber>) -> Option<Budget> {
    let budget = match scope {
        None => plan.budget.as_ref(),
        Some(number) => plan.step(number).and_then(|step| step.budget.as_ref()),
    };
    budget.map(|budget| budget.value)
}
