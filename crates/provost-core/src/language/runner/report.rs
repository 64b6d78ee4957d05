//! Reads the records of the reporters in a check: which test runners started, and the results of their tests.
//!
//! A record is one line with fields separated by `\x1f`: `start`, runner, number, folder, arguments…; `end`,
//! runner, number, passed, failed, changed; `unmoved`, runner, number, name of a test; `test`, runner, number,
//! result, name; `list`, runner, number, number of `test` records; `json`, `go`, number, whether with `-v`; `xml`,
//! runner, number, path, one line of a test report (JUnit's format, or a TRX log of .NET).
//!
//! **Invariant:** a record that cannot be read is skipped; skipping never makes a session look better.

use super::{Runner, RunnerStart, recognised};
use crate::model::test_results::{TestResult, TestResults};

/// Maximum number of sessions that are kept.
const SESSIONS_MAX: usize = 1000;

/// Test runners in which no failing test can be planted. Runs of mocha count and change their tests, unless
/// its modules are other than the reporter knows.
const UNPLANTABLE: [&str; 7] = ["mocha", "ava", "jasmine", "tap", "tape", "uvu", "@hapi/lab"];

/// A test session that reported its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSession {
    pub runner: Runner,
    number: String,
    /// The results of its tests; `None` if the process ended before the session did.
    pub ended: Option<TestCounts>,
    /// Tests that provost made fail but that were reported as passed.
    pub unmoved: Vec<String>,
}

/// The single tests that a runner reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestList {
    pub runner: Runner,
    number: String,
    /// The folder it ran in, relative to the tree.
    pub folder: String,
    pub tests: Vec<(String, TestResult)>,
    /// The number of tests that were sent; `None` if the list is not complete.
    pub total: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    pub passed: u32,
    pub failed: u32,
}

/// A test report that a runner wrote: in JUnit's format (maven), or a TRX log (dotnet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlReport {
    pub runner: Runner,
    number: String,
    /// Its path, relative to the tree.
    pub path: String,
    pub text: String,
}

/// All reports of one run of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunnerReport {
    /// Sessions of runners that count their tests themselves (pytest, unittest, mocha, rspec).
    pub sessions: Vec<TestSession>,
    /// Other runners, as they were started.
    pub started: Vec<RunnerStart>,
    /// Names of runners for which no failing test can be planted.
    pub others: Vec<String>,
    /// The results of single tests.
    pub lists: Vec<TestList>,
    /// Test results that belong to no list.
    pub strays: u32,
    /// `go test` prints JSON for provost; the value is `true` if the check asked for `-v`.
    pub go_prints: Option<bool>,
    /// Test reports of maven and dotnet.
    pub files: Vec<XmlReport>,
    /// The results of all single tests, if they can be read.
    pub results: Option<TestResults>,
    /// Why they cannot be read.
    pub unread: Option<String>,
    /// Some records were dropped because there were too many.
    pub is_cut: bool,
}

impl RunnerReport {
    /// Reads the records of a check that ran in the folder `root`.
    pub fn read(text: &str, root: &str) -> Self {
        let mut report = Self::default();
        let mut fields = Vec::new();
        for line in text.lines() {
            fields.clear();
            fields.extend(line.split('\x1f'));
            match fields.as_slice() {
                ["start", runner, number, folder, args @ ..] => {
                    report.start(runner, number, within(root, folder), args, root);
                }
                ["end", _, number, passed, failed, ..] => {
                    let counts = passed.parse().ok().zip(failed.parse().ok());
                    if let (Some(session), Some((passed, failed))) = (report.session(number), counts) {
                        session.ended.get_or_insert(TestCounts { passed, failed });
                    }
                }
                ["test", _, number, result, name, ..] => report.test(number, result, name),
                ["list", _, number, total, ..] => {
                    match report.list(number).filter(|list| list.total.is_none()) {
                        Some(list) => list.total = total.parse().ok(),
                        None => report.strays += 1,
                    }
                }
                ["json", "go", _, verbose, ..] => {
                    *report.go_prints.get_or_insert(false) |= *verbose == "1";
                }
                ["xml", name, number, path, text @ ..] => {
                    let path = within(root, path).unwrap_or_else(|| (*path).to_owned());
                    let runner = if *name == "dotnet" { Runner::Dotnet } else { Runner::Maven };
                    report.xml(runner, number, &path, &text.join(" "));
                }
                ["unmoved", _, number, name, ..] => {
                    if let Some(session) = report.session(number) {
                        session.unmoved.push((*name).to_owned());
                    }
                }
                _ => {}
            }
        }
        report
    }

    fn list(&mut self, number: &str) -> Option<&mut TestList> {
        self.lists.iter_mut().find(|list| list.number == number)
    }

    fn test(&mut self, number: &str, result: &str, name: &str) {
        let result = match result {
            "passed" => Some(TestResult::Passed),
            "failed" => Some(TestResult::Failed),
            "skipped" => Some(TestResult::Skipped),
            _ => None,
        };
        // A list that is complete takes no more: code under test cannot add to it afterwards.
        match (self.list(number).filter(|list| list.total.is_none()), result) {
            (Some(list), Some(result)) => list.tests.push((name.to_owned(), result)),
            _ => self.strays += 1,
        }
    }

    /// Adds a line to a report.
    fn xml(&mut self, runner: Runner, number: &str, path: &str, line: &str) {
        if self.files.last().is_none_or(|last| last.number != number || last.path != path) {
            let (number, path) = (number.to_owned(), path.to_owned());
            self.files.push(XmlReport { runner, number, path, text: String::new() });
        }
        if let Some(file) = self.files.last_mut() {
            file.text.push_str(line);
            file.text.push('\n');
        }
    }

    /// Begins the list of a runner that reports single tests.
    fn begin_list(&mut self, name: &str, number: &str, folder: Option<&String>) {
        let runner = match name {
            "pytest" => Runner::Pytest,
            "unittest" => Runner::Unittest,
            "mocha-run" => Runner::Mocha,
            "node --test" => Runner::Node,
            "jest" => Runner::Jest,
            "vitest" => Runner::Vitest,
            "rspec" => Runner::Rspec,
            "phpunit" => Runner::Phpunit,
            "gradle-test" => Runner::Gradle,
            _ => return,
        };
        let (number, folder) = (number.to_owned(), folder.cloned().unwrap_or_default());
        self.lists.push(TestList { runner, number, folder, tests: Vec::new(), total: None });
    }

    fn session(&mut self, number: &str) -> Option<&mut TestSession> {
        self.sessions.iter_mut().find(|session| session.number == number)
    }

    fn start(&mut self, name: &str, number: &str, folder: Option<String>, args: &[&str], root: &str) {
        if self.sessions.len() + self.started.len() + self.others.len() >= SESSIONS_MAX {
            self.is_cut = true;
            return;
        }
        self.begin_list(name, number, folder.as_ref());
        let session =
            |runner| TestSession { runner, number: number.to_owned(), ended: None, unmoved: Vec::new() };
        let known = match name {
            "pytest" => return self.sessions.push(session(Runner::Pytest)),
            "unittest" => return self.sessions.push(session(Runner::Unittest)),
            "mocha-run" => return self.sessions.push(session(Runner::Mocha)),
            "rspec" => return self.sessions.push(session(Runner::Rspec)),
            "node --test" => Some((Runner::Node, args)),
            "node" => Some((Runner::NodeFile, args)),
            "jest" => Some((Runner::Jest, args)),
            _ => None,
        };
        let words: Vec<Option<String>> = args.iter().map(|arg| Some((*arg).to_owned())).collect();
        let found = match known {
            Some((runner, _)) => Some((runner, words.as_slice())),
            None => recognised(name, &words),
        };
        match (found, folder) {
            // `npm` and `make`: the runner that they start reports itself.
            (Some((Runner::Script | Runner::Other, _)), _) => {}
            (Some((runner, words)), Some(folder)) => {
                let args = words.iter().map(|word| word.as_deref().map(|word| inner(root, &folder, word)));
                let args = args.collect();
                self.started.push(RunnerStart { runner, folder, args, negated: false });
            }
            (Some((runner, _)), None) => self.others.push(runner.word().to_owned()),
            (None, _) if UNPLANTABLE.contains(&name) => self.others.push(name.to_owned()),
            // `cargo build`, `go vet`: no tests.
            (None, _) => {}
        }
    }

    /// Returns the number of tests of all sessions; `None` without sessions.
    pub fn tests(&self) -> Option<u32> {
        let counts = self.sessions.iter().filter_map(|session| session.ended);
        let total =
            counts.fold(0u32, |sum, each| sum.saturating_add(each.passed).saturating_add(each.failed));
        (!self.sessions.is_empty()).then_some(total)
    }

    /// Returns the number of tests that ran, from the complete lists of some runners.
    pub(super) fn listed(&self, runners: &[Runner]) -> Option<u32> {
        let lists = self.lists.iter().filter(|list| runners.contains(&list.runner) && list.total.is_some());
        let ran =
            |list: &TestList| list.tests.iter().filter(|(_, result)| *result != TestResult::Skipped).count();
        lists.fold(None, |sum, list| {
            Some(sum.unwrap_or(0u32).saturating_add(u32::try_from(ran(list)).unwrap_or(u32::MAX)))
        })
    }

    /// Returns a session that started and did not end.
    pub fn unfinished(&self) -> Option<&TestSession> {
        self.sessions.iter().find(|session| session.ended.is_none())
    }

    /// Returns the names of all runners that reported themselves.
    pub fn names(&self) -> Vec<String> {
        let sessions = self.sessions.iter().map(|session| session.runner.word().to_owned());
        let started = self.started.iter().map(|started| started.runner.word().to_owned());
        let mut names: Vec<String> = sessions.chain(started).chain(self.others.iter().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.started.is_empty() && self.others.is_empty()
    }
}

/// Makes a path relative to the root; `None` if it is outside.
fn within(root: &str, path: &str) -> Option<String> {
    let rest = path.strip_prefix(root)?;
    match rest.strip_prefix('/') {
        Some(rest) => Some(rest.to_owned()),
        None => rest.is_empty().then(String::new),
    }
}

/// Makes an absolute path relative to the folder the runner works in.
fn inner(root: &str, folder: &str, word: &str) -> String {
    let own = within(root, word).and_then(|path| match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned),
    });
    own.unwrap_or_else(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> RunnerReport {
        RunnerReport::read(&lines.join("\n").replace('|', "\x1f"), "/w")
    }

    #[test]
    fn a_session_that_started_has_to_end() {
        let whole = read(&["start|pytest|a|/w|-q", "end|pytest|a|2|1|0", "unmoved|pytest|a|t::x"]);
        assert_eq!((whole.tests(), whole.unfinished()), (Some(3), None));
        assert_eq!(whole.sessions[0].unmoved, ["t::x"]);
        let cut = read(&["start|pytest|a|/w", "start|unittest|b|/w", "end|unittest|b|4|0|0"]);
        assert_eq!(cut.tests(), Some(4));
        assert_eq!(cut.unfinished().map(|session| session.runner), Some(Runner::Pytest));
        assert_eq!(cut.names(), ["pytest", "unittest"]);
    }

    #[test]
    fn nothing_is_made_of_records_that_cannot_be_read() {
        assert_eq!(
            read(&["", "end|pytest|a|9|0|0", "start|pytest", "x|y", "start|make|1|/w"]),
            RunnerReport::default()
        );
        let odd = read(&["start|pytest|a|/w", "end|pytest|a|many|0", "end|pytest|a|1|0", "end|pytest|a|9|9"]);
        assert_eq!(odd.tests(), Some(1));
    }

    #[test]
    fn other_runners_are_known_with_their_folder_and_their_words() {
        let report = read(&[
            "start|cargo|7|/w/crates/x|test|--lib",
            "start|cargo|8|/w|build",
            "start|node|9|/w/web|/w/web/a.test.js",
            "start|mocha|9|/w",
            "start|mocha-run|9|/w",
            "end|mocha-run|9|3|0|0",
            "start|go|9|/elsewhere|test",
        ]);
        let told: Vec<_> = report.started.iter().map(|each| (each.runner, each.folder.as_str())).collect();
        assert_eq!(told, [(Runner::Cargo, "crates/x"), (Runner::NodeFile, "web")]);
        assert_eq!(report.started[1].args, [Some("a.test.js".to_owned())]);
        assert_eq!(report.others, ["mocha", "go test"]);
        assert_eq!((report.tests(), report.sessions[0].runner), (Some(3), Runner::Mocha));
    }
}
