//! Tries tests that the agent wrote itself: breaks code that they name, and looks whether one of them notices.
//!
//! **Invariant:** nothing here makes a verdict hold. Without a test that notices, the step passes as self-checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::language::hunks::{self, ChangedRun, FileTexts};
use provost_core::language::sabotage::{self, Sabotage};
use provost_core::language::source_code::{FileRole, SourceLanguage};
use provost_core::model::plan::{Expectation, Shell, Span, Spanned};
use provost_core::model::test_results::TestSummary;
use provost_core::model::verdict::Verdict;
use provost_host::Interrupted;
use provost_host::exec::environment::{FileEdit, KeptPair};

use super::Executor;
use super::check::CheckOrder;
use crate::exec::proof_map::VariedContract;
use crate::plan::kept_trees;

/// Most sabotages that are tried.
const SABOTAGES_MAX: usize = 6;
/// Most files that are searched for code, and the longest of them.
const FILES_MAX: usize = 2_000;
const FILE_BYTES: u64 = 256 * 1024;
/// Shortest name of a test that tells it apart.
const NAME_CHARS: usize = 3;

/// A file whose code can be broken.
struct SourceFile {
    path: PathBuf,
    language: SourceLanguage,
    text: String,
    /// The most telling first: code that the tests name, then other code of a file that they name.
    sabotages: Vec<Sabotage>,
}

impl Executor<'_> {
    /// Returns the verdict with what one of the agent's own tests notices, if the step has it write tests.
    pub(super) fn tried_own_tests(
        &self,
        order: &CheckOrder,
        shell: &Shell,
        verdict: Verdict,
    ) -> Result<Verdict, Interrupted> {
        if !order.writes_tests || !verdict.held() || verdict.tests_notice.is_some() {
            return Ok(verdict);
        }
        let Some(tree) = verdict.tree.clone() else { return Ok(verdict) };
        let before = tree.start.clone().unwrap_or_else(|| tree.base.clone());
        let Ok(Some(pair)) = self.ground.kept_pair(&before, &tree.id) else { return Ok(verdict) };
        let Some(with_results) = with_results(shell) else { return Ok(verdict) };
        let Some(contract) = self.on_tree(order, &tree.id) else { return Ok(verdict) };
        let contract = contract.alone(&with_results);
        let tests = OwnTests::of(&pair);
        let end = Instant::now() + self.site.config.verify.proved_time_limit;
        let limit =
            contract.timeout().min(Duration::from_millis(verdict.duration_ms) * 5 + Duration::from_secs(30));
        let mut left = SABOTAGES_MAX;
        for file in tests.sources(&pair) {
            for sabotage in &file.sabotages {
                if left == 0 || Instant::now() >= end {
                    return Ok(verdict);
                }
                left -= 1;
                let text = sabotage.applied_beside_original(&file.text, file.language);
                let edit = FileEdit { path: &file.path, text: Some(&text) };
                let now = contract.varied(&edit, limit, 0)?;
                if !now.held() && now.test_results.is_none() && left + 2 < SABOTAGES_MAX {
                    // No runner reports single tests.
                    return Ok(verdict);
                }
                let Some(test) = tests.failed_in(&now) else { continue };
                // A test that fails now looks at the code, and not at what it does.
                let text = sabotage::rewritten(&file.text, file.language, sabotage.line);
                let edit = FileEdit { path: &file.path, text: Some(&text) };
                if !contract.varied(&edit, limit, 0)?.held() {
                    break;
                }
                let (path, line) = (file.path.display(), sabotage.line + 1);
                let notice = format!("{test} fails if in {path}, line {line}, {}", sabotage.what);
                return Ok(Verdict { tests_notice: Some(contract.redacted(&notice)), ..verdict });
            }
        }
        Ok(verdict)
    }
}

/// The tests that the agent changed.
struct OwnTests {
    /// Their texts, and what they were before.
    texts: Vec<(String, String)>,
    /// Every word in them.
    words: Vec<String>,
}

impl OwnTests {
    fn of(pair: &KeptPair) -> Self {
        let is_test =
            |path: &&PathBuf| path.to_str().is_some_and(|path| FileRole::of_path(path) == FileRole::Test);
        let text = |base, path: &Path| kept_trees::text(base, path, FILE_BYTES).ok().flatten();
        let texts: Vec<(String, String)> = pair
            .paths
            .iter()
            .filter(is_test)
            .filter_map(|path| Some((text(&pair.after, path)?, text(&pair.before, path).unwrap_or_default())))
            .collect();
        let is_word = |word: &&str| word.len() > 1 && !word.starts_with(|first: char| first.is_ascii_digit());
        let words: BTreeSet<&str> = texts
            .iter()
            .flat_map(|(text, _)| text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(is_word))
            .collect();
        let words = words.into_iter().map(str::to_owned).collect();
        Self { texts, words }
    }

    /// Returns the files with code that these tests name.
    fn sources(&self, pair: &KeptPair) -> Vec<SourceFile> {
        if self.texts.is_empty() {
            return Vec::new();
        }
        let is_code = |path: &PathBuf| {
            path.to_str().is_some_and(|name| {
                FileRole::of_path(name) == FileRole::Code && SourceLanguage::of_path(name).is_some()
            })
        };
        let files = pair.after.files().unwrap_or_default();
        let mut found: Vec<(bool, SourceFile)> = files
            .into_iter()
            .filter(is_code)
            .take(FILES_MAX)
            .filter_map(|path| self.source(pair, path))
            .collect();
        found.sort_by_key(|(is_named, _)| !is_named);
        found.into_iter().map(|(_, file)| file).collect()
    }

    /// Returns a file with its sabotages, and whether the tests name a definition in it.
    fn source(&self, pair: &KeptPair, path: PathBuf) -> Option<(bool, SourceFile)> {
        let text = kept_trees::text(&pair.after, &path, FILE_BYTES).ok().flatten()?;
        let language = SourceLanguage::of_path(path.to_str()?)?;
        let file = FileTexts { path: path.to_str()?, old: None, new: Some(&text) };
        let all = hunks::of_file(&file, &[ChangedRun { old: 0..0, new: 0..text.lines().count() }]);
        let (named, others): (Vec<_>, Vec<_>) = all.iter().partition(|hunk| hunk.defines(&file, &self.words));
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let others = others.into_iter().filter(|_| self.words.iter().any(|word| word == stem));
        let is_named = !named.is_empty();
        let sabotages: Vec<Sabotage> =
            named.into_iter().chain(others).flat_map(|hunk| hunk.sabotages(&file)).collect();
        (!sabotages.is_empty()).then_some((is_named, SourceFile { path, language, text, sabotages }))
    }

    /// Returns a failed test whose name is new in one of these files.
    fn failed_in<'v>(&self, verdict: &'v Verdict) -> Option<&'v str> {
        let results = verdict.test_results.as_ref().filter(|_| !verdict.held())?;
        failing(results).find(|name| {
            let own = own_name(name);
            let is_new = |(now, before): &(String, String)| now.contains(own) && !before.contains(own);
            own.chars().count() >= NAME_CHARS && self.texts.iter().any(is_new)
        })
    }
}

/// Returns the contract with an expectation for which the runner reports every single test; `None` if failing tests
/// are what the contract expects.
fn with_results(shell: &Shell) -> Option<Shell> {
    let is_failure = |each: &Expectation| !matches!(each, Expectation::ExitIs(0)) && each.is_about_exit();
    if shell.expectations.iter().any(|each| is_failure(&each.value)) {
        return None;
    }
    let mut shell = shell.clone();
    for value in [Expectation::ExitIs(0), Expectation::TestsPassed { at_least: 0 }] {
        shell.expectations.push(Spanned { value, span: Span::default() });
    }
    Some(shell)
}

fn failing(results: &TestSummary) -> impl Iterator<Item = &str> {
    let changes = results.changes.iter().flat_map(|changes| [&changes.broken, &changes.new_failing]);
    changes.chain([&results.failing]).flat_map(|names| &names.names).map(String::as_str)
}

/// Returns the last part of a test's name, without parameters: `test_add` of `tests/test_a.py::test_add[1]`.
fn own_name(name: &str) -> &str {
    let last = |name: &'_ str, mark: &str| name.rfind(mark).map_or(0, |at| at + mark.len());
    let start = ["::", " > ", ": "].iter().map(|mark| last(name, mark)).max().unwrap_or(0);
    let own = name[start..].split(['[', '(']).next().unwrap_or_default().trim();
    own.rsplit('.').next().filter(|own| !own.contains(' ')).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_name_of_a_test_is_its_last_part() {
        for (name, own) in [
            ("tests/test_a.py::First::test_add[1-2]", "test_add"),
            ("tests.test_first.First.test_usual", "test_usual"),
            ("test/first.test.js > adds > two numbers", "two numbers"),
            ("sample: TestUsual", "TestUsual"),
            ("first::usual", "usual"),
            ("usual", "usual"),
        ] {
            assert_eq!(own_name(name), own, "{name}");
        }
    }
}
