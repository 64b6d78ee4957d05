//! Deletes a branch as git does: under its lock, and only if it has not moved.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::git;

/// Removes a ref whose value is `expected`, loose and packed, with its reflog.
pub(super) fn delete(repository: &Path, name: &str, expected: &str) -> io::Result<()> {
    if let Some(link) = git::link_on_the_way(repository, name) {
        return Err(io::Error::other(format!(
            "{} is a link, and provost does not write refs through links",
            link.display()
        )));
    }
    let path = repository.join(name);
    let _lock = Lock::take(&PathBuf::from(format!("{}.lock", path.display())))?;
    unpack(repository, name, expected)?;
    match fs::read_to_string(&path) {
        Ok(text) if text.trim() == expected => fs::remove_file(&path)?,
        Ok(_) => return Err(io::Error::other(format!("{name} was moved meanwhile"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let _ = fs::remove_file(repository.join("logs").join(name));
    Ok(())
}

/// Removes the line of this ref from `packed-refs`, and the following line with the target of a tag.
fn unpack(repository: &Path, name: &str, expected: &str) -> io::Result<()> {
    let path = repository.join("packed-refs");
    let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
    let is_meant = |line: &str| line.split_once(' ').is_some_and(|(id, each)| each == name && id == expected);
    if !text.lines().any(is_meant) {
        return Ok(());
    }
    let lock = Lock::take(&repository.join("packed-refs.lock"))?;
    let text = fs::read_to_string(&path)?;
    let mut kept = String::with_capacity(text.len());
    let mut is_gone = false;
    for line in text.lines() {
        is_gone = is_meant(line) || is_gone && line.starts_with('^');
        if !is_gone {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    lock.replace(&path, kept.as_bytes())
}

/// A lock as git uses it: the process that created the file may write.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Self(path.to_owned()))
    }

    fn replace(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.0)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&self.0, path)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
