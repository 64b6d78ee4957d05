//! The state of a plan in one word, for lists, pages and programs.

use provost_core::rules::schedule::{self, InHand};
use provost_core::state::run::{Run, Stage};
use serde::Serialize;
use utoipa::ToSchema;

use crate::plan::plan_context;

/// State of a plan, as a person asks for it: does it run, and who has to act? The stage says how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// Its text is not verified, or it was sent back.
    Draft,
    /// Nothing continues before a person has approved or answered.
    WaitingForYou,
    /// A run or an agent's client works on it.
    Running,
    /// It is approved and can continue, but no process works on it.
    Idle,
    Done,
    Failed,
}

impl PlanState {
    pub const ALL: [PlanState; 6] = [
        PlanState::Draft,
        PlanState::WaitingForYou,
        PlanState::Running,
        PlanState::Idle,
        PlanState::Done,
        PlanState::Failed,
    ];

    pub fn of(run: &Run, is_worked_on: bool) -> Self {
        match run.stage {
            Stage::Draft => PlanState::Draft,
            Stage::Verified => PlanState::WaitingForYou,
            Stage::Done => PlanState::Done,
            Stage::Failed => PlanState::Failed,
            Stage::Approved | Stage::InProgress if asks_a_person(run) => PlanState::WaitingForYou,
            Stage::Approved | Stage::InProgress if is_worked_on => PlanState::Running,
            Stage::Approved | Stage::InProgress if run.law_changed.is_some() => PlanState::WaitingForYou,
            Stage::Approved | Stage::InProgress => PlanState::Idle,
        }
    }

    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            PlanState::Draft => "draft",
            PlanState::WaitingForYou => "waiting for you",
            PlanState::Running => "running",
            PlanState::Idle => "idle",
            PlanState::Done => "done",
            PlanState::Failed => "failed",
        }
    }
}

/// Returns whether the plan has started and nothing can be done before a person has answered.
pub(crate) fn asks_a_person(run: &Run) -> bool {
    let now = plan_context::now();
    matches!(run.stage, Stage::Approved | Stage::InProgress)
        && schedule::next(run, &InHand::default(), 1, now).is_empty()
        && schedule::wakes(run, now).is_none()
}
