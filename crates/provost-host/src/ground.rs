//! Where agents work and checks run, at the level this machine was seen to hold.
//!
//! At every level but `in-place` a check sees the base a person approved, what the steps before left, and
//! the files inside `touches` as the agent has them now; at `clean` both the check and the agent are behind
//! bubblewrap, at `landlock` and `uid` behind a weaker fence. At `in-place` a check runs in the workspace
//! itself.
//!
//! **Invariant:** a level is attested here, by the self-test, before anything runs at it; one that is
//! demanded and cannot be had is an error.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use provost_core::chain::Hash;
use provost_core::event::NamedFile;
use provost_core::plan::Shell;
use provost_core::terms::GitPolicy;
use provost_core::verdict::{Isolation, Outcome, Tree, Verdict};
use tempfile::TempDir;

use crate::Interrupted;
use crate::agent::{self, Agent, Attempt, Behind, Outbox, Work, item, outbox};
use crate::config;
use crate::judge::{self, Court};
use crate::process::Bounds;
use crate::provision::{self, Means, Missing, View};
use crate::reach::{self, Grant, Place, Ready, Repository};
use crate::sandbox::{self, AgentFence, CheckFence, CheckTree, HomePolicy, Network, Offer, USUAL_SIZE};
use crate::teeth::{self, Bench, Doubts};
use crate::tree::{self, Apart, Base, Layer, Limits, Touches, Trees, Variation, Why};

mod above;
mod apart;
mod confined;
mod counsel;
mod exhibit;
mod level;
mod outfit;

use above::Above;
pub use apart::{Beginning, forget as forget_apart};
pub use counsel::Desk;
pub use exhibit::Exhibit;
pub use level::{attest, levels};
use outfit::{Fitted, Outfit};

/// So many names of files go into a verdict; the tree's id covers all.
const NAMES: usize = 40;

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
    /// As it was before any agent ran.
    repository: Repository,
    /// The repository of agents that have one of their own; it goes with the run.
    clone: Mutex<Option<TempDir>>,
    /// At `uid`: where trees of checks are, for other users to pass through.
    _open: Option<TempDir>,
    /// At `uid`: the workspace is one agent's at a time.
    handed: Mutex<()>,
}

/// The harness's trees, and the one that was approved.
struct Approved {
    trees: Trees,
    base: Base,
    touches: Touches,
    caches: Vec<String>,
    commit: Option<String>,
    outfit: Outfit,
    /// Without a fence: what was above the trees of checks before any agent ran.
    above: Option<Above>,
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
    /// Globs; everything, where the plan does not say.
    pub touches: &'a [String],
    pub caches: &'a [String],
    pub wanted: Wanted<'a>,
}

/// A file that agents see with another text, where there is a fence to show it.
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

/// One check.
pub struct Case<'a> {
    pub shell: &'a Shell,
    pub timeout: Duration,
    pub tag: &'a str,
    pub stop: Option<&'a AtomicBool>,
    /// The tree the steps before left; the approved one, if none has passed.
    pub tree: Option<&'a str>,
    /// What the agent has changed takes part; without it the base alone is looked at.
    pub with_work: bool,
    /// Where the agent worked, if not in the workspace.
    pub apart: Option<&'a Apart>,
    /// What the step may change of what the plan may; all of it, where it says nothing.
    pub touches: Option<&'a [String]>,
    pub protect: &'a [String],
    pub network: bool,
    /// How much of the machine it may take.
    pub bounds: Option<Bounds>,
    /// How far the check itself is doubted.
    pub doubts: Doubts,
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
        if let Some(approved) = trees.as_mut().filter(|_| !level.has_fence()) {
            approved.above = Some(Above::look(&approved.trees.assembles_in()));
        }
        let open = confined::open_place(level)?;
        if let (Some(open), Some(approved)) = (&open, &mut trees) {
            approved.trees.assemble_in(open.path());
            approved.outfit.give_in(open.path());
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
        let layer = approved.trees.take_over(base, &none, &none, &Limits::default())?;
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

    /// Gives the work to an agent, behind the fence that belongs to the level. Behind one, a veiled file
    /// shows another text.
    pub fn attempt(
        &self,
        agent: &dyn Agent,
        work: &Work<'_>,
        veil: Option<Veil<'_>>,
        grant: &Grant<'_>,
        apart: Option<&Apart>,
    ) -> Result<Attempt, Interrupted> {
        let outbox = work.outbox.filter(|_| self.level != Isolation::Uid);
        if let Some(Err(error)) = outbox.map(item::lay_out) {
            return Ok(Attempt::not_started(&error));
        }
        let attempt = self.attempt_at_level(agent, work, veil, grant, apart)?;
        // At `uid` its place is gone by now, and was emptied.
        Ok(posted(outbox, attempt))
    }

    fn attempt_at_level(
        &self,
        agent: &dyn Agent,
        work: &Work<'_>,
        veil: Option<Veil<'_>>,
        grant: &Grant<'_>,
        apart: Option<&Apart>,
    ) -> Result<Attempt, Interrupted> {
        // Behind bubblewrap it is seen in the place of the workspace; elsewhere it is where it is.
        let here = Work { workspace: apart.map_or(work.workspace, |apart| &apart.folder), ..*work };
        if let Some(offer) = self.confining() {
            return self.confined_attempt(offer, agent, &here, grant);
        }
        let Some(offer) = self.offer.as_ref().filter(|_| self.level == Isolation::Clean) else {
            return agent.attempt(&here);
        };
        // Two agents do not share an index.
        let own_clone = match apart.map(|_| self.new_clone()).transpose() {
            Ok(clone) => clone.flatten(),
            Err(error) => return Ok(Attempt::not_started(&error)),
        };
        let ready = match self.ready(offer, work, grant, own_clone.as_ref().map(TempDir::path)) {
            Ok(ready) => ready,
            Err(error) => return Ok(Attempt::not_started(&error)),
        };
        let attempt = self.fenced_attempt(agent, work, offer, &ready, veil, apart);
        let notes = ready.close();
        attempt.map(|mut attempt| {
            attempt.notes.extend(notes);
            attempt
        })
    }

    fn ready<'g>(
        &self,
        offer: &Offer,
        work: &Work<'_>,
        grant: &Grant<'g>,
        own_clone: Option<&Path>,
    ) -> Result<Ready<'g>, reach::Error> {
        let clone = match grant.reach.git {
            GitPolicy::Clone if own_clone.is_some() => own_clone.map(Path::to_owned),
            GitPolicy::Clone => self.clone().map_err(|source| reach::Error::Clone { source })?,
            GitPolicy::None | GitPolicy::Shared => None,
        };
        let place = Place {
            workspace: &self.workspace,
            state: &self.state,
            scratch: &self.scratch,
            repository: &self.repository,
            clone: clone.as_deref(),
        };
        Ready::make(offer, grant, &place, &agent::environment(work))
    }

    /// The repository of this run's agents, made when the first one asks.
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
        agent: &dyn Agent,
        work: &Work<'_>,
        offer: &Offer,
        ready: &Ready<'_>,
        veil: Option<Veil<'_>>,
        apart: Option<&Apart>,
    ) -> Result<Attempt, Interrupted> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        let home = home.unwrap_or_else(|| self.scratch.clone());
        // What checks are run with is not the agent's to write, wherever it lives.
        let tools =
            self.tools.iter().filter(|tool| tool.starts_with(&home) || tool.starts_with(&self.workspace));
        let sight = &ready.sight;
        // In a tree of its own it has copies of these, and nobody reads them.
        let is_there = |path: &&PathBuf| apart.is_none() || !path.starts_with(&self.workspace);
        let read_only = self.read_only.iter().chain(tools).filter(is_there);
        let read_only = read_only.chain(&sight.read_only).map(PathBuf::as_path);
        let read_only: Vec<&Path> = read_only.filter(|path| path.exists()).collect();
        let hidden = [&self.state].into_iter().chain(&self.secret).chain(&sight.hidden);
        let hidden: Vec<&Path> = hidden.map(PathBuf::as_path).collect();
        let own = apart.map(|apart| (self.workspace.as_path(), apart.folder.as_path()));
        let others = sight.instead.iter().map(|(place, source)| (place.as_path(), source.as_path()));
        let instead: Vec<_> = own.into_iter().chain(others).collect();
        let veil = veil.filter(|veil| self.shows(apart, veil.path));
        // Outside of every fence, and gone with this attempt.
        let veil = match veil.map(|veil| veil.written(&self.scratch).map(|shown| (veil.path, shown))) {
            None => None,
            Some(Ok(veil)) => Some(veil),
            Some(Err(error)) => return Ok(Attempt::not_started(&error)),
        };
        let veiled: Vec<(&Path, &Path)> = veil.iter().map(|(path, shown)| (*path, shown.path())).collect();
        let writable = sight.writable.iter().map(PathBuf::as_path).chain(work.home);
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
            scratch: &self.scratch,
        };
        agent.attempt(&Work { fence: Some(Behind::Bubblewrap(offer, fence)), ..*work })
    }

    /// Runs a check on the ground that belongs to the level.
    pub fn judge(&self, case: &Case<'_>) -> Result<Verdict, Interrupted> {
        let Some(approved) = &self.trees else {
            return Ok(teeth::counted(&case.doubts, self.in_court(case, judge::Ground::Workspace)?));
        };
        let (base, layer) = match approved.look(case) {
            Ok(found) => found,
            Err(error) => return Ok(self.unseen(error)),
        };
        let tree = Some(Box::new(seen(&base, &layer)));
        if let Some(first) = layer.protected_changed.first() {
            let what = format!("{first} is protected and was changed");
            return Ok(Verdict { tree, ..Verdict::bare(self.level, Outcome::Tampered { what }) });
        }
        if let Some(cut) =
            layer.refused.iter().find(|refused| matches!(refused.why, Why::TooMany | Why::OverTotal))
        {
            let reason = format!("not everything inside `touches` could be taken over: {cut}");
            return Ok(Verdict { tree, ..Verdict::not_run(self.level, reason) });
        }
        let verdict = self.on(approved, case, &base, &layer)?;
        if !verdict.held() {
            return Ok(Verdict { tree, ..verdict });
        }
        let bench = Bench {
            level: self.level,
            shell: case.shell,
            doubts: case.doubts,
            trees: &approved.trees,
            base: &base,
            layer: &layer,
            run: &|layer| self.on(approved, case, &base, layer),
        };
        let verdict = bench.doubt(verdict)?;
        // What held is kept, whatever is doubted about it: it is the next step's base.
        if let Err(error) = approved.trees.advance(&base, layer) {
            return Ok(Verdict::not_run(self.level, told(&error)));
        }
        Ok(Verdict { tree, ..verdict })
    }

    /// There is no tree to look at.
    fn unseen(&self, error: tree::Error) -> Verdict {
        match error {
            tree::Error::Conflict { files } => Verdict::bare(self.level, Outcome::Conflict { files }),
            error => Verdict::not_run(self.level, told(&error)),
        }
    }

    /// Runs the check once on base and layer.
    fn on(
        &self,
        approved: &Approved,
        case: &Case<'_>,
        base: &Base,
        layer: &Layer,
    ) -> Result<Verdict, Interrupted> {
        let verdict = match &self.offer {
            Some(offer) if self.level == Isolation::Clean => self.fenced(offer, case, base, layer)?,
            _ => self.unfenced(case, approved, base, layer)?,
        };
        Ok(teeth::counted(&case.doubts, verdict))
    }

    fn fenced(
        &self,
        offer: &Offer,
        case: &Case<'_>,
        base: &Base,
        layer: &Layer,
    ) -> Result<Verdict, Interrupted> {
        let Some(approved) = &self.trees else {
            return Ok(Verdict::not_run(self.level, "there is no tree of the harness's own"));
        };
        let deleted = gone(base, layer);
        let view = view(base, layer, &deleted);
        let fitted = self.with_means(approved, base, layer, case.stop, |means| {
            approved.outfit.fenced(offer, &self.scratch, (base, layer), &view, means, case.network)
        });
        let fitted = match fitted {
            Ok(fitted) => fitted,
            Err(Missing::Interrupted) => return Err(Interrupted),
            Err(missing) => return Ok(Verdict::not_run(self.level, missing.to_string())),
        };
        let keep = fitted.kept();
        let fence = CheckFence {
            tree: CheckTree::Overlay {
                lower: &base.path,
                over: base.over.as_deref(),
                layer: &layer.path,
                deleted: &deleted,
            },
            at: &self.workspace,
            size: USUAL_SIZE,
            network: if case.network { Network::On } else { Network::Off },
            toolchains: &[],
            keep: &keep,
            hidden: &[&self.state],
            scratch: &self.scratch,
        };
        let verdict = self.in_court_with(case, judge::Ground::Fenced { offer, fence }, &fitted.env)?;
        drop(keep);
        Ok(approved.outfit.after(fitted, layer, verdict))
    }

    fn unfenced(
        &self,
        case: &Case<'_>,
        approved: &Approved,
        base: &Base,
        layer: &Layer,
    ) -> Result<Verdict, Interrupted> {
        let deleted = gone(base, layer);
        let view = view(base, layer, &deleted);
        // Before the tree is taken: a command may need it.
        let given = self.with_means(approved, base, layer, case.stop, |means| {
            approved.outfit.given(&view, base, layer, means)
        });
        let tampered = |what: String| Ok(Verdict::bare(self.level, Outcome::Tampered { what }));
        let assembled = match approved.trees.assemble(base, layer) {
            Ok(assembled) => assembled,
            Err(error @ tree::Error::Altered { .. }) => return tampered(error.to_string()),
            Err(error) => return Ok(Verdict::not_run(self.level, told(&error))),
        };
        let above = approved.above.as_ref();
        if let Some(path) = above.and_then(|above| above.changed(&approved.trees.assembles_in())) {
            let path = path.display();
            return tampered(format!("configuration above the tree of the check came or changed: {path}"));
        }
        let fitted = given.and_then(|given| approved.outfit.in_folder(&assembled.path, given, case.network));
        match fitted {
            Ok(fitted) => {
                let verdict = self.in_folder(case, &assembled.path, &fitted)?;
                Ok(approved.outfit.after(fitted, layer, verdict))
            }
            Err(Missing::Interrupted) => Err(Interrupted),
            Err(missing) => Ok(Verdict::not_run(self.level, missing.to_string())),
        }
    }

    /// Behind the fence of the level, where it has one.
    fn in_folder(&self, case: &Case<'_>, folder: &Path, fitted: &Fitted) -> Result<Verdict, Interrupted> {
        let Some(offer) = self.confining() else {
            return self.in_court_with(case, judge::Ground::Folder(folder), &fitted.env);
        };
        match self.confined_check(offer, folder, fitted, case.network) {
            Ok(check) => {
                let confines = &check.confines;
                let ground = judge::Ground::Confined { folder, confines };
                let verdict = self.in_court_with(case, ground, &check.env);
                check.over(self.level, verdict)
            }
            Err(error) => Ok(Verdict::not_run(self.level, told(&error))),
        }
    }

    fn in_court(&self, case: &Case<'_>, ground: judge::Ground<'_>) -> Result<Verdict, Interrupted> {
        self.in_court_with(case, ground, &[])
    }

    fn in_court_with(
        &self,
        case: &Case<'_>,
        ground: judge::Ground<'_>,
        env: &[(OsString, OsString)],
    ) -> Result<Verdict, Interrupted> {
        judge::contract(
            case.shell,
            &Court {
                workspace: &self.workspace,
                ground,
                timeout: case.timeout,
                tag: case.tag,
                stop: case.stop,
                env,
                isolation: self.level,
                bounds: case.bounds,
            },
        )
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

/// The harness's trees of a workspace.
pub fn trees_of(workspace: &Path, state: &Path) -> Result<Trees, Error> {
    Ok(Trees::open(&trees_folder(workspace, state), workspace)?)
}

/// Whether a tree is kept for a workspace, as far as one look tells.
pub fn keeps(workspace: &Path, state: &Path, tree: &str) -> bool {
    trees_folder(workspace, state).join("bases").join(tree).is_dir()
}

fn trees_folder(workspace: &Path, state: &Path) -> PathBuf {
    let key = Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    state.join("trees").join(&key[..16])
}

/// The harness's trees of a workspace, and the one that was approved, without any agent or check.
pub fn trees(estate: &Estate<'_>, approval: &Approval<'_>) -> Result<(Trees, Base), Error> {
    let approved = Approved::make(estate, approval)?;
    Ok((approved.trees, approved.base))
}

impl Approved {
    fn make(estate: &Estate<'_>, approval: &Approval<'_>) -> Result<Self, Error> {
        let trees = trees_of(estate.workspace, estate.state)?;
        let base = trees.base(approval.revision, approval.commit, approval.files, approval.caches)?;
        let touches = Touches::new(approval.touches)?;
        let outfit = Outfit::new(estate, &approval.wanted, &base);
        let commit = approval.commit.map(str::to_owned);
        Ok(Self { trees, base, touches, caches: approval.caches.to_vec(), commit, outfit, above: None })
    }

    /// The base of this check, and what the agent has put on it.
    fn look(&self, case: &Case<'_>) -> Result<(Base, Layer), tree::Error> {
        let base = match case.tree {
            None => self.base.clone(),
            Some(id) => self.kept(id)?,
        };
        let nothing: &[&str] = &[];
        let protect = Touches::new(case.protect)?;
        let limits = Limits::default();
        if !case.with_work {
            let layer = self.trees.take_over(&base, &Touches::new(nothing)?, &protect, &limits)?;
            return Ok((base, layer));
        }
        let layer = match case.apart {
            None => self.of_the_step(case, &base, None, &protect)?,
            Some(apart) => {
                let from = self.kept(&apart.base)?;
                let layer = self.of_the_step(case, &from, Some(&apart.folder), &protect)?;
                self.trees.carried(layer, &from, &base)?
            }
        };
        Ok((base, layer))
    }

    fn kept(&self, id: &str) -> Result<Base, tree::Error> {
        let kept = self.trees.kept(id, &self.caches)?;
        kept.ok_or_else(|| tree::Error::Damaged { id: id.to_owned() })
    }

    /// What is inside the plan's `touches` and the step's.
    fn of_the_step(
        &self,
        case: &Case<'_>,
        base: &Base,
        folder: Option<&Path>,
        protect: &Touches,
    ) -> Result<Layer, tree::Error> {
        let limits = Limits::default();
        let take = |touches: &Touches| match folder {
            None => self.trees.take_over(base, touches, protect, &limits),
            Some(folder) => self.trees.take_over_from(folder, base, touches, protect, &limits),
        };
        let Some(globs) = case.touches else { return take(&self.touches) };
        let layer = take(&Touches::new(globs)?)?;
        let is_ours = |path: &Path| self.touches.covers(path.as_os_str().as_encoded_bytes());
        if layer.changed_paths().chain(layer.deleted_paths()).all(is_ours) {
            return Ok(layer);
        }
        let mut within = self.trees.varied(base, &layer, &Variation::Only(&is_ours))?;
        within.refused = layer.refused;
        within.protected_changed = layer.protected_changed;
        Ok(within)
    }
}

/// What is to vanish from the files of the base.
fn gone(base: &Base, layer: &Layer) -> Vec<PathBuf> {
    layer.deleted_paths().chain(base.gone.iter().map(PathBuf::as_path)).map(Path::to_owned).collect()
}

fn view<'a>(base: &'a Base, layer: &'a Layer, deleted: &'a [PathBuf]) -> View<'a> {
    View { base: &base.path, over: base.over.as_deref(), layer: &layer.path, deleted }
}

fn seen(base: &Base, layer: &Layer) -> Tree {
    let deleted = layer.deleted.iter().map(|path| format!("{path} (deleted)"));
    Tree {
        base: base.id.clone(),
        id: layer.id.clone(),
        files: layer.changed.iter().cloned().chain(deleted).take(NAMES).collect(),
        refused: layer.refused.iter().map(ToString::to_string).take(NAMES).collect(),
    }
}

/// With what was written to topics.
fn posted(outbox: Option<Outbox<'_>>, mut attempt: Attempt) -> Attempt {
    if let Some(outbox) = outbox {
        outbox::collect(outbox, &mut attempt);
        attempt.said = item::said(outbox);
    }
    attempt
}

fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
