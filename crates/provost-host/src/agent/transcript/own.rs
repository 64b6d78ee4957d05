//! Entries of programs that report in provost's own format, such as the built-in agent.
//!
//! A line of their output is an entry in the form of the transcript, the report, or text. Only the last line
//! is the report, so a line that could be it waits for the next one.

use provost_core::model::transcript::TranscriptEntry;
use provost_core::text::render::transcript::brief;

use super::EntrySink;

#[derive(Default)]
pub(in crate::agent) struct OwnEntries {
    /// A line that is the report if no other follows.
    waiting: Option<String>,
    /// The program tells what it does in entries, so its report repeats what was said.
    has_entries: bool,
}

impl OwnEntries {
    pub(in crate::agent) fn line(&mut self, line: &[u8], sink: &mut EntrySink<'_>) {
        if sink.has_no_reader() {
            return;
        }
        if let Some(before) = self.waiting.take() {
            sink.message(&before);
        }
        let text = String::from_utf8_lossy(line);
        let is_object = text.trim_start().starts_with('{');
        match is_object.then(|| serde_json::from_str::<TranscriptEntry>(&text).ok()).flatten() {
            Some(entry) => {
                self.has_entries = true;
                sink.entry(entry);
            }
            None if is_object => self.waiting = Some(text.into_owned()),
            None => {
                sink.close();
                sink.chunk(&format!("{text}\n"));
            }
        }
    }

    /// Ends the output. `report` is the text of the last line if it was the report.
    pub(in crate::agent) fn finish(self, is_report: bool, report: Option<&str>, sink: &mut EntrySink<'_>) {
        match (is_report, self.waiting) {
            (true, _) if self.has_entries => {}
            (true, _) => sink.message(report.unwrap_or_default()),
            (false, waiting) => sink.message(&waiting.unwrap_or_default()),
        }
    }
}

/// Returns an output for people: entries become their readable lines.
pub(in crate::agent) fn readable(output: &str) -> String {
    let shown = |line: &str| match serde_json::from_str::<TranscriptEntry>(line) {
        Ok(entry) => brief(&entry),
        Err(_) => format!("{line}\n"),
    };
    output.lines().map(shown).collect()
}
