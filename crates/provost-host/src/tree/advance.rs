//! Makes a base on top of another: the files that differ from the approved tree, and a list of those
//! removed from it.
//!
//! **Invariant:** two bases share only whole files that are never written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::checkout::TreeWriter;
use super::index::{EntryKind, Index, joined};
use super::{Base, Error, Layer};

/// Adds to the layer the changes of earlier steps, so that it holds every difference between the new base
/// and the tree below it. The layer's own files stay as the check saw them, so that build results stay
/// newer.
pub(super) fn complete(list: &Index, base: &Base, layer: &Layer) -> Result<(), Error> {
    let Some(over) = &base.over else { return Ok(()) };
    let (mut files, mut empty) = (BTreeMap::new(), Vec::new());
    find_files(over, Path::new(""), &mut files, &mut empty)
        .map_err(|error| Error::io("read", over, error))?;
    let own: BTreeSet<&Path> = layer.changed_paths().collect();
    let made = layer.folders.iter().map(|path| Path::new(OsStr::from_bytes(path)));
    let mut checkout = TreeWriter::go_on(layer.path.clone(), own.iter().copied(), made)?;
    for folder in empty {
        let entry = list.find(&folder).map_err(|error| Error::io("list", &layer.path, error))?;
        if entry.is_some_and(|entry| entry.kind == EntryKind::Folder) {
            checkout.folder(&folder)?;
        }
    }
    for (path, from) in files.iter().filter(|(path, _)| !own.contains(Path::new(OsStr::from_bytes(path)))) {
        let entry = list.find(path).map_err(|error| Error::io("list", &layer.path, error))?;
        // Removed again, or turned into a folder since.
        let Some(kind) = entry.map(|entry| entry.kind).filter(|kind| *kind != EntryKind::Folder) else {
            continue;
        };
        checkout.share(path, from, kind)?;
    }
    checkout.finish()?;
    Ok(())
}

/// Finds every file and link below a folder, and every empty folder.
fn find_files(
    folder: &Path,
    path: &Path,
    files: &mut BTreeMap<Vec<u8>, PathBuf>,
    empty: &mut Vec<Vec<u8>>,
) -> io::Result<()> {
    let mut is_empty = true;
    for entry in folder.join(path).read_dir()? {
        let entry = entry?;
        is_empty = false;
        let path = path.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => find_files(folder, &path, files, empty)?,
            false => drop(files.insert(path.as_os_str().as_bytes().to_vec(), entry.path())),
        }
    }
    if is_empty && path != Path::new("") {
        empty.push(path.as_os_str().as_bytes().to_vec());
    }
    Ok(())
}

/// Returns the record of the tree below: its id, and the paths that it has and the new base does not, each
/// after a zero byte. If all files of a folder are gone, the folder is listed as a whole.
pub(super) fn ground(list: &Index, base: &Base, layer: &Layer) -> Result<Vec<u8>, Error> {
    let mut gone = Gone { ground: &base.ground().index, list, names: BTreeSet::new() };
    let removed = layer.deleted_paths().chain(base.gone.iter().map(PathBuf::as_path));
    for path in removed {
        gone.look(path.as_os_str().as_bytes()).map_err(|error| Error::io("list", &base.path, error))?;
    }
    let id = base.ground().id.clone().into_bytes();
    Ok([id].into_iter().chain(gone.names).flat_map(|word| [vec![0], word].concat()).collect())
}

struct Gone<'a> {
    ground: &'a Index,
    list: &'a Index,
    names: BTreeSet<Vec<u8>>,
}

impl Gone<'_> {
    fn look(&mut self, path: &[u8]) -> io::Result<()> {
        let Some(there) = self.ground.find(path)? else { return Ok(()) };
        match self.list.find(path)? {
            // A file or a link is there, or above it, and covers it.
            None if self.is_covered(path)? => {}
            None => {
                let top = self.top(path)?;
                self.names.insert(top.to_vec());
            }
            // A folder that was removed as a whole exists again, with other content.
            Some(now) if now.kind == EntryKind::Folder && there.kind == EntryKind::Folder => {
                for entry in self.ground.listing(&there)? {
                    self.look(&joined(path, &entry.name))?;
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn is_covered(&self, path: &[u8]) -> io::Result<bool> {
        let mut ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.try_fold(false, |covered, end| {
            let above = self.list.find(&path[..end])?;
            Ok(covered || above.is_some_and(|entry| entry.kind != EntryKind::Folder))
        })
    }

    /// Returns the highest folder of the path in which nothing is left.
    fn top<'p>(&self, path: &'p [u8]) -> io::Result<&'p [u8]> {
        match path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash]) {
            Some(folder) if self.list.find(folder)?.is_none() => self.top(folder),
            _ => Ok(path),
        }
    }
}

/// Parses that record; `None` if the base is not on top of another.
pub(super) fn read_ground(words: &[u8]) -> Option<(String, Vec<PathBuf>)> {
    let mut words = words.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let id = words.next()?.to_string_lossy().into_owned();
    Some((id, words.map(PathBuf::from).collect()))
}
