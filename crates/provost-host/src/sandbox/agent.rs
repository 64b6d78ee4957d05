//! Builds the sandbox of an agent: the system's folders, what its program needs, its home and its
//! workspace.
//!
//! The rest of the machine is absent. Folders other than the system's, home and workspace are sealed: the
//! agent sees them through a separate overlay, in which sockets and named pipes do not work.
//!
//! **Invariant:** the folders that lead to a protected path are mount points too, as far up as the agent
//! could write: none of them can be renamed and recreated with other content.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{Metadata, Permissions};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use super::{
    AgentFence, AgentPaths, Arguments, ForwarderMount, HomePolicy, Outlet, PORTAL, SandboxFeatures,
    SandboxedCommand, TMP, Unavailable, status_in,
};
use crate::egress::proxy;

const ENTER: &str = include_str!("enter.sh");
const HOME: &str = include_str!("home.sh");
/// Size limit of a layer that is not kept and lies in memory: 2 GiB.
const FORGOTTEN_SIZE: u64 = 2 * 1024 * 1024 * 1024;

/// Folders of programs installed for all users; readable if they exist.
const INSTALLED: [&str; 3] = ["/opt", "/snap", "/nix/var/nix/profiles"];
/// Information about the system and its packages. No process listens on a socket there.
const ABOUT: [&str; 9] = [
    "/sys",
    "/var/lib/alternatives",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/flatpak",
    "/var/lib/gems",
    "/var/lib/pacman",
    "/var/lib/rpm",
    "/var/lib/snapd/snap",
];
/// Folders that every sandbox shows; see [`SandboxFeatures::system`].
const SYSTEM: [&str; 10] =
    ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// The way a path appears in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Writable,
    ReadOnly,
    /// Readable, and sockets and pipes in it lead nowhere.
    Sealed,
    /// In the user's home, with a layer over it.
    Layered,
    /// Another path is shown there.
    Instead(PathBuf),
    /// The agent's own: empty, removed afterwards.
    Private,
    Hidden {
        is_folder: bool,
    },
}

/// Ordered by path, so that a folder comes before its content.
type Places = BTreeMap<PathBuf, Role>;

pub(super) fn wrap(
    offer: &SandboxFeatures,
    fence: &AgentFence<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<SandboxedCommand, Unavailable> {
    let bubblewrap = offer.bubblewrap()?;
    let mut places = places(offer, fence)?;
    let_in(&mut places, Path::new(program))?;
    let portal = if let Outlet::Portal(portal) = &fence.network { portal.launcher } else { &[] };
    // provost's own program also serves the agent's tools.
    for launcher in portal.first().into_iter().chain(offer.launcher.first()) {
        let_in(&mut places, Path::new(launcher))?;
    }
    pin(&mut places);
    let status = status_in(fence.scratch)?;
    let room = fence.scratch.join("room");
    let (leader, mut arguments) = match fence.home {
        HomePolicy::Layered { home, kept } if offer.overlay.is_ok() => {
            mend(&real(kept)?.join("upper"), &real(home)?, &places);
            (offer.unshare()?, layered(offer, [&room, &status, home, kept], &sealed(&places))?)
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
    arguments.0.extend_from_slice(offer.system());
    arguments.flags(&["--dev", "/dev", "--proc", "/proc"]);
    let links = links(fence, &places);
    add_links(&mut arguments, &places, &links, Before::Places);
    add_places(&mut arguments, &places, &room);
    add_links(&mut arguments, &places, &links, Before::Nothing);
    for (path, shown) in fence.veiled {
        arguments.mount("--ro-bind", real(shown)?, real(path)?);
    }
    if let (Outlet::On, Some(names)) = (fence.network, offer.resolver()) {
        arguments.mount("--ro-bind", names, names);
    }
    if let Outlet::Portal(portal) = &fence.network {
        arguments.mount("--ro-bind", real(portal.folder)?, PORTAL);
    }
    // Last: until here bubblewrap creates the mount points for the rest.
    arguments.flags(&["--remount-ro", "/"]);
    arguments.place("--chdir", real(fence.workspace)?);
    match &fence.network {
        Outlet::On | Outlet::Off => arguments.program(program, args),
        Outlet::Portal(portal) => add_portal(&mut arguments, portal, program, args)?,
    }
    Ok(SandboxedCommand { program: leader.into(), args: arguments.0, status, cgroup: None })
}

/// Builds the arguments up to bubblewrap: a namespace in which the home with its layer is mounted.
fn layered(
    offer: &SandboxFeatures,
    [room, status, home, kept]: [&Path; 4],
    sealed: &[&Path],
) -> Result<Arguments, Unavailable> {
    let tools = offer.overlay()?;
    super::make_room(room)?;
    let mut arguments = Arguments::default();
    arguments.flags(&["--user", "--map-root-user", "--mount", "--"]);
    arguments.add([offer.sh().as_os_str(), OsStr::new("-c"), OsStr::new(HOME), OsStr::new("sh")]);
    arguments
        .add([room, status, &real(home)?, &real(kept)?, &tools.mount, &tools.mkdir].map(Path::as_os_str));
    arguments.flags(&[&FORGOTTEN_SIZE.to_string(), &sealed.len().to_string()]);
    arguments.0.extend(sealed.iter().map(OsString::from));
    Ok(arguments)
}

fn add_portal(
    arguments: &mut Arguments,
    portal: &ForwarderMount<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<(), Unavailable> {
    let [launcher, first @ ..] = portal.launcher else {
        return Err(Unavailable::refused(
            portal.folder,
            "no program is configured that starts the forwarder",
        ));
    };
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

fn places(offer: &SandboxFeatures, fence: &AgentFence<'_>) -> Result<Places, Unavailable> {
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
        // An overlay covers one file system, without the file systems mounted inside it.
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
    // The scratch folder contains the sandbox's reports: it is hidden wherever it is.
    for path in fence.hidden.iter().copied().chain([fence.scratch]) {
        let path = not_root(real(path)?)?;
        if path == workspace {
            return Err(Unavailable::refused(&path, "the workspace cannot be hidden from its agent"));
        }
        let is_folder = path.is_dir();
        places.insert(path, Role::Hidden { is_folder });
    }
    for (place, source) in fence.instead {
        // In a private folder bubblewrap creates it; anywhere else it must exist.
        let is_private = place.ancestors().skip(1).any(|folder| places.get(folder) == Some(&Role::Private));
        let place = if is_private { place.to_path_buf() } else { real(place)? };
        places.insert(place, Role::Instead(real(source)?));
    }
    add_needs(&mut places, fence.needs, offer.overlay.is_ok() && is_layered(fence.home));
    Ok(places)
}

fn is_layered(home: HomePolicy<'_>) -> bool {
    matches!(home, HomePolicy::Layered { .. })
}

/// Adds what the program needs in addition to the places so far. A folder comes before its content.
fn add_needs(places: &mut Places, needs: &AgentPaths, can_seal: bool) {
    for own in &needs.temporary {
        // In the workspace and in the home the folder stays as it is.
        if matches!(around(places, own), None | Some((_, Role::Private | Role::ReadOnly))) {
            places.entry(own.clone()).or_insert(Role::Private);
        }
    }
    let installed = INSTALLED.iter().map(Path::new).filter(|path| path.is_dir() && !path.is_symlink());
    for path in installed.map(Path::to_path_buf).chain(needs.read.iter().cloned()) {
        if is_seen(places, &path) || places.contains_key(&path) || is_hidden(places, &path) {
            continue;
        }
        let role = if can_seal && path.is_dir() { Role::Sealed } else { Role::ReadOnly };
        // An overlay does not show file systems mounted inside the folder below it.
        let inner = if role == Role::Sealed { mounted_in(&path) } else { Vec::new() };
        for place in inner {
            places.entry(place).or_insert(Role::ReadOnly);
        }
        places.insert(path, role);
    }
    for path in ABOUT.iter().map(Path::new).filter(|path| path.is_dir()) {
        places.entry(path.to_path_buf()).or_insert(Role::ReadOnly);
    }
    for program in &needs.program {
        // Every attempt gets the same program, whatever an earlier one wrote to the layer.
        if matches!(around(places, program), Some((_, Role::Layered))) {
            places.entry(program.clone()).or_insert(Role::ReadOnly);
        }
    }
}

/// Returns the nearest place that contains the path, not the path itself.
fn around<'a>(places: &'a Places, path: &Path) -> Option<(&'a Path, &'a Role)> {
    path.ancestors()
        .skip(1)
        .find_map(|folder| places.get_key_value(folder))
        .map(|(at, role)| (at.as_path(), role))
}

/// Returns whether a place that contains the path makes it visible.
fn is_seen(places: &Places, path: &Path) -> bool {
    match around(places, path) {
        None => is_system(path),
        Some((_, Role::Private | Role::Hidden { .. })) => false,
        Some((_, Role::Writable | Role::ReadOnly | Role::Sealed | Role::Layered | Role::Instead(_))) => true,
    }
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

fn is_hidden(places: &Places, path: &Path) -> bool {
    matches!(around(places, path), Some((_, Role::Hidden { .. })))
}

fn sealed(places: &Places) -> Vec<&Path> {
    places.iter().filter(|(_, role)| **role == Role::Sealed).map(|(path, _)| path.as_path()).collect()
}

/// Returns the symbolic links that lead to visible paths, and those at the top of the file system.
fn links(fence: &AgentFence<'_>, places: &Places) -> BTreeMap<PathBuf, PathBuf> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten().map(|entry| entry.path());
    let top = entries.chain(["/var/run", "/var/lock", "/var/mail"].map(PathBuf::from));
    let top = top.filter_map(|link| std::fs::read_link(&link).ok().map(|target| (link, target)));
    let mut links: BTreeMap<PathBuf, PathBuf> = fence.needs.links.iter().cloned().chain(top).collect();
    links.retain(|link, _| !is_seen(places, link) && !places.contains_key(link) && !is_system(link));
    links
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Places,
    Nothing,
}

/// Adds links. Links in a private folder come after that folder; all others come before any place is
/// mounted.
fn add_links(arguments: &mut Arguments, places: &Places, links: &BTreeMap<PathBuf, PathBuf>, before: Before) {
    for (link, target) in links {
        let is_private = matches!(around(places, link), Some((_, Role::Private)));
        if is_private == (before == Before::Nothing) && !is_hidden(places, link) {
            arguments.mount("--symlink", target, link);
        }
    }
}

/// Repairs the agent's layer at the paths that will be mount points. A link there would lead the mount out
/// of the sandbox, and a file or a deletion would block the path: everything that is not a folder is
/// removed, so that the user's own file shows again. Folders on the path are made accessible again.
fn mend(upper: &Path, home: &Path, places: &Places) {
    let open = |folder: &Path, found: &Metadata| {
        if found.mode() & 0o700 != 0o700 {
            let _ = std::fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o7777 | 0o700));
        }
    };
    if let Ok(found) = std::fs::symlink_metadata(upper) {
        open(upper, &found);
    }
    for within in places.keys().filter_map(|path| path.strip_prefix(home).ok()) {
        let is_file = home.join(within).is_file();
        let mut at = upper.to_path_buf();
        for part in within {
            at.push(part);
            match std::fs::symlink_metadata(&at) {
                Ok(found) if found.is_dir() && is_file && at.ends_with(within) => {
                    crate::files::folder::remove(&at);
                    break;
                }
                Ok(found) if found.is_dir() => open(&at, &found),
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

/// Returns the visible mount points below this folder.
fn mounted_in(folder: &Path) -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped);
    places.filter(|place| place != folder && place.starts_with(folder) && place.is_dir()).collect()
}

/// Decodes a path: spaces, tabs, newlines and backslashes are written as three octal digits.
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

/// Makes a program visible, wherever it is, unless it is in a folder that is hidden from agents.
fn let_in(places: &mut Places, program: &Path) -> Result<(), Unavailable> {
    if !program.is_absolute() || !program.is_file() {
        return Ok(());
    }
    if is_hidden(places, program) {
        return Err(Unavailable::Unseen { program: program.to_path_buf() });
    }
    if !is_seen(places, program) {
        places.entry(program.to_path_buf()).or_insert(Role::ReadOnly);
    }
    Ok(())
}

/// Resolves a path. A path that does not exist cannot be protected, because the agent could create it.
fn real(path: &Path) -> Result<PathBuf, Unavailable> {
    path.canonicalize().map_err(|_| Unavailable::refused(path, "it does not exist yet"))
}

fn not_root(path: PathBuf) -> Result<PathBuf, Unavailable> {
    if path == Path::new("/") {
        return Err(Unavailable::refused(&path, "it is the whole machine"));
    }
    Ok(path)
}

/// Makes a mount point of each folder between a writable place and another place inside it.
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

/// Adds the mounts. `room` is the folder in which a home with its layer is mounted.
fn add_places(arguments: &mut Arguments, places: &Places, room: &Path) {
    let layered = room.join("home");
    let home = places.iter().find(|(_, role)| **role == Role::Layered).map(|(home, _)| home.as_path());
    let is_layered = home.is_some();
    let sealed = sealed(places);
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
            Role::Sealed => match sealed.iter().position(|sealed| sealed == path) {
                Some(number) if is_layered => {
                    arguments.mount("--ro-bind", room.join(format!("sealed{number}")), path);
                }
                _ => arguments.mount("--ro-bind", path, path),
            },
            Role::Private => arguments.place("--tmpfs", path),
            // The place that contains it is empty anyway.
            Role::Hidden { .. } if !is_seen(places, path) => {}
            Role::Hidden { is_folder: true } => {
                arguments.place("--tmpfs", path);
                covers.push(path);
            }
            Role::Hidden { is_folder: false } => arguments.mount("--ro-bind", "/dev/null", path),
        }
    }
    // After everything that had to be created in them.
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
