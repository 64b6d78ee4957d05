//! Runs agents and checks in a sandbox without namespaces: Landlock.
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

use provost_core::model::plan::AgentNetwork;
use provost_core::model::run_policy::HomeAccess;
use provost_core::model::verdict::Isolation;
use tempfile::TempDir;

use super::{CheckMounts, CheckSpec, ExecEnv};
use crate::Interrupted;
use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Behind};
use crate::exec::access::Grant;
use crate::sandbox::{Confines, Network, Rules, SandboxFeatures, Unavailable};

/// Folders beside a folder of programs.
const LIBRARIES: [&str; 4] = ["lib", "lib64", "libexec", "include"];

/// A home and a temporary folder for one agent or check; removed on drop.
pub(super) struct PrivateFolders {
    _folder: TempDir,
    places: [PathBuf; 2],
}

impl PrivateFolders {
    pub(super) fn make() -> Result<Self, Unavailable> {
        let make = || -> io::Result<Self> {
            let folder = tempfile::Builder::new().prefix("provost-own-").tempdir()?;
            let places = ["home", "tmp"].map(|name| folder.path().join(name));
            for place in &places {
                fs::create_dir(place)?;
                fs::set_permissions(place, Permissions::from_mode(0o700))?;
            }
            Ok(Self { _folder: folder, places })
        };
        make().map_err(|source| Unavailable::Scratch { path: std::env::temp_dir(), source })
    }

    pub(super) fn home(&self) -> &Path {
        &self.places[0]
    }

    pub(super) fn tmp(&self) -> &Path {
        &self.places[1]
    }

    /// Returns variables that take precedence over others of these names.
    pub(super) fn environment(&self) -> [(OsString, OsString); 2] {
        [("HOME".into(), self.home().into()), ("TMPDIR".into(), self.tmp().into())]
    }
}

/// A check that is ready to run in its sandbox.
pub(super) struct ConfinedCheck<'a> {
    pub confines: Confines<'a>,
    pub env: Vec<(OsString, OsString)>,
    _own: PrivateFolders,
}

impl ExecEnv {
    /// Returns the sandbox features, at the levels without namespaces.
    pub(super) fn confining(&self) -> Option<&SandboxFeatures> {
        self.offer.as_ref().filter(|_| self.level == Isolation::Landlock)
    }

    fn confines<'a>(&'a self, offer: &'a SandboxFeatures, rules: Rules, network: Network) -> Confines<'a> {
        Confines { launcher: &offer.launcher, rules, network, scratch: &self.scratch }
    }

    /// Returns the folders of programs that checks use, and of the libraries that these load. Checks can
    /// see that these files exist, so they must be able to open them.
    fn programs(&self) -> Vec<PathBuf> {
        let beside = |tools: &PathBuf| match (tools.ends_with("bin"), tools.parent()) {
            (true, Some(parent)) => LIBRARIES.map(|name| parent.join(name)).to_vec(),
            _ => Vec::new(),
        };
        let libraries = self.tools.folders().iter().flat_map(beside).filter(|folder| folder.is_dir());
        self.tools.folders().iter().cloned().chain(libraries).collect()
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
        self.confines(offer, rules, network)
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
        let mut confines = self.around_check(offer, written, network);
        if let Some(folders) = case.given.folders {
            confines.rules.read.extend(folders.read.iter().cloned());
            confines.rules.write.extend(folders.write.iter().cloned());
        }
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
        let (own, rules) = match self.around_agent(offer, work, grant) {
            Ok(around) => around,
            Err(error) => return Ok(AttemptReport::not_started(&error)),
        };
        let confines = self.confines(offer, rules, network_of(grant));
        let env = [("TMPDIR".into(), own.tmp().into())];
        agent.attempt(&AttemptInput { fence: Some(Behind::Confines(&confines, &env)), ..*work })
    }

    fn around_agent(
        &self,
        offer: &SandboxFeatures,
        work: &AttemptInput<'_>,
        grant: &Grant<'_>,
    ) -> Result<(PrivateFolders, Rules), Unavailable> {
        let own = PrivateFolders::make()?;
        let hidden: Vec<&Path> =
            [&self.state].into_iter().chain(&self.secrets).map(PathBuf::as_path).collect();
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
        Ok((own, rules))
    }
}

/// Returns the agent's network. Without a network namespace, access cannot be limited to the model.
pub(super) fn network_of(grant: &Grant<'_>) -> Network {
    match grant.reach.network {
        AgentNetwork::Off => Network::Off,
        AgentNetwork::On | AgentNetwork::Model => Network::On,
    }
}
