//! The fence of an agent: the machine as it is, read-only, with one place to work in.
//!
//! An agent brings its own tools, its own sandbox perhaps, and needs its keys; so what it sees is
//! everything less what it must not, where a check sees nothing but what it must.
//!
//! **Invariant:** the folders that lead to a protected path are mount points too, as far up as the agent
//! could write: none of them can be renamed and put up again with another content.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use super::{AgentFence, Arguments, HomePolicy, Network, Offer, TMP, Unavailable, Wrapped, status_in};

const ENTER: &str = include_str!("enter.sh");

/// What becomes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Writable,
    ReadOnly,
    /// The agent's own, empty, gone afterwards.
    Private,
    Hidden {
        is_folder: bool,
    },
}

/// By path, so that a folder comes before what is in it.
type Places = BTreeMap<PathBuf, Role>;

pub fn wrap(
    offer: &Offer,
    fence: &AgentFence<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<Wrapped, Unavailable> {
    let bubblewrap = offer.bubblewrap()?;
    let mut places = places(fence)?;
    let_in(&mut places, Path::new(program));
    let status = status_in(fence.scratch)?;
    let mut arguments = Arguments::default();
    arguments.add([OsStr::new("-c"), OsStr::new(ENTER), OsStr::new("sh"), status.as_os_str()]);
    arguments.add([bubblewrap.path.as_os_str()]);
    arguments.flags(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    arguments.flags(&["--unshare-cgroup", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    arguments.flags(&["--json-status-fd", "3"]);
    if fence.network == Network::Off {
        arguments.flags(&["--unshare-net"]);
    }
    arguments.flags(&["--uid", &geteuid().as_raw().to_string(), "--gid", &getegid().as_raw().to_string()]);
    arguments.flags(&["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    add_places(&mut arguments, &places);
    for (path, shown) in fence.instead {
        arguments.mount("--ro-bind", real(shown)?, real(path)?);
    }
    if let (Network::On, Some(names)) = (fence.network, offer.resolver()) {
        arguments.mount("--ro-bind", names, names);
    }
    arguments.place("--chdir", real(fence.workspace)?);
    arguments.program(program, args);
    Ok(Wrapped { program: offer.sh().into(), args: arguments.0, status })
}

fn places(fence: &AgentFence<'_>) -> Result<Places, Unavailable> {
    let mut places = Places::new();
    for own in [TMP, "/run", "/var/tmp"].map(Path::new) {
        if let Ok(own) = own.canonicalize() {
            places.insert(own, Role::Private);
        }
    }
    let (home, role) = match fence.home {
        HomePolicy::Users(home) => (home, Role::Writable),
        HomePolicy::Private(home) => (home, Role::Private),
    };
    places.insert(not_root(real(home)?)?, role);
    let workspace = not_root(real(fence.workspace)?)?;
    places.insert(workspace.clone(), Role::Writable);
    for path in fence.read_only.iter().chain(fence.instead.iter().map(|(path, _)| path)) {
        places.insert(real(path)?, Role::ReadOnly);
    }
    // A scratch holds what the fence reports: as good as hidden, wherever it is.
    for path in fence.hidden.iter().copied().chain([fence.scratch]) {
        let path = not_root(real(path)?)?;
        if path == workspace {
            return Err(Unavailable::refused(&path, "the workspace cannot be hidden from its agent"));
        }
        let is_folder = path.is_dir();
        places.insert(path, Role::Hidden { is_folder });
    }
    pin(&mut places);
    Ok(places)
}

/// The agent's own program may lie in a folder that is private behind the fence.
fn let_in(places: &mut Places, program: &Path) {
    let around = program.ancestors().skip(1).find_map(|folder| places.get(folder));
    if program.is_absolute() && program.is_file() && around == Some(&Role::Private) {
        places.entry(program.to_path_buf()).or_insert(Role::ReadOnly);
    }
}

/// A path that is not there cannot be protected: whoever makes it first has it.
fn real(path: &Path) -> Result<PathBuf, Unavailable> {
    path.canonicalize().map_err(|_| Unavailable::refused(path, "it is not there yet"))
}

fn not_root(path: PathBuf) -> Result<PathBuf, Unavailable> {
    if path == Path::new("/") {
        return Err(Unavailable::refused(&path, "it is the whole machine"));
    }
    Ok(path)
}

/// Makes a mount point of each folder that leads from something writable to something else.
fn pin(places: &mut Places) {
    let mut pinned = Vec::new();
    for path in places.keys() {
        let between: Vec<_> =
            path.ancestors().skip(1).take_while(|folder| !places.contains_key(*folder)).collect();
        let Some(around) = path.ancestors().skip(1).nth(between.len()) else { continue };
        if places.get(around) == Some(&Role::Writable) {
            pinned.extend(between.into_iter().map(Path::to_path_buf));
        }
    }
    places.extend(pinned.into_iter().map(|folder| (folder, Role::Writable)));
}

fn add_places(arguments: &mut Arguments, places: &Places) {
    let around = |path: &Path| path.ancestors().skip(1).find_map(|folder| places.get(folder));
    let mut covers = Vec::new();
    for (path, role) in places {
        match *role {
            Role::Writable => arguments.mount("--bind", path, path),
            Role::ReadOnly => arguments.mount("--ro-bind", path, path),
            Role::Private => arguments.place("--tmpfs", path),
            // What is around it is empty already.
            Role::Hidden { .. } if matches!(around(path), Some(Role::Private | Role::Hidden { .. })) => {}
            Role::Hidden { is_folder: true } => {
                arguments.place("--tmpfs", path);
                covers.push(path);
            }
            Role::Hidden { is_folder: false } => arguments.mount("--ro-bind", "/dev/null", path),
        }
    }
    // After all that had to be made in them.
    for path in covers {
        arguments.place("--remount-ro", path);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Places, Role, pin};

    #[test]
    fn every_folder_on_the_way_to_a_protected_path_is_pinned() {
        let hidden = Role::Hidden { is_folder: true };
        let mut places: Places = [
            ("/home/u", Role::Writable),
            ("/home/u/.local/state/provost", hidden),
            ("/home/u/code/app", Role::Writable),
            ("/home/u/code/app/.harness/PLAN.md", Role::ReadOnly),
            ("/srv/data/secret", hidden),
            ("/tmp", Role::Private),
            ("/tmp/a/b", Role::Writable),
        ]
        .map(|(path, role)| (path.into(), role))
        .into();
        let before = places.clone();
        pin(&mut places);
        let pinned: Vec<_> = places.keys().filter(|path| !before.contains_key(*path)).collect();
        let expected =
            ["/home/u/.local", "/home/u/.local/state", "/home/u/code", "/home/u/code/app/.harness"];
        assert_eq!(pinned, expected.map(Path::new));
    }
}
