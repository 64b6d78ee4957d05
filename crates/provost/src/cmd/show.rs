use provost_core::model::run_policy::RunPolicy;
use provost_core::state::run::Stage;
use provost_core::text::render;
use provost_engine::exec::base_look;
use provost_engine::observe::view::UncommittedView;
use provost_engine::plan::uncommitted::{self, UncommittedFiles};
use provost_engine::plan::{outside, recording};
use provost_engine::settings::Access;
use serde::Serialize;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::plan_document::{PlanDocument, ShownPlan};
use crate::{activity_line, open_plan, terminal};

/// Show the plan, and the revision that an approval would bind to
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost show                        the active plan
  provost show PLAN.md --json         for programs
  provost show --recorded > PLAN.md   the text in the log, if the file was lost")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Do not run the checks on the base (before approval, provost runs them in the sandbox to show which
    /// already hold)
    #[arg(long)]
    no_checks: bool,
    /// Print the text of the plan that is in the log
    #[arg(long)]
    recorded: bool,
    /// Show the plan and its revision with uncommitted files inside `touches` as part of the base
    #[arg(long)]
    include_uncommitted: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    if args.recorded {
        terminal::print(&harness.run()?.text)?;
        return Ok(Outcome::Done);
    }
    if args.include_uncommitted {
        uncommitted::include_uncommitted(&harness);
    }
    let (run, changed) = recording::preview(&harness)?;
    open_plan::is_a_plan(&harness, &run)?;
    if !changed {
        recording::catch_up_marks(&harness, &run);
    }
    // A program that asks for the plan does not wait for its checks.
    let look = match global.json || args.no_checks {
        true => base_look::base_look(&harness, &run),
        false => activity_line::during(|| base_look::look_at_base(&harness, &run)),
    };
    // Whoever is to approve it has to know; later every attempt names what it finds.
    let found = match run.stage {
        Stage::Draft | Stage::Verified => uncommitted::uncommitted(&harness, &run).unwrap_or_default(),
        _ => UncommittedFiles::default(),
    };
    if global.json {
        let caches = outside::changed_caches(&harness, &run);
        let on_base = look.map(|look| render::base::lines(&run.plan, &look));
        let shown = ShownPlan::of(&harness, run, changed)?;
        let run = &shown.seen.run;
        terminal::print_json(&ShowDocument {
            plan: shown.document(),
            terms: &run.binding.terms,
            on_base,
            changed_since_approval: run.changed_since_approval().into_iter().chain(caches).collect(),
            uncommitted: UncommittedView::all(&found.inside),
            not_checked: UncommittedView::all(&found.outside),
        })?;
    } else {
        if let Some(from) = run.forged_from {
            terminal::talk(&format!(
                "another program wrote to the log from event {from} on: see `provost audit`"
            ));
        }
        terminal::print(&render::plan(&run))?;
        for line in outside::changed_caches(&harness, &run) {
            terminal::print(&format!("\n{line}\n"))?;
        }
        if let Some(look) = &look {
            let lines = render::base::lines(&run.plan, look);
            terminal::print(&format!("\n{}\n", lines.join("\n")))?;
        }
        for line in found.lines() {
            terminal::print(&format!("{line}\n"))?;
        }
    }
    Ok(Outcome::Done)
}

/// The plan, and what the gate shows beside it. `terms` is older than the list of lines in the API.
#[derive(Serialize)]
struct ShowDocument<'v> {
    #[serde(flatten)]
    plan: PlanDocument<'v>,
    terms: &'v RunPolicy,
    on_base: Option<Vec<String>>,
    changed_since_approval: Vec<String>,
    uncommitted: Vec<UncommittedView>,
    not_checked: Vec<UncommittedView>,
}
