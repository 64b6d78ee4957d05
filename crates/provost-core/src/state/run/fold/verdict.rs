//! Applies verdicts and passes, and records on which tree each check held.

use super::CONFIRMED;
use crate::model::approved_spec;
use crate::model::event::CheckSubject;
use crate::model::pass::Pass;
use crate::model::plan::{Check, StepNumber};
use crate::model::verdict::{Excerpt, Verdict};
use crate::state::run::{PostState, Run, Stage, StepState};

impl Run {
    pub(super) fn judged(&mut self, subject: CheckSubject, verdict: &Verdict) {
        match subject {
            CheckSubject::Precondition(number) => {
                let known = self.remembered(verdict);
                if let Some(step) = self.step_mut(number) {
                    step.precondition_held = verdict.held();
                    step.verdict = Some(known);
                }
            }
            CheckSubject::Control(number) => {
                let is_result = verdict.outcome.is_result();
                if let Some(step) = self.step_mut(number).filter(|_| is_result) {
                    step.held_before = Some(verdict.held());
                    step.tests_before = verdict.tests;
                    step.looked_at_before = verdict.tree_id().map(str::to_owned);
                    step.runners_before = verdict.runners.clone();
                }
            }
            CheckSubject::Contract(number) => {
                let held_apart = verdict.held() && self.is_behind(verdict);
                let known = self.remembered(verdict);
                if let Some(step) = self.step_mut(number) {
                    step.verdict = Some(known);
                    step.held_apart = held_apart;
                }
            }
            CheckSubject::Final(number) => {
                let round = self.final_round;
                let known = self.remembered(verdict);
                if let Some(step) = self.step_mut(number) {
                    if verdict.held() {
                        step.finally = Some(round);
                    } else {
                        step.verdict = Some(known);
                    }
                }
                self.seen_finally(subject, verdict);
                while self.final_from < self.steps.len()
                    && self.is_final(StepNumber(self.final_from as u32 + 1))
                {
                    self.final_from += 1;
                }
            }
            CheckSubject::Postcondition(number) => {
                let index = (number as usize).wrapping_sub(1);
                let known = self.remembered(verdict);
                if let Some(post) = self.postconditions.get_mut(index) {
                    *post = if verdict.held() {
                        PostState::Held(Box::new(known))
                    } else {
                        PostState::Broke(Box::new(known))
                    };
                }
                self.seen_finally(subject, verdict);
            }
        }
    }

    pub(super) fn step_passed(
        &mut self,
        number: StepNumber,
        tree: Option<&str>,
        pass: Option<Pass>,
        result: &str,
    ) {
        self.at_work.remove(&number);
        self.set_state(number, StepState::Passed);
        let pass = pass.unwrap_or_else(|| self.pass_in_old_log(number, result));
        if let Some(step) = self.step_mut(number) {
            step.pass = Some(pass);
            (step.ended, step.fingerprint, step.wait, step.session) = (None, None, None, None);
        }
        self.require_final_checks();
        // The tree of a step beside others lacks what a person has confirmed or waived meanwhile.
        let is_beside = self.settle_work(number);
        self.unseen_work = tree.is_none() || is_beside && self.unseen_work;
        tree.iter().for_each(|tree| self.note_passed(tree));
        if tree.is_some() && tree != self.tree.as_deref() {
            self.tree = tree.map(str::to_owned);
            self.held_on_tree.clear();
        }
        self.remember_held(CheckSubject::Contract(number));
    }

    pub(super) fn step_waived(&mut self, number: StepNumber, by: &str) {
        self.set_state(number, StepState::Waived { by: by.to_owned() });
        self.forget_work(number);
        self.unseen_work = true;
    }

    /// Derives the kind of a pass for older logs, which do not record it.
    fn pass_in_old_log(&self, number: StepNumber, result: &str) -> Pass {
        if result.starts_with(CONFIRMED) {
            return Pass::Confirmed;
        }
        self.pass_by(number, self.step(number).and_then(|step| step.verdict.as_ref()))
    }

    /// Requires all final checks again, because the tree that they held on is not the last one any more.
    pub(super) fn require_final_checks(&mut self) {
        self.final_round += 1;
        self.final_from = 0;
    }

    /// Requires all final checks again, on the workspace: a repair changes it.
    fn look_at_all_anew(&mut self) {
        self.unseen_work = true;
        self.require_final_checks();
    }

    /// Opens all postconditions again, because a person may have repaired something by hand.
    pub(super) fn reopen(&mut self) {
        for post in &mut self.postconditions {
            *post = PostState::Open;
        }
        self.look_at_all_anew();
    }

    /// Opens the postconditions again if the agent of a session continued after one broke.
    pub(super) fn look_again(&mut self) {
        let broke = self.postconditions.iter().any(|state| matches!(state, PostState::Broke(_)));
        if broke && self.stage == Stage::InProgress {
            self.reopen();
        }
    }

    /// Makes the tree of a held final check the current tree.
    fn seen_finally(&mut self, subject: CheckSubject, verdict: &Verdict) {
        let Some(tree) = verdict.tree_id().filter(|_| verdict.held()) else { return };
        self.unseen_work = false;
        self.note_passed(tree);
        if self.tree.as_deref() != Some(tree) {
            self.tree = Some(tree.to_owned());
            self.held_on_tree.clear();
        }
        self.remember_held(subject);
    }

    fn remember_held(&mut self, subject: CheckSubject) {
        let contract = match subject {
            CheckSubject::Contract(number) | CheckSubject::Final(number) => {
                self.plan.step(number).and_then(|step| step.contract.as_ref())
            }
            CheckSubject::Postcondition(number) => {
                let found = self.plan.postconditions.iter().find(|post| post.number == number);
                found.and_then(|post| post.contract.as_ref())
            }
            CheckSubject::Precondition(_) | CheckSubject::Control(_) => None,
        };
        if let (Some(Check::Shell(shell)), true) =
            (contract.map(|contract| &contract.check), self.tree.is_some())
        {
            self.held_on_tree.push(approved_spec::check_digest(shell));
        }
    }

    /// Drops the output of a held check, which no later prompt needs. Verdicts with the same environment share it.
    fn remembered(&mut self, verdict: &Verdict) -> Verdict {
        let mut verdict = match verdict.held() {
            true => Verdict { stdout: Excerpt::default(), stderr: Excerpt::default(), ..verdict.clone() },
            false => verdict.clone(),
        };
        if verdict.environment.is_some() {
            if self.environment != verdict.environment {
                self.environment.clone_from(&verdict.environment);
            }
            verdict.environment.clone_from(&self.environment);
        }
        verdict
    }
}
