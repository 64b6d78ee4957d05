//! Writes files for an agent that asks its client to do so.
//!
//! provost runs outside the agent's sandbox, so this module opens each path component without following
//! links.
//!
//! **Invariant:** provost writes no file that the agent could not have written itself.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::files::safe_open;

/// Temporary name; the finished file is renamed over its target.
const UNFINISHED: &str = ".provost-unfinished";

pub(super) struct AcpFiles<'a> {
    pub workspace: &'a Path,
    /// Paths in the workspace that the agent may not write.
    pub closed: Vec<&'a Path>,
}

impl AcpFiles<'_> {
    /// Writes a file in the workspace. Returns the reason, for the agent, if it is not allowed or fails.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let path = Path::new(path);
        let within =
            path.strip_prefix(self.workspace).map_err(|_| "it is not in the workspace".to_owned())?;
        let is_plain = within.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || within.as_os_str().is_empty() {
            return Err("it is not a path of a file in the workspace".to_owned());
        }
        if self.closed.iter().any(|closed| path.starts_with(closed) || closed.starts_with(path)) {
            return Err("agents may not write it".to_owned());
        }
        self.put(within, text).map_err(|errno| std::io::Error::from(errno).to_string())
    }

    fn put(&self, within: &Path, text: &str) -> Result<(), Errno> {
        let mut folder = safe_open::top(self.workspace)?;
        for name in within.parent().into_iter().flatten() {
            folder = match safe_open::folder(&folder, name.as_bytes()) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
                    safe_open::folder(&folder, name.as_bytes())?
                }
                found => found?,
            };
        }
        let name = within.file_name().unwrap_or(OsStr::new(""));
        let _ = rustix::fs::unlinkat(&folder, UNFINISHED, AtFlags::empty());
        let mode = safe_open::stamp_at(&folder, name.as_bytes()).map_or(0o644, |stamp| stamp.mode & 0o777);
        let mut file = safe_open::new_file(&folder, UNFINISHED.as_bytes(), mode)?;
        let written = file.write_all(text.as_bytes());
        match written {
            Ok(()) => rustix::fs::renameat(&folder, UNFINISHED, &folder, name),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&folder, UNFINISHED, AtFlags::empty());
                Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::AcpFiles;

    #[test]
    fn a_file_is_written_in_the_workspace_and_nowhere_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let (workspace, outside) = (folder.path().join("w"), folder.path().join("o"));
        for each in [&workspace, &outside] {
            fs::create_dir(each).expect("made");
        }
        let kept = workspace.join(".harness");
        let desk = AcpFiles { workspace: &workspace, closed: vec![&kept] };
        let at = |path: &str| workspace.join(path).to_string_lossy().into_owned();
        desk.write(&at("a/b/c.txt"), "one").expect("written");
        desk.write(&at("a/b/c.txt"), "two").expect("written again");
        assert_eq!(fs::read_to_string(workspace.join("a/b/c.txt")).expect("there"), "two");
        assert_eq!(fs::read_dir(workspace.join("a/b")).expect("there").count(), 1);

        fs::write(outside.join("f"), "mine").expect("written");
        symlink(&outside, workspace.join("out")).expect("linked");
        symlink(outside.join("f"), workspace.join("link")).expect("linked");
        for refused in ["out/f", "../o/f", "a/../../o/f", ".harness/PLAN.md", ".harness", "", "a/b"] {
            assert!(desk.write(&at(refused), "bad").is_err(), "{refused}");
        }
        assert!(desk.write("/etc/passwd", "bad").is_err());
        assert!(desk.write("a.txt", "bad").is_err(), "a path that is not whole");
        // A link is replaced, not followed.
        desk.write(&at("link"), "new").expect("written");
        assert_eq!(fs::read_to_string(outside.join("f")).expect("there"), "mine");
    }
}
