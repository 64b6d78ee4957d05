//! The demo: a small repository, a plan, and an agent that lies about one step and breaks another.
//!
//! Only the agent is scripted. The same code as always verifies, approves, runs, judges and audits the plan,
//! and the folder stays so that a person can look at it.

use provost_engine::plan::{commands, queries, recording};
use provost_engine::run::run_plan;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use provost_core::state::run::Stage;
use provost_engine::plan::harness::Harness;
use provost_engine::settings::{Access, EngineSettings};

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::run_view::Live;
use crate::terminal;

const FILES: &[(&str, &str)] = &[
    ("PLAN.md", include_str!("demo/PLAN.md")),
    ("provost.toml", include_str!("demo/provost.toml")),
    ("agent.toml", include_str!("demo/agent.toml")),
];

/// Number of events at the begin and at the end of the log that the demo shows.
const SHOWN_EVENTS: u64 = 3;

pub(crate) fn play(global: &Global, at: Option<PathBuf>, fast: bool) -> Answer {
    let folder = make(at, fast)?;
    let workspace = folder.join("workspace");
    // The demo has its own state folder and does not touch the user's.
    let own = Global { state: Some(folder.join("state")), ..global.clone() };
    let settings =
        EngineSettings { cwd: workspace.clone(), plan: Some("PLAN.md".to_owned()), ..own.settings(None)? };
    let harness = Harness::open(settings, Access::Write)?;
    terminal::talk(&format!("A temporary repository: {}\n", workspace.display()));
    terminal::talk(include_str!("demo/before.txt"));
    let (run, _) = recording::bring_up(&harness)?;
    if run.stage == Stage::Verified {
        let revision = run.revision.clone();
        commands::request_approval(&harness)?;
        let by = format!("{} (by running the demo)", terminal::user());
        commands::approve(&harness, &run, revision, by)?;
    }
    let live = Live::new(global.json, &run);
    let (run, _) = run_plan::drive(&harness, 1, &mut |run, sealed, event| live.event(run, sealed, event))?;
    live.end();
    after(&harness, &folder)?;
    Ok(if run.stage == Stage::Done { Outcome::Done } else { Outcome::PlanFailed })
}

/// Shows the log, the audit, and what to do next.
fn after(harness: &Harness, folder: &Path) -> Result<(), Failure> {
    let events = harness.run()?.seq;
    let audit = queries::audit(harness)?;
    terminal::talk(&format!("\nThe log has {events} events. Each one has the hash of the event before it:"));
    let query = provost_engine::Query::plan(harness.id());
    queries::each(harness, &query, &mut |sealed| {
        if sealed.seq == SHOWN_EVENTS + 1 && events > 2 * SHOWN_EVENTS {
            terminal::talk("    …");
        }
        if sealed.seq <= SHOWN_EVENTS || sealed.seq + SHOWN_EVENTS > events {
            let step = sealed.step.map_or(String::new(), |step| format!(" step {step}"));
            let hash = &sealed.hash.to_string()[..12];
            terminal::talk(&format!("  {:>3} {}{step}  {hash}…", sealed.seq, sealed.name));
        }
        std::ops::ControlFlow::Continue(())
    })?;
    terminal::talk("\nThe audit:");
    for line in terminal::audit(&audit).lines() {
        terminal::talk(&format!("  {line}"));
    }
    let program = std::env::current_exe().unwrap_or_default();
    let bin = program.parent().unwrap_or(Path::new("")).display().to_string();
    let text = include_str!("demo/after.txt")
        .replace("{folder}", &folder.display().to_string())
        .replace("{bin}", &bin);
    terminal::talk(&format!("\n{text}"));
    Ok(())
}

fn make(at: Option<PathBuf>, fast: bool) -> Result<PathBuf, Failure> {
    let folder = match at {
        Some(folder) if folder.exists() => {
            return Err(Failure::Usage {
                message: format!("{} exists already", folder.display()),
                hint: None,
            });
        }
        Some(folder) => std::path::absolute(&folder).unwrap_or(folder),
        None => tempfile::Builder::new()
            .prefix("provost-demo-")
            .tempdir()
            .map_err(|source| Failure::Io { what: "make a temporary folder".to_owned(), source })?
            .keep(),
    };
    let workspace = folder.join("workspace");
    let io = |source| Failure::Io { what: format!("write to {}", workspace.display()), source };
    fs::create_dir_all(&workspace).map_err(io)?;
    for (name, text) in FILES {
        let text = if fast { text.replace("{ sleep = \"700ms\" },", "") } else { (*text).to_owned() };
        fs::write(workspace.join(name), text).map_err(io)?;
    }
    repository(&workspace);
    Ok(folder)
}

/// Makes a git repository. A plan runs in any folder; this only makes the demo realistic.
fn repository(workspace: &Path) {
    let git = |arguments: &[&str]| {
        let _ = Command::new("git")
            .args(["-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false"])
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(arguments)
            .current_dir(workspace)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "A plan"]);
}
