//! Tests which sandbox features this machine has: bubblewrap, namespaces, overlays, Landlock.
//!
//! Each feature is really tried: an installed program or a compiled-in feature may still be forbidden by a
//! sysctl, a security module or the surrounding container.
//!
//! **Invariant:** no program is taken from a folder that an agent can write: the workspace, or the user's
//! home.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{getegid, geteuid, getgroups};

use super::offer::{Bubblewrap, MissingFeature, OverlayTools, SandboxFeatures};
use super::status::last_line;
use super::{CheckFence, CheckTree, Network, Processes, USUAL_SIZE};
use crate::process;
use crate::process::{Enclosure, HeadAndTail, How, ProcessEnd, Spawn};

/// Searched before `PATH`: these are the system's folders.
const SYSTEM_FOLDERS: [&str; 5] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
const PATIENCE: Duration = Duration::from_secs(60);

/// Tries every feature once.
pub fn survey(workspace: &Path) -> SandboxFeatures {
    let sought = Sought::outside(workspace);
    let secrets = secrets();
    let mut offer = SandboxFeatures {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        is_root: geteuid().is_root(),
        bubblewrap: Err(missing("not tried", "")),
        unshare: sought.program("unshare", "Install it: apt-get install util-linux."),
        user_namespaces: Err(missing("not tried", "")),
        pid_namespaces: Err(missing("not tried", "")),
        overlay: Err(missing("not tried", "")),
        nesting: Err(missing("not tried", "")),
        landlock: super::landlock::offered(),
        sh: sought.find("sh").unwrap_or_else(|| "/bin/sh".into()),
        system: system_folders(&secrets),
        secrets: secrets.into_iter().map(|(secret, _)| secret).collect(),
        launcher: Vec::new(),
        resolver: resolver(),
    };
    offer.user_namespaces = user_namespaces(&offer);
    offer.bubblewrap = bubblewrap(&sought, &offer);
    // Every run waits for these.
    (offer.pid_namespaces, offer.nesting, offer.overlay) = thread::scope(|scope| {
        let pid_namespaces = scope.spawn(|| pid_namespaces(&offer));
        let nesting = scope.spawn(|| nesting(&offer));
        let overlay = overlay(&sought, &offer);
        (
            pid_namespaces.join().unwrap_or_else(|panic| resume_unwind(panic)),
            nesting.join().unwrap_or_else(|panic| resume_unwind(panic)),
            overlay,
        )
    });
    offer
}

fn missing(why: impl Into<String>, hint: impl Into<String>) -> MissingFeature {
    MissingFeature { why: why.into(), hint: hint.into() }
}

/// The folders in which programs are searched.
struct Sought {
    folders: Vec<PathBuf>,
    not_in: Vec<PathBuf>,
}

impl Sought {
    fn outside(workspace: &Path) -> Self {
        let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let not_in = [Some(workspace.to_path_buf()), home].into_iter().flatten().map(real).collect();
        let path = env::var_os("PATH").unwrap_or_default();
        let named = env::split_paths(&path).filter(|folder| folder.is_absolute());
        Self { folders: SYSTEM_FOLDERS.iter().map(PathBuf::from).chain(named).collect(), not_in }
    }

    /// Returns the first match. Checks its real path, because an agent may be able to write the target of a
    /// link.
    fn find(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().find_map(|folder| {
            let found = folder.join(name);
            let real = found.canonicalize().ok()?;
            let is_safe = !self.not_in.iter().any(|theirs| real.starts_with(theirs));
            // Keep the name that was asked for: busybox chooses its function by it.
            (is_safe && real.is_file() && access(&real, Access::EXEC_OK).is_ok()).then_some(found)
        })
    }

    fn program(&self, name: &str, hint: &str) -> Result<PathBuf, MissingFeature> {
        self.find(name).ok_or_else(|| missing("not installed (outside the workspace and your home)", hint))
    }
}

fn user_namespaces(offer: &SandboxFeatures) -> Result<(), MissingFeature> {
    let unshare = offer.unshare.as_ref().map_err(Clone::clone)?;
    let args = ["--user", "--map-root-user", "--mount", "--"].map(OsString::from);
    let script = [offer.sh.clone().into(), "-c".into(), ":".into()];
    attempt(unshare, &[args.as_slice(), &script].concat()).map_err(|why| missing(why, namespace_hint()))?;
    Ok(())
}

fn bubblewrap(sought: &Sought, offer: &SandboxFeatures) -> Result<Bubblewrap, MissingFeature> {
    let path = sought.program("bwrap", "Install it: apt-get install bubblewrap (0.8 or newer).")?;
    let said = attempt(&path, &["--version".into()])
        .map_err(|why| missing(why, "Install it again: apt-get install --reinstall bubblewrap."))?;
    let version = said.trim().trim_start_matches("bubblewrap ").to_owned();
    let mut args = namespaces();
    args.extend(
        ["--disable-userns", "--unshare-net", "--size", "4096", "--tmpfs", "/tmp"].map(OsString::from),
    );
    args.extend(["--".into(), offer.sh.clone().into(), "-c".into(), ":".into()]);
    match attempt(&path, &args) {
        Ok(_) => Ok(Bubblewrap { path, version }),
        Err(why) if why.contains("Unknown option") => Err(missing(
            format!("{} {version} is too old: {why}", path.display()),
            "Install bubblewrap 0.8 or newer.",
        )),
        Err(why) => Err(missing(why, namespace_hint())),
    }
}

fn namespaces() -> Vec<OsString> {
    let words = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup --cap-drop ALL \
                 --die-with-parent --new-session --ro-bind / / --proc /proc --dev /dev";
    words.split(' ').map(OsString::from).collect()
}

fn pid_namespaces(offer: &SandboxFeatures) -> Result<(), MissingFeature> {
    let bubblewrap = offer.bubblewrap.as_ref().map_err(Clone::clone)?;
    let mut args = namespaces();
    args.extend(["--".into(), offer.sh.clone().into(), "-c".into(), "readlink /proc/self/ns/pid".into()]);
    let theirs = attempt(&bubblewrap.path, &args).map_err(|why| missing(why, namespace_hint()))?;
    let ours = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if theirs.trim().is_empty() || Path::new(theirs.trim()) == ours {
        return Err(missing("bubblewrap did not make one", namespace_hint()));
    }
    Ok(())
}

fn nesting(offer: &SandboxFeatures) -> Result<(), MissingFeature> {
    let bubblewrap = offer.bubblewrap.as_ref().map_err(Clone::clone)?;
    let mut args = namespaces();
    args.extend(["--".into(), bubblewrap.path.clone().into()]);
    args.extend(namespaces());
    args.extend(["--".into(), offer.sh.clone().into(), "-c".into(), ":".into()]);
    let hint = "Run provost as an ordinary user, or turn off the agent's own sandbox.";
    attempt(&bubblewrap.path, &args).map_err(|why| missing(why, hint))?;
    Ok(())
}

/// Tries a real check sandbox around a small tree: removing and recreating a folder needs extended
/// attributes that older kernels do not have on a tmpfs.
fn overlay(sought: &Sought, offer: &SandboxFeatures) -> Result<OverlayTools, MissingFeature> {
    const TRY: &str = "test ! -e gone && test -e kept && rm -r folder && mkdir folder && : > folder/new";
    let tools = OverlayTools {
        mount: sought.program("mount", "Install it: apt-get install mount.")?,
        mkdir: sought.program("mkdir", "Install it: apt-get install coreutils.")?,
        rm: sought.program("rm", "Install it: apt-get install coreutils.")?,
    };
    offer.user_namespaces.as_ref().map_err(Clone::clone)?;
    offer.bubblewrap.as_ref().map_err(Clone::clone)?;
    let hint = "Use Linux 6.6 or newer; until then each check gets its own tree, which takes longer.";
    let failed = |why: String| missing(why, hint);
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let [base, layer] = ["base", "layer"].map(|name| folder.path().join(name));
    let made = fs::create_dir_all(base.join("folder"))
        .and_then(|()| fs::create_dir(&layer))
        .and_then(|()| fs::write(base.join("gone"), ""))
        .and_then(|()| fs::write(base.join("kept"), ""))
        .and_then(|()| fs::write(base.join("folder/old"), ""));
    made.map_err(|error| failed(error.to_string()))?;
    let with = SandboxFeatures { overlay: Ok(tools.clone()), ..offer.clone() };
    let fence = CheckFence {
        tree: CheckTree::Overlay { lower: &base, over: None, layer: &layer, deleted: &["gone".into()] },
        at: Path::new("/mnt/tree"),
        size: USUAL_SIZE.min(1024 * 1024),
        network: Network::Off,
        processes: Processes::Traceable,
        toolchains: &[],
        keep: &[],
        hidden: &[],
        scratch: folder.path(),
    };
    let wrapped = super::check(&with, &fence, offer.sh.as_os_str(), &["-ec".into(), TRY.into()])
        .map_err(|error| failed(error.to_string()))?;
    attempt(Path::new(&wrapped.program), &wrapped.args).map_err(failed)?;
    Ok(tools)
}

/// Runs a program and returns what it printed, or the reason why it failed.
fn attempt(program: &Path, args: &[OsString]) -> Result<String, String> {
    let ended = run(program, args, "survey").map_err(|error| error.to_string())?;
    match ended.how {
        How::Exited(0) => Ok(String::from_utf8_lossy(&ended.stdout.head).into_owned()),
        How::Exited(_) => Err(last_line(&ended.stderr.head)),
        How::Signalled(signal) => Err(format!("it was killed by signal {signal}")),
        How::TimedOut | How::OverBounds(_) | How::Stopped => {
            Err(format!("it did not end within {} s", PATIENCE.as_secs()))
        }
    }
}

pub(super) fn run(program: &Path, args: &[OsString], why: &str) -> Result<ProcessEnd, process::StartError> {
    run_in(Enclosure::None, program, args, why)
}

pub(super) fn run_in(
    enclosure: Enclosure<'_>,
    program: &Path,
    args: &[OsString],
    why: &str,
) -> Result<ProcessEnd, process::StartError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let tag = format!("{why}/{}/{}.", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    process::run(Spawn {
        program: program.as_os_str(),
        args,
        cwd: Path::new("/"),
        env: &[("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into())],
        stdin: b"",
        deadline: PATIENCE,
        grace: Duration::ZERO,
        keep: HeadAndTail { head: 64 * 1024, tail: 0 },
        tag: &tag,
        stop: None,
        tee: None,
        bounds: None,
        enclosure,
    })
}

/// Returns a hint for the setting that forbids namespaces.
fn namespace_hint() -> String {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    let is = |name, value: &str| setting(name).trim() == value;
    let hint = if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "Allow it: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap."
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "Allow it: sysctl kernel.unprivileged_userns_clone=1."
    } else if is("user/max_user_namespaces", "0") {
        "Allow it: sysctl user.max_user_namespaces=15000."
    } else if Path::new("/.dockerenv").exists() {
        "The container forbids it: start it with --security-opt seccomp=unconfined --security-opt \
         apparmor=unconfined --security-opt systempaths=unconfined."
    } else if Path::new("/run/.containerenv").exists() {
        "The container forbids it: start it with --security-opt seccomp=unconfined --security-opt unmask=ALL."
    } else {
        "User namespaces are forbidden here: see `sysctl user.max_user_namespaces` and the kernel's log."
    };
    hint.to_owned()
}

/// Returns the arguments that show programs and their configuration at their usual paths.
fn system_folders(secrets: &[(PathBuf, bool)]) -> Vec<OsString> {
    let mut arguments = super::Arguments::default();
    arguments.mount("--ro-bind", "/usr", "/usr");
    for folder in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].map(Path::new) {
        match fs::read_link(folder) {
            Ok(target) => arguments.mount("--symlink", target, folder),
            Err(_) if folder.is_dir() => arguments.mount("--ro-bind", folder, folder),
            Err(_) => {}
        }
    }
    for store in ["/nix/store", "/gnu/store"].map(Path::new).into_iter().filter(|store| store.is_dir()) {
        arguments.mount("--ro-bind", store, store);
    }
    arguments.mount("--ro-bind", "/etc", "/etc");
    for (secret, is_folder) in secrets {
        arguments.cover(secret, *is_folder);
    }
    arguments.0
}

fn secrets() -> Vec<(PathBuf, bool)> {
    let mut secrets = Vec::new();
    let groups = getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw());
    let groups: Vec<u32> = groups.chain([getegid().as_raw()]).collect();
    find_secrets(Path::new("/etc"), &groups, &mut secrets);
    secrets
}

/// Finds files that not all users may read but this one may: no check needs them.
fn find_secrets(folder: &Path, groups: &[u32], secrets: &mut Vec<(PathBuf, bool)>) {
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let Ok(found) = entry.metadata() else { continue };
        let everybody = if found.is_dir() { 0o005 } else { 0o004 };
        let is_ours = found.uid() == geteuid().as_raw() || groups.contains(&found.gid());
        if !found.is_symlink() && found.mode() & everybody != everybody {
            // An empty file, or one that provost cannot read, reveals nothing.
            if is_ours && (found.is_dir() || found.len() > 0) {
                secrets.push((entry.path(), found.is_dir()));
            }
        } else if found.is_dir() {
            find_secrets(&entry.path(), groups, secrets);
        }
    }
}

fn resolver() -> Option<PathBuf> {
    let real = Path::new("/etc/resolv.conf").canonicalize().ok()?;
    (!real.starts_with("/etc") && !real.starts_with("/usr")).then_some(real)
}
