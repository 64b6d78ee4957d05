//! Shows what a running attempt says and does, or what its running check prints, in a small file for people who
//! watch. Of an attempt all is kept as a transcript; of a check the verdict has the output.
//!
//! The log gets the agent's words when the attempt has ended. Nothing depends on these files; the small one is
//! removed with the attempt, or with the check. If it cannot be written, the output is not shown, and nothing else happens.
//!
//! **Invariant:** secrets were removed from what is written. A text is cut only at the end of a line, and
//! while it is shown at the end of a word, and is redacted together with what came shortly before.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::transcript::TranscriptEntry;
use provost_core::text::render::transcript::brief;
use provost_host::files;
use serde_json::Value;

use super::transcript::TranscriptFile;

/// Bytes of the beginning, of which nothing is left out before it is written.
const BEGINNING: usize = 1 << 20;
/// Bytes of later entries that wait to be written at most.
const PENDING: usize = 256 * 1024;
/// Bytes of a text from which on more text is another entry.
const CHUNK: usize = 16 * 1024;
/// Bytes of text that are redacted again with the text after them: a secret of several lines is recognised by
/// its beginning.
const CONTEXT: usize = 8 * 1024;
/// Longest line that is held until it ends.
const LINE: usize = 64 * 1024;
/// Bytes that are shown.
const SHOWN: usize = 8 * 1024;
/// Minimum time between two writes.
const BREATH: Duration = Duration::from_millis(150);

pub struct LiveOutput {
    path: PathBuf,
    heard: Mutex<Heard>,
    woken: Condvar,
}

#[derive(Default)]
struct Heard {
    /// Entries of the beginning, which all are kept.
    first: VecDeque<TranscriptEntry>,
    /// Later entries, and their bytes. If too much waits, the oldest are left out.
    later: VecDeque<TranscriptEntry>,
    waiting: usize,
    /// Bytes of all entries so far.
    total: usize,
    is_over: bool,
}

impl Heard {
    fn add(&mut self, entry: TranscriptEntry) {
        let is_first = self.total < BEGINNING;
        self.total += entry.size();
        self.waiting += if is_first { 0 } else { entry.size() };
        let queue = if is_first { &mut self.first } else { &mut self.later };
        match (queue.back_mut(), entry) {
            (Some(TranscriptEntry::Text { text }), TranscriptEntry::Text { text: more })
                if text.len() < CHUNK =>
            {
                text.push_str(&more);
            }
            (_, entry) => queue.push_back(entry),
        }
        if self.waiting > PENDING {
            self.leave_out();
        }
    }

    /// Leaves out the oldest of the later entries.
    fn leave_out(&mut self) {
        let (mut gone, mut size) = (0, 0);
        while self.waiting > PENDING / 2 {
            let Some(oldest) = self.later.pop_front() else { break };
            self.waiting -= oldest.size();
            match oldest {
                TranscriptEntry::Omitted { entries, bytes } => (gone, size) = (gone + entries, size + bytes),
                other => (gone, size) = (gone + 1, size + other.size() as u64),
            }
        }
        // The rest of a line could be the rest of a secret.
        if let Some(TranscriptEntry::Text { text }) = self.later.front_mut() {
            let line = text.find('\n').map_or(text.len(), |end| end + 1);
            text.drain(..line);
            (self.waiting, size) = (self.waiting - line, size + line as u64);
        }
        self.later.push_front(TranscriptEntry::Omitted { entries: gone, bytes: size });
    }

    fn take(&mut self) -> VecDeque<TranscriptEntry> {
        self.waiting = 0;
        let mut all = std::mem::take(&mut self.first);
        all.append(&mut self.later);
        all
    }
}

/// Marks the attempt as over when it is dropped.
pub struct Over<'l>(&'l LiveOutput);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.woken.notify_all();
    }
}

impl LiveOutput {
    pub fn new(state: &Path, plan: &PlanId, step: StepNumber) -> Self {
        let path = file(state, plan, step);
        // Left by an attempt whose provost process was killed.
        let _ = fs::remove_file(&path);
        Self { path, heard: Mutex::default(), woken: Condvar::new() }
    }

    pub fn until_dropped(&self) -> Over<'_> {
        Over(self)
    }

    pub fn hear(&self, entry: TranscriptEntry) {
        self.lock().add(entry);
        self.woken.notify_all();
    }

    /// Keeps both files up to date until the attempt is over, then removes the small one. Returns the digest
    /// of the transcript.
    pub fn attend(&self, mut transcript: TranscriptFile, clean: impl Fn(&str) -> String) -> Option<String> {
        self.follow(&clean, |entries| transcript.append(entries));
        transcript.close()
    }

    /// Keeps the small file up to date until the check is over, then removes it. Nothing is written for a
    /// check that is over at once.
    pub fn show(&self, clean: impl Fn(&str) -> String) {
        let is_running = |heard: &mut Heard| !heard.is_over;
        let waited = self.woken.wait_timeout_while(self.lock(), BREATH, is_running);
        let is_over = waited.map_or(true, |(heard, _)| heard.is_over);
        if !is_over {
            self.follow(&clean, |_| ());
        }
    }

    /// Writes what is shown until it is over; `keep` gets every entry.
    fn follow(&self, clean: &impl Fn(&str) -> String, mut keep: impl FnMut(&[TranscriptEntry])) {
        let mut lines = CleanLines::default();
        loop {
            let (entries, is_over) = self.next();
            entries.into_iter().for_each(|entry| lines.add(entry, clean));
            lines.end_lines(is_over, clean);
            keep(&std::mem::take(&mut lines.ready));
            if is_over {
                break;
            }
            let folder = self.path.parent().map_or(Ok(()), files::make_private_folder);
            let _ = folder.and_then(|()| files::write_whole(&self.path, lines.shown(clean).as_bytes()));
            let heard = self.lock();
            drop(self.woken.wait_timeout_while(heard, BREATH, |heard| !heard.is_over));
        }
        let _ = fs::remove_file(&self.path);
    }

    /// Waits for new entries and returns them, and whether the attempt is over.
    fn next(&self) -> (VecDeque<TranscriptEntry>, bool) {
        let is_quiet = |heard: &mut Heard| heard.first.is_empty() && heard.later.is_empty() && !heard.is_over;
        let mut heard = self.woken.wait_while(self.lock(), is_quiet).unwrap_or_else(PoisonError::into_inner);
        (heard.take(), heard.is_over)
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entries without secrets, and the text that is still open.
#[derive(Default)]
struct CleanLines {
    /// Entries that can be written.
    ready: Vec<TranscriptEntry>,
    /// The end of what is shown.
    tail: String,
    /// Text whose last line has not ended, as the agent wrote it.
    open: String,
    /// The text before it, as the agent wrote it.
    context: String,
}

impl CleanLines {
    fn add(&mut self, entry: TranscriptEntry, clean: &impl Fn(&str) -> String) {
        if let TranscriptEntry::Text { text } = entry {
            self.open.push_str(&text);
            if self.open.len() > CHUNK {
                self.end_lines(false, clean);
            }
            return;
        }
        self.end_lines(true, clean);
        self.context.clear();
        let text = |text: String| clean(&text);
        self.push(match entry {
            TranscriptEntry::ToolCall { id, name, summary, arguments } => TranscriptEntry::ToolCall {
                id,
                name: text(name),
                summary: text(summary),
                arguments: clean_value(arguments, clean),
            },
            TranscriptEntry::ToolResult { id, ok, text: said } => {
                TranscriptEntry::ToolResult { id, ok, text: text(said) }
            }
            other => other,
        });
    }

    /// Takes over the lines that have ended; `all`: also the last one.
    fn end_lines(&mut self, all: bool, clean: &impl Fn(&str) -> String) {
        let end = match self.open.rfind('\n') {
            _ if all || self.open.len() > LINE => self.open.len(),
            Some(end) => end + 1,
            None => return,
        };
        if end == 0 {
            return;
        }
        let rest = self.open.split_off(end);
        let mut raw = std::mem::replace(&mut self.open, rest);
        if !raw.ends_with('\n') {
            raw.push('\n');
        }
        let text = self.cleaned(&raw, clean);
        self.context.push_str(&raw);
        let surplus = self.context.len().saturating_sub(CONTEXT);
        let cut = (surplus..=self.context.len()).find(|at| self.context.is_char_boundary(*at));
        self.context.drain(..cut.unwrap_or(0));
        if !text.is_empty() {
            self.push(TranscriptEntry::Text { text });
        }
    }

    /// Returns the text without secrets, also without those that began before it.
    fn cleaned(&self, text: &str, clean: &impl Fn(&str) -> String) -> String {
        if self.context.is_empty() {
            return clean(text);
        }
        let before = clean(&self.context);
        let whole = clean(&format!("{}{text}", self.context));
        let common = before.chars().zip(whole.chars()).take_while(|(one, other)| one == other);
        let common: usize = common.map(|(letter, _)| letter.len_utf8()).sum();
        whole[common..].to_owned()
    }

    fn push(&mut self, entry: TranscriptEntry) {
        self.tail.push_str(&brief(&entry));
        if self.tail.len() > 2 * SHOWN {
            self.tail = last(&self.tail).to_owned();
        }
        self.ready.push(entry);
    }

    /// Returns what is shown: the last lines, and the whole words of the one that has not ended.
    fn shown(&self, clean: &impl Fn(&str) -> String) -> String {
        let words = self.open.trim_end_matches(|letter: char| !letter.is_whitespace()).trim_end();
        let open = if words.is_empty() { String::new() } else { self.cleaned(words, clean) + " …\n" };
        last(&format!("{}{open}", self.tail)).to_owned()
    }
}

/// Returns arguments without secrets: in each text, and in all of them together, since a name can tell that
/// the text after it is secret.
fn clean_value(value: Value, clean: &impl Fn(&str) -> String) -> Value {
    if value.is_null() {
        return value;
    }
    let each = clean_texts(value, clean);
    let text = each.to_string();
    let together = clean(&text);
    if together == text {
        return each;
    }
    serde_json::from_str(&together).unwrap_or(Value::String(together))
}

fn clean_texts(value: Value, clean: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(values) => values.into_iter().map(|value| clean_texts(value, clean)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (clean(&name), clean_texts(value, clean))).collect()
        }
        other => other,
    }
}

/// Returns the last lines that the running attempt of a step has printed.
pub fn output(state: &Path, plan: &PlanId, step: StepNumber) -> Option<String> {
    fs::read_to_string(file(state, plan, step)).ok()
}

fn file(state: &Path, plan: &PlanId, step: StepNumber) -> PathBuf {
    let plan = Hash::of(plan.0.as_bytes()).to_string();
    state.join("live").join(format!("{}-{step}", &plan[..16]))
}

/// Returns the whole lines at the end.
fn last(text: &str) -> &str {
    let Some(start) = text.len().checked_sub(SHOWN) else { return text };
    let line = text.as_bytes()[start..].iter().position(|byte| *byte == b'\n');
    line.map_or("", |line| &text[start + line + 1..])
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::exec::transcript::{self, TranscriptKey};

    fn eventually(what: impl Fn() -> Option<String>, wanted: &str) {
        let begun = Instant::now();
        while what().as_deref() != Some(wanted) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{:?} is not {wanted:?}", what());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn said(text: &str) -> TranscriptEntry {
        TranscriptEntry::Text { text: text.to_owned() }
    }

    fn key(plan: &PlanId, step: StepNumber) -> TranscriptKey {
        TranscriptKey { plan: plan.clone(), step, attempt: 1 }
    }

    #[test]
    fn the_end_of_the_output_is_there_while_it_lasts_and_without_secrets() {
        let state = tempfile::tempdir().expect("a folder");
        let (plan, step) = (PlanId("p".to_owned()), StepNumber(2));
        let live = LiveOutput::new(state.path(), &plan, step);
        let seen = || output(state.path(), &plan, step);
        let file = || TranscriptFile::new(state.path(), &key(&plan, step), "r");
        let digest = std::thread::scope(|scope| {
            let attended = scope.spawn(|| live.attend(file(), |text| text.replace("hush\nhush", "[gone]")));
            let over = live.until_dropped();
            assert_eq!(seen(), None);
            live.hear(said("one\nhu"));
            eventually(seen, "one\n");
            live.hear(said("sh\nhush\nand tw"));
            eventually(seen, "one\n[gone]\nand …\n");
            let call = |command: &str| TranscriptEntry::ToolCall {
                id: String::new(),
                name: "shell".to_owned(),
                summary: command.to_owned(),
                arguments: serde_json::json!({ "command": command }),
            };
            live.hear(call("cat hush\nhush"));
            eventually(seen, "one\n[gone]\nand tw\n→ shell cat [gone]\n");
            (0..20).for_each(|_| live.hear(said(&"a long line of many\n".repeat(1_000))));
            live.hear(said("end\n"));
            let begun = Instant::now();
            while !seen().is_some_and(|text| text.ends_with("many\nend\n") && text.starts_with("a long line"))
            {
                assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", seen());
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(seen().is_some_and(|text| text.len() <= SHOWN));
            live.hear(said("no newline"));
            drop(over);
            attended.join().expect("a digest")
        });
        assert_eq!(seen(), None);
        let kept =
            transcript::read(state.path(), &key(&plan, step), digest.as_deref()).expect("a transcript");
        assert!(digest.is_some() && !kept.differs);
        let text = provost_core::text::render::transcript::text(&kept.entries);
        assert!(text.starts_with("one\n[gone]\nand tw\n→ shell cat [gone]\na long line"), "{text}");
        assert!(text.ends_with("no newline\n") && !format!("{kept:?}").contains("hush\\nhush"), "{text}");
    }

    #[test]
    fn a_secret_of_many_lines_is_recognised_when_it_arrives_line_by_line() {
        // Like the shape of a private key: everything from its first line to its last.
        let clean = |text: &str| match text.split_once("BEGIN\n") {
            Some((before, rest)) => {
                let after = rest.split_once("END\n").map_or("", |(_, after)| after);
                format!("{before}[key]\n{after}")
            }
            None => text.to_owned(),
        };
        let mut lines = CleanLines::default();
        for text in ["a\n", "BEGIN\n", "x1\n", "x2\nEND\n", "b\n"] {
            lines.add(said(text), &clean);
            lines.end_lines(false, &clean);
        }
        let all: String = lines.ready.iter().map(brief).collect();
        assert_eq!(all, "a\n[key]\nb\n");
        assert_eq!(lines.shown(&clean), all);
    }

    #[test]
    fn a_name_tells_that_the_text_after_it_is_secret() {
        let clean = |text: &str| text.replace("\"password\":\"x\"", "\"password\":\"[gone]\"");
        let cleaned = clean_value(serde_json::json!({ "password": "x", "a": [1, "x"] }), &clean);
        assert_eq!(cleaned, serde_json::json!({ "password": "[gone]", "a": [1, "x"] }));
    }

    #[test]
    fn what_a_killed_harness_left_is_gone_when_the_next_attempt_begins() {
        let state = tempfile::tempdir().expect("a folder");
        let (plan, step) = (PlanId("p".to_owned()), StepNumber(1));
        fs::create_dir(state.path().join("live")).expect("a folder");
        fs::write(file(state.path(), &plan, step), "old").expect("a file");
        assert_eq!(output(state.path(), &plan, step).as_deref(), Some("old"));
        let _live = LiveOutput::new(state.path(), &plan, step);
        assert_eq!(output(state.path(), &plan, step), None);
    }
}
