//! The view of one plan: its text, its steps with attempts and verdicts, its postconditions.

use provost_core::model::pass::Pass;
use provost_core::model::plan::Postcondition;
use provost_core::model::run_policy::RunPolicy;
use provost_core::model::usage::Amount;
use provost_core::rules::budget;
use provost_core::state::run::{PostState, Run};
use serde::Serialize;
use utoipa::ToSchema;

use super::{CheckView, InboxItemView, PlanCard, StepView, VerdictView};
use crate::observe::overview::{AttemptRecord, PlanSnapshot};

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Plan)]
pub struct PlanView {
    #[serde(flatten)]
    pub card: PlanCard,
    /// As the log holds it.
    pub text: String,
    /// Additions of the configuration to the approved spec, a line each.
    pub terms: Vec<String>,
    /// The same as an object.
    #[schema(value_type = Object)]
    pub run_policy: RunPolicy,
    /// Its limits; a missing part has none.
    #[schema(value_type = Object)]
    pub budget: Amount,
    pub question: Option<String>,
    /// The plan file differs from the log; null if the file was not read: the gate reads it.
    pub changed: Option<bool>,
    pub steps: Vec<StepView>,
    pub postconditions: Vec<PostconditionView>,
    pub waiting_items: Vec<InboxItemView>,
}

impl PlanView {
    pub fn of(seen: &PlanSnapshot, attempts: &[AttemptRecord], waiting_items: Vec<InboxItemView>) -> Self {
        let run = &seen.run;
        Self {
            card: PlanCard::of(seen),
            text: run.text.clone(),
            terms: run.binding.terms.lines(),
            run_policy: run.binding.terms.clone(),
            budget: budget::of_plan(run),
            question: run.question.clone(),
            changed: None,
            steps: run.steps().map(|(step, state)| StepView::of(run, step, state, attempts)).collect(),
            postconditions: PostconditionView::all(run),
            waiting_items,
        }
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Post)]
pub struct PostconditionView {
    pub number: u32,
    pub description: String,
    #[schema(example = "held")]
    pub state: &'static str,
    /// For people, with its mark.
    pub mark: &'static str,
    pub word: String,
    /// In which way it held, by the same words as for steps.
    #[schema(value_type = Option<String>, example = "held_before")]
    pub pass: Option<Pass>,
    /// One sentence that explains a pass that is weaker than verified.
    pub weaker: Option<&'static str>,
    /// Why the pass is `uncontrolled`; none if a control was run.
    pub uncontrolled: Option<String>,
    pub contract: Option<CheckView>,
    /// Who wrote the check: `a person`, `template NAME`, `planner ROLE` or `the agent`.
    pub check_by: Option<String>,
    pub verdict: Option<VerdictView>,
}

impl PostconditionView {
    pub fn all(run: &Run) -> Vec<Self> {
        run.postconditions().map(|(post, state)| Self::of(run, post, state)).collect()
    }

    fn of(run: &Run, post: &Postcondition, state: &PostState) -> Self {
        let (mark, word) = run.post_mark(post.number);
        let pass = run.post_pass(post.number);
        Self {
            number: post.number,
            description: post.description.clone(),
            state: match state {
                PostState::Open => "open",
                PostState::Held(_) => "held",
                PostState::Broke(_) => "broke",
            },
            mark,
            word,
            pass,
            weaker: pass.and_then(Pass::explanation),
            uncontrolled: run.post_uncontrolled(post.number).map(str::to_owned),
            contract: post.contract.as_ref().map(CheckView::of),
            check_by: run.post_check_author(post.number).map(|author| author.to_string()),
            verdict: match state {
                PostState::Broke(verdict) => Some(VerdictView::of(verdict)),
                PostState::Open | PostState::Held(_) => None,
            },
        }
    }
}
