//! Builds the sandbox of a check: the system's programs, a tree made by provost, and nothing else.
//!
//! It uses two nested namespaces. In the outer one a fixed script mounts a tmpfs of limited size and the
//! tree over it; in the inner one bubblewrap shows that tree in an otherwise empty file system. Each stage
//! replaces itself by `exec`, so that one process remains: the leader that provost waits for.
//!
//! **Invariant:** what is visible is listed here or in the [`CheckFence`]; everything else is absent, not
//! denied.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

use rustix::process::{getegid, geteuid};

use super::{
    Arguments, CheckFence, CheckMount, CheckTree, HOME, Network, Processes, SandboxFeatures,
    SandboxedCommand, TMP, Unavailable, What, status_in,
};

const BUILD: &str = include_str!("check.sh");
const ENTER: &str = include_str!("enter.sh");

/// Paths inside that belong to the system; a tree cannot be there.
const RESERVED: [&str; 11] =
    ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/dev", "/sys"];
/// Paths inside that are private to the check, with their names in its tmpfs. A tree may be inside them.
const PRIVATE: [(&str, &str); 4] = [("tmp", TMP), ("run", "/run"), ("shm", "/dev/shm"), ("home", HOME)];

pub(super) fn wrap(
    offer: &SandboxFeatures,
    fence: &CheckFence<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<SandboxedCommand, Unavailable> {
    let bubblewrap = offer.bubblewrap()?;
    refuse_what_would_not_hold(fence)?;
    let status = status_in(fence.scratch)?;
    let room = fence.scratch.join("room");
    let mut outer = Arguments::default();
    let leader = add_outer_stage(&mut outer, offer, fence, &room, &status)?;
    outer.add([bubblewrap.path.as_os_str()]);
    let is_guarded = is_guarded(offer, fence);
    let mut inner = namespaces(fence.network, is_guarded);
    inner.0.extend_from_slice(offer.system());
    if let (true, CheckTree::Overlay { .. }) = (is_guarded, fence.tree) {
        with_library(&mut inner, &room);
    }
    add_private_places(&mut inner, fence, &room, is_guarded);
    add_tree(&mut inner, offer, fence, &room);
    // Last: until here bubblewrap creates the mount points for the rest.
    inner.flags(&["--remount-ro", "/dev", "--remount-ro", "/", "--chdir"]);
    inner.add([fence.at.as_os_str()]);
    match is_guarded {
        false => inner.program(program, args),
        true => add_guarded(&mut inner, offer, fence.processes, program, args),
    }
    outer.0.append(&mut inner.0);
    Ok(SandboxedCommand { program: leader.into(), args: outer.0, status, cgroup: None })
}

/// Adds the outer stage, which mounts the tree and writes the status; returns the program that runs it.
fn add_outer_stage<'o>(
    outer: &mut Arguments,
    offer: &'o SandboxFeatures,
    fence: &CheckFence<'_>,
    room: &Path,
    status: &Path,
) -> Result<&'o OsStr, Unavailable> {
    match fence.tree {
        CheckTree::Overlay { lower, over, layer, deleted } => {
            let tools = offer.overlay()?;
            super::make_room(room)?;
            let mut gone = Vec::new();
            let beneath: Vec<&Path> = over.into_iter().chain([lower]).collect();
            deleted.iter().for_each(|path| find_gone(path, &beneath, layer, &mut gone));
            // provost's own program does it if it is known; otherwise the script does the same with five
            // more programs.
            let leader = match offer.launcher.split_first() {
                None => {
                    outer.flags(&["--user", "--map-root-user", "--mount", "--"]);
                    outer.add([
                        offer.sh().as_os_str(),
                        OsStr::new("-c"),
                        OsStr::new(BUILD),
                        OsStr::new("sh"),
                    ]);
                    offer.unshare()?.as_os_str()
                }
                Some((program, words)) => {
                    outer.0.extend_from_slice(words);
                    outer.flags(&[super::room::ORDER, "--"]);
                    program
                }
            };
            outer.add([room.as_os_str(), status.as_os_str(), OsStr::new(&fence.size.to_string())]);
            outer.add([lower, layer, over.unwrap_or(Path::new(""))].map(Path::as_os_str));
            if offer.launcher.is_empty() {
                outer.add([&tools.mount, &tools.mkdir, &tools.rm].map(|tool| tool.as_os_str()));
            }
            outer.flags(&[&gone.len().to_string()]);
            add_layered(outer, fence, room)?;
            outer.0.extend(gone.into_iter().map(OsString::from));
            Ok(leader)
        }
        CheckTree::Folder(_) if is_guarded(offer, fence) => {
            let (program, words) = offer
                .launcher
                .split_first()
                .map_or((OsStr::new(""), &[][..]), |(program, words)| (program.as_os_str(), words));
            outer.0.extend_from_slice(words);
            outer.flags(&[super::room::ONLY_REPORT, "--"]);
            outer.add([status.as_os_str()]);
            Ok(program)
        }
        CheckTree::Folder(_) => {
            outer.add([OsStr::new("-c"), OsStr::new(ENTER), OsStr::new("sh"), status.as_os_str()]);
            Ok(offer.sh().as_os_str())
        }
    }
}

/// Returns whether provost's own program runs last inside, to protect the check's processes from each
/// other.
fn is_guarded(offer: &SandboxFeatures, fence: &CheckFence<'_>) -> bool {
    offer.can_guard() && fence.processes != Processes::Traceable
}

/// Starts provost's own program by its descriptor, because its file is not visible inside; it starts the
/// check.
fn add_guarded(
    inner: &mut Arguments,
    offer: &SandboxFeatures,
    processes: Processes,
    program: &OsStr,
    args: &[OsString],
) {
    let mut words: Vec<OsString> = offer.launcher.iter().skip(1).cloned().collect();
    words.extend([super::inside::ORDER, "--", super::inside::STATUS, processes.word()].map(OsString::from));
    words.push(program.into());
    words.extend_from_slice(args);
    inner.program(OsStr::new(super::room::SELF), &words);
}

/// Shows the system's configuration from the tmpfs, with the library in it.
fn with_library(inner: &mut Arguments, room: &Path) {
    let is_etc = |words: &[OsString]| words == ["--ro-bind", "/etc", "/etc"];
    if let Some(at) = inner.0.windows(3).position(is_etc) {
        inner.0[at + 1] = room.join(super::room::ETC).into();
    }
}

fn namespaces(network: Network, is_guarded: bool) -> Arguments {
    let mut arguments = Arguments::default();
    arguments.flags(&["--unshare-user", "--unshare-pid", "--unshare-ipc"]);
    arguments.flags(&["--unshare-uts", "--unshare-cgroup", "--die-with-parent", "--new-session"]);
    arguments.flags(&["--cap-drop", "ALL", "--json-status-fd", "3"]);
    match is_guarded {
        // provost's program makes namespaces once more, and then nothing can. If the user is root, the
        // kernel requires this capability.
        true => arguments.flags(&["--cap-add", "CAP_SETFCAP"]),
        false => arguments.flags(&["--disable-userns"]),
    }
    if network == Network::Off {
        arguments.flags(&["--unshare-net"]);
    }
    // In the outer namespace the user is root; inside, the user has the original id again.
    arguments.flags(&["--uid", &geteuid().as_raw().to_string(), "--gid", &getegid().as_raw().to_string()]);
    arguments
}

/// Adds the folders that only the check sees and writes: all in one tmpfs, so that one limit covers them.
fn add_private_places(inner: &mut Arguments, fence: &CheckFence<'_>, room: &Path, is_guarded: bool) {
    match is_guarded {
        // The machine's own `/proc`, until the check's is mounted over it: no code of the check runs before
        // that.
        true => inner.flags(&["--bind", "/proc", "/proc"]),
        false => inner.flags(&["--proc", "/proc"]),
    }
    inner.flags(&["--dev", "/dev"]);
    for (name, at) in PRIVATE {
        match fence.tree {
            CheckTree::Overlay { .. } => inner.mount("--bind", room.join(name), at),
            CheckTree::Folder(_) => inner.flags(&["--size", &fence.size.to_string(), "--tmpfs", at]),
        }
    }
    inner.flags(&["--symlink", "../tmp", "/var/tmp"]);
}

fn add_tree(inner: &mut Arguments, offer: &SandboxFeatures, fence: &CheckFence<'_>, room: &Path) {
    if let (Network::On, Some(names)) = (fence.network, offer.resolver()) {
        inner.mount("--ro-bind", names, names);
    }
    let mut toolchains = fence.toolchains.to_vec();
    // A folder before its content, which it would cover.
    toolchains.sort_unstable();
    for toolchain in toolchains.iter().filter(|path| !path.starts_with("/usr")) {
        inner.mount("--ro-bind", toolchain, toolchain);
    }
    match fence.tree {
        CheckTree::Overlay { .. } => inner.mount("--bind", room.join("tree"), fence.at),
        CheckTree::Folder(folder) => inner.mount("--bind", folder, fence.at),
    }
    for (number, kept) in fence.keep.iter().enumerate() {
        let place = kept.inside(fence);
        match kept.what {
            What::ReadOnly(folder) => inner.mount("--ro-bind", folder, place),
            What::Writable(folder) => inner.mount("--bind", folder, place),
            What::Layered { .. } => inner.mount("--bind", room.join(format!("kept{number}")), place),
        }
    }
    for hidden in fence.hidden {
        for (outside, inside) in sights_of(hidden, fence) {
            if let Ok(found) = fs::symlink_metadata(outside) {
                inner.cover(&inside, found.is_dir());
            }
        }
    }
}

/// Returns every place in which a hidden path would be visible: the path outside, and the path inside.
fn sights_of(hidden: &Path, fence: &CheckFence<'_>) -> Vec<(PathBuf, PathBuf)> {
    let mut sights = Vec::new();
    if let Ok(within) = hidden.strip_prefix(fence.at) {
        sights.extend(trees(fence.tree).iter().map(|tree| (tree.join(within), hidden.to_path_buf())));
    }
    for kept in fence.keep {
        for within in kept.folders().into_iter().filter_map(|folder| hidden.strip_prefix(folder).ok()) {
            sights.push((hidden.to_path_buf(), kept.inside(fence).join(within)));
        }
    }
    let own = ["/usr", "/etc"].map(Path::new);
    if own.iter().chain(fence.toolchains).any(|folder| hidden.starts_with(folder)) {
        sights.push((hidden.to_path_buf(), hidden.to_path_buf()));
    }
    sights.retain(|(outside, _)| fs::symlink_metadata(outside).is_ok());
    sights.dedup_by(|a, b| a.1 == b.1);
    sights
}

fn trees(tree: CheckTree<'_>) -> Vec<&Path> {
    match tree {
        CheckTree::Overlay { lower, over, layer, .. } => {
            [Some(layer), over, Some(lower)].into_iter().flatten().collect()
        }
        CheckTree::Folder(folder) => vec![folder],
    }
}

/// Adds, for the script, the number of layered folders, and for each its number, its folder and its lower
/// names.
fn add_layered(outer: &mut Arguments, fence: &CheckFence<'_>, room: &Path) -> Result<(), Unavailable> {
    let mut layered = Arguments::default();
    for (number, kept) in fence.keep.iter().enumerate() {
        if let Some((folder, names)) = kept.laid_out(room, number)? {
            layered.add([OsStr::new(&number.to_string()), folder.as_os_str(), OsStr::new(&names)]);
        }
    }
    outer.flags(&[&(layered.0.len() / 3).to_string()]);
    outer.0.append(&mut layered.0);
    Ok(())
}

/// Finds the paths to remove from base and layer together, so that a file that was deleted and recreated
/// stays.
fn find_gone(path: &Path, beneath: &[&Path], layer: &Path, gone: &mut Vec<PathBuf>) {
    let kind = |tree: &Path| fs::symlink_metadata(tree.join(path)).map(|found| found.is_dir()).ok();
    match (kind(layer), beneath.iter().find_map(|tree| kind(tree))) {
        (None, Some(_)) => gone.push(path.to_path_buf()),
        (Some(true), Some(true)) => {
            let folders = beneath.iter().map(|tree| fs::read_dir(tree.join(path)));
            let entries = folders.flatten().flatten().flatten();
            entries.for_each(|entry| find_gone(&path.join(entry.file_name()), beneath, layer, gone));
        }
        // It was not there, or the layer covers it.
        _ => {}
    }
}

fn refuse_what_would_not_hold(fence: &CheckFence<'_>) -> Result<(), Unavailable> {
    let caches = fence.keep.iter().flat_map(CheckMount::folders);
    let trees = trees(fence.tree);
    let named = [fence.at, fence.scratch].into_iter().chain(caches).chain(trees.iter().copied());
    for path in named.chain(fence.toolchains.iter().copied()).chain(fence.hidden.iter().copied()) {
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err(Unavailable::refused(path, "it is not an absolute path"));
        }
    }
    let is_private = PRIVATE.iter().any(|(_, own)| fence.at.starts_with(own));
    for reserved in RESERVED.into_iter().chain(PRIVATE.map(|(_, own)| own)).map(Path::new) {
        let is_within = !is_private && fence.at.starts_with(reserved);
        if reserved.starts_with(fence.at) || is_within {
            return Err(Unavailable::refused(fence.at, "a tree cannot be mounted there"));
        }
    }
    for toolchain in fence.toolchains {
        let mut within = trees.iter().copied().chain([fence.at, fence.scratch]);
        if within.any(|path| path.starts_with(toolchain)) {
            return Err(Unavailable::refused(
                toolchain,
                "this toolchain contains files that a check must not reach",
            ));
        }
        if fence.hidden.iter().any(|hidden| toolchain.starts_with(hidden)) {
            return Err(Unavailable::refused(toolchain, "this toolchain is in a hidden folder"));
        }
    }
    refuse_ways_out(fence, &trees)
}

/// Refuses relative paths that leave the tree, and links in the tree that lead a mount elsewhere.
fn refuse_ways_out(fence: &CheckFence<'_>, trees: &[&Path]) -> Result<(), Unavailable> {
    let deleted = match fence.tree {
        CheckTree::Overlay { deleted, .. } => deleted,
        CheckTree::Folder(_) => &[],
    };
    for path in deleted {
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if path.as_os_str().is_empty() || !is_plain {
            return Err(Unavailable::refused(path, "it does not name something in the tree"));
        }
    }
    for kept in fence.keep {
        if !kept.is_placed_well() {
            return Err(Unavailable::refused(kept.at, "no folder can be kept there"));
        }
        if kept.is_itself() && (fence.at.starts_with(kept.at) || kept.at.starts_with(fence.at)) {
            return Err(Unavailable::refused(kept.at, "it contains the workspace, or is inside it"));
        }
        let is_layered = matches!(kept.what, What::Layered { .. });
        if is_layered && matches!(fence.tree, CheckTree::Folder(_)) {
            return Err(Unavailable::refused(kept.at, "provost merges folders only above a tree"));
        }
    }
    let caches = fence.keep.iter().filter(|kept| kept.is_in_the_tree()).map(|kept| kept.at);
    for path in deleted.iter().filter_map(|path| path.parent()).chain(caches) {
        let leads_away = |part: &Path| trees.iter().any(|tree| tree.join(part).is_symlink());
        if path.ancestors().filter(|part| *part != Path::new("")).any(leads_away) {
            return Err(Unavailable::refused(path, "a symlink in the tree leads out of this folder"));
        }
    }
    Ok(())
}
