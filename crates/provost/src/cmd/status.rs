use provost_core::model::pass::Pass;
use provost_core::model::plan::Needs;
use provost_core::model::usage::{Cost, Resource};
use provost_core::model::verdict::Verdict;
use provost_core::rules::budget;
use provost_core::rules::inbox::{self, InboxItem};
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::{PostState, Run, StepState};
use provost_core::text::render;
use provost_engine::plan::recording;
use provost_engine::settings::Access;
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Show the state of the plan, from the log
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost status                      the active plan
  provost status PLAN.md --json       for programs")]
pub struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let (run, changed) = recording::preview(&harness)?;
    crate::open_plan::is_a_plan(&harness, &run)?;
    if !changed {
        recording::catch_up_marks(&harness, &run);
    }
    let items =
        if changed { Vec::new() } else { provost_engine::observe::inbox::plan_items(&harness, &run)? };
    let patience = harness.config().gate.remind_after;
    let overdue =
        |item: &InboxItem| patience.is_some_and(|after| item.reminder(terminal::now(), after).is_some());
    if global.json {
        let waiting: Vec<Value> = items.iter().map(|item| waits(item, overdue(item))).collect();
        terminal::print(&format!("{}\n", as_json(harness.id().0.as_str(), &run, changed, &waiting)))?;
        return Ok(Outcome::Done);
    }
    let (done, total) = run.progress();
    let landed =
        run.landed.as_ref().map(|landed| format!(", landed on {}", landed.target)).unwrap_or_default();
    let weaker = run.weaker_passes().map(|weaker| format!(" · {weaker}")).unwrap_or_default();
    let mut text =
        format!("{}: {}{landed} · {done}/{total} steps{weaker}\n", run.plan.title, run.stage.word());
    if let Some(from) = run.forged_from {
        text.push_str(&format!(
            "another program wrote to the log from event {from} on: this is the state before that event; see `provost audit`\n"
        ));
    }
    if changed && harness.run()?.exists() {
        text.push_str("the plan file has changed since the log recorded it\n");
    } else if changed {
        text.push_str("the plan is not in the log yet; check it with `provost verify`\n");
    }
    text.push_str(&money(&run));
    let is_over = |number| run.step(number).is_some_and(|step| step.state.is_settled());
    let lanes = render::graph::lanes(&run.plan, is_over).unwrap_or_default();
    for (at, (step, state)) in run.steps().enumerate() {
        let lane = lanes.get(at).map(|lane| format!("{lane}  ")).unwrap_or_default();
        let mark = run.mark(step.number).map_or("·", |mark| mark.symbol());
        let verdict = state.verdict.as_ref().map(|verdict| match &verdict.judged {
            Some(judgement) => format!(" · {}, {}", verdict.outcome, judgement.by()),
            None => format!(" · {}", verdict.outcome),
        });
        let verdict = match run.pass(step.number) {
            Some(Pass::Judged) | None => verdict,
            Some(pass) => Some(format!(" · {pass}")),
        };
        let uncontrolled = if state.is_uncontrolled() { " · uncontrolled" } else { "" };
        let remarks = state.verdict.iter().flat_map(Verdict::remarks);
        let remarks: String = remarks.map(|remark| format!(" · {remark}")).collect();
        let attempts = match state.attempts {
            0 => String::new(),
            1 => " · 1 attempt".to_owned(),
            n => format!(" · {n} attempts"),
        };
        let waived = match &state.state {
            StepState::Waived { by } => format!(" · waived by {by}"),
            _ => String::new(),
        };
        let plan = step.carried_by().map(|plan| format!(" · sub-plan {plan}")).unwrap_or_default();
        let wait = state.wait.map(|wait| format!(" · not tried again before {}", wait.until));
        text.push_str(&format!(
            "{lane}[Step {}/{total}] {mark} {}{plan}{attempts}{}{uncontrolled}{remarks}{waived}{}\n",
            step.number,
            step.title,
            verdict.unwrap_or_default(),
            wait.unwrap_or_default()
        ));
    }
    for (post, _) in run.postconditions().filter(|_| run.all_settled()) {
        let (mark, word) = run.post_mark(post.number);
        text.push_str(&format!(
            "[Postcondition {}] {mark} {} · {word}\n",
            post.number,
            post.description.trim()
        ));
    }
    for line in run.uncontrolled_lines() {
        text.push_str(&format!("{line}\n"));
    }
    for item in &items {
        let late = if overdue(item) { "overdue, " } else { "" };
        let id = inbox::short(&items, item);
        text.push_str(&format!("waits for a person ({late}since {}): {}\n", item.since, item.reason));
        text.push_str(&format!("  {}; `provost inbox {id}` shows more\n", next(item)));
    }
    terminal::print(&text)?;
    Ok(Outcome::Done)
}

fn as_json(plan: &str, run: &Run, changed: bool, waiting: &[Value]) -> Value {
    let (done, total) = run.progress();
    let steps: Vec<Value> = run
        .steps()
        .map(|(step, state)| {
            json!({
                "number": step.number,
                "title": step.title,
                "needs": needs(&step.needs),
                "plan": step.carried_by(),
                "state": run.state_word(step.number),
                "pass": run.pass(step.number),
                "guard": step.is_guard(),
                "attempts": state.attempts,
                "verdict": state.verdict,
                "claim": state.claim,
                "waived_by": match &state.state {
                    StepState::Waived { by } => Some(by),
                    _ => None,
                },
                "not_before": state.wait.map(|wait| wait.until),
                "cost": step_cost(run.ledger.cost_of(step.number)),
            })
        })
        .collect();
    json!({
        "plan": plan,
        "stage": run.stage.word(),
        "landed": run.landed.as_ref().map(|landed| &landed.target),
        "revision": run.revision,
        "approvals": ApprovalCount::of(run),
        "changed": changed,
        "forged_from": run.forged_from,
        "done": done,
        "total": total,
        "weaker": run.weaker_passes(),
        "steps": steps,
        "postconditions": postconditions(run),
        "waiting": waiting,
        "cost": cost_as_json(run),
    })
}

fn postconditions(run: &Run) -> Vec<Value> {
    let all = run.plan.postconditions.iter();
    let told = all.map(|post| {
        json!({
            "number": post.number,
            "description": post.description,
            "state": match run.postcondition(post.number) {
                Some(PostState::Held(_)) => "held",
                Some(PostState::Broke(_)) => "broke",
                Some(PostState::Open) | None => "open",
            },
            "pass": run.post_pass(post.number),
            "uncontrolled": run.post_uncontrolled(post.number),
        })
    });
    told.collect()
}

/// Null where nothing was said: every step before it.
fn needs(needs: &Needs) -> Value {
    match needs {
        Needs::Before => Value::Null,
        Needs::Steps(steps) => steps.iter().map(|step| json!(step.value)).collect(),
    }
}

/// Returns the cost so far and the budget.
fn money(run: &Run) -> String {
    let (cost, limits) = (run.ledger.cost(), budget::of_plan(run));
    if cost.is_none() && limits.is_empty() {
        return String::new();
    }
    let of = if limits.is_empty() { String::new() } else { format!(" · budget {limits}") };
    let unknown = match cost.unknown {
        0 => String::new(),
        1 => " (1 attempt reported its usage incompletely)".to_owned(),
        n => format!(" ({n} attempts reported their usage incompletely)"),
    };
    format!("cost: {cost}{unknown}{of}\n")
}

fn step_cost(cost: Cost) -> Value {
    let usd = cost.micro_usd.map(|micro| micro as f64 / 1e6);
    json!({ "tokens": cost.tokens, "usd": usd, "agent_ms": cost.wall_ms })
}

/// Null is unknown, and unknown is not zero.
fn cost_as_json(run: &Run) -> Value {
    let cost = run.ledger.cost();
    let limits = budget::of_plan(run);
    let usd = |micro: Option<u64>| micro.map(|micro| micro as f64 / 1e6);
    let known = |resource| run.ledger.known(resource);
    json!({
        "tokens": cost.tokens,
        "usd": usd(cost.micro_usd),
        "wall_ms": cost.wall_ms,
        "unknown_attempts": cost.unknown,
        "at_least": { "tokens": known(Resource::Tokens), "usd": usd(Some(known(Resource::Usd))) },
        "limit": { "tokens": limits.tokens, "usd": usd(limits.micro_usd), "wall_ms": limits.wall_ms },
    })
}

fn waits(item: &InboxItem, overdue: bool) -> Value {
    json!({
        "id": item.id,
        "kind": item.kind,
        "step": item.step,
        "reason": item.reason,
        "since": item.since,
        "overdue": overdue,
        "next": next(item),
    })
}

/// The command that answers it.
fn next(item: &InboxItem) -> String {
    match (item.kind, item.step) {
        (kind, _) if kind.is_at_gate() => {
            item.choices.first().map(|offer| offer.command.clone()).unwrap_or_default()
        }
        (_, step) => {
            let choices: Vec<&str> = item.choices.iter().map(|offer| offer.choice).collect();
            let what = step.map_or("post".to_owned(), |step| step.to_string());
            let raise = item.choices.first().and_then(|offer| offer.command.split_once(" --budget "));
            let raise = raise.map(|(_, enough)| format!(" [--budget {enough}]")).unwrap_or_default();
            format!("provost answer {what} {}{raise}", choices.join("|"))
        }
    }
}
