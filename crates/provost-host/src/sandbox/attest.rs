//! Attacks the sandboxes from inside and reports what held.
//!
//! An isolation level is what was just observed to hold on this machine, not what was configured. Reports
//! from inside are compared with observations from outside if possible: a probe that did not run must not
//! look like one that was denied.
//!
//! **Invariant:** a probe that reported nothing did not hold.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use provost_core::model::verdict::Isolation;
use serde::Serialize;
use tempfile::TempDir;

use super::{
    AgentFence, CheckFence, CheckTree, Confines, HOME, HomePolicy, NO_NEEDS, Network, Outlet, Processes,
    Rules, SandboxFeatures, SandboxedCommand, TMP, Unavailable, probe,
};
use crate::process::{How, ProcessEnd, cgroups_offered};

const PROBES: &str = include_str!("probes.sh");
/// Size limit: enough for the files that the probes write, and small for any machine.
const ROOM: u64 = 16 * 1024 * 1024;

/// The data and processes to protect.
#[derive(Clone, Copy, Debug)]
pub struct Vantage<'a> {
    pub state: &'a Path,
    pub harness_pid: u32,
    /// Address of the local API, if it is served.
    pub api: Option<SocketAddr>,
    pub workspace: &'a Path,
}

/// The protections that were just observed on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attestation {
    pub level: Isolation,
    pub probes: Vec<SelfTestProbe>,
    pub kernel: String,
    pub bubblewrap: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SelfTestProbe {
    /// The sandbox and the attack: `check/state-write`.
    pub name: String,
    pub held: bool,
    pub detail: String,
}

impl Attestation {
    /// Returns the probes that keep this machine from the higher level.
    pub fn failed(&self) -> impl Iterator<Item = &SelfTestProbe> {
        self.probes.iter().filter(|probe| !probe.held)
    }
}

/// Runs the probes inside the same sandboxes that will be used at `clean`.
pub fn self_test(offer: &SandboxFeatures, vantage: &Vantage<'_>) -> Attestation {
    let probes = probes(offer, vantage, Isolation::Clean);
    let has_held = probes.iter().all(|probe| probe.held);
    attested(offer, if has_held { Isolation::Clean } else { Isolation::GuardClean }, probes)
}

pub fn attested(offer: &SandboxFeatures, level: Isolation, probes: Vec<SelfTestProbe>) -> Attestation {
    let bubblewrap = offer.bubblewrap.as_ref().ok().map(|found| found.version.clone());
    Attestation { level, probes, kernel: offer.kernel.clone(), bubblewrap }
}

/// Attacks the sandboxes of a level from inside and returns the results.
pub fn probes(offer: &SandboxFeatures, vantage: &Vantage<'_>, level: Isolation) -> Vec<SelfTestProbe> {
    let by = match level {
        Isolation::Clean => Means::Bubblewrap,
        Isolation::Landlock => Means::Landlock,
        // These levels have no sandbox to attack.
        Isolation::Uid | Isolation::GuardClean | Isolation::InPlace | Isolation::None => return Vec::new(),
    };
    let [check, agent] = [Inside::Check, Inside::Agent].map(|inside| Fence { by, inside });
    if by == Means::Landlock && cgroups_offered().is_err() {
        // Without namespaces and cgroups, an orphan that cleared its environment could belong to either.
        return [attack(offer, vantage, check), attack(offer, vantage, agent)].concat();
    }
    // Each attacks a sandbox of its own, so both can run at the same time.
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| attack(offer, vantage, agent));
        let mut probes = attack(offer, vantage, check);
        probes.extend(agent.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        probes
    })
}

/// Attacks one sandbox from inside.
fn attack(offer: &SandboxFeatures, vantage: &Vantage<'_>, fence: Fence) -> Vec<SelfTestProbe> {
    match Site::prepare(vantage).and_then(|site| site.probe(offer, fence)) {
        Ok(found) => found,
        Err(error) => {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            vec![fence.probe("works", false, format!("{error}{hint}"))]
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Check,
    Agent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    Bubblewrap,
    Landlock,
}

#[derive(Clone, Copy)]
struct Fence {
    by: Means,
    inside: Inside,
}

impl Fence {
    fn name(self) -> &'static str {
        match self.inside {
            Inside::Check => "check",
            Inside::Agent => "agent",
        }
    }

    fn probe(self, name: &str, held: bool, detail: impl Into<String>) -> SelfTestProbe {
        let level = match self.by {
            Means::Bubblewrap => "",
            Means::Landlock => "landlock/",
        };
        SelfTestProbe { name: format!("{level}{}/{name}", self.name()), held, detail: detail.into() }
    }

    /// Returns whether the sandbox promises this, so that the probe must hold.
    fn promises(self, name: &str) -> bool {
        let has_namespaces = self.by == Means::Bubblewrap;
        match name {
            "user-namespace" => has_namespaces && self.inside == Inside::Check,
            "home-read" => self.inside == Inside::Check,
            "processes" => has_namespaces,
            "process-read" => !has_namespaces,
            _ => true,
        }
    }
}

/// The test setup: a small tree in the state folder, a listening port, and a unique name.
struct Site<'a> {
    vantage: &'a Vantage<'a>,
    folder: TempDir,
    /// The folder for sandboxes without namespaces, outside of the state folder.
    own: TempDir,
    door: TcpListener,
    port: u16,
    mark: String,
}

impl<'a> Site<'a> {
    fn prepare(vantage: &'a Vantage<'a>) -> Result<Self, Unavailable> {
        let failed = |source| Unavailable::scratch(vantage.state, source);
        let folder = tempfile::Builder::new().prefix("probe-").tempdir_in(vantage.state).map_err(failed)?;
        let mark = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        for name in ["base", "layer"] {
            fs::create_dir(folder.path().join(name)).map_err(failed)?;
            fs::write(folder.path().join(name).join(name), name).map_err(failed)?;
        }
        let own = tempfile::Builder::new().prefix("provost-probe-").tempdir().map_err(failed)?;
        for name in ["home", "tmp", "tree"] {
            fs::create_dir(own.path().join(name)).map_err(failed)?;
        }
        for name in ["base", "layer"] {
            fs::write(own.path().join("tree").join(name), name).map_err(failed)?;
        }
        let door = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        door.set_nonblocking(true).map_err(failed)?;
        let port = door.local_addr().map_err(failed)?.port();
        Ok(Self { vantage, folder, own, door, port, mark })
    }

    fn probe(&self, offer: &SandboxFeatures, fence: Fence) -> Result<Vec<SelfTestProbe>, Unavailable> {
        let args = self.arguments(offer, fence);
        let wrapped = match (fence.by, fence.inside) {
            (Means::Bubblewrap, Inside::Check) => self.behind_check(offer, &args)?,
            (Means::Bubblewrap, Inside::Agent) => self.behind_agent(offer, &args)?,
            (Means::Landlock, _) => self.behind_landlock(offer, fence.inside, &args)?,
        };
        let program = Path::new(&wrapped.program);
        let ended = probe::run_in(wrapped.enclosure(), program, &wrapped.args, "self-test")
            .map_err(|error| Unavailable::NotEntered { said: error.to_string() })?;
        // The overlay leaves a folder without permissions here, which only root could remove.
        let closed = kept_of(self.folder.path()).join("work").join("work");
        let _ = fs::set_permissions(closed, fs::Permissions::from_mode(0o700));
        let how = wrapped.how(&ended)?;
        // First of all: a process that is still alive now has outlived its sandbox.
        let has_daemon = is_alive(&self.mark);
        if how != How::Exited(0) {
            let said = format!("the probes ended with {how:?}");
            return Err(Unavailable::NotEntered { said });
        }
        let mut probes = self.findings(fence, &ended, has_daemon);
        if fence.inside == Inside::Check && (fence.by != Means::Bubblewrap || offer.can_guard()) {
            probes.push(traced(fence, &ended));
        }
        Ok(probes)
    }

    fn behind_check(
        &self,
        offer: &SandboxFeatures,
        args: &[OsString],
    ) -> Result<SandboxedCommand, Unavailable> {
        let [base, layer] = ["base", "layer"].map(|name| self.folder.path().join(name));
        let tree = match offer.overlay {
            Ok(_) => CheckTree::Overlay { lower: &base, over: None, layer: &layer, deleted: &[] },
            Err(_) => {
                fs::copy(layer.join("layer"), base.join("layer"))
                    .map_err(|source| Unavailable::scratch(&base, source))?;
                CheckTree::Folder(&base)
            }
        };
        let hidden = self.hidden();
        let fence = CheckFence {
            tree,
            at: self.vantage.workspace,
            size: ROOM,
            network: Network::Off,
            processes: Processes::Guarded,
            toolchains: &[],
            keep: &[],
            hidden: &hidden,
            scratch: self.folder.path(),
        };
        super::check(offer, &fence, "bash".as_ref(), args)
    }

    fn behind_agent(
        &self,
        offer: &SandboxFeatures,
        args: &[OsString],
    ) -> Result<SandboxedCommand, Unavailable> {
        let kept = kept_of(self.folder.path());
        for name in ["upper", "work"] {
            fs::create_dir_all(kept.join(name)).map_err(|source| Unavailable::scratch(&kept, source))?;
        }
        let home = home();
        let layered = |home| HomePolicy::Layered { home, kept: &kept };
        let hidden = self.hidden();
        let fence = AgentFence {
            workspace: self.vantage.workspace,
            writable: &[],
            veiled: &[],
            read_only: &[],
            hidden: &hidden,
            instead: &[],
            network: Outlet::Off,
            home: home.as_deref().map_or(HomePolicy::Private(Path::new(TMP)), layered),
            needs: NO_NEEDS,
            scratch: self.folder.path(),
        };
        super::agent(offer, &fence, "bash".as_ref(), args)
    }

    /// Returns the user's home, unless it is in the workspace and so writable anyway.
    fn home(&self) -> Option<PathBuf> {
        home().filter(|home| !home.starts_with(self.vantage.workspace))
    }

    fn hidden(&self) -> [&Path; 1] {
        [self.vantage.state]
    }

    fn arguments(&self, offer: &SandboxFeatures, fence: Fence) -> Vec<OsString> {
        let unshare = offer.unshare.as_ref().map_or_else(|_| "unshare".into(), OsString::from);
        // The environment in the sandbox is that of the run; a home is the only variable the probes need.
        let script = match fence.by {
            Means::Bubblewrap => format!("HOME={HOME}\n{PROBES}"),
            Means::Landlock => PROBES.to_owned(),
        };
        let mut args: Vec<OsString> = vec!["--noprofile".into(), "--norc".into(), "-c".into()];
        args.extend([script.into(), "probes".into(), self.vantage.state.into()]);
        args.extend([self.folder.path().join("base/base").into()]);
        let api = self.vantage.api.map(|api| format!("{}/{}", api.ip(), api.port()));
        args.extend([OsString::from(api.unwrap_or_default())]);
        args.extend([self.vantage.harness_pid.to_string().into(), self.port.to_string().into()]);
        args.extend([self.mark.clone().into(), unshare, fence.name().into()]);
        let (own, place) = match (fence.by, fence.inside) {
            (Means::Bubblewrap, _) => (PathBuf::new(), PathBuf::new()),
            (_, Inside::Check) => (self.own.path().into(), self.own.path().join("tree")),
            (_, Inside::Agent) => (self.own.path().into(), self.vantage.workspace.to_path_buf()),
        };
        args.extend([own, place].map(OsString::from));
        match fence.inside {
            Inside::Check => args.extend(in_homes(self.vantage.workspace).into_iter().map(OsString::from)),
            Inside::Agent => args.extend(self.home().map(OsString::from)),
        }
        args
    }

    fn behind_landlock(
        &self,
        offer: &SandboxFeatures,
        inside: Inside,
        args: &[OsString],
    ) -> Result<SandboxedCommand, Unavailable> {
        if let Err(missing) = &offer.landlock {
            return Err(Unavailable::Missing { what: "Landlock", missing: missing.clone() });
        }
        let mut rules = match inside {
            Inside::Check => Rules::of_check(offer, self.vantage.state, Network::Off, &[]),
            Inside::Agent => Rules::of_agent(&self.hidden(), self.vantage.workspace)?,
        };
        rules.write.push(self.own.path().to_path_buf());
        self.confined(offer, rules, args)
    }

    fn confined(
        &self,
        offer: &SandboxFeatures,
        rules: Rules,
        args: &[OsString],
    ) -> Result<SandboxedCommand, Unavailable> {
        let scratch = self.folder.path();
        let confines = Confines { launcher: &offer.launcher, rules, network: Network::Off, scratch };
        super::confine(&confines, "bash".as_ref(), args)
    }

    fn findings(&self, fence: Fence, ended: &ProcessEnd, has_daemon: bool) -> Vec<SelfTestProbe> {
        let text = String::from_utf8_lossy(&ended.stdout.head);
        let said: HashMap<_, _> = text.lines().filter_map(|line| line.split_once('\t')).collect();
        let mut probes = vec![self.works(fence, &said)];
        for name in [
            "state-write",
            "state-read",
            "api",
            "home-read",
            "outside-write",
            "user-namespace",
            "process-read",
        ] {
            let is_asked = fence.promises(name) && (name != "api" || self.vantage.api.is_some());
            if is_asked {
                let detail = said.get(name).copied().unwrap_or("nothing was reported");
                probes.push(fence.probe(name, detail == "denied", detail));
            }
        }
        let was_written =
            fs::symlink_metadata(self.vantage.state.join(format!("{}.written", self.mark))).is_ok();
        if was_written {
            probes.push(fence.probe("state-write", false, "a file arrived in the state folder"));
        }
        if let Some(home) = self.home().filter(|_| fence.inside == Inside::Agent) {
            let has_arrived = fs::symlink_metadata(home.join(&self.mark)).is_ok();
            let (held, detail) = match (said.get("home-write").copied(), has_arrived) {
                (Some(detail), false) => (true, detail),
                (Some(_), true) => (false, "a file arrived in your home"),
                (None, _) => (false, "nothing was reported"),
            };
            probes.push(fence.probe("home-write", held, detail));
        }
        probes.push(self.signal(fence, &said));
        if fence.promises("processes") {
            probes.push(self.processes(fence, &said));
        }
        probes.push(self.network(fence, &said));
        let (held, detail) = match (said.get("daemon"), has_daemon) {
            (Some(_), false) => (true, "dead when the run was over"),
            (Some(_), true) => (false, "it outlived its sandbox"),
            (None, _) => (false, "it could not be started, so nothing is known"),
        };
        probes.push(fence.probe("daemon", held, detail));
        probes
    }

    /// Checks that programs run inside: a sandbox in which nothing works passes every other probe.
    fn works(&self, fence: Fence, said: &HashMap<&str, &str>) -> SelfTestProbe {
        let base = self.folder.path().join("base");
        let has_leaked = fence.inside == Inside::Check
            && [&base, &self.folder.path().join("layer")].iter().any(|tree| {
                // A folder that was put together for the check is written in place.
                tree.join("written").exists() && !tree.join("layer").exists()
            });
        let has_leaked = has_leaked || self.vantage.workspace.join(&self.mark).exists();
        match (said.get("works"), has_leaked) {
            (Some(_), false) => fence.probe("works", true, "programs run, and write where they may"),
            (Some(_), true) => fence.probe("works", false, "what was written inside arrived outside"),
            (None, _) => fence.probe("works", false, "the tree could not be read and written"),
        }
    }

    /// A pid means another process in another namespace, so a signal may well reach one there.
    fn signal(&self, fence: Fence, said: &HashMap<&str, &str>) -> SelfTestProbe {
        let held = match fence.by {
            Means::Bubblewrap => said.contains_key("signal") && is_another("pid", said),
            Means::Landlock => said.get("signal") == Some(&"denied"),
        };
        let detail =
            if held { "denied" } else { said.get("signal").copied().unwrap_or("nothing was reported") };
        fence.probe("signal", held, detail)
    }

    fn processes(&self, fence: Fence, said: &HashMap<&str, &str>) -> SelfTestProbe {
        let detail = said.get("processes").copied().unwrap_or("nothing was reported");
        match (is_another("pid", said), detail) {
            (true, "denied") => fence.probe("processes", true, "denied"),
            (false, "denied") => fence.probe("processes", false, "the process namespace is provost's own"),
            _ => fence.probe("processes", false, detail),
        }
    }

    fn network(&self, fence: Fence, said: &HashMap<&str, &str>) -> SelfTestProbe {
        let nobody_came = matches!(self.door.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock);
        let detail = said.get("network").copied().unwrap_or("nothing was reported");
        let is_apart = fence.by != Means::Bubblewrap || is_another("net", said);
        let held = nobody_came && detail == "denied" && is_apart;
        fence.probe("network", held, if nobody_came { detail } else { "a connection arrived at the harness" })
    }
}

/// Returns the result of the tracing probe: provost's own program protects a check's processes from each
/// other.
fn traced(fence: Fence, ended: &ProcessEnd) -> SelfTestProbe {
    let text = String::from_utf8_lossy(&ended.stdout.head);
    let said = text.lines().find_map(|line| line.strip_prefix("trace\t")).unwrap_or("nothing was reported");
    // Without namespaces, memory can still be written through `/proc`: only the system calls are denied.
    let held = said == "denied" || fence.by != Means::Bubblewrap;
    fence.probe("trace", held, said)
}

/// Returns the folder of the probes' layer over the home.
fn kept_of(folder: &Path) -> PathBuf {
    folder.join("kept")
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir())
}

/// Returns whether the namespace inside differs from provost's own.
fn is_another(namespace: &str, said: &HashMap<&str, &str>) -> bool {
    let ours = fs::read_link(format!("/proc/self/ns/{namespace}"));
    let theirs = said.get(format!("namespace {namespace}").as_str()).filter(|theirs| !theirs.is_empty());
    matches!((ours, theirs), (Ok(ours), Some(theirs)) if ours != Path::new(theirs))
}

/// Returns one file of each home on this machine that provost can see and a check must not.
fn in_homes(workspace: &Path) -> Vec<PathBuf> {
    let others = fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    let homes = others.chain(["/root".into()]).chain(env::var_os("HOME").map(PathBuf::from));
    let first_in = |home: PathBuf| {
        let mut entries = fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.find(|path| !workspace.starts_with(path) && !path.starts_with(HOME) && path.exists())
    };
    homes.filter_map(first_in).collect()
}

/// Returns whether a process that was started with this mark is alive.
fn is_alive(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)).any(
        |entry| {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let own = entry.file_name().to_string_lossy() == std::process::id().to_string();
            !own && words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        },
    )
}
