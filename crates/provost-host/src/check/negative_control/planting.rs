//! Negative control: a failing test is planted where the test runner searches, and the check must notice it.

use std::collections::BTreeSet;
use std::path::Path;

use provost_core::language::runner::plant::{self, Plant};
use provost_core::language::runner::{self, Runner, RunnerStart, Selection};
use provost_core::language::test_files;
use provost_core::model::verdict::{CheckOutcome, Teeth, Verdict};

use super::{BaseResult, ControlRequest, FILES_MAX, unplanted};
use crate::Interrupted;
use crate::check::judge::reporter::Control;
use crate::tree::{Layer, Variation};

/// Most test files in which a test is planted before provost gives up.
const PLACES_MAX: usize = 3;

/// Result of one planted test.
enum Bite {
    Red,
    /// The check held in spite of the test; on the base the same test is found.
    Held,
    /// The test is not found at that place on the base either.
    Unreached,
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

impl ControlRequest<'_> {
    /// Returns the tree with the failing test that is planted first if the check holds, as far as the contract's
    /// text tells.
    pub fn first_planted(&self) -> Option<Layer> {
        let started = runner::started(&self.shell.command).first().map(|first| self.resolved(first))?;
        let started = started.into_iter().next().filter(|started| !started.negated)?;
        let chosen = runner::selection(&started).ok()?;
        let random = self.random();
        let places = self.places(&started, &chosen, &self.files());
        let planted =
            places.iter().find_map(|place| self.planted(&started, &chosen, place, &random, Side::Work))?;
        self.also(self.layer, &planted).ok()
    }

    /// Returns the random part of the name of a planted test.
    fn random(&self) -> String {
        format!("{:012x}", self.seed & 0xffff_ffff_ffff)
    }

    pub(super) fn plant(
        &self,
        started: &RunnerStart,
        files: &BTreeSet<String>,
    ) -> Result<Teeth, Interrupted> {
        let chosen = match runner::selection(started) {
            Ok(chosen) => chosen,
            Err(why) => return Ok(unplanted(&why)),
        };
        let random = self.random();
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
        let turn = (self.seed >> 48) as usize % reached.len().max(1);
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

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the folder of the package that contains this test or source file.
fn package_of(path: &str) -> &str {
    folder_of(folder_of(path))
}
