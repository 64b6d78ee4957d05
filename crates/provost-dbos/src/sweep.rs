//! Removes what the plans of a cluster no longer need: from the disk of a worker without the workspace, and from
//! the git remote.
//!
//! A plan is at rest if it is neither approved nor in progress: it is done, has failed, or was sent back. On the
//! disk its workspaces go at once, since they can be made again. On the remote its refs stay for a month; then
//! only what `provost commit` or another run of the plan needs is left.
//!
//! **Invariant:** nothing is removed that a process on this machine uses, nor a ref of a plan that this log does
//! not have.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use provost_core::model::chain::PlanId;
use provost_core::state::run::{Run, Stage};
use provost_engine::manage::gc;
use provost_engine::plan::plan_context;
use provost_engine::{Error, journal};
use provost_host::agent::home;
use provost_host::exec::environment;
use provost_host::files::remove_folder;
use provost_host::tree::{Remote, forget_sent};
use provost_store::Log;

use crate::remote::{depot, is_attempt, word};

/// Age after which an unused workspace of any plan is removed.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);
const PREFIX: &str = "refs/provost/";

/// Returns whether nothing of the plan runs or is offered.
pub(crate) fn is_at_rest(run: &Run) -> bool {
    !matches!(run.stage, Stage::Approved | Stage::InProgress)
}

/// Returns the folder of the workspaces that workers with this state folder make.
pub(crate) fn workspaces(state: &Path) -> PathBuf {
    let name = state.file_name().unwrap_or_default().to_string_lossy().into_owned();
    state.with_file_name(format!("{name}-cluster"))
}

/// The use of a workspace by this process. While it exists, no sweep removes the workspace.
#[derive(Debug)]
pub(crate) struct WorkspaceUse {
    _used: File,
}

impl WorkspaceUse {
    /// Makes the folder of a workspace and marks it as used.
    pub(crate) fn begin(work: &Path, plan: &PlanId) -> io::Result<Self> {
        let path = work.with_file_name("used");
        loop {
            fs::create_dir_all(work)?;
            let used = open(&path, true)?;
            used.lock_shared()?;
            if is_at(&used, &path) {
                fs::write(&path, &plan.0)?;
                return Ok(Self { _used: used });
            }
            // A sweep removed the workspace meanwhile.
        }
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(create).truncate(false).open(path)
}

/// Returns whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let numbers = |found: fs::Metadata| (found.dev(), found.ino());
    let (file, there) = (file.metadata().map(numbers), fs::metadata(path).map(numbers));
    file.is_ok_and(|file| there.is_ok_and(|there| file == there))
}

/// Removes the workspaces of plans at rest and those that were unused for long, and repositories that no
/// workspace uses any more.
pub(crate) fn sweep_disk(state: &Path, log: &dyn Log) {
    let workspaces = workspaces(state);
    for plan in entries(&workspaces) {
        for place in entries(&plan) {
            sweep_place(state, log, &plan, &place);
        }
        // Only if it is empty.
        let _ = fs::remove_dir(&plan);
    }
    if entries(&workspaces).is_empty() {
        for unused in entries(&state.join("depots")) {
            remove_folder(&unused);
        }
    }
}

fn sweep_place(state: &Path, log: &dyn Log, plan: &Path, place: &Path) {
    let path = place.join("used");
    let Ok(used) = open(&path, false) else { return };
    if used.try_lock().is_err() || !is_at(&used, &path) {
        return;
    }
    let id = PlanId(fs::read_to_string(&path).unwrap_or_default());
    let last = used.metadata().and_then(|found| found.modified());
    let is_old = last.is_ok_and(|last| SystemTime::now().duration_since(last).is_ok_and(|age| age > UNUSED));
    if !is_old && !journal::read(log, &id).is_ok_and(|run| run.exists() && is_at_rest(&run)) {
        return;
    }
    if entries(plan).len() == 1 {
        environment::forget_apart(state, &id.0);
        home::forget(state, &id.0);
    }
    let work = place.join("work");
    gc::forget_workspace(state, &work.canonicalize().unwrap_or(work));
    // From one moment to the next, so that a process that waits for the lock makes it anew.
    let gone = place.with_extension("gone");
    if fs::rename(place, &gone).is_ok() {
        remove_folder(&gone);
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Removes the refs of plans that have been at rest for long, except what is needed to go on with them.
pub(crate) fn sweep_remote(state: &Path, log: &dyn Log, remote: &Remote) -> Result<usize, Error> {
    let plans: BTreeMap<String, PlanId> = log.plans()?.into_iter().map(|plan| (word(&plan), plan)).collect();
    let known: RefCell<BTreeMap<String, Option<Run>>> = RefCell::default();
    let is_over = |name: &str| {
        let Some((plan, rest)) = name.strip_prefix(PREFIX).and_then(|name| name.split_once('/')) else {
            return false;
        };
        let Some(id) = plans.get(plan) else { return false };
        let mut known = known.borrow_mut();
        let run = known.entry(plan.to_owned()).or_insert_with(|| rested(log, id, remote.keep()));
        run.as_ref().is_some_and(|run| is_unneeded(run, name, rest))
    };
    forget_sent(&depot(state, remote), remote, PREFIX, is_over).map_err(Error::Carry)
}

/// Returns the plan if it has been at rest for this time.
fn rested(log: &dyn Log, plan: &PlanId, time: Duration) -> Option<Run> {
    let run = journal::read(log, plan).ok().filter(is_at_rest)?;
    let age = plan_context::now().0.saturating_sub(run.moved?.0);
    (u128::from(age) >= time.as_millis()).then_some(run)
}

/// Returns whether a plan at rest can do without a ref: without trees that passed before the newest one, and
/// without what attempts left. If it is not done, the last attempt and those of the steps that have not passed
/// stay, with the trees that they began with.
fn is_unneeded(run: &Run, name: &str, rest: &str) -> bool {
    let mut works = run.sent_work().filter(|_| run.stage != Stage::Done);
    match rest.strip_prefix("passed/") {
        Some(tree) => {
            run.last_passed() != Some(tree) && !works.any(|work| work.base.as_deref() == Some(tree))
        }
        None if is_attempt(rest) => !works.any(|work| work.left.name == name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use provost_core::model::event::Event;
    use provost_core::state::run::Run;
    use serde_json::{Value, json};

    use super::is_unneeded;

    const TEXT: &str = "---\nstatus: draft\n---\n# T\n## Steps\n\
        ### 1. A\n**target:** coder\n**task:** Do it.\n**contract:**\n```shell\ntrue\n```\n\
        ### 2. B\n**target:** coder\n**task:** Do it.\n**contract:**\n```shell\ntrue\n```\n\
        ### 3. C\n**target:** coder\n**task:** Do it.\n**contract:**\n```shell\ntrue\n```\n";

    fn hear(run: &mut Run, name: &str, details: Value) {
        let event: Event = serde_json::from_value(json!({ "event": name, "details": details })).expect(name);
        run.apply(&event);
    }

    fn ends(run: &mut Run, step: u32, attempt: u32, passed: Option<&str>) {
        let name = format!("refs/provost/p/{step}/a{attempt}-e1");
        let beside = passed.map_or(json!({}), |passed| json!({ "passed": passed }));
        let carried = json!({ "tree": "w", "name": name, "machine": "m", "beside": beside });
        let end = json!({ "kind": "exited", "exit_code": 0 });
        let ended =
            json!({ "step": step, "attempt": attempt, "end": end, "duration_ms": 1, "carried": carried });
        hear(run, "ATTEMPT_ENDED", ended);
    }

    fn passes(run: &mut Run, step: u32, tree: &str) {
        hear(run, "TASK_COMPLETED", json!({ "step": step, "attempt": 1, "result": "held", "tree": tree }));
    }

    #[test]
    fn a_plan_that_is_not_done_keeps_the_last_attempt_of_each_open_step() {
        let mut run = Run::default();
        hear(
            &mut run,
            "PLAN_CREATED",
            json!({ "text": TEXT, "revision": "r", "base": "c", "task_count": 3 }),
        );
        ends(&mut run, 1, 1, None);
        passes(&mut run, 1, "p1");
        ends(&mut run, 2, 1, Some("p1"));
        ends(&mut run, 2, 2, Some("p1"));
        ends(&mut run, 3, 1, Some("p1"));
        passes(&mut run, 3, "p3");
        let kept = |run: &Run| {
            let names = ["1/a1-e1", "2/a1-e1", "2/a2-e1", "3/a1-e1", "passed/p1", "passed/p2", "passed/p3"];
            let is_kept = |rest: &&str| !is_unneeded(run, &format!("refs/provost/p/{rest}"), rest);
            names.into_iter().filter(is_kept).collect::<Vec<_>>()
        };
        assert_eq!(kept(&run), ["2/a2-e1", "passed/p1", "passed/p3"]);
        let summary = json!({ "completed": 3, "failed": 0, "skipped": 0, "retries": 0 });
        hear(&mut run, "EXECUTION_COMPLETE", json!({ "outcome": "done", "summary": summary }));
        assert_eq!(kept(&run), ["passed/p3"]);
    }
}
