//! Runs agents that only answer a question: they read, and can write to one folder for the answer.
//!
//! **Invariant:** in a sandbox, nothing they do reaches the workspace, the repository or the log.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use provost_core::model::plan::{AgentNetwork, GitPolicy};
use provost_core::model::run_policy::HomeAccess;
use provost_core::model::verdict::Isolation;

use super::confined::{PrivateFolders, network_of};
use super::{ExecEnv, RunPaths};
use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Behind};
use crate::check::judge::CheckTools;
use crate::exec::access::{Grant, WorkspaceRepository};
use crate::sandbox::{AgentFence, Confines, HomePolicy, NO_NEEDS, Rules, SandboxFeatures, Unavailable};
use crate::{Interrupted, agent};

/// Paths that the agent may read and write. It works in `sees`.
#[derive(Clone, Copy, Debug)]
pub struct ConsultPaths<'a> {
    pub sees: &'a Path,
    /// Folder for the answer.
    pub answers: Option<&'a Path>,
}

impl ExecEnv {
    /// Creates an environment for reading only: it has no base, and nothing is judged in it.
    pub fn to_read(offer: Option<SandboxFeatures>, level: Isolation, estate: &RunPaths<'_>) -> Self {
        let scratch = estate.state.join("scratch");
        let _ = std::fs::create_dir_all(&scratch);
        super::sweep(&scratch);
        Self {
            level,
            workspace: estate.workspace.to_owned(),
            state: estate.state.to_owned(),
            scratch,
            read_only: estate.read_only.to_vec(),
            secrets: estate.secrets.to_vec(),
            tools: CheckTools::of_person(estate.workspace),
            versions: Mutex::default(),
            test_results: Mutex::default(),
            helper: None,
            offer,
            trees: None,
            touches: crate::tree::Touches::default(),
            repository: WorkspaceRepository::of(estate.workspace),
            clone: Mutex::default(),
        }
    }

    /// Creates a temporary folder for an answer or a tree.
    pub fn desk(&self) -> std::io::Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("desk-").tempdir_in(&self.scratch)
    }

    /// Gives a question to an agent. It has no repository, and no network except its model's.
    pub fn ask(
        &self,
        agent: &dyn AgentDriver,
        work: &AttemptInput<'_>,
        desk: ConsultPaths<'_>,
        grant: &Grant<'_>,
    ) -> Result<AttemptReport, Interrupted> {
        let mut grant = *grant;
        grant.reach.git = GitPolicy::None;
        if grant.reach.network == AgentNetwork::On {
            grant.reach.network = AgentNetwork::Model;
        }
        let work = AttemptInput { workspace: desk.sees, ..*work };
        if let Some(offer) = self.confining() {
            let asked = self.asked_confined(offer, agent, &work, desk, &grant);
            return asked.unwrap_or_else(|error| Ok(AttemptReport::not_started(&error)));
        }
        let Some(offer) = self.offer.as_ref().filter(|_| self.level == Isolation::Clean) else {
            return agent.attempt(&work);
        };
        let ready = match self.ready(offer, &work, &grant, None) {
            Ok(ready) => ready,
            Err(error) => return Ok(AttemptReport::not_started(&error)),
        };
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        let home = home.unwrap_or_else(|| self.scratch.clone());
        let sight = &ready.sight;
        let tools = self.tools.folders().iter().filter(|tool| tool.starts_with(&home));
        let read_only = [self.workspace.as_path(), desk.sees].into_iter();
        let read_only = read_only.chain(tools.chain(&sight.read_only).map(PathBuf::as_path));
        let read_only: Vec<&Path> = read_only.filter(|path| path.exists()).collect();
        let hidden = [&self.state].into_iter().chain(&self.secrets).chain(&sight.hidden);
        let hidden: Vec<&Path> = hidden.map(PathBuf::as_path).collect();
        let instead: Vec<_> =
            sight.instead.iter().map(|(place, source)| (place.as_path(), source.as_path())).collect();
        let writable: Vec<&Path> = desk.answers.into_iter().chain(work.home).collect();
        let fence = AgentFence {
            workspace: desk.sees,
            writable: &writable,
            read_only: &read_only,
            veiled: &[],
            hidden: &hidden,
            instead: &instead,
            network: ready.outlet(),
            home: match &ready.layer {
                Some(layer) => HomePolicy::Layered { home: &home, kept: &layer.folder },
                None => HomePolicy::Users(&home),
            },
            // Filled in when the command is known.
            needs: NO_NEEDS,
            scratch: &self.scratch,
        };
        let attempt = agent::attempt_in_bubblewrap(agent, offer, fence, &work);
        let notes = ready.close();
        attempt.map(|mut attempt| {
            attempt.notes.extend(notes);
            attempt
        })
    }

    /// Asks the agent in a sandbox without namespaces: Landlock.
    fn asked_confined(
        &self,
        offer: &SandboxFeatures,
        agent: &dyn AgentDriver,
        work: &AttemptInput<'_>,
        desk: ConsultPaths<'_>,
        grant: &Grant<'_>,
    ) -> Result<Result<AttemptReport, Interrupted>, Unavailable> {
        let own = PrivateFolders::make()?;
        let hidden: Vec<&Path> = self.secrets.iter().map(PathBuf::as_path).collect();
        let hides_state = !desk.sees.starts_with(&self.state);
        let state = hides_state.then_some(self.state.as_path());
        let hidden: Vec<&Path> = hidden.into_iter().chain(state).collect();
        let mut rules = Rules::of_agent(&hidden, &self.workspace)?;
        rules.write.retain(|path| *path != self.workspace);
        rules.write.push(own.tmp().to_path_buf());
        rules.write.extend(desk.answers.into_iter().chain(work.home).map(Path::to_path_buf));
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        if let (HomeAccess::Shared, Some(home)) = (grant.reach.home, home) {
            rules.frozen.push(self.workspace.clone());
            rules.frozen.extend(self.tools.folders().iter().cloned());
            rules.write.push(home);
        }
        let env = [("TMPDIR".into(), own.tmp().into())];
        let confines =
            Confines { launcher: &offer.launcher, rules, network: network_of(grant), scratch: &self.scratch };
        Ok(agent.attempt(&AttemptInput { fence: Some(Behind::Confines(&confines, &env)), ..*work }))
    }
}
