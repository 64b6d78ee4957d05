//! Sends trees through a git remote, from the machine of an agent to the machine that judges.
//!
//! A tree is sent as a commit on top of the approved one. The commit is made in the mirror with a fixed
//! author and time, so that the same tree gives the same commit on every machine. The receiver writes it to
//! disk and computes its id from the content.
//!
//! ```text
//! refs/provost/base/<commit>                     the approved commit and its history
//! refs/provost/<plan>/approved/<revision>        with files that were approved and not committed
//! refs/provost/<plan>/<step>/a<attempt>-e<epoch> the result of an attempt; another holder of the lock has
//!                                                another epoch
//! refs/provost/<plan>/passed/<tree>              a tree on which a contract passed
//! ```
//!
//! **Invariant:** a ref is created once and never moved. A received tree is accepted only if its own id
//! matches.
//! **Invariant:** the credentials of the remote are only in the environment of the process that contacts
//! it.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::checkout::{TreeWriter, lossy};
use super::commit::word;
use super::index::TreeDraft;
use super::mirror::Mirror;
use super::retention::Lock;
use super::{Base, Error, TREE, Trees};
use crate::files::safe_open;

mod address;
mod answer;

pub use address::{BadRemote, Remote, opens_a_remote};

fn base_name(commit: &str) -> String {
    format!("refs/provost/base/{commit}")
}

/// Fetches a commit and its history into an object folder that many workspaces may share. Returns the
/// folder of the repository.
pub fn fetch_commit(folder: &Path, remote: &Remote, commit: &str) -> Result<std::path::PathBuf, Error> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make", folder, error))?;
    let _lock = Lock::take(folder)?;
    let mirror = Mirror::open(folder, folder, commit)?;
    let name = base_name(commit);
    if mirror.known(&name)?.as_deref() == Some(commit) {
        return Ok(mirror.path().to_owned());
    }
    mirror.on_remote(remote, &name)?.ok_or_else(|| Error::NotOnRemote { name: name.clone() })?;
    mirror.fetch(remote, &name, &[])?;
    // The id of a commit is a digest of its content and its history.
    match mirror.known(&name)?.as_deref() == Some(commit) {
        true => Ok(mirror.path().to_owned()),
        false => Err(Error::OtherTree { name, tree: commit.to_owned() }),
    }
}

/// Deletes refs on the remote: those that begin with `prefix` and for which `is_over` returns true. `folder`
/// is one for [`fetch_commit`].
pub fn forget_sent(
    folder: &Path,
    remote: &Remote,
    prefix: &str,
    is_over: impl Fn(&str) -> bool,
) -> Result<usize, Error> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make", folder, error))?;
    // git lists the refs of a repository of any kind, but deletes only those of its own.
    let listed = opened(folder, SHA1)?.all_on_remote(remote, prefix)?;
    let Some((id, _)) = listed.first() else { return Ok(0) };
    let mirror = opened(folder, id)?;
    let over: Vec<&str> = listed.iter().map(|(_, name)| name.as_str()).filter(|name| is_over(name)).collect();
    for some in over.chunks(100) {
        let gone: Vec<String> = some.iter().map(|name| format!(":{name}")).collect();
        let words = ["push", "--quiet", "--no-verify", remote.address()];
        let args: Vec<&str> = words.into_iter().chain(gone.iter().map(String::as_str)).collect();
        let Err(refused) = mirror.ask(remote, &args, &[]) else { continue };
        // Another machine may have deleted them at the same time.
        let left = mirror.all_on_remote(remote, prefix)?;
        if left.iter().any(|(_, name)| some.contains(&name.as_str())) {
            return Err(refused);
        }
    }
    Ok(over.len())
}

/// A commit id that opens a mirror of the usual format.
const SHA1: &str = "0000000000000000000000000000000000000000";

fn opened<'a>(folder: &'a Path, id: &'a str) -> Result<Mirror<'a>, Error> {
    let _lock = Lock::take(folder)?;
    Mirror::open(folder, folder, id)
}

impl Trees {
    /// Makes a commit of the workspace's repository and its history available on the remote.
    pub fn send_commit(&self, remote: &Remote, commit: &str) -> Result<(), Error> {
        let mirror = self.mirror_of(commit)?;
        let name = base_name(commit);
        match mirror.on_remote(remote, &name)? {
            Some(there) if there == commit => Ok(()),
            Some(_) => Err(Error::Taken { name }),
            None => mirror.push(remote, commit, &name, &mirror.lends()?),
        }
    }

    /// Sends a tree that is based on a commit, under a ref name that does not exist yet.
    pub fn send(&self, remote: &Remote, commit: &str, tree: &Base, name: &str) -> Result<(), Error> {
        let plain = self.base("", Some(commit), &[], &[])?;
        let mirror = self.mirror_of(commit)?;
        let parcel = {
            let _lock = Lock::take(&self.folder)?;
            let written = self.written_on(&mirror, commit, &plain, tree)?;
            let said = format!("provost tree {}\n", tree.id);
            word(&mirror.git(&["commit-tree", &written, "-p", commit], said.as_bytes(), &by_nobody())?)
        };
        mirror.push(remote, &parcel, name, &[])
    }

    /// Returns the tree that was sent under this name, if it has this id.
    pub fn receive(&self, remote: &Remote, commit: &str, name: &str, id: &str) -> Result<Base, Error> {
        if let Some(kept) = self.kept(id, &[])? {
            return Ok(kept);
        }
        let Unpacked { room, sealed, id: found, _lock } = self.unpacked(remote, commit, name)?;
        if found != id {
            return Err(Error::OtherTree { name: name.to_owned(), tree: id.to_owned() });
        }
        let id = self.settle(room, &sealed, &[], found)?;
        self.held(&id, &[], Vec::new())?.ok_or(Error::Damaged { id })
    }

    /// Writes files of what was sent under this name into the workspace. The caller must verify them.
    pub fn receive_files(
        &self,
        remote: &Remote,
        commit: &str,
        name: &str,
        files: &[&str],
    ) -> Result<(), Error> {
        let unpacked = self.unpacked(remote, commit, name)?;
        let sent = unpacked.room.path().join(TREE);
        let io = |path: &Path, error: std::io::Error| Error::io("copy", path, error);
        let (from, to) = (safe_open::top(&sent), safe_open::top(&self.workspace));
        let from = from.map_err(|errno| io(&sent, errno.into()))?;
        let to = to.map_err(|errno| io(&self.workspace, errno.into()))?;
        for file in files {
            put(&from, &to, file).map_err(|error| io(Path::new(file), error))?;
        }
        Ok(())
    }

    fn mirror_of<'a>(&'a self, commit: &'a str) -> Result<Mirror<'a>, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        mirror.borrow()?;
        Ok(mirror)
    }

    fn unpacked(&self, remote: &Remote, commit: &str, name: &str) -> Result<Unpacked, Error> {
        let mirror = self.mirror_of(commit)?;
        let ends = mirror.line_ends(&mirror.listing()?)?;
        mirror.on_remote(remote, name)?.ok_or_else(|| Error::NotOnRemote { name: name.to_owned() })?;
        let had = mirror.has_commit()?;
        mirror.fetch(remote, name, &had)?;
        let none = || Error::NotOnRemote { name: name.to_owned() };
        let parcel = mirror.known(name)?.ok_or_else(none)?;
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, &parcel)?;
        let room = self.room()?;
        let mut checkout = TreeWriter::begin(room.path().join(TREE), TreeDraft::default())?;
        // Files that a tree must not contain are left out, so the id will differ.
        let written = mirror.extract(&mut checkout, (b"", Some(&ends)), &[], &mut Vec::new());
        written.map_err(|error| match error {
            Error::Git { .. } | Error::Object { .. } | Error::Clash { .. } => {
                Error::OtherTree { name: name.to_owned(), tree: parcel.clone() }
            }
            error => error,
        })?;
        let (sealed, id) = self.sealed(checkout)?;
        Ok(Unpacked { room, sealed, id, _lock })
    }
}

/// Copies a file from one folder to another. Follows no link in either: a link could lead anywhere.
fn put(from: &OwnedFd, to: &OwnedFd, file: &str) -> std::io::Result<()> {
    let sent = safe_open::file(from, file.as_bytes())?;
    if !sent.metadata()?.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let (folders, name) = file.rsplit_once('/').map_or((None, file), |(folders, name)| (Some(folders), name));
    let mut folder = rustix::io::dup(to)?;
    for part in folders.into_iter().flat_map(|folders| folders.split('/')) {
        match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        folder = safe_open::folder(&folder, part.as_bytes())?;
    }
    match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mode = sent.metadata()?.permissions().mode() & 0o777;
    let mut written = safe_open::new_file(&folder, name.as_bytes(), mode)?;
    safe_open::copy(&sent, &mut written, u64::MAX).map(|_| ())
}

/// A received tree on disk, with its list and id. The lock keeps other processes from building meanwhile.
struct Unpacked {
    room: tempfile::TempDir,
    sealed: Vec<u8>,
    id: String,
    _lock: Lock,
}

impl Mirror<'_> {
    /// Returns the commit of a ref on the remote.
    fn on_remote(&self, remote: &Remote, name: &str) -> Result<Option<String>, Error> {
        let text = lossy(&self.ask(remote, &["ls-remote", "--refs", remote.address(), name], &[])?);
        // `ls-remote` also matches names that only end like this.
        let found = text.lines().filter_map(|line| line.split_once('\t')).find(|(_, found)| *found == name);
        Ok(found.map(|(id, _)| id.to_owned()))
    }

    /// Returns the refs on the remote that begin like this, with what they name.
    fn all_on_remote(&self, remote: &Remote, prefix: &str) -> Result<Vec<(String, String)>, Error> {
        let pattern = format!("{prefix}*");
        let text = lossy(&self.ask(remote, &["ls-remote", "--refs", remote.address(), &pattern], &[])?);
        let refs = text.lines().filter_map(|line| line.split_once('\t'));
        let refs = refs.filter(|(_, name)| name.starts_with(prefix));
        Ok(refs.map(|(id, name)| (id.to_owned(), name.to_owned())).collect())
    }

    /// Returns the commit of a ref in the mirror.
    fn known(&self, name: &str) -> Result<Option<String>, Error> {
        let listed = self.git(&["for-each-ref", "--format=%(objectname)", name], b"", &[])?;
        Ok(Some(word(&listed)).filter(|id| !id.is_empty()))
    }

    /// Declares the commit as present, so that commits on top of it can be fetched without it; its history
    /// is declared as cut off, because the mirror does not have it.
    fn has_commit(&self) -> Result<Vec<(OsString, OsString)>, Error> {
        let commit = self.commit().to_owned();
        self.git(&["update-ref", &base_name(&commit), &commit], b"", &[])?;
        let all = self.git(&["for-each-ref", "--format=%(objectname)", "refs/provost/base/"], b"", &[])?;
        let file = self.path().join("cut-off");
        fs::write(&file, all).map_err(|error| Error::io("write", &file, error))?;
        Ok(vec![("GIT_SHALLOW_FILE".into(), file.into())])
    }

    fn fetch(&self, remote: &Remote, name: &str, more: &[(OsString, OsString)]) -> Result<(), Error> {
        let from_to = format!("+{name}:{name}");
        let words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        let args: Vec<&str> = words.into_iter().chain([remote.address(), &from_to]).collect();
        self.ask(remote, &args, more).map(|_| ())
    }

    /// Creates the ref on the remote if it does not exist. A ref that already names this commit counts as
    /// success.
    fn push(
        &self,
        remote: &Remote,
        commit: &str,
        name: &str,
        more: &[(OsString, OsString)],
    ) -> Result<(), Error> {
        let (expects_none, to) = (format!("--force-with-lease={name}:"), format!("{commit}:{name}"));
        let args = ["push", "--quiet", "--no-verify", &expects_none, remote.address(), &to];
        let Err(refused) = self.ask(remote, &args, more) else { return Ok(()) };
        if !matches!(refused, Error::Unreachable { .. }) {
            return Err(refused);
        }
        match self.on_remote(remote, name)? {
            Some(there) if there == commit => Ok(()),
            Some(_) => Err(Error::Taken { name: name.to_owned() }),
            None => Err(refused),
        }
    }
}

/// Returns a fixed author and time, so that the same tree always gives the same commit.
fn by_nobody() -> Vec<(OsString, OsString)> {
    let who = ["AUTHOR", "COMMITTER"].into_iter().flat_map(|who| {
        [("NAME", "provost"), ("EMAIL", ""), ("DATE", "@0 +0000")]
            .map(|(what, value)| (format!("GIT_{who}_{what}").into(), value.into()))
    });
    who.collect()
}
