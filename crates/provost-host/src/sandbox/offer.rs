//! The sandbox features of this machine, and how to get the missing ones. [`super::probe`] fills it in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Unavailable;
use crate::process;

/// A feature that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFeature {
    pub why: String,
    /// How to get it: a sentence for people.
    pub hint: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bubblewrap {
    pub path: PathBuf,
    pub version: String,
}

/// The programs that the overlay script runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayTools {
    pub mount: PathBuf,
    pub mkdir: PathBuf,
    pub rm: PathBuf,
}

#[derive(Clone, Debug)]
pub struct SandboxFeatures {
    pub kernel: String,
    pub is_root: bool,
    /// Found, and tested: it made a sandbox with everything that a check needs.
    pub bubblewrap: Result<Bubblewrap, MissingFeature>,
    pub unshare: Result<PathBuf, MissingFeature>,
    /// As this user, without privileges.
    pub user_namespaces: Result<(), MissingFeature>,
    pub pid_namespaces: Result<(), MissingFeature>,
    /// Mounted in a user namespace, with deleted and recreated folders.
    pub overlay: Result<OverlayTools, MissingFeature>,
    /// An agent can start its own bubblewrap inside provost's.
    pub nesting: Result<(), MissingFeature>,
    pub landlock: Result<String, MissingFeature>,
    /// Command that starts provost's own program inside a sandbox; the caller sets it.
    pub launcher: Vec<OsString>,
    /// Files of the system's configuration that not all users may read, but this one may.
    pub(super) secrets: Vec<PathBuf>,
    pub(super) sh: PathBuf,
    pub(super) system: Vec<OsString>,
    pub(super) resolver: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Here(String),
    Missing(String),
}

/// One line of `provost doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureLine {
    pub name: &'static str,
    pub state: State,
    pub hint: Option<String>,
}

impl SandboxFeatures {
    pub fn lines(&self) -> Vec<FeatureLine> {
        fn line<T>(
            name: &'static str,
            offered: &Result<T, MissingFeature>,
            said: impl Fn(&T) -> String,
        ) -> FeatureLine {
            match offered {
                Ok(found) => FeatureLine { name, state: State::Here(said(found)), hint: None },
                Err(missing) => {
                    let hint = Some(missing.hint.clone());
                    FeatureLine { name, state: State::Missing(missing.why.clone()), hint }
                }
            }
        }
        let works = |(): &()| "works".to_owned();
        let user = if self.is_root { "root" } else { "an ordinary user" };
        vec![
            FeatureLine { name: "kernel", state: State::Here(self.kernel.clone()), hint: None },
            FeatureLine { name: "running as", state: State::Here(user.to_owned()), hint: None },
            line("bubblewrap", &self.bubblewrap, |found| {
                format!("{} {}", found.path.display(), found.version)
            }),
            line("unshare", &self.unshare, |found| found.display().to_string()),
            line("user namespaces", &self.user_namespaces, works),
            line("process namespaces", &self.pid_namespaces, works),
            line("overlay in a user namespace", &self.overlay, |_| "works".to_owned()),
            line("bubblewrap inside bubblewrap", &self.nesting, works),
            line("landlock", &self.landlock, String::clone),
            line("cgroups", &cgroups(), |_| {
                "works: below `clean`, provost ends an attempt as a whole".to_owned()
            }),
        ]
    }

    /// Returns the reason why this machine cannot have the sandboxes of `clean`, as far as that is known
    /// without the self-test.
    pub fn lacks(&self) -> Option<String> {
        let fence = self.bubblewrap().map(|_| ()).and_then(|()| self.unshare().map(|_| ()));
        fence.and_then(|()| self.overlay().map(|_| ())).err().map(|error| error.to_string())
    }

    pub(super) fn bubblewrap(&self) -> Result<&Bubblewrap, Unavailable> {
        has("bubblewrap", &self.bubblewrap)
    }

    pub(super) fn unshare(&self) -> Result<&Path, Unavailable> {
        has("unshare", &self.unshare).map(PathBuf::as_path)
    }

    pub(super) fn overlay(&self) -> Result<&OverlayTools, Unavailable> {
        has("an overlay in a user namespace", &self.overlay)
    }

    pub(super) fn sh(&self) -> &Path {
        &self.sh
    }

    /// Returns whether provost's own program is known, which protects a check's processes from each other.
    pub(super) fn can_guard(&self) -> bool {
        self.launcher.first().is_some_and(|program| Path::new(program).is_absolute())
    }

    /// Returns the arguments that show the system's own folders, without what only root may read in them.
    pub(super) fn system(&self) -> &[OsString] {
        &self.system
    }

    /// Returns the target of `/etc/resolv.conf`, if it is outside the system's folders.
    pub(super) fn resolver(&self) -> Option<&Path> {
        self.resolver.as_deref()
    }
}

fn has<'a, T>(what: &'static str, offered: &'a Result<T, MissingFeature>) -> Result<&'a T, Unavailable> {
    offered.as_ref().map_err(|missing| Unavailable::Missing { what, missing: missing.clone() })
}

/// Asked here and not with the rest, because no sandbox needs it.
fn cgroups() -> Result<(), MissingFeature> {
    let hint = "Run provost in a delegated cgroup: systemd-run --user --scope -p Delegate=yes provost run.";
    process::cgroups_offered()
        .map(|_| ())
        .map_err(|why| MissingFeature { why: why.to_owned(), hint: hint.to_owned() })
}
