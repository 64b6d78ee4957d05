//! Where agents work and checks run, at the level this machine was seen to hold.
//!
//! At every level but `in-place` a check sees the base a person approved, what the steps before left, and
//! the files inside `touches` as the agent has them now; at `clean` both the check and the agent are behind
//! bubblewrap, at `landlock` and `uid` behind a weaker fence. At `in-place` a check runs in the workspace
//! itself.
//!
//! **Invariant:** a level is attested here, by the self-test, before anything runs at it; one that is
//! demanded and cannot be had is an error.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::event::{IncludedFile, NamedFile};
use provost_core::model::verdict::Isolation;
use tempfile::TempDir;

use crate::provision::{Means, View};
use crate::reach::Repository;
use crate::sandbox::Offer;
use crate::tree::{Base, Layer, Limits, Touches};
use crate::{config, judge, provision, sandbox, tree};

mod above;
mod apart;
mod watched;
mod approved;
mod attempt;
mod carried;
mod case;
mod check;
mod confined;
mod counsel;
mod exhibit;
mod level;
mod out_of_sight;
mod outfit;
mod start;

use above::Above;
pub use apart::{Beginning, forget as forget_apart};
use approved::Approved;
pub use approved::{forget_trees, keeps, trees, trees_of};
pub use attempt::Veil;
pub use carried::Gathered;
pub use case::{Case, Given};
pub use counsel::Desk;
pub use exhibit::Exhibit;
pub use level::{attest, levels};
use outfit::Fitted;
pub use start::Outset;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("isolation `{wanted}` cannot be had here: {why}")]
    Unattested { wanted: Isolation, why: String },
    #[error("the harness's own copy of the workspace could not be made")]
    Trees(#[from] tree::Error),
}

/// What is to be judged and watched over.
#[derive(Clone, Copy, Debug)]
pub struct Estate<'a> {
    pub workspace: &'a Path,
    pub state: &'a Path,
    /// Files of the harness inside the workspace that no agent may write.
    pub read_only: &'a [PathBuf],
    /// A key that proofs are signed with, which no agent may read.
    pub secret: Option<&'a Path>,
    /// Starts what confines itself; without it there is no `landlock` and no `uid`.
    pub launcher: &'a [OsString],
}

pub struct Ground {
    pub level: Isolation,
    workspace: PathBuf,
    state: PathBuf,
    scratch: PathBuf,
    read_only: Vec<PathBuf>,
    secret: Option<PathBuf>,
    /// Where the programs of checks live, as it was before any agent ran.
    tools: Vec<PathBuf>,
    /// What fences are made with; none is needed below `clean`.
    offer: Option<Offer>,
    trees: Option<Approved>,
    /// What the plan may change.
    touches: Touches,
    /// As it was before any agent ran.
    repository: Repository,
    /// The repository of agents that have one of their own; it goes with the run.
    clone: Mutex<Option<TempDir>>,
    /// At `uid`: where trees of checks are, for other users to pass through.
    _open: Option<TempDir>,
    /// At `uid`: the workspace is one agent's at a time.
    handed: Mutex<()>,
}

/// What checks are to find besides their tree.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub provision: &'a config::Provision,
    pub build_caches: bool,
    /// Becomes true when the run is to end.
    pub stop: Option<&'a AtomicBool>,
}

/// What a person approved, as far as files are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Approval<'a> {
    pub revision: &'a str,
    pub commit: Option<&'a str>,
    pub files: &'a [NamedFile],
    /// Files that are not in the commit and were approved with it.
    pub included: &'a [IncludedFile],
    /// Globs; everything, where the plan does not say.
    pub touches: &'a [String],
    pub caches: &'a [String],
    /// How much is taken over from a workspace.
    pub limits: Limits,
    pub wanted: Wanted<'a>,
}

impl Ground {
    /// Makes everything ready before any agent runs.
    pub fn prepare(
        offer: Option<Offer>,
        level: Isolation,
        estate: &Estate<'_>,
        approval: &Approval<'_>,
    ) -> Result<Self, Error> {
        let scratch = estate.state.join("scratch");
        let _ = std::fs::create_dir_all(&scratch);
        sweep(&scratch);
        confined::bring_back(estate);
        let mut trees = match level.has_clean_tree() {
            false => None,
            true => Some(Approved::make(estate, approval)?),
        };
        if let Some(approved) = trees.as_mut().filter(|_| level == Isolation::Uid) {
            // Another user may give a second name to what only this one can read.
            approved.limits.second_names = false;
        }
        if let Some(approved) = trees.as_mut().filter(|_| !level.has_fence()) {
            approved.above = Some(Above::look(&approved.trees.assembles_in()));
        }
        let open = confined::open_place(level)?;
        if let (Some(open), Some(approved)) = (&open, &mut trees) {
            approved.trees.assemble_in(open.path());
            approved.outfit.give_in(open.path());
        }
        if let Some(approved) = &mut trees {
            approved.show_repository(open.as_ref().map(TempDir::path));
        }
        let ground = Self {
            level,
            workspace: estate.workspace.to_owned(),
            state: estate.state.to_owned(),
            scratch,
            read_only: estate.read_only.to_vec(),
            secret: estate.secret.map(Path::to_owned),
            tools: judge::toolchains(estate.workspace),
            offer,
            trees,
            touches: Touches::new(approval.touches)?,
            repository: Repository::of(estate.workspace),
            clone: Mutex::default(),
            _open: open,
            handed: Mutex::default(),
        };
        if let Some(approved) = &ground.trees {
            ground.provide(approved, approval.wanted.stop)?;
        }
        Ok(ground)
    }

    /// Puts in place what the approved base asks for.
    fn provide(&self, approved: &Approved, stop: Option<&AtomicBool>) -> Result<(), Error> {
        let base = &approved.base;
        let nothing: &[&str] = &[];
        let none = Touches::new(nothing)?;
        let layer = approved.trees.take_over(base, &none, &none, &approved.limits)?;
        let deleted = gone(base, &layer);
        let view = view(base, &layer, &deleted);
        self.with_means(approved, base, &layer, stop, |means| approved.outfit.prepare(&view, means));
        Ok(())
    }

    /// How commands are run that put something in place: as checks are.
    fn with_means<T>(
        &self,
        approved: &Approved,
        base: &Base,
        layer: &Layer,
        stop: Option<&AtomicBool>,
        then: impl FnOnce(&Means<'_>) -> T,
    ) -> T {
        let write = || match self.may_install(base, layer) {
            true => approved.trees.assemble(base, layer).map_err(|error| told(&error)),
            false => Err("at `uid` nothing is installed from a lock file that a step changed".to_owned()),
        };
        let ground = match &self.offer {
            Some(offer) if self.level == Isolation::Clean => {
                provision::Ground::Fenced { offer, state: &self.state, scratch: &self.scratch }
            }
            Some(offer) if self.level == Isolation::Landlock => {
                let around = |written: &[&Path], network, program: &OsStr, args: &[OsString]| {
                    let confines = self.around_check(offer, written.iter().copied(), network);
                    sandbox::confine(&confines, program, args)
                };
                return then(&Means {
                    ground: provision::Ground::Confined { write: &write, around: &around },
                    stop,
                });
            }
            _ => provision::Ground::Folder(&write),
        };
        then(&Means { ground, stop })
    }

    /// At `uid` commands that install are not fenced: what an agent changed has no part in them.
    fn may_install(&self, base: &Base, layer: &Layer) -> bool {
        let approved = self.trees.as_ref().is_some_and(|approved| approved.base.id == layer.id);
        self.level != Isolation::Uid || base.id == layer.id && approved
    }

    /// The harness's own folder, outside of every workspace.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Files of the base that are not in it after all, and why; for a word to the user.
    pub fn left_out(&self) -> Vec<String> {
        let left_out = self.trees.iter().flat_map(|approved| &approved.base.left_out);
        left_out.map(ToString::to_string).collect()
    }
}

/// What a run that was killed left behind, long ago.
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

/// What is to vanish from the files of the base.
fn gone(base: &Base, layer: &Layer) -> Vec<PathBuf> {
    // Where a file or a link of the layer stands in the place of a folder, nothing beneath is seen.
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
