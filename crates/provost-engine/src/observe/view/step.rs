//! The view of a step and of its attempts.

use provost_core::model::event::CheckSubject;
use provost_core::model::pass::Pass;
use provost_core::model::plan::{Needs, Step, StepNumber};
use provost_core::model::run_policy::AgentAccess;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Amount;
use provost_core::rules::budget;
use provost_core::state::run::{Run, StepRun, StepState};
use serde::Serialize;
use utoipa::ToSchema;

use super::{CheckView, StepCostView, VerdictView};
use crate::observe::overview::AttemptRecord;

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Step)]
pub struct StepView {
    pub number: u32,
    pub title: String,
    pub target: Option<String>,
    /// The role that carries it out now.
    pub role: String,
    /// The sub-plan that carries it out.
    pub plan: Option<String>,
    /// The steps it waits for.
    pub needs: Vec<u32>,
    /// The same as `needs`, in every document.
    pub depends_on: Vec<u32>,
    /// Globs of its own it may change; null if it has none.
    pub touches: Option<Vec<String>>,
    /// Its limits; a missing part has none.
    #[schema(value_type = Object)]
    pub budget: Amount,
    pub cost: StepCostView,
    #[schema(example = "passed")]
    pub state: &'static str,
    /// In which way it passed: `verified`, `confirmed`, `judged`, `self_checked` or `held_before`.
    #[schema(value_type = Option<String>, example = "held_before")]
    pub pass: Option<Pass>,
    /// The same for people, with its mark.
    pub mark: Option<&'static str>,
    pub word: String,
    /// One sentence that explains a pass that is weaker than verified.
    pub weaker: Option<&'static str>,
    /// Why the pass is `uncontrolled`; none if a control was run.
    pub uncontrolled: Option<String>,
    /// The contract is meant to hold before the work too.
    pub guard: bool,
    /// Access rights of its agent.
    #[schema(value_type = Object)]
    pub reach: AgentAccess,
    /// `tests` if it writes its own checks.
    pub writes: Option<&'static str>,
    pub task: Option<String>,
    pub precondition: Option<CheckView>,
    pub contract: Option<CheckView>,
    /// Who wrote the check: `a person`, `template NAME`, `planner ROLE` or `the agent`.
    #[schema(example = "a person")]
    pub check_by: Option<String>,
    /// Agents are not shown the contract.
    pub hidden: bool,
    pub on_fail: String,
    /// Questions that people asked about the step, oldest first.
    pub questions: Vec<QuestionView>,
    pub blocked: Option<String>,
    pub waived_by: Option<String>,
    #[schema(value_type = Option<String>)]
    pub not_before: Option<Timestamp>,
    /// The claim of the agent. It decides nothing.
    pub claim: Option<String>,
    pub verdict: Option<VerdictView>,
    pub attempts: Vec<AttemptView>,
    /// Number of attempts, in every document.
    pub attempt_count: u32,
}

impl StepView {
    pub fn of(run: &Run, step: &Step, state: &StepRun, attempts: &[AttemptRecord]) -> Self {
        let number = step.number;
        let needs = needs(step);
        let own = attempts.iter().filter(|attempt| attempt.step == number);
        Self {
            number: number.0,
            title: step.title.clone(),
            target: step.target.as_ref().map(|target| target.value.clone()),
            role: run.role(number).to_owned(),
            plan: step.carried_by().map(str::to_owned),
            depends_on: needs.clone(),
            needs,
            touches: step.touches.as_ref().map(|globs| globs.iter().map(|glob| glob.value.clone()).collect()),
            budget: budget::of_step(run, number),
            cost: StepCostView::of(run, number),
            state: run.state_word(number),
            pass: run.pass(number),
            mark: run.mark(number).map(|mark| mark.symbol()),
            word: run.word(number),
            weaker: run.pass(number).and_then(Pass::explanation),
            uncontrolled: state
                .verdict
                .as_ref()
                .filter(|_| state.is_uncontrolled())
                .and_then(|verdict| verdict.uncontrolled.clone()),
            guard: step.is_guard(),
            reach: run.binding.terms.for_step(step),
            writes: step.writes_tests().then_some("tests"),
            task: step.task.as_ref().map(|task| task.value.clone()),
            precondition: step.precondition.as_ref().map(CheckView::of),
            contract: step.contract.as_ref().map(CheckView::of),
            check_by: run.check_author(number).map(|author| author.to_string()),
            hidden: step.is_hidden(),
            on_fail: run.on_fail(number).to_string(),
            questions: QuestionView::about(run, number),
            blocked: match &state.state {
                StepState::Blocked { reason, .. } => Some(reason.clone()),
                _ => None,
            },
            waived_by: match &state.state {
                StepState::Waived { by } => Some(by.clone()),
                _ => None,
            },
            not_before: state.wait.map(|wait| wait.until),
            claim: state.claim.clone(),
            verdict: state.verdict.as_ref().map(VerdictView::of),
            attempts: own.map(AttemptView::of).collect(),
            attempt_count: state.attempts,
        }
    }

    /// Returns its mark, or a dot if it has none yet.
    pub fn symbol(&self) -> &'static str {
        self.mark.unwrap_or("·")
    }
}

/// A question that a person asked about a step.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = StepQuestion)]
pub struct QuestionView {
    pub by: String,
    pub question: String,
    /// The revision that was asked about.
    pub revision: String,
    /// The plan has not changed since.
    pub current: bool,
}

impl QuestionView {
    pub fn about(run: &Run, step: StepNumber) -> Vec<Self> {
        let own = run.step_questions.iter().filter(|asked| asked.step == step);
        own.map(|asked| Self {
            by: asked.by.clone(),
            question: asked.question.clone(),
            revision: asked.revision.0.clone(),
            current: asked.revision == run.revision,
        })
        .collect()
    }
}

/// Those that are named; else the one before.
fn needs(step: &Step) -> Vec<u32> {
    match &step.needs {
        Needs::Before => step.number.0.checked_sub(1).filter(|before| *before > 0).into_iter().collect(),
        Needs::Steps(steps) => steps.iter().map(|step| step.value.0).collect(),
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptView {
    pub number: u32,
    pub target: String,
    #[schema(value_type = String)]
    pub begun: Timestamp,
    #[schema(value_type = Option<String>)]
    pub ended: Option<Timestamp>,
    pub duration_ms: Option<u64>,
    /// How the agent ended, in words.
    pub end: Option<String>,
    pub report: String,
    pub notes: Vec<String>,
    pub claims: Vec<String>,
    pub verdicts: Vec<VerdictView>,
    pub failure: Option<String>,
    pub class: Option<&'static str>,
    /// Consequences of the failure.
    pub followed: Vec<String>,
    pub passed: bool,
    pub tokens: Option<u64>,
    /// The tree that it left, if it was kept.
    pub left: Option<String>,
}

impl AttemptView {
    fn of(attempt: &AttemptRecord) -> Self {
        let end = match &attempt.end {
            Some(end) => Some(end.words()),
            None => attempt.lost.then(|| "lost: provost ended before the attempt did".to_owned()),
        };
        Self {
            number: attempt.number,
            target: attempt.target.clone(),
            begun: attempt.begun,
            ended: attempt.ended,
            duration_ms: attempt.ended.map(|ended| ended.0.saturating_sub(attempt.begun.0)),
            end,
            report: attempt.report.clone(),
            notes: attempt.notes.clone(),
            claims: attempt.claims.clone(),
            verdicts: attempt
                .verdicts
                .iter()
                .map(|judged| VerdictView {
                    at: Some(judged.at),
                    subject: Some(subject(judged.subject)),
                    ..VerdictView::of(&judged.verdict)
                })
                .collect(),
            failure: attempt.failure.clone(),
            class: attempt.class.map(|class| class.word()),
            followed: attempt.followed.clone(),
            passed: attempt.passed,
            tokens: attempt.usage.tokens(),
            left: attempt.left.clone(),
        }
    }
}

fn subject(subject: CheckSubject) -> &'static str {
    match subject {
        CheckSubject::Precondition(_) => "precondition",
        CheckSubject::Control(_) => "control",
        CheckSubject::Contract(_) => "contract",
        CheckSubject::Final(_) => "final",
        CheckSubject::Postcondition(_) => "postcondition",
    }
}
