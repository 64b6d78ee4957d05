//! Makes a separate repository for an agent: one commit, its history, and nothing else of the user's data.
//!
//! It has no other branch, reflog, stash, remote or configuration. It is made from the objects of the
//! workspace's repository through the mirror, like a base: git runs only in the mirror.

use std::fs;
use std::path::Path;

use super::mirror::Mirror;
use super::retention::Lock;
use super::{Error, Trees};

/// The branch that is checked out for the agent.
const BRANCH: &str = "main";

impl Trees {
    /// Makes the repository in `folder`, which is empty. Its index is that of the commit.
    pub fn clone_of(&self, commit: &str, folder: &Path) -> Result<(), Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| Error::io("write", &path, error))
        };
        for name in ["objects/pack", "objects/info", "refs/heads", "refs/tags", "info", "hooks"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(|error| Error::io("make", &path, error))?;
        }
        let core = "filemode = true\n\tbare = false\n\tlogallrefupdates = true\n";
        match commit.len() {
            64 => write(
                "config",
                &format!(
                    "[core]\n\trepositoryformatversion = 1\n\t{core}[extensions]\n\tobjectformat = sha256\n"
                ),
            )?,
            _ => write("config", &format!("[core]\n\trepositoryformatversion = 0\n\t{core}"))?,
        }
        write("HEAD", &format!("ref: refs/heads/{BRANCH}\n"))?;
        write(&format!("refs/heads/{BRANCH}"), &format!("{commit}\n"))?;
        if let Some(ends) = mirror.shallow() {
            write("shallow", &ends)?;
        }
        mirror.lend_all(folder)
    }
}
