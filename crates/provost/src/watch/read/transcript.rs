//! Lays out what the agent said and did in the last attempt at a step.

use provost_core::model::plan::StepNumber;
use provost_core::model::transcript::TranscriptEntry;
use provost_core::text::render;
use provost_engine::observe::overview::{Overview, PlanSnapshot};

use crate::failure::Failure;
use crate::watch::known::{Said, Tone};

pub(super) fn page(overview: &Overview, seen: &PlanSnapshot, step: u32) -> Result<Vec<Said>, Failure> {
    let Some(found) = overview.transcript(&seen.id, StepNumber(step), None)? else {
        return Ok(vec![Said::quiet("no attempt yet")]);
    };
    let mut page = vec![Said::strong(found.title())];
    page.extend(found.note.map(|note| Said::new(Tone::Wait, note)));
    page.push(Said::gap());
    for entry in &found.entries {
        let tone = match entry {
            TranscriptEntry::Text { .. } => Tone::Plain,
            TranscriptEntry::ToolCall { .. } => Tone::Busy,
            TranscriptEntry::ToolResult { ok: false, .. } => Tone::Bad,
            TranscriptEntry::ToolResult { .. } | TranscriptEntry::Usage(_) => Tone::Quiet,
            TranscriptEntry::Omitted { .. } => Tone::Wait,
        };
        let text = render::transcript::text(std::slice::from_ref(entry));
        page.extend(
            text.lines().map(|line| if line.is_empty() { Said::gap() } else { Said::new(tone, line) }),
        );
    }
    Ok(page)
}
