//! Makes a workspace on a worker: the files of a commit from a remote, with a repository that uses the
//! objects of the repository they were fetched to.
//!
//! ```text
//! <place>/work         the workspace
//!                      its `.git` names the commit, and the repository that has it
//! <place>/ready        exists once the workspace is complete
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::checkout::{self, TreeWriter};
use super::retention::Lock;
use super::{Error, Trees};

impl Trees {
    /// Writes the files of a commit into the workspace, once. `repository` has the commit.
    pub fn inhabit(&self, repository: &Path, commit: &str) -> Result<(), Error> {
        let ready = self.workspace.with_file_name("ready");
        if fs::read_to_string(&ready).is_ok_and(|known| known == commit) {
            return Ok(());
        }
        let own = self.workspace.join(".git");
        let write = |name: &str, text: &[u8]| {
            let path = own.join(name);
            fs::write(&path, text).map_err(|error| Error::io("write", &path, error))
        };
        for name in ["objects", "refs"] {
            let path = own.join(name);
            fs::create_dir_all(&path).map_err(|error| Error::io("make", &path, error))?;
        }
        write("HEAD", format!("{commit}\n").as_bytes())?;
        write("commondir", repository.as_os_str().as_bytes())?;
        let base = self.base("", Some(commit), &[], &[])?;
        let _lock = Lock::take(&self.folder)?;
        if fs::read_to_string(&ready).is_ok_and(|known| known == commit) {
            return Ok(());
        }
        self.clear().map_err(|error| Error::io("clear", &self.workspace, error))?;
        let mut checkout = TreeWriter::go_on(self.workspace.clone(), std::iter::empty(), std::iter::empty())?;
        let place_of = |path: &[u8]| base.file(OsStr::from_bytes(path));
        checkout::fill(&mut checkout, &base.index, &place_of, &mut |checkout, path, kind| {
            checkout.copy(path, &base.file(OsStr::from_bytes(path)), kind).map(|_| ())
        })?;
        checkout.finish()?;
        fs::write(&ready, commit).map_err(|error| Error::io("write", &ready, error))
    }

    /// Makes sure that a file of the workspace is that of the commit.
    pub fn restore(&self, commit: &str, name: &str) -> Result<(), Error> {
        let base = self.base("", Some(commit), &[], &[])?;
        let (from, to) = (base.file(name), self.workspace.join(name));
        let wanted = base.has(name).then(|| fs::read(&from)).transpose();
        let wanted = wanted.map_err(|error| Error::io("read", &from, error))?;
        if fs::symlink_metadata(&to).is_ok_and(|found| found.is_file()) && fs::read(&to).ok() == wanted {
            return Ok(());
        }
        let _ = fs::remove_dir_all(&to).or_else(|_| fs::remove_file(&to));
        match wanted {
            Some(bytes) => fs::write(&to, bytes).map_err(|error| Error::io("write", &to, error)),
            None => Ok(()),
        }
    }

    /// Removes leftovers of a process that died while writing the files.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.workspace)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                _ if entry.file_name() == ".git" => {}
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }
}
