//! Reads single values: durations, money, tokens, policies, expectations.
//!
//! Each function reads a value completely or not at all; a value that is half understood would do something
//! that its author did not write.

use std::time::Duration;

use crate::model::plan::{Budget, Expectation, OnFail, Stream, Then};

const LONGEST_SECS: u64 = 366 * 24 * 3600;

/// Reads `10 minutes`, `1h 30m`, `90s`, `1.5 hours`.
pub(super) fn duration(value: &str) -> Option<Duration> {
    let mut rest = value.trim();
    let mut total_ms: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (milli_units, after) = decimal(rest)?;
        let after = after.trim_start();
        let word_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit_secs = unit_secs(&after[..word_end].to_ascii_lowercase())?;
        total_ms = total_ms.checked_add(milli_units.checked_mul(unit_secs)?)?;
        rest = after[word_end..].trim_start();
        rest = rest.strip_prefix("and ").unwrap_or(rest).trim_start();
    }
    (total_ms / 1000 <= LONGEST_SECS).then(|| Duration::from_millis(total_ms))
}

fn unit_secs(word: &str) -> Option<u64> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 24 * 3600,
        _ => return None,
    })
}

/// Reads a number with at most three decimals, in thousandths; `_` and `,` group digits.
fn decimal(text: &str) -> Option<(u64, &str)> {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | ','))).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: String = whole.chars().filter(char::is_ascii_digit).collect();
    if whole.is_empty() || fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    Some((whole.checked_mul(1000)?.checked_add(thousandths)?, rest))
}

/// Reads `max 200k tokens, $1.50, 20 minutes wall clock`; an error names the part that could not be read.
pub fn budget(value: &str) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for part in budget_parts(value) {
        let part = part.trim().trim_end_matches('.');
        let lower = part.to_ascii_lowercase();
        let words = ["max", "at most", "up to", "under"].iter().find_map(|p| lower.strip_prefix(p));
        let words =
            words.unwrap_or(&lower).trim().trim_end_matches("wall clock").trim_end_matches("wall-clock");
        let read = if let Some(tokens) = tokens(words) {
            budget.tokens.replace(tokens).is_none()
        } else if let Some(money) = micro_usd(words) {
            budget.micro_usd.replace(money).is_none()
        } else if let Some(wall) = duration(words) {
            budget.wall.replace(wall).is_none()
        } else {
            false
        };
        if !read {
            return Err(part.to_string());
        }
    }
    Ok(budget)
}

/// Splits at commas that do not group digits.
fn budget_parts(value: &str) -> Vec<&str> {
    let bytes = value.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let groups = at > 0
            && bytes[at - 1].is_ascii_digit()
            && bytes.get(at + 1..at + 4).is_some_and(|next| next.iter().all(u8::is_ascii_digit));
        if *byte == b',' && !groups {
            parts.push(&value[start..at]);
            start = at + 1;
        }
    }
    parts.push(&value[start..]);
    parts
}

fn tokens(words: &str) -> Option<u64> {
    let number = words.strip_suffix("tokens").or_else(|| words.strip_suffix("token"))?;
    let (thousandths, unit) = decimal(number.trim())?;
    let factor = match unit.trim() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "b" | "g" => 1_000_000_000,
        _ => return None,
    };
    Some(thousandths.checked_mul(factor)? / 1000)
}

fn micro_usd(words: &str) -> Option<u64> {
    let number = match words.strip_prefix('$') {
        Some(number) => number,
        None => ["usd", "dollars", "dollar"].iter().find_map(|unit| words.strip_suffix(unit))?,
    };
    let (thousandths, rest) = decimal(number.trim())?;
    if !matches!(rest.trim(), "" | "usd") {
        return None;
    }
    thousandths.checked_mul(1000)
}

/// Reads `retry(2), then escalate`.
pub(super) fn on_fail(value: &str) -> Option<OnFail> {
    let mut retries = None;
    let mut then = None;
    for part in value.trim().trim_end_matches('.').split(',') {
        let part = without_word(part.trim(), "then").unwrap_or(part.trim());
        let end = [("escalate", Then::Escalate), ("abort", Then::Abort), ("skip", Then::Skip)];
        let end = end.iter().find(|(word, _)| word.eq_ignore_ascii_case(part)).map(|(_, end)| *end);
        match end {
            Some(end) => {
                if then.replace(end).is_some() {
                    return None;
                }
            }
            None => {
                let times = without_word(part, "retry")?.strip_prefix('(')?.strip_suffix(')')?;
                let times: u32 = times.trim().parse().ok().filter(|times| *times <= 100)?;
                if then.is_some() || retries.replace(times).is_some() {
                    return None;
                }
            }
        }
    }
    Some(OnFail { retries: retries.unwrap_or(0), then: then.unwrap_or(Then::Escalate) })
}

/// Returns the text after a word, ignoring case.
fn without_word<'v>(value: &'v str, word: &str) -> Option<&'v str> {
    let head = value.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| value[word.len()..].trim())
}

pub(super) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" => Some(true),
        "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Why a line is not an expectation.
pub(super) enum Misread {
    /// It does not look like one.
    Other,
    Form,
    Pattern(String),
}

/// Reads `exit_code == 0`, `stdout contains "…"`, `stderr is empty`, `stdout matches /…/`, and expectations
/// about single tests.
pub(super) fn expectation(line: &str) -> Result<Expectation, Misread> {
    let line = line.trim();
    if let Some(about_tests) = of_tests(line) {
        return about_tests;
    }
    if let Some(rest) = line.strip_prefix("exit_code") {
        let rest = rest.trim_start();
        let (is, number) = match (rest.strip_prefix("=="), rest.strip_prefix("!=")) {
            (Some(number), _) => (true, number),
            (None, Some(number)) => (false, number),
            (None, None) => return Err(Misread::Form),
        };
        let code: i32 = uncommented(number).trim().parse().map_err(|_| Misread::Form)?;
        if !(0..=255).contains(&code) {
            return Err(Misread::Form);
        }
        return Ok(if is { Expectation::ExitIs(code) } else { Expectation::ExitIsNot(code) });
    }
    let (stream, rest) = match (line.strip_prefix("stdout"), line.strip_prefix("stderr")) {
        (Some(rest), _) => (Stream::Stdout, rest),
        (None, Some(rest)) => (Stream::Stderr, rest),
        (None, None) => return Err(looks_like_one(line)),
    };
    let rest = rest.strip_prefix([' ', '\t']).ok_or(Misread::Form)?.trim_start();
    if let Some(quoted) = rest.strip_prefix("contains").and_then(|rest| delimited(rest, '"')) {
        return match quoted {
            "" => Err(Misread::Form),
            text => Ok(Expectation::Contains { stream, text: text.replace("\\\"", "\"") }),
        };
    }
    if let Some(pattern) = rest.strip_prefix("matches").and_then(|rest| delimited(rest, '/')) {
        return match regex::Regex::new(pattern) {
            Ok(_) => Ok(Expectation::Matches { stream, pattern: pattern.to_string() }),
            Err(error) => Err(Misread::Pattern(last_line(&error.to_string()))),
        };
    }
    match uncommented(rest).split_whitespace().collect::<Vec<_>>().as_slice() {
        ["is", "empty"] => Ok(Expectation::Empty { stream }),
        _ => Err(Misread::Form),
    }
}

/// Reads `tests fixed: a, b`, `no new failures`, `tests passed >= 3`, `no test removed or skipped`; `None` if
/// the line is about something else.
fn of_tests(line: &str) -> Option<Result<Expectation, Misread>> {
    let words: Vec<&str> = uncommented(line).split_whitespace().collect();
    match words.as_slice() {
        ["no", "new", "failures"] => Some(Ok(Expectation::NoNewFailures)),
        ["no", "test", "removed", "or", "skipped"] => Some(Ok(Expectation::NoTestRemoved)),
        ["tests", "fixed:", ..] => {
            // A name may contain a comma, in its parameters.
            let names = uncommented(line).split_once(':').map_or("", |(_, names)| names);
            let names = outside_brackets(names);
            Some(if names.is_empty() { Err(Misread::Form) } else { Ok(Expectation::TestsFixed { names }) })
        }
        ["tests", "passed", ">=", number] => {
            let at_least = number.parse().ok().filter(|number| *number > 0);
            Some(at_least.map(|at_least| Expectation::TestsPassed { at_least }).ok_or(Misread::Form))
        }
        ["tests", "fixed" | "passed" | "passed:", ..] | ["no", "new", "failure", ..] => {
            Some(Err(Misread::Form))
        }
        ["no", "test" | "tests", "removed" | "skipped", ..] => Some(Err(Misread::Form)),
        _ => None,
    }
}

/// Splits at commas that are not inside of square brackets.
fn outside_brackets(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0u32;
    for c in text.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (c, depth, names.last_mut()) {
            (',', 0, _) => names.push(String::new()),
            (_, _, Some(name)) => name.push(c),
            (_, _, None) => {}
        }
    }
    let plain = |name: &String| name.trim().trim_matches('`').to_owned();
    names.iter().map(plain).filter(|name| !name.is_empty()).collect()
}

fn looks_like_one(line: &str) -> Misread {
    let word = line.split([' ', '\t', '=', '!', ':']).next().unwrap_or("").to_ascii_lowercase();
    match word.as_str() {
        "exit" | "exit-code" | "exitcode" | "exit_status" | "returncode" | "expect" | "output" => {
            Misread::Form
        }
        _ => Misread::Other,
    }
}

fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or("").trim().trim_start_matches("error: ").to_string()
}

/// Returns the text between two delimiters, if only a comment follows the second.
fn delimited(text: &str, delimiter: char) -> Option<&str> {
    let text = text.strip_prefix([' ', '\t'])?.trim().strip_prefix(delimiter)?;
    let end = text.match_indices(delimiter).map(|(at, _)| at).find(|at| {
        let after = &text[at + 1..];
        let ends = after.is_empty() || after.starts_with([' ', '\t']) && after.trim_start().starts_with('#');
        !text[..*at].ends_with('\\') && ends
    })?;
    text.get(..end)
}

/// Removes a ` # comment`.
pub(super) fn uncommented(value: &str) -> &str {
    if value.starts_with('#') {
        return "";
    }
    let end = value
        .match_indices('#')
        .map(|(at, _)| at)
        .find(|at| value[..*at].ends_with([' ', '\t']))
        .unwrap_or(value.len());
    value[..end].trim_end()
}
