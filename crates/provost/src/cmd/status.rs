use provost_core::model::pass::Pass;
use provost_core::state::run::Stage;
use provost_core::text::render;
use provost_engine::observe::inbox;
use provost_engine::observe::view::{PlanState, StepView};
use provost_engine::plan::recording;
use provost_engine::settings::Access;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::plan_document::ShownPlan;
use crate::{hints, terminal};

/// Show the state of the plan, from the log
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost status                      the active plan
  provost status PLAN.md --json       for programs")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let (run, changed) = recording::preview(&harness)?;
    crate::open_plan::is_a_plan(&harness, &run)?;
    if !changed {
        recording::catch_up_marks(&harness, &run);
    }
    let shown = ShownPlan::of(&harness, run, changed)?;
    if global.json {
        terminal::print_json(&shown.document())?;
        return Ok(Outcome::Done);
    }
    let (run, card) = (&shown.seen.run, &shown.view.card);
    let landed = card.landed.as_ref().map(|target| format!(", landed on {target}")).unwrap_or_default();
    let weaker = card.weaker.as_ref().map(|weaker| format!(" · {weaker}")).unwrap_or_default();
    let state = terminal::state_word(card.state);
    let mut text = format!("{}: {state}{landed} · {} steps{weaker}\n", card.title, card.progress());
    text.push_str(&hints::complete(what_next(card.state, card.stage)));
    if let Some(from) = card.forged_from {
        text.push_str(&format!(
            "another program wrote to the log from event {from} on: this is the state before that event; see `provost audit`\n"
        ));
    }
    if changed && harness.run()?.exists() {
        text.push_str("the plan file has changed since the log recorded it\n");
    } else if changed {
        text.push_str(&hints::complete("the plan is not in the log yet; check it with `provost verify`\n"));
    }
    text.extend(card.cost.line().map(|line| format!("{line}\n")));
    let is_over = |number| run.step(number).is_some_and(|step| step.state.is_settled());
    let lanes = render::graph::lanes(&run.plan, is_over).unwrap_or_default();
    for (at, step) in shown.view.steps.iter().enumerate() {
        let lane = lanes.get(at).map(|lane| format!("{lane}  ")).unwrap_or_default();
        text.push_str(&format!("{lane}{}\n", terminal::step_line(step, &line(step, card.total))));
    }
    for post in shown.view.postconditions.iter().filter(|_| run.all_settled()) {
        text.push_str(&format!(
            "[Postcondition {}] {} {} · {}\n",
            post.number,
            post.mark,
            post.description.trim(),
            post.word
        ));
    }
    for line in run.uncontrolled_lines() {
        text.push_str(&format!("{line}\n"));
    }
    for (item, view) in shown.items.iter().zip(&shown.view.waiting_items) {
        let late = if view.overdue == Some(true) { "overdue, " } else { "" };
        let id = inbox::name_of(&harness, item);
        text.push_str(&format!("waiting for you ({late}since {}): {}\n", view.since, view.reason));
        let how = format!("  `provost inbox {id}` shows more\n  {}\n", item.how(&id));
        text.push_str(&hints::complete(&how));
    }
    waits(global, &harness.id().to_string()).iter().for_each(|line| text.push_str(&format!("{line}\n")));
    terminal::print(&text)?;
    Ok(Outcome::Done)
}

/// Returns the line that says how to continue a plan that no process works on.
fn what_next(state: PlanState, stage: Stage) -> &'static str {
    match (state, stage) {
        (PlanState::Idle, Stage::Approved) => "no process runs it: `provost run` starts it\n",
        (PlanState::Idle, _) => "no process runs it: `provost run` continues it\n",
        _ => "",
    }
}

/// Returns a step with its attempts, its verdict and what keeps it.
fn line(step: &StepView, total: u32) -> String {
    let verdict = step.verdict.as_ref();
    let outcome = match step.pass {
        Some(Pass::Judged) | None => verdict.map(|verdict| match &verdict.judged_by {
            Some(by) => format!(" · {}, {by}", verdict.words),
            None => format!(" · {}", verdict.words),
        }),
        Some(pass) => Some(format!(" · {pass}")),
    };
    let uncontrolled = if step.uncontrolled.is_some() { " · uncontrolled" } else { "" };
    let remarks: String =
        verdict.iter().flat_map(|verdict| &verdict.remarks).map(|remark| format!(" · {remark}")).collect();
    let results = verdict.and_then(|verdict| verdict.test_results.as_ref());
    let tests: String = results
        .filter(|results| results.has_changes())
        .map(|results| format!(" · tests: {}", results.counts()))
        .into_iter()
        .collect();
    let attempts = match step.attempt_count {
        0 => String::new(),
        1 => " · 1 attempt".to_owned(),
        n => format!(" · {n} attempts"),
    };
    let waived = step.waived_by.as_ref().map(|by| format!(" · waived by {by}")).unwrap_or_default();
    let plan = step.plan.as_ref().map(|plan| format!(" · sub-plan {plan}")).unwrap_or_default();
    let wait = step.not_before.map(|until| format!(" · not tried again before {until}"));
    format!(
        "[Step {}/{total}] {} {}{plan}{attempts}{}{uncontrolled}{tests}{remarks}{waived}{}",
        step.number,
        step.symbol(),
        step.title,
        outcome.unwrap_or_default(),
        wait.unwrap_or_default()
    )
}

/// Returns what of the plan waits for a worker of the cluster. The log cannot say: an attempt is in it from the
/// moment it is offered.
#[cfg(feature = "cluster")]
fn waits(global: &Global, plan: &str) -> Vec<String> {
    let Ok(settings) = global.settings(None) else { return Vec::new() };
    let view = provost_dbos::status::ClusterView::open(&settings);
    let lines = view.and_then(|view| view.waits(plan)).unwrap_or_default();
    lines.iter().map(|line| crate::visible_text::line(line)).collect()
}

#[cfg(not(feature = "cluster"))]
fn waits(_global: &Global, _plan: &str) -> Vec<String> {
    Vec::new()
}
