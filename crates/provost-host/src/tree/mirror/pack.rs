//! Packs objects of the workspace's repository into the mirror, where they are indexed by their content.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::thread;

use super::Mirror;
use crate::tree::Error;
use crate::tree::checkout::lossy;

/// Fewest objects for which a process of their own pays.
const PACK_MIN: usize = 4_000;

impl Mirror<'_> {
    /// Packs the objects that the mirror does not have, and indexes them again.
    pub(in crate::tree) fn pack_in(&self, wanted: &[u8], lent: &[(OsString, OsString)]) -> Result<(), Error> {
        self.pack_parts_in(wanted, lent, 1)
    }

    /// The same in several packs at a time, if there are many objects. One pack of a whole history is smaller.
    pub(super) fn pack_parts_in(
        &self,
        wanted: &[u8],
        lent: &[(OsString, OsString)],
        most: usize,
    ) -> Result<(), Error> {
        let missing = self.missing(wanted)?;
        if missing.is_empty() {
            return Ok(());
        }
        let packs = self.folder.join("objects/pack");
        fs::create_dir_all(&packs).map_err(|error| Error::io("make", &packs, error))?;
        // Outside `pack` until provost has made its index. Older files are left over from a dead process.
        let coming = self.folder.join("coming");
        let _ = fs::remove_dir_all(&coming);
        fs::create_dir(&coming).map_err(|error| Error::io("make", &coming, error))?;
        let lines: Vec<&[u8]> = missing.split_inclusive(|byte| *byte == b'\n').collect();
        let parts = (lines.len() / PACK_MIN).clamp(1, most);
        let parts: Vec<Vec<u8>> =
            lines.chunks(lines.len().div_ceil(parts)).map(|lines| lines.concat()).collect();
        thread::scope(|scope| {
            let (coming, packs) = (&coming, &packs);
            let one = |(number, part): (usize, Vec<u8>)| {
                scope.spawn(move || self.pack_one_in(&coming.join(number.to_string()), packs, &part, lent))
            };
            let running: Vec<_> = parts.into_iter().enumerate().map(one).collect();
            let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
            ended.into_iter().try_for_each(|ended| {
                ended.unwrap_or_else(|_| Err(self.said("a thread that packs objects ended")))
            })
        })
    }

    fn pack_one_in(
        &self,
        place: &Path,
        packs: &Path,
        objects: &[u8],
        lent: &[(OsString, OsString)],
    ) -> Result<(), Error> {
        fs::create_dir(place).map_err(|error| Error::io("make", place, error))?;
        // Objects that are packed already keep their compression.
        let pack = ["pack-objects", "--quiet", "--window=0", "--compression=1"];
        let name = self.git_path(&pack, &place.join("pack"), objects, lent)?;
        let name = lossy(name.trim_ascii());
        let pack = place.join(format!("pack-{name}.pack"));
        for other in ["idx", "rev"] {
            let _ = fs::remove_file(pack.with_extension(other));
        }
        self.git_path(&["index-pack"], &pack, b"", &[])?;
        // The index last: git ignores a pack without an index.
        for extension in ["pack", "rev", "idx"] {
            let from = pack.with_extension(extension);
            let to = packs.join(format!("pack-{name}.{extension}"));
            match fs::rename(&from, &to) {
                Err(error) if extension != "rev" => return Err(Error::io("rename", &from, error)),
                _ => {}
            }
        }
        Ok(())
    }
}
