use provost_engine::observe::notifier;
use provost_engine::plan::{commands, outside, queries, recording, uncommitted};
use provost_engine::run::{run_plan, starting};
use std::path::{Path, PathBuf};

use provost_core::rules::inbox::{self, DecisionKind};
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::{Run, Stage};
use provost_engine::Put;
use provost_engine::observe::notifier::Notices;
use provost_engine::observe::wait_for_person::Woken;
use provost_engine::plan::harness::Harness;
use provost_engine::run_loop::Rest;
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::report::Report;
use crate::terminal::{Gate, Live};
use crate::{report, terminal};

/// Verify, gate and execute the plan; the same command resumes it
///
/// Each step goes to a fresh agent; when the agent is gone, the harness runs the step's contract. What
/// does not hold is retried with what the judge saw, or waits for a person, as the plan says.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost run PLAN.md                 ask at the gate, then run
  provost run --jobs 2                independent steps side by side
  provost run --wait                  stay until it is done, whoever has to answer first
  provost run --ci --junit out.xml    never ask, never wait; write reports
  provost run --json                  one event a line")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
    /// How many steps may run side by side: those that need nothing of each other and touch other files
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Stay when a person is waited for, and go on when they have answered
    #[arg(long, short)]
    wait: bool,
    /// Make uncommitted files inside `touches` part of the base that is approved
    #[arg(long)]
    include_uncommitted: bool,
    /// For machines: ask nobody, wait for nobody, print plain lines; the exit code says how it ended
    #[arg(long, conflicts_with = "wait")]
    ci: bool,
    /// Write a test report in JUnit's form
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what did not hold as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Add a summary with the proof, in Markdown [default with --ci: what GITHUB_STEP_SUMMARY names]
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
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

/// However it ended, for whoever was promised a file.
fn write_reports(harness: &Harness, args: &Args, answer: &Answer) -> Result<(), Failure> {
    let of_github = || std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| args.ci && !path.is_empty());
    let summary = args.summary.clone().or_else(|| of_github().map(PathBuf::from));
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
        Ok(Outcome::Diagnosed) => "the plan has errors: `provost verify`".to_owned(),
        Ok(Outcome::Waiting) => "a person is waited for: `provost inbox`".to_owned(),
        Ok(Outcome::Refused) => "refused".to_owned(),
        Ok(Outcome::Unsound) => "the log is not to be believed".to_owned(),
        Ok(Outcome::Interrupted) => "interrupted".to_owned(),
        Ok(Outcome::NoFolder) => "there is no folder for plans".to_owned(),
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

/// A summary is added to what others said; a report is whole.
fn put(harness: &Harness, path: &Path, text: &str, put: Put) -> Result<(), Failure> {
    provost_engine::write_report(&harness.place().workspace, path, text.as_bytes(), put)
        .map_err(|source| Failure::Io { what: format!("write {}", path.display()), source })
}

/// Until it rests, or, if that is wanted, until nobody has to be waited for any more.
fn run(global: &Global, harness: &Harness, notices: &Notices<'_>, args: &Args) -> Answer {
    loop {
        let (outcome, waits) = once(global, harness, notices, args)?;
        if !args.wait || outcome != Outcome::Waiting {
            return Ok(outcome);
        }
        if !waits {
            continue;
        }
        terminal::talk("staying until somebody has answered; Ctrl-C ends that, and the same command goes on");
        match provost_engine::observe::wait_for_person::wait_for_a_person(harness, notices)? {
            Woken::GoOn => {}
            Woken::Draft => {
                terminal::talk("the plan went back to draft");
                return Ok(Outcome::Refused);
            }
            Woken::Interrupted => {
                terminal::talk("interrupted; the same command goes on");
                return Ok(Outcome::Interrupted);
            }
        }
    }
}

/// As far as it goes without a person. Whether one is waited for comes along: where the plan file is not
/// what was approved, there is nobody to be waited for yet.
fn once(
    global: &Global,
    harness: &Harness,
    notices: &Notices<'_>,
    args: &Args,
) -> Result<(Outcome, bool), Failure> {
    let (run, reading) = match recording::bring_up(harness) {
        Ok(brought) => brought,
        Err(provost_engine::Error::Diagnosed { text, diagnostics }) => {
            let colour = terminal::colour_on_stderr();
            let name = crate::diagnose::file_name(harness);
            terminal::talk(&crate::diagnose::terminal(&text, &name, &diagnostics, colour));
            return Ok((Outcome::Diagnosed, false));
        }
        Err(error) => return Err(error.into()),
    };
    match run.stage {
        Stage::Done => {
            terminal::talk(&done_already(&run));
            return Ok((rested(harness, &run)?, true));
        }
        Stage::Failed => return Ok((rested(harness, &run)?, true)),
        Stage::Draft | Stage::Verified | Stage::Approved | Stage::InProgress => {}
    }
    starting::ready_to_drive(harness, &run)?;
    if args.jobs > 1 && !run.has_areas {
        terminal::talk("steps run side by side only where each says what it `touches` (docs/parallel.md)");
    }
    let may_ask = !args.ci && terminal::is_interactive();
    let run = match gate(harness, notices, run, reading.as_ref(), may_ask)? {
        Passage::Open(run) => run,
        Passage::Closed(outcome) => return Ok((outcome, true)),
    };
    let live = if args.ci { Live::plain(global.json) } else { Live::new(global.json, &run) };
    // The drive reads the log for itself; a large plan need not be held three times.
    drop((run, reading));
    drive(harness, notices, live, usize::from(args.jobs))
}

/// For whoever runs a plan that has nothing left to do.
fn done_already(run: &Run) -> String {
    let (done, total) = run.progress();
    let landed = run.landed.as_ref().map(|landed| format!(" and landed on {}", landed.target));
    format!(
        "nothing to run: the plan is done{} ({done} of {total} {}); `provost status` shows it, `provost fork` runs it again beside this one",
        landed.unwrap_or_default(),
        if total == 1 { "step" } else { "steps" },
    )
}

enum Passage {
    Open(Box<Run>),
    Closed(Outcome),
}

/// A policy that covers the plan, a person at a terminal, or nobody: then the plan waits.
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
        terminal::talk(&format!(
            "the plan waits for approval: `provost show`, then `provost approve --revision {}`; it is in `provost inbox`",
            run.revision.short()
        ));
        return Ok(Passage::Closed(Outcome::Waiting));
    }
    Ok(match terminal::gate(harness, &run, reading, terminal::user())? {
        Gate::Approved(run) => Passage::Open(run),
        Gate::Rejected => Passage::Closed(Outcome::Refused),
        Gate::Waiting => {
            // What was said may have been a question.
            notices.look(&harness.run()?);
            Passage::Closed(Outcome::Waiting)
        }
    })
}

fn drive(
    harness: &Harness,
    notices: &Notices<'_>,
    live: Live,
    jobs: usize,
) -> Result<(Outcome, bool), Failure> {
    harness.tell_of_plans_below(Some(live.below()));
    let driven = run_plan::drive(harness, jobs, &mut |run, sealed, event| {
        live.event(run, sealed, event);
        notices.hear(run, event);
    });
    harness.tell_of_plans_below(None);
    let (run, rest) = driven?;
    live.end();
    match rest {
        Rest::Nothing => {
            notices.look(&run);
            Ok((rested(harness, &run)?, true))
        }
        Rest::Interrupted => {
            terminal::talk("interrupted; the same command goes on");
            Ok((Outcome::Interrupted, false))
        }
        Rest::LawChanged(changes) => {
            terminal::talk("stopped before the next step: the plan file is not what was approved");
            for change in changes {
                terminal::talk(&format!("  {change}"));
            }
            terminal::talk("restore it, or run again to have the new text verified and approved");
            Ok((Outcome::Waiting, false))
        }
    }
}

/// The run is at rest by itself: say where, and what waits.
fn rested(harness: &Harness, run: &Run) -> Answer {
    let items = provost_engine::observe::inbox::plan_items(harness, run)?;
    let outcome = match run.stage {
        Stage::Done => Outcome::Done,
        Stage::Failed => {
            terminal::talk("the plan has failed; `provost status` says where, `provost answer` goes on");
            Outcome::PlanFailed
        }
        Stage::Draft => {
            terminal::talk("the plan went back to draft");
            Outcome::Waiting
        }
        Stage::Verified | Stage::Approved | Stage::InProgress => {
            terminal::talk("waiting for a person: `provost inbox` says for what");
            Outcome::Waiting
        }
    };
    for line in outside::left_outside(harness, run) {
        terminal::talk(&line);
    }
    for item in &items {
        let choices: Vec<&str> = item.choices.iter().map(|offer| offer.choice).collect();
        let id = inbox::short(&items, item);
        let answer = match item.kind {
            DecisionKind::Approval | DecisionKind::Question => "provost approve".to_owned(),
            DecisionKind::Changed => "provost run".to_owned(),
            _ => format!("provost answer {id} {}", choices.join("|")),
        };
        terminal::talk(&format!("  {item}\n    {answer}; `provost inbox {id}` says more"));
    }
    Ok(outcome)
}
