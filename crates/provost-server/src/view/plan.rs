//! Defines what is shown of one plan: its text, its steps with attempts and verdicts, its postconditions.

use provost_core::model::event::CheckSubject;
use provost_core::model::pass::Pass;
use provost_core::model::plan::{Check as Contracted, Contract, Needs};
use provost_core::model::verdict;
use provost_core::state::run::{PostState, StepState};
use provost_engine::observe::overview::{self, PlanSnapshot};
use serde::Serialize;
use utoipa::ToSchema;

use super::{InboxItemView, PlanCard};

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Plan)]
pub struct PlanView {
    #[serde(flatten)]
    pub card: PlanCard,
    /// As the log holds it.
    pub text: String,
    /// Globs the plan may change; null where it does not say.
    pub touches: Option<Vec<String>>,
    /// What the configuration adds to the law, a line each.
    pub terms: Vec<String>,
    pub question: Option<String>,
    pub steps: Vec<StepView>,
    pub postconditions: Vec<PostconditionView>,
    pub waiting_items: Vec<InboxItemView>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Step)]
pub struct StepView {
    pub number: u32,
    pub title: String,
    pub target: Option<String>,
    /// The steps it waits for.
    pub needs: Vec<u32>,
    #[schema(example = "passed")]
    pub state: String,
    /// In which way it passed: `verified`, `confirmed`, `judged`, `self_checked` or `held_before`.
    #[schema(example = "held_before")]
    pub pass: Option<String>,
    /// The same for people, with its mark.
    pub mark: Option<String>,
    pub word: String,
    /// One sentence that explains a pass that is weaker than verified.
    pub weaker: Option<String>,
    /// Why the pass is `uncontrolled`; none if a control was run.
    pub uncontrolled: Option<String>,
    /// The contract is meant to hold before the work too.
    pub guard: bool,
    pub task: Option<String>,
    pub precondition: Option<CheckView>,
    pub contract: Option<CheckView>,
    /// Agents are not shown the contract.
    pub hidden: bool,
    pub on_fail: String,
    pub blocked: Option<String>,
    pub waived_by: Option<String>,
    pub not_before: Option<String>,
    /// What the agent says. It decides nothing.
    pub claim: Option<String>,
    pub verdict: Option<VerdictView>,
    pub attempts: Vec<AttemptView>,
}

/// What is run, or asked, to see whether something holds.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Check)]
pub struct CheckView {
    #[schema(example = "shell")]
    pub kind: String,
    /// The command, or the rubric a model judges by.
    pub text: Option<String>,
    pub expectations: Vec<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptView {
    pub number: u32,
    pub target: String,
    pub begun: String,
    pub ended: Option<String>,
    pub duration_ms: Option<u64>,
    /// How the agent ended, in words.
    pub end: Option<String>,
    pub report: String,
    pub notes: Vec<String>,
    pub claims: Vec<String>,
    pub verdicts: Vec<VerdictView>,
    pub failure: Option<String>,
    pub class: Option<String>,
    /// What followed from the failure.
    pub followed: Vec<String>,
    pub passed: bool,
    pub tokens: Option<u64>,
}

/// What the judge saw.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Verdict)]
pub struct VerdictView {
    pub at: Option<String>,
    /// Which check it was.
    #[schema(example = "contract")]
    pub subject: Option<String>,
    #[schema(example = "broke")]
    pub outcome: String,
    pub words: String,
    pub isolation: String,
    pub duration_ms: u64,
    pub unmet: Vec<String>,
    pub stdout: String,
    pub stderr: String,
    pub tests: Option<u32>,
    /// Why no control could show that it can fail, where that is so.
    pub uncontrolled: Option<String>,
    /// A model judged, and which.
    pub judged_by: Option<String>,
    /// What a person should know about a pass beside that it held.
    #[schema(example = json!(["the agent changed 1 test file: tests/test_login.py"]))]
    pub remarks: Vec<String>,
    pub tree: Option<String>,
    /// What was taken over from the agent.
    pub files: Vec<String>,
    /// How many more there are than the list has.
    pub files_more: u64,
    /// What was not taken over, and why.
    pub refused: Vec<String>,
    pub refused_more: u64,
    /// What git ignores, and was not taken over.
    pub ignored: Vec<String>,
    pub ignored_more: u64,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Post)]
pub struct PostconditionView {
    pub number: u32,
    pub description: String,
    #[schema(example = "held")]
    pub state: String,
    /// For people, with its mark.
    pub mark: String,
    pub word: String,
    /// In which way it held, by the same words as for steps.
    #[schema(example = "held_before")]
    pub pass: Option<String>,
    /// One sentence that explains a pass that is weaker than verified.
    pub weaker: Option<String>,
    /// Why the pass is `uncontrolled`; none if a control was run.
    pub uncontrolled: Option<String>,
    pub contract: Option<CheckView>,
    pub verdict: Option<VerdictView>,
}

impl PlanView {
    pub fn of(
        seen: &PlanSnapshot,
        attempts: &[overview::AttemptRecord],
        waiting_items: Vec<InboxItemView>,
    ) -> Self {
        let run = &seen.run;
        let touches = run.plan.touches.as_ref();
        Self {
            card: PlanCard::of(seen),
            text: run.text.clone(),
            touches: touches.map(|globs| globs.iter().map(|glob| glob.value.clone()).collect()),
            terms: run.binding.terms.lines(),
            question: run.question.clone(),
            steps: run.steps().map(|(step, state)| StepView::of(seen, step, state, attempts)).collect(),
            postconditions: run
                .postconditions()
                .map(|(post, state)| PostconditionView {
                    number: post.number,
                    description: post.description.clone(),
                    state: match state {
                        PostState::Open => "open",
                        PostState::Held(_) => "held",
                        PostState::Broke(_) => "broke",
                    }
                    .to_owned(),
                    mark: run.post_mark(post.number).0.to_owned(),
                    word: run.post_mark(post.number).1,
                    pass: run.post_pass(post.number).map(|pass| pass.key().to_owned()),
                    weaker: run.post_pass(post.number).and_then(Pass::explanation).map(str::to_owned),
                    uncontrolled: run.post_uncontrolled(post.number).map(str::to_owned),
                    contract: post.contract.as_ref().map(CheckView::of),
                    verdict: match state {
                        PostState::Broke(verdict) => Some(VerdictView::of(verdict)),
                        PostState::Open | PostState::Held(_) => None,
                    },
                })
                .collect(),
            waiting_items,
        }
    }
}

impl StepView {
    fn of(
        seen: &PlanSnapshot,
        step: &provost_core::model::plan::Step,
        state: &provost_core::state::run::StepRun,
        attempts: &[overview::AttemptRecord],
    ) -> Self {
        let run = &seen.run;
        let own = attempts.iter().filter(|attempt| attempt.step == step.number);
        Self {
            number: step.number.0,
            title: step.title.clone(),
            target: step.target.as_ref().map(|target| target.value.clone()),
            needs: needs(step),
            state: run.state_word(step.number).to_owned(),
            pass: run.pass(step.number).map(|pass| pass.key().to_owned()),
            mark: run.mark(step.number).map(|mark| mark.symbol().to_owned()),
            word: run.word(step.number),
            weaker: run.pass(step.number).and_then(Pass::explanation).map(str::to_owned),
            uncontrolled: state
                .verdict
                .as_ref()
                .filter(|_| state.is_uncontrolled())
                .and_then(|verdict| verdict.uncontrolled.clone()),
            guard: step.is_guard(),
            task: step.task.as_ref().map(|task| task.value.clone()),
            precondition: step.precondition.as_ref().map(CheckView::of),
            contract: step.contract.as_ref().map(CheckView::of),
            hidden: step.is_hidden(),
            on_fail: run.on_fail(step.number).to_string(),
            blocked: match &state.state {
                StepState::Blocked { reason, .. } => Some(reason.clone()),
                _ => None,
            },
            waived_by: match &state.state {
                StepState::Waived { by } => Some(by.clone()),
                _ => None,
            },
            not_before: state.wait.map(|wait| wait.until.to_string()),
            claim: state.claim.clone(),
            verdict: state.verdict.as_ref().map(VerdictView::of),
            attempts: own.map(AttemptView::of).collect(),
        }
    }
}

/// Those that are named; else the one before.
fn needs(step: &provost_core::model::plan::Step) -> Vec<u32> {
    match &step.needs {
        Needs::Before => step.number.0.checked_sub(1).filter(|before| *before > 0).into_iter().collect(),
        Needs::Steps(steps) => steps.iter().map(|step| step.value.0).collect(),
    }
}

impl CheckView {
    pub fn of(contract: &Contract) -> Self {
        let expectations = Vec::new();
        match &contract.check {
            Contracted::Shell(shell) => Self {
                kind: "shell".to_owned(),
                text: Some(shell.command.clone()),
                expectations: shell.expectations.iter().map(|each| each.value.to_string()).collect(),
            },
            Contracted::Human => Self { kind: "human".to_owned(), text: None, expectations },
            Contracted::Judge { rubric } => {
                Self { kind: "judge".to_owned(), text: Some(rubric.clone()), expectations }
            }
        }
    }
}

impl AttemptView {
    fn of(attempt: &overview::AttemptRecord) -> Self {
        let end = match &attempt.end {
            Some(end) => Some(end.words()),
            None => attempt.lost.then(|| "lost: the harness did not see it end".to_owned()),
        };
        Self {
            number: attempt.number,
            target: attempt.target.clone(),
            begun: attempt.begun.to_string(),
            ended: attempt.ended.map(|ended| ended.to_string()),
            duration_ms: attempt.ended.map(|ended| ended.0.saturating_sub(attempt.begun.0)),
            end,
            report: attempt.report.clone(),
            notes: attempt.notes.clone(),
            claims: attempt.claims.clone(),
            verdicts: attempt
                .verdicts
                .iter()
                .map(|judged| VerdictView {
                    at: Some(judged.at.to_string()),
                    subject: Some(subject(judged.subject).to_owned()),
                    ..VerdictView::of(&judged.verdict)
                })
                .collect(),
            failure: attempt.failure.clone(),
            class: attempt.class.map(|class| class.word().to_owned()),
            followed: attempt.followed.clone(),
            passed: attempt.passed,
            tokens: attempt.usage.tokens(),
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

impl VerdictView {
    pub fn of(verdict: &verdict::Verdict) -> Self {
        let tree = verdict.tree.as_deref();
        Self {
            at: None,
            subject: None,
            outcome: verdict.outcome.word().to_owned(),
            words: verdict.outcome.to_string(),
            isolation: verdict.isolation.to_string(),
            duration_ms: verdict.duration_ms,
            unmet: verdict.unmet.clone(),
            stdout: verdict.stdout.to_string(),
            stderr: verdict.stderr.to_string(),
            tests: verdict.tests,
            uncontrolled: verdict.uncontrolled.clone(),
            judged_by: verdict.judged.as_ref().map(|judgement| judgement.by()),
            remarks: verdict.remarks(),
            tree: tree.map(|tree| tree.id.clone()),
            files: tree.map(|tree| tree.files.clone()).unwrap_or_default(),
            files_more: tree.map_or(0, |tree| tree.files_more),
            refused: tree.map(|tree| tree.refused.clone()).unwrap_or_default(),
            refused_more: tree.map_or(0, |tree| tree.refused_more),
            ignored: tree.map(|tree| tree.ignored.clone()).unwrap_or_default(),
            ignored_more: tree.map_or(0, |tree| tree.ignored_more),
        }
    }
}
