//! Writes what the agent does as entries of a transcript, one JSON object per line.

use std::io::Write;

use provost_core::model::transcript::TranscriptEntry;

use crate::event::AgentEvent;
use crate::plan_state::counted;

/// Writes the entry of an event, if it has one. Errors are ignored: the reader has gone away.
pub(crate) fn tell(event: &AgentEvent, out: &mut dyn Write) {
    let Some(line) = entry(event).and_then(|entry| serde_json::to_string(&entry).ok()) else { return };
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn entry(event: &AgentEvent) -> Option<TranscriptEntry> {
    let note = |text: String| Some(TranscriptEntry::Text { text: format!("\n[{text}]\n") });
    match event {
        AgentEvent::Text(text) => Some(TranscriptEntry::Text { text: text.clone() }),
        AgentEvent::Called { call, tool, arguments } => Some(TranscriptEntry::ToolCall {
            id: call.to_string(),
            name: tool.clone(),
            summary: String::new(),
            arguments: arguments.clone(),
        }),
        AgentEvent::Answered { call, failed, text, .. } => Some(TranscriptEntry::ToolResult {
            id: call.to_string(),
            ok: !failed,
            // The first line is the number of the call, for the model.
            text: text.split_once('\n').map_or("", |(_, text)| text).to_owned(),
        }),
        AgentEvent::PlanCreated { steps, postconditions } => {
            let (steps, posts) = (counted(*steps, "step"), counted(*postconditions, "postcondition"));
            note(format!("plan: {steps}, {posts}"))
        }
        AgentEvent::PlanRewritten { diff } => note(format!("plan rewritten: {}", diff.join("; "))),
        AgentEvent::FinalizationRefused { missing } => {
            note(format!("final answer refused: {}", missing.join("; ")))
        }
        AgentEvent::Compacted { before, after } => note(format!("context: {before} → {after} tokens")),
        AgentEvent::Retrying { after, why } => note(format!("again in {} s: {why}", after.as_secs())),
        AgentEvent::TurnStarted { .. }
        | AgentEvent::Thought(_)
        | AgentEvent::StepUpdated { .. }
        | AgentEvent::PostconditionAnswered { .. } => None,
    }
}
