use provost_engine::train;
use provost_engine::train::{TrainReport, TrainRequest, Wish};
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Land done plans on a branch together, judged as a whole
///
/// Takes the plans that are done (all of this repository, or those named) in merge order, merges each onto
/// the branch with those before it, and runs the contracts of every plan on the union. What conflicts or
/// turns the union red is found and left out, with what depends on it; the rest lands in one step, with a
/// signed statement as a git note. Contracts of plans that landed before are run again where their files
/// are touched.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost integrate                   all plans that are done, into the branch that is checked out
  provost integrate fix-auth docs --into main
  provost integrate --dry-run         what would land, in which order, and why not the rest
  provost integrate --check           whether the plans that landed still hold on the branch

Exit codes: 0 all of them landed, or nothing was to be done · 1 a plan was left out, or opened again ·
5 refused: a named plan is not done or not proved, local changes are in the way, the branch keeps moving")]
pub struct Args {
    /// Paths or names of plans; none for all that are done
    #[arg(value_name = "PLAN")]
    plans: Vec<String>,
    /// The branch to land on [default: the one that is checked out here]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Find out what would land, and leave everything as it is
    #[arg(long)]
    dry_run: bool,
    /// Only look whether the plans that landed still hold, and open again those that do not
    #[arg(long, conflicts_with_all = ["dry_run", "plans"])]
    check: bool,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    let wish = match (args.dry_run, args.check) {
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
            "{} is checked out in {place}, and its index could not be brought along. Run there:\n  \
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
            let again = if report.resumed { ", as an earlier train had decided" } else { "" };
            text +=
                &format!("{landed} of {all} {plans} landed on {at}, which is {} now{again}\n", short(commit));
        }
        None if wish == Wish::Check => text += &format!("looked at what has landed on {at}\n"),
        None if all == 0 => text += &format!("no plan is to land on {at}\n"),
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
