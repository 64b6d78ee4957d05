//! Applies events to a run. Nothing else changes a run.
//!
//! **Invariant:** nothing is decided here: every recorded event takes effect, whatever came before.

use super::area::Areas;
use super::ready::ReadySteps;
use super::{Conversation, LandedCommit, LastAttempt, PostState, Run, Stage, StepRun, StepState, Wait};
use crate::language::parse;
use crate::model::approved_spec::{self, Binding};
use crate::model::escalation::EscalationCause;
use crate::model::event::{
    Approver, BudgetScope, CheckSubject, Choice, EndedAttempt, Event, LossCause, OutsidePath, Revision,
    RunOutcome, SESSION_POLICY, StartTree,
};
use crate::model::pass::Pass;
use crate::model::plan::{Budget, Check, Plan, Step, StepNumber};
use crate::model::timestamp::Timestamp;
use crate::model::usage::Amount;
use crate::model::verdict::{Excerpt, Verdict};

/// Start of the result of a step that a person confirmed.
pub(crate) const CONFIRMED: &str = "confirmed by ";

impl Run {
    /// Applies an event together with the time at which it became durable.
    pub fn apply_at(&mut self, event: &Event, at: Timestamp) {
        self.apply(event);
        self.tick(event, at);
    }

    /// Records when an applied event became durable. Events of one append have the same time.
    pub fn tick(&mut self, event: &Event, at: Timestamp) {
        self.begun.get_or_insert(at);
        self.moved = Some(at);
        let busy = self.is_busy();
        self.ledger.tick(event, at, busy);
    }

    /// Returns whether provost has something to do, not only a person.
    fn is_busy(&self) -> bool {
        let confirming = |number: &StepNumber| self.is_being_confirmed(*number);
        let open = matches!(self.stage, Stage::Approved | Stage::InProgress);
        let asked = self.any_failed() || self.any_blocked() || self.under_way().any(|step| confirming(&step));
        let at_work = !self.at_work.is_empty() || self.under_way().any(|step| !confirming(&step));
        open && (at_work || !asked || self.ready().any(|step| !self.is_held_up(step)))
    }

    /// Returns whether the step is due but lacks something that a person was already asked for.
    pub(crate) fn is_held_up(&self, number: StepNumber) -> bool {
        if !self.any_blocked() {
            return false;
        }
        let role = self.role(number);
        let mut asked = self.steps().filter(|(_, step)| step.state.is_blocked());
        let no_money = |step: &StepRun| {
            step.over_budget.as_ref().is_some_and(|breach| breach.scope == BudgetScope::Plan)
        };
        let halted = self.halted.contains(role);
        asked.any(|(step, run)| no_money(run) || halted && self.role(step.number) == role)
    }

    pub fn apply(&mut self, event: &Event) {
        self.seq += 1;
        self.ledger.hear(event);
        match event {
            Event::PlanCreated { text, revision, base, files, terms, included, author, .. }
            | Event::PlanRewritten { text, revision, base, files, terms, included, author, .. } => {
                self.author.clone_from(author);
                let (base, files, included) = (base.clone(), files.clone(), included.clone());
                let binding = Binding { base, files, terms: terms.clone(), included };
                self.take_law(text, revision, binding);
            }
            Event::PlanVerified { .. } => self.stage = Stage::Verified,
            Event::ApprovalRequested { revision, .. } => self.requested = Some(revision.clone()),
            Event::Approved { by, missing: 1.., .. } => {
                self.approvals.push(by.clone());
                // Each approver relied on the other approvals that the quorum requires.
                self.held_to = Some(self.quorum());
            }
            Event::Approved { by, .. } => {
                self.approvals.push(by.clone());
                self.held_to = Some(self.binding.terms.quorum);
                self.approved = Some(self.binding.clone());
                // The approver was shown these changes.
                self.outside.clear();
                self.stage = if self.started() { Stage::InProgress } else { Stage::Approved };
                self.approved_by = Some(by.clone());
                (self.checks_unread, self.trusted_checks) = match by {
                    Approver::Person(_) => (false, Vec::new()),
                    Approver::Policy { name, unread, trusted, .. } => {
                        (*unread || name == SESSION_POLICY, trusted.clone())
                    }
                };
                self.question = None;
                self.rejection = None;
            }
            Event::Rejected { revision, reason, .. } => {
                self.rejection = Some((revision.clone(), reason.clone()));
                self.withdraw();
            }
            Event::QuestionAsked { question, .. } => {
                self.question = Some(question.clone());
                self.stage = self.stage.min(Stage::Verified);
                self.approved_by = None;
                self.approvals.clear();
            }
            Event::IsolationAttested { level, require_red, agent_outside, .. } => {
                self.agent_outside = *agent_outside;
                if *agent_outside {
                    self.look_again();
                }
                if self.isolation != Some(*level) {
                    self.held_on_tree.clear();
                }
                self.isolation = Some(*level);
                self.require_red = *require_red;
                self.law_changed = None;
                // A new run: attempts of an earlier run have ended, or are judged first.
                self.at_work.clear();
            }
            Event::StepStarted { step, attempt, start, .. } => {
                self.stage = Stage::InProgress;
                self.at_work.insert(*step);
                self.begin_with(*step, start.as_ref());
                self.set_state(*step, StepState::Running { attempt: *attempt });
                if let Some(step) = self.step_mut(*step) {
                    step.attempts = *attempt;
                    step.claim = None;
                    step.ended = None;
                    step.wait = None;
                    step.held_apart = false;
                    step.check_again = false;
                }
            }
            Event::StepClaimed { step, evidence } => {
                if let Some(step) = self.step_mut(*step) {
                    step.claim = Some(evidence.clone());
                }
            }
            Event::AttemptEnded(EndedAttempt {
                step,
                attempt,
                end,
                report,
                usage,
                session,
                published,
                carried,
                start,
                left,
                outside,
                ..
            }) => {
                self.at_work.remove(step);
                if start.is_some() {
                    self.begin_with(*step, start.as_ref());
                }
                self.leave_behind(*step, left.as_ref());
                self.changed_outside(*step, *attempt, outside);
                if carried.is_some() {
                    self.work.clone_from(carried);
                }
                if let Some(step) = self.step_mut(*step) {
                    step.losses = 0;
                    step.posts.clone_from(published);
                    let before = step.session.take();
                    step.session = session.as_ref().map(|id| Conversation::after(before, id, usage));
                    step.ended = Some((end.clone(), report.clone()));
                }
                self.set_state(*step, StepState::Ended { attempt: *attempt });
            }
            Event::AttemptLost { step, cause, left, .. } => {
                self.at_work.remove(step);
                self.leave_behind(*step, left.as_ref());
                if let (Some(step), LossCause::Crash) = (self.step_mut(*step), cause) {
                    step.losses += 1;
                }
                self.set_state(*step, StepState::Pending);
            }
            Event::Judged { subject, verdict, .. } => self.judged(*subject, verdict),
            Event::StepPassed { step, tree, pass, result, .. } => {
                self.at_work.remove(step);
                self.set_state(*step, StepState::Passed);
                let pass = pass.unwrap_or_else(|| self.pass_in_old_log(*step, result));
                if let Some(step) = self.step_mut(*step) {
                    step.pass = Some(pass);
                    (step.ended, step.fingerprint, step.wait, step.session) = (None, None, None, None);
                }
                self.passes += 1;
                self.final_from = 0;
                self.unseen_work = tree.is_none();
                if tree.is_some() && *tree != self.tree {
                    self.tree.clone_from(tree);
                    self.held_on_tree.clear();
                }
                self.remember_held(CheckSubject::Contract(*step));
            }
            Event::StepFailed { step, .. } => self.set_state(*step, StepState::Failed),
            Event::StepWaived { step, by, .. } => {
                self.set_state(*step, StepState::Waived { by: by.clone() });
                self.unseen_work = true;
            }
            Event::FailureDetected { step, fingerprint, .. } => {
                if let Some(step) = self.step_mut(*step) {
                    step.failures += 1;
                    step.fingerprint.clone_from(fingerprint);
                    step.wait = None;
                }
            }
            Event::FailureClassified { step, failure_type, halts, of_the_check, .. } => {
                self.halted.extend(halts.clone());
                if let Some(step) = self.step_mut(*step) {
                    step.failed_as = Some(*failure_type);
                    step.check_again = *of_the_check;
                }
            }
            Event::RecoveryApplied {
                step,
                recipe_name,
                not_before,
                wait_ms,
                check_again,
                role,
                fresh,
                ..
            } => {
                self.retries += 1;
                self.try_again(*step, *check_again);
                if let Some(step) = self.step_mut(*step) {
                    let before = step.recipe.as_ref().filter(|(name, _)| name == recipe_name);
                    step.recipe = Some((recipe_name.clone(), before.map_or(0, |(_, times)| *times) + 1));
                    step.wait = not_before.map(|until| Wait { until, whole_ms: *wait_ms });
                    if role.is_some() {
                        step.role.clone_from(role);
                    }
                    if role.is_some() || *fresh {
                        step.session = None;
                    }
                }
            }
            Event::Escalated { step: Some(step), reason, cause } => {
                let (reason, cause) = (reason.clone(), cause.unwrap_or_default());
                self.set_state(*step, StepState::Blocked { reason, cause });
                // The plan was done, and the branch it landed on broke it.
                if self.stage == Stage::Done {
                    self.stage = Stage::InProgress;
                    self.landed = None;
                }
            }
            Event::BudgetExceeded { step, breach } => {
                self.set_state(
                    *step,
                    StepState::Blocked { reason: breach.to_string(), cause: EscalationCause::Other },
                );
                if let Some(step) = self.step_mut(*step) {
                    step.over_budget = Some(breach.clone());
                }
            }
            Event::Answered { step, choice, budget, .. } => {
                let over =
                    step.and_then(|number| Some((number, self.step(number)?.over_budget.as_ref()?.scope)));
                match over {
                    Some((number, scope)) => self.answered_budget(number, scope, *choice, *budget),
                    None => self.answered(*step, *choice),
                }
            }
            Event::RunEnded { outcome, .. } => {
                self.landed = None;
                self.stage = match outcome {
                    RunOutcome::Done => Stage::Done,
                    RunOutcome::Failed => Stage::Failed,
                };
            }
            Event::PlanLanded { target, commit, .. } => {
                self.landed = Some(LandedCommit { target: target.clone(), commit: commit.clone() });
            }
            // Recorded for people; these events change no decision.
            Event::TrainStarted { .. }
            | Event::PermissionRequired { .. }
            | Event::Escalated { step: None, .. }
            | Event::TamperDetected { from_seq: None, .. } => {}
            Event::LawChanged { changes } => self.law_changed = Some(changes.clone()),
            Event::TamperDetected { from_seq: Some(from), .. } => {
                self.forged_from = Some(self.forged_from.map_or(*from, |known| known.min(*from)));
            }
        }
    }

    /// Derives the kind of a pass for older logs, which do not record it.
    fn pass_in_old_log(&self, number: StepNumber, result: &str) -> Pass {
        if result.starts_with(CONFIRMED) {
            return Pass::Confirmed;
        }
        self.pass_by(number, self.step(number).and_then(|step| step.verdict.as_ref()))
    }

    /// Skips an untrusted event: it has a sequence number but no effect.
    pub fn pass_over(&mut self) {
        self.seq += 1;
    }

    /// Records changes outside of `touches`; the last change of each path counts.
    fn changed_outside(&mut self, step: StepNumber, attempt: u32, outside: &[OutsidePath]) {
        for change in outside {
            self.outside.retain(|(_, _, known)| known.path != change.path);
            self.outside.push((step, attempt, change.clone()));
        }
    }

    fn withdraw(&mut self) {
        self.stage = Stage::Draft;
        self.approved_by = None;
        self.approvals.clear();
        self.requested = None;
    }

    /// Takes a new spec. Steps whose own text is unchanged keep their results.
    fn take_law(&mut self, text: &str, revision: &Revision, binding: Binding) {
        let plan = parse::plan(text).plan;
        self.ledger.new_law(|scope| written(&self.plan, scope) != written(&plan, scope));
        let before = std::mem::take(&mut self.steps);
        self.steps = plan
            .steps
            .iter()
            .map(|step| {
                let digest = approved_spec::step_digest(text, step);
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
        self.plan = plan;
        self.revision = revision.clone();
        // Trees and checks that are based on another commit say nothing about this one.
        if self.binding.base != binding.base {
            self.work = None;
            self.began_with = None;
            for step in self.steps.iter_mut().filter(|step| !step.state.is_settled()) {
                (step.held_before, step.tests_before, step.looked_at_before) = (None, None, None);
            }
        }
        self.binding = binding;
        // The newly approved base applies; the results of passed steps are imported from the workspace.
        self.tree = None;
        self.held_on_tree.clear();
        self.question = None;
        self.law_changed = None;
        self.given_up = false;
        self.landed = None;
        self.withdraw();
        self.ready = ReadySteps::new(&self.plan, &self.steps);
        self.areas = Areas::default();
    }

    fn judged(&mut self, subject: CheckSubject, verdict: &Verdict) {
        match subject {
            CheckSubject::Precondition(number) => {
                if let Some(step) = self.step_mut(number) {
                    step.precondition_held = verdict.held();
                    step.verdict = Some(remembered(verdict));
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
                if let Some(step) = self.step_mut(number) {
                    step.verdict = Some(remembered(verdict));
                    step.held_apart = held_apart;
                }
            }
            CheckSubject::Final(number) => {
                let passes = self.passes;
                if let Some(step) = self.step_mut(number) {
                    if verdict.held() {
                        step.finally = Some(passes);
                    } else {
                        step.verdict = Some(remembered(verdict));
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
                if let Some(post) = self.postconditions.get_mut(index) {
                    *post = if verdict.held() {
                        PostState::Held(Box::new(remembered(verdict)))
                    } else {
                        PostState::Broke(Box::new(remembered(verdict)))
                    };
                }
                self.seen_finally(subject, verdict);
            }
        }
    }

    /// Records the tree an attempt begins with. The check before the work is stale if that tree differs.
    fn begin_with(&mut self, number: StepNumber, start: Option<&StartTree>) {
        if let Some(start) = start {
            self.last = Some(LastAttempt { step: number, start: start.tree.clone(), left: None });
            self.began_with.get_or_insert_with(|| start.tree.clone());
        }
        let Some(step) = self.step_mut(number) else { return };
        step.left = None;
        step.start = start.cloned();
        if let (Some(start), Some(before)) = (start, &step.looked_at_before)
            && start.tree != *before
        {
            (step.held_before, step.tests_before, step.looked_at_before) = (None, None, None);
        }
    }

    fn leave_behind(&mut self, number: StepNumber, left: Option<&String>) {
        let Some(left) = left else { return };
        if let Some(last) = self.last.as_mut().filter(|last| last.step == number) {
            last.left = Some(left.clone());
        }
        if let Some(step) = self.step_mut(number) {
            step.left = Some(left.clone());
        }
    }

    /// Requires all final checks again, because a repair changes the tree they held on.
    fn look_at_all_anew(&mut self) {
        self.unseen_work = true;
        self.passes += 1;
        self.final_from = 0;
    }

    /// Opens all postconditions again, because a person may have repaired something by hand.
    fn reopen(&mut self) {
        for post in &mut self.postconditions {
            *post = PostState::Open;
        }
        self.look_at_all_anew();
    }

    /// Opens the postconditions again if the agent of a session continued after one broke.
    fn look_again(&mut self) {
        let broke = self.postconditions.iter().any(|state| matches!(state, PostState::Broke(_)));
        if broke && self.stage == Stage::InProgress {
            self.reopen();
        }
    }

    /// Makes the tree of a held final check the current tree.
    fn seen_finally(&mut self, subject: CheckSubject, verdict: &Verdict) {
        let Some(tree) = verdict.tree_id().filter(|_| verdict.held()) else { return };
        self.unseen_work = false;
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
                    step.session = None;
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

    fn step_mut(&mut self, number: StepNumber) -> Option<&mut StepRun> {
        self.steps.get_mut((number.0 as usize).wrapping_sub(1))
    }

    fn set_state(&mut self, number: StepNumber, state: StepState) {
        let index = (number.0 as usize).wrapping_sub(1);
        let Some(step) = self.steps.get_mut(index) else { return };
        let before = std::mem::replace(&mut step.state, state);
        self.ready.moved(index, &before, &self.steps, &self.plan);
    }
}

/// Returns the written budget of a plan, or of one of its steps.
fn written(plan: &Plan, scope: Option<StepNumber>) -> Option<Budget> {
    let budget = match scope {
        None => plan.budget.as_ref(),
        Some(number) => plan.step(number).and_then(|step| step.budget.as_ref()),
    };
    budget.map(|budget| budget.value)
}

/// Drops the output of a held check, which no later prompt needs.
fn remembered(verdict: &Verdict) -> Verdict {
    if !verdict.held() {
        return verdict.clone();
    }
    Verdict { stdout: Excerpt::default(), stderr: Excerpt::default(), ..verdict.clone() }
}
