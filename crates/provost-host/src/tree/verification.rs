//! Verifies the files of a kept base, by reading all of them.
//!
//! A large base takes a second or two, so several threads read.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};

use provost_core::model::hash::Hash;

use super::Base;
use super::index::{EntryKind, TreeEntry};
use crate::activity::Activity;
use crate::files::safe_open;

/// Files that a thread takes at once.
const BATCH: usize = 256;
/// Batches that wait for a thread.
const WAITING: usize = 8;
/// More threads than this do not read faster from one disk.
const THREADS: usize = 4;

type Batch = Vec<(PathBuf, TreeEntry)>;

impl Base {
    /// Returns whether every file of the index is there with its content. Other files may be there too.
    pub(super) fn has_all_files(&self) -> bool {
        self.is_as_listed(&has_content, &|_, _| Ok(true))
    }

    /// Compares a base with its index. Returns whether it has exactly the listed files, and each of them has one
    /// name only: no hard link leads to it from elsewhere. False for a base on top of another.
    pub(super) fn is_untouched(&self) -> bool {
        let has_only_listed = |path: &[u8], folder: &TreeEntry| {
            let at = self.path.join(OsStr::from_bytes(path));
            let listed = self.index.listing(folder)?;
            let listed: HashSet<&[u8]> = listed.iter().map(|entry| entry.name.as_slice()).collect();
            let mut is_same = fs::symlink_metadata(&at)?.is_dir();
            for found in fs::read_dir(at)? {
                is_same &= listed.contains(found?.file_name().as_bytes());
            }
            Ok(is_same)
        };
        let is_own = |at: &Path, entry: &TreeEntry| {
            Ok(fs::symlink_metadata(at)?.nlink() == 1 && has_content(at, entry)?)
        };
        let is_place = self
            .path
            .parent()
            .is_some_and(|place| fs::symlink_metadata(place).is_ok_and(|found| found.is_dir()));
        is_place && self.over.is_none() && self.is_as_listed(&is_own, &has_only_listed)
    }

    /// Reads every file and compares it with the index; asks `is_folder` about every folder.
    fn is_as_listed(
        &self,
        is_file: &(dyn Fn(&Path, &TreeEntry) -> io::Result<bool> + Sync),
        is_folder: &dyn Fn(&[u8], &TreeEntry) -> io::Result<bool>,
    ) -> bool {
        let _activity = Activity::begin("verifying the kept copy of the commit");
        let different = AtomicBool::new(false);
        let (give, take) = sync_channel::<Batch>(WAITING);
        let take = Mutex::new(take);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let walked = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| compare(&take, &different, is_file));
            }
            let stop = || io::Error::from(io::ErrorKind::InvalidData);
            let mut batch = Batch::new();
            let mut each = |path: &[u8], entry: &TreeEntry| {
                if entry.kind == EntryKind::Folder {
                    return if is_folder(path, entry)? { Ok(()) } else { Err(stop()) };
                }
                batch.push((self.file(OsStr::from_bytes(path)), entry.clone()));
                if batch.len() == BATCH {
                    give.send(std::mem::take(&mut batch)).map_err(|_| stop())?;
                }
                if different.load(Ordering::Relaxed) { Err(stop()) } else { Ok(()) }
            };
            let top = self.index.root();
            let walked = each(b"", top).and_then(|()| self.index.walk(b"", top, &mut each));
            let sent = give.send(batch).is_ok();
            drop(give);
            walked.is_ok() && sent
        });
        walked && !different.load(Ordering::Relaxed)
    }
}

/// Compares batches until there are no more.
fn compare(
    batches: &Mutex<Receiver<Batch>>,
    different: &AtomicBool,
    is_file: &(dyn Fn(&Path, &TreeEntry) -> io::Result<bool> + Sync),
) {
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return };
        // After a difference the batches are only taken, so that the sender does not wait for ever.
        let is_same = |(path, entry): &(PathBuf, TreeEntry)| is_file(path, entry).unwrap_or(false);
        if !different.load(Ordering::Relaxed) && !batch.iter().all(is_same) {
            different.store(true, Ordering::Relaxed);
        }
    }
}

fn has_content(at: &Path, entry: &TreeEntry) -> io::Result<bool> {
    Ok(match entry.kind {
        EntryKind::Folder => true,
        EntryKind::Link => Hash::of(fs::read_link(at)?.as_os_str().as_bytes()) == entry.digest,
        EntryKind::File | EntryKind::Program | EntryKind::Moded(_) => {
            // A pipe in the place of a file must not block.
            if !fs::symlink_metadata(at)?.is_file() {
                return Ok(false);
            }
            let file = File::open(at)?;
            let stamp = safe_open::stamp(&file)?;
            EntryKind::of_file(stamp.mode) == entry.kind && safe_open::digest(&file)? == entry.digest
        }
    })
}
