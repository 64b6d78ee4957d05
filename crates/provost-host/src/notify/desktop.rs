//! Desktop notifications by `notify-send`, or else by `osascript`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::Notification;

pub enum Desktop {
    NotifySend(PathBuf),
    Osascript(PathBuf),
}

/// Finds the notification program on the `PATH` of `environment`.
pub fn find(environment: &[(OsString, OsString)]) -> Option<Desktop> {
    let path = environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value)?;
    let search = |program: &str| {
        let mut folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        folders.find_map(|folder| {
            let found = folder.join(program);
            let runs = rustix::fs::access(&found, rustix::fs::Access::EXEC_OK).is_ok();
            (runs && found.is_file()).then_some(found)
        })
    };
    search("notify-send").map(Desktop::NotifySend).or_else(|| search("osascript").map(Desktop::Osascript))
}

impl Desktop {
    pub fn program(&self) -> &OsStr {
        match self {
            Desktop::NotifySend(path) | Desktop::Osascript(path) => path.as_os_str(),
        }
    }

    /// Returns the arguments. Texts are arguments, never part of a script.
    pub(super) fn arguments(&self, message: &Notification) -> Vec<OsString> {
        let words = match self {
            Desktop::NotifySend(_) => {
                // The line may be interpreted as markup.
                let line = message.line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                vec!["--app-name=provost".to_owned(), "--".to_owned(), message.title.clone(), line]
            }
            Desktop::Osascript(_) => {
                let script = [
                    "on run texts",
                    "display notification (item 2 of texts) with title (item 1 of texts)",
                    "end run",
                ];
                let mut words: Vec<String> =
                    script.iter().flat_map(|line| ["-e".to_owned(), (*line).to_owned()]).collect();
                words.extend([message.title.clone(), message.line.clone()]);
                words
            }
        };
        words.into_iter().map(OsString::from).collect()
    }
}
