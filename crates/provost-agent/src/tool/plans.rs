//! The plan tools. The model can change its plan only through them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Tool;
use crate::call_log::CallLog;
use crate::plan_state::PlanHolder;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanCreate {
    /// One sentence: what you are trying to accomplish.
    objective: String,
    /// In order; each a specific, actionable item, not a vague intent.
    steps: Vec<String>,
    /// What must be true when you declare the task complete, such as "file X exists and contains Y".
    postconditions: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanShow {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepUpdate {
    /// Number of the step in plan_show, from 1.
    step_number: u64,
    /// One of: pending, in_progress, done, blocked.
    status: String,
    /// Required for done: one sentence that proves it; cite a tool's answer as call:N. For blocked: the reason.
    #[serde(default)]
    evidence: String,
    /// Anything else worth keeping.
    #[serde(default)]
    notes: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PostconditionVerify {
    /// Number of the postcondition in plan_show, from 1.
    postcondition_number: u64,
    /// Required: concrete proof that it holds; cite a tool's answer as call:N.
    evidence: String,
    /// Set only when it cannot be made true; evidence is then the reason, and the task ends as blocked.
    #[serde(default)]
    unmet: bool,
}

pub fn tools(holder: &PlanHolder, ledger: &CallLog) -> Vec<Tool> {
    let (create, show, update, verify) = (holder.clone(), holder.clone(), holder.clone(), holder.clone());
    let (update_ledger, verify_ledger) = (ledger.clone(), ledger.clone());
    let said =
        |words: Result<String, crate::plan_state::PlanRefusal>| words.map_err(|refusal| refusal.to_string());
    vec![
        Tool::new(
            "plan_create",
            "Creates or replaces the plan. Call it once before beginning any task of several parts. If the plan \
             turns out wrong, call it again: the rewrite is recorded.",
            move |ask: PlanCreate| {
                std::future::ready(said(create.create(ask.objective, ask.steps, ask.postconditions)))
            },
        ),
        Tool::new(
            "plan_show",
            "Shows the plan and the state of each part. Use it to find your way again; the \
             plan is never lost.",
            move |_: PlanShow| std::future::ready(said(show.render())),
        )
        .reading_only(),
        Tool::new(
            "step_update",
            "Records the state of a step. `done` needs evidence, `blocked` a reason.",
            {
                move |ask: StepUpdate| {
                    let (holder, ledger) = (update.clone(), update_ledger.clone());
                    async move {
                        let StepUpdate { step_number, status, evidence, notes } = ask;
                        said(holder.update_step(&ledger, step_number, &status, evidence, notes).await)
                    }
                }
            },
        ),
        Tool::new(
            "postcondition_verify",
            "Marks a postcondition as verified. A final answer is refused while one is not. Needs evidence.",
            move |ask: PostconditionVerify| {
                let (holder, ledger) = (verify.clone(), verify_ledger.clone());
                async move {
                    let PostconditionVerify { postcondition_number: number, evidence, unmet } = ask;
                    said(holder.verify_postcondition(&ledger, number, evidence, unmet).await)
                }
            },
        ),
    ]
}
