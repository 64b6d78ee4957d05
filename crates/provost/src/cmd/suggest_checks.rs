use std::path::Path;

use provost_core::model::verdict::{CheckOutcome, Verdict};
use provost_core::text::test_draft::DraftedTest;
use provost_engine::exec::check_trial::{self, TrialEvent, TriedCheck};
use provost_engine::manage::test_draft::{self, TestDraft};
use provost_engine::plan::commands;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::plan_registry::Here;
use provost_engine::project::proposals::{self, ProposedCheck};
use provost_engine::project::{self, CheckCandidates};
use provost_engine::write_new_file;
use serde_json::{Value, json};

use crate::clients::{self, difference};
use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::start::result_words;
use crate::{here, terminal};

/// Name of the plan that a suggestion could become part of; no such file is made.
const PLAN: &str = "suggested";
/// Folder of plans, which opening a plan makes.
const FOLDER: &str = ".harness";

/// Suggest contracts for a goal, each already tried on the last commit
///
/// Looks at the repository for tests, Makefile targets, package scripts, CI files, linters, type checkers, API
/// descriptions and snapshots, runs what it finds on the last commit, as provost runs every check, and prints
/// contracts to paste into a plan. Those that name words of the goal come first. If a planner role is
/// configured, it first drafts a test for the goal that fails now. provost runs that test in the sandbox only,
/// and writes it only after your yes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost suggest-checks                                 what this repository can check
  provost suggest-checks \"a discount for large orders\"   those for the goal first, and a failing test
  provost suggest-checks \"a discount\" --write            write the drafted test without a question
  provost suggest-checks \"a discount\" --no-draft --json  for programs, without a planner

Exit codes: 0 done · 1 the planner wrote no test that fails · 2 nothing to suggest · 4 a drafted test waits for
your yes")]
pub(super) struct Args {
    /// Goal in your own words
    goal: Option<String>,
    /// Write the drafted test into the workspace without a question
    #[arg(long, requires = "goal", conflicts_with = "no_draft")]
    write: bool,
    /// Ask no planner for a test
    #[arg(long)]
    no_draft: bool,
    /// Maximum number of drafts [default: 4, or [plan] rounds]
    #[arg(long, value_name = "N", requires = "goal", value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: Option<u32>,
}

/// A proposal with its result.
struct Suggestion {
    proposed: ProposedCheck,
    tried: TriedCheck,
}

/// A drafted test, and whether it is in the workspace now.
struct Drafted {
    test: DraftedTest,
    verdict: Verdict,
    written: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    let here = Here::of(&settings.cwd);
    here::needs_a_commit(&here)?;
    if args.goal.as_deref().is_some_and(|goal| goal.trim().is_empty()) {
        return Err(Failure::usage("the goal is empty", "Describe it: provost suggest-checks \"…\""));
    }
    let had_folder = here.workspace().join(FOLDER).exists();
    let answer = suggest(global, &args, &here, &settings.cwd);
    if !had_folder {
        clients::clear(&[here.workspace().join(FOLDER)]);
    }
    answer
}

fn suggest(global: &Global, args: &Args, here: &Here, cwd: &Path) -> Answer {
    let harness = global.upcoming(PLAN)?;
    commands::only_people(&harness)?;
    let goal = args.goal.as_deref().unwrap_or_default();
    let project = project::look(here.workspace(), cwd, None);
    let proposed = proposals::for_goal(here.workspace(), &project, goal);
    if proposed.is_empty() {
        return Err(Failure::usage(
            "provost found nothing in this repository that checks it",
            "Write a test first, or try a command of your own: provost try 'COMMAND'",
        ));
    }
    let suggestions = tried(global, &harness, proposed)?;
    let has_planner = harness.config().agents.contains_key(&harness.config().plan.role);
    let draft = match !goal.is_empty() && has_planner && !args.no_draft {
        true => Some(drafted(global, args, &harness, goal, &suggestions)?),
        false => None,
    };
    if global.json {
        terminal::print_json(&document(goal, &suggestions, draft.as_ref()))?;
    } else {
        terminal::print(&listed(&suggestions))?;
        if !goal.is_empty() && !has_planner && !args.no_draft {
            let role = &harness.config().plan.role;
            terminal::talk(&format!("no test was drafted: [agents.{role}] in provost.toml would draft one"));
        }
    }
    Ok(match draft {
        None | Some(Ok(Drafted { written: true, .. })) => Outcome::Done,
        Some(Ok(_)) => Outcome::Waiting,
        Some(Err(_)) => Outcome::PlanFailed,
    })
}

/// Runs every proposal on the last commit. Those that fit the goal come first, then those that fail, which can
/// show progress, then those that hold.
fn tried(
    global: &Global,
    harness: &Harness,
    proposed: Vec<ProposedCheck>,
) -> Result<Vec<Suggestion>, Failure> {
    let checks: Vec<CheckCandidates> = proposed.iter().map(|each| each.check.clone()).collect();
    let tried = check_trial::try_checks(harness, &checks, &mut |event| match event {
        TrialEvent::Begun(level) if !global.json => {
            let number = terminal::count(checks.len(), "check");
            terminal::talk(&format!("{number} to try on the last commit (isolation: {level})"));
        }
        TrialEvent::Starting(command) if !global.json && terminal::is_interactive() => {
            terminal::talk(&format!("  … {command}"));
        }
        TrialEvent::Begun(_) | TrialEvent::Starting(_) | TrialEvent::Tried(_) => {}
    })?;
    let mut suggestions: Vec<Suggestion> =
        proposed.into_iter().zip(tried).map(|(proposed, tried)| Suggestion { proposed, tried }).collect();
    suggestions.sort_by_key(|each| {
        let rank = match each.tried.verdict.outcome {
            CheckOutcome::NotRun { .. } => 2,
            CheckOutcome::Held => 1,
            _ => 0,
        };
        (rank == 2, std::cmp::Reverse(each.proposed.fit), rank)
    });
    Ok(suggestions)
}

/// Has a failing test drafted, shows it, and writes it if the person agrees.
fn drafted(
    global: &Global,
    args: &Args,
    harness: &Harness,
    goal: &str,
    suggestions: &[Suggestion],
) -> Result<Result<Drafted, String>, Failure> {
    let runs = |each: &&Suggestion| !matches!(each.tried.verdict.outcome, CheckOutcome::NotRun { .. });
    let is_test = |each: &&Suggestion| [project::TEST, "focused"].contains(&each.proposed.check.name);
    let known: Vec<String> = suggestions
        .iter()
        .filter(|each| runs(each) && is_test(each))
        .map(|each| each.tried.command.clone())
        .collect();
    let rounds = args.rounds.unwrap_or(harness.config().plan.rounds);
    let made = test_draft::draft(harness, goal, &known, rounds, &mut |round, reason| {
        let result = reason.map_or("it fails on the last commit, as it should".to_owned(), |reason| {
            format!("sent back: {reason}")
        });
        terminal::talk(&format!("test, round {round} of {rounds}: {result}"));
    })?;
    let (test, verdict) = match made {
        TestDraft::Red(made) => *made,
        TestDraft::Nothing { why } => {
            terminal::talk(&format!("the planner wrote no test that fails: {why}"));
            return Ok(Err(why));
        }
    };
    if !global.json {
        terminal::print(&format!(
            "A test for the goal, drafted by the planner:\n{}",
            shown(&test, &verdict)
        ))?;
    }
    let may_ask = terminal::is_interactive() && !global.json;
    let written = args.write || may_ask && terminal::agrees(&format!("Write {}?", test.path))?;
    if written {
        let workspace = &harness.place().workspace;
        write_new_file(workspace, Path::new(&test.path), test.text.as_bytes())
            .map_err(|source| Failure::Io { what: format!("write {}", test.path), source })?;
        terminal::talk(&format!("wrote {}; commit it before a plan starts from it", test.path));
    } else {
        terminal::talk("nothing was written; `--write` writes the test");
    }
    Ok(Ok(Drafted { test, verdict, written }))
}

/// The drafted test as a diff, its result, and its contract.
fn shown(test: &DraftedTest, verdict: &Verdict) -> String {
    let diff = difference::unified(&test.path, None, Some(&test.text));
    let words = result_words::words(verdict);
    format!("{diff}✗ {} — {words}\n\n{}\n", test.command, contract(&test.command, false))
}

/// Returns the fields of a step with this contract.
fn contract(command: &str, is_guard: bool) -> String {
    let guard = if is_guard { "**guard:** yes\n" } else { "" };
    format!("{guard}**contract:**\n```shell\n{command}\n```\nexit_code == 0\n")
}

fn listed(suggestions: &[Suggestion]) -> String {
    let mut text = String::new();
    for Suggestion { proposed, tried } in suggestions {
        let verdict = &tried.verdict;
        let (mark, words) = (result_words::mark(verdict), result_words::words(verdict));
        text.push_str(&format!("{mark} {} (from {}) — {words}\n", tried.command, proposed.source));
        match &verdict.outcome {
            CheckOutcome::NotRun { .. } => {}
            CheckOutcome::Held => {
                text.push_str("It holds already, so it fits as a guard:\n\n");
                text.push_str(&contract(&tried.command, true));
            }
            _ => {
                text.push_str("It fails now. If the goal is to change that:\n\n");
                text.push_str(&contract(&tried.command, false));
            }
        }
        text.push('\n');
    }
    text
}

fn document(goal: &str, suggestions: &[Suggestion], draft: Option<&Result<Drafted, String>>) -> Value {
    let checks: Vec<Value> = suggestions
        .iter()
        .map(|Suggestion { proposed, tried }| {
            let verdict = &tried.verdict;
            let runs = !matches!(verdict.outcome, CheckOutcome::NotRun { .. });
            json!({
                "name": proposed.check.name,
                "source": proposed.source,
                "fit": proposed.fit,
                "command": tried.command,
                "result": result_words::word(verdict),
                "words": result_words::words(verdict),
                "duration_ms": verdict.duration_ms,
                "contract": runs.then(|| contract(&tried.command, verdict.held())),
            })
        })
        .collect();
    let draft = draft.map(|draft| match draft {
        Ok(Drafted { test, verdict, written }) => json!({
            "path": test.path,
            "command": test.command,
            "text": test.text,
            "words": result_words::words(verdict),
            "contract": contract(&test.command, false),
            "written": written,
        }),
        Err(why) => json!({ "not_drafted": why }),
    });
    json!({ "goal": goal, "checks": checks, "draft": draft })
}
