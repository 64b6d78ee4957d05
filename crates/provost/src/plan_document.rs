//! The JSON document of one plan for `status` and `show`: the read model, which the API answers too.
//!
//! A few keys are older than the read model and keep their meaning here: `waiting`, `cost.wall_ms`, and of a
//! step `needs`, `attempts` and `verdict`. They replace the key of the view with the same name, and the view
//! has the value of the API under another key: `waiting_items`, `depends_on`, `attempt_count`.

use provost_core::model::plan::Needs;
use provost_core::model::verdict::{Excerpt, Verdict};
use provost_core::rules::inbox::InboxItem;
use provost_core::state::run::Run;
use provost_engine::observe::inbox;
use provost_engine::observe::overview::PlanSnapshot;
use provost_engine::observe::view::{CostView, InboxItemView, PlanView, StepView, VerdictView};
use provost_engine::plan::harness::Harness;
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal;

/// An open plan and what is shown of it.
pub(crate) struct ShownPlan {
    pub seen: PlanSnapshot,
    pub items: Vec<InboxItem>,
    pub view: PlanView,
}

impl ShownPlan {
    /// Reads what waits; a plan file that differs from the log has no open items yet.
    pub(crate) fn of(harness: &Harness, run: Run, changed: bool) -> Result<Self, Failure> {
        let items = if changed { Vec::new() } else { inbox::plan_items(harness, &run)? };
        let patience = harness.config().gate.remind_after;
        let overdue =
            |item: &InboxItem| patience.is_some_and(|after| item.reminder(terminal::now(), after).is_some());
        let waiting = items.iter().map(|item| InboxItemView::of(item, Some(overdue(item)))).collect();
        let seen = PlanSnapshot::of_harness(harness, run, items.len());
        let view = PlanView { changed: Some(changed), ..PlanView::of(&seen, &[], waiting) };
        Ok(Self { seen, items, view })
    }

    pub(crate) fn document(&self) -> PlanDocument<'_> {
        let steps = self.view.steps.iter().zip(self.seen.run.steps());
        PlanDocument {
            view: &self.view,
            steps: steps
                .map(|(view, (step, state))| StepDocument {
                    view,
                    needs: match &step.needs {
                        Needs::Before => None,
                        Needs::Steps(_) => Some(&view.depends_on),
                    },
                    attempts: state.attempts,
                    verdict: view.verdict.as_ref().zip(state.verdict.as_ref()).map(|(view, recorded)| {
                        let (stdout, stderr) = (&recorded.stdout, &recorded.stderr);
                        VerdictDocument { view, recorded, stdout, stderr }
                    }),
                })
                .collect(),
            waiting: &self.view.waiting_items,
            cost: CostDocument { view: &self.view.card.cost, wall_ms: self.seen.run.ledger.cost().wall_ms },
        }
    }
}

#[derive(Serialize)]
pub(crate) struct PlanDocument<'v> {
    #[serde(flatten)]
    view: &'v PlanView,
    steps: Vec<StepDocument<'v>>,
    waiting: &'v [InboxItemView],
    cost: CostDocument<'v>,
}

#[derive(Serialize)]
struct StepDocument<'v> {
    #[serde(flatten)]
    view: &'v StepView,
    /// `None` if the plan names none: every step before it.
    needs: Option<&'v [u32]>,
    attempts: u32,
    verdict: Option<VerdictDocument<'v>>,
}

/// The verdict as it is in the log, with the words of the view.
#[derive(Serialize)]
struct VerdictDocument<'v> {
    #[serde(flatten)]
    view: &'v VerdictView,
    #[serde(flatten)]
    recorded: &'v Verdict,
    stdout: &'v Excerpt,
    stderr: &'v Excerpt,
}

#[derive(Serialize)]
struct CostDocument<'v> {
    #[serde(flatten)]
    view: &'v CostView,
    wall_ms: u64,
}
