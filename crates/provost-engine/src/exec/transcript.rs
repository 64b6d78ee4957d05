//! The kept transcript of an attempt: written while the attempt runs, read by people afterwards.
//!
//! A transcript has three files: the beginning, and the last two pieces of what came after it, so that a long
//! one keeps its beginning and its end. Nothing is synced to the disk, and nothing depends on it. If it cannot
//! be written, there is none.
//!
//! **Invariant:** the caller has removed secrets from every entry.
//! **Invariant:** whatever an agent prints, the files of an attempt hold a few MiB at most.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::transcript::{TranscriptEntry, joined};
use provost_host::files::make_private_folder;

/// Bytes of the beginning that are kept.
const HEAD: u64 = 1 << 20;
/// Bytes of a piece of the end; the last two are kept.
const PIECE: u64 = 512 * 1024;
/// Bytes that are written at once.
const WRITE: usize = 64 * 1024;

/// The attempt that a transcript belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptKey {
    pub plan: PlanId,
    pub step: StepNumber,
    pub attempt: u32,
}

impl TranscriptKey {
    /// Returns the beginning of the names of its files; a later revision counts its attempts anew.
    fn prefix(&self) -> String {
        format!("{}-{}-", self.step, self.attempt)
    }
}

/// A transcript that is being written.
pub struct TranscriptFile {
    path: PathBuf,
    open: Option<File>,
    /// Bytes in the open file.
    bytes: u64,
    is_past_head: bool,
    /// Entries and bytes of the pieces: of those that are gone, of the one before, and of the open one.
    gone: Extent,
    before: Extent,
    now: Extent,
    has_failed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    entries: u64,
    bytes: u64,
}

impl Extent {
    fn and(self, more: Extent) -> Extent {
        Extent { entries: self.entries + more.entries, bytes: self.bytes + more.bytes }
    }
}

impl TranscriptFile {
    /// Prepares the transcript of an attempt under a revision. No file is made before the first entry.
    pub fn new(state: &Path, key: &TranscriptKey, revision: &str) -> Self {
        let revision: String = revision.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let path = folder(state, &key.plan).join(format!("{}{revision}.jsonl", key.prefix()));
        Self {
            path,
            open: None,
            bytes: 0,
            is_past_head: false,
            gone: Extent::default(),
            before: Extent::default(),
            now: Extent::default(),
            has_failed: false,
        }
    }

    /// Appends entries, many with one write.
    pub fn append(&mut self, entries: &[TranscriptEntry]) {
        let (mut text, mut count) = (String::new(), 0);
        for line in entries.iter().filter_map(|entry| serde_json::to_string(entry).ok()) {
            if text.len() + line.len() > WRITE {
                self.put(&std::mem::take(&mut text), std::mem::take(&mut count));
            }
            text.push_str(&line);
            text.push('\n');
            count += 1;
        }
        self.put(&text, count);
    }

    fn put(&mut self, text: &str, entries: u64) {
        if !text.is_empty() && !self.has_failed {
            self.has_failed = self.write(text, entries).is_err();
        }
    }

    fn write(&mut self, text: &str, entries: u64) -> io::Result<()> {
        let added = Extent { entries, bytes: text.len() as u64 };
        let most = if self.is_past_head { PIECE } else { HEAD };
        if self.open.is_none() {
            self.path.parent().map_or(Ok(()), make_private_folder)?;
            for piece in pieces(&self.path) {
                let _ = fs::remove_file(piece);
            }
            self.open = Some(File::create(&self.path)?);
        } else if self.bytes > 0 && self.bytes + added.bytes > most {
            self.next_piece()?;
        }
        if let Some(file) = &mut self.open {
            file.write_all(text.as_bytes())?;
        }
        self.bytes += added.bytes;
        if self.is_past_head {
            self.now = self.now.and(added);
        }
        Ok(())
    }

    /// Begins a new piece; the one before the last is dropped.
    fn next_piece(&mut self) -> io::Result<()> {
        let [before, now] = pieces(&self.path);
        if self.is_past_head {
            fs::rename(&now, &before)?;
        }
        self.gone = self.gone.and(self.before);
        (self.before, self.now) = (self.now, Extent::default());
        let mut file = File::create(&now)?;
        // If the process is killed, the first line of a piece says what is missing before it.
        let Extent { entries, bytes } = self.gone.and(self.before);
        let omitted = serde_json::to_string(&TranscriptEntry::Omitted { entries, bytes })?;
        file.write_all(format!("{omitted}\n").as_bytes())?;
        self.open = Some(file);
        (self.bytes, self.is_past_head) = (0, true);
        Ok(())
    }

    /// Ends the transcript. Returns its digest; `None` if there is no transcript.
    pub fn close(self) -> Option<String> {
        self.open.as_ref()?;
        drop(self.open);
        Some(Hash::of(text(&self.path)?.as_bytes()).to_string())
    }
}

/// A kept transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptTranscript {
    pub entries: Vec<TranscriptEntry>,
    /// It is not the one that the log names.
    pub differs: bool,
}

/// Reads the transcript of an attempt. `digest` is the one in the log, if the attempt has ended.
pub fn read(state: &Path, key: &TranscriptKey, digest: Option<&str>) -> Option<KeptTranscript> {
    let prefix = key.prefix();
    let is_it = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&prefix) && name.ends_with(".jsonl")
    };
    let all = fs::read_dir(folder(state, &key.plan)).ok()?.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = all.filter(|path| is_it(path)).collect();
    found.sort_by_key(|path| fs::metadata(path).and_then(|found| found.modified()).ok());
    let texts = found.iter().rev().filter_map(|path| text(path));
    let with_digest = texts.map(|text| {
        let is_named = digest.is_none_or(|digest| Hash::of(text.as_bytes()).to_string() == digest);
        (text, is_named)
    });
    let all: Vec<(String, bool)> = with_digest.collect();
    let (text, is_named) = all.iter().find(|(_, is_named)| *is_named).or(all.first())?;
    // The last line may be cut, if the process was killed.
    let entries = joined(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
    Some(KeptTranscript { entries, differs: !is_named })
}

/// Returns the lines of all files; of what is missing in between, the line that says it.
fn text(path: &Path) -> Option<String> {
    let mut text = fs::read_to_string(path).ok()?;
    let [before, now] = pieces(path);
    let [before, now] = [before, now].map(|piece| fs::read_to_string(piece).unwrap_or_default());
    let is_whole = |line: &str| {
        let read = serde_json::from_str::<TranscriptEntry>(line);
        matches!(read, Ok(TranscriptEntry::Omitted { bytes: 0, .. }))
    };
    let rest = |piece: &str, is_shown: bool| match piece.split_once('\n') {
        Some((first, rest)) if !is_shown || is_whole(first) => rest.to_owned(),
        _ => piece.to_owned(),
    };
    text.push_str(&rest(&before, true));
    text.push_str(&rest(&now, before.is_empty()));
    Some(text)
}

/// Returns the piece before the last one, and the last one.
fn pieces(path: &Path) -> [PathBuf; 2] {
    [path.with_extension("before"), path.with_extension("end")]
}

/// Returns the folder of a plan's transcripts.
pub fn folder(state: &Path, plan: &PlanId) -> PathBuf {
    state.join("transcripts").join(&Hash::of(plan.0.as_bytes()).to_string()[..16])
}

/// Returns when a folder of transcripts was last written to.
pub fn last_written(folder: &Path) -> Option<SystemTime> {
    let files = fs::read_dir(folder).ok()?.flatten();
    files.filter_map(|file| file.metadata().and_then(|found| found.modified()).ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TranscriptKey {
        TranscriptKey { plan: PlanId("p".to_owned()), step: StepNumber(2), attempt: 1 }
    }

    fn said(text: &str) -> TranscriptEntry {
        TranscriptEntry::Text { text: text.to_owned() }
    }

    /// Numbered calls, because texts that follow each other are joined.
    fn call(number: u64) -> TranscriptEntry {
        let name = format!("{number:>1000}");
        TranscriptEntry::ToolCall { id: String::new(), name, summary: String::new(), arguments: ().into() }
    }

    #[test]
    fn a_short_one_is_kept_whole_and_read_while_it_grows() {
        let state = tempfile::tempdir().expect("a folder");
        let mut file = TranscriptFile::new(state.path(), &key(), "rev/../1");
        assert_eq!(read(state.path(), &key(), None), None);
        file.append(&[said("one\n"), said("two\n")]);
        let kept = read(state.path(), &key(), None).expect("a transcript");
        assert_eq!((kept.entries, kept.differs), (vec![said("one\ntwo\n")], false));
        file.append(&[call(1)]);
        let digest = file.close().expect("a digest");
        let kept = read(state.path(), &key(), Some(&digest)).expect("a transcript");
        assert_eq!((kept.entries.len(), kept.differs), (2, false));
        assert!(read(state.path(), &key(), Some("other")).expect("a transcript").differs);
        // Nothing was said, so nothing is kept.
        let silent = TranscriptKey { attempt: 2, ..key() };
        assert_eq!(TranscriptFile::new(state.path(), &silent, "r").close(), None);
        assert_eq!(read(state.path(), &silent, None), None);
    }

    #[test]
    fn a_long_one_keeps_its_beginning_and_its_end_and_says_what_is_missing() {
        let state = tempfile::tempdir().expect("a folder");
        let mut file = TranscriptFile::new(state.path(), &key(), "r");
        let count = 8_000;
        for number in 0..count {
            file.append(&[call(number)]);
            // Also if the process is killed here.
            if number % 1_700 == 0 {
                whole(state.path(), number + 1);
            }
        }
        let digest = file.close();
        whole(state.path(), count);
        let size = |entry: fs::DirEntry| entry.metadata().expect("a file").len();
        let bytes: u64 =
            fs::read_dir(folder(state.path(), &key().plan)).expect("a folder").flatten().map(size).sum();
        assert!(bytes < 2_200_000, "{bytes}");
        assert!(!read(state.path(), &key(), digest.as_deref()).expect("a transcript").differs);
        // The next attempt of that number begins with no old piece.
        let mut file = TranscriptFile::new(state.path(), &key(), "r");
        file.append(&[call(7)]);
        assert_eq!(read(state.path(), &key(), None).expect("a transcript").entries, [call(7)]);
    }

    /// Checks that the entries that are there and those that are missing are all.
    fn whole(state: &Path, count: u64) {
        let entries = read(state, &key(), None).expect("a transcript").entries;
        let missing = |entry: &TranscriptEntry| match entry {
            TranscriptEntry::Omitted { entries, .. } => *entries,
            _ => 1,
        };
        assert_eq!(entries.iter().map(missing).sum::<u64>(), count);
        let gaps = entries.iter().filter(|entry| matches!(entry, TranscriptEntry::Omitted { .. })).count();
        assert!(gaps <= 1, "{gaps} of {count}");
        assert_eq!((entries.first(), entries.last()), (Some(&call(0)), Some(&call(count - 1))));
    }

    #[test]
    fn of_two_revisions_the_log_tells_which() {
        let state = tempfile::tempdir().expect("a folder");
        let mut digests = Vec::new();
        for revision in ["a", "b"] {
            let mut file = TranscriptFile::new(state.path(), &key(), revision);
            file.append(&[said(revision)]);
            digests.push(file.close().expect("a digest"));
        }
        for (digest, revision) in digests.iter().zip(["a", "b"]) {
            let kept = read(state.path(), &key(), Some(digest)).expect("a transcript");
            assert_eq!((kept.entries, kept.differs), (vec![said(revision)], false));
        }
    }
}
