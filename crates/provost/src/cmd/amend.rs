use provost_engine::observe::versions;
use provost_engine::plan::{commands, recording};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use provost_core::model::plan::{Span, StepNumber};
use provost_engine::plan::harness::Harness;
use provost_engine::plan::reading::BoundPlan;
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal::Gate;
use crate::{diagnose, terminal};

/// Change the plan: edit it, verify it, and approve it again
///
/// Opens $VISUAL or $EDITOR on a copy, or reads the new text from --file. The plan file changes only if the
/// new text has no errors. Steps whose text is unchanged keep their results. With --from, only the steps
/// from that one on are replaced; if this would change a step that has run, nothing changes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost amend                       in your editor
  provost amend --file new-plan.md    from a file; `-` for standard input
  provost amend --from 3 --file rest.md   replace the steps from 3 on while the plan runs")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Read the new text from this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replace the steps from this one on; steps that have run must stay
    #[arg(long, value_name = "STEP")]
    from: Option<u32>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    let before = recording::read(&harness)?;
    let first = args.from.map(StepNumber);
    let text = match (&args.file, first) {
        (Some(path), _) => from_file(path)?,
        (None, first) => from_editor(&rest(&before, first))?,
    };
    let text = match first {
        None => text,
        Some(first) => {
            versions::patched(&harness, &before, first, &String::from_utf8_lossy(&text))?.into_bytes()
        }
    };
    if text == before.text.as_bytes() {
        terminal::talk("nothing changed");
        return Ok(Outcome::Done);
    }
    let after = recording::check_text(&harness, text)?;
    if after.errors() {
        let colour = terminal::colour_on_stderr();
        terminal::talk(&diagnose::terminal(&after.text, "the new text", &after.diagnostics, colour));
        let kept = keep(&after.text)?;
        terminal::talk(&format!("the plan is unchanged; your text is in {}", kept.display()));
        return Ok(Outcome::Diagnosed);
    }
    recording::rewrite(&harness, &before, &after.text)?;
    at_the_gate(global, &harness)
}

/// Shows what changed and asks for approval.
fn at_the_gate(global: &Global, harness: &Harness) -> Answer {
    let (run, reading) = recording::bring_up(harness)?;
    let run = if run.stage == provost_core::state::run::Stage::Verified {
        commands::request_approval(harness)?
    } else {
        run
    };
    if global.json {
        let answer = serde_json::json!({
            "plan": harness.id(), "stage": run.stage.word(), "revision": run.revision,
        });
        terminal::print(&format!("{answer}\n"))?;
    }
    if !terminal::is_interactive() {
        let short = run.revision.short();
        terminal::advise(&format!(
            "revision {short} waits for approval: `provost approve --revision {short}`"
        ));
        return Ok(Outcome::Waiting);
    }
    match terminal::gate(harness, &run, reading.as_ref(), terminal::user())? {
        Gate::Approved(_) => Ok(Outcome::Done),
        Gate::Rejected => Ok(Outcome::Refused),
        Gate::Waiting => Ok(Outcome::Waiting),
    }
}

fn from_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    read.map_err(|error| Failure::Usage {
        message: format!("cannot read {}: {error}", path.display()),
        hint: None,
    })
}

/// Returns the text to edit: all of it, or the steps from `first` on.
fn rest(before: &BoundPlan, first: Option<StepNumber>) -> String {
    let steps = &before.plan.steps;
    let (Some(first), Some(last)) = (first.and_then(|first| before.plan.step(first)), steps.last()) else {
        return before.text.clone();
    };
    Span::new(first.section.start, last.section.end).of(&before.text).to_owned()
}

fn from_editor(text: &str) -> Result<Vec<u8>, Failure> {
    let editor =
        ["VISUAL", "EDITOR"].iter().filter_map(|name| std::env::var(name).ok()).find(|e| !e.is_empty());
    let Some(editor) = editor else {
        return Err(Failure::usage("neither VISUAL nor EDITOR is set", "Use `provost amend --file FILE`."));
    };
    let path = keep(text)?;
    let io = |what: &str, source| Failure::Io { what: format!("{what} {}", path.display()), source };
    // The variable may hold arguments, so the shell splits it, as it does for git.
    let status = std::process::Command::new("sh")
        .args(["-c", "exec $0 \"$1\"", &editor])
        .arg(&path)
        .status()
        .map_err(|source| io("edit", source))?;
    if !status.success() {
        let _ = std::fs::remove_file(&path);
        return Err(Failure::Usage {
            message: format!("the editor ended with {status}; nothing changed"),
            hint: None,
        });
    }
    let text = std::fs::read(&path).map_err(|source| io("read", source))?;
    let _ = std::fs::remove_file(&path);
    Ok(text)
}

/// Puts a text where only this user can read it.
fn keep(text: &str) -> Result<PathBuf, Failure> {
    let io = |source| Failure::Io { what: "write a temporary file".to_owned(), source };
    let mut file = tempfile::Builder::new().prefix("provost-").suffix(".md").tempfile().map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)?;
    let (_, path) = file.keep().map_err(|error| io(error.error))?;
    Ok(path)
}
