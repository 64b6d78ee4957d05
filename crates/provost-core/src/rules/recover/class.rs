//! Classifies a failure by its output and exit code.
//!
//! One pass over the output finds all matching patterns of all rules, and the first rule in order with a
//! match decides. If no rule matches, the class is `unknown`, because a wrong retry or a wrong stop costs
//! more than a question.
//!
//! **Invariant:** the result depends only on the output, the exit code and the rules.
//! **Invariant:** [`of`] never uses a rule for agents: the output of a check is not an agent's report.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::last_words;
use super::rules::{self, FailureRule};
use crate::model::event::FailureClass;

/// For a longer output, the number of bytes that are read from the beginning and from the end.
const PART_BYTES: usize = 32 * 1024;
/// The end of an agent's report that the rules for agents search. Before it the agent talks about its work.
const AGENT_BYTES: usize = 8 * 1024;
/// Longest report of an agent that said little else.
const BRIEF_BYTES: usize = 2 * 1024;

/// Output and exit code of something that failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureOutput<'a> {
    pub stdout: &'a str,
    pub stderr: &'a str,
    pub exit_code: Option<i32>,
}

/// The class of a failure, and the rule that found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureMatch {
    pub class: FailureClass,
    pub rule: String,
    pub reason: String,
    /// Things a person has to configure, if known.
    pub configure: String,
    /// The quota of the role is exhausted.
    pub quota: bool,
    /// In the output of a contract it is about the work, and the agent can fix it.
    pub mendable: bool,
    /// It can only happen with a network.
    pub network: bool,
    /// The agent met it, not the check.
    pub of_the_agent: bool,
    /// The line of the agent's report that matched, if one did.
    pub line: String,
}

/// Writes it as it appears in the log.
impl std::fmt::Display for FailureMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.reason)
    }
}

impl FailureMatch {
    pub fn new(class: FailureClass, rule: impl Into<String>, reason: impl Into<String>) -> Self {
        let (rule, reason) = (rule.into(), reason.into());
        Self {
            class,
            rule,
            reason,
            configure: String::new(),
            quota: false,
            mendable: false,
            network: false,
            of_the_agent: false,
            line: String::new(),
        }
    }

    fn by_rule(rule: &FailureRule) -> Self {
        Self {
            configure: rule.configure.clone(),
            quota: rule.quota,
            mendable: rule.mendable,
            network: rule.network,
            ..Self::new(rule.class, &rule.name, &rule.reason)
        }
    }

    pub fn unknown() -> Self {
        Self::new(FailureClass::Unknown, "none", "no rule matches this failure")
    }
}

/// Returns the finding of the built-in rules.
pub fn of(seen: FailureOutput<'_>) -> FailureMatch {
    let by_output = [seen.stderr, seen.stdout].into_iter().filter(|text| !text.trim().is_empty());
    let parts: Vec<&[u8]> = by_output.flat_map(parts).collect();
    let by_code = || {
        let mut rules = rules::all().iter();
        rules.find(|rule| seen.exit_code.is_some_and(|code| rule.exit_code.contains(&code)))
    };
    let rule = BOOK.first_in(&parts, |_| true).or_else(by_code);
    rule.map_or_else(FailureMatch::unknown, FailureMatch::by_rule)
}

/// Returns the finding of the rules for agents about the report of an agent that did not end well; `None` if
/// none of them matches.
pub fn of_agent(report: &str, exit_code: Option<i32>) -> Option<FailureMatch> {
    let is_brief = report.len() <= BRIEF_BYTES;
    let end = &report.as_bytes()[report.len().saturating_sub(AGENT_BYTES)..];
    let may = |rule: &FailureRule| is_brief || !rule.brief;
    let by_code = || {
        let mut rules = rules::of_agents().iter().filter(|rule| may(rule));
        rules.find(|rule| exit_code.is_some_and(|code| rule.exit_code.contains(&code)))
    };
    let rule = AGENT_BOOK.first_in(&[end], may).or_else(by_code)?;
    let line = matching_line(rule, report);
    Some(FailureMatch { of_the_agent: true, line, ..FailureMatch::by_rule(rule) })
}

/// Returns the finding of the other rules about such a report, with the line that matched.
pub fn of_report(report: &str) -> FailureMatch {
    let found = of(FailureOutput { stderr: report, ..FailureOutput::default() });
    let rule = rules::all().iter().find(|rule| rule.name == found.rule);
    let line = rule.map(|rule| matching_line(rule, report)).unwrap_or_default();
    FailureMatch { of_the_agent: true, line, ..found }
}

/// Returns the last line in which the rule matches; a line that provost added counts only if it is alone.
fn matching_line(rule: &FailureRule, report: &str) -> String {
    let patterns = rule
        .any
        .iter()
        .filter_map(|pattern| RegexBuilder::new(pattern).case_insensitive(true).unicode(false).build().ok());
    let patterns: Vec<Regex> = patterns.collect();
    let is_match = |line: &&str| {
        let bytes = line.as_bytes();
        let answered = || statuses(&[bytes]).iter().any(|status| rule.http.contains(status));
        patterns.iter().any(|pattern| pattern.is_match(bytes)) || answered()
    };
    let lines = || report.lines().rev().map(str::trim).filter(is_match);
    let own = lines().find(|line| !last_words::is_added(line));
    own.or_else(|| lines().next()).unwrap_or_default().to_owned()
}

/// Returns the HTTP error statuses in a text.
pub fn http_statuses(text: &str) -> impl Iterator<Item = u16> {
    let parts: Vec<&[u8]> = parts(text).collect();
    statuses(&parts).into_iter()
}

struct Found {
    patterns: Vec<bool>,
    statuses: Vec<u16>,
}

/// Some rules with all their patterns in one set.
struct Book {
    set: RegexSet,
    rules: Vec<Known>,
}

struct Known {
    rule: &'static FailureRule,
    any: std::ops::Range<usize>,
    unless: std::ops::Range<usize>,
}

impl Known {
    fn matches(&self, found: &Found) -> bool {
        let has = |range: &std::ops::Range<usize>| found.patterns[range.clone()].contains(&true);
        let answered = || found.statuses.iter().any(|status| self.rule.http.contains(status));
        (has(&self.any) || answered()) && !has(&self.unless)
    }
}

impl Book {
    fn new(rules: &'static [FailureRule]) -> Self {
        let mut patterns = Vec::new();
        let mut add = |all: &'static [String]| {
            let start = patterns.len();
            patterns.extend_from_slice(all);
            start..patterns.len()
        };
        let rules = rules.iter();
        let rules =
            rules.map(|rule| Known { rule, any: add(&rule.any), unless: add(&rule.unless) }).collect();
        let set = RegexSetBuilder::new(&patterns)
            .case_insensitive(true)
            .unicode(false)
            .size_limit(64 << 20)
            .dfa_size_limit(16 << 20)
            .build()
            .unwrap_or_else(|error| unreachable!("a built-in rule is not a pattern: {error}"));
        Self { set, rules }
    }

    /// Returns the first of the permitted rules that matches.
    fn first_in(&self, parts: &[&[u8]], may: impl Fn(&FailureRule) -> bool) -> Option<&'static FailureRule> {
        let mut patterns = vec![false; self.set.len()];
        for part in parts {
            for pattern in &self.set.matches(part) {
                patterns[pattern] = true;
            }
        }
        let found = Found { patterns, statuses: statuses(parts) };
        self.rules
            .iter()
            .filter(|known| may(known.rule))
            .find(|known| known.matches(&found))
            .map(|it| it.rule)
    }
}

static BOOK: LazyLock<Book> = LazyLock::new(|| Book::new(rules::all()));
static AGENT_BOOK: LazyLock<Book> = LazyLock::new(|| Book::new(rules::of_agents()));

/// A number is a status only if the text before it says so.
static STATUS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?i-u)\b(?:http(?:/[0-9](?:\.[0-9])?)?|status(?:[ _-]?code)?|response(?: code)?|returned error|error(?: code)?|code)["']?(?:\s*[:=]\s*|\s+)["'(]?([45][0-9][0-9])\b"#;
    Regex::new(pattern).unwrap_or_else(|error| unreachable!("not a pattern: {error}"))
});

fn statuses(parts: &[&[u8]]) -> Vec<u16> {
    let digits = |found: regex::bytes::Captures<'_>| std::str::from_utf8(&found[1]).ok()?.parse().ok();
    parts.iter().flat_map(|part| STATUS.captures_iter(part).filter_map(digits)).collect()
}

fn parts(text: &str) -> impl Iterator<Item = &[u8]> {
    let bytes = text.as_bytes();
    let (head, tail) = match bytes.len() {
        length if length <= 2 * PART_BYTES => (bytes, &[][..]),
        length => (&bytes[..PART_BYTES], &bytes[length - PART_BYTES..]),
    };
    [head, tail].into_iter().filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{FailureOutput, of, of_agent, rules};
    use crate::model::event::FailureClass;

    fn says(text: &str) -> String {
        of(FailureOutput { stderr: text, ..FailureOutput::default() }).rule
    }

    fn agent_says(text: &str) -> String {
        of_agent(text, Some(1)).map_or_else(|| "none".to_owned(), |found| found.rule)
    }

    #[test]
    fn every_rule_matches_what_it_must_and_misses_what_it_must() {
        let general = rules::all().iter().map(|rule| (rule, says as fn(&str) -> String));
        let of_agents = rules::of_agents().iter().map(|rule| (rule, agent_says as fn(&str) -> String));
        for (rule, says) in general.chain(of_agents) {
            assert!(!rule.name.is_empty() && !rule.reason.is_empty(), "{rule:?}");
            assert!(!rule.exit_code.is_empty() || !rule.matches.is_empty(), "{} has no example", rule.name);
            assert!(
                !rule.exit_code.is_empty() || !rule.misses.is_empty(),
                "{} has no counter-example",
                rule.name
            );
            for text in &rule.matches {
                assert_eq!(says(text), rule.name, "{text}");
            }
            for text in &rule.misses {
                assert_ne!(says(text), rule.name, "{text}");
            }
        }
    }

    #[test]
    fn names_are_unique_and_a_permission_says_what_to_configure() {
        let all = || rules::all().iter().chain(rules::of_agents());
        let mut names: Vec<&str> = all().map(|rule| rule.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for rule in all().filter(|rule| rule.class == FailureClass::Permission) {
            assert!(!rule.configure.is_empty(), "{}", rule.name);
        }
    }

    #[test]
    fn the_beginning_and_the_end_of_a_long_output_are_looked_at() {
        let filler = "a line of no importance\n".repeat(20_000);
        assert_eq!(says(&format!("disk: no space left on device\n{filler}")), "disk-full");
        assert_eq!(says(&format!("{filler}curl: (6) Could not resolve host: h\n")), "name-lookup");
        assert_eq!(says(&filler), "none");
    }

    #[test]
    fn an_exit_code_speaks_only_where_the_output_does_not() {
        let seen =
            |stderr, code| of(FailureOutput { stderr, exit_code: Some(code), ..FailureOutput::default() });
        assert_eq!(seen("", 124).class, FailureClass::Transient);
        assert_eq!(seen("", 137).class, FailureClass::Unrecoverable);
        assert_eq!(seen("", 1).class, FailureClass::Unknown);
        assert_eq!(seen("test result: FAILED. 1 failed", 124).class, FailureClass::Logic);
    }

    #[test]
    fn the_rules_for_agents_search_the_end_of_a_report_and_some_only_a_brief_one() {
        let work = "I read the page that says: Model not found: anthropic/foo.\n";
        let filler = "a line of no importance\n".repeat(500);
        assert_eq!(agent_says(&format!("{work}{filler}")), "none");
        assert_eq!(agent_says(&format!("{filler}Model not found: anthropic/foo.")), "model-not-found");
        assert_eq!(agent_says("sh: 1: node: not found"), "agent-incomplete");
        assert_eq!(agent_says(&format!("{filler}sh: 1: node: not found")), "none");
        let silent = |code, report| of_agent(report, Some(code)).map(|found| found.rule);
        assert_eq!(silent(127, ""), Some("agent-incomplete".to_owned()));
        assert_eq!(silent(127, &filler), None);
        assert_eq!(silent(1, ""), None);
    }

    #[test]
    fn no_rule_for_agents_is_used_for_the_output_of_a_check() {
        for rule in rules::of_agents() {
            for text in &rule.matches {
                assert_ne!(says(text), rule.name, "{text}");
            }
        }
    }

    #[test]
    fn the_line_that_matched_is_kept() {
        let report = "I began.\nAPI Error: 401 Invalid API key · Please run /login\nwarning: noise on stderr";
        let found = of_agent(report, Some(1)).expect("a match");
        assert_eq!(found.line, "API Error: 401 Invalid API key · Please run /login");
    }
}
