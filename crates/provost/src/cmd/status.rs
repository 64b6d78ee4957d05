use provost_core::run::{PostState, Run, StepState};
use provost_engine::harness::Access;
use serde_json::{Value, json};

use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Where the plan stands, by the log
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost status                      the active plan
  provost status PLAN.md --json       for programs")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let (run, changed) = harness.preview()?;
    if global.json {
        terminal::print(&format!("{}\n", as_json(harness.id().0.as_str(), &run, changed)))?;
        return Ok(Outcome::Done);
    }
    let (done, total) = run.progress();
    let mut text = format!("{}: {} · {done}/{total} steps\n", run.plan.title, run.stage.word());
    if let Some(from) = run.forged_from {
        text.push_str(&format!(
            "the log was written by somebody else from event {from} on: what follows is only what was known before; `provost audit` says more\n"
        ));
    }
    if changed {
        text.push_str("the plan file has changed since the log last saw it\n");
    }
    for (step, state) in run.steps() {
        let mark = run.mark(step.number).map_or("·", |mark| mark.symbol());
        let verdict = state.verdict.as_ref().map(|verdict| format!(" · {}", verdict.outcome));
        let attempts = match state.attempts {
            0 => String::new(),
            1 => " · 1 attempt".to_owned(),
            n => format!(" · {n} attempts"),
        };
        let wait = state.wait.map(|wait| format!(" · not tried again before {}", wait.until));
        text.push_str(&format!(
            "[Step {}/{total}] {mark} {}{attempts}{}{}\n",
            step.number,
            step.title,
            verdict.unwrap_or_default(),
            wait.unwrap_or_default()
        ));
    }
    for item in waiting(&run) {
        text.push_str(&format!("waits for a person: {}\n", item["reason"].as_str().unwrap_or_default()));
        text.push_str(&format!("  {}\n", item["next"].as_str().unwrap_or_default()));
    }
    terminal::print(&text)?;
    Ok(Outcome::Done)
}

fn as_json(plan: &str, run: &Run, changed: bool) -> Value {
    let (done, total) = run.progress();
    let steps: Vec<Value> = run
        .steps()
        .map(|(step, state)| {
            json!({
                "number": step.number,
                "title": step.title,
                "state": run.state_word(step.number),
                "attempts": state.attempts,
                "verdict": state.verdict,
                "claim": state.claim,
                "not_before": state.wait.map(|wait| wait.until),
            })
        })
        .collect();
    json!({
        "plan": plan,
        "stage": run.stage.word(),
        "revision": run.revision,
        "changed": changed,
        "forged_from": run.forged_from,
        "done": done,
        "total": total,
        "steps": steps,
        "waiting": waiting(run),
        // Nothing counts tokens or money yet; null is not zero.
        "cost": { "tokens": null, "usd": null },
    })
}

/// Everything that waits for a person, with the command that answers it.
fn waiting(run: &Run) -> Vec<Value> {
    use provost_core::run::Stage;
    let mut items = Vec::new();
    if run.stage == Stage::Verified {
        let reason = match &run.question {
            Some(question) => format!("a question is open: {question}"),
            None => "the plan is not approved".to_owned(),
        };
        let next = format!("provost approve --revision {}", run.revision.short());
        items.push(json!({ "step": null, "reason": reason, "next": next }));
    }
    for (step, state) in run.steps() {
        match &state.state {
            StepState::Blocked { reason } => items.push(json!({
                "step": step.number,
                "reason": reason,
                "next": format!("provost answer {} retry|skip|abort|revise", step.number),
            })),
            StepState::Ended { .. } if run.confirmed_by_person(step.number) => items.push(json!({
                "step": step.number,
                "reason": "a person confirms this step",
                "next": format!("provost answer {} confirm|retry|skip|abort", step.number),
            })),
            StepState::Pending
            | StepState::Running { .. }
            | StepState::Ended { .. }
            | StepState::Passed
            | StepState::Failed
            | StepState::Waived { .. } => {}
        }
    }
    for (post, state) in run.postconditions() {
        if let PostState::Broke(verdict) = state {
            items.push(json!({
                "step": null,
                "reason": format!("postcondition {} {}", post.number, verdict.outcome),
                "next": "provost answer post retry|revise",
            }));
        }
    }
    items
}
