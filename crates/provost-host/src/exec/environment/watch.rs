//! Reports what an attempt changes outside of `touches`, and holds back files that provost would obey later
//! until a person trusts them.

use std::path::{Path, PathBuf};

use provost_core::model::plan::GitPolicy;
use provost_core::model::verdict::Isolation;

use super::ExecEnv;
use crate::Interrupted;
use crate::agent::{AttemptInput, AttemptReport};
use crate::check::project_tools;
use crate::exec::access::Grant;
use crate::exec::outside_changes::{ComparedFolders, WorkspaceState};
use crate::plans::trust;
use crate::tree::Apart;

impl ExecEnv {
    /// Runs the attempt and records what it changed outside of `touches`.
    pub(super) fn watched_attempt(
        &self,
        work: &AttemptInput<'_>,
        grant: &Grant<'_>,
        apart: Option<&Apart>,
        attempt: impl FnOnce() -> Result<AttemptReport, Interrupted>,
    ) -> Result<AttemptReport, Interrupted> {
        // In bubblewrap the agent works on a copy and cannot reach the workspace.
        if apart.is_some() && self.level == Isolation::Clean {
            return attempt();
        }
        let known = |path: &Path| self.trees.as_ref().is_none_or(|approved| approved.base.has(path));
        let own = self.protected();
        let scope = ComparedFolders {
            workspace: &self.workspace,
            touches: &self.touches,
            own: &own,
            known: &known,
            repository: self.level != Isolation::Clean || grant.reach.git == GitPolicy::Shared,
        };
        let before = WorkspaceState::look(&scope);
        let plan = work.tag.split('/').next().unwrap_or_default();
        let by = format!("step {} of plan {plan}, attempt {}", work.step, work.attempt);
        let mut deciding = before.deciding(&self.workspace);
        deciding.extend(self.environments());
        let watched = match trust::begin(&self.state, &self.workspace, &by, &deciding, &own) {
            Ok(watched) => watched,
            Err(error) => return Ok(AttemptReport::not_started(&error)),
        };
        let attempt = attempt();
        let mut changes = before.compare(&scope);
        changes.decides.extend(self.environments());
        let ended = watched.end(&changes.decides);
        attempt.map(|mut attempt| {
            attempt.outside = changes.outside;
            attempt.notes.extend(
                ended.err().map(|error| {
                    format!("provost could not record the attempt in the state folder: {error}")
                }),
            );
            attempt
        })
    }

    /// Returns the folders of the workspace that hold, or could hold, programs of later checks.
    fn environments(&self) -> Vec<PathBuf> {
        let caches = self.trees.iter().flat_map(|approved| &approved.caches).map(String::as_str);
        let usual = ["node_modules", ".venv", "venv"];
        let mut names: Vec<PathBuf> = caches.chain(usual).map(PathBuf::from).collect();
        names.extend(project_tools::environments_below(&self.workspace));
        names.sort_unstable();
        names.dedup();
        let folders = names.iter().map(|name| self.workspace.join(name));
        folders.filter(|folder| folder.symlink_metadata().is_ok()).collect()
    }

    /// Returns provost's files that are watched elsewhere, and in bubblewrap also those that no agent can
    /// write.
    fn protected(&self) -> Vec<PathBuf> {
        let is_out_of_reach = |path: &&PathBuf| self.level == Isolation::Clean && path.exists();
        let decides =
            |path: &Path| crate::exec::outside_changes::decides_later(path.as_os_str().as_encoded_bytes());
        self.read_only.iter().filter(|path| is_out_of_reach(path) || !decides(path)).cloned().collect()
    }
}
