//! Turns events into spans: which are open, what closes them, and their parents.

use std::collections::BTreeMap;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::{CheckSubject, EndedAttempt, Event};
use provost_core::model::pass::Pass;
use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::Verdict;
use provost_core::state::run::Run;

use super::notes::{self, attributes, maybe};
use super::parts::{
    answered, attempt_begun, attempt_ended, check, child, complete, ended, instant, lost, note, run_begun,
    unseen, waiting,
};
use super::wire::{Nanoseconds, OtelSpan, SpanStatus};

/// One run with its open spans.
pub(super) struct Tracer {
    plan: PlanId,
    /// `None` before the first event.
    root: Option<OtelSpan>,
    run: Run,
    steps: BTreeMap<StepNumber, OpenStep>,
    wait: Option<OtelSpan>,
    last: Nanoseconds,
}

struct OpenStep {
    span: OtelSpan,
    attempt: Option<OtelSpan>,
    wait: Option<OtelSpan>,
    /// The pause, and when it ends.
    pause: Option<(OtelSpan, Nanoseconds)>,
}

impl Tracer {
    pub(super) fn new(plan: &PlanId) -> Self {
        let (root, wait, run) = (None, None, Run::default());
        Self { plan: plan.clone(), root, run, steps: BTreeMap::new(), wait, last: Nanoseconds(0) }
    }

    /// Applies an event; finished spans are added to `closed`.
    pub(super) fn hear(&mut self, sealed: &SealedEvent, event: &Event, closed: &mut Vec<OtelSpan>) {
        self.run.apply(event);
        let at = instant(sealed.at);
        self.last = self.last.max(at);
        let mut root = match self.root.take() {
            Some(root) => root,
            None => run_begun(&self.plan, sealed),
        };
        match event {
            Event::ApprovalRequested { .. } | Event::QuestionAsked { .. } => {
                self.wait_for("approval", &root, sealed);
            }
            Event::Approved { missing: 1.., .. } => {}
            Event::Approved { .. } | Event::Rejected { .. } | Event::Answered { step: None, .. } => {
                closed.extend(self.wait.take().map(|wait| answered(wait, at, event)));
            }
            Event::PlanRewritten { .. } => {
                closed.extend(self.wait.take().map(|wait| ended(wait, at)));
                self.law_is_new(at, closed);
            }
            Event::RunEnded { .. } => {
                closed.extend(self.wait.take().map(|wait| ended(wait, at)));
                for (_, step) in std::mem::take(&mut self.steps) {
                    step.close(at, closed);
                }
                complete(&mut root, event);
            }
            Event::Judged { step, subject, verdict, .. } => {
                self.judged(&root, sealed, *step, *subject, verdict, closed);
            }
            _ => {}
        }
        let reopens = !matches!(event, Event::TamperDetected { .. } | Event::Judged { .. });
        match event.step().filter(|step| reopens || self.steps.contains_key(step)) {
            Some(number) => self.of_step(number, &mut root, sealed, event, closed),
            None => note(&mut root, sealed, event),
        }
        self.root = Some(root);
    }

    fn of_step(
        &mut self,
        number: StepNumber,
        root: &mut OtelSpan,
        sealed: &SealedEvent,
        event: &Event,
        closed: &mut Vec<OtelSpan>,
    ) {
        let at = instant(sealed.at);
        if let Event::StepStarted { .. } = event {
            // The plan continues: it waits for no person, and an earlier recorded end was not the last.
            closed.extend(self.wait.take().map(|wait| ended(wait, at)));
            root.status = SpanStatus::default();
        }
        let to_confirm = self.run.confirmed_by_person(number);
        let mut step = match self.steps.remove(&number) {
            Some(step) => step,
            None => OpenStep::begun(root, sealed, number, at),
        };
        if !matches!(event, Event::StepClaimed { .. }) {
            step.pause_ends(at, closed);
        }
        note(&mut step.span, sealed, event);
        match event {
            Event::StepStarted { attempt, target, .. } => {
                step.waits_end(at, event, closed);
                closed.extend(step.attempt.take().map(|attempt| lost(attempt, at)));
                step.attempt = Some(attempt_begun(&step.span, sealed, *attempt, target));
            }
            Event::AttemptEnded(EndedAttempt { end, usage, .. }) => {
                closed.extend(step.attempt.take().map(|attempt| attempt_ended(attempt, at, end, usage)));
                if to_confirm {
                    step.wait_for_person(sealed);
                }
            }
            Event::AttemptLost { .. } => {
                closed.extend(step.attempt.take().map(|attempt| lost(attempt, at)));
            }
            Event::RecoveryApplied { not_before: Some(until), .. } => {
                let mut pause = child(&step.span, "pause", sealed, "pause", at);
                pause.attributes.extend(attributes([("provost.wait.for", "pause".into())]));
                step.pause = Some((pause, instant(*until)));
            }
            Event::Escalated { .. } | Event::BudgetExceeded { .. } => step.wait_for_person(sealed),
            Event::Answered { .. } => step.waits_end(at, event, closed),
            Event::StepPassed { pass, .. } => {
                step.span.attributes.extend(maybe("provost.step.pass", pass.map(Pass::key)));
                return step.over("passed", SpanStatus::good(), at, closed);
            }
            Event::StepFailed { error, .. } => {
                step.span.attributes.extend(maybe("error.type", Some("failed")));
                return step.over("failed", SpanStatus::bad(notes::told(error)), at, closed);
            }
            Event::StepWaived { .. } => return step.over("waived", SpanStatus::default(), at, closed),
            _ => {}
        }
        self.steps.insert(number, step);
    }

    /// Adds the span of a check. A final check that held belongs to the run, not to a step.
    fn judged(
        &mut self,
        root: &OtelSpan,
        sealed: &SealedEvent,
        step: Option<StepNumber>,
        subject: CheckSubject,
        verdict: &Verdict,
        closed: &mut Vec<OtelSpan>,
    ) {
        let at = instant(sealed.at);
        let begun = Nanoseconds(at.0.saturating_sub(verdict.duration_ms.saturating_mul(1_000_000)));
        let fine = matches!(subject, CheckSubject::Final(_)) && verdict.held();
        let parent = match step.filter(|number| !fine || self.steps.contains_key(number)) {
            None => root,
            Some(number) => {
                let begin = || OpenStep::begun(root, sealed, number, begun);
                let step = self.steps.entry(number).or_insert_with(begin);
                step.pause_ends(begun, closed);
                &step.span
            }
        };
        closed.push(check(parent, sealed, begun, at, subject, verdict));
    }

    fn wait_for(&mut self, whom: &'static str, root: &OtelSpan, sealed: &SealedEvent) {
        if self.wait.is_none() {
            self.wait = Some(waiting(root, whom, sealed));
        }
    }

    /// Closes steps without a running attempt; they start again under the new spec.
    fn law_is_new(&mut self, at: Nanoseconds, closed: &mut Vec<OtelSpan>) {
        for (number, mut step) in std::mem::take(&mut self.steps) {
            if step.attempt.is_none() {
                step.over("rewritten", SpanStatus::default(), at, closed);
            } else {
                step.pause_ends(at, closed);
                closed.extend(step.wait.take().map(|wait| ended(wait, at)));
                self.steps.insert(number, step);
            }
        }
    }

    /// Ends all open spans at the last event and marks them as open.
    pub(super) fn end(&mut self, closed: &mut Vec<OtelSpan>) {
        let Some(mut root) = self.root.take() else { return };
        let from = closed.len();
        closed.extend(self.wait.take().map(|wait| ended(wait, self.last)));
        for (_, step) in std::mem::take(&mut self.steps) {
            step.close(self.last, closed);
        }
        for span in &mut closed[from..] {
            span.attributes.extend(maybe("provost.open", Some(true)));
        }
        root.attributes.extend(attributes([
            ("provost.plan.title", self.run.plan.title.as_str().into()),
            ("provost.plan.revision", self.run.revision.short().into()),
            ("provost.plan.stage", self.run.stage.word().into()),
        ]));
        root.attributes.extend(maybe("provost.isolation", self.run.isolation.map(|level| level.to_string())));
        if root.status.code == 0 {
            root.attributes.extend(maybe("provost.open", Some(true)));
        }
        closed.push(ended(root, self.last));
    }
}

impl OpenStep {
    fn begun(root: &OtelSpan, sealed: &SealedEvent, number: StepNumber, at: Nanoseconds) -> Self {
        let title = sealed.task_name.as_deref().unwrap_or_default();
        let mut span = child(root, "step", sealed, &format!("step {number}. {title}"), at);
        span.attributes
            .extend(attributes([("provost.step", number.0.into()), ("provost.step.title", title.into())]));
        Self { span, attempt: None, wait: None, pause: None }
    }

    fn wait_for_person(&mut self, sealed: &SealedEvent) {
        if self.wait.is_none() {
            self.wait = Some(waiting(&self.span, "person", sealed));
        }
    }

    fn waits_end(&mut self, at: Nanoseconds, event: &Event, closed: &mut Vec<OtelSpan>) {
        closed.extend(self.wait.take().map(|wait| answered(wait, at, event)));
    }

    /// Ends the pause at `at`, or earlier if it was already over.
    fn pause_ends(&mut self, at: Nanoseconds, closed: &mut Vec<OtelSpan>) {
        closed.extend(self.pause.take().map(|(pause, until)| ended(pause, at.min(until))));
    }

    fn over(mut self, state: &'static str, status: SpanStatus, at: Nanoseconds, closed: &mut Vec<OtelSpan>) {
        // provost restarted and found the work done.
        closed.extend(self.attempt.take().map(|attempt| unseen(attempt, at)));
        self.span.status = status;
        self.span.attributes.extend(maybe("provost.step.state", Some(state)));
        self.close(at, closed);
    }

    fn close(mut self, at: Nanoseconds, closed: &mut Vec<OtelSpan>) {
        self.pause_ends(at, closed);
        closed.extend(self.wait.take().map(|wait| ended(wait, at)));
        closed.extend(self.attempt.take().map(|attempt| ended(attempt, at)));
        closed.push(ended(self.span, at));
    }
}
