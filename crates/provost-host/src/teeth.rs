//! Does the check bite? A contract that held is tried once more on trees on which it must not hold.
//!
//! How many tests were run is compared with the base. On the files alone that a check rests on, tests and
//! configuration, it must still be red, or the pass was bought by them. With a failing test planted it must
//! turn red, or it would have held whatever the work was. Each try is the same check behind the same
//! fence, with the same time and the same way to stop it.
//!
//! **Invariant:** nothing here makes a verdict better.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;

use provost_core::oracle;
use provost_core::plan::Shell;
use provost_core::runner::plant::{self, Plant};
use provost_core::runner::{self, Runner, Selection, Started};
use provost_core::verdict::{Isolation, Outcome, Teeth, Verdict};

use crate::Interrupted;
use crate::tree::{Base, Layer, Trees, Variation};

/// Folders of dependencies and of builds: no tests of the project are in them.
const PASSED_BY: [&str; 6] = ["node_modules", "target", ".venv", ".git", "__pycache__", "vendor"];
/// A tree with more files than this is looked at in part.
const FILES_MAX: usize = 50_000;
const TEXT_MAX: u64 = 1 << 20;
/// A contract that starts more runners than this is tried with the first of them.
const RUNNERS_MAX: usize = 3;
const NAMES_MAX: usize = 3;
/// So many files of tests are tried before it is believed that there is no place.
const PLACES_MAX: usize = 3;

/// How far a check is doubted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// What it did before the work, where that was looked at.
    pub before: Option<Before>,
    /// The step is there to write tests: that it rests on them is what was approved.
    pub writes_tests: bool,
    /// Whether it would notice a failing test is to be found out.
    pub bite: bool,
}

/// What a contract did on the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    pub held: bool,
    pub tests: Option<u32>,
}

/// A check that held with no tests, or with fewer than before the work, did not hold.
pub fn counted(doubts: &Doubts, mut verdict: Verdict) -> Verdict {
    // A step that is there to write tests may also take some away.
    let before = doubts.before.and_then(|before| before.tests).filter(|_| !doubts.writes_tests);
    if let Some(why) = runner::too_few(before, verdict.tests).filter(|_| verdict.held()) {
        verdict.outcome = Outcome::Broke { exit_code: 0 };
        verdict.unmet.push(why);
    }
    verdict
}

/// A check that held, and what it held on.
pub struct Bench<'a> {
    pub level: Isolation,
    pub shell: &'a Shell,
    pub doubts: Doubts,
    pub trees: &'a Trees,
    pub base: &'a Base,
    pub layer: &'a Layer,
    /// Runs the same check on another layer.
    pub run: &'a dyn Fn(&Layer) -> Result<Verdict, Interrupted>,
}

/// What came of one planted test.
enum Bite {
    Red,
    /// It held all the same, and on the base the same test is found.
    Held,
    /// It is not found at that place on the base either.
    Unreached,
}

impl Bench<'_> {
    pub fn doubt(&self, verdict: Verdict) -> Result<Verdict, Interrupted> {
        if let Some(outcome) = self.bought()? {
            return Ok(Verdict { outcome, ..verdict });
        }
        let Some(teeth) = self.teeth()? else { return Ok(verdict) };
        let outcome = match (&teeth.planted, teeth.bit) {
            (Some(_), false) => Outcome::Vacuous { reason: teeth.to_string() },
            _ => verdict.outcome,
        };
        Ok(Verdict { outcome, teeth: Some(Box::new(teeth)), ..verdict })
    }

    fn varied(&self, layer: &Layer, how: &Variation<'_>) -> Result<Layer, String> {
        self.trees.varied(self.base, layer, how).map_err(|error| error.to_string())
    }

    /// The two-tree probe: does it hold with only the files changed that it rests on?
    fn bought(&self) -> Result<Option<Outcome>, Interrupted> {
        let was_red = self.doubts.before.is_some_and(|before| !before.held);
        if !was_red || self.doubts.writes_tests {
            return Ok(None);
        }
        let changed: Vec<&str> =
            self.layer.changed.iter().chain(&self.layer.deleted).map(String::as_str).collect();
        let rests_on = oracle::of_contract(&self.shell.command, changed.iter().copied());
        if rests_on.is_empty() {
            return Ok(None);
        }
        // Nothing else was changed: it is the very tree on which it held.
        if rests_on.len() < changed.len() {
            let wanted = |path: &Path| rests_on.iter().any(|own| Path::new(own) == path);
            let alone = match self.varied(self.layer, &Variation::Only(&wanted)) {
                Ok(layer) => (self.run)(&layer)?,
                Err(reason) => Verdict::not_run(self.level, reason),
            };
            match alone.outcome {
                Outcome::Held => {}
                Outcome::NotRun { reason } => {
                    let reason = format!("with only its tests and configuration changed: {reason}");
                    return Ok(Some(Outcome::NotRun { reason }));
                }
                _ => return Ok(None),
            }
        }
        let reason = format!("it holds with only {} changed", listed(&rests_on));
        Ok(Some(Outcome::Vacuous { reason }))
    }

    /// Plants a failing test for each runner the contract starts; the first that does not bite decides.
    fn teeth(&self) -> Result<Option<Teeth>, Interrupted> {
        if !self.doubts.bite {
            return Ok(None);
        }
        let mut all = runner::started(&self.shell.command);
        all.truncate(RUNNERS_MAX);
        if all.is_empty() {
            return Ok(None);
        }
        if runner::is_meant_to_fail(self.shell) {
            return Ok(Some(unplanted("it is meant to fail")));
        }
        let files = self.files();
        let mut teeth = None;
        for started in all.iter().flat_map(|started| self.resolved(started)) {
            let found = self.plant(&started, &files)?;
            if found.planted.is_some() && !found.bit {
                return Ok(Some(found));
            }
            // A test that bit says more than one that could not be planted.
            if teeth.as_ref().is_none_or(|known: &Teeth| !known.bit) {
                teeth = Some(found);
            }
        }
        Ok(teeth)
    }

    /// What a script of package.json starts, where that is in the tree.
    fn resolved(&self, started: &Started) -> Vec<Started> {
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

    fn plant(&self, started: &Started, files: &BTreeSet<String>) -> Result<Teeth, Interrupted> {
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
                unplanted(&format!("{} does not run what is put in {at}", started.runner.word()))
            }
            None => unplanted("no file of tests was found that it runs"),
        })
    }

    fn bite(
        &self,
        started: &Started,
        chosen: &Selection,
        place: &Place,
        planted: &Plant,
        random: &str,
    ) -> Result<Result<Bite, String>, Interrupted> {
        let with = match self.also(self.layer, planted) {
            Ok(layer) => (self.run)(&layer)?,
            Err(why) => return Ok(Err(why)),
        };
        match with.outcome {
            Outcome::Held => {}
            Outcome::NotRun { reason } => return Ok(Err(reason)),
            _ => return Ok(Ok(Bite::Red)),
        }
        // Did the work hide it, or does the runner not look there? The base knows.
        let Some(before) = self.doubts.before else { return Ok(Ok(Bite::Held)) };
        let Some(on_base) = self.planted(started, chosen, place, random, Side::Base) else {
            return Ok(Ok(Bite::Held));
        };
        let nothing = match self.varied(self.layer, &Variation::Only(&|_| false)) {
            Ok(nothing) => nothing,
            Err(why) => return Ok(Err(why)),
        };
        let there = match self.also(&nothing, &on_base) {
            Ok(layer) => (self.run)(&layer)?,
            Err(why) => return Ok(Err(why)),
        };
        let may_stop = runner::stops_early(started) || self.configured_to_stop();
        Ok(Ok(if is_unreached(before, &there, may_stop) { Bite::Unreached } else { Bite::Held }))
    }

    fn also(&self, layer: &Layer, planted: &Plant) -> Result<Layer, String> {
        let (path, content) = (Path::new(&planted.path), planted.text.as_bytes());
        self.varied(layer, &Variation::Also { path, content })
    }

    /// Options from a file can end a run at its first failure too.
    fn configured_to_stop(&self) -> bool {
        let names = ["pytest.ini", ".pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "package.json"];
        names.iter().any(|name| {
            let text = self.text_of_base(name).unwrap_or_default();
            [" -x", "\"-x", "'-x", "exitfirst", "maxfail", "bail"].iter().any(|word| text.contains(word))
        })
    }

    /// Whether cargo, started there, tests the package this file is in: its own, or a member of the
    /// workspace where it is asked for all of them.
    fn is_tested_by_cargo(&self, started: &Started, path: &str) -> bool {
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

    /// Where a test could be planted, the best first: a file of tests that the base has too and that
    /// mentions what was changed, another file of tests, a file beside one.
    fn places(&self, started: &Started, chosen: &Selection, files: &BTreeSet<String>) -> Vec<Place> {
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

    /// The folder for a new file of tests; cargo has one of its own for each package.
    fn home_of_new(&self, started: &Started, folder: &str) -> Option<String> {
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

    /// The names of what was changed, as a test would mention them.
    fn subjects(&self) -> Vec<String> {
        let stems = self.layer.changed.iter().filter(|path| !oracle::is_oracle(path)).map(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.split('.').next().unwrap_or(name).to_owned()
        });
        stems
            .filter(|stem| stem.len() > 2 && !matches!(stem.as_str(), "lib" | "mod" | "main" | "index"))
            .collect()
    }

    fn planted(
        &self,
        started: &Started,
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

    /// The files of base and work together.
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
    /// At the end of a file of tests.
    Into(String),
    /// In a file of its own, in the manner of another.
    Beside { folder: String, like: Option<String> },
}

#[derive(Clone, Copy)]
enum Side {
    Work,
    Base,
}

/// The test was planted on the base, and nothing came of it there: the place says nothing about the work.
/// Whatever is not certain is held against the pass.
fn is_unreached(before: Before, there: &Verdict, may_stop: bool) -> bool {
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
    let shown = files.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The folder of the package a test or a source file of it is in.
fn package_of(path: &str) -> &str {
    folder_of(folder_of(path))
}

fn random() -> u64 {
    // Keyed by the system's random numbers, anew for each of them.
    RandomState::new().build_hasher().finish()
}

fn read(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > TEXT_MAX {
        return None;
    }
    fs::read_to_string(path).ok()
}
