//! Runs the checks of a plan on the base before approval, so that the gate can say which of them already
//! hold. The results are kept in the state folder, by revision.
//!
//! **Invariant:** every check here runs in bubblewrap and without network, because no person has approved
//! these commands yet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::plan::Step;
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_core::state::run::{Run, Stage};
use provost_core::text::render::base::{self, BaseLook};
use provost_host::activity::Activity;
use provost_host::check::judge;
use provost_host::exec::environment::{self, RunPaths};
use provost_host::process;

use crate::Error;
use crate::exec::approved_base::on_the_base;
use crate::exec::confined;
use crate::exec::executor::Executor;
use crate::plan::harness::Harness;

/// Time limits for one check and for all of them, regardless of the plan.
#[derive(Clone, Copy)]
struct Patience {
    each: Duration,
    all: Duration,
}

const OF_A_PERSON: Patience = Patience { each: Duration::from_secs(30), all: Duration::from_secs(90) };
/// A client gives up on a call that takes longer.
const OF_A_SESSION: Patience = Patience { each: Duration::from_secs(10), all: Duration::from_secs(20) };

/// Result of running the checks on the base, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnBase {
    Known(BaseLook),
    /// Another process is running them.
    UnderWay,
    /// They are not run: the plan has been at the gate before, or its checks cannot be run safely.
    NotTried,
}

/// Base checks this process has started, by state folder, plan and revision; `true` once they are finished.
static BEGUN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Returns the result for this revision, if the checks were run before.
pub fn base_look(harness: &Harness, run: &Run) -> Option<BaseLook> {
    let text = std::fs::read_to_string(base_file(harness)).ok()?;
    let look: BaseLook = serde_json::from_str(&text).ok()?;
    (look.revision == run.revision.0 && !run.revision.0.is_empty()).then_some(look)
}

/// Returns the result and runs the checks if there is none yet. Returns `None` if the plan has been at
/// the gate before, or its checks cannot be run safely.
pub fn look_at_base(harness: &Harness, run: &Run) -> Option<BaseLook> {
    look_within(harness, run, OF_A_PERSON)
}

/// Runs [`Harness::look_at_base`] for a session, whose call must not take long: some checks may be left
/// out.
pub fn look_at_base_briefly(harness: &Harness, run: &Run) -> Option<BaseLook> {
    look_within(harness, run, OF_A_SESSION)
}

fn look_within(harness: &Harness, run: &Run, patience: Patience) -> Option<BaseLook> {
    if let Some(look) = base_look(harness, run) {
        return Some(look);
    }
    if !may_look(harness, run) {
        return None;
    }
    // If this fails, the gate works anyway and only shows less.
    tried_on_base(harness, run, patience).ok().flatten()
}

/// Returns the result at once. If there is none yet, starts another process that runs the checks, so that
/// the caller can show the gate meanwhile. A process runs each revision once, one at a time.
pub fn on_base(harness: &Harness, run: &Run) -> OnBase {
    if let Some(look) = base_look(harness, run) {
        return OnBase::Known(look);
    }
    if !may_look(harness, run) {
        return OnBase::NotTried;
    }
    let key = format!("{} {} {}", harness.state().display(), harness.id(), run.revision.0);
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    match begun.get(&key) {
        Some(false) => return OnBase::UnderWay,
        Some(true) => return OnBase::NotTried,
        None if begun.values().any(|is_over| !is_over) => return OnBase::UnderWay,
        None => {}
    }
    let Ok(mut child) = looker(harness).spawn() else { return OnBase::NotTried };
    begun.insert(key.clone(), false);
    std::thread::spawn(move || {
        let _ = child.wait();
        BEGUN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, true);
    });
    OnBase::UnderWay
}

/// Returns the command `provost show`, which runs the checks and keeps the result.
fn looker(harness: &Harness) -> Command {
    let program = harness.site().launcher.first().cloned().unwrap_or_else(|| OsString::from("provost"));
    let mut look = Command::new(program);
    look.arg("--state").arg(harness.state()).arg("show").arg(&harness.place().path);
    look.current_dir(&harness.place().workspace);
    look.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    look
}

fn may_look(harness: &Harness, run: &Run) -> bool {
    let is_new = run.stage == Stage::Verified && !run.started();
    let has_checks = run.plan.steps.iter().any(may_be_tried)
        || run.plan.postconditions.iter().any(|post| base::is_shell(post.contract.as_ref()));
    let elsewhere = harness.is_under_way() || !harness.workplace.is_workspace() || harness.within.is_some();
    is_new && has_checks && !elsewhere
}

fn tried_on_base(harness: &Harness, run: &Run, patience: Patience) -> Result<Option<BaseLook>, Error> {
    let _ = process::become_subreaper();
    let launcher = confined::launcher(&harness.site().launcher);
    let workspace = &harness.place().workspace;
    let estate =
        RunPaths { workspace, state: harness.state(), read_only: &[], secrets: &[], launcher: &launcher };
    let (offer, seen) = environment::attest(harness.config().verify.isolation, &estate)?;
    if seen.level != Isolation::Clean {
        return Ok(None);
    }
    let hands = Executor::new(harness.site(), on_the_base(harness, run, offer, seen.level, &estate)?);
    let begun = Instant::now();
    let left = || patience.all.saturating_sub(begun.elapsed()).min(patience.each);
    let goes_on = || !left().is_zero() && !harness.site().is_stopped();
    let mut look = BaseLook { revision: run.revision.0.clone(), ..BaseLook::default() };
    let steps: Vec<&Step> = run.plan.steps.iter().filter(|step| may_be_tried(step)).collect();
    let total = steps.len() + run.plan.postconditions.len();
    let activity = Activity::counting("running the checks on the base", total);
    for (done, step) in steps.into_iter().enumerate().take_while(|_| goes_on()) {
        activity.has_done(done);
        look.steps.extend(hands.step_on_base(run, step.number, left()).map(|seen| (step.number, seen)));
    }
    for post in run.plan.postconditions.iter().filter(|_| goes_on()) {
        let seen = hands.postcondition_on_base(run, post.number, left());
        look.postconditions.extend(seen.map(|seen| (post.number, seen)));
    }
    judge::leave();
    if harness.site().is_stopped() {
        return Ok(None);
    }
    // Checks that a session's time limit cut short are run again for a person.
    let is_cut = |verdict: &Verdict| matches!(verdict.outcome, CheckOutcome::TimedOut { .. });
    let mut all = look.steps.values().chain(look.postconditions.values());
    if patience.all >= OF_A_PERSON.all || !left().is_zero() && !all.any(is_cut) {
        keep(harness, &look);
    }
    Ok(Some(look))
}

/// Keeps the result; if that fails, the checks run again next time.
fn keep(harness: &Harness, look: &BaseLook) {
    let (file, text) = (base_file(harness), serde_json::to_string(look).unwrap_or_default());
    let next = file.with_extension(std::process::id().to_string());
    let _ = file.parent().map(std::fs::create_dir_all);
    if std::fs::write(&next, text).is_err() || std::fs::rename(&next, &file).is_err() {
        let _ = std::fs::remove_file(&next);
    }
}

fn base_file(harness: &Harness) -> PathBuf {
    harness.state().join("base").join(format!("{}.json", harness.id()))
}

/// Returns whether the contract is a command that needs neither network nor secrets.
fn may_be_tried(step: &Step) -> bool {
    let network = step.network.as_ref().is_some_and(|network| network.value);
    base::is_shell(step.contract.as_ref()) && !network && step.secrets.is_empty()
}
