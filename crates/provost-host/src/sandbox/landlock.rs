//! Landlock: limits which files a process and its children may open, which processes they may signal, and
//! where they may connect.
//!
//! Landlock is a list of allowed paths, and a rule covers everything below its path: nothing can be
//! excluded from a folder. So if a folder contains something hidden, the entries beside it are granted one
//! by one. Then the folder itself cannot be listed, and files created in it later are not granted.
//!
//! The kernel does not cover the existence and the attributes of files (`stat`, `chmod`, `utimes`), nor a
//! second hard link to a hidden file. It does not cover sockets with a name in the file system either, so
//! [`calls`](super::calls) forbids them.
//!
//! **Invariant:** all rules are enforced, or nothing is started.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{Dir, FileType, Mode, OFlags};

use super::MissingFeature;
use super::confine::Rules;

/// The first version with everything needed: files, devices, TCP, signals and abstract sockets (Linux
/// 6.12).
const NEEDED: ABI = ABI::V6;

/// An open file or folder, and the access granted on it.
pub(super) struct AccessGrant {
    on: OwnedFd,
    access: BitFlags<AccessFs>,
}

/// Opens everything that is granted, without following links that could lead to something hidden.
pub(super) fn open(rules: &Rules) -> io::Result<Vec<AccessGrant>> {
    let hidden = real(&rules.hidden);
    let kept: Vec<PathBuf> = hidden.iter().cloned().chain(real(&rules.frozen)).collect();
    let mut granted = Vec::new();
    for (roots, access, less) in [(&rules.read, reading(), &hidden), (&rules.write, writing(), &kept)] {
        // A path that does not exist needs no rule.
        for root in real(roots) {
            let Ok(opened) = opened(&root) else { continue };
            grant(opened, &root, access, less, &mut granted)?;
        }
    }
    Ok(granted)
}

/// Restricts this process and all it starts to what was granted.
pub(super) fn restrict(granted: Vec<AccessGrant>, network: bool) -> io::Result<()> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEEDED))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEEDED)))
        .map_err(io::Error::other)?;
    if !network {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEEDED)).map_err(io::Error::other)?;
    }
    let mut created = ruleset.create().map_err(io::Error::other)?;
    for AccessGrant { on, access } in granted {
        created = created.add_rule(PathBeneath::new(on, access)).map_err(io::Error::other)?;
    }
    match created.restrict_self().map_err(io::Error::other)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => Err(io::Error::other("the kernel's Landlock is too old")),
        RulesetStatus::NotEnforced => Err(io::Error::other("the kernel has no Landlock")),
    }
}

/// Finds out what the kernel offers. A thread restricts itself for this test and ends.
pub(super) fn offered() -> Result<String, MissingFeature> {
    let missing = |why: String, hint: &str| MissingFeature { why, hint: hint.to_owned() };
    let ask = || {
        let ruleset = Ruleset::default().scope(Scope::Signal).and_then(Ruleset::create);
        ruleset.and_then(|created| created.restrict_self()).map(|status| status.landlock)
    };
    let enable = "Start the kernel with landlock in its list of security modules (lsm=landlock,…).";
    let newer = "Use Linux 6.12 or newer.";
    match std::thread::spawn(ask).join() {
        Ok(Ok(LandlockStatus::Available { effective_abi, kernel_abi })) => {
            let number = kernel_abi.unwrap_or(effective_abi as i32);
            if effective_abi < NEEDED {
                return Err(missing(format!("ABI {number}, but {} is needed", NEEDED as i32), newer));
            }
            Ok(format!("ABI {number} (no bubblewrap starts inside: agents that bring their own fail)"))
        }
        Ok(Ok(LandlockStatus::NotEnabled)) => Err(missing("not enabled".to_owned(), enable)),
        Ok(Ok(LandlockStatus::NotImplemented)) => Err(missing("not in this kernel".to_owned(), newer)),
        Ok(Err(error)) => Err(missing(error.to_string(), newer)),
        Err(_) => Err(missing("it could not be asked".to_owned(), newer)),
    }
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(NEEDED)
}

/// Returns all rights except creating devices. Of existing devices only harmless ones are granted.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEEDED) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect()
}

const PLAIN: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn opened(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, PLAIN, Mode::empty())?)
}

/// Grants access to an open path; if something in it is excluded, grants the entries beside that instead.
fn grant(
    on: OwnedFd,
    path: &Path,
    access: BitFlags<AccessFs>,
    less: &[PathBuf],
    granted: &mut Vec<AccessGrant>,
) -> io::Result<()> {
    if less.iter().any(|not| not == path) {
        return Ok(());
    }
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&on)?.st_mode);
    if kind != FileType::Directory {
        let access = access & AccessFs::from_file(NEEDED);
        // A link is not followed: its target is granted, or not, by its own path.
        if kind != FileType::Symlink && !access.is_empty() {
            granted.push(AccessGrant { on, access });
        }
        return Ok(());
    }
    if !less.iter().any(|not| not.starts_with(path)) {
        granted.push(AccessGrant { on, access });
        return Ok(());
    }
    let listed =
        rustix::fs::openat(&on, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in Dir::new(listed)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(inner) = rustix::fs::openat(&on, name, PLAIN, Mode::empty()) else { continue };
        let path = path.join(std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes()) as &std::ffi::OsStr);
        grant(inner, &path, access, less, granted)?;
    }
    Ok(())
}
