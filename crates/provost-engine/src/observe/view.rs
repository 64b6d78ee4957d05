//! The read model of a plan. The command line, the API, the pages, the terminal view, MCP and the reports lay
//! out these values and compute none of them.
//!
//! **Invariant:** programs rely on these fields: new ones may be added, none is renamed or removed.

mod check;
mod cost;
mod gate;
mod item;
mod plan;
mod state;
mod step;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Revision;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::{Run, Stage};
use provost_store::Cursor;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::observe::overview::PlanSnapshot;
use crate::plan::plan_registry::PlanLocation;

pub use check::{CheckView, VerdictView};
pub use cost::{CostView, KnownCostView, StepCostView};
pub use gate::{DiagnosticView, GateView, IntentView, UncommittedView};
pub use item::{ChoiceView, InboxItemView, attempt};
pub use plan::{PlanView, PostconditionView};
pub use state::PlanState;
pub(crate) use state::asks_a_person;
pub use step::{AttemptView, QuestionView, StepView};

/// A plan in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Card)]
pub struct PlanCard {
    /// Its identifier in the log, for ever.
    #[schema(value_type = String, example = "fix-auth-3fa9c1d2")]
    pub id: PlanId,
    /// The same as `id`, as other documents name it.
    #[schema(value_type = String, example = "fix-auth-3fa9c1d2")]
    pub plan: PlanId,
    /// Its name for people.
    pub name: String,
    /// The name of its repository; null if the folder of the plan is not known.
    #[schema(example = "shop")]
    pub repository: Option<String>,
    pub title: String,
    #[schema(value_type = String, example = "in-progress")]
    pub stage: Stage,
    /// Whether it runs, and who has to act.
    pub state: PlanState,
    /// The branch it landed on.
    pub landed: Option<String>,
    #[schema(value_type = String)]
    pub revision: Revision,
    /// Steps that are over, of all.
    pub done: u32,
    pub total: u32,
    /// Steps that passed in a weaker way, in words: `1 held before`.
    pub weaker: Option<String>,
    /// Number of its items that wait for a person.
    pub waiting: usize,
    pub waits_for_person: bool,
    pub cost: CostView,
    /// Times of its first and its last event; null only for a plan that is not in the log.
    #[schema(value_type = String)]
    pub begun: Option<Timestamp>,
    #[schema(value_type = String)]
    pub moved: Option<Timestamp>,
    pub approved_by: Option<String>,
    pub approvals: ApprovalsView,
    /// The steps that are worked on.
    pub at_work: Vec<u32>,
    /// Names of the plans that have to be done first.
    pub depends_on: Vec<String>,
    /// Globs the plan may change; null if the plan declares none.
    pub touches: Option<Vec<String>>,
    /// The first event that another program wrote into the log; nothing from there on is trusted.
    pub forged_from: Option<u64>,
    /// Why its log is not trusted, if it is not.
    pub trouble: Option<String>,
    pub path: Option<String>,
}

impl PlanCard {
    pub fn of(seen: &PlanSnapshot) -> Self {
        let run = &seen.run;
        let (done, total) = run.progress();
        let forged = run.forged_from.map(|from| {
            format!("another program wrote to its log from event {from} on; run `provost audit`")
        });
        let plan = &run.plan;
        Self {
            id: seen.id.clone(),
            plan: seen.id.clone(),
            name: seen.name().to_owned(),
            repository: seen.place.as_ref().and_then(PlanLocation::repository_name),
            title: plan.title.clone(),
            stage: run.stage,
            state: PlanState::of(run, seen.is_worked_on),
            landed: run.landed.as_ref().map(|landed| landed.target.clone()),
            revision: run.revision.clone(),
            done,
            total,
            weaker: run.weaker_passes(),
            waiting: seen.waiting,
            waits_for_person: seen.waiting > 0,
            cost: CostView::of(run),
            begun: seen.begun,
            moved: seen.moved,
            approved_by: run.approvers(),
            approvals: ApprovalsView::of(run),
            at_work: run.under_way().map(|step| step.0).collect(),
            depends_on: plan.depends_on.iter().map(|name| name.value.clone()).collect(),
            touches: plan.touches.as_ref().map(|globs| globs.iter().map(|glob| glob.value.clone()).collect()),
            forged_from: run.forged_from,
            trouble: seen.trouble.clone().or(forged),
            path: seen.place.as_ref().map(|place| place.path.display().to_string()),
        }
    }

    /// Returns whether an agent or a check is at work.
    pub fn is_at_work(&self) -> bool {
        !self.at_work.is_empty()
    }

    /// Returns how many steps are over: `3/5`.
    pub fn progress(&self) -> String {
        format!("{}/{}", self.done, self.total)
    }
}

/// How far the approvals of the revision have come.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Approvals)]
pub struct ApprovalsView {
    pub needed: u32,
    /// Names of the approvers so far.
    pub given: Vec<String>,
    pub missing: u32,
    /// Its author may be one of them.
    pub self_approval: bool,
    /// Its author, if the log names one.
    pub author: Option<String>,
    /// In words, if approvals are missing and not every person counts.
    pub words: Option<String>,
}

impl ApprovalsView {
    pub fn of(run: &Run) -> Self {
        let ApprovalCount { needed, given, missing, self_approval, author } = ApprovalCount::of(run);
        Self { needed, given, missing, self_approval, author, words: ApprovalCount::open(run) }
    }
}

/// An event of the log, as it is sealed, and its place in the whole log.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventView {
    pub cursor: u64,
    pub seq: u64,
    pub timestamp: String,
    pub plan: String,
    #[schema(example = "TASK_COMPLETED")]
    pub event: String,
    pub task_id: Option<u32>,
    pub task_name: Option<String>,
    #[schema(value_type = Object)]
    pub details: Value,
    pub prev: String,
    pub hash: String,
}

impl EventView {
    pub fn of(at: Cursor, sealed: &SealedEvent) -> Self {
        Self {
            cursor: at.0,
            seq: sealed.seq,
            timestamp: sealed.at.to_string(),
            plan: sealed.plan.0.clone(),
            event: sealed.name.clone(),
            task_id: sealed.step.map(|step| step.0),
            task_name: sealed.task_name.clone(),
            details: serde_json::from_str(&sealed.details).unwrap_or_default(),
            prev: sealed.prev.to_string(),
            hash: sealed.hash.to_string(),
        }
    }
}
