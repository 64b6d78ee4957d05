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

use super::ExecEnv;
use super::check_request::CheckSpec;
use super::kept_results::sees_tree_only;
use crate::Interrupted;
use crate::activity::Activity;
use crate::check::judge::reporter::Control;
use crate::check::negative_control::{CONTROL_ACTIVITY, ControlRun};

/// The delay after which a stop request is noticed, at most.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// Runs a check once, with its tests as they are or changed.
pub(super) type RunCheck<'a> = dyn Fn(&CheckSpec<'_>, Control) -> Result<ControlRun, Interrupted> + Sync + 'a;

/// A core that one check uses.
struct UsedCore;

static CORES_USED: AtomicUsize = AtomicUsize::new(0);

impl UsedCore {
    fn take() -> Self {
        CORES_USED.fetch_add(1, Ordering::Relaxed);
        Self
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
    /// Runs a check. Also returns its run with every test made to fail, if there was a free core for it and it
    /// failed as it had to.
    pub(super) fn with_control_beside(
        &self,
        case: &CheckSpec<'_>,
        run: &RunCheck<'_>,
    ) -> Result<(ControlRun, Option<ControlRun>), Interrupted> {
        let _core = UsedCore::take();
        let second_core = if self.expects_control(case) { UsedCore::take_free() } else { None };
        match second_core {
            Some(_) => both(case, run),
            None => Ok((run(case, Control::AsTheyAre)?, None)),
        }
    }

    /// Returns whether the control will be needed if the check holds: a runner whose tests can be
    /// made to fail ran before the work. Both must be able to run at once without meeting each other.
    fn expects_control(&self, case: &CheckSpec<'_>) -> bool {
        let is_made_to_fail =
            |name: &String| Runner::MADE_TO_FAIL.iter().any(|runner| runner.word() == name.as_str());
        let before = case.doubts.before.as_ref();
        let has_runner = before.is_some_and(|before| before.runners.iter().any(is_made_to_fail));
        let is_changed = case.doubts.bite && !test_files::only_looks(&case.shell.command);
        let is_apart = self.level == Isolation::Clean && sees_tree_only(case);
        has_runner && is_changed && is_apart && !case.shell.is_meant_to_fail()
    }
}

/// Runs a check and its control at once.
fn both(case: &CheckSpec<'_>, run: &RunCheck<'_>) -> Result<(ControlRun, Option<ControlRun>), Interrupted> {
    let is_over = AtomicBool::new(false);
    let tag = format!("{}/control", case.tag);
    let second =
        CheckSpec { tag: &tag, stop: Some(&is_over), shown_to: None, in_background: true, ..case.clone() };
    let (observed, control) = thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        scope.spawn(move || {
            let _ = sender.send(run(&second, Control::Fail));
        });
        let observed = run(case, Control::AsTheyAre);
        let mut control = None;
        if observed.as_ref().is_ok_and(|observed| observed.verdict.held()) {
            let _activity = Activity::begin(CONTROL_ACTIVITY);
            control = awaited(&ended, case.stop);
        }
        is_over.store(true, Ordering::Relaxed);
        (observed, control)
    });
    let has_result =
        |run: &ControlRun| matches!(run.verdict.outcome, CheckOutcome::Held | CheckOutcome::Broke { .. });
    let observed = match observed? {
        observed if has_result(&observed) => observed,
        _ => run(case, Control::AsTheyAre)?,
    };
    Ok((observed, control.filter(|control| has_result(control) && !control.verdict.held())))
}

/// Waits for the control; returns `None` if a person stops the run.
fn awaited(
    ended: &mpsc::Receiver<Result<ControlRun, Interrupted>>,
    stop: Option<&AtomicBool>,
) -> Option<ControlRun> {
    loop {
        match ended.recv_timeout(STOP_LATENCY) {
            Err(RecvTimeoutError::Timeout) if !stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) => {}
            ended => return ended.ok()?.ok(),
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
    ) -> (ControlRun, Option<ControlRun>, Vec<String>) {
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
        let (observed, control) = both(&case, &run).unwrap();
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
        assert_eq!(control.unwrap().verdict.outcome, BROKE);
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
