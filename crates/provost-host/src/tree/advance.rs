//! A base on top of another: the files that differ from the tree that was approved, and a list of those
//! that are gone from it.
//!
//! **Invariant:** what is shared between two bases is shared as whole files that nobody writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::checkout::Checkout;
use super::index::{Draft, Index, Kind, joined};
use super::{Base, Error, Layer};

/// The file of a base that says what it stands on.
pub const GROUND: &str = "ground";

/// Writes what the new base has otherwise than the tree it stands on.
pub fn write(place: &Path, list: &Index, base: &Base, layer: &Layer) -> Result<(), Error> {
    let mut files: BTreeMap<Vec<u8>, PathBuf> = BTreeMap::new();
    if let Some(over) = &base.over {
        find_files(over, Path::new(""), &mut files).map_err(|error| Error::io("read", over, error))?;
    }
    for path in layer.changed_paths() {
        files.insert(path.as_os_str().as_bytes().to_vec(), layer.path.join(path));
    }
    let mut checkout = Checkout::begin(place.to_owned(), Draft::default())?;
    for (path, from) in files {
        let entry = list.find(&path).map_err(|error| Error::io("list", place, error))?;
        // Taken away again, or turned into a folder since.
        let Some(kind) = entry.map(|entry| entry.kind).filter(|kind| kind.is_file()) else { continue };
        // The very file the check saw: what it built is still younger.
        checkout.share_file(&path, &from, kind)?;
    }
    checkout.finish()?;
    Ok(())
}

fn find_files(folder: &Path, path: &Path, files: &mut BTreeMap<Vec<u8>, PathBuf>) -> io::Result<()> {
    for entry in folder.join(path).read_dir()? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => find_files(folder, &path, files)?,
            false => drop(files.insert(path.as_os_str().as_bytes().to_vec(), entry.path())),
        }
    }
    Ok(())
}

/// What the new base stands on: the id of the tree beneath, and what that tree has and the new base has
/// not, each ended by a zero. A folder that went with the last of its files goes as a whole.
pub fn ground(list: &Index, base: &Base, layer: &Layer) -> Result<Vec<u8>, Error> {
    let mut gone = Gone { ground: &base.ground().index, list, names: BTreeSet::new() };
    let removed = layer.deleted_paths().chain(base.gone.iter().map(PathBuf::as_path));
    for path in removed {
        gone.look(path.as_os_str().as_bytes()).map_err(|error| Error::io("list", &base.path, error))?;
    }
    let id = base.ground().id.clone().into_bytes();
    Ok([id].into_iter().chain(gone.names).flat_map(|word| [word, vec![0]].concat()).collect())
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
            None => {
                let top = self.top(path)?;
                self.names.insert(top.to_vec());
            }
            // A folder that was gone as a whole and is there again, with other things in it.
            Some(now) if now.kind == Kind::Folder && there.kind == Kind::Folder => {
                for entry in self.ground.listing(&there)? {
                    self.look(&joined(path, &entry.name))?;
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// As far up as nothing is left.
    fn top<'p>(&self, path: &'p [u8]) -> io::Result<&'p [u8]> {
        match path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash]) {
            Some(folder) if self.list.find(folder)?.is_none() => self.top(folder),
            _ => Ok(path),
        }
    }
}

/// The same, read again; `None` where a base stands on no other.
pub fn read_ground(place: &Path) -> io::Result<Option<(String, Vec<PathBuf>)>> {
    let bytes = match fs::read(place.join(GROUND)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let id = words.next().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some((id, words.map(PathBuf::from).collect())))
}

/// Is every file of the base what its index says?
pub fn is_whole(base: &Base, is_entry: impl Fn(&Path, &super::index::Entry) -> io::Result<bool>) -> bool {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let mut check = |path: &[u8], entry: &super::index::Entry| {
        if entry.kind == Kind::Folder {
            return Ok(());
        }
        match is_entry(&base.file(OsStr::from_bytes(path)), entry)? {
            true => Ok(()),
            false => Err(wrong()),
        }
    };
    base.index.walk(b"", base.index.root(), &mut check).is_ok()
}
