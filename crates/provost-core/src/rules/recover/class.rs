//! Classifies a failure by its output and exit code.
//!
//! One pass over the output finds all matching patterns of all rules, and the first rule in order with a
//! match decides. If no rule matches, the class is `unknown`, because a wrong retry or a wrong stop costs
//! more than a question.
//!
//! **Invariant:** the result depends only on the output, the exit code and the rules.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexSet, RegexSetBuilder};

use super::rules::{self, FailureRule};
use crate::model::event::FailureClass;

/// For a longer output, the number of bytes that are read from the beginning and from the end.
const PART_BYTES: usize = 32 * 1024;

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
    /// An agent that met it could do nothing, and cannot do anything next time.
    pub stops_agent: bool,
    /// The agent met it, not the check.
    pub of_the_agent: bool,
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
            stops_agent: false,
            of_the_agent: false,
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
    let found = Found::in_parts(&parts);
    let rule = BOOK.rules.iter().find(|known| known.matches(&found)).map(|known| known.rule).or_else(|| {
        rules::all().find(|rule| seen.exit_code.is_some_and(|code| rule.exit_code.contains(&code)))
    });
    match rule {
        Some(rule) => FailureMatch {
            configure: rule.configure.clone(),
            quota: rule.quota,
            mendable: rule.mendable,
            network: rule.network,
            stops_agent: rule.stops_agent,
            ..FailureMatch::new(rule.class, &rule.name, &rule.reason)
        },
        None => FailureMatch::unknown(),
    }
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

impl Found {
    fn in_parts(parts: &[&[u8]]) -> Self {
        let mut patterns = vec![false; BOOK.set.len()];
        for part in parts {
            for pattern in &BOOK.set.matches(part) {
                patterns[pattern] = true;
            }
        }
        Self { patterns, statuses: statuses(parts) }
    }
}

/// The rules with all their patterns in one set.
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

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    let mut patterns = Vec::new();
    let mut add = |all: &'static [String]| {
        let start = patterns.len();
        patterns.extend_from_slice(all);
        start..patterns.len()
    };
    let rules =
        rules::all().map(|rule| Known { rule, any: add(&rule.any), unless: add(&rule.unless) }).collect();
    let set = RegexSetBuilder::new(&patterns)
        .case_insensitive(true)
        .unicode(false)
        .size_limit(64 << 20)
        .dfa_size_limit(16 << 20)
        .build()
        .unwrap_or_else(|error| unreachable!("a built-in rule is not a pattern: {error}"));
    Book { set, rules }
});

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
    use super::{BOOK, FailureOutput, of, rules};
    use crate::model::event::FailureClass;

    fn says(text: &str) -> String {
        of(FailureOutput { stderr: text, ..FailureOutput::default() }).rule
    }

    #[test]
    fn every_rule_matches_what_it_must_and_misses_what_it_must() {
        for known in &BOOK.rules {
            let rule = known.rule;
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
        let mut names: Vec<&str> = rules::all().map(|rule| rule.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for rule in rules::all().filter(|rule| rule.class == FailureClass::Permission) {
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
}
