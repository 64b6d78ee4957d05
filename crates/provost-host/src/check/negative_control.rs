//! Negative controls: runs a contract that held again under conditions in which it must fail.
//!
//! - The number of tests, and the test runners that were seen, are compared with those before the work.
//! - With only the test and configuration files changed that the check depends on, it must still fail.
//! - Without the test runner configuration that the work added, it must still hold.
//! - With every test made to fail, or with a failing test planted, it must fail.
//!
//! Each control is the same check in the same sandbox, with the same timeout and stop flag. If no control
//! is possible, the verdict says `uncontrolled` and why.
//!
//! **Invariant:** nothing here makes a verdict better.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;

use provost_core::language::runner::report::RunnerReport;
use provost_core::language::runner::{self, Runner, RunnerStart};
use provost_core::language::test_files;
use provost_core::model::plan::Shell;
use provost_core::model::quote;
use provost_core::model::verdict::{ChangedTests, CheckOutcome, Isolation, Teeth, Verdict};

use crate::Interrupted;
use crate::activity::Activity;
use crate::check::judge::OUTPUT_MAX;
use crate::check::judge::reporter::Control;
use crate::tree::{Base, Layer, Touches, Trees, Variation};

mod configuration;
mod planting;

/// Folders of dependencies and build results, which contain no tests of the project.
const PASSED_BY: [&str; 6] = ["node_modules", "target", ".venv", ".git", "__pycache__", "vendor"];
/// Most files of a tree that are looked at.
const FILES_MAX: usize = 50_000;
const TEXT_MAX: u64 = 1 << 20;
/// Most test runners of a contract that are tried.
const RUNNERS_MAX: usize = 3;
const NAMES_MAX: usize = 3;
/// Most test file names in a verdict; it also has their number.
const TESTS_NAMED: usize = 40;

/// What provost says while a control runs.
pub const CONTROL_ACTIVITY: &str = "trying whether the check can fail";

const NO_RUNNER: &str = "no test runner was seen, so there was nothing to plant a failing test in";

/// Which negative controls to run on a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Its result before the work, if that is known.
    pub before: Option<BaseResult>,
    /// The step's purpose is to write tests; a person approved that its check depends on them.
    pub writes_tests: bool,
    /// Find out whether the check notices a failing test.
    pub bite: bool,
}

/// A contract's result on the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseResult {
    pub held: bool,
    pub tests: Option<u32>,
    /// The test runners that reported themselves.
    pub runners: Vec<String>,
}

/// One run of a check, and what its reporters saw.
pub struct ControlRun {
    pub verdict: Verdict,
    pub report: RunnerReport,
}

/// Turns a check that held into a failed one if it ran no tests, fewer than before the work, or without a
/// test runner that ran before.
pub fn counted(doubts: &Doubts, mut observed: ControlRun) -> ControlRun {
    if let Some(why) = why_not(doubts, &observed).filter(|_| observed.verdict.held()) {
        observed.verdict.outcome = CheckOutcome::Broke { exit_code: 0 };
        observed.verdict.unmet.push(why);
    }
    observed
}

fn why_not(doubts: &Doubts, observed: &ControlRun) -> Option<String> {
    let ControlRun { verdict, report } = observed;
    if let Some(session) = report.unfinished() {
        let runner = session.runner.word();
        return Some(format!("{runner} started and its process ended before its tests had run"));
    }
    // A step whose purpose is to write tests may also remove some.
    let before = doubts.before.as_ref().filter(|_| !doubts.writes_tests);
    let tests = before.and_then(|before| before.tests).filter(|_| !is_uncounted(observed));
    let gone = before.iter().flat_map(|before| &before.runners).find(|name| !verdict.runners.contains(name));
    runner::too_few(tests, verdict.tests)
        .or_else(|| gone.map(|name| format!("{name} ran before the work and does not run now")))
}

/// Returns whether the output is too long to be read whole and nothing else tells the number of tests.
fn is_uncounted(observed: &ControlRun) -> bool {
    let verdict = &observed.verdict;
    let is_long = verdict.stdout.bytes > OUTPUT_MAX || verdict.stderr.bytes > OUTPUT_MAX;
    is_long && verdict.tests.is_none()
}

/// A check that held, with the tree on which it held.
pub struct ControlRequest<'a> {
    pub level: Isolation,
    pub shell: &'a Shell,
    pub doubts: &'a Doubts,
    pub trees: &'a Trees,
    pub base: &'a Base,
    pub layer: &'a Layer,
    /// Globs of the files that the step may change.
    pub touches: &'a Touches,
    /// Decides where a test is planted and under which name, so that no code can know it before.
    pub seed: u64,
    /// Runs the same check on another layer, or with its tests forced to fail or pass.
    pub run: &'a (dyn Fn(&Layer, Control) -> Result<ControlRun, Interrupted> + Sync),
}

/// Returns a new random seed of a [`ControlRequest`].
pub fn seed() -> u64 {
    // Each `RandomState` has new random keys.
    RandomState::new().build_hasher().finish()
}

impl ControlRequest<'_> {
    pub fn doubt(&self, observed: ControlRun) -> Result<Verdict, Interrupted> {
        let ControlRun { verdict, report } = &observed;
        let mut verdict = Verdict { tests_changed: self.tests_changed().map(Box::new), ..verdict.clone() };
        if let Some(outcome) = self.bought()? {
            return Ok(Verdict { outcome, ..verdict });
        }
        if self.doubts.bite {
            match self.without_configuration()? {
                Ok(rests_on) => verdict.rests_on = rests_on,
                Err(outcome) => return Ok(Verdict { outcome, ..verdict }),
            }
        }
        if !self.doubts.bite || test_files::only_looks(&self.shell.command) {
            return Ok(verdict);
        }
        let teeth = self.teeth(report)?;
        if let Some(teeth) = teeth.as_ref().filter(|teeth| teeth.planted.is_some() && !teeth.bit) {
            let outcome = CheckOutcome::Vacuous { reason: teeth.to_string() };
            return Ok(Verdict { outcome, teeth: Some(Box::new(teeth.clone())), ..verdict });
        }
        verdict.uncontrolled = match &teeth {
            Some(teeth) if teeth.bit => None,
            Some(teeth) => Some(teeth.note.clone()),
            // If only outputs are compared, the failure before the work is the control.
            None => test_files::lets_code_decide(&self.shell.command).then(|| NO_RUNNER.to_owned()),
        };
        if report.is_cut {
            verdict.uncontrolled = Some("its test runners reported more than provost keeps".to_owned());
        } else if is_uncounted(&observed) {
            verdict.uncontrolled = Some("its output is too long to count its tests".to_owned());
        }
        Ok(Verdict { teeth: teeth.map(Box::new), ..verdict })
    }

    /// Runs a control. If something outside killed it, it counts as not run: it did not fail by itself.
    fn again(&self, layer: &Layer, control: Control) -> Result<ControlRun, Interrupted> {
        let _activity = Activity::begin(CONTROL_ACTIVITY);
        let mut with = (self.run)(layer, control)?;
        if let CheckOutcome::Killed { signal } = with.verdict.outcome {
            let reason = format!("a run that had to fail was killed by signal {signal} from outside");
            with.verdict.outcome = CheckOutcome::NotRun { reason };
        }
        Ok(with)
    }

    /// Returns the test files that the work changed.
    fn tests_changed(&self) -> Option<ChangedTests> {
        let changed = self.layer.changed.iter().filter(|path| test_files::is_test(path));
        let changed = changed.map(|path| match self.base.has(path) {
            true => path.clone(),
            false => format!("{path} (new)"),
        });
        let deleted = self.layer.deleted.iter().filter(|path| test_files::is_test(path));
        let files: Vec<String> = changed.chain(deleted.map(|path| format!("{path} (deleted)"))).collect();
        let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
        let files: Vec<String> = files.into_iter().take(TESTS_NAMED).collect();
        (count > 0).then_some(ChangedTests { count, files })
    }

    fn varied(&self, layer: &Layer, how: &Variation<'_>) -> Result<Layer, String> {
        self.trees.varied(self.base, layer, how).map_err(|error| error.to_string())
    }

    /// Checks whether the contract holds with only those files changed that it depends on; then the verdict
    /// is vacuous.
    fn bought(&self) -> Result<Option<CheckOutcome>, Interrupted> {
        let was_red = self.doubts.before.as_ref().is_some_and(|before| !before.held);
        // If the plan names only configuration files, they are the work.
        if !was_red || self.doubts.writes_tests || self.touches.are_configuration() {
            return Ok(None);
        }
        let changed: Vec<&str> =
            self.layer.changed.iter().chain(&self.layer.deleted).map(String::as_str).collect();
        let rests_on = test_files::of_contract(&self.shell.command, changed.iter().copied());
        if rests_on.is_empty() {
            return Ok(None);
        }
        // If nothing else was changed, this is the tree on which it held.
        if rests_on.len() < changed.len() {
            let wanted = |path: &Path| rests_on.iter().any(|own| Path::new(own) == path);
            let alone = match self.varied(self.layer, &Variation::Only(&wanted)) {
                Ok(layer) => self.again(&layer, Control::AsTheyAre)?.verdict,
                Err(reason) => Verdict::not_run(self.level, reason),
            };
            match alone.outcome {
                CheckOutcome::Held => {}
                CheckOutcome::NotRun { reason } => {
                    let reason = format!("with only its tests and configuration changed: {reason}");
                    return Ok(Some(CheckOutcome::NotRun { reason }));
                }
                _ => return Ok(None),
            }
        }
        let reason = format!("it holds with only {} changed", listed(&rests_on));
        Ok(Some(CheckOutcome::Vacuous { reason }))
    }

    /// Makes the tests of every test runner fail; the first that goes unnoticed decides. Returns `None` if
    /// there is no runner.
    fn teeth(&self, report: &RunnerReport) -> Result<Option<Teeth>, Interrupted> {
        let mut found = None;
        if !report.sessions.is_empty() {
            let teeth = self.change_tests(report)?;
            if !teeth.bit {
                return Ok(Some(teeth));
            }
            found = Some(teeth);
        }
        let mut all = self.runners(report);
        let count = all.len();
        all.truncate(RUNNERS_MAX);
        if self.shell.is_meant_to_fail() && found.is_none() && !all.is_empty() {
            return Ok(Some(unplanted("it is meant to fail")));
        }
        let files = if all.is_empty() { BTreeSet::new() } else { self.files() };
        for started in &all {
            let teeth = self.tried(started, &files)?;
            if teeth.planted.is_some() && !teeth.bit {
                return Ok(Some(teeth));
            }
            // A control that worked says more than one that could not be planted.
            if found.as_ref().is_none_or(|known: &Teeth| !known.bit) {
                found = Some(teeth);
            }
        }
        if count > RUNNERS_MAX && found.as_ref().is_none_or(|known| !known.bit) {
            found = Some(unplanted(&format!(
                "only {RUNNERS_MAX} of the {count} test runners it starts were tried"
            )));
        }
        let other = report
            .others
            .first()
            .map(|name| unplanted(&format!("provost cannot plant a failing test in {name}")));
        Ok(found.or(other))
    }

    /// Returns the test runners for which a failing test is planted: those that were seen, and those that
    /// the contract names but that were not seen.
    fn runners(&self, report: &RunnerReport) -> Vec<RunnerStart> {
        let named = runner::started(&self.shell.command);
        let named: Vec<RunnerStart> = named.iter().flat_map(|started| self.resolved(started)).collect();
        let mut all: Vec<RunnerStart> = Vec::new();
        for started in &report.started {
            // Only the contract's text shows whether a runner is meant to fail; the reporters cannot see
            // it.
            let negated = named.iter().any(|own| own.runner == started.runner && own.negated);
            let started = RunnerStart { negated, ..started.clone() };
            if !all.contains(&started) {
                all.push(started);
            }
        }
        let is_seen = |runner: Runner| {
            let mut sessions = report.sessions.iter().map(|session| session.runner);
            sessions.any(|own| own == runner) || report.started.iter().any(|own| own.runner == runner)
        };
        let is_vague = |started: &RunnerStart| matches!(started.runner, Runner::Script | Runner::Other);
        let is_missing =
            |started: &RunnerStart| !is_seen(started.runner) && (report.is_empty() || !is_vague(started));
        all.extend(named.into_iter().filter(is_missing));
        all
    }

    /// Tries the reporters' control if they can change the runner's tests; otherwise plants a test.
    fn tried(&self, started: &RunnerStart, files: &BTreeSet<String>) -> Result<Teeth, Interrupted> {
        if matches!(started.runner, Runner::Node | Runner::NodeFile) && !started.negated {
            let word = started.runner.word();
            let with = self.again(self.layer, Control::Fail)?;
            let is_run = !matches!(with.verdict.outcome, CheckOutcome::NotRun { .. });
            let bit = !with.verdict.held();
            // A test file may end its own process for good reasons; then a test is planted in it.
            if is_run && (bit || started.runner == Runner::Node && !self.holds_with_failing_tests_before()?) {
                let note = format!("all tests of {word} were made to fail");
                return Ok(Teeth { planted: Some(word.to_owned()), bit, note });
            }
        }
        if matches!(started.runner, Runner::Script | Runner::Other) {
            return Ok(unplanted(NO_RUNNER));
        }
        self.plant(started, files)
    }

    /// Returns whether the contract held before the work with failing tests; then this control says nothing
    /// about the work.
    fn holds_with_failing_tests_before(&self) -> Result<bool, Interrupted> {
        if self.doubts.before.as_ref().is_none_or(|before| !before.held) {
            return Ok(false);
        }
        let Ok(nothing) = self.varied(self.layer, &Variation::Only(&|_| false)) else { return Ok(false) };
        Ok(self.again(&nothing, Control::Fail)?.verdict.held())
    }

    /// Makes every test of the reported sessions fail. If some failed already, or the contract is meant to
    /// fail, every test is first made to pass.
    fn change_tests(&self, report: &RunnerReport) -> Result<Teeth, Interrupted> {
        let mut words: Vec<&str> = report.sessions.iter().map(|session| session.runner.word()).collect();
        words.sort_unstable();
        words.dedup();
        let word = words.join(" and ");
        let some_failed =
            report.sessions.iter().any(|session| session.ended.is_some_and(|ended| ended.failed > 0));
        let is_negated = self.shell.is_meant_to_fail()
            || runner::started(&self.shell.command).iter().any(|started| started.negated);
        let controls: &[Control] = match some_failed || is_negated {
            true => &[Control::Pass, Control::Fail],
            false => &[Control::Fail],
        };
        let teeth = |bit, note| Teeth { planted: Some(word.clone()), bit, note };
        for control in controls {
            let with = self.again(self.layer, *control)?;
            let unmoved = with.report.sessions.iter().find_map(|session| session.unmoved.first());
            let made = if *control == Control::Fail { "fail" } else { "pass" };
            match (&with.verdict.outcome, unmoved) {
                (CheckOutcome::NotRun { reason }, _) => return Ok(unplanted(reason)),
                (_, Some(name)) => {
                    let name = quote::one_line(name);
                    let note = format!("{name} was made to fail and was reported as passed");
                    return Ok(teeth(false, note));
                }
                (CheckOutcome::Held, None) => {}
                // Code under test may end its own process, by chance or because it knows the control.
                _ if !has_changed_tests(&with.report, *control) => {
                    let note = format!("the check ended before a test of {word} could be made to {made}");
                    return Ok(unplanted(&note));
                }
                _ => return Ok(teeth(true, format!("all tests of {word} were made to {made}"))),
            }
        }
        let made = if controls.len() == 1 { "fail" } else { "pass, then to fail" };
        Ok(teeth(false, format!("all tests of {word} were made to {made}")))
    }

    /// Returns the runners that a script of package.json starts, if that file is in the tree.
    fn resolved(&self, started: &RunnerStart) -> Vec<RunnerStart> {
        if started.runner != Runner::Script {
            return vec![started.clone()];
        }
        let path = match started.folder.as_str() {
            "" => "package.json".to_owned(),
            folder => format!("{folder}/package.json"),
        };
        let found = self.text(&path).map(|text| runner::of_script(&text, started)).unwrap_or_default();
        if found.is_empty() { vec![started.clone()] } else { found }
    }

    /// Returns the files of base and work together.
    fn files(&self) -> BTreeSet<String> {
        let of_layer = self.layer.changed_paths().map(Path::to_owned);
        let of_base = self.base.files().unwrap_or_default();
        let passed_by = |path: &Path| {
            path.components().any(|part| PASSED_BY.iter().any(|name| part.as_os_str() == *name))
        };
        let named = of_layer.chain(of_base).filter(|path| !passed_by(path));
        let mut files: BTreeSet<String> =
            named.filter_map(|path| path.into_os_string().into_string().ok()).take(FILES_MAX).collect();
        for path in self.layer.deleted_paths().filter(|path| !self.layer.path.join(path).exists()) {
            files.remove(&*path.to_string_lossy());
        }
        files
    }

    fn text(&self, path: &str) -> Option<String> {
        read(&self.layer.path.join(path)).or_else(|| self.text_of_base(path))
    }

    fn text_of_base(&self, path: &str) -> Option<String> {
        read(&self.base.file(path)).filter(|_| self.base.has(path))
    }
}

/// Returns whether a test ran and ended as it was made to.
fn has_changed_tests(report: &RunnerReport, control: Control) -> bool {
    let mut counts = report.sessions.iter().filter_map(|session| session.ended);
    match control {
        Control::Fail => counts.any(|counts| counts.failed > 0),
        Control::Pass => counts.any(|counts| counts.passed > 0),
        Control::AsTheyAre => true,
    }
}

fn unplanted(why: &str) -> Teeth {
    Teeth { planted: None, bit: false, note: why.to_owned() }
}

fn listed(files: &[&str]) -> String {
    let shown = files.iter().take(NAMES_MAX).map(|file| quote::one_line(file)).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn read(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > TEXT_MAX {
        return None;
    }
    fs::read_to_string(path).ok()
}
