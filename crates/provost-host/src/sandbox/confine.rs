//! Confines one process and its descendants without namespaces, by Landlock.
//!
//! provost's own program is started in place of the intended one. It reads its [`ConfineOrders`], gives up the
//! rights they name in [`enter`](super::enter()) and executes the program. Nothing is mounted: paths are
//! the same as outside, and access to everything else is denied; the files are not absent.
//!
//! **Invariant:** what is granted is listed here or by the caller; in a hidden folder, only paths that are
//! granted by name are accessible.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::process::Cgroup;

use super::{Network, SandboxFeatures, SandboxedCommand, Unavailable, status_in};

/// Programs and their configuration.
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
/// Harmless devices, and shared memory.
pub(super) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];

/// The rights that a process gives up before it executes another program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ConfineOrders {
    /// The file to which it reports that this is done.
    pub(super) status: PathBuf,
    /// The cgroup it enters.
    pub(super) cgroup: Option<PathBuf>,
    pub(super) rules: Rules,
    /// True if network sockets may be opened.
    pub(super) network: bool,
}

/// Paths that Landlock allows, with everything below them except what is hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Neither readable nor writable, if it is inside one of the paths above. A path above inside a hidden
    /// one is granted.
    pub hidden: Vec<PathBuf>,
    /// Not writable, if it is inside a writable path.
    pub frozen: Vec<PathBuf>,
}

/// Configuration of a confined process.
#[derive(Clone, Debug)]
pub struct Confines<'a> {
    /// Starts [`enter`](super::enter()): a program and its first arguments. The orders follow, then `--`
    /// and the command.
    pub launcher: &'a [OsString],
    pub rules: Rules,
    pub network: Network,
    /// A folder of provost that no confined process can access.
    pub scratch: &'a Path,
}

impl Rules {
    /// Returns the rules of a check: it reads the system and the toolchains, and writes what the caller
    /// adds.
    pub fn of_check(offer: &SandboxFeatures, state: &Path, network: Network, toolchains: &[PathBuf]) -> Self {
        let resolver = offer.resolver().filter(|_| network == Network::On).map(Path::to_path_buf);
        let read = SYSTEM.iter().chain(&["/proc"]).map(PathBuf::from);
        Self {
            read: read.chain(toolchains.iter().cloned()).chain(resolver).collect(),
            write: DEVICES.map(PathBuf::from).to_vec(),
            hidden: [state.to_path_buf()].into_iter().chain(offer.secrets.iter().cloned()).collect(),
            frozen: Vec::new(),
        }
    }

    /// Returns the rules of an agent: it reads the machine except hidden paths and checks' folders; devices
    /// as for a check.
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

/// Confines a program. Its working folder is the one that the caller starts it in.
pub fn confine(
    confines: &Confines<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<SandboxedCommand, Unavailable> {
    let Some((launcher, first)) = confines.launcher.split_first() else {
        let reason = "no program is configured that starts it".to_owned();
        return Err(Unavailable::NotEntered { said: reason });
    };
    let status = status_in(confines.scratch)?;
    let network = confines.network == Network::On;
    let cgroup = Cgroup::make();
    let orders = ConfineOrders {
        status: status.to_path_buf(),
        cgroup: cgroup.as_ref().map(|cgroup| cgroup.path().to_path_buf()),
        rules: confines.rules.clone(),
        network,
    };
    let orders = serde_json::to_string(&orders)
        .map_err(|_| Unavailable::refused(confines.scratch, "a path on the way is not UTF-8"))?;
    let words = [OsString::from(orders), "--".into(), program.to_os_string()];
    let args = first.iter().cloned().chain(words).chain(args.iter().cloned()).collect();
    Ok(SandboxedCommand { program: launcher.clone(), args, status, cgroup })
}
