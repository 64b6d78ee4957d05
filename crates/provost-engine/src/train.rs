//! The merge train: lands done plans on a branch together, or says why it does not.
//!
//! Core decides ([`provost_core::fleet::train`]) and this module answers its questions: it collects plans
//! (`boarding.rs`), merges them in provost's own repository and judges each union by the checks of every plan
//! in it (`judging.rs`), records the decision (`record.rs`) and carries it out (`landing.rs`).
//!
//! **Invariant:** a branch is moved only to a tree that was judged as a whole, from the commit it had at the
//! decision, and after the decision is in the log. After a crash the same command continues.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::fleet::train::{self, Answers, TrainDecision, TrainQuestion, TrainStep};
use provost_core::model::chain::PlanId;
use provost_core::model::event::{Landing, TrainEntry, TrainExclusion};
use provost_core::model::hash::Hash;
use provost_core::rules::command::Refusal;
use provost_host::check::judge;
use provost_host::exec::environment;
use provost_host::tree::{Error as TreeError, Trees, Union};
use provost_host::{config, git, process};
use provost_store::{Holder, Lease};

use crate::Error;
use crate::journal::lease;
use crate::plan::human_check::{self, Who};
use crate::plan::plan_context;
use crate::plan::sessions::Sessions;
use crate::settings::EngineSettings;

mod boarding;
mod judging;
mod landing;
mod train_log;

use boarding::{TrainCandidates, TrainPlan};
use judging::TrainChecker;
use train_log::TrainLog;

pub use landing::MovedCheckout;

/// Number of times a train starts over because its branch moved meanwhile.
const TRIES: u32 = 5;

/// Options of a train.
#[derive(Clone, Debug)]
pub struct TrainRequest {
    /// Paths or names; empty for all done plans of the repository.
    pub plans: Vec<String>,
    /// The branch; if none is named, the one that is checked out here.
    pub into: Option<String>,
    pub wish: Wish,
    pub by: String,
    pub home: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Land,
    /// Determine what would land, and change nothing.
    DryRun,
    /// Only check whether landed plans still hold on the branch.
    Check,
}

/// Result of a train.
#[derive(Clone, Debug, Default)]
pub struct TrainReport {
    /// Name of the train in the log.
    pub train: String,
    pub target: String,
    pub before: String,
    /// New tip of the branch, or what it would be; `None` if no plan lands.
    pub commit: Option<String>,
    pub git_tree: String,
    pub landed: Vec<TrainEntry>,
    pub left_out: Vec<TrainExclusion>,
    /// Landed plans that no longer hold.
    pub undone: Vec<TrainExclusion>,
    /// Number of judged unions.
    pub judged: usize,
    /// Checkouts of the branch, and whether their files are up to date.
    pub checkouts: Vec<MovedCheckout>,
    /// An earlier train was completed first.
    pub resumed: bool,
}

/// The branch and the shared context of the train's modules.
pub(crate) struct Yard<'a> {
    pub settings: &'a EngineSettings,
    pub request: &'a TrainRequest,
    pub state: PathBuf,
    pub workspace: PathBuf,
    /// Without `refs/heads/`.
    pub target: String,
    pub id: PlanId,
    pub trees: Trees,
    /// Reports progress to the waiting person.
    pub talk: &'a dyn Fn(&str),
}

impl Yard<'_> {
    fn tip(&self) -> Result<String, Error> {
        git::find(&self.workspace, &self.reference())
            .ok_or_else(|| Refusal::NoBranch { branch: self.target.clone() }.into())
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.target)
    }

    fn interrupted(&self) -> bool {
        self.settings.stop.load(Ordering::Relaxed)
    }
}

/// Runs the train; `None` if a person interrupted it.
pub fn integrate(
    settings: &EngineSettings,
    request: &TrainRequest,
    talk: &dyn Fn(&str),
) -> Result<Option<TrainReport>, Error> {
    let yard = yard(settings, request, talk)?;
    yard.tip()?;
    let _ = process::become_subreaper();
    let report = match request.wish {
        Wish::DryRun => go(&yard, &mut TrainLog::silent()),
        Wish::Land | Wish::Check => {
            let log = crate::journal::log_locator::open(&yard.state, crate::settings::Access::Write)?;
            let workspace = format!("workspace {}", yard.workspace.display());
            if let Some(why) =
                human_check::intruder(&*log, &workspace, &Sessions::new(&yard.state), &Who::Here)?
            {
                return Err(Error::NotAPerson { why });
            }
            let lease = lease(&yard, &*log)?;
            let config = config::find(&yard.workspace)?;
            let redactor = crate::settings::redactor(&settings.environment, &config);
            let mut record = TrainLog::open(&*log, &yard.id, &lease, redactor)?;
            go(&yard, &mut record)
        }
    };
    judge::leave();
    match report {
        Err(Error::Interrupted) => Ok(None),
        report => report.map(Some),
    }
}

fn yard<'a>(
    settings: &'a EngineSettings,
    request: &'a TrainRequest,
    talk: &'a dyn Fn(&str),
) -> Result<Yard<'a>, Error> {
    let state = settings.state_folder();
    let cwd = settings.cwd.canonicalize().unwrap_or_else(|_| settings.cwd.clone());
    let missing = || Refusal::NoBranch { branch: request.into.clone().unwrap_or_else(|| "here".to_owned()) };
    let workspace = git::top(&cwd).ok_or_else(missing)?;
    // The branch of a worktree that was made for one plan is for that plan alone; use the main checkout.
    let spawned_from = git::main_checkout(&workspace).filter(|_| git::is_spawned(&workspace));
    let workspace = spawned_from.unwrap_or(workspace);
    if state.starts_with(&workspace) {
        return Err(Error::StateInWorkspace(state));
    }
    let here = || git::branch(&workspace)?.strip_prefix("refs/heads/").map(str::to_owned);
    let target = request.into.clone().or_else(here).ok_or_else(missing)?;
    if !git::is_branch_or_note(&format!("refs/heads/{target}")) {
        return Err(Refusal::NoBranch { branch: target }.into());
    }
    let repository = git::repository(&workspace).unwrap_or_else(|| workspace.clone());
    let trees = environment::trees_of(&workspace, &state)?;
    Ok(Yard { settings, request, id: name(&repository, &target), state, workspace, target, trees, talk })
}

/// Returns the name of a branch's train in the log.
fn name(repository: &Path, target: &str) -> PlanId {
    let digest = Hash::of(&[repository.as_os_str().as_encoded_bytes(), b"\0", target.as_bytes()].concat());
    let fits = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_lowercase() } else { '-' };
    let slug: String = target.chars().map(fits).take(60).collect();
    PlanId(format!("train-{slug}-{}", &digest.to_string()[..8]))
}

/// Takes the lease that allows one train per branch at a time.
fn lease(yard: &Yard<'_>, log: &dyn provost_store::Log) -> Result<Lease, Error> {
    let holder = Holder::here(format!("the train for {}", yard.target), plan_context::now());
    lease::take(
        log,
        &format!("train {}", yard.id),
        &holder,
        (Duration::ZERO, Duration::ZERO),
        &yard.settings.stop,
    )
}

fn go(yard: &Yard<'_>, record: &mut TrainLog<'_>) -> Result<TrainReport, Error> {
    let empty =
        TrainReport { train: yard.id.to_string(), target: yard.target.clone(), ..TrainReport::default() };
    if let Some((landing, checkouts)) = landing::finish_earlier(yard, record)? {
        return Ok(TrainReport { checkouts, resumed: true, ..told(empty, landing) });
    }
    let mut undone = Vec::new();
    let mut attempt = 1;
    loop {
        let mut boarding = TrainCandidates::of(yard)?;
        let before = yard.tip()?;
        undone.extend(judging::look_at_landed(yard, &before, record, &mut boarding)?);
        if yard.request.wish == Wish::Check {
            return Ok(TrainReport { before, undone, ..empty });
        }
        boarding.keep_named(yard)?;
        boarding.take_pieces(yard, &before)?;
        let (landing, judged) = decide(yard, &boarding, &before, record)?;
        let report = TrainReport { undone: undone.clone(), judged, ..told(empty.clone(), landing.clone()) };
        if landing.commit.is_none() {
            return Ok(report);
        }
        match landing::carry_out(yard, &landing, record) {
            // The branch moved meanwhile: the judged tree is not what would be on it.
            Err(Error::Ground(environment::Error::Trees(TreeError::Moved { .. }))) if attempt < TRIES => {
                attempt += 1;
                (yard.talk)(&format!("{} moved meanwhile; trying again on its new head", yard.target));
            }
            landed => return landed.map(|checkouts| TrainReport { checkouts, ..report }),
        }
    }
}

/// Determines which plans land on the current branch, and records it in the log.
fn decide(
    yard: &Yard<'_>,
    boarding: &TrainCandidates,
    before: &str,
    record: &mut TrainLog<'_>,
) -> Result<(Landing, usize), Error> {
    let boarded: Vec<TrainEntry> = boarding.plans.iter().map(TrainPlan::boarded).collect();
    if !boarded.is_empty() {
        record.started(&yard.target, before, &boarded)?;
    }
    let mut bench = TrainChecker::new(yard, boarding, before)?;
    let (settled, judged) = settle(yard, boarding, &mut bench, record)?;
    let tree = match bench.union(&settled.landing)? {
        Union::Clean(tree) if !settled.landing.is_empty() => tree,
        _ => String::new(),
    };
    if !tree.is_empty() {
        landing::would_fit(yard, before, &tree)?;
    }
    let landing = landing::decided(yard, boarding, before, settled, tree)?;
    if !boarded.is_empty() {
        record.decided(&landing)?;
    }
    Ok((landing, judged))
}

fn told(report: TrainReport, landing: Landing) -> TrainReport {
    TrainReport {
        commit: landing.commit,
        before: landing.before,
        git_tree: landing.git_tree,
        landed: landing.plans,
        left_out: landing.left_out,
        ..report
    }
}

/// Asks core and answers its questions until it knows which plans land.
fn settle(
    yard: &Yard<'_>,
    boarding: &TrainCandidates,
    bench: &mut TrainChecker<'_>,
    record: &mut TrainLog<'_>,
) -> Result<(TrainDecision, usize), Error> {
    let cars = boarding.cars();
    let mut answers = Answers::default();
    loop {
        if yard.interrupted() {
            return Err(Error::Interrupted);
        }
        match train::next(&cars, &answers) {
            TrainStep::Over(settled) => return Ok((settled, answers.seen.len())),
            TrainStep::Ask(TrainQuestion::Merge(set)) => {
                let merged = bench.merge(&set)?;
                answers.merged.insert(set, merged);
            }
            TrainStep::Ask(TrainQuestion::Judge(set)) => {
                let seen = bench.judge(&set, record)?;
                answers.seen.insert(set, seen);
            }
        }
    }
}

/// Opens the state folder's log for reading.
pub(crate) fn open_log(yard: &Yard<'_>) -> Result<Box<dyn provost_store::Log>, Error> {
    crate::journal::log_locator::for_reading(&yard.state)
}
