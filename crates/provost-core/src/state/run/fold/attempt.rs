//! Applies the start and the end of attempts.

use crate::model::event::{EndedAttempt, LossCause, OutsidePath, StartTree};
use crate::model::plan::StepNumber;
use crate::state::run::{Conversation, LastAttempt, Run, Stage, StepState};

impl Run {
    pub(super) fn step_started(&mut self, number: StepNumber, attempt: u32, start: Option<&StartTree>) {
        self.stage = Stage::InProgress;
        self.at_work.insert(number);
        self.begin_with(number, start);
        self.set_state(number, StepState::Running { attempt });
        if let Some(step) = self.step_mut(number) {
            step.attempts = attempt;
            step.claim = None;
            step.ended = None;
            // A person allows only what the last attempt asked for.
            step.asks = None;
            step.wait = None;
            step.held_apart = false;
            step.check_again = false;
        }
    }

    pub(super) fn step_claimed(&mut self, number: StepNumber, evidence: &str) {
        if let Some(step) = self.step_mut(number) {
            step.claim = Some(evidence.to_owned());
            if let Some(session) = &mut step.session {
                session.claim = evidence.to_owned();
            }
        }
    }

    pub(super) fn attempt_ended(&mut self, ended: &EndedAttempt) {
        let number = ended.step;
        self.at_work.remove(&number);
        if ended.start.is_some() {
            self.begin_with(number, ended.start.as_ref());
        }
        self.leave_behind(number, ended.left.as_ref());
        self.changed_outside(number, ended.attempt, &ended.outside);
        if let Some(left) = &ended.carried {
            self.left_on_remote(number, left);
        }
        if let Some(step) = self.step_mut(number) {
            step.losses = 0;
            step.posts.clone_from(&ended.published);
            let before = step.session.take().map(|session| *session);
            let after = |id: &String| Conversation::after(before, id, &ended.usage);
            step.session = ended.session.as_ref().map(after).map(Box::new);
            step.asks.clone_from(&ended.asks);
            step.ended = Some((ended.end.clone(), ended.report.clone()));
        }
        self.set_state(number, StepState::Ended { attempt: ended.attempt });
    }

    pub(super) fn attempt_lost(&mut self, number: StepNumber, cause: LossCause, left: Option<&String>) {
        self.at_work.remove(&number);
        self.leave_behind(number, left);
        if let (Some(step), LossCause::Crash) = (self.step_mut(number), cause) {
            step.losses += 1;
        }
        self.set_state(number, StepState::Pending);
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

    /// Records changes outside of `touches`; the last change of each path counts.
    fn changed_outside(&mut self, step: StepNumber, attempt: u32, outside: &[OutsidePath]) {
        for change in outside {
            self.outside.retain(|(_, _, known)| known.path != change.path);
            self.outside.push((step, attempt, change.clone()));
        }
    }
}
