//! Lays out what an approval would cover, and what speaks against it.

use provost_core::state::run::Stage;
use provost_engine::observe::overview::{Overview, PlanSnapshot};
use provost_engine::observe::view::GateView;

use crate::failure::Failure;
use crate::watch::known::{Gate, Said, Tone};
use crate::watch::text;
use crate::{diagnose, terminal};

pub(super) fn of(overview: &Overview, seen: &PlanSnapshot) -> Result<Gate, Failure> {
    let gate = GateView::of(overview, seen)?;
    Ok(Gate {
        plan: seen.id.clone(),
        name: text::line(&gate.name),
        short: text::line(short(&gate.revision)),
        open: gate.open,
        is_looked_at: gate.on_base_under_way,
        page: page(&gate),
        revision: gate.revision,
    })
}

fn short(revision: &str) -> &str {
    revision.get(..12).unwrap_or(revision)
}

fn page(gate: &GateView) -> Vec<Said> {
    let wait = |words: &str| Said::new(Tone::Wait, words);
    let mut page = vec![Said::strong(format!("{}: {}", gate.name, gate.title))];
    page.push(Said::plain(format!("An approval binds to revision {}", gate.revision)));
    let waits = matches!(gate.stage, Stage::Draft | Stage::Verified);
    page.push(match (&gate.approved_by, gate.open) {
        (_, true) => wait("It waits for your decision: a approves, r rejects, b asks a question."),
        (Some(by), false) if !waits => Said::new(Tone::Good, format!("Approved by {by}.")),
        _ => wait("The plan cannot be approved now."),
    });
    if gate.changed {
        page.push(wait("The plan file has changed since the log recorded it."));
    }
    if let Some(question) = &gate.question {
        page.push(wait(&format!("A question is open: {question}")));
    }
    if let Some(reason) = &gate.rejected {
        page.push(Said::new(Tone::Bad, format!("This revision was rejected: {reason}")));
    }
    page.push(Said::gap());
    match &gate.approved_by {
        None => page.push(Said::quiet("The plan was never approved before: all of it is new.")),
        Some(by) if gate.changes.is_empty() => {
            page.push(Said::quiet(format!("Nothing changed since {by} approved it.")));
        }
        Some(by) => {
            let from = short(gate.approved.as_deref().unwrap_or_default());
            page.push(Said::strong(format!("Changed since revision {from}, which {by} approved")));
            page.extend(gate.changes.iter().map(|line| Said::indented(Tone::Wait, line)));
        }
    }
    if !gate.found.is_empty() {
        page.push(wait(&format!("{}, at the end", terminal::count(gate.found.len(), "diagnostic"))));
    }
    page.extend(gate.uncommitted_lines.iter().map(|line| wait(line)));
    if gate.on_base_under_way {
        page.extend([Said::gap(), Said::quiet("running the checks on the base, before any work …")]);
    } else if !gate.on_base.is_empty() {
        let tone = if gate.already_hold > 0 { Tone::Wait } else { Tone::Plain };
        page.extend([Said::gap(), Said::new(tone, gate.on_base.join("\n"))]);
    }
    page.extend([Said::gap(), Said::strong("The plan"), Said::plain(&gate.shown)]);
    if !gate.found.is_empty() {
        let found = diagnose::terminal(&gate.text, &gate.name, &gate.found, false);
        page.extend([Said::gap(), Said::strong("Diagnostics"), Said::plain(found)]);
    }
    page
}
