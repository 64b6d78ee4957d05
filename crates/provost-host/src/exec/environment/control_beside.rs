//! Runs a check and its first negative control at the same time, if a core is free. Both together then take as long
//! as the slower one.
//!
//! The control has the lowest priority, so it hardly slows the check down.
//!
//! **Invariant:** if either came to no result while both ran, it is run again alone.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use provost_core::language::runner::Runner;
use provost_core::language::test_files;
use provost_core::model::verdict::{CheckOutcome, Isolation};

use super::check_request::CheckSpec;
use super::kept_results::sees_tree_only;
use super::test_comparison::Before;
use super::{ApprovedTree, ExecEnv};
use crate::Interrupted;
use crate::activity::Activity;
use crate::check::judge::reporter::Control;
use crate::check::negative_control::{CONTROL_ACTIVITY, ControlRequest, ControlRun};

/// The delay after which a stop request is noticed, at most.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// Runs a check once.
pub(super) type RunCheck<'a> = dyn Fn(&CheckSpec<'_>) -> Result<ControlRun, Interrupted> + Sync + 'a;

/// Runs the first negative control; returns `None` if there is none.
pub(super) type RunControl<'a> =
    dyn Fn(&CheckSpec<'_>) -> Result<Option<FirstControl>, Interrupted> + Sync + 'a;

/// A negative control that ran beside its check.
pub(super) struct FirstControl {
    /// Id of the tree that it ran on.
    pub tree: String,
    pub control: Control,
    pub run: ControlRun,
}

/// A core that one check uses.
pub(super) struct UsedCore;

static CORES_USED: AtomicUsize = AtomicUsize::new(0);

impl UsedCore {
    fn take() -> Self {
        CORES_USED.fetch_add(1, Ordering::Relaxed);
        Self
    }

    /// Takes a free core for work beside a check that is about to start; the check takes its own core itself.
    pub(super) fn take_second() -> Option<Self> {
        let _first = Self::take();
        Self::take_free()
    }

    fn take_free() -> Option<Self> {
        let all = thread::available_parallelism().map_or(1, NonZero::get);
        let next = |used| (used < all).then_some(used + 1);
        CORES_USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|_| Self)
    }
}

impl Drop for UsedCore {
    fn drop(&mut self) {
        CORES_USED.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ExecEnv {
    /// Runs a check. Also returns its first control, if there was a free core for it and it failed as it had to.
    pub(super) fn with_control_beside(
        &self,
        case: &CheckSpec<'_>,
        check: &RunCheck<'_>,
        control: &RunControl<'_>,
    ) -> Result<(ControlRun, Option<FirstControl>), Interrupted> {
        let _core = UsedCore::take();
        let second_core = if self.expects_control(case) { UsedCore::take_free() } else { None };
        match second_core {
            Some(_) => both(case, check, control),
            None => Ok((check(case)?, None)),
        }
    }

    /// Runs the control that provost needs first if the check of `bench` holds. Returns `None` if the contract's text
    /// does not tell which one that is.
    pub(super) fn first_control(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        bench: &ControlRequest<'_>,
        before: &Before,
    ) -> Result<Option<FirstControl>, Interrupted> {
        let (planted, control) = match makes_tests_fail(case) {
            true => (None, Control::Fail),
            false => (bench.first_planted(), Control::AsTheyAre),
        };
        if planted.is_none() && control == Control::AsTheyAre {
            return Ok(None);
        }
        let layer = planted.as_ref().unwrap_or(bench.layer);
        let run = self.on(approved, case, bench.base, layer, control, before)?;
        Ok(Some(FirstControl { tree: layer.id.clone(), control, run }))
    }

    /// Returns whether the control will be needed if the check holds: a runner ran before the work, so there are
    /// tests that can be made to fail. Both must be able to run at once without meeting each other.
    pub(super) fn expects_control(&self, case: &CheckSpec<'_>) -> bool {
        let has_runner = case.doubts.before.as_ref().is_some_and(|before| !before.runners.is_empty());
        let is_changed = case.doubts.bite && !test_files::only_looks(&case.shell.command);
        let is_apart = self.level == Isolation::Clean && sees_tree_only(case);
        has_runner && is_changed && is_apart && !case.shell.is_meant_to_fail()
    }
}

/// Returns whether the tests of a runner that ran before the work are made to fail as a whole. For other runners, a
/// failing test is planted.
fn makes_tests_fail(case: &CheckSpec<'_>) -> bool {
    let is_made_to_fail =
        |name: &String| Runner::MADE_TO_FAIL.iter().any(|runner| runner.word() == name.as_str());
    case.doubts.before.as_ref().is_some_and(|before| before.runners.iter().any(is_made_to_fail))
}

/// Runs a check and its control at once.
fn both(
    case: &CheckSpec<'_>,
    check: &RunCheck<'_>,
    control: &RunControl<'_>,
) -> Result<(ControlRun, Option<FirstControl>), Interrupted> {
    let is_over = AtomicBool::new(false);
    let tag = format!("{}/control", case.tag);
    let second =
        CheckSpec { tag: &tag, stop: Some(&is_over), shown_to: None, in_background: true, ..case.clone() };
    let (observed, first) = thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        scope.spawn(move || {
            let _ = sender.send(control(&second));
        });
        let observed = check(case);
        let mut first = None;
        if observed.as_ref().is_ok_and(|observed| observed.verdict.held()) {
            let _activity = Activity::begin(CONTROL_ACTIVITY);
            first = awaited(&ended, case.stop);
        }
        is_over.store(true, Ordering::Relaxed);
        (observed, first)
    });
    let has_result =
        |run: &ControlRun| matches!(run.verdict.outcome, CheckOutcome::Held | CheckOutcome::Broke { .. });
    let observed = match observed? {
        observed if has_result(&observed) => observed,
        _ => check(case)?,
    };
    Ok((observed, first.filter(|first| has_result(&first.run) && !first.run.verdict.held())))
}

/// Waits for the control; returns `None` if a person stops the run.
fn awaited(
    ended: &mpsc::Receiver<Result<Option<FirstControl>, Interrupted>>,
    stop: Option<&AtomicBool>,
) -> Option<FirstControl> {
    loop {
        match ended.recv_timeout(STOP_LATENCY) {
            Err(RecvTimeoutError::Timeout) if !stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) => {}
            ended => return ended.ok()?.ok()?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use provost_core::language::runner::report::RunnerReport;
    use provost_core::model::plan::Shell;
    use provost_core::model::verdict::Verdict;

    use super::*;

    /// Runs a check whose runs end as `outcome` says; returns both runs and the tags of all runs.
    fn ran(
        outcome: impl Fn(&CheckSpec<'_>, Control, usize) -> CheckOutcome + Sync,
    ) -> (ControlRun, Option<FirstControl>, Vec<String>) {
        let shell =
            Shell { command: "pytest".to_owned(), body: Default::default(), expectations: Vec::new() };
        let case = CheckSpec {
            shell: &shell,
            timeout: Duration::from_secs(1),
            tag: "plan/1/1",
            stop: None,
            tree: None,
            start: None,
            with_work: true,
            apart: None,
            touches: None,
            protect: &[],
            network: false,
            processes: Default::default(),
            given: Default::default(),
            bounds: None,
            doubts: Default::default(),
            compare: Default::default(),
            reuses: false,
            in_background: false,
            shown_to: None,
        };
        let tags = Mutex::new(Vec::new());
        let run = |case: &CheckSpec<'_>, control: Control| {
            let mut tags = tags.lock().unwrap();
            tags.push(case.tag.to_owned());
            let count = tags.iter().filter(|tag| *tag == case.tag).count();
            drop(tags);
            assert_eq!(case.in_background, control == Control::Fail);
            let verdict = Verdict::bare(Isolation::Clean, outcome(case, control, count));
            Ok(ControlRun { verdict, report: RunnerReport::default() })
        };
        let check = |case: &CheckSpec<'_>| run(case, Control::AsTheyAre);
        let control = |case: &CheckSpec<'_>| {
            let (tree, control) = ("tree".to_owned(), Control::Fail);
            Ok(Some(FirstControl { tree, control, run: run(case, control)? }))
        };
        let (observed, control) = both(&case, &check, &control).unwrap();
        let mut tags = tags.into_inner().unwrap();
        tags.sort();
        (observed, control, tags)
    }

    const BROKE: CheckOutcome = CheckOutcome::Broke { exit_code: 1 };

    #[test]
    fn a_check_that_holds_has_its_control_at_once() {
        let (observed, control, tags) = ran(|_, control, _| match control {
            Control::Fail => BROKE,
            _ => CheckOutcome::Held,
        });
        assert!(observed.verdict.held());
        assert_eq!(control.unwrap().run.verdict.outcome, BROKE);
        assert_eq!(tags, ["plan/1/1", "plan/1/1/control"]);
    }

    #[test]
    fn a_control_that_held_or_came_to_no_result_does_not_count() {
        for outcome in [CheckOutcome::Held, CheckOutcome::TimedOut { after_ms: 1 }] {
            let (_, control, _) = ran(|_, control, _| match control {
                Control::Fail => outcome.clone(),
                _ => CheckOutcome::Held,
            });
            assert!(control.is_none(), "{outcome:?}");
        }
    }

    #[test]
    fn a_check_that_came_to_no_result_is_run_again_alone() {
        let (observed, _, tags) = ran(|_, control, count| match (control, count) {
            (Control::Fail, _) => BROKE,
            (_, 1) => CheckOutcome::TimedOut { after_ms: 1 },
            _ => CheckOutcome::Held,
        });
        assert!(observed.verdict.held());
        assert_eq!(tags, ["plan/1/1", "plan/1/1", "plan/1/1/control"]);
    }

    #[test]
    fn a_check_that_fails_has_its_control_stopped() {
        let (observed, control, _) = ran(|case, control, _| {
            while control == Control::Fail && !case.stop.unwrap().load(Ordering::Relaxed) {
                thread::yield_now();
            }
            BROKE
        });
        assert_eq!(observed.verdict.outcome, BROKE);
        assert!(control.is_none());
    }
}
