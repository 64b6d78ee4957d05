//! A fence around one process and what it starts, with no namespace: Landlock, or a user of its own.
//!
//! A program of ours is started in place of the one that is meant; it reads its [`Orders`], gives up what
//! they say in [`enter`](super::enter()) and becomes the program. Nothing is mounted: paths are what they
//! are outside, and what is not to be reached is refused instead of absent.
//!
//! **Invariant:** what is granted is listed here or by the caller; a folder that is hidden is reached only
//! where something in it is granted by name.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{Network, Offer, Unavailable, Wrapped, status_in};

/// Programs and what they are configured with.
const SYSTEM: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix/store",
    "/gnu/store",
];
/// Devices that lead to nobody, and the memory that programs share.
pub(super) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];

/// What a process is to give up before it becomes another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// Where to report that it was done.
    pub(super) status: PathBuf,
    pub(super) by: By,
    /// Sockets of the network may be opened.
    pub(super) network: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Landlock(Rules),
    Uid(u32),
}

/// What Landlock lets through: beneath these paths, less what is hidden in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Neither read nor written, where it lies in one of the above. A path above in a hidden one is granted.
    pub hidden: Vec<PathBuf>,
    /// Not written, where it lies in one that is.
    pub frozen: Vec<PathBuf>,
}

/// How a process is confined.
#[derive(Clone, Debug)]
pub struct Confines<'a> {
    /// Starts [`enter`](super::enter()): a program and its first arguments. The orders follow, then `--`
    /// and the command.
    pub launcher: &'a [OsString],
    pub by: By,
    pub network: Network,
    /// A folder of the harness's that nothing confined reaches.
    pub scratch: &'a Path,
}

impl Rules {
    /// A check reads the system and the toolchains, and writes what it is given.
    pub fn of_check(offer: &Offer, state: &Path, network: Network, toolchains: &[PathBuf]) -> Self {
        let resolver = offer.resolver().filter(|_| network == Network::On).map(Path::to_path_buf);
        let read = SYSTEM.iter().chain(&["/proc"]).map(PathBuf::from);
        Self {
            read: read.chain(toolchains.iter().cloned()).chain(resolver).collect(),
            write: DEVICES.map(PathBuf::from).to_vec(),
            hidden: [state.to_path_buf()].into_iter().chain(offer.secrets.iter().cloned()).collect(),
            frozen: Vec::new(),
        }
    }

    /// An agent reads the machine, less what is hidden and the rooms of checks; devices as a check.
    pub fn of_agent(hidden: &[&Path], workspace: &Path) -> Result<Self, Unavailable> {
        if let Some(inside) = hidden.iter().find(|hidden| hidden.starts_with(workspace)) {
            return Err(Unavailable::refused(
                inside,
                "it is in the workspace, where Landlock cannot hide it",
            ));
        }
        let rooms = env::temp_dir().join(format!("provost-{}", geteuid().as_raw()));
        let hidden = hidden.iter().map(|hidden| hidden.to_path_buf());
        Ok(Self {
            read: vec!["/".into()],
            write: DEVICES.map(PathBuf::from).into_iter().chain([workspace.to_path_buf()]).collect(),
            hidden: hidden.chain([rooms, "/dev".into()]).collect(),
            frozen: Vec::new(),
        })
    }
}

/// Puts a program behind it. The working folder is whatever the caller starts it in.
pub fn confine(confines: &Confines<'_>, program: &OsStr, args: &[OsString]) -> Result<Wrapped, Unavailable> {
    let Some((launcher, first)) = confines.launcher.split_first() else {
        let reason = "there is no program that puts it up".to_owned();
        return Err(Unavailable::NotEntered { said: reason });
    };
    let status = status_in(confines.scratch)?;
    let network = confines.network == Network::On;
    let orders = Orders { status: status.to_path_buf(), by: confines.by.clone(), network };
    let orders = serde_json::to_string(&orders)
        .map_err(|_| Unavailable::refused(confines.scratch, "a path on the way is not UTF-8"))?;
    let words = [OsString::from(orders), "--".into(), program.to_os_string()];
    let args = first.iter().cloned().chain(words).chain(args.iter().cloned()).collect();
    Ok(Wrapped { program: launcher.clone(), args, status })
}
