use std::time::Duration;

use provost_engine::manage::gc::{self, UnusedFiles};
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// Show what can be removed from the state folder; with --yes, remove it
///
/// Lists kept trees, build caches and homes of workspaces that are gone, and trees and installed dependencies
/// that were not used for a while. Never lists the log, the proofs, the keys, or files of a plan that can
/// continue. `provost recheck` and `provost changes` need the tree of a step; after it is removed, they say
/// so.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost gc                          show what can be freed
  provost gc --yes                    free it
  provost gc --unused 2days           also what was used until two days ago")]
pub(super) struct Args {
    /// Show what would be removed, and remove nothing; this is the default
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Remove the files
    #[arg(long, short)]
    yes: bool,
    /// Time without use after which a file is not needed
    #[arg(long, value_name = "TIME", default_value = "14days", value_parser = humantime::parse_duration)]
    unused: Duration,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    global.keep_for_hints(None);
    let removes = args.yes && !args.dry_run;
    let found = gc::expendable(&global.settings(None)?, args.unused)?;
    let mut removed = Vec::new();
    for item in found.iter().filter(|_| removes) {
        removed.push(gc::remove(item)?);
    }
    let is_counted = |at: usize| !removes || removed.get(at) == Some(&true);
    let bytes: u64 =
        found.iter().enumerate().filter(|(at, _)| is_counted(*at)).map(|(_, item)| item.bytes).sum();
    if global.json {
        let items: Vec<Value> =
            found.iter().enumerate().map(|(at, item)| as_json(item, removes && is_counted(at))).collect();
        terminal::print_json(&json!({ "items": items, "bytes": bytes, "removed": removes }))?;
        return Ok(Outcome::Done);
    }
    if found.is_empty() {
        terminal::talk("nothing to free");
        return Ok(Outcome::Done);
    }
    let kept = |at: usize| if is_counted(at) { "" } else { " (in use, kept)" };
    let rows = found.iter().enumerate().map(|(at, item)| {
        vec![megabytes(item.bytes), item.path.display().to_string(), format!("{}{}", item.what, kept(at))]
    });
    terminal::print(&table::lines(&["SIZE", "FOLDER", "WHAT"], &rows.collect::<Vec<_>>()))?;
    match removes {
        true => terminal::talk(&format!("freed {}", megabytes(bytes))),
        false => terminal::advise(&format!("{} can be freed: `provost gc --yes`", megabytes(bytes))),
    }
    Ok(Outcome::Done)
}

fn as_json(item: &UnusedFiles, removed: bool) -> Value {
    json!({ "path": item.path, "what": item.what, "bytes": item.bytes, "removed": removed })
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) / 1_000_000;
    match tenths {
        0 => format!("{} kB", bytes / 1000),
        _ => format!("{}.{} MB", tenths / 10, tenths % 10),
    }
}
