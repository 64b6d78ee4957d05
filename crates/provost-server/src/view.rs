//! Defines what is shown of a plan, to programs as JSON and to people on pages.
//!
//! **Invariant:** programs rely on these fields: new ones may be added, none is renamed or removed.

mod gate;
mod machine;
mod plan;

use provost_core::model::chain::SealedEvent;
use provost_core::model::usage::Resource;
use provost_core::rules::budget;
use provost_core::rules::inbox::InboxItem;
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::Run;
use provost_engine::Cursor;
use provost_engine::observe::overview::PlanSnapshot;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

pub use gate::{GateView, IntentView, UncommittedView};
pub use machine::{Machine, MachineCache};
pub use plan::{AttemptView, CheckView, PlanView, PostconditionView, StepView, VerdictView};

/// A plan in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Card)]
pub struct PlanCard {
    /// Its identifier in the log, for ever.
    #[schema(example = "fix-auth-3fa9c1d2")]
    pub id: String,
    /// What people call it.
    pub name: String,
    pub title: String,
    #[schema(example = "in-progress")]
    pub stage: String,
    pub revision: String,
    /// Steps that are over, of all.
    pub done: u32,
    pub total: u32,
    /// Steps that passed in a weaker way, in words: `1 held before`.
    pub weaker: Option<String>,
    /// How many things of it wait for a person.
    pub waiting: usize,
    pub cost: CostView,
    pub begun: String,
    pub moved: String,
    pub approved_by: Option<String>,
    pub approvals: ApprovalsView,
    /// The step that is worked on, or was last.
    pub at_work: Vec<u32>,
    /// Why its log is not believed, where it is not.
    pub trouble: Option<String>,
    pub path: Option<String>,
}

/// How far the approvals of the revision have come.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Approvals)]
pub struct ApprovalsView {
    pub needed: u32,
    /// Who has approved it.
    pub given: Vec<String>,
    pub missing: u32,
    /// Whoever wrote it may be one of them.
    pub self_approval: bool,
    /// Who wrote it, as far as the log knows.
    pub author: Option<String>,
    /// In words, where somebody is still needed and not anybody will do.
    pub words: Option<String>,
}

impl ApprovalsView {
    pub fn of(run: &Run) -> Self {
        let ApprovalCount { needed, given, missing, self_approval, author } = ApprovalCount::of(run);
        Self { needed, given, missing, self_approval, author, words: ApprovalCount::open(run) }
    }
}

/// What it took so far, against what it may. What nobody counted is null, which is not zero.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = Cost)]
pub struct CostView {
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub wall_ms: Option<u64>,
    pub limit_tokens: Option<u64>,
    pub limit_usd: Option<f64>,
    pub limit_wall_ms: Option<u64>,
}

impl CostView {
    fn of(seen: &PlanSnapshot) -> Self {
        let (cost, limits) = (seen.run.ledger.cost(), budget::of_plan(&seen.run));
        let usd = |micro: Option<u64>| micro.map(|micro| micro as f64 / 1e6);
        Self {
            tokens: cost.tokens,
            usd: usd(cost.micro_usd),
            wall_ms: (cost.wall_ms > 0).then_some(cost.wall_ms),
            limit_tokens: limits.tokens,
            limit_usd: usd(limits.micro_usd),
            limit_wall_ms: limits.wall_ms,
        }
    }

    /// In one line, for people.
    pub fn words(&self) -> String {
        let of = |used: Option<u64>, limit: Option<u64>, resource: Resource| {
            let used = used.map(|used| resource.say(used));
            match (used, limit.map(|limit| resource.say(limit))) {
                (Some(used), Some(limit)) => Some(format!("{used} of {limit}")),
                (Some(used), None) => Some(used),
                (None, Some(limit)) => Some(format!("unknown of {limit}")),
                (None, None) => None,
            }
        };
        let micro = |usd: Option<f64>| usd.map(|usd| (usd * 1e6) as u64);
        let parts = [
            of(micro(self.usd), micro(self.limit_usd), Resource::Usd),
            of(self.tokens, self.limit_tokens, Resource::Tokens),
            of(self.wall_ms, self.limit_wall_ms, Resource::WallClock),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

impl PlanCard {
    pub fn of(seen: &PlanSnapshot) -> Self {
        let run = &seen.run;
        let (done, total) = run.progress();
        let forged =
            run.forged_from.map(|from| format!("another program wrote to its log from event {from} on"));
        Self {
            id: seen.id.0.clone(),
            name: seen.name().to_owned(),
            title: run.plan.title.clone(),
            stage: run.stage.word().to_owned(),
            revision: run.revision.0.clone(),
            done,
            total,
            weaker: run.weaker_passes(),
            waiting: seen.waiting,
            cost: CostView::of(seen),
            begun: seen.begun.to_string(),
            moved: seen.moved.to_string(),
            approved_by: run.approvers(),
            approvals: ApprovalsView::of(run),
            at_work: run.under_way().map(|step| step.0).collect(),
            trouble: seen.trouble.clone().or(forged),
            path: seen.place.as_ref().map(|place| place.path.display().to_string()),
        }
    }
}

/// Something that waits for a person.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Waiting)]
pub struct InboxItemView {
    #[schema(example = "fix-auth-3fa9c1d2:e12")]
    pub id: String,
    pub plan: String,
    pub name: String,
    pub title: String,
    #[schema(example = "escalation")]
    pub kind: String,
    pub step: Option<u32>,
    pub step_title: Option<String>,
    pub since: String,
    pub reason: String,
    /// What was tried and seen, for whoever decides.
    #[schema(value_type = Object)]
    pub context: Value,
    pub choices: Vec<ChoiceView>,
}

/// What can be answered, and what that does.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Choice)]
pub struct ChoiceView {
    pub choice: String,
    pub does: String,
    /// The same on a command line.
    pub command: String,
}

impl From<&InboxItem> for InboxItemView {
    fn from(item: &InboxItem) -> Self {
        Self {
            id: item.id.to_string(),
            plan: item.plan.0.clone(),
            name: item.name.clone(),
            title: item.title.clone(),
            kind: item.kind.word().to_owned(),
            step: item.step.map(|step| step.0),
            step_title: item.step_title.clone(),
            since: item.since.to_string(),
            reason: item.reason.clone(),
            context: serde_json::to_value(&item.context).unwrap_or_default(),
            choices: item
                .choices
                .iter()
                .map(|offer| ChoiceView {
                    choice: offer.choice.to_owned(),
                    does: offer.does.to_owned(),
                    command: offer.command.clone(),
                })
                .collect(),
        }
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
