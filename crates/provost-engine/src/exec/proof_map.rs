//! Makes the proof map of a step: takes each part out of the tree that was judged, or sabotages it, and runs
//! the contract, to see whether the contract notices.
//!
//! The runs are those of a check: the same sandbox, level and tools. Results are kept in the state folder,
//! so that no run is repeated.
//!
//! **Invariant:** nothing is recorded in the log, and no tree is kept.

mod cache;
mod change;
mod trials;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::plan::{Check, Shell, StepNumber};
use provost_core::model::proof_map::{HunkProof, ProofMap};
use provost_core::model::verdict::{CheckEnvironment, Isolation, Verdict};
use provost_core::rules::command::Refusal;
use provost_core::state::run::{Run, StepState};
use provost_host::Interrupted;
use provost_host::exec::environment::FileEdit;

use self::cache::{MapCache, MapKey};
pub use self::change::Change;
use self::trials::Trials;
use crate::Error;
use crate::plan::commit;
use crate::plan::harness::Harness;

/// Folder of the state folder with the results of runs.
pub const FOLDER: &str = "proved";

/// How a map is made.
#[derive(Clone, Copy, Debug)]
pub struct MapSettings {
    /// Runs at the same time.
    pub jobs: usize,
    pub time_limit: Duration,
    /// Also tries tests, documents and configuration.
    pub all: bool,
}

/// Progress of a map.
pub enum MapEvent<'a> {
    /// The contract runs on the tree as it is, then on changed ones.
    Begun { level: Isolation, hunks: usize, known: usize },
    /// The environment of the contract is not the one it was judged in.
    OtherEnvironment(String),
    /// One hunk is decided.
    Decided { hunk: &'a HunkProof, done: usize, of: usize },
}

/// Hears progress, from any thread.
pub type MapListener<'l> = &'l (dyn Fn(MapEvent<'_>) + Sync);

/// A map, and how it came about.
#[derive(Debug)]
pub struct MadeMap {
    pub map: ProofMap,
    /// The contract of the step.
    pub command: String,
    pub level: Isolation,
    /// Id of the judged tree.
    pub tree: String,
    /// Number of runs of the contract.
    pub runs: usize,
    /// The verdict on the judged tree, if the contract did not hold there: then nothing can be proved.
    pub broken: Option<Box<Verdict>>,
    /// A person stopped it.
    pub interrupted: bool,
}

/// A contract that can be run on the judged tree, as it is and changed.
pub trait VariedContract: Sync {
    fn level(&self) -> Isolation;

    /// Returns the longest time that the step allows for one run.
    fn timeout(&self) -> Duration;

    /// Runs the contract on the tree as it is.
    fn control(&self) -> Result<Verdict, Interrupted>;

    /// Runs the contract with one file changed, at most for `limit`. `worker` tells runs at the same time
    /// apart.
    fn varied(&self, edit: &FileEdit<'_>, limit: Duration, worker: usize) -> Result<Verdict, Interrupted>;

    /// Removes secrets from a text.
    fn redacted(&self, text: &str) -> String;
}

/// Makes the map of a change with its contract.
pub fn make(
    state: &Path,
    change: &Change,
    subject: &MappedStep,
    contract: &dyn VariedContract,
    settings: &MapSettings,
    stop: &AtomicBool,
    watch: MapListener<'_>,
) -> MadeMap {
    let recorded = subject.environment();
    let key = MapKey::of(&subject.after, &subject.shell, contract.level());
    let cache = MapCache::open(state, &key, recorded.map(|recorded| recorded.sha256.as_str()));
    let tried = Trials { contract, stop, settings, recorded, watch }.run(change, cache);
    MadeMap {
        map: tried.map,
        command: subject.shell.command.clone(),
        level: contract.level(),
        tree: subject.after.clone(),
        runs: tried.runs,
        broken: tried.broken,
        interrupted: tried.interrupted,
    }
}

/// Returns what is known of the map of a step, without running anything. Hunks without a result are not
/// tried.
pub fn known(harness: &Harness, number: StepNumber) -> Result<ProofMap, Error> {
    let run = harness.run()?;
    let subject = MappedStep::of(&run, number)?;
    let recorded = subject.environment();
    let level = subject.level.ok_or(Refusal::NoTree)?;
    let key = MapKey::of(&subject.after, &subject.shell, level);
    let cache = MapCache::known(harness.state(), &key, recorded.map(|recorded| recorded.sha256.as_str()));
    if cache.is_empty() {
        return Ok(ProofMap::default());
    }
    let change = Change::read(harness, &run, &subject.before, &subject.after)?;
    Ok(trials::from_cache(&change, &cache))
}

/// A step whose change is tried.
pub struct MappedStep {
    pub shell: Shell,
    /// The verdict with which it passed.
    pub verdict: Option<Verdict>,
    /// The level of the check, if one has run.
    pub level: Option<Isolation>,
    /// Ids of the tree that the work started with, and of the judged one.
    pub before: String,
    pub after: String,
}

impl MappedStep {
    pub fn of(run: &Run, number: StepNumber) -> Result<Self, Error> {
        let step = run.step(number).ok_or(Refusal::NoSuchStep { step: number })?;
        let contract = run.plan.step(number).and_then(|step| step.contract.as_ref());
        let shell = match contract.map(|contract| &contract.check) {
            Some(Check::Shell(shell)) => shell.clone(),
            Some(Check::Human | Check::Judge { .. }) | None => {
                return Err(Refusal::NoCommand { step: number }.into());
            }
        };
        let Some((before, after)) = commit::step_trees(step, run.confirmed_by_person(number)) else {
            return Err(match step.attempts {
                0 => Refusal::NotTried { step: number }.into(),
                _ => Refusal::NoTree.into(),
            });
        };
        let verdict = step.verdict.clone().filter(|_| step.state == StepState::Passed);
        let level = step.verdict.as_ref().map(|verdict| verdict.isolation);
        Ok(Self { shell, verdict, level, before: before.to_owned(), after: after.to_owned() })
    }

    /// Returns the environment that the contract held in.
    pub fn environment(&self) -> Option<&CheckEnvironment> {
        self.verdict.as_ref().and_then(|verdict| verdict.environment.as_deref())
    }
}
