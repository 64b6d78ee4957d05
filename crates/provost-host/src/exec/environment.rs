//! Execution environment: runs agents and checks at the isolation level that this machine has attested.
//!
//! At every level except `in-place`, a check sees the base that a person approved, the work of the steps
//! before, and the files inside `touches` as the agent has them now. At `clean`, checks and agents run in
//! bubblewrap; at `landlock`, in a weaker sandbox. At `in-place`, a check runs in the workspace itself.
//!
//! **Invariant:** the self-test attests a level before anything runs at it; a level that is demanded but
//! not available is an error.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use provost_core::model::event::{IncludedFile, NamedFile};
use provost_core::model::test_results::TestResults;
use provost_core::model::verdict::{CheckEnvironment, Isolation, ToolVersion};
use tempfile::TempDir;

use crate::check::judge::CheckTools;
use crate::check::provision::{self, InstallEnvironment, View};
use crate::exec::access::WorkspaceRepository;
use crate::sandbox::SandboxFeatures;
use crate::tree::{Base, CopyTrust, ImportLimits, Layer, Touches};
use crate::{config, sandbox, tree};

mod ancestor_config;
mod step_worktree;
mod watch;
mod approved;
mod attempt;
mod remote_tree;
mod check_request;
mod environments;
mod machine_programs;
mod test_comparison;
mod tool_versions;
mod check;
mod check_helper;
mod confined;
mod consult;
mod change_set;
mod level;
mod hidden_paths;
mod control_beside;
mod kept_results;
mod mounts;
mod moved_paths;
mod start;
mod trial_tree;
mod varied;

pub use crate::check::judge::OutputListener;
use ancestor_config::Above;
use approved::ApprovedTree;
pub use approved::{keeps, trees, trees_of};
pub use attempt::Veil;
pub use change_set::Exhibit;
use check_helper::CheckHelper;
pub use check_request::{CheckExtras, CheckSpec, Comparison};
pub use consult::ConsultPaths;
pub use level::{attest, levels};
use mounts::CheckMounts;
pub use remote_tree::{AgentFiles, LeftWork};
pub use start::Outset;
pub use step_worktree::{StepWorktreeStart, forget as forget_apart};
pub use trial_tree::TrialTree;
pub use varied::{FileEdit, KeptPair};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("isolation `{wanted}` is not available here: {why}")]
    Unattested { wanted: Isolation, why: String },
    #[error("provost could not make its own copy of the workspace")]
    Trees(#[from] tree::Error),
}

/// Paths that a run works with.
#[derive(Clone, Copy, Debug)]
pub struct RunPaths<'a> {
    pub workspace: &'a Path,
    pub state: &'a Path,
    /// provost's files inside the workspace that no agent may write.
    pub read_only: &'a [PathBuf],
    /// Files and folders that no agent may read: the key that signs proofs, credentials of the log.
    pub secrets: &'a [PathBuf],
    /// The command that starts a process that confines itself; without it, `landlock` is not available.
    pub launcher: &'a [OsString],
}

/// provost's tree of the approved files, before the level of the run is known.
pub struct PreparedTree(ApprovedTree);

impl PreparedTree {
    /// Makes the tree, and the repository that checks see. No agent may be at work yet.
    pub fn make(estate: &RunPaths<'_>, approval: &ApprovedFiles<'_>) -> Result<Self, Error> {
        let mut approved = ApprovedTree::make(estate, approval)?;
        // The first check needs it, and it takes a moment; if no thread can start, the check waits for it.
        let tools = approved.tools.clone();
        let _ = thread::Builder::new().name("provost-tools".to_owned()).spawn(move || tools.libraries());
        approved.show_repository();
        Ok(Self(approved))
    }
}

pub struct ExecEnv {
    pub level: Isolation,
    workspace: PathBuf,
    state: PathBuf,
    scratch: PathBuf,
    read_only: Vec<PathBuf>,
    secrets: Vec<PathBuf>,
    /// How the programs of checks are found, worked out before any agent ran.
    tools: CheckTools,
    /// Versions of the tools that contracts call, as far as they were asked for.
    versions: Mutex<BTreeMap<String, ToolVersion>>,
    /// Results of single tests that this process measured, by the file that keeps them.
    test_results: Mutex<BTreeMap<PathBuf, TestResults>>,
    /// The program that every check finds as `provost-check`.
    helper: Option<CheckHelper>,
    /// The machine's sandbox features; not needed below `clean`.
    offer: Option<SandboxFeatures>,
    trees: Option<ApprovedTree>,
    /// Globs of the files that the plan may change.
    touches: Touches,
    /// The repository, as it was before any agent ran.
    repository: WorkspaceRepository,
    /// The clone for agents that have their own repository; removed at the end of the run.
    clone: Mutex<Option<TempDir>>,
}

/// Settings for the things that checks need besides their tree.
#[derive(Clone, Copy, Debug)]
pub struct CheckSettings<'a> {
    pub provision: &'a config::Provision,
    pub build_caches: bool,
    /// Set to `true` to end the run.
    pub stop: Option<&'a AtomicBool>,
}

/// The part of an approval that is about files.
#[derive(Clone, Copy, Debug)]
pub struct ApprovedFiles<'a> {
    pub revision: &'a str,
    pub commit: Option<&'a str>,
    pub files: &'a [NamedFile],
    /// Files outside of the commit that were approved with it.
    pub included: &'a [IncludedFile],
    /// Globs; everything, if the plan has none.
    pub touches: &'a [String],
    pub caches: &'a [String],
    /// Limits on what is imported from a workspace.
    pub limits: ImportLimits,
    /// Environments that the person made or changed in the workspace since the approval are used: agents
    /// that work there are watched.
    pub adopts: bool,
    /// Whether what other plans have kept can be used.
    pub copies: &'a CopyTrust,
    /// The environment of an earlier check, which is used again.
    pub recorded: Option<&'a CheckEnvironment>,
    pub wanted: CheckSettings<'a>,
}

impl ExecEnv {
    /// Prepares the environment before any agent runs.
    pub fn prepare(
        offer: Option<SandboxFeatures>,
        level: Isolation,
        estate: &RunPaths<'_>,
        approval: &ApprovedFiles<'_>,
    ) -> Result<Self, Error> {
        Self::prepare_on(offer, level, estate, approval, || PreparedTree::make(estate, approval))
    }

    /// The same on a tree that may have been prepared before; the level decides whether there is one.
    pub fn prepare_on(
        offer: Option<SandboxFeatures>,
        level: Isolation,
        estate: &RunPaths<'_>,
        approval: &ApprovedFiles<'_>,
        tree: impl FnOnce() -> Result<PreparedTree, Error>,
    ) -> Result<Self, Error> {
        let scratch = estate.state.join("scratch");
        let _ = std::fs::create_dir_all(&scratch);
        sweep(&scratch);
        let mut trees = match level.has_clean_tree() {
            false => None,
            true => Some(tree()?.0),
        };
        if let Some(approved) = trees.as_mut().filter(|_| !level.has_fence()) {
            approved.above = Some(Above::look(&approved.trees.assembles_in()));
        }
        let ground = Self {
            level,
            workspace: estate.workspace.to_owned(),
            state: estate.state.to_owned(),
            scratch,
            read_only: estate.read_only.to_vec(),
            secrets: estate.secrets.to_vec(),
            tools: match &trees {
                Some(approved) => approved.tools.clone(),
                None => CheckTools::of_person(estate.workspace),
            },
            versions: Mutex::default(),
            test_results: Mutex::default(),
            helper: CheckHelper::of(estate.launcher),
            offer,
            trees,
            touches: Touches::new(approval.touches)?,
            repository: WorkspaceRepository::of(estate.workspace),
            clone: Mutex::default(),
        };
        if let Some(approved) = &ground.trees {
            ground.provide(approved, approval.wanted.stop)?;
        }
        Ok(ground)
    }

    /// Installs the dependencies of the approved base.
    fn provide(&self, approved: &ApprovedTree, stop: Option<&AtomicBool>) -> Result<(), Error> {
        let base = &approved.base;
        let nothing: &[&str] = &[];
        let none = Touches::new(nothing)?;
        let layer = approved.trees.take_over(base, &none, &none, &approved.limits)?;
        let deleted = gone(base, &layer);
        let view = view(base, &layer, &deleted);
        self.with_means(approved, base, &layer, stop, |means| approved.outfit.prepare(&view, means));
        Ok(())
    }

    /// Calls `then` with the environment for commands that install dependencies: the same as for checks.
    fn with_means<T>(
        &self,
        approved: &ApprovedTree,
        base: &Base,
        layer: &Layer,
        stop: Option<&AtomicBool>,
        then: impl FnOnce(&InstallEnvironment<'_>) -> T,
    ) -> T {
        let write = || approved.trees.assemble(base, layer).map_err(|error| told(&error));
        let ground = match &self.offer {
            Some(offer) if self.level == Isolation::Clean => {
                provision::InstallSandbox::Fenced { offer, state: &self.state, scratch: &self.scratch }
            }
            Some(offer) if self.level == Isolation::Landlock => {
                let around = |written: &[&Path], network, program: &OsStr, args: &[OsString]| {
                    let confines = self.around_check(offer, written.iter().copied(), network);
                    sandbox::confine(&confines, program, args)
                };
                return then(&InstallEnvironment {
                    ground: provision::InstallSandbox::Confined { write: &write, around: &around },
                    stop,
                });
            }
            _ => provision::InstallSandbox::Folder(&write),
        };
        then(&InstallEnvironment { ground, stop })
    }

    /// Returns provost's own folder, outside of every workspace.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the files that were left out of the base, with the reasons, for the user.
    pub fn left_out(&self) -> Vec<String> {
        let left_out = self.trees.iter().flat_map(|approved| &approved.base.left_out);
        left_out.map(ToString::to_string).collect()
    }
}

/// Removes files that a killed run left behind more than a day ago.
fn sweep(scratch: &Path) {
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let is_old = entry.metadata().and_then(|found| found.modified()).is_ok_and(|modified| {
            modified.elapsed().is_ok_and(|age| age > Duration::from_secs(24 * 60 * 60))
        });
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = |prefixes: &[&str]| is_old && prefixes.iter().any(|prefix| name.starts_with(prefix));
        if is_ours(&["fence-", "gitdir-"]) {
            let _ = std::fs::remove_file(entry.path());
        } else if is_ours(&["clone-", "desk-", "proxy-"]) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the paths that are deleted from the base.
fn gone(base: &Base, layer: &Layer) -> Vec<PathBuf> {
    // Below a folder that the layer replaced by a file or link, nothing is visible anyway.
    let changed: HashSet<&Path> = layer.changed_paths().filter(|_| !base.gone.is_empty()).collect();
    let is_covered = |path: &&Path| path.ancestors().skip(1).any(|above| changed.contains(above));
    let before = base.gone.iter().map(PathBuf::as_path).filter(|path| !is_covered(path));
    layer.vanished_paths().chain(before).map(Path::to_owned).collect()
}

fn view<'a>(base: &'a Base, layer: &'a Layer, deleted: &'a [PathBuf]) -> View<'a> {
    View { base: &base.path, over: base.over.as_deref(), layer: &layer.path, deleted }
}

fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
