//! Compares two texts line by line: removed and added lines with a little context.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// Number of context lines around a change.
const AROUND: usize = 3;
/// Time limit for comparing two texts.
const PATIENCE: Duration = Duration::from_millis(300);
/// Maximum number of lines of one file.
const LINES_MAX: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Same,
    Gone,
    Come,
    /// Placeholder for lines that are left out.
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub side: Side,
    /// Its line number, before or after.
    pub number: Option<usize>,
    pub text: String,
}

pub(crate) fn lines(before: &str, after: &str) -> Vec<Line> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let mut lines = Vec::new();
    for (place, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if place > 0 {
            lines.push(Line { side: Side::Cut, number: None, text: "…".to_owned() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let side = match change.tag() {
                ChangeTag::Equal => Side::Same,
                ChangeTag::Delete => Side::Gone,
                ChangeTag::Insert => Side::Come,
            };
            let number = change.new_index().or(change.old_index()).map(|index| index + 1);
            let text = change.value().trim_end_matches(['\r', '\n']).to_owned();
            lines.push(Line { side, number, text });
        }
    }
    if lines.len() > LINES_MAX {
        let text = format!("… and {} more lines", lines.len() - LINES_MAX);
        lines.truncate(LINES_MAX);
        lines.push(Line { side: Side::Cut, number: None, text });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Line, Side, lines};

    #[test]
    fn only_what_changed_and_a_little_around_it_is_shown() {
        let before: String = (1..=40).map(|line| format!("line {line}\n")).collect();
        let after = before.replace("line 5\n", "line five\n").replace("line 30\n", "");
        let found = lines(&before, &after);
        let told: Vec<String> = found
            .iter()
            .filter(|line| line.side != Side::Same)
            .map(|Line { side, number, text }| format!("{side:?} {} {text}", number.unwrap_or(0)))
            .collect();
        assert_eq!(told, ["Gone 5 line 5", "Come 5 line five", "Cut 0 …", "Gone 30 line 30"]);
        assert_eq!(found.iter().filter(|line| line.side == Side::Same).count(), 12);
        assert!(lines("the same\n", "the same\n").is_empty());
    }

    #[test]
    fn a_file_without_end_is_cut() {
        let long: String = (0..5000).map(|line| format!("{line}\n")).collect();
        let found = lines("", &long);
        assert_eq!(found.len(), 2001);
        assert_eq!(found[2000].text, "… and 3000 more lines");
    }
}
