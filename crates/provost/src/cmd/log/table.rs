//! Renders the summary as one JSON document. A sum with uncounted parts is `null`, and the known part is a
//! separate field.

use provost_core::text::summary::{AgentName, AgentRow, Effort, PartialSum, PlanRow, PlansSummary, StepRow};
use serde_json::{Value, json};

pub(super) fn json(summary: &PlansSummary) -> Value {
    json!({
        "plans": summary.plans.iter().map(plan).collect::<Vec<_>>(),
        "total": taken(&summary.total),
        "agents": summary.agents().into_iter().map(agent).collect::<Vec<_>>(),
    })
}

fn plan(row: &PlanRow) -> Value {
    json!({
        "plan": row.plan,
        "title": row.title,
        "stage": row.stage,
        "forged_from": row.forged_from,
        "steps": row.steps.iter().map(step).collect::<Vec<_>>(),
        "itself": taken(&row.itself),
        "total": taken(&row.total),
    })
}

fn step(row: &StepRow) -> Value {
    let mut value = taken(&row.taken);
    value["number"] = json!(row.number);
    value["title"] = json!(row.title);
    value["state"] = json!(row.state);
    value
}

fn taken(taken: &Effort) -> Value {
    json!({
        "attempts": taken.attempts,
        "failures": taken.classes,
        "recipes": taken.recipes,
        "agent_ms": taken.agent_ms,
        "check_ms": taken.check_ms,
        "person_ms": taken.person_ms,
        "pause_ms": taken.pause_ms,
        "tokens": sum(taken.tokens, |count| json!(count)),
        "usd": sum(taken.micro_usd, dollars),
    })
}

fn agent((agent, row): (&AgentName, &AgentRow)) -> Value {
    json!({
        "role": agent.role,
        "model": agent.model,
        "verified": row.verified,
        "attempts": row.attempts,
        "usd_per_verified": row.micro_usd_per_verified().map(dollars),
        "ms_per_verified": row.ms_per_verified(),
        "agent_ms": row.agent_ms,
        "tokens": sum(row.tokens, |count| json!(count)),
        "usd": sum(row.micro_usd, dollars),
    })
}

fn sum(sum: PartialSum, value: fn(u64) -> Value) -> Value {
    let nobody_counted = sum.counted == 0 && sum.uncounted > 0;
    json!({
        "total": sum.total().map(value),
        "at_least": (!nobody_counted).then(|| value(sum.known)),
        "uncounted_attempts": sum.uncounted,
    })
}

fn dollars(micro: u64) -> Value {
    json!(micro as f64 / 1_000_000.0)
}
