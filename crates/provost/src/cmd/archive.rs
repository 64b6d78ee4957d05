use std::path::PathBuf;
use std::time::Duration;

use provost_engine::manage::archive::{self, ArchiveReport, ArchiveRequest, ArchivedPlan};
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// Age at which plans are archived if none is named.
const USUAL: Duration = Duration::from_secs(30 * 24 * 3600);

/// Move plans that are over from the log to compressed files, which stay readable
///
/// Moves plans that are done or have failed, wait for nobody and are needed by no other plan. `provost log`,
/// `audit`, `show` and `status` read them as before; lists leave them out. The log keeps the end of each chain and
/// the digest of its events for ever, so a file that was changed or lost is noticed. A plan that runs again later
/// continues its chain. If the command was interrupted, run it again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost archive                     plans whose last event is older than 30 days
  provost archive fix-auth            this plan, whatever its age
  provost archive --older-than 7days --dry-run   show which plans, and move nothing
  provost archive --to /srv/archive   keep the files in this folder, for example on another disk")]
pub(super) struct Args {
    /// Paths, names or ids of plans [default: all that are old enough]
    #[arg(value_name = "PLAN")]
    plans: Vec<String>,
    /// Only plans without an event in this time [default: 30days; for named plans: any age]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// Folder of the files [default: `archive` in the state folder]
    #[arg(long, value_name = "PLACE")]
    to: Option<PathBuf>,
    /// Show which plans would be moved, and move nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    global.keep_for_hints(None);
    let is_named = !args.plans.is_empty();
    let usual = if is_named { Duration::ZERO } else { USUAL };
    let request = ArchiveRequest {
        older_than: args.older_than.unwrap_or(usual),
        plans: args.plans,
        to: args.to,
        dry_run: args.dry_run,
    };
    let report = archive::archive(&global.settings(None)?, &request)?;
    if global.json {
        let found = json!({
            "archived": report.archived,
            "kept": report.kept,
            "events": report.result.events,
            "bytes": report.result.bytes,
            "folder": report.folder,
            "files": report.result.files,
            "dry_run": request.dry_run,
        });
        terminal::print(&format!("{found}\n"))?;
    } else {
        tell(&report, request.dry_run, is_named)?;
    }
    Ok(if is_named && !report.kept.is_empty() { Outcome::Refused } else { Outcome::Done })
}

fn tell(report: &ArchiveReport, dry_run: bool, is_named: bool) -> Result<(), crate::failure::Failure> {
    let rows: Vec<Vec<String>> = report.archived.iter().map(row).collect();
    if !rows.is_empty() {
        terminal::print(&table::lines(&["PLAN", "EVENTS", "LAST EVENT"], &rows))?;
    }
    for kept in report.kept.iter().filter(|_| is_named || dry_run) {
        terminal::talk(&format!("{} stays: {}", kept.name, kept.why));
    }
    let count = terminal::count(report.archived.len(), "plan");
    if dry_run {
        terminal::talk(&format!("{count} would be archived; without --dry-run they are"));
    } else if !rows.is_empty() {
        let bytes = terminal_bytes(report.result.bytes);
        terminal::talk(&format!("{count} archived in {} ({bytes})", report.folder.display()));
    }
    if !is_named && !dry_run && !report.kept.is_empty() {
        let stay = match report.kept.len() {
            1 => "1 plan stays".to_owned(),
            many => format!("{many} plans stay"),
        };
        terminal::talk(&format!("{stay} in the log; `provost archive --dry-run` says why"));
    }
    Ok(())
}

fn row(plan: &ArchivedPlan) -> Vec<String> {
    vec![plan.name.clone(), plan.events.to_string(), plan.last.to_string()]
}

fn terminal_bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
