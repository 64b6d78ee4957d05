//! Reads what an approval would cover, and what speaks against it.

use provost_core::state::run::Stage;
use provost_core::text::render;
use provost_engine::observe::overview::{Overview, PlanSnapshot};
use provost_engine::plan::human_check::Who;
use provost_engine::plan::{recording, uncommitted};
use provost_engine::exec::base_look::{self, OnBase};
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::watch::known::{Gate, Said, Tone};
use crate::watch::text;
use crate::{diagnose, terminal};

pub fn of(overview: &Overview, seen: &PlanSnapshot) -> Result<Gate, Failure> {
    let harness = overview.harness(seen, Access::Read, Who::Here)?;
    let (run, changed) = recording::preview(&harness)?;
    let reading = recording::check(&harness)?;
    let since = overview.changes_since_approval(&seen.id, &run)?;
    let rejected = run.rejection.as_ref().filter(|(revision, _)| *revision == run.revision);
    let waits = matches!(run.stage, Stage::Draft | Stage::Verified);
    let open = waits && !reading.errors() && rejected.is_none() && run.forged_from.is_none();
    let mut page = vec![Said::strong(format!("{}: {}", seen.name(), run.plan.title))];
    page.push(Said::plain(format!("An approval binds to revision {}", run.revision)));
    page.push(match (&run.approved_by, open) {
        (_, true) => {
            Said::new(Tone::Wait, "It waits for your decision: a approves, r rejects, b asks a question.")
        }
        (Some(by), false) if !waits => Said::new(Tone::Good, format!("Approved by {by}.")),
        _ => Said::new(Tone::Wait, "The plan cannot be approved now."),
    });
    if changed {
        page.push(Said::new(Tone::Wait, "The plan file has changed since the log recorded it."));
    }
    if let Some(question) = &run.question {
        page.push(Said::new(Tone::Wait, format!("A question is open: {question}")));
    }
    if let Some((_, reason)) = rejected {
        page.push(Said::new(Tone::Bad, format!("This revision was rejected: {reason}")));
    }
    page.push(Said::gap());
    match &since {
        None => page.push(Said::quiet("The plan was never approved before: all of it is new.")),
        Some(since) if since.lines.is_empty() => {
            page.push(Said::quiet(format!("Nothing changed since {} approved it.", since.by)));
        }
        Some(since) => {
            let from = since.from.short();
            page.push(Said::strong(format!("Changed since revision {from}, which {} approved", since.by)));
            page.extend(since.lines.iter().map(|line| Said::indented(Tone::Wait, line)));
        }
    }
    if !reading.diagnostics.is_empty() {
        page.push(Said::new(
            Tone::Wait,
            format!("{}, at the end", terminal::count(reading.diagnostics.len(), "diagnostic")),
        ));
    }
    if waits {
        let found = uncommitted::uncommitted(&harness, &run).unwrap_or_default();
        page.extend(found.lines().into_iter().map(|line| Said::new(Tone::Wait, line)));
    }
    let on_base = base_look::on_base(&harness, &run);
    match &on_base {
        OnBase::Known(look) => {
            let lines = render::base::lines(&run.plan, look);
            let tone = if look.holding() > 0 { Tone::Wait } else { Tone::Plain };
            page.extend([Said::gap(), Said::new(tone, lines.join("\n"))]);
        }
        OnBase::UnderWay => {
            page.extend([Said::gap(), Said::quiet("running the checks on the base, before any work …")]);
        }
        OnBase::NotTried => {}
    }
    page.extend([Said::gap(), Said::strong("The plan"), Said::plain(render::plan(&run))]);
    if !reading.diagnostics.is_empty() {
        let found = diagnose::terminal(&reading.text, seen.name(), &reading.diagnostics, false);
        page.extend([Said::gap(), Said::strong("Diagnostics"), Said::plain(found)]);
    }
    Ok(Gate {
        plan: seen.id.clone(),
        name: text::line(seen.name()),
        short: text::line(run.revision.short()),
        revision: run.revision.0,
        open,
        is_looked_at: on_base == OnBase::UnderWay,
        page,
    })
}
