//! Makes a commit of exactly the judged tree in the user's repository.
//!
//! The commit is made in the mirror from the tree that provost kept: the approved commit's tree with the
//! imported files. Ignored files and provost's own files are left out, unless a person asks for them. The
//! commit is handed over as a pack and a ref, written as files: git is not run in the user's repository,
//! and its HEAD, index, hooks and configuration are not read.
//!
//! **Invariant:** a ref is created or moved only from the value that was read, under its lock, or not at
//! all.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::checkout::{TreeWriter, lossy};
use super::index::{EntryKind, Index, Leaf, TreeDraft};
use super::line_ends::{FILE_BYTES, LineEnds};
use super::mirror::{self, Mirror};
use super::retention::Lock;
use super::touches::is_at_or_beneath;
use super::{Base, Error, ExcludedPath, ExclusionReason, Laid, Layer, TREE, Trees};
use crate::files::safe_open;
use crate::git;

/// Limit on the size of plans and progress files.
const OWN_BYTES: u64 = 64 << 20;

/// Author and message of a commit.
#[derive(Clone, Debug)]
pub struct CommitText<'a> {
    pub name: &'a str,
    pub email: &'a str,
    pub message: &'a str,
}

impl CommitText<'_> {
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let who = [
            ("GIT_AUTHOR_NAME", self.name),
            ("GIT_AUTHOR_EMAIL", self.email),
            ("GIT_COMMITTER_NAME", self.name),
            ("GIT_COMMITTER_EMAIL", self.email),
        ];
        who.map(|(name, value)| (name.into(), value.into())).into()
    }
}

/// Optional content of a commit in addition to the work. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct With {
    /// Files that git ignores and a glob of `touches` named.
    pub ignored: bool,
    /// provost's own files, relative to the workspace, as they are now.
    pub plan: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommit {
    pub commit: String,
    /// The tree's id in git.
    pub tree: String,
    /// Paths in which the judged tree differs from the commit, with the reason.
    pub left_out: Vec<ExcludedPath>,
}

impl Trees {
    /// Makes a commit on top of `parent`, the commit that `approved` was made of. Its tree is `judged`
    /// without the paths that a commit must not contain.
    pub fn commit(
        &self,
        parent: &str,
        approved: &Base,
        judged: &Base,
        with: &With,
        by: &CommitText<'_>,
    ) -> Result<NewCommit, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, parent)?;
        mirror.borrow()?;
        let mut changes = changes(approved, judged)?;
        let listing = mirror.listing()?;
        let left_out = self.left_out(&listing, &mut changes, with);
        let mut listed = self.listed(&mirror, judged, &changes, &mirror.line_ends(&listing)?)?;
        for path in with.plan.iter().flatten() {
            listed.extend(self.listed_now(&mirror, path)?);
        }
        let tree = self.written_with(&mirror, parent, &listed)?;
        let args = ["commit-tree", &tree, "-p", parent];
        let commit = mirror.git(&args, by.message.as_bytes(), &by.environment())?;
        Ok(NewCommit { commit: word(&commit), tree, left_out })
    }

    /// Removes the changes that a commit must not contain: ignored files, provost's own files, and files
    /// that are in another repository.
    fn left_out(&self, listing: &[u8], changes: &mut Vec<Change>, with: &With) -> Vec<ExcludedPath> {
        let entries = listing.split(|byte| *byte == 0).filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            Some((line.starts_with(b"160000"), &line[tab + 1..]))
        });
        let (links, tracked): (Vec<_>, Vec<_>) = entries.partition(|(is_link, _)| *is_link);
        let tracked: HashSet<&[u8]> = tracked.into_iter().map(|(_, path)| path).collect();
        let ignored = self.ignored.as_ref().filter(|_| !with.ignored);
        let why = |path: &[u8]| {
            if !mirror::is_harmless(path) {
                Some(ExclusionReason::Repository)
            } else if links.iter().any(|(_, link)| is_at_or_beneath(path, link)) {
                Some(ExclusionReason::Submodule)
            } else if with.plan.is_none() && self.own_files.has(path) {
                Some(ExclusionReason::Own)
            } else if !tracked.contains(path) && ignored.is_some_and(|rules| rules.top(path, false).is_some())
            {
                Some(ExclusionReason::Ignored)
            } else {
                None
            }
        };
        let mut left_out = Vec::new();
        changes.retain(|(path, _)| match why(path) {
            Some(why) => {
                left_out.push(ExcludedPath { path: lossy(path), why });
                false
            }
            None => true,
        });
        left_out
    }

    /// Returns the approved tree with the ignored files of the judged one: no commit contains them, and the
    /// checks that passed may need them.
    pub fn with_ignored(&self, approved: &Base, judged: &Base) -> Result<Base, Error> {
        let Some(ignored) = &self.ignored else { return Ok(approved.clone()) };
        let is_left_out = |path: &[u8]| {
            ignored.top(path, false).is_some() && !approved.has(Path::new(OsStr::from_bytes(path)))
        };
        let taken: Vec<(Vec<u8>, Leaf)> = changes(approved, judged)?
            .into_iter()
            .filter_map(|(path, leaf)| Some((path, leaf?)))
            .filter(|(path, _)| is_left_out(path))
            .collect();
        if taken.is_empty() {
            return Ok(approved.clone());
        }
        let layers = self.folder.join("layers");
        let folder =
            tempfile::tempdir_in(&layers).map_err(|error| Error::io("make a folder in", &layers, error))?;
        let path = folder.path().join(TREE);
        let draft =
            TreeDraft::on(&approved.index).map_err(|error| Error::io("list", &approved.path, error))?;
        let mut checkout = TreeWriter::begin(path.clone(), draft)?;
        for (path, leaf) in &taken {
            checkout.share(path, &judged.file(OsStr::from_bytes(path)), leaf.kind)?;
            checkout.holds(path, *leaf)?;
        }
        let draft = checkout.finish()?;
        let laid = Laid { taken, removed: Vec::new(), folders: Vec::new() };
        self.advance(approved, Layer::laid(approved, draft, (folder, path), laid)?)
    }

    /// Writes the commit's tree with the differences between two bases, and returns its id in git.
    pub(super) fn written_on(
        &self,
        mirror: &Mirror<'_>,
        commit: &str,
        before: &Base,
        after: &Base,
    ) -> Result<String, Error> {
        let changes = changes(before, after)?;
        if let Some((path, _)) = changes.iter().find(|(path, _)| !mirror::is_harmless(path)) {
            return Err(Error::NotInside { path: lossy(path) });
        }
        let ends = mirror.line_ends(&mirror.listing()?)?;
        let listed = self.listed(mirror, after, &changes, &ends)?;
        self.written_with(mirror, commit, &listed)
    }

    fn written_with(&self, mirror: &Mirror<'_>, commit: &str, listed: &[u8]) -> Result<String, Error> {
        let index = tempfile::tempdir_in(self.folder.join("building"))
            .map_err(|error| Error::io("make a folder in", &self.folder, error))?;
        let with_index = [("GIT_INDEX_FILE".into(), OsString::from(index.path().join("index")))];
        mirror.git(&["read-tree", commit], b"", &with_index)?;
        mirror.git(&["update-index", "-z", "--index-info"], listed, &with_index)?;
        Ok(word(&mirror.git(&["write-tree"], b"", &with_index)?))
    }

    /// Returns the input of `update-index` for a file of the workspace as it is now; empty if it does not
    /// exist.
    fn listed_now(&self, mirror: &Mirror<'_>, path: &str) -> Result<Vec<u8>, Error> {
        let failed = |error: io::Error| Error::io("read", &self.workspace.join(path), error);
        let top = safe_open::top(&self.workspace).map_err(|errno| failed(errno.into()))?;
        let Ok(file) = safe_open::file(&top, path.as_bytes()) else { return Ok(Vec::new()) };
        if !file.metadata().map_err(failed)?.is_file() || !mirror::is_harmless(path.as_bytes()) {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        safe_open::copy(&file, &mut bytes, OWN_BYTES).map_err(failed)?;
        let object = word(&mirror.git(&["hash-object", "-w", "--no-filters", "--stdin"], &bytes, &[])?);
        Ok([format!("100644 {object}\t").as_bytes(), path.as_bytes(), b"\0"].concat())
    }

    /// Returns the input of `update-index`: mode, object and path of every change.
    fn listed(
        &self,
        mirror: &Mirror<'_>,
        judged: &Base,
        changes: &[Change],
        ends: &LineEnds,
    ) -> Result<Vec<u8>, Error> {
        let mut objects = written_at_once(mirror, judged, changes)?;
        let mut listed = Vec::new();
        for (path, leaf) in changes {
            let (mode, object) = match leaf {
                None => ("0", "0".repeat(mirror.id_length())),
                Some(Leaf { kind: EntryKind::Link, .. }) => {
                    let link = judged.file(OsStr::from_bytes(path));
                    let target = fs::read_link(&link).map_err(|error| Error::io("read", &link, error))?;
                    let target = target.as_os_str().as_bytes();
                    ("120000", word(&mirror.git(&["hash-object", "-w", "--stdin"], target, &[])?))
                }
                Some(leaf) => {
                    let mode = if leaf.kind.is_program() { "100755" } else { "100644" };
                    let as_it_is = written(mirror, judged, path, &mut objects)?;
                    (mode, with_line_ends(mirror, judged, path, ends)?.unwrap_or(as_it_is))
                }
            };
            listed.extend_from_slice(format!("{mode} {object}\t").as_bytes());
            listed.extend_from_slice(path);
            listed.push(0);
        }
        Ok(listed)
    }

    /// Adds a git note to a commit, on top of the existing notes. Returns the new and the previous notes
    /// commit.
    pub fn note(&self, commit: &str, notes: &str, text: &str) -> Result<(String, Option<String>), Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let before = git::find(&self.workspace, notes);
        // A process that died may have left the ref here, for notes that the user's repository never got.
        match &before {
            Some(before) => {
                Mirror::open(&self.folder, &self.workspace, before)?.borrow()?;
                mirror.git(&["update-ref", notes, before], b"", &[])?;
            }
            None => drop(mirror.git(&["update-ref", "-d", notes], b"", &[])?),
        }
        let who = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name.into(), "provost".into()));
        let mail = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name.into(), "".into()));
        let environment = [who, mail].concat();
        let args = ["notes", "--ref", notes, "add", "-f", "-F", "-", commit];
        mirror.git(&args, text.as_bytes(), &environment)?;
        let now = word(&mirror.git(&["rev-parse", notes], b"", &[])?);
        mirror.git(&["update-ref", "-d", notes], b"", &[])?;
        Ok((now, before))
    }

    /// Gives the user's repository a commit of the mirror under a ref name. `expected` is the previous
    /// value of the ref.
    pub fn hand_over(&self, commit: &str, name: &str, expected: Option<&str>) -> Result<(), Error> {
        self.hand_over_all(&[commit], name, expected)
    }

    /// Like [`Trees::hand_over`] for several commits that are not there yet; the ref will name the last
    /// one.
    pub fn hand_over_all(&self, commits: &[&str], name: &str, expected: Option<&str>) -> Result<(), Error> {
        let commit = commits.last().copied().unwrap_or_default();
        let refused = |said: &str| Error::Git { commit: commit.to_owned(), said: said.to_owned() };
        if !git::is_branch_or_note(name) {
            return Err(refused(&format!("`{name}` is not a valid name for a branch")));
        }
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let objects = mirror::objects(&self.workspace).ok_or_else(|| refused("there is no repository"))?;
        let repository = objects.parent().unwrap_or(&objects).to_owned();
        if repository.join("reftable").exists() {
            return Err(refused("this repository keeps its refs in a reftable, which provost cannot write"));
        }
        self.pack(&mirror, commits, &objects)?;
        move_ref(&self.workspace, &repository, name, commit, expected)
    }

    /// Writes the objects that the user's repository does not have as one pack in its folder.
    fn pack(&self, mirror: &Mirror<'_>, commits: &[&str], objects: &Path) -> Result<(), Error> {
        let packs = objects.join("pack");
        let is_folder = fs::symlink_metadata(&packs).is_ok_and(|found| found.is_dir());
        if !is_folder {
            fs::create_dir(&packs).map_err(|error| Error::io("make", &packs, error))?;
        }
        // The user's repository has the parents; provost brings only these commits and their trees.
        let words = ["rev-list", "--objects", "--no-object-names", "--no-walk"];
        let args: Vec<&str> = words.iter().chain(commits).chain(&["--"]).copied().collect();
        let list = mirror.git(&args, b"", &[])?;
        let replaced = git::replaced(&self.workspace);
        if let Some(object) = lossy(&list).lines().find(|id| replaced.contains(id.trim())) {
            return Err(Error::Replaced { object: object.trim().to_owned() });
        }
        let room = tempfile::tempdir_in(self.folder.join("building"))
            .map_err(|error| Error::io("make a folder in", &self.folder, error))?;
        let name = mirror.git_path(&["pack-objects", "--quiet"], &room.path().join("pack"), &list, &[])?;
        let name = word(&name);
        // The index last: git ignores a pack without an index.
        for extension in ["pack", "idx"] {
            let file = format!("pack-{name}.{extension}");
            let (from, to) = (room.path().join(&file), packs.join(&file));
            put(&from, &packs, &to).map_err(|error| Error::io("write", &to, error))?;
        }
        Ok(())
    }
}

/// Writes the objects of all files whose names fit on a line; returns their ids in the order of the
/// changes.
fn written_at_once(
    mirror: &Mirror<'_>,
    judged: &Base,
    changes: &[Change],
) -> Result<std::vec::IntoIter<String>, Error> {
    let mut names = Vec::new();
    let of_files = changes.iter().filter(|(path, leaf)| {
        leaf.is_some_and(|leaf| leaf.kind.is_file()) && fits_on_a_line(&judged.path, path)
    });
    for (path, _) in of_files {
        names.extend_from_slice(judged.file(OsStr::from_bytes(path)).as_os_str().as_bytes());
        names.push(b'\n');
    }
    let objects = mirror.git(&["hash-object", "-w", "--no-filters", "--stdin-paths"], &names, &[])?;
    let objects: Vec<String> = lossy(&objects).lines().map(str::to_owned).collect();
    Ok(objects.into_iter())
}

fn written(
    mirror: &Mirror<'_>,
    judged: &Base,
    path: &[u8],
    objects: &mut std::vec::IntoIter<String>,
) -> Result<String, Error> {
    if fits_on_a_line(&judged.path, path) {
        return Ok(objects.next().unwrap_or_default());
    }
    let file = judged.file(OsStr::from_bytes(path));
    Ok(word(&mirror.git_path(&["hash-object", "-w", "--no-filters"], &file, b"", &[])?))
}

/// Writes the object of a file whose lines end differently in a commit, and returns its id.
fn with_line_ends(
    mirror: &Mirror<'_>,
    judged: &Base,
    path: &[u8],
    ends: &LineEnds,
) -> Result<Option<String>, Error> {
    let (ends, file) = (ends.of(path), judged.file(OsStr::from_bytes(path)));
    let is_short = || file.metadata().is_ok_and(|found| found.len() <= FILE_BYTES);
    if !ends.are_changed() || !is_short() {
        return Ok(None);
    }
    let bytes = fs::read(&file).map_err(|error| Error::io("read", &file, error))?;
    let Some(bytes) = ends.committed(&bytes) else { return Ok(None) };
    Ok(Some(word(&mirror.git(&["hash-object", "-w", "--no-filters", "--stdin"], &bytes, &[])?)))
}

fn fits_on_a_line(folder: &Path, path: &[u8]) -> bool {
    // git expects a quoted name if it begins with a quote; these names begin with a slash.
    !path.contains(&b'\n') && !folder.as_os_str().as_bytes().contains(&b'\n')
}

/// Copies a file to its place atomically.
fn put(from: &Path, folder: &Path, to: &Path) -> io::Result<()> {
    let mut coming = tempfile::Builder::new().prefix("tmp_pack_").tempfile_in(folder)?;
    io::copy(&mut fs::File::open(from)?, coming.as_file_mut())?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    coming.as_file().set_permissions(readable)?;
    coming.as_file().sync_all()?;
    coming.persist(to).map_err(|error| error.error)?;
    Ok(())
}

/// Moves a ref as git does it: the process that holds the lock file may move it.
pub(super) fn move_ref(
    workspace: &Path,
    repository: &Path,
    name: &str,
    commit: &str,
    expected: Option<&str>,
) -> Result<(), Error> {
    let path = repository.join(name);
    let moved = || Error::Moved { name: name.to_owned(), now: git::find(workspace, name) };
    let lock = PathBuf::from(format!("{}.lock", path.display()));
    if let Some(link) = git::link_on_the_way(repository, name) {
        return Err(Error::Linked { path: link });
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::io("make", folder, error))?;
    }
    take_lock(repository, &lock, commit).map_err(|error| Error::io("lock", &lock, error))?;
    let write = || -> Result<(), Error> {
        if git::find(workspace, name).as_deref() != expected {
            return Err(moved());
        }
        fs::rename(&lock, &path).map_err(|error| Error::io("rename to", &path, error))
    };
    let written = { write }();
    match &written {
        Ok(()) if git::link_on_the_way(repository, &format!("logs/{name}")).is_some() => {}
        Ok(()) => note_move(&repository.join("logs").join(name), commit, expected),
        Err(_) => drop(fs::remove_file(&lock)),
    }
    written
}

/// Appends to the reflog, if the repository has one for this ref, so that its owner can go back.
fn note_move(list: &Path, commit: &str, before: Option<&str>) {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let nothing = "0".repeat(commit.len());
    let before = before.unwrap_or(&nothing);
    if fs::symlink_metadata(list).is_ok_and(|found| found.is_file())
        && let Ok(mut list) = fs::OpenOptions::new().append(true).open(list)
    {
        let _ = writeln!(list, "{before} {commit} provost <> {now} +0000\tprovost");
    }
}

/// Takes git's lock of a ref. The lock contains the new value from its first moment: if an existing lock
/// has the same value, a provost process that was killed made it, and it counts as ours.
fn take_lock(repository: &Path, lock: &Path, commit: &str) -> io::Result<()> {
    lock_with(repository, lock, format!("{commit}\n").as_bytes())
}

/// Creates a git lock file that has its content from the first moment.
pub(super) fn lock_with(folder: &Path, lock: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut text = tempfile::Builder::new().prefix("tmp_provost_").tempfile_in(folder)?;
    text.write_all(bytes)?;
    text.as_file().sync_all()?;
    text.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    match fs::hard_link(text.path(), lock) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_ours = fs::read(lock).is_ok_and(|found| found == bytes);
            if is_ours { Ok(()) } else { Err(error) }
        }
        done => done,
    }
}

/// A path and what is there now; `None` if it was removed.
pub(super) type Change = (Vec<u8>, Option<Leaf>);

pub(super) fn changes(old: &Base, new: &Base) -> Result<Vec<Change>, Error> {
    let failed = |error: io::Error| Error::io("read the list of", &new.path, error);
    let (before, after) = (leaves(&old.index).map_err(failed)?, leaves(&new.index).map_err(failed)?);
    let gone = before.keys().filter(|path| !after.contains_key(*path)).map(|path| (path.clone(), None));
    let come = after.iter().filter(|(path, leaf)| before.get(*path) != Some(leaf));
    Ok(gone.chain(come.map(|(path, leaf)| (path.clone(), Some(*leaf)))).collect())
}

fn leaves(index: &Index) -> io::Result<std::collections::BTreeMap<Vec<u8>, Leaf>> {
    let mut leaves = std::collections::BTreeMap::new();
    index.walk(b"", index.root(), &mut |path, entry| {
        if entry.kind != EntryKind::Folder {
            let leaf = Leaf { kind: entry.kind, digest: entry.digest, size: entry.size };
            leaves.insert(path.to_vec(), leaf);
        }
        Ok(())
    })?;
    Ok(leaves)
}

pub(super) fn word(bytes: &[u8]) -> String {
    lossy(bytes.trim_ascii())
}
