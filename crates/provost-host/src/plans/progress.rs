//! Writes the progress file beside a plan: one line per event, for people, append-only.
//!
//! The file is a projection of the log. Every line has the sequence number of its event, so after a crash
//! the projection continues where the file ends: no line is lost and none is written twice.
//!
//! **Invariant:** existing text is never changed, only appended to. A line that a crash cut off is
//! completed, not repeated.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use provost_core::model::timestamp::Timestamp;

use crate::files::bounded_lock;

const HEADING: &str = "# Progress\n\nWritten by provost, one line per event. The log is the truth.\n\n";
/// Bytes at the end that are searched first; people may have written below provost's lines.
const TAIL: u64 = 64 << 10;

/// One event in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressLine {
    pub at: Timestamp,
    pub seq: u64,
    /// `[1/4] ✓ Title: words`
    pub words: String,
}

impl fmt::Display for ProgressLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "- {} #{} {}", self.at, self.seq, flat(&self.words))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {attempted} the progress file {}", path.display())]
pub struct Error {
    pub path: PathBuf,
    pub attempted: &'static str,
    pub source: std::io::Error,
}

/// Returns the highest sequence number of provost's lines; 0 if there is none, or no file. An unfinished
/// last line does not count: [`append`] completes it. Others can write the file, so a caller that knows the
/// log takes the smaller of both numbers.
pub fn last_seq(path: &Path) -> Result<u64, Error> {
    let failed = |source| Error { path: path.to_owned(), attempted: "read", source };
    let mut file = match open(path, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed(error)),
    };
    let length = file.metadata().map_err(failed)?.len();
    let mut window = TAIL;
    loop {
        let start = length.saturating_sub(window);
        let bytes = from(&mut file, start).map_err(failed)?;
        match highest(&bytes, start > 0) {
            Some(seq) => return Ok(seq),
            None if start == 0 => return Ok(0),
            None => window = window.saturating_mul(8),
        }
    }
}

/// Returns the file's content from `start` on; `None` if there is no file, or only a link or a special
/// file.
pub fn since(path: &Path, start: u64) -> Option<Vec<u8>> {
    let mut file = open(path, OpenOptions::new().read(true)).ok()?;
    from(&mut file, start).ok()
}

/// Returns whether one of these lines looks like one of provost's.
pub fn has_our_lines(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| seq_of(line).is_some())
}

/// Appends `lines` in one write, and the heading to a new file.
pub fn append(path: &Path, lines: &[ProgressLine]) -> Result<(), Error> {
    let failed = |source| Error { path: path.to_owned(), attempted: "append to", source };
    let Some(first) = lines.first() else { return Ok(()) };
    let mut file = open(path, OpenOptions::new().read(true).append(true).create(true)).map_err(failed)?;
    // Without the lock, two projections would see the same end. If it cannot be taken, O_APPEND
    // remains.
    bounded_lock::exclusive(&file, bounded_lock::PATIENCE);
    let length = file.metadata().map_err(failed)?.len();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let text = match unfinished(&mut file, length).map_err(failed)? {
        _ if length == 0 => format!("{HEADING}{text}"),
        cut if cut.is_empty() => text,
        cut if first.to_string().as_bytes().starts_with(&cut) => {
            // The cut may be inside a character, so the rest is written as bytes.
            return file.write_all(&text.as_bytes()[cut.len()..]).map_err(failed);
        }
        _ => format!("\n{text}"),
    };
    file.write_all(text.as_bytes()).map_err(failed)
}

/// Opens a regular file and follows no link, because an agent may write this folder.
fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options.mode(0o644).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

fn from(file: &mut File, start: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the bytes after the last line end. A line of provost's is far shorter than `TAIL`.
fn unfinished(file: &mut File, length: u64) -> std::io::Result<Vec<u8>> {
    let bytes = from(file, length.saturating_sub(TAIL))?;
    let start = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(bytes[start..].to_vec())
}

fn highest(bytes: &[u8], cut_at_start: bool) -> Option<u64> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    if cut_at_start {
        lines.next();
    }
    lines.filter(|line| line.ends_with(b"\n")).filter_map(seq_of).max()
}

/// Parses the number: `- 2026-11-15T03:00:00.000Z #12 …` → 12
fn seq_of(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let (at, rest) = line.strip_prefix("- ")?.split_once(" #")?;
    humantime::parse_rfc3339(at).ok()?;
    rest.split_once(' ')?.0.parse().ok()
}

fn flat(words: &str) -> String {
    let words: String = words.chars().map(|each| if each.is_control() { ' ' } else { each }).collect();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn line(seq: u64, words: &str) -> ProgressLine {
        ProgressLine { at: Timestamp(1_794_711_600_000 + seq), seq, words: words.to_owned() }
    }

    #[test]
    fn lines_follow_a_heading_and_know_their_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress.md");
        assert_eq!(last_seq(&path).expect("no file"), 0);
        append(&path, &[line(1, "[0/4] started"), line(12, "[1/4] ✓ Title: two\nlines\r\n")])
            .expect("written");
        append(&path, &[line(13, "[1/4] #99 is no number of ours")]).expect("written");
        assert_eq!(last_seq(&path).expect("read"), 13);
        expect![[r#"
            # Progress

            Written by provost, one line per event. The log is the truth.

            - 2026-11-15T03:00:00.001Z #1 [0/4] started
            - 2026-11-15T03:00:00.012Z #12 [1/4] ✓ Title: two lines
            - 2026-11-15T03:00:00.013Z #13 [1/4] #99 is no number of ours
        "#]]
        .assert_eq(&std::fs::read_to_string(&path).expect("read"));
    }

    #[test]
    fn a_line_that_a_crash_cut_off_anywhere_is_completed_and_not_repeated() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = folder.path().join("whole.md");
        let lines = [line(1, "one ✓"), line(2, "two ✓"), line(3, "three ✓")];
        append(&whole, &lines).expect("written");
        let text = std::fs::read(&whole).expect("read");
        for cut in HEADING.len()..=text.len() {
            let path = folder.path().join("cut.md");
            std::fs::write(&path, &text[..cut]).expect("written");
            let last = last_seq(&path).expect("read");
            let rest: Vec<ProgressLine> = lines.iter().filter(|line| line.seq > last).cloned().collect();
            append(&path, &rest).expect("written");
            assert_eq!(std::fs::read(&path).expect("read"), text, "cut at {cut}");
        }
    }

    #[test]
    fn what_people_write_below_our_lines_does_not_hide_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress.md");
        append(&path, &[line(7, "done")]).expect("written");
        let mut file = OpenOptions::new().append(true).open(&path).expect("open");
        file.write_all("a note of a person, no number\n".repeat(10_000).as_bytes()).expect("written");
        file.write_all(b"no end of line").expect("written");
        assert_eq!(last_seq(&path).expect("read"), 7);
        append(&path, &[line(8, "next")]).expect("written");
        assert_eq!(last_seq(&path).expect("read"), 8);
        assert!(std::fs::read_to_string(&path).expect("read").contains("no end of line\n- 2026"));
    }

    #[test]
    fn a_link_in_place_of_the_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("profile");
        std::fs::write(&target, "x").expect("written");
        let path = folder.path().join("progress.md");
        std::os::unix::fs::symlink(&target, &path).expect("a link");
        assert!(append(&path, &[line(1, "x")]).is_err());
        assert!(last_seq(&path).is_err());
        assert_eq!(std::fs::read_to_string(&target).expect("read"), "x");
    }
}
