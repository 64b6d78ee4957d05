//! Records which configurations, markers and topics appeared or changed while an agent was working, so that
//! they have no effect until a person has reviewed them (`provost trust FILE`).
//!
//! When an attempt begins, provost writes the digests of all such files in the workspace to the state
//! folder. When it ends, provost records each file that differs. An attempt that was killed leaves its list
//! behind, and a file that does not match this list is not trusted either.
//!
//! **Invariant:** a file that differs from its state before an attempt is not trusted until a person says
//! so.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::files::folder;

/// The state folder of this process. If it is not set, as in a library, every file is trusted.
static STATE: OnceLock<PathBuf> = OnceLock::new();

/// Folders in the state folder: `ATTEMPTS` holds the lists of running attempts, `FILES` one record per
/// untrusted file.
/// Deepest folder whose files are stamped.
const STAMPED_DEPTH: usize = 64;
const ATTEMPTS: &str = "attempts";
const FILES: &str = "untrusted";

/// A file that no person has trusted since an agent could have written it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "{} appeared or changed while the agent of {by} worked: read it, then run `provost \
     trust {}`, or remove it",
    .path.display(),
    .path.display()
)]
pub struct UntrustedFile {
    pub path: PathBuf,
    /// Description of the attempt.
    pub by: String,
    /// It did not exist before the attempt.
    #[serde(default)]
    pub made: bool,
}

/// The files that an attempt began with.
#[derive(Serialize, Deserialize)]
struct Begun {
    workspace: PathBuf,
    by: String,
    known: BTreeMap<PathBuf, String>,
    /// Files that the agent cannot write: a change to one of them is not the agent's.
    #[serde(default)]
    protected: Vec<PathBuf>,
    /// The process that runs the attempt.
    pid: u32,
}

impl Begun {
    /// Returns whether the process that ran the attempt died before the attempt ended.
    fn is_left_behind(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
    }
}

/// An attempt that is running. [`RunningAttempt::end`] removes its list.
pub struct RunningAttempt {
    file: PathBuf,
    state: PathBuf,
    begun: Begun,
}

/// Sets the state folder of this process.
pub fn use_state(state: &Path) {
    let _ = STATE.set(std::path::absolute(state).unwrap_or_else(|_| state.to_owned()));
}

/// Returns an error if the file is not trusted.
pub fn check(path: &Path) -> Result<(), UntrustedFile> {
    match STATE.get() {
        Some(state) => check_in(state, path),
        None => Ok(()),
    }
}

fn check_in(state: &Path, path: &Path) -> Result<(), UntrustedFile> {
    let path = real(path);
    let recorded = fs::read(record(state, &path)).ok();
    if let Some(untrusted) = recorded.and_then(|text| serde_json::from_slice::<UntrustedFile>(&text).ok())
        && untrusted.path == path
    {
        return Err(untrusted);
    }
    for entry in state.join(ATTEMPTS).read_dir().into_iter().flatten().flatten() {
        let text = fs::read(entry.path()).ok();
        let Some(begun) = text.and_then(|text| serde_json::from_slice::<Begun>(&text).ok()) else { continue };
        let is_protected = begun.protected.contains(&path);
        let is_inside = path.starts_with(&begun.workspace) && !is_protected;
        let before = begun.known.get(&path);
        if is_inside && before != digest(&path).as_ref() {
            let made = before.is_none();
            return Err(UntrustedFile { path, by: begun.by, made });
        }
    }
    Ok(())
}

/// Returns all recorded files that still exist, in order of path.
pub fn list(state: &Path) -> Vec<UntrustedFile> {
    let entries = state.join(FILES).read_dir().into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| fs::read(entry.path()).ok());
    let mut all: Vec<UntrustedFile> = texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect();
    all.retain(|untrusted| untrusted.path.symlink_metadata().is_ok());
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all
}

/// Trusts the file as it is now, after a person has read it. Returns whether it was untrusted before.
pub fn trust(state: &Path, path: &Path) -> io::Result<bool> {
    let path = real(path);
    let was_untrusted = check_in(state, &path).is_err();
    match fs::remove_file(record(state, &path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Update the lists of attempts as well, so that lists of killed attempts accept the file as it is now.
    for entry in state.join(ATTEMPTS).read_dir().into_iter().flatten().flatten() {
        let text = fs::read(entry.path()).ok();
        let Some(mut begun) = text.and_then(|text| serde_json::from_slice::<Begun>(&text).ok()) else {
            continue;
        };
        if !path.starts_with(&begun.workspace) {
            continue;
        }
        match digest(&path) {
            Some(digest) => begun.known.insert(path.clone(), digest),
            None => begun.known.remove(&path),
        };
        files::write_whole(&entry.path(), &serde_json::to_vec(&begun)?)?;
    }
    Ok(was_untrusted)
}

/// Begins an attempt in `workspace`: records the `deciding` files as they are. The agent cannot write the
/// `protected` files.
pub fn begin(
    state: &Path,
    workspace: &Path,
    by: &str,
    deciding: &[PathBuf],
    protected: &[PathBuf],
) -> io::Result<RunningAttempt> {
    let workspace = real(workspace);
    let known = deciding.iter().map(|path| real(path));
    let known = known.filter_map(|path| digest(&path).map(|digest| (path, digest))).collect();
    let protected = protected.iter().map(|path| real(path)).collect();
    let begun = Begun { workspace, by: by.to_owned(), known, protected, pid: std::process::id() };
    let attempts = state.join(ATTEMPTS);
    folder::make_private(&attempts)?;
    settle(state, &begun.workspace, deciding)?;
    let name = Hash::of(format!("{}\n{by}", begun.workspace.display()).as_bytes()).to_string();
    let file = attempts.join(format!("{}.json", &name[..32]));
    files::write_whole(&file, &serde_json::to_vec(&begun)?)?;
    Ok(RunningAttempt { file, state: state.to_owned(), begun })
}

/// Ends the killed attempts of a workspace: records the files that differ from their lists.
fn settle(state: &Path, workspace: &Path, deciding: &[PathBuf]) -> io::Result<()> {
    for entry in state.join(ATTEMPTS).read_dir().into_iter().flatten().flatten() {
        let text = fs::read(entry.path()).ok();
        let Some(begun) = text.and_then(|text| serde_json::from_slice::<Begun>(&text).ok()) else { continue };
        if begun.workspace == workspace && begun.is_left_behind() {
            RunningAttempt { file: entry.path(), state: state.to_owned(), begun }.end(deciding)?;
        }
    }
    Ok(())
}

impl RunningAttempt {
    /// Ends the attempt and records those of the `deciding` files that appeared or changed during it.
    pub fn end(self, deciding: &[PathBuf]) -> io::Result<()> {
        let untrusted = self.state.join(FILES);
        for path in deciding.iter().map(|path| real(path)) {
            let is_protected = self.begun.protected.contains(&path);
            let before = self.begun.known.get(&path);
            if is_protected || before == digest(&path).as_ref() {
                continue;
            }
            folder::make_private(&untrusted)?;
            // An environment that an agent made stays its own until a person trusts it.
            let made = before.is_none() || check_in(&self.state, &path).is_err_and(|known| known.made);
            let record = UntrustedFile { path: path.clone(), by: self.begun.by.clone(), made };
            files::write_whole(&self::record(&self.state, &path), &serde_json::to_vec(&record)?)?;
        }
        fs::remove_file(&self.file)
    }
}

fn record(state: &Path, path: &Path) -> PathBuf {
    let name = Hash::of(path.as_os_str().as_encoded_bytes()).to_string();
    state.join(FILES).join(format!("{}.json", &name[..32]))
}

/// Resolves the folder of the path; the last name is not followed.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// Returns the digest of a folder's stamps, or of a file's content; `None` if there is nothing.
pub fn fingerprint(path: &Path) -> Option<String> {
    digest(path)
}

/// Returns the digest of what a reader of the path would read, or `None` if there is nothing. For a folder
/// it covers the stamps of its files.
fn digest(path: &Path) -> Option<String> {
    let found = path.symlink_metadata().ok()?;
    let text = match path.is_file() {
        true => fs::read(path).unwrap_or_default(),
        false if found.is_dir() => {
            let mut stamps = Vec::new();
            stamp(path, 0, &mut stamps);
            stamps
        }
        false => fs::read_link(path).map(|to| to.as_os_str().as_encoded_bytes().to_vec()).unwrap_or_default(),
    };
    Some(Hash::of(&text).to_string())
}

/// Adds names, sizes and times of the files below a folder. No program can set the time of a change.
fn stamp(folder: &Path, depth: usize, stamps: &mut Vec<u8>) {
    use std::os::unix::fs::MetadataExt as _;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.path()).filter(|path| !is_cache(path)).collect();
    names.sort();
    for path in names {
        let Ok(found) = path.symlink_metadata() else { continue };
        stamps.extend_from_slice(path.as_os_str().as_encoded_bytes());
        if found.is_dir() && depth < STAMPED_DEPTH {
            stamp(&path, depth + 1, stamps);
        } else {
            let numbers = [found.len().cast_signed(), found.mtime(), found.ctime(), found.ctime_nsec()];
            stamps.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
    }
}

/// Returns whether the path is a cache that tools write when they run.
fn is_cache(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let is_hidden = name.starts_with('.') && name != ".bin" && name != ".pnpm";
    let in_packages = path.parent().is_some_and(|folder| folder.ends_with("node_modules"));
    name == "__pycache__" || is_hidden && in_packages
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{begin, check_in, list, trust};

    #[test]
    fn what_came_during_an_attempt_is_trusted_only_by_a_person() {
        let state = tempfile::tempdir().expect("a folder");
        let work = tempfile::tempdir().expect("a folder");
        let at = |name: &str| work.path().join(name);
        fs::write(at("provost.toml"), "mine").expect("written");
        let watched =
            begin(state.path(), work.path(), "step 1, attempt 1", &[at("provost.toml")], &[]).expect("begun");
        assert_eq!(check_in(state.path(), &at("provost.toml")), Ok(()));
        fs::create_dir(at("sub")).expect("made");
        fs::write(at("sub/provost.toml"), "the agent's").expect("written");
        assert!(check_in(state.path(), &at("sub/provost.toml")).is_err(), "while it is under way");
        watched.end(&[at("sub/provost.toml"), at("provost.toml")]).expect("ended");
        let said = check_in(state.path(), &at("sub/provost.toml")).expect_err("not trusted").to_string();
        assert!(said.contains("step 1, attempt 1") && said.contains("provost trust"), "{said}");
        assert_eq!(check_in(state.path(), &at("provost.toml")), Ok(()), "it is as it was");
        assert_eq!(list(state.path()).len(), 1);
        assert!(trust(state.path(), &at("sub/provost.toml")).expect("trusted"));
        assert_eq!(check_in(state.path(), &at("sub/provost.toml")), Ok(()));
        assert!(!trust(state.path(), &at("provost.toml")).expect("nothing to do"));
    }

    #[test]
    fn an_attempt_that_was_killed_leaves_its_list_behind() {
        let state = tempfile::tempdir().expect("a folder");
        let work = tempfile::tempdir().expect("a folder");
        let file = work.path().join("provost.toml");
        let mut watched = begin(state.path(), work.path(), "step 1, attempt 1", &[], &[]).expect("begun");
        // Pretends that a process that is dead by now had run the attempt.
        watched.begun.pid = i32::MAX as u32;
        fs::write(&watched.file, serde_json::to_vec(&watched.begun).expect("text")).expect("written");
        drop(watched);
        fs::write(&file, "the agent's").expect("written");
        assert!(check_in(state.path(), &file).is_err());
        // The next attempt begins with the file present, and must not take it for a person's.
        let next = begin(state.path(), work.path(), "step 1, attempt 2", std::slice::from_ref(&file), &[])
            .expect("begun");
        next.end(&[]).expect("ended");
        let said = check_in(state.path(), &file).expect_err("not trusted").to_string();
        assert!(said.contains("attempt 1"), "{said}");
        assert!(trust(state.path(), &file).expect("trusted"));
        assert_eq!(check_in(state.path(), &file), Ok(()));
        fs::write(&file, "the person's").expect("written");
        assert_eq!(check_in(state.path(), &file), Ok(()));
    }
}
