//! The sandboxes of agents and checks: what each of them can access.
//!
//! [`survey`] finds out which features this machine really has. [`check`] and [`agent`] turn a program into
//! the same program inside a sandbox. [`self_test`] attacks the sandboxes from inside and reports what
//! held. The two sandboxes differ: an agent sees the system's programs, what its own program needs, its
//! home and its workspace; a check sees the system's programs and a tree that provost put together.
//!
//! The caller limits the resources of agents and checks, not the sandbox.
//!
//! **Invariant:** if a sandbox is not available, the result is an error that says how to get it, never a
//! weaker sandbox.
//! **Invariant:** nothing that is written inside a check reaches the base, the layer or the workspace; only
//! the folders in [`CheckFence::keep`] can keep data.
//! **Invariant:** when the program inside ends, everything it started has ended: the end of the sandbox's
//! first process ends its pid namespace.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::process::{Cgroup, Enclosure, How, ProcessEnd};

mod agent;
mod attest;
mod calls;
mod capabilities;
mod check;
mod confine;
mod enter;
mod inside;
mod kept;
mod landlock;
mod needs;
mod offer;
mod probe;
mod room;
mod status;
mod untraced;

pub use attest::{Attestation, SelfTestProbe, Vantage, attested, probes, self_test};
pub use confine::{Confines, Rules, confine};
pub use enter::enter;
pub use kept::{CACHES, CheckMount, MountWrites, UPPER, What};
pub use needs::{AgentPaths, CommandLine, NO_NEEDS, find_program};
pub use offer::{Bubblewrap, FeatureLine, MissingFeature, OverlayTools, SandboxFeatures, State};
pub use probe::survey;
pub use status::{HomeSeen, SandboxStatus, read_status, signal_behind};

/// `HOME` inside a check: private, empty, and the same path for each check, so that cache paths stay valid.
pub const HOME: &str = "/home/check";
/// `TMPDIR` inside every sandbox.
pub const TMP: &str = "/tmp";
/// Default limit on what a check may write: 2 GiB.
pub const USUAL_SIZE: u64 = 2 * 1024 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The machine's own network, including its loopback and its abstract sockets.
    On,
    Off,
}

/// The access that the processes of a check have to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// No process can trace another, write to it, or read its memory, environment and open files.
    #[default]
    Guarded,
    /// As `Guarded`; also, no process sees other processes and their command lines.
    Unseen,
    /// As outside a sandbox: a debugger works, and the program under test can manipulate the program that
    /// judges it.
    Traceable,
}

/// The tree a check runs in.
#[derive(Clone, Copy, Debug)]
pub enum CheckTree<'a> {
    /// Put together for this one check, at a cost that does not depend on the size of the tree.
    Overlay {
        /// The stored base. It must not change while the check runs.
        lower: &'a Path,
        /// Changes of earlier steps; covers the base, file by file.
        over: Option<&'a Path>,
        /// Only the files imported from the agent; covers both.
        layer: &'a Path,
        /// Paths to remove from the base, relative to it.
        deleted: &'a [PathBuf],
    },
    /// Put together beforehand, and written in place.
    Folder(&'a Path),
}

/// Configuration of the sandbox of a check at level `clean`.
#[derive(Clone, Copy, Debug)]
pub struct CheckFence<'a> {
    pub tree: CheckTree<'a>,
    /// Path of the tree inside: the workspace's own path, so that absolute paths stay valid.
    pub at: &'a Path,
    /// Bytes the check may write to tree, home and temporary folders together. (With a
    /// [`CheckTree::Folder`]: to home and each temporary folder separately; the tree has no limit.)
    pub size: u64,
    pub network: Network,
    /// Takes effect if [`SandboxFeatures::launcher`] is set; without it, processes are traceable.
    pub processes: Processes,
    /// Folders of programs outside the system's folders; shown read-only at their own paths.
    pub toolchains: &'a [&'a Path],
    /// Provisioned dependencies, and build caches.
    pub keep: &'a [CheckMount<'a>],
    /// The state folder and sockets: covered in every place where the check would otherwise see them.
    pub hidden: &'a [&'a Path],
    /// A folder of provost that nothing in a sandbox can access, preferably in memory. It gets an empty
    /// folder `room`, which stays, and for each run a file `fence-*`, which is removed with its
    /// [`SandboxedCommand`].
    pub scratch: &'a Path,
}

impl CheckFence<'_> {
    /// Returns whether this folder may be shown: it is not hidden, and it contains nothing that a check
    /// must not access.
    pub fn may_show(&self, folder: &Path) -> bool {
        let trees = match self.tree {
            CheckTree::Overlay { lower, over, layer, .. } => vec![Some(lower), over, Some(layer)],
            CheckTree::Folder(folder) => vec![Some(folder)],
        };
        let mut held = trees.into_iter().flatten().chain([self.at, self.scratch]);
        !held.any(|path| path.starts_with(folder))
            && !self.hidden.iter().any(|hidden| folder.starts_with(hidden))
    }
}

/// The home folder that an agent gets.
#[derive(Clone, Copy, Debug)]
pub enum HomePolicy<'a> {
    /// The user's own, readable and writable: agents keep their configuration and keys there.
    Users(&'a Path),
    /// An empty folder at the same path, removed afterwards.
    Private(&'a Path),
    /// The user's own home, readable at the same path; writes go into a layer over it. If this machine has
    /// no overlays, the home cannot be written at all.
    Layered {
        home: &'a Path,
        /// A folder that stores the layer, with `upper` and `work` in it. Nothing else may use it
        /// meanwhile.
        kept: &'a Path,
    },
}

/// The network access of an agent.
#[derive(Clone, Copy, Debug)]
pub enum Outlet<'a> {
    /// The machine's own network, including its loopback and its abstract sockets.
    On,
    Off,
    /// A separate network, with a forwarder to a socket outside.
    Portal(ForwarderMount<'a>),
}

#[derive(Clone, Copy, Debug)]
pub struct ForwarderMount<'a> {
    /// Starts the forwarder: a program and its first arguments. [`agent`] describes the arguments that
    /// follow.
    pub launcher: &'a [OsString],
    /// The folder outside that contains the socket, and nothing else.
    pub folder: &'a Path,
    /// Loopback addresses of the machine that the forwarder serves inside.
    pub direct: &'a [String],
}

/// Folder in which the forwarder finds its socket.
const PORTAL: &str = "/run/provost";

/// Configuration of the sandbox of an agent: the system's folders and what its program needs are readable,
/// its workspace is writable, `/tmp` and `/run` are its own. Nothing else of the machine is visible.
///
/// A file in `read_only` becomes a mount point: it cannot be written, renamed, replaced or removed from
/// inside, and neither can the folders that lead to it. Not covered: paths that do not exist yet when the
/// sandbox starts (refused, so that no caller relies on them), a symlink that leads to a covered file (the
/// file is covered, the link can be replaced), and a second hard link to it.
#[derive(Clone, Copy, Debug)]
pub struct AgentFence<'a> {
    pub workspace: &'a Path,
    /// Folders that are writable in addition to workspace and home.
    pub writable: &'a [&'a Path],
    pub read_only: &'a [&'a Path],
    /// Masked files: the path, and the file that is shown there instead, read-only.
    pub veiled: &'a [(&'a Path, &'a Path)],
    pub hidden: &'a [&'a Path],
    /// Replaced paths: the path, and what is shown there instead, readable and writable.
    pub instead: &'a [(&'a Path, &'a Path)],
    pub network: Outlet<'a>,
    pub home: HomePolicy<'a>,
    /// Paths of the machine that its program needs in addition.
    pub needs: &'a AgentPaths,
    /// As in [`CheckFence::scratch`].
    pub scratch: &'a Path,
}

/// A program inside its sandbox, for [`process::run`](crate::process::run). The environment is passed on as
/// it is given there; the working folder inside is the tree or the workspace.
///
/// `SIGTERM` ends the sandbox itself and everything inside at once: the program inside gets no grace.
#[derive(Debug)]
pub struct SandboxedCommand {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The file to which the sandbox reports; see [`read_status`]. Removed when this is dropped.
    pub status: TempPath,
    /// The cgroup that the program enters first; `None` where a pid namespace ends everything inside.
    pub cgroup: Option<Cgroup>,
}

impl SandboxedCommand {
    /// Returns whether a cgroup ends everything that the program starts.
    pub fn enclosure(&self) -> Enclosure<'_> {
        self.cgroup.as_ref().map_or(Enclosure::None, Enclosure::Entered)
    }

    /// Returns how the program inside ended, once everything inside is dead. An error if the program never
    /// started: then the exit code is the sandbox's own.
    pub fn how(&self, ended: &ProcessEnd) -> Result<How, Unavailable> {
        status::ending(read_status(&self.status), ended)
    }
}

/// Reason why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("{what} is not available: {}", .missing.why)]
    Missing { what: &'static str, missing: MissingFeature },
    /// The requested sandbox would not keep its guarantees.
    #[error("the sandbox cannot be built: {}: {reason}", .path.display())]
    Refused { path: PathBuf, reason: &'static str },
    #[error("the sandbox could not be prepared at {}", .path.display())]
    Scratch { path: PathBuf, source: io::Error },
    #[error(
        "the agent's program {} cannot be seen from inside the sandbox because it is in a folder that is hidden \
         from agents; move it elsewhere",
        .program.display()
    )]
    Unseen { program: PathBuf },
    #[error("the sandbox did not start: {said}")]
    NotEntered { said: String },
    #[error("process {pid} in the sandbox could not be killed")]
    Outlived { pid: i32 },
}

impl Unavailable {
    /// Returns a hint how to get the missing feature.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Unavailable::Missing { missing, .. } => Some(&missing.hint),
            Unavailable::Refused { .. }
            | Unavailable::Unseen { .. }
            | Unavailable::Scratch { .. }
            | Unavailable::NotEntered { .. }
            | Unavailable::Outlived { .. } => None,
        }
    }

    /// Returns whether bubblewrap could not mount a file or folder, for example because it was replaced just
    /// then.
    pub fn is_mount_failed(&self) -> bool {
        matches!(self, Unavailable::NotEntered { said } if said.contains("Can't bind mount"))
    }

    fn refused(path: &Path, reason: &'static str) -> Self {
        Self::Refused { path: path.to_path_buf(), reason }
    }

    fn scratch(path: &Path, source: io::Error) -> Self {
        Self::Scratch { path: path.to_path_buf(), source }
    }
}

/// Puts a check into its sandbox.
pub fn check(
    offer: &SandboxFeatures,
    fence: &CheckFence<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<SandboxedCommand, Unavailable> {
    check::wrap(offer, fence, program, args)
}

/// Puts an agent into its sandbox. With a forwarder, the program that is started is `<launcher…> <socket>
/// [--direct <host:port>]… -- <program> <args…>`.
pub fn agent(
    offer: &SandboxFeatures,
    fence: &AgentFence<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<SandboxedCommand, Unavailable> {
    agent::wrap(offer, fence, program, args)
}

/// Arguments for bubblewrap.
#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, words: [&OsStr; N]) {
        self.0.extend(words.map(OsStr::to_os_string));
    }

    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }

    /// Adds `--bind from to` and similar.
    fn mount(&mut self, how: &str, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
        self.add([OsStr::new(how), from.as_ref(), to.as_ref()]);
    }

    /// Adds `--tmpfs at` and similar.
    fn place(&mut self, how: &str, at: impl AsRef<OsStr>) {
        self.add([OsStr::new(how), at.as_ref()]);
    }

    /// Hides the content of this path.
    fn cover(&mut self, path: &Path, is_folder: bool) {
        if is_folder {
            self.place("--tmpfs", path);
            self.place("--remount-ro", path);
        } else {
            self.mount("--ro-bind", "/dev/null", path);
        }
    }

    fn program(&mut self, program: &OsStr, args: &[OsString]) {
        self.add([OsStr::new("--"), program]);
        self.0.extend_from_slice(args);
    }
}

/// Creates the file to which bubblewrap reports, as descriptor 3 (see the scripts).
fn status_in(scratch: &Path) -> Result<TempPath, Unavailable> {
    let made = tempfile::Builder::new().prefix("fence-").tempfile_in(scratch);
    Ok(made.map_err(|source| Unavailable::scratch(scratch, source))?.into_temp_path())
}

/// Creates the mount point for the script. One folder serves all runs: each mounts in its own namespace.
fn make_room(room: &Path) -> Result<(), Unavailable> {
    match std::fs::create_dir(room) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(Unavailable::scratch(room, source))
        }
        _ => Ok(()),
    }
}
