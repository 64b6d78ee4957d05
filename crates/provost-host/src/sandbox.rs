//! The fences: what an agent may reach while it works, and what a check may reach while it judges.
//!
//! [`survey`] finds out what this machine can really do, [`check`] and [`agent`] turn a program into the
//! same program behind a fence, [`self_test`] attacks the fence from inside and says what held. The two
//! fences differ: an agent sees the system's programs, what its own program needs, its home and its
//! workspace; a check sees the system's programs and a tree that the harness put together.
//!
//! What an agent and a check may take of the machine is bounded by whoever runs them, not by the fence.
//!
//! **Invariant:** a fence that cannot be had is an error that says how to get it, never a weaker fence.
//! **Invariant:** nothing that is written inside a check reaches the base, the layer or the workspace;
//! only the folders in [`CheckFence::keep`] may remember.
//! **Invariant:** when the program inside ends, everything it started has ended: the fence's first
//! process takes the process namespace with it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::process::{Ended, How};

mod agent;
mod attest;
mod calls;
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
mod uid;
mod untraced;

pub use attest::{Attestation, Probe, Vantage, attested, probes, self_test};
pub use confine::{By, Confines, Rules, confine};
pub use enter::enter;
pub use kept::{CACHES, Kept, UPPER, What, Writes};
pub use needs::{CommandLine, NO_NEEDS, Needs, find_program};
pub use offer::{Bubblewrap, Line, Missing, Offer, OverlayTools, State};
pub use probe::survey;
pub use status::{HomeSeen, Status, read_status, signal_behind};
pub use uid::unused_uid;

/// Where `HOME` is inside a check: private, empty, and the same for each, so that caches keep their names.
pub const HOME: &str = "/home/check";
/// Where `TMPDIR` is inside every fence.
pub const TMP: &str = "/tmp";
/// What a check may write when nobody says otherwise: 2 GiB.
pub const USUAL_SIZE: u64 = 2 * 1024 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The machine's own: its loopback and its abstract sockets too.
    On,
    Off,
}

/// What the processes of a check see and reach of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// No process traces another, writes to it, or reads its memory, variables and open files.
    #[default]
    Guarded,
    /// Nor does it see that there are others, and what they were started with.
    Unseen,
    /// As outside: a debugger works, and the program under test can steer what judges it.
    Traceable,
}

/// The tree a check runs in.
#[derive(Clone, Copy, Debug)]
pub enum CheckTree<'a> {
    /// Put together for this one check, at a cost that does not grow with the tree.
    Overlay {
        /// The kept base. Nobody may change it while the check runs.
        lower: &'a Path,
        /// What steps before changed; it covers the base, file by file.
        over: Option<&'a Path>,
        /// Only what was taken over from the agent; it covers both.
        layer: &'a Path,
        /// What is to vanish from the base, relative to it.
        deleted: &'a [PathBuf],
    },
    /// Put together beforehand, and written in place.
    Folder(&'a Path),
}

/// How a check is fenced at level `clean`.
#[derive(Clone, Copy, Debug)]
pub struct CheckFence<'a> {
    pub tree: CheckTree<'a>,
    /// Where the tree appears inside: the workspace's own path, so that absolute paths still fit.
    pub at: &'a Path,
    /// Bytes the check may write, to tree, home and temporary folders together. (With a
    /// [`CheckTree::Folder`], to each of the latter, and the tree has no bound.)
    pub size: u64,
    pub network: Network,
    /// Holds where [`Offer::launcher`] is known; without it they are traceable.
    pub processes: Processes,
    /// Programs that live outside the system's folders; to be seen at their own places, read-only.
    pub toolchains: &'a [&'a Path],
    /// What was provisioned, and build caches.
    pub keep: &'a [Kept<'a>],
    /// The state folder, sockets: covered wherever something else would let them be seen.
    pub hidden: &'a [&'a Path],
    /// A folder of the harness's that nothing inside any fence reaches, best in memory. It gets an empty
    /// folder `room` that stays, and for each run a file `fence-*` that goes with its [`Wrapped`].
    pub scratch: &'a Path,
}

impl CheckFence<'_> {
    /// Whether this folder may be shown: it is not hidden, and holds nothing that a check must not reach.
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

/// Whose home an agent has.
#[derive(Clone, Copy, Debug)]
pub enum HomePolicy<'a> {
    /// The user's own, to read and write: agents keep their configuration and keys there.
    Users(&'a Path),
    /// Empty, at the same place, gone afterwards.
    Private(&'a Path),
    /// The user's own to be read, at the same place; what is written goes into a layer over it. Where this
    /// machine has no overlays it cannot be written at all.
    Layered {
        home: &'a Path,
        /// A folder that keeps the layer, with `upper` and `work` in it. Nobody else may use it meanwhile.
        kept: &'a Path,
    },
}

/// What of the network an agent reaches.
#[derive(Clone, Copy, Debug)]
pub enum Outlet<'a> {
    /// The machine's own: its loopback and its abstract sockets too.
    On,
    Off,
    /// A network of its own, and a portal to whoever listens outside.
    Portal(Portal<'a>),
}

#[derive(Clone, Copy, Debug)]
pub struct Portal<'a> {
    /// Starts the portal: a program, and its first arguments. What follows is said in [`agent`].
    pub launcher: &'a [OsString],
    /// Outside: where the socket lies, and nothing else.
    pub folder: &'a Path,
    /// Addresses of the machine's loopback that the portal stands for.
    pub direct: &'a [String],
}

/// Where the portal finds its socket.
const PORTAL: &str = "/run/provost";

/// How an agent is fenced: the system's folders and what its program needs to be read, its workspace
/// writable, `/tmp` and `/run` its own. Nothing else of the machine is there.
///
/// A file in `read_only` becomes a mount point: it cannot be written, renamed, replaced or removed from
/// inside, and neither can the folders that lead to it. Not covered: what does not exist yet when the
/// fence goes up (refused, so that nobody relies on it), a symlink that leads to a covered file (the
/// file is covered, the link can be replaced), and a second hard link to it.
#[derive(Clone, Copy, Debug)]
pub struct AgentFence<'a> {
    pub workspace: &'a Path,
    /// To be written too, beside workspace and home.
    pub writable: &'a [&'a Path],
    pub read_only: &'a [&'a Path],
    /// Files that show something else inside: the path, and the file that is seen there, read-only.
    pub veiled: &'a [(&'a Path, &'a Path)],
    pub hidden: &'a [&'a Path],
    /// Places, and what is seen there instead, to read and write.
    pub instead: &'a [(&'a Path, &'a Path)],
    pub network: Outlet<'a>,
    pub home: HomePolicy<'a>,
    /// What its program needs of the machine besides.
    pub needs: &'a Needs,
    /// As in [`CheckFence::scratch`].
    pub scratch: &'a Path,
}

/// A program behind its fence, for [`process::run`](crate::process::run). The environment goes through
/// as it is given there; the working folder inside is the tree or the workspace.
///
/// A request to end (`SIGTERM`) ends the fence itself, and with it everything inside at once: there is
/// no grace inside.
#[derive(Debug)]
pub struct Wrapped {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Where the fence reports; see [`read_status`]. Removed with this.
    pub status: TempPath,
}

impl Wrapped {
    /// How the program inside ended, told once everything inside is dead. An error when it never was:
    /// then the code that came out is the fence's own.
    pub fn how(&self, ended: &Ended) -> Result<How, Unavailable> {
        status::ending(read_status(&self.status), ended)
    }
}

/// Why there is no fence.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("{what} is not available: {}", .missing.why)]
    Missing { what: &'static str, missing: Missing },
    /// The fence as asked for would not hold what it promises.
    #[error("the fence cannot be built: {}: {reason}", .path.display())]
    Refused { path: PathBuf, reason: &'static str },
    #[error("the fence could not be prepared at {}", .path.display())]
    Scratch { path: PathBuf, source: io::Error },
    #[error(
        "the agent's program {} cannot be seen from inside the sandbox because it is in a folder that is hidden \
         from agents; move it elsewhere",
        .program.display()
    )]
    Unseen { program: PathBuf },
    #[error("the fence did not start: {said}")]
    NotEntered { said: String },
    #[error("something in the fence could not be ended (process {pid})")]
    Outlived { pid: i32 },
}

impl Unavailable {
    /// How to get what is missing.
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

    fn refused(path: &Path, reason: &'static str) -> Self {
        Self::Refused { path: path.to_path_buf(), reason }
    }

    fn scratch(path: &Path, source: io::Error) -> Self {
        Self::Scratch { path: path.to_path_buf(), source }
    }
}

/// Puts a check behind its fence.
pub fn check(
    offer: &Offer,
    fence: &CheckFence<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<Wrapped, Unavailable> {
    check::wrap(offer, fence, program, args)
}

/// Puts an agent behind its fence. With a portal the program that is started is
/// `<launcher…> <socket> [--direct <host:port>]… -- <program> <args…>`.
pub fn agent(
    offer: &Offer,
    fence: &AgentFence<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<Wrapped, Unavailable> {
    agent::wrap(offer, fence, program, args)
}

/// The arguments of a bubblewrap.
#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, words: [&OsStr; N]) {
        self.0.extend(words.map(OsStr::to_os_string));
    }

    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }

    /// `--bind from to` and its kin.
    fn mount(&mut self, how: &str, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
        self.add([OsStr::new(how), from.as_ref(), to.as_ref()]);
    }

    /// `--tmpfs at` and its kin.
    fn place(&mut self, how: &str, at: impl AsRef<OsStr>) {
        self.add([OsStr::new(how), at.as_ref()]);
    }

    /// Lets nothing be seen of what is at this path.
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

/// The file that bubblewrap reports into, as descriptor 3 (see the scripts).
fn status_in(scratch: &Path) -> Result<TempPath, Unavailable> {
    let made = tempfile::Builder::new().prefix("fence-").tempfile_in(scratch);
    Ok(made.map_err(|source| Unavailable::scratch(scratch, source))?.into_temp_path())
}

/// Where the script mounts its room, each in a namespace of its own: one place does for all.
fn make_room(room: &Path) -> Result<(), Unavailable> {
    match std::fs::create_dir(room) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(Unavailable::scratch(room, source))
        }
        _ => Ok(()),
    }
}
