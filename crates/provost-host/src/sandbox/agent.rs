//! The fence of an agent: the machine as it is, read-only, with one place to work in.
//!
//! An agent brings its own tools, its own sandbox perhaps, and needs its keys; so what it sees is
//! everything less what it must not, where a check sees nothing but what it must.
//!
//! **Invariant:** the folders that lead to a protected path are mount points too, as far up as the agent
//! could write: none of them can be renamed and put up again with another content.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use super::{
    AgentFence, Arguments, HomePolicy, Offer, Outlet, PORTAL, Portal, TMP, Unavailable, Wrapped, status_in,
};
use crate::proxy;

const ENTER: &str = include_str!("enter.sh");
const HOME: &str = include_str!("home.sh");
/// A layer that is not kept lies in memory: 2 GiB.
const FORGOTTEN_SIZE: u64 = 2 * 1024 * 1024 * 1024;

/// What becomes of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Writable,
    ReadOnly,
    /// In the user's home with a layer over it.
    Layered,
    /// Something else is seen there.
    Instead(PathBuf),
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
    let mut places = places(offer, fence)?;
    let_in(&mut places, Path::new(program));
    if let Outlet::Portal(portal) = &fence.network {
        let_in(&mut places, Path::new(portal.launcher.first().map_or(OsStr::new(""), OsString::as_os_str)));
    }
    let status = status_in(fence.scratch)?;
    let room = fence.scratch.join("room");
    let (leader, mut arguments) = match fence.home {
        HomePolicy::Layered { home, kept } if offer.overlay.is_ok() => {
            clear(&real(kept)?.join("upper"), &real(home)?, &places);
            (offer.unshare()?, layered(offer, [&room, &status, home, kept])?)
        }
        HomePolicy::Layered { .. } | HomePolicy::Users(_) | HomePolicy::Private(_) => {
            let mut arguments = Arguments::default();
            arguments.add([OsStr::new("-c"), OsStr::new(ENTER), OsStr::new("sh"), status.as_os_str()]);
            (offer.sh(), arguments)
        }
    };
    arguments.add([bubblewrap.path.as_os_str()]);
    arguments.flags(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    arguments.flags(&["--unshare-cgroup", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    arguments.flags(&["--json-status-fd", "3"]);
    if !matches!(fence.network, Outlet::On) {
        arguments.flags(&["--unshare-net"]);
    }
    arguments.flags(&["--uid", &geteuid().as_raw().to_string(), "--gid", &getegid().as_raw().to_string()]);
    arguments.flags(&["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    add_places(&mut arguments, &places, &room);
    for (path, shown) in fence.veiled {
        arguments.mount("--ro-bind", real(shown)?, real(path)?);
    }
    if let (Outlet::On, Some(names)) = (fence.network, offer.resolver()) {
        arguments.mount("--ro-bind", names, names);
    }
    arguments.place("--chdir", real(fence.workspace)?);
    match &fence.network {
        Outlet::On | Outlet::Off => arguments.program(program, args),
        Outlet::Portal(portal) => add_portal(&mut arguments, portal, program, args)?,
    }
    Ok(Wrapped { program: leader.into(), args: arguments.0, status })
}

/// As far as bubblewrap: a namespace in which the home with its layer is mounted.
fn layered(offer: &Offer, [room, status, home, kept]: [&Path; 4]) -> Result<Arguments, Unavailable> {
    let tools = offer.overlay()?;
    super::make_room(room)?;
    let mut arguments = Arguments::default();
    arguments.flags(&["--user", "--map-root-user", "--mount", "--"]);
    arguments.add([offer.sh().as_os_str(), OsStr::new("-c"), OsStr::new(HOME), OsStr::new("sh")]);
    arguments
        .add([room, status, &real(home)?, &real(kept)?, &tools.mount, &tools.mkdir].map(Path::as_os_str));
    arguments.flags(&[&FORGOTTEN_SIZE.to_string()]);
    Ok(arguments)
}

fn add_portal(
    arguments: &mut Arguments,
    portal: &Portal<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<(), Unavailable> {
    let [launcher, first @ ..] = portal.launcher else {
        return Err(Unavailable::refused(portal.folder, "nothing starts the portal"));
    };
    arguments.mount("--ro-bind", real(portal.folder)?, PORTAL);
    let mut words = first.to_vec();
    words.push(Path::new(PORTAL).join(proxy::SOCKET).into());
    for address in portal.direct {
        words.extend(["--direct".into(), address.into()]);
    }
    words.extend(["--".into(), program.into()]);
    words.extend_from_slice(args);
    arguments.program(launcher, &words);
    Ok(())
}

fn places(offer: &Offer, fence: &AgentFence<'_>) -> Result<Places, Unavailable> {
    let mut places = Places::new();
    for own in [TMP, "/run", "/var/tmp"].map(Path::new) {
        if let Ok(own) = own.canonicalize() {
            places.insert(own, Role::Private);
        }
    }
    let (home, role) = match fence.home {
        HomePolicy::Users(home) => (home, Role::Writable),
        HomePolicy::Private(home) => (home, Role::Private),
        HomePolicy::Layered { home, .. } if offer.overlay.is_ok() => (home, Role::Layered),
        HomePolicy::Layered { home, .. } => (home, Role::ReadOnly),
    };
    let home = not_root(real(home)?)?;
    if role == Role::Layered {
        // An overlay has one file system beneath it, and none that is mounted in it.
        places.extend(mounted_in(&home).into_iter().map(|place| (place, Role::ReadOnly)));
    }
    places.insert(home, role);
    let workspace = not_root(real(fence.workspace)?)?;
    places.insert(workspace.clone(), Role::Writable);
    for path in fence.writable {
        places.insert(not_root(real(path)?)?, Role::Writable);
    }
    for path in fence.read_only.iter().chain(fence.veiled.iter().map(|(path, _)| path)) {
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
    for (place, source) in fence.instead {
        // In a folder that is private it is made; anywhere else it must be there.
        let is_private = place.ancestors().skip(1).any(|folder| places.get(folder) == Some(&Role::Private));
        let place = if is_private { place.to_path_buf() } else { real(place)? };
        places.insert(place, Role::Instead(real(source)?));
    }
    pin(&mut places);
    Ok(places)
}

/// Whatever an agent has put into its layer where something is to be mounted: a link there would lead the
/// mount out of the fence. What is not a folder is taken away, and the user's own is seen again.
fn clear(upper: &Path, home: &Path, places: &Places) {
    for within in places.keys().filter_map(|path| path.strip_prefix(home).ok()) {
        let is_file = home.join(within).is_file();
        let mut at = upper.to_path_buf();
        for part in within {
            at.push(part);
            match std::fs::symlink_metadata(&at) {
                Ok(found) if found.is_dir() => {}
                Ok(found) if found.is_file() && is_file && at.ends_with(within) => {}
                Ok(_) => {
                    let _ = std::fs::remove_file(&at);
                    break;
                }
                Err(_) => break,
            }
        }
    }
}

/// Where something is mounted beneath this folder, as far as it can be seen.
fn mounted_in(folder: &Path) -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped);
    places.filter(|place| place != folder && place.starts_with(folder) && place.is_dir()).collect()
}

/// Blanks, tabs, newlines and backslashes stand there as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        let octal =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
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
        if let Some(role @ (Role::Writable | Role::Layered)) = places.get(around) {
            pinned.extend(between.into_iter().map(|folder| (folder.to_path_buf(), role.clone())));
        }
    }
    places.extend(pinned);
}

/// `room` is where a home with its layer is mounted.
fn add_places(arguments: &mut Arguments, places: &Places, room: &Path) {
    let layered = room.join("home");
    let home = places.iter().find(|(_, role)| **role == Role::Layered).map(|(home, _)| home.as_path());
    let around = |path: &Path| path.ancestors().skip(1).find_map(|folder| places.get(folder));
    let mut covers = Vec::new();
    for (path, role) in places {
        match role {
            Role::Layered => {
                let within = home.and_then(|home| path.strip_prefix(home).ok()).unwrap_or(Path::new(""));
                // In a home that had to stay empty there is nothing to pin.
                let how = if within.as_os_str().is_empty() { "--bind" } else { "--bind-try" };
                arguments.mount(how, layered.join(within), path);
            }
            Role::Instead(source) => arguments.mount("--bind", source, path),
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
            ("/home/u/.local/state/provost", hidden.clone()),
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
