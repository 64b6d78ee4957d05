//! Runs agents and checks in a sandbox without namespaces: Landlock, or another user.
//!
//! The tree is the one of `guard+clean`. An agent can write its workspace and its own temporary folder; a
//! check can write its tree, its home and its temporary folder.
//!
//! **Invariant:** a process is confined by its [`Confines`] before it runs; if that fails, it does not run.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use provost_core::model::hash::Hash;
use provost_core::model::plan::AgentNetwork;
use provost_core::model::run_policy::HomeAccess;
use provost_core::model::verdict::{Isolation, Verdict};
use tempfile::TempDir;

use super::{CheckMounts, CheckSpec, ExecEnv, RunPaths};
use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Behind, Outbox, item};
use crate::exec::access::Grant;
use crate::sandbox::{Confinement, Confines, Network, Rules, SandboxFeatures, Unavailable};
use crate::tree::chown::{self, Handover};
use crate::{Interrupted, process, sandbox, tree};

/// Folders beside a folder of programs.
const LIBRARIES: [&str; 4] = ["lib", "lib64", "libexec", "include"];

/// A home and a temporary folder for one agent or check; removed on drop.
pub struct PrivateFolders {
    _folder: TempDir,
    places: [PathBuf; 2],
}

impl PrivateFolders {
    pub fn make() -> Result<Self, Unavailable> {
        let make = || -> io::Result<Self> {
            let folder = tempfile::Builder::new().prefix("provost-own-").tempdir()?;
            // Other users may traverse this folder to reach their own inside it.
            fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
            let places = ["home", "tmp"].map(|name| folder.path().join(name));
            for place in &places {
                fs::create_dir(place)?;
                fs::set_permissions(place, Permissions::from_mode(0o700))?;
            }
            Ok(Self { _folder: folder, places })
        };
        make().map_err(|source| Unavailable::Scratch { path: std::env::temp_dir(), source })
    }

    pub fn home(&self) -> &Path {
        &self.places[0]
    }

    pub fn tmp(&self) -> &Path {
        &self.places[1]
    }

    /// Returns variables that take precedence over others of these names.
    pub fn environment(&self) -> [(OsString, OsString); 2] {
        [("HOME".into(), self.home().into()), ("TMPDIR".into(), self.tmp().into())]
    }
}

/// A check that is ready to run in its sandbox.
pub struct ConfinedCheck<'a> {
    pub confines: Confines<'a>,
    pub env: Vec<(OsString, OsString)>,
    _own: PrivateFolders,
}

impl ConfinedCheck<'_> {
    /// Kills the remaining processes of the check's user. If one survives, the verdict is "not run".
    pub fn over(
        self,
        level: Isolation,
        verdict: Result<Verdict, Interrupted>,
    ) -> Result<Verdict, Interrupted> {
        let Confinement::Uid(user) = self.confines.by else { return verdict };
        match process::end_user(user).first() {
            None => verdict,
            Some(left) => Ok(Verdict::not_run(level, format!("{left} could not be ended"))),
        }
    }
}

/// Takes back the files that a killed run left in another user's ownership.
pub fn bring_back(estate: &RunPaths<'_>) {
    if let Ok(Some(left)) = Handover::left_over(&record(estate.state, estate.workspace)) {
        process::end_user(left.user());
        // An error shows when the next attempt cannot begin.
        let _ = left.end();
    }
}

fn record(state: &Path, workspace: &Path) -> PathBuf {
    let key = Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    state.join(format!("handed-over-{}", &key[..16]))
}

/// Creates the folder for trees that checks of another user can enter; `None` at other levels than `uid`.
pub fn open_place(level: Isolation) -> Result<Option<TempDir>, tree::Error> {
    if level != Isolation::Uid {
        return Ok(None);
    }
    let make = || -> io::Result<TempDir> {
        let folder = tempfile::Builder::new().prefix("provost-ground-").tempdir()?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        Ok(folder)
    };
    let path = std::env::temp_dir();
    make().map(Some).map_err(|source| tree::Error::Io { attempt: "make a folder in", path, source })
}

impl ExecEnv {
    /// Returns the sandbox features, at the levels without namespaces.
    pub(super) fn confining(&self) -> Option<&SandboxFeatures> {
        self.offer.as_ref().filter(|_| matches!(self.level, Isolation::Landlock | Isolation::Uid))
    }

    fn confines<'a>(&'a self, offer: &'a SandboxFeatures, by: Confinement, network: Network) -> Confines<'a> {
        Confines { launcher: &offer.launcher, by, network, scratch: &self.scratch }
    }

    /// Returns the folders of programs that checks use, and of the libraries that these load. Checks can
    /// see that these files exist, so they must be able to open them.
    fn programs(&self) -> Vec<PathBuf> {
        let beside = |tools: &PathBuf| match (tools.ends_with("bin"), tools.parent()) {
            (true, Some(parent)) => LIBRARIES.map(|name| parent.join(name)).to_vec(),
            _ => Vec::new(),
        };
        let libraries = self.tools.iter().flat_map(beside).filter(|folder| folder.is_dir());
        self.tools.iter().cloned().chain(libraries).collect()
    }

    /// Returns a Landlock sandbox for a check that may write these paths.
    pub(super) fn around_check<'a, 'w>(
        &'a self,
        offer: &'a SandboxFeatures,
        written: impl IntoIterator<Item = &'w Path>,
        network: Network,
    ) -> Confines<'a> {
        let mut rules = Rules::of_check(offer, &self.state, network, &self.programs());
        rules.write.extend(written.into_iter().map(Path::to_path_buf));
        let repository = self.trees.as_ref().and_then(|approved| approved.repository.as_ref());
        rules.read.extend(repository.map(|repository| repository.objects.clone()));
        self.confines(offer, Confinement::Landlock(rules), network)
    }

    pub(super) fn confined_check<'a>(
        &'a self,
        offer: &'a SandboxFeatures,
        folder: &Path,
        fitted: &CheckMounts,
        case: &CheckSpec<'_>,
    ) -> Result<ConfinedCheck<'a>, Unavailable> {
        let own = PrivateFolders::make()?;
        let network = if case.network { Network::On } else { Network::Off };
        let written = [folder, own.home(), own.tmp()].into_iter().chain(fitted.places());
        let confines = match self.level {
            Isolation::Uid => {
                let user = sandbox::unused_uid();
                for path in written {
                    chown::give(path, user).map_err(|source| scratch(path, source))?;
                }
                self.confines(offer, Confinement::Uid(user), network)
            }
            _ => {
                let mut confines = self.around_check(offer, written, network);
                if let (Confinement::Landlock(rules), Some(folders)) = (&mut confines.by, case.given.folders)
                {
                    rules.read.extend(folders.read.iter().cloned());
                    rules.write.extend(folders.write.iter().cloned());
                }
                confines
            }
        };
        let env = fitted.env.iter().cloned().chain(own.environment()).collect();
        Ok(ConfinedCheck { confines, env, _own: own })
    }

    pub(super) fn confined_attempt(
        &self,
        offer: &SandboxFeatures,
        agent: &dyn AgentDriver,
        work: &AttemptInput<'_>,
        grant: &Grant<'_>,
    ) -> Result<AttemptReport, Interrupted> {
        let attempt = match self.level {
            Isolation::Uid => self.attempt_by_another(offer, agent, work, grant),
            _ => self.around_agent(offer, work, grant).map(|(own, by)| {
                let confines = self.confines(offer, by, network_of(grant));
                let env = [("TMPDIR".into(), own.tmp().into())];
                agent.attempt(&AttemptInput { fence: Some(Behind::Confines(&confines, &env)), ..*work })
            }),
        };
        attempt.unwrap_or_else(|error| Ok(AttemptReport::not_started(&error)))
    }

    fn around_agent(
        &self,
        offer: &SandboxFeatures,
        work: &AttemptInput<'_>,
        grant: &Grant<'_>,
    ) -> Result<(PrivateFolders, Confinement), Unavailable> {
        let own = PrivateFolders::make()?;
        let hidden: Vec<&Path> =
            [&self.state].into_iter().chain(&self.secret).map(PathBuf::as_path).collect();
        let mut rules = Rules::of_agent(&hidden, work.workspace)?;
        rules.write.push(own.tmp().to_path_buf());
        rules.write.extend(grant.folders.into_iter().flat_map(|folders| folders.write.iter().cloned()));
        rules.write.extend(work.home.map(Path::to_path_buf));
        rules.write.extend(work.outbox.map(|outbox| outbox.folder.to_path_buf()));
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        if let (HomeAccess::Shared, Some(home)) = (grant.reach.home, home) {
            // Agents must not write the programs that checks use.
            rules.frozen.extend(self.programs());
            rules.frozen.extend(offer.launcher.first().map(PathBuf::from));
            rules.frozen.retain(|frozen| !frozen.starts_with(work.workspace));
            rules.write.push(home);
        }
        Ok((own, Confinement::Landlock(rules)))
    }

    /// Runs an attempt as another user, who owns the workspace meanwhile.
    fn attempt_by_another(
        &self,
        offer: &SandboxFeatures,
        agent: &dyn AgentDriver,
        work: &AttemptInput<'_>,
        grant: &Grant<'_>,
    ) -> Result<Result<AttemptReport, Interrupted>, Unavailable> {
        let _alone = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        let own = PrivateFolders::make()?;
        let user = sandbox::unused_uid();
        for place in [own.home(), own.tmp()] {
            chown::give(place, user).map_err(|source| scratch(place, source))?;
        }
        let record = record(&self.state, &self.workspace);
        let handover = Handover::begin(&record, &self.workspace, user, &self.read_only)
            .map_err(|source| scratch(&self.workspace, source))?;
        let confines = self.confines(offer, Confinement::Uid(user), network_of(grant));
        let env: Vec<_> = own.environment().into_iter().chain(trusting_git(work)).collect();
        // Other users cannot enter the state folder, so the client's folder is a temporary one here.
        let [client, topics] = ["client", "topics"].map(|name| own.home().join(name));
        let outbox = work.outbox.map(|outbox| Outbox { folder: &topics, ..outbox });
        for place in [&client, &topics] {
            fs::create_dir(place).map_err(|source| scratch(place, source))?;
            if place == &topics {
                outbox.map_or(Ok(()), item::lay_out).map_err(|source| scratch(place, source))?;
            }
            chown::give(place, user).map_err(|source| scratch(place, source))?;
        }
        let home = work.home.map(|_| client.as_path());
        let fence = Some(Behind::Confines(&confines, &env));
        let attempt = agent.attempt(&AttemptInput { fence, home, resume: None, outbox, ..*work });
        let left = process::end_user(user);
        let back = handover.end();
        Ok(attempt.map(|attempt| {
            let mut attempt = super::attempt::posted(outbox, AttemptReport { session: None, ..attempt });
            attempt.survivors.extend(left);
            if let Err(error) = back {
                attempt.notes.push(format!("provost could not give back all of the workspace: {error}"));
            }
            attempt
        }))
    }
}

/// Returns the agent's network. Without a network namespace, access cannot be limited to the model.
fn network_of(grant: &Grant<'_>) -> Network {
    match grant.reach.network {
        AgentNetwork::Off => Network::Off,
        AgentNetwork::On | AgentNetwork::Model => Network::On,
    }
}

/// Git refuses to work in a folder that another user owns, and the workspace's top folder is owned by
/// another user.
fn trusting_git(work: &AttemptInput<'_>) -> Vec<(OsString, OsString)> {
    if work.environment.iter().any(|(name, _)| name == "GIT_CONFIG_COUNT") {
        return Vec::new();
    }
    let pairs =
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")];
    pairs.map(|(name, value)| (name.into(), value.into())).into()
}

fn scratch(path: &Path, source: io::Error) -> Unavailable {
    Unavailable::Scratch { path: path.to_path_buf(), source }
}
