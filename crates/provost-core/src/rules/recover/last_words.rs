//! Picks the one line of an agent's report that says why the agent did not end well.

use std::sync::LazyLock;

use regex::Regex;

/// Number of lines from the end that are searched.
const LINES: usize = 60;
/// Longest line that is shown, in characters.
const LINE_MAX: usize = 200;
/// The beginning of the line that provost adds to a report if a meter saw the last call fail.
const ADDED: &str = "provost: the model's API answered with HTTP ";

/// Words of a failure. A frame of a stack trace and a warning are not the reason.
static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i)\b(?:error|errors|failed|failure|fatal|panic(?:ked)?|exception|cannot|can't|could not|unable|not found|no such|denied|refused|invalid|unknown|unauthorized|forbidden|exceed(?:s|ed)|missing|unsupported|expired|limit|too (?:long|large|many)|message)\b";
    pattern(words)
});
static NOISE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^(?:at \S|warn(?:ing)?\b|\(?node:\d+\)|node\.js v|hint\b|note\b|\[\w+\] retry)")
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("not a pattern: {error}"))
}

/// Returns the line about the last answer of the model's API, for the end of a report. `after` is what the API
/// said about when to come back, as a header.
pub fn answered(status: u16, after: Option<&str>) -> String {
    let after = after.map(|after| format!(", {after}")).unwrap_or_default();
    format!("{ADDED}{status}{after}")
}

pub(super) fn is_added(line: &str) -> bool {
    line.starts_with(ADDED)
}

/// Returns the last line that names a failure, else the last line with a word in it.
pub fn of(report: &str) -> Option<String> {
    let lines = || {
        let lines = report.lines().rev().map(str::trim).take(LINES);
        lines.filter(|line| line.chars().any(char::is_alphabetic) && !NOISE.is_match(line))
    };
    let own = || lines().filter(|line| !is_added(line));
    let line = own().find(|line| FAILURE.is_match(line)).or_else(|| lines().next())?;
    Some(cut(line))
}

/// Cuts a long line for the end of a sentence.
pub(super) fn cut(line: &str) -> String {
    match line.chars().count() > LINE_MAX {
        true => format!("{}…", line.chars().take(LINE_MAX).collect::<String>().trim_end()),
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_line_with_the_reason_is_picked() {
        let cases = [
            ("working\nModel not found: anthropic/foo.\n", "Model not found: anthropic/foo."),
            ("Error: it broke\nwarning: some noise", "Error: it broke"),
            (
                "TypeError: fetch failed\n    at node:internal/x\n    at run (cli.js:3:4)\n\nNode.js v22.1.0",
                "TypeError: fetch failed",
            ),
            (
                "{\n  \"error\": {\n    \"message\": \"no key\",\n    \"code\": 41\n  }\n}",
                "\"message\": \"no key\",",
            ),
            ("I changed two files.\nI stop here.\n---\n", "I stop here."),
            ("warning: only noise", ""),
            ("\n 17 \n", ""),
        ];
        for (report, line) in cases {
            assert_eq!(of(report).unwrap_or_default(), line, "{report}");
        }
        let long = format!("error: {}", "x".repeat(500));
        assert_eq!(of(&long).map(|line| line.chars().count()), Some(201));
    }

    #[test]
    fn what_provost_added_is_picked_only_if_the_agent_said_nothing() {
        let added = super::answered(429, Some("retry-after: 7"));
        assert_eq!(of(&format!("API Error: too many\n{added}")).as_deref(), Some("API Error: too many"));
        assert_eq!(of(&added).as_deref(), Some(added.as_str()));
    }
}
