//! Runs an agent's attempt in the sandbox of the isolation level.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use provost_core::model::event::AttemptEnd;
use provost_core::model::plan::GitPolicy;
use provost_core::model::verdict::Isolation;
use tempfile::TempDir;

use super::ExecEnv;
use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Outbox, item, outbox};
use crate::exec::access::{self, AccessPaths, Grant, HomeLayer, PreparedAccess};
use crate::sandbox::{AgentFence, HomePolicy, NO_NEEDS, SandboxFeatures};
use crate::tree::Apart;
use crate::{Interrupted, agent, tree};

/// A file that agents see with a masked text, if there is a sandbox to show it.
#[derive(Clone, Copy, Debug)]
pub struct Veil<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl Veil<'_> {
    fn written(&self, scratch: &Path) -> Result<tempfile::NamedTempFile, tree::Error> {
        let failed = |source| tree::Error::Io { attempt: "write in", path: scratch.to_owned(), source };
        let mut file = tempfile::Builder::new().prefix("fence-").tempfile_in(scratch).map_err(failed)?;
        std::io::Write::write_all(&mut file, self.text.as_bytes()).map_err(failed)?;
        Ok(file)
    }
}

impl ExecEnv {
    /// Gives the work to an agent, in the sandbox of the level. In bubblewrap, the agent sees the masked
    /// text of `veil`.
    pub fn attempt(
        &self,
        agent: &dyn AgentDriver,
        work: &AttemptInput<'_>,
        veil: Option<Veil<'_>>,
        grant: &Grant<'_>,
        apart: Option<&Apart>,
    ) -> Result<AttemptReport, Interrupted> {
        if let Some(Err(error)) = work.outbox.map(item::lay_out) {
            return Ok(AttemptReport::not_started(&error));
        }
        let attempt = self
            .watched_attempt(work, grant, apart, || self.attempt_at_level(agent, work, veil, grant, apart))?;
        Ok(posted(work.outbox, attempt))
    }

    fn attempt_at_level(
        &self,
        agent: &dyn AgentDriver,
        work: &AttemptInput<'_>,
        veil: Option<Veil<'_>>,
        grant: &Grant<'_>,
        apart: Option<&Apart>,
    ) -> Result<AttemptReport, Interrupted> {
        // In bubblewrap the step worktree is mounted over the workspace; elsewhere the agent works at its
        // real path.
        let here = AttemptInput { workspace: apart.map_or(work.workspace, |apart| &apart.folder), ..*work };
        if let Some(offer) = self.confining() {
            return self.confined_attempt(offer, agent, &here, grant);
        }
        let Some(offer) = self.offer.as_ref().filter(|_| self.level == Isolation::Clean) else {
            return agent.attempt(&here);
        };
        // Two agents must not share an index.
        let own_clone = match apart.map(|_| self.new_clone()).transpose() {
            Ok(clone) => clone.flatten(),
            Err(error) => return Ok(AttemptReport::not_started(&error)),
        };
        let ready = match self.ready(offer, work, grant, own_clone.as_ref().map(TempDir::path)) {
            Ok(ready) => ready,
            Err(error) => return Ok(AttemptReport::not_started(&error)),
        };
        let mut attempt = self.fenced_attempt(agent, work, offer, (&ready, grant), veil, apart);
        if matches!(&attempt, Ok(first) if matches!(first.end, AttemptEnd::NotStarted { .. }))
            && let Some(aside) = ready.layer.as_ref().and_then(HomeLayer::set_aside)
        {
            // Files that earlier attempts wrote to their home must not keep the next attempt from starting.
            attempt =
                self.fenced_attempt(agent, work, offer, (&ready, grant), veil, apart).map(|mut again| {
                    let aside = aside.display();
                    again.notes.push(format!(
                        "the agent could not start with what earlier attempts wrote to its home; provost \
                     moved that to {aside}"
                    ));
                    again
                });
        }
        let notes = ready.close();
        attempt.map(|mut attempt| {
            attempt.notes.extend(notes);
            attempt
        })
    }

    pub(super) fn ready<'g>(
        &self,
        offer: &SandboxFeatures,
        work: &AttemptInput<'_>,
        grant: &Grant<'g>,
        own_clone: Option<&Path>,
    ) -> Result<PreparedAccess<'g>, access::Error> {
        let clone = match grant.reach.git {
            GitPolicy::Clone if own_clone.is_some() => own_clone.map(Path::to_owned),
            GitPolicy::Clone => self.clone().map_err(|source| access::Error::Clone { source })?,
            GitPolicy::None | GitPolicy::Shared => None,
        };
        let place = AccessPaths {
            workspace: &self.workspace,
            state: &self.state,
            scratch: &self.scratch,
            repository: &self.repository,
            clone: clone.as_deref(),
        };
        PreparedAccess::make(offer, grant, &place, &agent::environment(work))
    }

    /// Returns the clone for this run's agents; makes it at the first call.
    fn clone(&self) -> Result<Option<PathBuf>, tree::Error> {
        let mut clone = self.clone.lock().unwrap_or_else(PoisonError::into_inner);
        if clone.is_none() {
            *clone = self.new_clone()?;
        }
        Ok(clone.as_ref().map(|made| made.path().to_owned()))
    }

    fn new_clone(&self) -> Result<Option<TempDir>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(None) };
        let Some(commit) = &approved.commit else { return Ok(None) };
        let folder = tempfile::Builder::new().prefix("clone-").tempdir_in(&self.scratch);
        let folder = folder.map_err(|source| tree::Error::Io {
            attempt: "make a folder in",
            path: self.scratch.clone(),
            source,
        })?;
        approved.trees.clone_of(commit, folder.path())?;
        Ok(Some(folder))
    }

    fn fenced_attempt(
        &self,
        agent: &dyn AgentDriver,
        work: &AttemptInput<'_>,
        offer: &SandboxFeatures,
        (ready, grant): (&PreparedAccess<'_>, &Grant<'_>),
        veil: Option<Veil<'_>>,
        apart: Option<&Apart>,
    ) -> Result<AttemptReport, Interrupted> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        let home = home.unwrap_or_else(|| self.scratch.clone());
        // Agents must not write the programs that checks use. Writes to a home with an overlay never reach
        // the real home.
        let is_layered = ready.layer.is_some() && offer.overlay.is_ok();
        let declared = grant.folders.into_iter();
        let is_written = |tool: &&PathBuf| {
            let mut written = declared.clone().flat_map(|each| &each.write);
            (tool.starts_with(&home) && !is_layered) || written.any(|place| tool.starts_with(place))
        };
        let tools = self.tools.folders().iter().filter(is_written);
        let sight = &ready.sight;
        // A step worktree has copies of these files, which provost never reads.
        let is_there = |path: &&PathBuf| apart.is_none() || !path.starts_with(&self.workspace);
        let read_only = self.read_only.iter().chain(tools).filter(is_there);
        let read_only = read_only.chain(&sight.read_only).chain(declared.clone().flat_map(|each| &each.read));
        let read_only = read_only.map(PathBuf::as_path);
        let read_only: Vec<&Path> = read_only.filter(|path| path.exists()).collect();
        let hidden = [&self.state].into_iter().chain(&self.secrets).chain(&sight.hidden);
        let hidden: Vec<&Path> = hidden.map(PathBuf::as_path).collect();
        let own = apart.map(|apart| (self.workspace.as_path(), apart.folder.as_path()));
        let others = sight.instead.iter().map(|(place, source)| (place.as_path(), source.as_path()));
        let instead: Vec<_> = own.into_iter().chain(others).collect();
        let veil = veil.filter(|veil| self.shows(apart, veil.path));
        // The masked text is outside of every sandbox and is removed with this attempt.
        let veil = match veil.map(|veil| veil.written(&self.scratch).map(|shown| (veil.path, shown))) {
            None => None,
            Some(Ok(veil)) => Some(veil),
            Some(Err(error)) => return Ok(AttemptReport::not_started(&error)),
        };
        let veiled: Vec<(&Path, &Path)> = veil.iter().map(|(path, shown)| (*path, shown.path())).collect();
        let written = declared.flat_map(|each| &each.write);
        let writable = sight.writable.iter().chain(written).map(PathBuf::as_path).chain(work.home);
        let writable = writable.chain(work.outbox.map(|outbox| outbox.folder));
        let fence = AgentFence {
            workspace: &self.workspace,
            writable: &writable.collect::<Vec<_>>(),
            read_only: &read_only,
            veiled: &veiled,
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
        agent::attempt_in_bubblewrap(agent, offer, fence, work)
    }
}

/// Adds the published topics and the statement of the agent's tools to the attempt.
fn posted(outbox: Option<Outbox<'_>>, mut attempt: AttemptReport) -> AttemptReport {
    if let Some(outbox) = outbox {
        outbox::collect(outbox, &mut attempt);
        attempt.said = item::said(outbox);
    }
    attempt
}
