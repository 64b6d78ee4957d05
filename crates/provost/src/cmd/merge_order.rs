use std::collections::BTreeSet;

use provost_core::fleet::agenda::AgendaEntry;
use provost_engine::observe::agenda;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// Show the order in which plans are merged
///
/// A plan comes after the plans it depends on. Among the others, smaller changes come first (lines of the
/// branch `provost/NAME`, if it exists), then the order is by name.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost merge-order                 all plans
  provost merge-order --done          only done plans
  provost merge-order api auth ui     only these, in their order")]
pub(super) struct Args {
    /// Names of plans [default: all]
    plans: Vec<String>,
    /// Only plans that are done
    #[arg(long)]
    done: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    let mut plans = agenda::read(&settings)?;
    plans.measure(&settings);
    let wanted: BTreeSet<&str> = args.plans.iter().map(String::as_str).collect();
    if let Some(absent) = wanted.iter().find(|name| plans.agenda.get(name).is_none()) {
        return Err(Failure::usage(format!("there is no plan {absent}"), "`provost list` lists all plans."));
    }
    let order = match plans.agenda.merge_order() {
        Ok(order) => order,
        Err(problem) => {
            if global.json {
                terminal::print(&format!("{}\n", json!({ "order": [], "problems": [problem.to_string()] })))?;
            }
            terminal::talk(&format!("cannot order the plans: {problem}"));
            return Ok(Outcome::Diagnosed);
        }
    };
    let is_wanted = |entry: &&&AgendaEntry| {
        (wanted.is_empty() || wanted.contains(entry.name.as_str()))
            && (!args.done || entry.stage.word() == "done")
    };
    let order: Vec<&&AgendaEntry> = order.iter().filter(is_wanted).collect();
    if global.json {
        let all: Vec<Value> = order
            .iter()
            .map(|entry| {
                json!({
                    "name": entry.name, "stage": entry.stage.word(), "lines": entry.size,
                    "depends_on": entry.depends_on,
                })
            })
            .collect();
        terminal::print(&format!("{}\n", json!({ "order": all, "problems": [] })))?;
        return Ok(Outcome::Done);
    }
    let row = |(at, entry): (usize, &&&AgendaEntry)| {
        let lines = entry.size.map(|lines| lines.to_string()).unwrap_or_default();
        let after = entry.depends_on.join(", ");
        vec![(at + 1).to_string(), entry.name.clone(), entry.stage.word().to_owned(), lines, after]
    };
    let rows: Vec<Vec<String>> = order.iter().enumerate().map(row).collect();
    if rows.is_empty() {
        terminal::talk("no plan to merge");
        return Ok(Outcome::Done);
    }
    terminal::print(&table::lines(&["", "PLAN", "STAGE", "LINES", "AFTER"], &rows))?;
    Ok(Outcome::Done)
}
