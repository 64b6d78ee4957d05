//! Notes times and sizes of files in git's index, so that git need not read the files to know that they are as in
//! the commit.
//!
//! git writes them only after it has read every file. provost has just written the files from the very objects that
//! the index names. The caller says which ones; all others stay for git to read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ring::digest::{self, Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

const HEADER: usize = 12;
/// Offsets in an entry: `mtime` as seconds and nanoseconds, mode and size as 32 bits each, and the object.
const MTIME: usize = 8;
const MODE: usize = 24;
const SIZE: usize = 36;
const OBJECT: usize = 40;
/// Flag of an entry that has two more bytes of flags.
const EXTENDED: u8 = 0x40;

/// Notes the state of each file for which `found` returns metadata. Leaves an index in another format as it is.
pub(super) fn note_files(
    index: &Path,
    has_sha256: bool,
    found: &mut dyn FnMut(&[u8]) -> Option<fs::Metadata>,
) -> io::Result<()> {
    let mut bytes = fs::read(index)?;
    let algorithm = if has_sha256 { &SHA256 } else { &SHA1_FOR_LEGACY_USE_ONLY };
    if noted(&mut bytes, algorithm, found).is_some() {
        let coming = index.with_extension("new");
        fs::write(&coming, bytes)?;
        fs::rename(coming, index)?;
    }
    Ok(())
}

/// Returns `None` if the index is not in format 2 or 3.
fn noted(
    bytes: &mut [u8],
    algorithm: &'static Algorithm,
    found: &mut dyn FnMut(&[u8]) -> Option<fs::Metadata>,
) -> Option<()> {
    let end = bytes.len().checked_sub(algorithm.output_len())?;
    if bytes.get(..4)? != b"DIRC" || !matches!(number(bytes, 4)?, 2 | 3) {
        return None;
    }
    let mut at = HEADER;
    for _ in 0..number(bytes, 8)? {
        let flags = at + OBJECT + algorithm.output_len();
        let name = flags + if bytes.get(flags)? & EXTENDED == 0 { 2 } else { 4 };
        let length = bytes.get(name..end)?.iter().position(|byte| *byte == 0)?;
        let mode = number(bytes, at + MODE)?;
        if let Some(file) = found(&bytes[name..name + length]).filter(|file| file.mode() >> 12 == mode >> 12)
        {
            // git keeps the low 32 bits of each.
            put(bytes, at + MTIME, file.mtime() as u32)?;
            put(bytes, at + MTIME + 4, file.mtime_nsec() as u32)?;
            put(bytes, at + SIZE, file.size() as u32)?;
        }
        // Entries end with one to eight zero bytes.
        at += (name + length - at + 8) & !7;
    }
    let digest = digest::digest(algorithm, bytes.get(..end)?);
    bytes[end..].copy_from_slice(digest.as_ref());
    Some(())
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn put(bytes: &mut [u8], at: usize, number: u32) -> Option<()> {
    bytes.get_mut(at..at + 4)?.copy_from_slice(&number.to_be_bytes());
    Some(())
}
