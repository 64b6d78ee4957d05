//! Applies what follows a failure: recipes, escalations, and the answers of people.

use crate::model::escalation::EscalationCause;
use crate::model::event::{Breach, BudgetScope, Choice, FailureClass, SESSION_RECIPE};
use crate::model::plan::StepNumber;
use crate::model::usage::Amount;
use crate::model::verdict::Verdict;
use crate::state::run::{Run, Stage, StepState, Wait};

impl Run {
    pub(super) fn failure_detected(&mut self, number: StepNumber, fingerprint: &Option<String>) {
        if let Some(step) = self.step_mut(number) {
            step.failures += 1;
            step.fingerprint.clone_from(fingerprint);
            step.wait = None;
        }
    }

    /// Records the class of a failure, and the role that gets no more work because of it.
    pub(super) fn failure_classified(
        &mut self,
        number: StepNumber,
        class: FailureClass,
        halts: Option<&String>,
        of_the_check: bool,
    ) {
        self.halted.extend(halts.cloned());
        if let Some(step) = self.step_mut(number) {
            step.failed_as = Some(class);
            step.check_again = of_the_check;
        }
    }

    /// Applies a recipe after a failure. With another role, or if the recipe says `fresh`, the agent begins a
    /// new conversation.
    pub(super) fn recovery_applied(
        &mut self,
        number: StepNumber,
        recipe: &str,
        wait: Option<Wait>,
        check_again: bool,
        role: Option<&str>,
        fresh: bool,
    ) {
        self.try_again(number, check_again);
        if recipe == SESSION_RECIPE {
            return self.sent_back(number);
        }
        self.retries += 1;
        if let Some(step) = self.step_mut(number) {
            let before = step.recipe.as_ref().filter(|(name, _)| name == recipe);
            step.recipe = Some((recipe.to_owned(), before.map_or(0, |(_, times)| *times) + 1));
            step.wait = wait;
            if let Some(role) = role {
                step.role = Some(role.to_owned());
            }
            if role.is_some() || fresh {
                step.session = None;
            }
        }
    }

    /// Applies that a session continues after its stop. The stop uses up no retry, and the next failure does
    /// not count as a repetition of what the session left.
    fn sent_back(&mut self, number: StepNumber) {
        if let Some(step) = self.step_mut(number) {
            step.failures = step.failures.saturating_sub(1);
            step.fingerprint = None;
        }
    }

    pub(super) fn escalated(&mut self, number: StepNumber, reason: &str, cause: EscalationCause) {
        self.set_state(number, StepState::Blocked { reason: reason.to_owned(), cause });
        // The plan was done, and the branch it landed on broke it.
        if self.stage == Stage::Done {
            self.stage = Stage::InProgress;
            self.landed = None;
        }
    }

    pub(super) fn budget_exceeded(&mut self, number: StepNumber, breach: &Breach) {
        self.set_state(
            number,
            StepState::Blocked { reason: breach.to_string(), cause: EscalationCause::Other },
        );
        if let Some(step) = self.step_mut(number) {
            step.over_budget = Some(Box::new(breach.clone()));
        }
    }

    /// Applies a person's answer to a step that waits, or to the plan if there is no step.
    pub(super) fn answer(&mut self, step: Option<StepNumber>, choice: Choice, budget: Amount) {
        let over = step.and_then(|number| Some((number, self.step(number)?.over_budget.as_ref()?.scope)));
        match over {
            Some((number, scope)) => self.answered_budget(number, scope, choice, budget),
            None => self.answered(step, choice),
        }
    }

    /// Applies the answer to an exceeded budget: nothing failed, so the step continues where it was.
    fn answered_budget(&mut self, number: StepNumber, scope: BudgetScope, choice: Choice, limits: Amount) {
        let whose = match scope {
            BudgetScope::Plan => None,
            BudgetScope::Step => Some(number),
        };
        self.ledger.answered(whose, choice, limits);
        if choice == Choice::Retry {
            self.ledger.give_back(whose);
        }
        if let Some(step) = self.step_mut(number).filter(|_| choice != Choice::Revise) {
            step.over_budget = None;
        }
        match choice {
            Choice::Retry => self.set_state(number, StepState::Pending),
            Choice::Skip | Choice::Abort | Choice::Revise | Choice::Confirm => {
                self.answered(Some(number), choice);
            }
        }
    }

    fn answered(&mut self, step: Option<StepNumber>, choice: Choice) {
        match (choice, step) {
            (Choice::Retry, Some(number)) => {
                let accepted = self.holds_already(number);
                self.try_again(number, false);
                self.ledger.give_back(Some(number));
                let role = self.role(number).to_owned();
                self.halted.remove(&role);
                if let Some(step) = self.step_mut(number) {
                    step.held_before_accepted |= accepted;
                    step.failures = 0;
                    step.losses = 0;
                    step.fingerprint = None;
                    step.recipe = None;
                    step.wait = None;
                    step.role = None;
                    // The answer allows what the agent asked for: it goes on in the same conversation.
                    match step.asks.take() {
                        Some(asked) => step.granted.push(asked),
                        None => step.session = None,
                    }
                    step.precondition_held = false;
                    step.verdict = None;
                }
                self.stage = Stage::InProgress;
            }
            (Choice::Retry, None) => {
                self.reopen();
                self.given_up = false;
                self.stage = Stage::InProgress;
            }
            (Choice::Skip, Some(_)) => self.stage = Stage::InProgress,
            // A person confirmed the step before an agent worked on it.
            (Choice::Confirm, Some(_)) if self.stage == Stage::Approved => self.stage = Stage::InProgress,
            (Choice::Revise, _) => self.withdraw(),
            (Choice::Abort, None) => self.given_up = true,
            (Choice::Skip, None) | (Choice::Abort, Some(_)) | (Choice::Confirm, _) => {}
        }
    }

    /// Retries the check if the check was at fault, otherwise the agent.
    fn try_again(&mut self, number: StepNumber, check_again: bool) {
        let of_the_check = self.step(number).is_some_and(|step| {
            let of_the_check = || step.verdict.as_ref().is_some_and(Verdict::is_of_the_check);
            step.attempts > 0 && (check_again || step.check_again || of_the_check())
        });
        let attempt = self.step(number).map_or(0, |step| step.attempts);
        let state = if of_the_check { StepState::Ended { attempt } } else { StepState::Pending };
        self.set_state(number, state);
    }
}
