use provost_engine::observe::agenda::{self, PlanEntry};
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// Show which process works on which plan, since when, and the last event
///
/// Lists the plans of the repository that a process works on, on this machine or, if plans are in a shared
/// folder, on another. Changes nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost queue                       plans that a process works on
  provost queue --idle                all plans
  provost queue --json                for programs")]
pub(super) struct Args {
    /// Include plans that no process works on
    #[arg(long, alias = "all", short_alias = 'a')]
    idle: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let plans = agenda::read(&global.settings(None)?)?;
    let is_shown = |plan: &&PlanEntry| args.idle || plan.holder.is_some() || plan.lease.is_some();
    let shown: Vec<&PlanEntry> = plans.listed.iter().filter(is_shown).collect();
    if global.json {
        let all: Vec<Value> = shown.iter().map(|plan| as_json(plan)).collect();
        terminal::print(&format!("{}\n", json!({ "queue": all })))?;
        return Ok(Outcome::Done);
    }
    if shown.is_empty() {
        terminal::talk("no process works on a plan");
        return Ok(Outcome::Done);
    }
    let rows: Vec<Vec<String>> = shown.iter().map(|plan| row(plan)).collect();
    terminal::print(&table::lines(&["PLAN", "STEP", "ROLE", "SINCE", "WHO", "LAST"], &rows))?;
    Ok(Outcome::Done)
}

fn row(plan: &PlanEntry) -> Vec<String> {
    let lease = plan.lease.as_ref();
    let steps: Vec<String> = plan.running_steps.iter().map(|work| work.step.to_string()).collect();
    let roles: Vec<&str> = plan.running_steps.iter().map(|work| work.role.as_str()).collect();
    let (who, since) = match (&plan.holder, lease) {
        (Some(holder), _) => (format!("{}@{}", holder.pid, holder.host), terminal::age(holder.since)),
        (None, Some(lease)) => {
            let late = if lease.is_stale { " (stale)" } else { "" };
            (format!("{}@{}{late}", lease.pid, lease.host), terminal::age(lease.since))
        }
        (None, None) => ("-".to_owned(), "-".to_owned()),
    };
    let last = plan.last.as_ref().map(|last| format!("{} {}", last.event, terminal::age(last.at)));
    vec![
        plan.card.name.clone(),
        if steps.is_empty() { "-".to_owned() } else { format!("{} of {}", steps.join(","), plan.card.total) },
        roles.join(","),
        since,
        who,
        last.unwrap_or_default(),
    ]
}

fn as_json(plan: &PlanEntry) -> Value {
    let lease = plan.lease.as_ref();
    let steps: Vec<Value> = plan
        .running_steps
        .iter()
        .map(|work| json!({ "number": work.step, "title": work.title, "role": work.role }))
        .collect();
    json!({
        "plan": plan.card.id,
        "name": plan.card.name,
        "stage": plan.card.stage,
        "steps": steps,
        "holder": plan.holder.as_ref().map(|holder| json!({
            "pid": holder.pid, "host": holder.host, "what": holder.what, "since": holder.since.to_string(),
        })),
        "lease": lease.map(|lease| json!({
            "pid": lease.pid, "host": lease.host, "since": lease.since.to_string(),
            "until": lease.until.to_string(), "epoch": lease.epoch, "stale": lease.is_stale,
        })),
        "last": plan.last.as_ref().map(|last| json!({ "event": last.event, "at": last.at.to_string() })),
    })
}
