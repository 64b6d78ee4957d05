//! A worker without the workspace of the plan: it fetches trees from a git remote and pushes what attempts
//! leave and what passes.
//!
//! The log says which tree to fetch; checks trust the log, not the remote.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::chain::PlanId;
use provost_core::model::event::RemoteTree;
use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::Isolation;
use provost_core::state::run::{RemoteWork, Run};
use provost_engine::Error;
use provost_engine::workplace::{PlanFiles, SentAttempt, StartTrees, Workplace};
use provost_host::Interrupted;
use provost_host::exec::environment::{ExecEnv, LeftWork};
use provost_host::tree::{Apart, Base, Error as TreeError, Remote, Trees, forget_sent};

use crate::error::with_causes;
use crate::remote::{attempt_name, depot, fetch_passed, is_attempt, passed_name, word};

/// Pause before a remote that could not be used is tried again; it doubles each time, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Interval at which a stop is noticed during the pause.
const POLL: Duration = Duration::from_millis(100);

/// Receives the reason for a wait.
pub(crate) type WaitListener = Arc<dyn Fn(&str) + Send + Sync>;

pub(crate) struct Outpost {
    pub(crate) remote: Remote,
    /// Identifier of this machine: all processes that share a state folder.
    machine: String,
    told: WaitListener,
    /// Trees that the log names and that are unavailable although the remote answers, with the reason.
    missing: Mutex<BTreeMap<String, String>>,
}

impl fmt::Debug for Outpost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outpost").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Outpost {
    pub(crate) fn new(remote: Remote, machine: String, told: WaitListener) -> Self {
        Self { remote, machine, told, missing: Mutex::default() }
    }

    fn why_missing(&self, tree: &str) -> Option<String> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).get(tree).cloned()
    }

    /// Returns why this work cannot be taken over, if so.
    fn why_unusable(&self, work: &LeftWork) -> Option<String> {
        let began = work.began.as_ref().and_then(Option::as_deref);
        [Some(work.tree.as_str()), began].into_iter().flatten().find_map(|tree| self.why_missing(tree))
    }

    /// Fetches the tree that passed last, what takes the place of the workspace, and what the last attempt at the
    /// step left. A remote that does not answer is an error, and the caller tries again. A tree that is missing
    /// or differs is remembered as missing.
    pub(crate) fn fetch_trees(
        &self,
        trees: &Trees,
        plan: &PlanId,
        run: &Run,
        step: Option<StepNumber>,
    ) -> Result<(), Error> {
        let Some(commit) = run.binding.base.as_deref() else { return Ok(()) };
        let own = step.into_iter().flat_map(|step| {
            [run.work_to_judge(step), run.work_to_continue(step, true)].into_iter().flatten()
        });
        let works: Vec<&RemoteWork> = run.work_in_place().into_iter().chain(own).collect();
        // The base of what takes the place of the workspace is needed only if others have passed since.
        let has_base = |work: &&&RemoteWork| work.is_behind || Some(**work) != run.work_in_place();
        let bases = works.iter().filter(has_base).filter_map(|work| work.base.as_deref());
        let passed = bases.chain(run.last_passed()).map(|tree| (tree, passed_name(plan, tree)));
        let left = works.iter().map(|work| (work.left.tree.as_str(), work.left.name.clone()));
        let mut missing = BTreeMap::new();
        for (tree, name) in passed.chain(left) {
            match trees.receive(&self.remote, commit, &name, tree) {
                Ok(_) => {}
                Err(error @ (TreeError::NotOnRemote { .. } | TreeError::OtherTree { .. })) => {
                    missing.insert(tree.to_owned(), format!("not verifiable: {error}"));
                }
                Err(error) => return Err(Error::Carry(error)),
            }
        }
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = missing;
        Ok(())
    }

    /// Returns how the work is taken over. Without any, a new revision begins with what had passed before it.
    fn taken_over(&self, run: &Run, work: Option<&RemoteWork>) -> Option<LeftWork> {
        let passed = run.last_passed().filter(|tree| self.why_missing(tree).is_none());
        let Some(work) = work else {
            let tree = passed.filter(|_| run.tree.is_none())?.to_owned();
            return Some(LeftWork { tree, began: None, onto: None, is_own: false });
        };
        let in_place = run.work_in_place() == Some(work);
        Some(LeftWork {
            tree: work.left.tree.clone(),
            began: (work.is_behind || !in_place).then(|| work.base.clone()),
            onto: passed.map(str::to_owned),
            is_own: !in_place,
        })
    }

    /// Deletes what attempts left from the remote when the plan is done; passed trees stay.
    pub(crate) fn forget_attempts(&self, state: &Path, plan: &PlanId) {
        let prefix = format!("refs/provost/{}/", word(plan));
        let is_attempt = |name: &str| name.strip_prefix(&prefix).is_some_and(is_attempt);
        let forgotten = forget_sent(&depot(state, &self.remote), &self.remote, &prefix, is_attempt);
        if let Err(error) = forgotten {
            (self.told)(&format!(
                "provost could not delete the attempts' trees from the git remote: {error}"
            ));
        }
    }

    /// Sends a tree and retries until the remote takes it, at most for `patience`. Returns why it cannot be
    /// sent, if a retry does not help.
    fn send(
        &self,
        environment: &ExecEnv,
        tree: &str,
        name: &str,
        (stop, patience): (&AtomicBool, Option<Duration>),
    ) -> Result<Result<(), String>, Interrupted> {
        let (begun, mut pause) = (Instant::now(), PAUSE);
        loop {
            match environment.send(&self.remote, tree, name) {
                Ok(()) => return Ok(Ok(())),
                Err(error) if !error.is_of_the_remote() => return Ok(Err(with_causes(&error))),
                Err(_) if stop.load(Ordering::Relaxed) => return Err(Interrupted),
                Err(error) if patience.is_some_and(|most| begun.elapsed() >= most) => {
                    (self.told)(&format!(
                        "the check is offered again, because {name} could not be sent: {error}"
                    ));
                    return Err(Interrupted);
                }
                Err(error) => {
                    (self.told)(&format!("{name} waits to be sent, and this worker keeps it: {error}"));
                }
            }
            for _ in 0..pause.as_millis() / POLL.as_millis() {
                if stop.load(Ordering::Relaxed) {
                    return Err(Interrupted);
                }
                std::thread::sleep(POLL);
            }
            pause = PAUSE_MAX.min(pause * 2);
        }
    }
}

impl Workplace for Outpost {
    fn is_workspace(&self) -> bool {
        false
    }

    fn refuses_level(&self, level: Isolation) -> Option<&'static str> {
        refuses_level(level)
    }

    /// Returns the user's ssh key folder if it opens the remote, and other files with keys of the remote.
    fn key_files(&self, environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
        let home = environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let folder = home.map(|home| home.join(".ssh"));
        let folder = folder.filter(|keys| self.remote.is_by_ssh() && keys.is_dir());
        let others = self.remote.key_files().iter().filter(|file| file.exists());
        let others = others.filter(|file| folder.as_ref().is_none_or(|folder| !file.starts_with(folder)));
        others.cloned().chain(folder.clone()).collect()
    }

    fn fetch(&self, plan: &PlanFiles<'_>, trees: &Trees, tree: &str) -> Result<Option<Base>, Error> {
        fetch_passed(&self.remote, plan, trees, tree)
    }

    fn left_tree(&self, run: &Run) -> Option<String> {
        let work = self.taken_over(run, run.work_in_place())?;
        (work.began.is_none() && self.why_unusable(&work).is_none()).then_some(work.tree)
    }

    fn work_to_continue(&self, run: &Run, step: StepNumber, is_beside: bool) -> Option<LeftWork> {
        let work = self.taken_over(run, run.work_to_continue(step, is_beside))?;
        self.why_unusable(&work).is_none().then_some(work)
    }

    fn work_to_judge(&self, run: &Run, step: Option<StepNumber>) -> Option<LeftWork> {
        self.taken_over(run, step.map_or_else(|| run.work_in_place(), |step| run.work_to_judge(step)))
    }

    fn begin(&self, environment: &ExecEnv, start: &StartTrees<'_>) -> Result<Option<Apart>, String> {
        if let Some(missing) = start.passed.and_then(|tree| self.why_missing(tree)) {
            return Err(missing);
        }
        let made = environment.set_out(&start.plan.0, start.place, start.passed, start.left);
        made.map(Some).map_err(|error| format!("no tree could be made for it: {}", with_causes(&error)))
    }

    fn checked_files(
        &self,
        environment: &ExecEnv,
        start: &StartTrees<'_>,
        with_work: bool,
    ) -> Result<Option<Apart>, String> {
        let passed = start.passed.and_then(|tree| self.why_missing(tree));
        let left = start.left.filter(|_| with_work).and_then(|work| self.why_unusable(work));
        if let Some(missing) = passed.or(left) {
            return Err(missing);
        }
        if !with_work {
            return Ok(None);
        }
        let made = environment.laid_out(&start.plan.0, start.passed, start.left);
        made.map(Some).map_err(|error| with_causes(&error))
    }

    fn send_left(&self, ended: &SentAttempt<'_>) -> Result<(Option<RemoteTree>, Vec<String>), Interrupted> {
        let gathered = match ended.environment.gather(ended.folder) {
            Ok(gathered) => gathered,
            Err(error) => {
                return Ok((None, vec![format!("what it left cannot be carried: {}", with_causes(&error))]));
            }
        };
        let mut notes: Vec<String> =
            gathered.refused.iter().map(|path| format!("left behind: {path}")).collect();
        let name = attempt_name(ended.plan, ended.step, ended.attempt, ended.epoch);
        if let Err(why) = self.send(ended.environment, &gathered.tree.id, &name, (ended.stop, None))? {
            notes.push(format!("what it left was not carried: {why}"));
            return Ok((None, notes));
        }
        let (tree, machine) = (gathered.tree.id.clone(), self.machine.clone());
        Ok((Some(RemoteTree { tree, name, machine, beside: ended.beside.clone() }), notes))
    }

    fn send_passed(
        &self,
        environment: &ExecEnv,
        plan: &PlanId,
        tree: &str,
        stop: &AtomicBool,
    ) -> Result<Result<(), String>, Interrupted> {
        // Another worker can run the check again; only this one has what an agent left.
        self.send(environment, tree, &passed_name(plan, tree), (stop, Some(self.remote.limit())))
    }
}

/// Returns why trees cannot travel at a level, if so.
pub(crate) fn refuses_level(level: Isolation) -> Option<&'static str> {
    match level {
        Isolation::Uid | Isolation::InPlace | Isolation::None => Some(
            "at its isolation level checks run in the workspace itself; start workers that share the \
             disk, without a remote",
        ),
        Isolation::Clean | Isolation::Landlock | Isolation::GuardClean => None,
    }
}
