use provost_engine::observe::notifier;
use provost_engine::plan::{commands, outside, queries, recording, uncommitted};
use provost_engine::run::{run_plan, starting};
use std::path::{Path, PathBuf};

use provost_core::rules::inbox::FailedPart;
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::{Run, Stage};
use provost_engine::Put;
use provost_engine::exec::busy::BusyNote;
use provost_engine::observe::notifier::Notices;
use provost_engine::observe::wait_for_person::Woken;
use provost_engine::plan::harness::Harness;
use provost_engine::run_loop::Rest;
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::report::Report;
use crate::run_view::Live;
use crate::terminal::Gate;
use crate::{report, terminal};

/// Verify, approve and run the plan; the same command resumes it
///
/// Each step goes to a fresh agent. When the agent has ended, provost runs the step's contract. If the
/// contract does not hold, provost retries with the output of the check, or asks a person, as the plan says.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost run PLAN.md                 ask for approval, then run
  provost run --jobs 2                run independent steps in parallel
  provost run --output                show what the agents write while they work
  provost run --wait                  wait for answers until the plan is done
  provost run --ci --junit out.xml    never ask, never wait; write reports
  provost run --json                  one event per line")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Number of steps that may run in parallel, if they are independent and touch different files
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Wait while a person has to answer, and continue after the answer
    #[arg(long, short)]
    wait: bool,
    /// Show what the agents write while they work, on standard error
    #[arg(long)]
    output: bool,
    /// Make uncommitted files inside `touches` part of the approved base
    #[arg(long)]
    include_uncommitted: bool,
    /// For CI: never ask, never wait, print plain lines; the exit code tells the result
    #[arg(long, conflicts_with = "wait")]
    ci: bool,
    /// Write a JUnit test report
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write failed checks as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Append a Markdown report with the proof [default with --ci: the file in GITHUB_STEP_SUMMARY]
    #[arg(long, alias = "summary", value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    if args.include_uncommitted {
        uncommitted::include_uncommitted(&harness);
    }
    let notices = notifier::notices(&harness)?;
    notices.silent.iter().for_each(|line| terminal::talk(line));
    let answer = run(global, &harness, &notices, &args);
    notices.finish().iter().for_each(|line| terminal::talk(line));
    match (write_reports(&harness, &args, &answer), answer) {
        (Err(failure), Ok(_)) => Err(failure),
        (_, answer) => answer,
    }
}

/// Writes the reports, however the run ended.
fn write_reports(harness: &Harness, args: &Args, answer: &Answer) -> Result<(), Failure> {
    let of_github = || std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| args.ci && !path.is_empty());
    let summary = args.markdown.clone().or_else(|| of_github().map(PathBuf::from));
    if summary.is_none() && args.junit.is_none() && args.sarif.is_none() {
        return Ok(());
    }
    let report = report(harness, answer)?;
    if let Some(path) = &args.junit {
        put(harness, path, &report::junit::text(&report), Put::Whole)?;
    }
    if let Some(path) = &args.sarif {
        put(harness, path, &report::sarif::text(&report, &relative(harness)), Put::Whole)?;
    }
    if let Some(path) = &summary {
        put(harness, path, &report::markdown::text(&report), Put::Added)?;
    }
    Ok(())
}

fn report(harness: &Harness, answer: &Answer) -> Result<Report, Failure> {
    let (run, audit) = (harness.run()?, queries::audit(harness)?);
    let end = match answer {
        Ok(Outcome::Done) => "done".to_owned(),
        Ok(Outcome::PlanFailed) => "the plan failed".to_owned(),
        Ok(Outcome::Diagnosed) => "the plan has errors: see `provost verify`".to_owned(),
        Ok(Outcome::Waiting) => "waiting for a person: see `provost inbox`".to_owned(),
        Ok(Outcome::Refused) => "refused".to_owned(),
        Ok(Outcome::Unsound) => "the log does not verify: see `provost audit`".to_owned(),
        Ok(Outcome::Interrupted) => "interrupted".to_owned(),
        Ok(Outcome::NoFolder) => "there is no plan folder".to_owned(),
        Err(failure) => failure.to_string(),
    };
    let title = if run.exists() { run.plan.title.clone() } else { harness.place().name.clone() };
    Ok(Report {
        plan: harness.id().to_string(),
        title,
        stage: run.stage.word(),
        end,
        revision: run.revision.short().to_owned(),
        approved_by: run.approvers(),
        isolation: run.isolation.map(|level| level.to_string()),
        checks: report::checks(&run),
        head: format!("{} {}", audit.head.seq, audit.head.hash),
        proof: audit.proofs.map(|(file, key)| (file.display().to_string(), key)),
        text: run.text,
    })
}

fn relative(harness: &Harness) -> String {
    let place = harness.place();
    place.path.strip_prefix(&place.workspace).unwrap_or(&place.path).display().to_string()
}

/// Writes a report, or appends a summary to an existing file.
fn put(harness: &Harness, path: &Path, text: &str, put: Put) -> Result<(), Failure> {
    provost_engine::write_report(&harness.place().workspace, path, text.as_bytes(), put)
        .map_err(|source| Failure::Io { what: format!("write {}", path.display()), source })
}

/// Runs the plan until it stops. With `--wait`, also waits for people and continues after their answers.
fn run(global: &Global, harness: &Harness, notices: &Notices<'_>, args: &Args) -> Answer {
    loop {
        let (outcome, waits) = once(global, harness, notices, args)?;
        if !args.wait || outcome != Outcome::Waiting {
            return Ok(outcome);
        }
        if !waits {
            continue;
        }
        terminal::talk("waiting for an answer; after Ctrl-C the same command resumes");
        match provost_engine::observe::wait_for_person::wait_for_a_person(harness, notices)? {
            Woken::GoOn => {}
            Woken::Draft => {
                terminal::advise("the plan is a draft again; change it, then run `provost run`");
                return Ok(Outcome::Refused);
            }
            Woken::Interrupted => {
                terminal::talk("interrupted; the same command resumes");
                return Ok(Outcome::Interrupted);
            }
        }
    }
}

/// Runs the plan as far as it goes without a person. The second value says whether an answer of a person can
/// continue it; if the plan file differs from the approved revision, a person must restore or approve it first.
fn once(
    global: &Global,
    harness: &Harness,
    notices: &Notices<'_>,
    args: &Args,
) -> Result<(Outcome, bool), Failure> {
    let (run, reading) = match recording::bring_up(harness) {
        Ok(brought) => brought,
        Err(provost_engine::Error::Diagnosed { path, text, diagnostics }) => {
            let colour = terminal::colour_on_stderr();
            let name = crate::diagnose::file_name(&path);
            terminal::talk(&crate::diagnose::terminal(&text, &name, &diagnostics, colour));
            return Ok((Outcome::Diagnosed, false));
        }
        Err(error) => return Err(error.into()),
    };
    match run.stage {
        Stage::Done => {
            terminal::advise(&done_already(&run));
            return Ok((rested(harness, &run)?, true));
        }
        Stage::Failed => return Ok((rested(harness, &run)?, true)),
        Stage::Draft | Stage::Verified | Stage::Approved | Stage::InProgress => {}
    }
    starting::ready_to_drive(harness, &run)?;
    if args.jobs > 1 && !run.has_areas {
        terminal::talk("steps run in parallel only if each has `touches`; see docs/parallel.md");
    }
    let may_ask = !args.ci && terminal::is_interactive();
    let run = match gate(harness, notices, run, reading.as_ref(), may_ask)? {
        Passage::Open(run) => run,
        Passage::Closed(outcome) => return Ok((outcome, true)),
    };
    let live = if args.ci { Live::plain(global.json) } else { Live::new(global.json, &run) };
    // The driver reads the log itself. Free the plan here, because a large one takes much memory.
    drop((run, reading));
    drive(harness, notices, live, args)
}

/// Returns the message for a plan that has nothing left to run.
fn done_already(run: &Run) -> String {
    let (done, total) = run.progress();
    let landed = run.landed.as_ref().map(|landed| format!(" and landed on {}", landed.target));
    format!(
        "nothing to run: the plan is done{} ({done} of {total} {}); `provost status` shows it, `provost fork` runs it again in a new worktree",
        landed.unwrap_or_default(),
        if total == 1 { "step" } else { "steps" },
    )
}

enum Passage {
    Open(Box<Run>),
    Closed(Outcome),
}

/// Passes the gate: a policy approves the plan, or a person at the terminal does. Otherwise the plan waits.
fn gate(
    harness: &Harness,
    notices: &Notices<'_>,
    run: Run,
    reading: Option<&provost_engine::plan::reading::BoundPlan>,
    may_ask: bool,
) -> Result<Passage, Failure> {
    if run.stage != Stage::Verified {
        return Ok(Passage::Open(Box::new(run)));
    }
    let (run, hearing) = commands::ask_policies(harness, &run)?;
    if run.stage != Stage::Verified {
        return Ok(Passage::Open(Box::new(run)));
    }
    for line in hearing.silent {
        terminal::talk(&line);
    }
    let run = commands::request_approval(harness)?;
    if run.stage != Stage::Verified {
        return Ok(Passage::Open(Box::new(run)));
    }
    notices.look(&run);
    terminal::tell_of_base(harness, &run);
    if let Some(tally) = ApprovalCount::open(&run) {
        terminal::talk(&tally);
    }
    let may_ask = may_ask && ApprovalCount::of(&run).lets(&harness.person());
    if !may_ask {
        let found = uncommitted::uncommitted(harness, &run).unwrap_or_default();
        found.lines().iter().for_each(|line| terminal::talk(line));
    }
    if !may_ask {
        terminal::advise(&format!(
            "the plan waits for approval: `provost show`, then `provost approve --revision {}`; it is also in `provost inbox`",
            run.revision.short()
        ));
        return Ok(Passage::Closed(Outcome::Waiting));
    }
    Ok(match terminal::gate(harness, &run, reading, terminal::user())? {
        Gate::Approved(run) => Passage::Open(run),
        Gate::Rejected => Passage::Closed(Outcome::Refused),
        Gate::Waiting => {
            // The person may have asked a question.
            notices.look(&harness.run()?);
            Passage::Closed(Outcome::Waiting)
        }
    })
}

fn drive(
    harness: &Harness,
    notices: &Notices<'_>,
    live: Live,
    args: &Args,
) -> Result<(Outcome, bool), Failure> {
    harness.tell_of_plans_below(Some(live.below()));
    let drive = || {
        run_plan::drive(harness, usize::from(args.jobs), &mut |run, sealed, event| {
            live.event(run, sealed, event);
            notices.hear(run, event);
        })
    };
    let busy = BusyNote::keep(harness.state(), harness.id());
    let driven = if args.output { live.with_output(harness, drive) } else { drive() };
    drop(busy);
    harness.tell_of_plans_below(None);
    let (run, rest) = driven?;
    live.end();
    match rest {
        Rest::Nothing => {
            notices.look(&run);
            Ok((rested(harness, &run)?, true))
        }
        Rest::OverBudget(reason) => {
            terminal::talk(&reason);
            terminal::advise("then `provost run` continues");
            Ok((Outcome::Waiting, false))
        }
        Rest::Interrupted => {
            terminal::talk("interrupted; the same command resumes");
            Ok((Outcome::Interrupted, false))
        }
        Rest::LawChanged(changes) => {
            terminal::talk("stopped before the next step: the plan file differs from the approved revision");
            for change in changes {
                terminal::talk(&format!("  {change}"));
            }
            terminal::advise("restore it, or run `provost run` again to verify and approve the new text");
            Ok((Outcome::Waiting, false))
        }
    }
}

/// Prints the state of a run that has stopped, and the items that wait for a person.
fn rested(harness: &Harness, run: &Run) -> Answer {
    let items = provost_engine::observe::inbox::plan_items(harness, run)?;
    let outcome = match run.stage {
        Stage::Done => Outcome::Done,
        Stage::Failed => {
            terminal::advise("the plan failed; `provost status` shows where");
            if let Some(part) = FailedPart::of(run) {
                let (id, retry) = (part.id(), part.retry());
                terminal::advise(&format!("to {retry}: `provost answer {id} retry`, then `provost run`"));
            }
            Outcome::PlanFailed
        }
        Stage::Draft => {
            terminal::advise("the plan is a draft again; change it, then run `provost run`");
            Outcome::Waiting
        }
        Stage::Verified | Stage::Approved | Stage::InProgress => {
            terminal::advise("waiting for you; `provost inbox` lists what to decide");
            Outcome::Waiting
        }
    };
    for line in outside::left_outside(harness, run) {
        terminal::talk(&line);
    }
    for item in &items {
        let id = provost_engine::observe::inbox::name_of(harness, item);
        terminal::talk(&format!("  {item}"));
        terminal::advise(&format!("    `provost inbox {id}` shows more\n    {}", item.how(&id)));
    }
    Ok(outcome)
}
