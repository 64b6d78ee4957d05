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

use provost_core::language::runner::plant::{self, Plant};
use provost_core::language::runner::report::RunnerReport;
use provost_core::language::runner::{self, Runner, RunnerStart, Selection};
use provost_core::language::test_files;
use provost_core::model::plan::Shell;
use provost_core::model::quote;
use provost_core::model::verdict::{ChangedTests, CheckOutcome, Isolation, Teeth, Verdict};

use crate::Interrupted;
use crate::check::judge::OUTPUT_MAX;
use crate::check::judge::reporter::Control;
use crate::tree::{Base, Layer, Touches, Trees, Variation};

mod configuration;

/// Folders of dependencies and build results, which contain no tests of the project.
const PASSED_BY: [&str; 6] = ["node_modules", "target", ".venv", ".git", "__pycache__", "vendor"];
/// Most files of a tree that are looked at.
const FILES_MAX: usize = 50_000;
const TEXT_MAX: u64 = 1 << 20;
/// Most test runners of a contract that are tried.
const RUNNERS_MAX: usize = 3;
const NAMES_MAX: usize = 3;
/// Most test files in which a test is planted before provost gives up.
const PLACES_MAX: usize = 3;

/// Most test file names in a verdict; it also has their number.
const TESTS_NAMED: usize = 40;

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
    /// Runs the same check on another layer, or with its tests forced to fail or pass.
    pub run: &'a dyn Fn(&Layer, Control) -> Result<ControlRun, Interrupted>,
}

/// Result of one planted test.
enum Bite {
    Red,
    /// The check held in spite of the test; on the base the same test is found.
    Held,
    /// The test is not found at that place on the base either.
    Unreached,
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

    fn plant(&self, started: &RunnerStart, files: &BTreeSet<String>) -> Result<Teeth, Interrupted> {
        let chosen = match runner::selection(started) {
            Ok(chosen) => chosen,
            Err(why) => return Ok(unplanted(&why)),
        };
        let random = format!("{:012x}", random() & 0xffff_ffff_ffff);
        let mut unreached = None;
        for place in self.places(started, &chosen, files) {
            let Some(planted) = self.planted(started, &chosen, &place, &random, Side::Work) else { continue };
            let red = Teeth { planted: Some(planted.path.clone()), bit: true, note: String::new() };
            match self.bite(started, &chosen, &place, &planted, &random)? {
                Ok(Bite::Red) => return Ok(red),
                Ok(Bite::Held) => return Ok(Teeth { bit: false, ..red }),
                Ok(Bite::Unreached) => unreached = Some(place),
                Err(why) => return Ok(unplanted(&why)),
            }
        }
        Ok(match unreached {
            Some(Place::Into(at)) | Some(Place::Beside { folder: at, .. }) => {
                let at = if at.is_empty() { "the top folder" } else { at.as_str() };
                unplanted(&format!("{} does not run a test that is planted in {at}", started.runner.word()))
            }
            None if files.len() >= FILES_MAX => unplanted(&format!(
                "the tree has more than {FILES_MAX} files, so provost did not look at all of them"
            )),
            None => unplanted(&format!("no test file was found that {} runs", started.runner.word())),
        })
    }

    fn bite(
        &self,
        started: &RunnerStart,
        chosen: &Selection,
        place: &Place,
        planted: &Plant,
        random: &str,
    ) -> Result<Result<Bite, String>, Interrupted> {
        let with = match self.also(self.layer, planted) {
            Ok(layer) => self.again(&layer, Control::AsTheyAre)?.verdict,
            Err(why) => return Ok(Err(why)),
        };
        match with.outcome {
            CheckOutcome::Held => {}
            CheckOutcome::NotRun { reason } => return Ok(Err(reason)),
            _ => return Ok(Ok(Bite::Red)),
        }
        // Either the work hides the test or the runner does not search there; a run on the base tells
        // which.
        let Some(before) = &self.doubts.before else { return Ok(Ok(Bite::Held)) };
        let Some(on_base) = self.planted(started, chosen, place, random, Side::Base) else {
            return Ok(Ok(Bite::Held));
        };
        let nothing = match self.varied(self.layer, &Variation::Only(&|_| false)) {
            Ok(nothing) => nothing,
            Err(why) => return Ok(Err(why)),
        };
        let there = match self.also(&nothing, &on_base) {
            Ok(layer) => self.again(&layer, Control::AsTheyAre)?.verdict,
            Err(why) => return Ok(Err(why)),
        };
        let may_stop = runner::stops_early(started) || self.configured_to_stop();
        Ok(Ok(if is_unreached(before, &there, may_stop) { Bite::Unreached } else { Bite::Held }))
    }

    fn also(&self, layer: &Layer, planted: &Plant) -> Result<Layer, String> {
        let (path, content) = (Path::new(&planted.path), planted.text.as_bytes());
        self.varied(layer, &Variation::Also { path, content })
    }

    /// Returns whether a configuration file makes the run stop at its first failure.
    fn configured_to_stop(&self) -> bool {
        let names = ["pytest.ini", ".pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "package.json"];
        names.iter().any(|name| {
            let text = self.text_of_base(name).unwrap_or_default();
            [" -x", "\"-x", "'-x", "exitfirst", "maxfail", "bail"].iter().any(|word| text.contains(word))
        })
    }

    /// Returns whether cargo, started there, tests the package of this file: its own, or a member of the
    /// workspace if all members are tested.
    fn is_tested_by_cargo(&self, started: &RunnerStart, path: &str) -> bool {
        let at = |name: &str| match started.folder.as_str() {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        };
        let manifest = self.text(&at("Cargo.toml")).and_then(|text| text.parse::<toml::Table>().ok());
        let Some(manifest) = manifest else { return false };
        let package = package_of(path);
        if package == started.folder {
            return manifest.contains_key("package");
        }
        let is_for_all = |arg: &Option<String>| {
            matches!(arg.as_deref(), Some("--workspace" | "--all" | "-p" | "--package"))
        };
        let own = package.strip_prefix(at("").as_str()).unwrap_or(package);
        let matches = |list: &str| {
            let globs = manifest
                .get("workspace")
                .and_then(|found| found.get(list))
                .and_then(|found| found.as_array());
            let globs =
                globs.into_iter().flatten().filter_map(|glob| globset::Glob::new(glob.as_str()?).ok());
            globs.into_iter().any(|glob| glob.compile_matcher().is_match(own))
        };
        let is_whole = !manifest.contains_key("package") || started.args.iter().any(is_for_all);
        is_whole && matches("members") && !matches("exclude")
    }

    /// Returns places for a planted test, best first: a test file that the base has too and that mentions a
    /// changed file, another test file, a new file beside one.
    fn places(&self, started: &RunnerStart, chosen: &Selection, files: &BTreeSet<String>) -> Vec<Place> {
        let is_cargo = matches!(started.runner, Runner::Cargo | Runner::Nextest);
        let mut reached: Vec<&String> = files
            .iter()
            .filter(|path| chosen.reaches(started, path))
            .filter(|path| !is_cargo || self.is_tested_by_cargo(started, path))
            .collect();
        let turn = random() as usize % reached.len().max(1);
        reached.rotate_left(turn);
        let subjects = self.subjects();
        reached.sort_by_key(|path| {
            let is_new = self.text_of_base(path).is_none();
            let text = self.text(path).unwrap_or_default();
            (is_new, !subjects.iter().any(|subject| text.contains(subject.as_str())))
        });
        let like = reached.first().map(|path| path.to_string());
        let is_fit = |path: &&String| {
            let text = self.text(path).unwrap_or_default();
            plant::into_file(started, chosen, path, &text, "x").is_ok()
        };
        let into = reached.into_iter().filter(is_fit).take(PLACES_MAX);
        let folder = match (&like, chosen.places.first()) {
            (Some(path), _) => folder_of(path).to_owned(),
            (None, Some(place)) => place.clone(),
            (None, None) => started.folder.clone(),
        };
        let beside = self.home_of_new(started, &folder).map(|folder| Place::Beside { folder, like });
        into.map(|path| Place::Into(path.clone())).chain(beside).collect()
    }

    /// Returns the folder for a new test file; for cargo, the `tests` folder of the package.
    fn home_of_new(&self, started: &RunnerStart, folder: &str) -> Option<String> {
        if !matches!(started.runner, Runner::Cargo | Runner::Nextest) {
            return Some(folder.to_owned());
        }
        let package = match folder.rsplit('/').next() {
            Some("src" | "tests") => folder_of(folder),
            _ => folder,
        };
        let within =
            |name: &str| if package.is_empty() { name.to_owned() } else { format!("{package}/{name}") };
        let manifest = self.text(&within("Cargo.toml"))?;
        (manifest.contains("[package]") && !manifest.contains("autotests")).then(|| within("tests"))
    }

    /// Returns the stems of the changed files, as a test would mention them.
    fn subjects(&self) -> Vec<String> {
        let stems = self.layer.changed.iter().filter(|path| !test_files::is_oracle(path)).map(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.split('.').next().unwrap_or(name).to_owned()
        });
        stems
            .filter(|stem| stem.len() > 2 && !matches!(stem.as_str(), "lib" | "mod" | "main" | "index"))
            .collect()
    }

    fn planted(
        &self,
        started: &RunnerStart,
        chosen: &Selection,
        place: &Place,
        random: &str,
        side: Side,
    ) -> Option<Plant> {
        match place {
            Place::Into(path) => {
                let text = match side {
                    Side::Work => self.text(path)?,
                    Side::Base => self.text_of_base(path)?,
                };
                plant::into_file(started, chosen, path, &text, random).ok()
            }
            Place::Beside { folder, like } => {
                let like = like.as_ref().and_then(|path| self.text(path));
                plant::beside(started, chosen, folder, like.as_deref(), random)
            }
        }
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

enum Place {
    /// At the end of a test file.
    Into(String),
    /// In a new file, in the style of another.
    Beside { folder: String, like: Option<String> },
}

#[derive(Clone, Copy)]
enum Side {
    Work,
    Base,
}

/// Returns whether the test planted on the base had no effect there; then the place says nothing about the
/// work. In doubt the answer is `false`, which counts against the pass.
fn is_unreached(before: &BaseResult, there: &Verdict, may_stop: bool) -> bool {
    match (before.held, before.tests, there.tests) {
        (true, _, _) => there.held(),
        (false, Some(then), Some(now)) => then > 0 && now == then && !may_stop,
        (false, _, _) => false,
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

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the folder of the package that contains this test or source file.
fn package_of(path: &str) -> &str {
    folder_of(folder_of(path))
}

fn random() -> u64 {
    // Each `RandomState` has new random keys.
    RandomState::new().build_hasher().finish()
}

fn read(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > TEXT_MAX {
        return None;
    }
    fs::read_to_string(path).ok()
}
