use provost_core::model::plan::{Check, Contract, Needs};
use provost_core::rules::budget;
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::{PostState, Run, Stage};
use provost_core::text::render;
use provost_core::text::render::base::BaseLook;
use provost_engine::plan::uncommitted::{self, UncommittedFile, UncommittedFiles};
use provost_engine::plan::{outside, recording};
use provost_engine::run::base_look;
use provost_engine::settings::Access;
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{open_plan, terminal};

/// Show the plan, and the revision that an approval would bind to
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost show                        the active plan
  provost show PLAN.md --json         for programs
  provost show --recorded > PLAN.md   the text in the log, if the file was lost")]
pub struct Args {
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

pub fn obey(global: &Global, args: Args) -> Answer {
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
        false => base_look::look_at_base(&harness, &run),
    };
    // Whoever is to approve it has to know; later every attempt names what it finds.
    let found = match run.stage {
        Stage::Draft | Stage::Verified => uncommitted::uncommitted(&harness, &run).unwrap_or_default(),
        _ => UncommittedFiles::default(),
    };
    if global.json {
        let mut shown = as_json(harness.id().0.as_str(), &run, look.as_ref());
        let changed = run.changed_since_approval().into_iter().chain(outside::changed_caches(&harness, &run));
        shown["changed_since_approval"] = changed.collect::<Vec<_>>().into();
        shown["uncommitted"] = found.inside.iter().map(file).collect();
        shown["not_checked"] = found.outside.iter().map(file).collect();
        terminal::print(&format!("{shown}\n"))?;
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

fn file(file: &UncommittedFile) -> Value {
    json!({ "path": file.path, "change": file.change.word(), "whose": file.whose.to_string() })
}

fn as_json(plan: &str, run: &Run, look: Option<&BaseLook>) -> Value {
    let steps: Vec<Value> = run
        .steps()
        .map(|(step, _)| {
            json!({
                "number": step.number,
                "title": step.title,
                "target": step.target.as_ref().map(|target| &target.value),
                "plan": step.carried_by(),
                "needs": needs(&step.needs),
                "touches": step.touches.as_ref().map(|globs| globs.iter().map(|glob| &glob.value).collect::<Vec<_>>()),
                "budget": budget::of_step(run, step.number),
                "state": run.state_word(step.number),
                "pass": run.pass(step.number),
                "guard": step.is_guard(),
                "reach": run.binding.terms.for_step(step),
                "contract": step.contract.as_ref().map(contract),
                "hidden": step.is_hidden(),
                "writes": step.writes_tests().then_some("tests"),
            })
        })
        .collect();
    let postconditions: Vec<Value> = run
        .postconditions()
        .map(|(post, state)| {
            json!({
                "number": post.number,
                "description": post.description,
                "state": match state {
                    PostState::Open => "open",
                    PostState::Held(_) => "held",
                    PostState::Broke(_) => "broke",
                },
                "pass": run.post_pass(post.number),
                "uncontrolled": run.post_uncontrolled(post.number),
                "contract": post.contract.as_ref().map(contract),
            })
        })
        .collect();
    json!({
        "plan": plan,
        "title": run.plan.title,
        "stage": run.stage.word(),
        "revision": run.revision,
        "approvals": ApprovalCount::of(run),
        "terms": run.binding.terms,
        "budget": budget::of_plan(run),
        "steps": steps,
        "postconditions": postconditions,
        "on_base": look.map(|look| render::base::lines(&run.plan, look)),
    })
}

fn needs(needs: &Needs) -> Value {
    match needs {
        Needs::Before => Value::Null,
        Needs::Steps(steps) => steps.iter().map(|step| json!(step.value)).collect(),
    }
}

fn contract(contract: &Contract) -> Value {
    match &contract.check {
        Check::Shell(shell) => {
            let expectations: Vec<String> =
                shell.expectations.iter().map(|expectation| expectation.value.to_string()).collect();
            json!({ "kind": "shell", "command": shell.command, "expectations": expectations })
        }
        Check::Human => json!({ "kind": "human" }),
        Check::Judge { rubric } => json!({ "kind": "judge", "rubric": rubric }),
    }
}
