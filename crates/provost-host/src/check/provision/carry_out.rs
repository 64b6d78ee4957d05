//! Runs the command of a supply and takes its result.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use provost_core::redact;
use provost_core::redact::Redactor;

use crate::activity::Activity;
use crate::check::judge;
use crate::files::folder;
use crate::process::{Enclosure, HeadAndTail, How, ProcessEnd, Spawn};
use crate::sandbox::{
    CACHES, CheckFence, CheckMount, CheckTree, MountWrites, Network, Processes, SandboxFeatures,
    SandboxedCommand, USUAL_SIZE, What,
};
use crate::{process, sandbox};

use super::known::PackageManager;
use super::{
    Around, InstallEnvironment, InstallSandbox, MissingSupply, Supplies, Supply, View, crates, named,
};

/// Variables for network access: proxies, certificates and registries. The user's files take no part,
/// because agents can write them.
const TRANSPORT: [&str; 22] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "npm_config_registry",
    "GOPROXY",
    "GOPRIVATE",
];
const GRACE: Duration = Duration::from_secs(2);
const SAID: HeadAndTail = HeadAndTail { head: 16 * 1024, tail: 16 * 1024 };
/// Most lines, and most characters of a line, of a command's output in a message.
const LINES: usize = 4;
const LINE: usize = 200;

/// One command in its folder.
struct Run<'a> {
    supplies: &'a Supplies,
    supply: &'a Supply,
    view: &'a View<'a>,
    means: &'a InstallEnvironment<'a>,
    room: &'a Path,
    network: Network,
    script: &'a str,
    /// Folders that the command reads, with their names for it.
    more: Vec<(&'static str, PathBuf)>,
    env: Vec<(OsString, OsString)>,
}

/// Runs the supply's command; the result is in `room`, in a folder with the supply's name.
pub(super) fn supply(
    supply: &Supply,
    supplies: &Supplies,
    locks: &[(&str, Vec<u8>)],
    view: &View<'_>,
    means: &InstallEnvironment<'_>,
    room: &Path,
) -> Result<(), MissingSupply> {
    let failed = |why: String| MissingSupply::Failed { name: supply.name.clone(), why };
    let result = room.join(&supply.name);
    let fresh = || -> io::Result<()> {
        folder::remove(&result);
        ["home", "tmp"].iter().for_each(|own| folder::remove(&room.join(own)));
        fs::create_dir(&result)?;
        ["home", "tmp"].iter().try_for_each(|own| fs::create_dir(room.join(own)))
    };
    let run = |network, script, more: Vec<(&'static str, PathBuf)>, env| {
        Run { supplies, supply, view, means, room, network, script, more, env }.run()
    };
    fresh().map_err(|error| failed(error.to_string()))?;
    if supply.kind == Some(PackageManager::Cargo) && locks.len() == 1 {
        let crates = room.join("crates");
        let has_all = crates::gather(&locks[0].1, &crates, &result);
        if has_all.map_err(|error| failed(error.to_string()))? {
            let place = match means.ground {
                InstallSandbox::Fenced { .. } => Path::new(CACHES).join("crates"),
                InstallSandbox::Folder(_) | InstallSandbox::Confined { .. } => crates.clone(),
            };
            let env = vec![("PROVISION_CRATES".into(), place.into())];
            match run(Network::Off, crates::UNPACK, vec![("crates", crates)], env) {
                Err(MissingSupply::Failed { .. }) => {}
                done => return done,
            }
        }
        fresh().map_err(|error| failed(error.to_string()))?;
    }
    let more = match supply.kind {
        Some(PackageManager::Npm) if locks.iter().all(|(_, lock)| has_integrity(lock)) => npm_cache(),
        _ => Vec::new(),
    };
    run(Network::On, &supply.command, more, Vec::new())
}

/// Returns whether the lock file has a digest for each package; only then the user's package cache is
/// trusted.
fn has_integrity(lock: &[u8]) -> bool {
    let Ok(lock) = serde_json::from_slice::<serde_json::Value>(lock) else { return false };
    let Some(packages) = lock.get("packages").and_then(serde_json::Value::as_object) else { return false };
    let is_known = |package: &serde_json::Value| {
        ["integrity", "link", "inBundle"].iter().any(|key| package.get(key).is_some())
    };
    packages.iter().all(|(name, package)| !name.contains("node_modules") || is_known(package))
}

fn npm_cache() -> Vec<(&'static str, PathBuf)> {
    let named = std::env::var_os("npm_config_cache").map(PathBuf::from);
    let cache = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".npm")));
    let cache = cache.map(|cache| cache.join("_cacache")).filter(|cache| cache.is_dir());
    cache.map(|cache| ("npm/_cacache", cache)).into_iter().collect()
}

impl Run<'_> {
    fn run(self) -> Result<(), MissingSupply> {
        let failed =
            |why: String| MissingSupply::Failed { name: self.supply.name.clone(), why: redacted(&why) };
        let _activity = Activity::begin(format!("installing {}", self.supply.name));
        let ended = match self.means.ground {
            InstallSandbox::Fenced { offer, state, scratch } => self.fenced(offer, state, scratch),
            InstallSandbox::Folder(write) => write().and_then(|tree| self.in_folder(&tree.path, None)),
            InstallSandbox::Confined { write, around } => {
                write().and_then(|tree| self.in_folder(&tree.path, Some(around)))
            }
        };
        match ended {
            Ok(ProcessEnd { how: How::Exited(0), survivors, .. }) if survivors.is_empty() => Ok(()),
            Ok(ProcessEnd { how: How::Stopped, .. }) => Err(MissingSupply::Interrupted),
            Ok(ended) => Err(failed(said(&ended))),
            Err(why) => Err(failed(why)),
        }
    }

    fn result(&self) -> PathBuf {
        self.room.join(&self.supply.name)
    }

    fn fenced(&self, offer: &SandboxFeatures, state: &Path, scratch: &Path) -> Result<ProcessEnd, String> {
        let (workspace, caches) = (&self.supplies.workspace, Path::new(CACHES));
        let place = match &self.supply.into {
            Some(into) => into.clone(),
            None => caches.join(&self.supply.name),
        };
        let (home, tmp) = (caches.join("home"), caches.join("tmp"));
        let own = [(&place, self.result()), (&home, self.room.join("home")), (&tmp, self.room.join("tmp"))];
        let mut keep: Vec<CheckMount<'_>> =
            own.iter().map(|(at, folder)| CheckMount { at, what: What::Writable(folder) }).collect();
        // A tool may need to write to them.
        let more: Vec<(PathBuf, [PathBuf; 1], PathBuf)> = self
            .more
            .iter()
            .map(|(name, folder)| {
                (caches.join(name), [folder.clone()], self.room.join(name.replace('/', "-") + "-over"))
            })
            .collect();
        for (at, lowers, folder) in &more {
            folder::remove(folder);
            fs::create_dir(folder).map_err(|error| error.to_string())?;
            keep.push(CheckMount {
                at,
                what: What::Layered { lowers, folder, writes: MountWrites::Forgotten },
            });
        }
        let toolchains = self.supplies.tools.folders();
        let toolchains: Vec<&Path> = toolchains.iter().map(PathBuf::as_path).collect();
        let View { base, over, layer, deleted } = *self.view;
        let fence = CheckFence {
            tree: CheckTree::Overlay { lower: base, over, layer, deleted },
            at: workspace,
            size: USUAL_SIZE,
            network: self.network,
            processes: Processes::Traceable,
            toolchains: &toolchains,
            keep: &keep,
            hidden: &[state],
            scratch,
        };
        let wrapped = sandbox::check(offer, &fence, judge::bash(), &self.words()).map_err(told)?;
        let mut env = self.environment(&workspace.join(&place), &home, &tmp);
        if self.more.iter().any(|(name, _)| name.starts_with("npm/")) {
            env.push(("npm_config_cache".into(), caches.join("npm").into()));
        }
        let mut ended = self.spawn(Some(&wrapped), Path::new("/"), &env)?;
        ended.how = wrapped.how(&ended).map_err(told)?;
        Ok(ended)
    }

    fn in_folder(&self, tree: &Path, around: Option<&Around<'_>>) -> Result<ProcessEnd, String> {
        let place = match &self.supply.into {
            Some(into) => tree.join(into),
            None => self.result(),
        };
        if self.supply.into.is_some() {
            folder::remove(&place);
            fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        }
        let (home, tmp) = (self.room.join("home"), self.room.join("tmp"));
        let env = self.environment(&place, &home, &tmp);
        let ended = match around {
            None => self.spawn(None, tree, &env)?,
            Some(around) => {
                let words = self.words();
                let wrapped =
                    around(&[tree, self.room], self.network, judge::bash(), &words).map_err(told)?;
                let mut ended = self.spawn(Some(&wrapped), tree, &env)?;
                ended.how = wrapped.how(&ended).map_err(told)?;
                ended
            }
        };
        if self.supply.into.is_some() {
            let moved = fs::remove_dir(self.result()).and_then(|()| fs::rename(&place, self.result()));
            moved.map_err(|error| error.to_string())?;
        }
        Ok(ended)
    }

    fn words(&self) -> Vec<OsString> {
        ["--noprofile", "--norc", "-c", self.script].map(OsString::from).into()
    }

    fn environment(&self, place: &Path, home: &Path, tmp: &Path) -> Vec<(OsString, OsString)> {
        let mut env = self.supplies.tools.to_install();
        let reached =
            TRANSPORT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        env.extend(reached.filter(|_| self.network == Network::On));
        env.push(("HOME".into(), home.into()));
        env.push(("TMPDIR".into(), tmp.into()));
        env.extend(named(&self.supply.env, place));
        env.extend(self.env.iter().cloned());
        env
    }

    fn spawn(
        &self,
        wrapped: Option<&SandboxedCommand>,
        cwd: &Path,
        env: &[(OsString, OsString)],
    ) -> Result<ProcessEnd, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("provision/{}/{}.", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let words = self.words();
        process::run(Spawn {
            program: wrapped.map_or(judge::bash(), |wrapped| &wrapped.program),
            args: wrapped.map_or(&words, |wrapped| &wrapped.args),
            cwd,
            env,
            stdin: b"",
            deadline: self.supplies.timeout,
            grace: GRACE,
            keep: SAID,
            tag: &tag,
            stop: process::stop_flag(self.means.stop),
            tee: None,
            bounds: None,
            enclosure: wrapped.map_or(Enclosure::None, SandboxedCommand::enclosure),
        })
        .map_err(told)
    }
}

/// Returns how the command ended, and its last lines of output.
fn said(ended: &ProcessEnd) -> String {
    let how = match ended.how {
        How::Exited(0) => "a process of it could not be ended".to_owned(),
        How::Exited(code) => format!("exit code {code}"),
        How::Signalled(signal) => format!("killed by signal {signal}"),
        How::TimedOut | How::Stopped => "it took too long".to_owned(),
        How::OverBounds(exceeded) => exceeded.to_string(),
    };
    let both = [&ended.stderr, &ended.stdout];
    let text =
        both.map(|output| output.excerpt(SAID.tail).to_string()).into_iter().find(|text| !text.is_empty());
    let text = text.unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES)..].iter();
    let last: Vec<String> = last.map(|line| line.chars().take(LINE).collect()).collect();
    if last.is_empty() { how } else { format!("{how}: {}", last.join(" | ")) }
}

/// Removes secrets, because an address may contain a password and the text is stored.
fn redacted(text: &str) -> String {
    let secret = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Redactor::new(secret.filter(|(name, _)| redact::looks_secret(name))).text(text).into_owned()
}

fn told(error: impl std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
