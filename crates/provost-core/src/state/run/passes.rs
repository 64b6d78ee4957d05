//! How strong each pass is: verified by a check that can fail, or weaker.

use super::{PostState, Run, StepState};
use crate::model::approved_spec;
use crate::model::check_author::CheckAuthor;
use crate::model::pass::{Pass, Passes};
use crate::model::plan::{Check, Contract, Step, StepNumber};
use crate::model::verdict::Verdict;

impl Run {
    /// Returns the kind of pass that a held verdict gives.
    pub fn pass_by(&self, number: StepNumber, verdict: Option<&Verdict>) -> Pass {
        let held_before = self.step(number).and_then(|step| step.held_before) == Some(true);
        match verdict {
            Some(verdict) if verdict.judged.is_some() => Pass::Judged,
            _ if self.is_self_checked(number, verdict) => Pass::SelfChecked,
            _ if held_before => Pass::HeldBefore,
            _ => Pass::Verified,
        }
    }

    /// Returns whether the agent that does the work wrote the check and no person approved it; or whether it wrote
    /// the tests, and none of them noticed when provost broke the code.
    pub fn is_self_checked(&self, number: StepNumber, verdict: Option<&Verdict>) -> bool {
        let step = self.plan.step(number);
        let contract = step.and_then(|step| step.contract.as_ref());
        let is_unread = self.checks_unread && !self.is_trusted(contract);
        let is_noticed = verdict.is_some_and(|verdict| verdict.tests_notice.is_some());
        let has_own_tests = step.is_some_and(Step::writes_tests) && !is_noticed;
        self.checked_by_command(number) && (is_unread || has_own_tests)
    }

    /// Returns who wrote the check of a step; `None` if no command checks it.
    pub fn check_author(&self, number: StepNumber) -> Option<CheckAuthor> {
        let step = self.plan.step(number)?;
        let author = self.author_of(step.contract.as_ref())?;
        Some(if step.writes_tests() { CheckAuthor::Agent } else { author })
    }

    /// Returns who wrote the check of a postcondition; `None` if no command checks it.
    pub fn post_check_author(&self, number: u32) -> Option<CheckAuthor> {
        let post = self.plan.postconditions.iter().find(|post| post.number == number)?;
        self.author_of(post.contract.as_ref())
    }

    fn author_of(&self, contract: Option<&Contract>) -> Option<CheckAuthor> {
        let Check::Shell(shell) = &contract?.check else { return None };
        let digest = approved_spec::check_digest(shell).to_string();
        // A person wrote the checks of the configuration.
        let author = self.check_authors.get(&digest).filter(|_| !self.trusted_checks.contains(&digest));
        Some(author.cloned().unwrap_or_default())
    }

    fn is_trusted(&self, contract: Option<&Contract>) -> bool {
        let Some(Check::Shell(shell)) = contract.map(|contract| &contract.check) else { return false };
        self.trusted_checks.contains(&approved_spec::check_digest(shell).to_string())
    }

    /// Returns the kind of pass; `None` if the step has not passed.
    pub fn pass(&self, number: StepNumber) -> Option<Pass> {
        let step = self.step(number).filter(|step| step.state == StepState::Passed)?;
        Some(step.pass.unwrap_or(Pass::Verified))
    }

    /// Counts the passed steps by kind.
    pub fn passes_by_kind(&self) -> Passes {
        self.plan.steps.iter().filter_map(|step| self.pass(step.number)).collect()
    }

    /// Returns the kind for a plan that is done: that of its weakest step. A guard step that held before does
    /// not count as weak if another step was verified.
    pub fn plan_pass(&self) -> Pass {
        let all = self.plan.steps.iter().filter_map(|step| Some((step, self.pass(step.number)?)));
        let all: Vec<_> = all.collect();
        let verified = all.iter().any(|(_, pass)| *pass == Pass::Verified);
        let counts = |step: &Step, pass: Pass| !(verified && pass == Pass::HeldBefore && step.is_guard());
        let passes: Passes =
            all.into_iter().filter(|(step, pass)| counts(step, *pass)).map(|(_, pass)| pass).collect();
        passes.weakest().unwrap_or(Pass::Verified)
    }

    /// Returns the kind of pass of a postcondition; `None` if it has not held.
    pub fn post_pass(&self, number: u32) -> Option<Pass> {
        let Some(PostState::Held(verdict)) = self.postcondition(number) else { return None };
        let post = self.plan.postconditions.iter().find(|post| post.number == number);
        let is_trusted = post.is_some_and(|post| self.is_trusted(post.contract.as_ref()));
        Some(match verdict.held_before {
            _ if self.checks_unread && !is_trusted => Pass::SelfChecked,
            Some(true) => Pass::HeldBefore,
            Some(false) | None => Pass::Verified,
        })
    }

    /// Returns why no negative control showed that a held postcondition can fail, if so.
    pub fn post_uncontrolled(&self, number: u32) -> Option<&str> {
        match self.postcondition(number) {
            Some(PostState::Held(verdict)) => verdict.uncontrolled.as_deref(),
            Some(PostState::Open | PostState::Broke(_)) | None => None,
        }
    }

    /// Returns the mark of a postcondition, and the word for people.
    pub fn post_mark(&self, number: u32) -> (&'static str, String) {
        let (mark, word) = match (self.postcondition(number), self.post_pass(number)) {
            (_, Some(Pass::Verified)) => (Pass::Verified.mark(), "held"),
            (_, Some(pass)) => (pass.mark(), pass.word()),
            (Some(PostState::Broke(_)), None) => ("❌", "broke"),
            (_, None) => ("·", "open"),
        };
        let uncontrolled = if self.post_uncontrolled(number).is_some() { ", uncontrolled" } else { "" };
        (mark, format!("{word}{uncontrolled}"))
    }

    /// Counts the passed steps whose check no negative control has shown to be able to fail.
    pub fn uncontrolled(&self) -> u32 {
        self.steps.iter().filter(|step| step.is_uncontrolled()).count() as u32
    }

    pub fn postconditions_held_before(&self) -> u32 {
        let all = self.plan.postconditions.iter();
        all.filter(|post| self.post_pass(post.number) == Some(Pass::HeldBefore)).count() as u32
    }

    /// Lists what the number of passes hides, one fragment each: `2 uncontrolled`, `1 postcondition held
    /// before`.
    pub fn reservations(&self) -> Vec<String> {
        let uncontrolled = match self.uncontrolled() {
            0 => None,
            count => Some(format!("{count} uncontrolled")),
        };
        let posts = match self.postconditions_held_before() {
            0 => None,
            1 => Some("1 postcondition held before".to_owned()),
            count => Some(format!("{count} postconditions held before")),
        };
        uncontrolled.into_iter().chain(posts).collect()
    }

    /// Summarises everything weaker than a plain pass: `1 held before, 2 uncontrolled`; `None` if nothing is.
    pub fn weaker_passes(&self) -> Option<String> {
        let passes = self.plan.steps.iter().filter_map(|step| self.pass(step.number));
        let weaker: Passes = passes.filter(|pass| *pass != Pass::Verified).collect();
        let kinds = weaker.weakest().map(|_| weaker.to_string());
        let parts: Vec<String> = kinds.into_iter().chain(self.reservations()).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Lists why steps and postconditions are uncontrolled: each reason once, with its subjects.
    pub fn uncontrolled_lines(&self) -> Vec<String> {
        let steps = self.steps().filter(|(_, state)| state.is_uncontrolled()).filter_map(|(step, state)| {
            Some((state.verdict.as_ref()?.uncontrolled.as_deref()?, format!("step {}", step.number)))
        });
        let posts = self.plan.postconditions.iter().filter_map(|post| {
            Some((self.post_uncontrolled(post.number)?, format!("postcondition {}", post.number)))
        });
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for (why, what) in steps.chain(posts) {
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, all)) => all.push(what),
                None => reasons.push((why, vec![what])),
            }
        }
        reasons.into_iter().map(|(why, all)| format!("uncontrolled ({}): {why}", all.join(", "))).collect()
    }
}
