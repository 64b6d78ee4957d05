use provost_engine::observe::versions;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::{queries, recording};
use provost_engine::settings::Access;
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Show the steps and contracts that changed between two revisions
///
/// Without revisions, compares the plan file with the last revision in the log.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost diff                        the file against the log
  provost diff PLAN.md approved       the file against the last approved revision
  provost diff PLAN.md 3fa2 91bc      one revision against another
  provost diff --list                 every revision, and who approved it")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Beginning of a revision, `approved`, or `now` for the current file
    from: Option<String>,
    /// Revision to compare with, in the same form [default: now]
    to: Option<String>,
    /// List the revisions instead
    #[arg(long, conflicts_with_all = ["from", "to"])]
    list: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    if args.list {
        return list(global, &harness);
    }
    let (from, to, changes) = match &args.from {
        Some(from) => {
            let (old, new) = (
                versions::version(&harness, from)?,
                versions::version(&harness, args.to.as_deref().unwrap_or("now"))?,
            );
            let changes = versions::diff(&old, &new);
            (Some(old.revision), new.revision, changes)
        }
        None => {
            let (run, reading) = (harness.run()?, recording::read(&harness)?);
            let changes = if run.exists() { queries::changes(&run, &reading) } else { Vec::new() };
            (run.exists().then_some(run.revision), reading.revision, changes)
        }
    };
    if global.json {
        let answer = json!({ "plan": harness.id(), "from": from, "to": to, "changes": changes });
        terminal::print(&format!("{answer}\n"))?;
        return Ok(Outcome::Done);
    }
    if from.is_none() {
        terminal::advise("the log has no revision of this plan yet; `provost verify` records one");
    } else if changes.is_empty() {
        terminal::talk("nothing changed");
    }
    for change in changes {
        terminal::print(&format!("{change}\n"))?;
    }
    Ok(Outcome::Done)
}

fn list(global: &Global, harness: &Harness) -> Answer {
    let versions = versions::versions(harness)?;
    if global.json {
        let each = |version: &versions::Version| {
            json!({
                "revision": version.revision, "seq": version.seq, "at": version.at,
                "approved_by": version.approved_by, "changes": version.changes,
            })
        };
        let list: Vec<Value> = versions.iter().map(each).collect();
        terminal::print(&format!("{}\n", json!({ "plan": harness.id(), "revisions": list })))?;
        return Ok(Outcome::Done);
    }
    for version in versions {
        let at = version.at.map(|at| at.to_string()).unwrap_or_default();
        let by = version.approved_by.map_or("not approved".to_owned(), |by| format!("approved by {by}"));
        let changes = match version.changes.len() {
            0 => String::new(),
            1 => " · 1 change".to_owned(),
            n => format!(" · {n} changes"),
        };
        terminal::print(&format!("{} · {at} · {by}{changes}\n", version.revision.short()))?;
    }
    Ok(Outcome::Done)
}
