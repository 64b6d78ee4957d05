use provost_engine::train;
use provost_engine::train::{TrainReport, TrainRequest, Wish};
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Land done plans on a branch together, after checking them as a whole
///
/// Takes the done plans (all of this repository, or those you name) in merge order, merges each onto the
/// branch with those before it, and runs the contracts of every plan on the result. A plan that conflicts
/// or makes a contract fail is left out, with the plans that depend on it. The rest lands in one step, with
/// a signed statement as a git note. Contracts of plans that landed earlier run again if their files changed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost integrate                   all done plans, into the current branch
  provost integrate fix-auth docs --into main
  provost integrate --dry-run         show what would land, in which order, and why the rest would not
  provost integrate --recheck         check that landed plans still hold on the branch

Exit codes: 0 all plans landed, or there was nothing to do · 1 a plan was left out or reopened ·
5 refused: a named plan is not done or not proved, there are local changes, or the branch keeps moving")]
pub(super) struct Args {
    /// Paths or names of plans [default: all done plans]
    #[arg(value_name = "PLAN")]
    plans: Vec<String>,
    /// Branch to land on [default: the current branch]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Show what would land, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Only check that landed plans still hold, and reopen those that do not
    #[arg(long, alias = "check", conflicts_with_all = ["dry_run", "plans"])]
    recheck: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    let wish = match (args.dry_run, args.recheck) {
        (true, _) => Wish::DryRun,
        (_, true) => Wish::Check,
        (false, false) => Wish::Land,
    };
    let request = TrainRequest {
        plans: args.plans,
        into: args.into,
        wish,
        by: terminal::user(),
        home: std::env::var_os("HOME").map(Into::into),
    };
    let talk = |line: &str| {
        if !global.json {
            eprintln!("{line}");
        }
    };
    let Some(report) = train::integrate(&settings, &request, &talk)? else { return Ok(Outcome::Interrupted) };
    match global.json {
        true => terminal::print(&format!("{}\n", data(&report, wish)))?,
        false => terminal::print(&words(&report, wish))?,
    }
    for checkout in report.checkouts.iter().filter(|checkout| !checkout.is_current) {
        let (place, before) = (checkout.place.display(), &report.before);
        eprintln!(
            "{} is checked out in {place}, but provost could not update its index. Run there:\n  \
             git read-tree -m -u {before} HEAD",
            report.target
        );
    }
    let is_whole = report.left_out.is_empty() && report.undone.is_empty();
    Ok(if is_whole { Outcome::Done } else { Outcome::PlanFailed })
}

fn data(report: &TrainReport, wish: Wish) -> Value {
    let checkouts = report
        .checkouts
        .iter()
        .map(|checkout| json!({ "place": checkout.place, "current": checkout.is_current }));
    json!({
        "train": report.train,
        "target": report.target,
        "before": report.before,
        "commit": report.commit,
        "git_tree": report.git_tree,
        "dry_run": wish == Wish::DryRun,
        "resumed": report.resumed,
        "landed": report.landed,
        "left_out": report.left_out,
        "undone": report.undone,
        "judged": report.judged,
        "checkouts": checkouts.collect::<Vec<_>>(),
    })
}

fn words(report: &TrainReport, wish: Wish) -> String {
    let short = |id: &str| id.chars().take(12).collect::<String>();
    let mut text = String::new();
    let (landed, all) = (report.landed.len(), report.landed.len() + report.left_out.len());
    let plans = if all == 1 { "plan" } else { "plans" };
    let at = format!("{} at {}", report.target, short(&report.before));
    match &report.commit {
        Some(commit) => {
            let again = if report.resumed { " (resumed an interrupted train)" } else { "" };
            text += &format!("{landed} of {all} {plans} landed on {at}, now at {}{again}\n", short(commit));
        }
        None if wish == Wish::Check => text += &format!("checked the plans that landed on {at}\n"),
        None if all == 0 => text += &format!("no plan to land on {at}\n"),
        None if landed > 0 => {
            text += &format!("{landed} of {all} {plans} would land on {at}, in this order\n")
        }
        None => text += &format!("none of {all} {plans} lands on {at}\n"),
    }
    for plan in &report.landed {
        text += &format!("  ✅ {}\n", plan.name);
    }
    for out in &report.left_out {
        text += &format!("  ❌ {}: {}\n", out.name, out.reason);
    }
    for undone in &report.undone {
        text += &format!("  ⛔ {}: {}\n", undone.name, undone.reason);
    }
    text
}
