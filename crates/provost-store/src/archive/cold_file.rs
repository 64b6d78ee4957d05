//! Writes cold files and reads the events of one plan in them.
//!
//! A line is the object that `provost log --json` prints, with `place` (the position in the whole log) and, for a
//! shared log, who wrote the event: `login`, `writer`, `signer`, `seal`. `zstdcat FILE` prints all lines.
//!
//! **Invariant:** nobody reads a file under its name before it was synced, read back and verified.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use provost_core::model::chain::{Auditor, Head, PlanId, SealedEvent};
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ArchivableLog, ColdEvent, ColdPart, ColdSource};
use crate::{Cursor, Error};

/// Compresses events to half of what the default level does, at 50 MB a second.
const LEVEL: i32 = 9;
/// Ending of a file that is being written.
const PARTIAL: &str = ".partial";
const ENDING: &str = ".jsonl.zst";

/// Makes the folder if needed, and returns its absolute path.
pub(super) fn make_folder(folder: &Path) -> Result<PathBuf, Error> {
    let failed = |source| Error::io(folder, "make the folder of cold files", source);
    let new: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    // A new folder is lost in a crash if its parent was not synced.
    for parent in new.iter().filter_map(|made| made.parent()) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
    }
    folder.canonicalize().map_err(failed)
}

/// A cold file that is being written. Dropping it before it is published removes it.
pub(super) struct ColdFileWriter {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    length: u64,
    /// Time of the newest event.
    newest: Timestamp,
    is_published: bool,
}

impl ColdFileWriter {
    /// Creates the file under a name of its own, and removes those that a crash left.
    pub(super) fn create(folder: &Path) -> Result<Self, Error> {
        remove_abandoned(folder);
        let failed = |source| Error::io(folder, "make a cold file", source);
        let mut number = 0u32;
        loop {
            let path = folder.join(format!("{}-{number}{PARTIAL}", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
            match file {
                Ok(file) => {
                    file.lock().map_err(failed)?;
                    // Another process may have taken it for abandoned before it was locked.
                    if !is_at(&file, &path) {
                        continue;
                    }
                    let (folder, newest) = (folder.to_owned(), Timestamp::default());
                    return Ok(Self { folder, path, file, length: 0, newest, is_published: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Adds the events of a plan after `before`, which is the end of what was archived of it. Returns `None` if
    /// there are none.
    pub(super) fn add(
        &mut self,
        log: &dyn ArchivableLog,
        plan: &PlanId,
        before: Head,
    ) -> Result<Option<ColdPart>, Error> {
        let mut auditor = Auditor::after(before);
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL).map_err(|source| self.failed(source))?;
        let (mut broken, mut unwritten) = (None, Ok(()));
        let newest = &mut self.newest;
        log.read_sources(plan, before.seq, &mut |event| {
            broken = auditor.next(&event.sealed).err();
            unwritten = encoder.write_all(line(&event).as_bytes());
            *newest = (*newest).max(event.sealed.at);
            if broken.is_none() && unwritten.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        unwritten.map_err(|source| self.failed(source))?;
        if let Some(found) = broken {
            return Err(Error::BrokenChain { plan: plan.clone(), found });
        }
        let end = auditor.head();
        if end == before {
            return Ok(None);
        }
        let frame = encoder.finish().map_err(|source| self.failed(source))?;
        self.file.write_all(&frame).map_err(|source| self.failed(source))?;
        let part = ColdPart {
            plan: plan.clone(),
            first_seq: before.seq + 1,
            prev: before.hash,
            last_seq: end.seq,
            last_hash: end.hash,
            file: String::new(),
            folder: self.folder.clone(),
            offset: self.length,
            length: frame.len() as u64,
            digest: Hash::of(&frame),
        };
        self.length += part.length;
        Ok(Some(part))
    }

    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|source| self.failed(source))
    }

    /// Reads the parts back and verifies their chains.
    pub(super) fn verify(&self, parts: &[ColdPart]) -> Result<(), Error> {
        for part in parts {
            let file = self.file.try_clone().map_err(|source| self.failed(source))?;
            let mut auditor = Auditor::after(part.before());
            let mut broken = None;
            each_in(file, &self.path, part, &mut |event| {
                broken = auditor.next(&event.sealed).err();
                if broken.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if broken.is_some() || auditor.head() != part.end() {
                return Err(changed(part, &self.path, "its events are not those that were written"));
            }
        }
        Ok(())
    }

    /// Gives the file its name, which follows from its events. Returns the parts with it, and the size.
    pub(super) fn publish(mut self, parts: Vec<ColdPart>) -> Result<(Vec<ColdPart>, u64), Error> {
        let ends: String = parts.iter().map(|part| format!("{} {}\n", part.last_hash, part.digest)).collect();
        let digest = Hash::of(ends.as_bytes()).to_string();
        let day = self.newest.to_string();
        let name = format!("{}-{}{ENDING}", &day[..10], &digest[..16]);
        // The same events under the same name: a crash came between this and their removal.
        fs::rename(&self.path, self.folder.join(&name)).map_err(|source| self.failed(source))?;
        self.is_published = true;
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(|source| self.failed(source))?;
        let parts = parts.into_iter().map(|part| ColdPart { file: name.clone(), ..part }).collect();
        Ok((parts, self.length))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::io(&self.path, "write a cold file", source)
    }
}

impl Drop for ColdFileWriter {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes files of processes that died while they wrote them: nobody has them locked.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(file) = File::open(&path).ok().filter(|_| path.to_string_lossy().ends_with(PARTIAL)) else {
            continue;
        };
        if file.try_lock().is_ok() && is_at(&file, &path) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let numbers = |found: fs::Metadata| (found.dev(), found.ino());
    let (file, there) = (file.metadata().map(numbers), fs::metadata(path).map(numbers));
    file.is_ok_and(|file| there.is_ok_and(|there| file == there))
}

/// Calls `each` for the events of a part. The file is in `own`, or in the folder that it was written to.
pub(super) fn each(
    part: &ColdPart,
    own: Option<&Path>,
    each: &mut dyn FnMut(ColdEvent) -> ControlFlow<()>,
) -> Result<(), Error> {
    let is_name = !part.file.is_empty() && !part.file.contains('/') && !part.file.starts_with('.');
    let mut folders: Vec<&Path> = own.into_iter().chain([part.folder.as_path()]).collect();
    folders.dedup();
    for folder in folders.iter().filter(|_| is_name) {
        let path = folder.join(&part.file);
        match File::open(&path) {
            Ok(file) => return each_in(file, &path, part, each),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::io(&path, "read a cold file", source)),
        }
    }
    Err(Error::ColdFileMissing {
        plan: part.plan.clone(),
        first: part.first_seq,
        last: part.last_seq,
        file: part.file.clone(),
        folders: folders.into_iter().map(Path::to_owned).collect(),
    })
}

fn each_in(
    mut file: File,
    path: &Path,
    part: &ColdPart,
    each: &mut dyn FnMut(ColdEvent) -> ControlFlow<()>,
) -> Result<(), Error> {
    let failed = |source| Error::io(path, "read a cold file", source);
    let size = file.metadata().map_err(failed)?.len();
    if part.offset.checked_add(part.length).is_none_or(|end| end > size) {
        return Err(changed(part, path, "it was cut"));
    }
    let mut frame = Vec::new();
    file.seek(SeekFrom::Start(part.offset)).map_err(failed)?;
    file.take(part.length).read_to_end(&mut frame).map_err(failed)?;
    if Hash::of(&frame) != part.digest {
        return Err(changed(part, path, "its content is not what was written"));
    }
    let decoder = zstd::Decoder::with_buffer(frame.as_slice()).map_err(failed)?;
    let lines = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, decoder));
    // Not split at line ends: details may have some between their words.
    for line in lines.into_iter::<Line>() {
        let event = line.ok().and_then(parsed);
        let event = event.ok_or_else(|| changed(part, path, "it has a line that is no event"))?;
        if event.sealed.plan != part.plan {
            return Err(changed(part, path, "it has an event of another plan"));
        }
        if each(event).is_break() {
            break;
        }
    }
    Ok(())
}

fn changed(part: &ColdPart, path: &Path, why: &'static str) -> Error {
    let (plan, path) = (part.plan.clone(), path.to_owned());
    Error::ColdFileChanged { plan, path, why, first: part.first_seq, last: part.last_seq }
}

fn line(event: &ColdEvent) -> String {
    let mut line = event.sealed.line();
    line.pop();
    line.push_str(&format!(",\"place\":{}", event.place.0));
    let ColdSource { login, rights, signer, seal } = &event.source;
    let hex = |bytes: &Option<Vec<u8>>| {
        bytes.as_ref().map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    let more =
        [("login", login.clone()), ("writer", rights.clone()), ("signer", hex(signer)), ("seal", hex(seal))];
    for (key, value) in more {
        if let Some(value) = value {
            line.push_str(&format!(",\"{key}\":{}", serde_json::Value::from(value)));
        }
    }
    line.push_str("}\n");
    line
}

#[derive(Deserialize)]
struct Line {
    details: Box<RawValue>,
    event: String,
    plan: String,
    prev: String,
    seq: u64,
    task_id: Option<String>,
    task_name: Option<String>,
    timestamp: Timestamp,
    hash: String,
    place: u64,
    login: Option<String>,
    writer: Option<String>,
    signer: Option<String>,
    seal: Option<String>,
}

fn parsed(line: Line) -> Option<ColdEvent> {
    let step = match line.task_id {
        Some(id) => Some(StepNumber(id.strip_prefix("task_")?.parse().ok()?)),
        None => None,
    };
    let sealed = SealedEvent {
        plan: PlanId(line.plan),
        seq: line.seq,
        at: line.timestamp,
        name: line.event,
        step,
        task_name: line.task_name,
        details: line.details.get().to_owned(),
        prev: hash(&line.prev)?,
        hash: hash(&line.hash)?,
        doubt: None,
    };
    let bytes = |text: Option<String>| match text {
        Some(text) => unhex(&text).map(Some),
        None => Some(None),
    };
    let (signer, seal) = (bytes(line.signer)?, bytes(line.seal)?);
    let source = ColdSource { login: line.login, rights: line.writer, signer, seal };
    Some(ColdEvent { place: Cursor(line.place), sealed, source })
}

fn hash(text: &str) -> Option<Hash> {
    unhex(text)?.try_into().ok().map(Hash)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    if text.len() % 2 == 1 {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(pair).collect()
}
