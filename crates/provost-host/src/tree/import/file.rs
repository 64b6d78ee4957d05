//! Imports one file or link: compares it with the base, and copies it if it differs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::model::hash::Hash;
use rustix::fs::FileType;

use super::{Place, Walk};
use crate::files::safe_open::{self, FileStamp};
use crate::tree::checkout::stays_inside;
use crate::tree::found::{ImportResult, Rule};
use crate::tree::index::{EntryKind, Leaf, TreeEntry};
use crate::tree::line_ends::FILE_BYTES;
use crate::tree::snapshot::{special, unreadable};
use crate::tree::touches::is_at_or_beneath;
use crate::tree::{Error, ExclusionReason};

impl Walk<'_> {
    /// Handles a regular file inside `touches`.
    pub(super) fn file(
        &mut self,
        place: &Place<'_>,
        base: Option<&TreeEntry>,
        rule: Rule,
    ) -> Result<(), Error> {
        if let (Some(base), Ok(stamp)) = (base, safe_open::stamp_at(place.folder, place.name))
            && self.fits(&stamp, base)
            && self.known.digest(&stamp) == Some(base.digest)
        {
            return Ok(());
        }
        let file = match safe_open::file(place.folder, place.name) {
            Ok(file) => file,
            Err(errno) => return self.refuse(place.path, unreadable(errno)),
        };
        for _ in 0..2 {
            let stamp = match safe_open::stamp(&file) {
                Ok(stamp) if stamp.kind() == FileType::RegularFile => stamp,
                Ok(stamp) => return self.refuse(place.path, special(stamp.kind())),
                Err(errno) => return self.refuse(place.path, unreadable(errno)),
            };
            match self.is_as_in_base(&file, &stamp, base, place.path) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    return self.refuse(
                        place.path,
                        ExclusionReason::Unreadable { reason: error.kind().to_string() },
                    );
                }
            }
            if self.is_alike_to_git(&file, &stamp, base, place.path) {
                return Ok(());
            }
            if rule.is_protected {
                return self.protected(place.path);
            }
            if self.touches.lets_in_unseen(place.path) {
                return self.refuse(place.path, ExclusionReason::RunnerFile);
            }
            if let Some(why) = self.too_much(&stamp) {
                self.is_over = why == ExclusionReason::TooMany;
                return self.refuse(place.path, why);
            }
            if base.is_some_and(|base| base.kind == EntryKind::Folder)
                && !self.clears(place.path, base, rule)?
            {
                return self.refuse(place.path, ExclusionReason::InTheWay);
            }
            if self.is_copied(&file, &stamp, place.path)? {
                return Ok(());
            }
        }
        self.refuse(place.path, ExclusionReason::Changing)
    }

    /// Handles a link inside `touches`. It is imported as it is and never followed.
    pub(super) fn link(
        &mut self,
        place: &Place<'_>,
        base: Option<&TreeEntry>,
        rule: Rule,
    ) -> Result<(), Error> {
        if rule.is_protected {
            return self.protected(place.path);
        }
        let target = match safe_open::target(place.folder, place.name) {
            Ok(target) => target,
            Err(errno) => return self.refuse(place.path, unreadable(errno)),
        };
        if !self.leads_to_the_work(place.path, &target) {
            return self.refuse(place.path, ExclusionReason::Link);
        }
        if self.touches.lets_in_unseen(place.path) {
            return self.refuse(place.path, ExclusionReason::RunnerFile);
        }
        if self.found.taken.len() >= self.limits.files {
            return self.give_up(place.path);
        }
        if base.is_some_and(|base| base.kind == EntryKind::Folder) && !self.clears(place.path, base, rule)? {
            return self.refuse(place.path, ExclusionReason::InTheWay);
        }
        let leaf = Leaf { kind: EntryKind::Link, digest: Hash::of(&target), size: target.len() as u64 };
        self.checkout.link(place.path, &target)?;
        self.found.taken.push((place.path.to_vec(), leaf));
        Ok(())
    }

    /// Returns whether a link leads to a path that the plan may change as well. Through any other link, a
    /// check that writes could overwrite what it is judged by.
    fn leads_to_the_work(&self, path: &[u8], target: &[u8]) -> bool {
        if !stays_inside(path, target) {
            return false;
        }
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(&path[..0], |slash| &path[..slash]);
        let mut parts: Vec<&[u8]> =
            folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        for part in target.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        let led = parts.join(&b'/');
        !led.is_empty()
            && self.touches.covers(&led)
            && !self.protect.covers(&led)
            && !self.own_files.leaves_out(&led, self.touches)
            && !self.caches.iter().any(|cache| is_at_or_beneath(&led, cache))
            && !parts.iter().any(|part| part.eq_ignore_ascii_case(b".git"))
    }

    pub(super) fn is_same_link(&self, place: &Place<'_>, base: Option<&TreeEntry>) -> bool {
        base.is_some_and(|base| {
            base.kind == EntryKind::Link
                && safe_open::target(place.folder, place.name)
                    .is_ok_and(|target| Hash::of(&target) == base.digest)
        })
    }

    /// Returns whether the file can be as in the base, as far as metadata shows.
    fn fits(&self, stamp: &FileStamp, base: &TreeEntry) -> bool {
        stamp.kind() == FileType::RegularFile
            && base.kind.is_file()
            && base.size == stamp.size
            && self.has_mode_of(stamp, base.kind)
    }

    pub(super) fn has_mode_of(&self, stamp: &FileStamp, base: EntryKind) -> bool {
        match self.limits.as_git {
            true => EntryKind::of_file(stamp.mode).as_in_git() == base.as_in_git(),
            false => self.modes.are_those_of(stamp, base),
        }
    }

    /// Compares a file with the base's, which takes a fraction of the time that its digest takes.
    fn is_as_in_base(
        &self,
        file: &File,
        stamp: &FileStamp,
        base: Option<&TreeEntry>,
        path: &[u8],
    ) -> io::Result<bool> {
        let Some(base) = base.filter(|base| self.fits(stamp, base)) else { return Ok(false) };
        let is_same = match File::open(self.base.file(OsStr::from_bytes(path))) {
            Ok(then) => safe_open::has_same_bytes(file, &then)?,
            Err(_) => safe_open::digest(file)? == base.digest,
        };
        if is_same && safe_open::stamp(file).is_ok_and(|after| after == *stamp) {
            self.known.note(stamp, base.digest);
        }
        Ok(is_same)
    }

    /// Returns whether git would commit the same for this file as for the base's: then only line ends
    /// differ.
    fn is_alike_to_git(&self, file: &File, stamp: &FileStamp, base: Option<&TreeEntry>, path: &[u8]) -> bool {
        let ends = self.ends.of(path);
        let is_alike = |base: &&TreeEntry| base.kind.is_file() && self.has_mode_of(stamp, base.kind);
        let Some(base) = base.filter(is_alike).filter(|_| ends.are_changed()) else { return false };
        if stamp.size.max(base.size) > FILE_BYTES {
            return false;
        }
        let (mut now, then) = (Vec::new(), fs::read(self.base.file(OsStr::from_bytes(path))));
        let committed = |bytes: Vec<u8>| ends.committed(&bytes).unwrap_or(bytes);
        safe_open::copy(file, &mut now, FILE_BYTES).is_ok()
            && then.is_ok_and(|then| committed(then) == committed(now))
    }

    /// Returns the file as a checkout of its commit has it, if another machine will make one.
    fn as_checked_out(&self, file: &File, path: &[u8]) -> Option<Vec<u8>> {
        let ends = self.ends.of(path);
        let mut now = Vec::new();
        if !self.limits.as_git || !ends.are_changed() || safe_open::copy(file, &mut now, FILE_BYTES).is_err()
        {
            return None;
        }
        let committed = ends.committed(&now).unwrap_or(now);
        Some(ends.checked_out(&committed).unwrap_or(committed))
    }

    fn too_much(&self, stamp: &FileStamp) -> Option<ExclusionReason> {
        if stamp.size > self.limits.file_bytes {
            Some(ExclusionReason::TooLarge { bytes: stamp.size })
        } else if self.found.taken.len() + self.found.folders.len() >= self.limits.files {
            Some(ExclusionReason::TooMany)
        } else if self.bytes.saturating_add(stamp.size) > self.limits.total_bytes {
            Some(ExclusionReason::OverTotal)
        } else {
            None
        }
    }

    /// Removes what the base has below a path that is a file now. Returns false if some of it must stay;
    /// then all of it stays.
    fn clears(&mut self, path: &[u8], base: Option<&TreeEntry>, rule: Rule) -> Result<bool, Error> {
        let removed = self.found.removed.len();
        let stays = |found: &ImportResult| found.protected.len() + found.refused.count();
        let before = stays(&self.found);
        self.gone(path, base, rule)?;
        if stays(&self.found) == before {
            return Ok(true);
        }
        for path in self.found.removed.split_off(removed) {
            let entry = self.index.find(&path).map_err(|error| self.unlisted(error))?;
            if let Some(TreeEntry { kind, digest, size, .. }) = entry {
                self.checkout.holds(&path, Leaf { kind, digest, size })?;
            }
        }
        Ok(false)
    }

    /// Copies a file into the layer. Returns false if it changed meanwhile.
    fn is_copied(&mut self, file: &File, before: &FileStamp, path: &[u8]) -> Result<bool, Error> {
        let kind = EntryKind::of_file(before.mode);
        let kind = if self.limits.as_git { kind.as_in_git() } else { kind };
        let mut to = self.checkout.file(path, kind)?;
        let most = self.limits.file_bytes.min(self.limits.total_bytes - self.bytes);
        let written = match self.as_checked_out(file, path) {
            None => safe_open::copy(file, &mut to, most),
            Some(bytes) => to.write_all(&bytes).map(|()| (Hash::of(&bytes), bytes.len() as u64)),
        };
        let copied = match written {
            Ok(copied) => Some(copied),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => None,
            Err(error) => return Err(Error::io("take over", &self.at(path), error)),
        };
        let is_same = safe_open::stamp(file).is_ok_and(|after| after == *before);
        match copied.filter(|_| is_same) {
            Some((digest, size)) => {
                self.bytes += size;
                let leaf = Leaf { kind, digest, size };
                self.checkout.holds(path, leaf)?;
                self.found.written.push((before.modified, path.to_vec()));
                self.found.taken.push((path.to_vec(), leaf));
                Ok(true)
            }
            None => {
                let at = self.checkout.path.join(OsStr::from_bytes(path));
                fs::remove_file(&at).map_err(|error| Error::io("remove", &at, error))?;
                Ok(false)
            }
        }
    }

    /// Gives the files mtimes in the order in which they were last written, which build tools compare. All
    /// times are within this walk, so that nothing built earlier counts as newer than a file that changed
    /// since.
    pub(super) fn keep_order(&mut self, begun: SystemTime) -> Result<(), Error> {
        let written = &mut self.found.written;
        written.sort();
        let from = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
        let room = SystemTime::now().duration_since(begun).unwrap_or_default();
        let count = u32::try_from(written.len()).unwrap_or(u32::MAX).max(1);
        let mut last = None;
        let mut time = from;
        for (at, (modified, path)) in written.iter().enumerate() {
            if last.is_some_and(|last| last != *modified) {
                time = from + room / count * u32::try_from(at).unwrap_or(u32::MAX);
            }
            last = Some(*modified);
            self.checkout.set_time(path, time)?;
        }
        Ok(())
    }

    fn at(&self, path: &[u8]) -> std::path::PathBuf {
        self.workspace.join(OsStr::from_bytes(path))
    }
}
