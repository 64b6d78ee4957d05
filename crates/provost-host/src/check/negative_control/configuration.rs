//! Negative control: a contract must hold without the test runner configuration that the work added.
//!
//! Removed are files that only configure a runner (`conftest.py`, `jest.config.js`), and project files
//! whose runner sections changed (`[tool.pytest]` of `pyproject.toml`, an existing script of
//! `package.json`). New tests may need them, so it is enough if the contract holds without these tests too.
//!
//! If it does not hold, that does not prove cheating: honest tests may need the file. If the plan names the
//! file literally in `touches`, a person approved it, and the verdict lists it. Otherwise a person decides.

use std::path::Path;

use provost_core::language::test_files;
use provost_core::model::verdict::CheckOutcome;

use super::{ControlRequest, listed};
use crate::Interrupted;
use crate::check::judge::reporter::Control;
use crate::tree::Variation;

/// Tables of a manifest that configure a runner.
const PYPROJECT: [&[&str]; 4] =
    [&["tool", "pytest"], &["tool", "tox"], &["tool", "nox"], &["project", "entry-points"]];
const PACKAGE: [&str; 5] = ["jest", "mocha", "ava", "vitest", "tap"];

impl ControlRequest<'_> {
    /// Returns the configuration that the check depends on with a person's approval; `Err` is the outcome
    /// that replaces the verdict's.
    pub(super) fn without_configuration(&self) -> Result<Result<Vec<String>, CheckOutcome>, Interrupted> {
        let brought = self.configuration_brought();
        if brought.is_empty() || self.doubts.writes_tests {
            return Ok(Ok(Vec::new()));
        }
        let is_brought = |path: &Path| brought.iter().any(|own| Path::new(own) == path);
        let is_new_test = |path: &Path| {
            let text = path.to_string_lossy();
            test_files::is_test(&text) && !self.base.has(path)
        };
        let without_tests = |path: &Path| !is_brought(path) && !is_new_test(path);
        let without = |path: &Path| !is_brought(path);
        let tries: [&dyn Fn(&Path) -> bool; 2] = [&without, &without_tests];
        for wanted in tries {
            let run = match self.varied(self.layer, &Variation::Only(wanted)) {
                Ok(layer) => self.again(&layer, Control::AsTheyAre)?.verdict.outcome,
                Err(reason) => CheckOutcome::NotRun { reason },
            };
            match run {
                CheckOutcome::Held => return Ok(Ok(Vec::new())),
                CheckOutcome::NotRun { reason } => {
                    let names = listed(&names(&brought));
                    let reason = format!("without the agent's {names}: {reason}");
                    return Ok(Err(CheckOutcome::NotRun { reason }));
                }
                _ => {}
            }
        }
        if brought.iter().all(|path| self.touches.name(path)) {
            return Ok(Ok(brought));
        }
        let names = listed(&names(&brought));
        let reason = format!(
            "it does not hold without {names}, which the agent wrote; if the step should change that \
             file, name it in `touches`"
        );
        Ok(Err(CheckOutcome::Vacuous { reason }))
    }

    fn configuration_brought(&self) -> Vec<String> {
        let changed = self.layer.changed.iter().chain(&self.layer.deleted);
        changed
            .filter(|path| test_files::is_runner_file(path) || self.configures_runner(path))
            .cloned()
            .collect()
    }

    /// Returns whether a project file's runner sections changed.
    fn configures_runner(&self, path: &str) -> bool {
        let (before, after) =
            (self.text_of_base(path).unwrap_or_default(), self.text(path).unwrap_or_default());
        match path.rsplit('/').next().unwrap_or(path) {
            "pyproject.toml" => {
                let read = |text: &str| text.parse::<toml::Table>().unwrap_or_default();
                let (before, after) = (read(&before), read(&after));
                PYPROJECT.iter().any(|keys| table(&before, keys) != table(&after, keys))
            }
            "package.json" => {
                let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
                let (before, after) = (read(&before), read(&after));
                let scripts = before["scripts"].as_object().into_iter().flatten();
                PACKAGE.iter().any(|key| before[key] != after[key])
                    || scripts.into_iter().any(|(name, script)| after["scripts"][name] != *script)
            }
            "setup.cfg" => ["[tool:pytest]", "[options.entry_points]"]
                .iter()
                .any(|head| section(&before, head) != section(&after, head)),
            _ => false,
        }
    }
}

fn names(files: &[String]) -> Vec<&str> {
    files.iter().map(String::as_str).collect()
}

fn table<'t>(root: &'t toml::Table, keys: &[&str]) -> Option<&'t toml::Value> {
    let (first, rest) = keys.split_first()?;
    rest.iter().try_fold(root.get(*first)?, |value, key| value.get(*key))
}

/// Returns the lines of a section, without blank ones.
fn section<'t>(text: &'t str, head: &str) -> Vec<&'t str> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != head).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.is_empty()).collect()
}
