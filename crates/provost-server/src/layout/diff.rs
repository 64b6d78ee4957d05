//! Compares two texts line by line: removed and added lines with a little context; the rest is folded.

use std::ops::Range;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// Number of context lines around a change.
const AROUND: usize = 3;
/// Time limit for comparing two texts.
const PATIENCE: Duration = Duration::from_millis(300);
/// Maximum number of shown lines of one file.
const LINES_MAX: usize = 1000;
/// Maximum number of unchanged lines that are there, folded.
const FOLDED_MAX: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Same,
    Gone,
    Come,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub side: Side,
    /// Its line numbers before and after.
    pub old: Option<usize>,
    pub new: Option<usize>,
    pub text: String,
    /// The part that differs from the line it replaces or is replaced by, in bytes.
    pub differs: Option<Range<usize>>,
}

/// A stretch of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    Shown(Vec<Line>),
    /// Unchanged lines; if there are too many, only their number.
    Folded {
        count: usize,
        lines: Vec<Line>,
    },
    /// The number of lines that are left out at the end.
    Cut(usize),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub stretches: Vec<Stretch>,
    pub added: usize,
    pub removed: usize,
}

impl Difference {
    pub(crate) fn of(before: &str, after: &str) -> Self {
        let mut lines = all_lines(before, after);
        let count = |side| lines.iter().filter(|line| line.side == side).count();
        let (added, removed) = (count(Side::Come), count(Side::Gone));
        if added + removed == 0 {
            return Self::default();
        }
        mark_pairs(&mut lines);
        Self { stretches: stretches(lines), added, removed }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Returns the number of lines that are shown.
    pub(crate) fn shown(&self) -> usize {
        let length = |stretch: &Stretch| match stretch {
            Stretch::Shown(lines) => lines.len(),
            Stretch::Folded { .. } | Stretch::Cut(_) => 0,
        };
        self.stretches.iter().map(length).sum()
    }
}

fn all_lines(before: &str, after: &str) -> Vec<Line> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let changes = diff.iter_all_changes().map(|change| Line {
        side: match change.tag() {
            ChangeTag::Equal => Side::Same,
            ChangeTag::Delete => Side::Gone,
            ChangeTag::Insert => Side::Come,
        },
        old: change.old_index().map(|index| index + 1),
        new: change.new_index().map(|index| index + 1),
        text: change.value().trim_end_matches(['\r', '\n']).to_owned(),
        differs: None,
    });
    changes.collect()
}

/// Marks what differs between a removed line and the added one in its place, if as many were added as removed.
fn mark_pairs(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        let run = |from: usize, side| lines[from..].iter().take_while(|line| line.side == side).count();
        let gone = run(at, Side::Gone);
        let come = run(at + gone, Side::Come);
        if gone == come {
            for pair in at..at + gone {
                let (one, other) = differing(&lines[pair].text, &lines[pair + gone].text);
                (lines[pair].differs, lines[pair + gone].differs) = (one, other);
            }
        }
        at += (gone + come).max(1);
    }
}

/// Returns the parts between the common beginning and the common end; none if little is common.
fn differing(one: &str, other: &str) -> (Option<Range<usize>>, Option<Range<usize>>) {
    let same = |(a, b): &(char, char)| a == b;
    let head: usize = one.chars().zip(other.chars()).take_while(same).map(|(sign, _)| sign.len_utf8()).sum();
    let (rest, other_rest) = (&one[head..], &other[head..]);
    let tail: usize = rest
        .chars()
        .rev()
        .zip(other_rest.chars().rev())
        .take_while(same)
        .map(|(sign, _)| sign.len_utf8())
        .sum();
    if (head + tail) * 3 < one.len().max(other.len()) {
        return (None, None);
    }
    let part = |text: &str| Some(head..text.len() - tail).filter(|part| !part.is_empty());
    (part(one), part(other))
}

/// Folds unchanged lines that are far from a change, and cuts a long file.
fn stretches(lines: Vec<Line>) -> Vec<Stretch> {
    let changed: Vec<usize> =
        lines.iter().enumerate().filter(|(_, line)| line.side != Side::Same).map(|(at, _)| at).collect();
    let is_near = |at: usize| {
        let next = changed.partition_point(|change| *change < at);
        let is_close = |place: Option<&usize>| place.is_some_and(|change| change.abs_diff(at) <= AROUND);
        is_close(changed.get(next)) || is_close(next.checked_sub(1).and_then(|before| changed.get(before)))
    };
    let (mut all, mut shown, mut folded): (Vec<Stretch>, usize, usize) = (Vec::new(), 0, 0);
    let mut left_out = 0;
    for (at, line) in lines.into_iter().enumerate() {
        if shown == LINES_MAX {
            left_out += 1;
        } else if is_near(at) {
            shown += 1;
            match all.last_mut() {
                Some(Stretch::Shown(lines)) => lines.push(line),
                _ => all.push(Stretch::Shown(vec![line])),
            }
        } else {
            folded += 1;
            let kept = (folded <= FOLDED_MAX).then_some(line);
            match all.last_mut() {
                Some(Stretch::Folded { count, lines }) => {
                    *count += 1;
                    lines.extend(kept);
                }
                _ => all.push(Stretch::Folded { count: 1, lines: kept.into_iter().collect() }),
            }
        }
    }
    if left_out > 0 {
        all.push(Stretch::Cut(left_out));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Difference, Line, Side, Stretch};

    #[test]
    fn only_what_changed_and_a_little_around_it_is_shown() {
        let before: String = (1..=40).map(|line| format!("line {line}\n")).collect();
        let after = before.replace("line 5\n", "line five\n").replace("line 30\n", "");
        let found = Difference::of(&before, &after);
        let told: Vec<String> = found
            .stretches
            .iter()
            .map(|stretch| match stretch {
                Stretch::Shown(lines) => {
                    let changed = lines.iter().filter(|line| line.side != Side::Same);
                    let said = changed.map(|Line { side, old, new, text, .. }| {
                        format!("{side:?} {}/{} {text}", old.unwrap_or(0), new.unwrap_or(0))
                    });
                    said.collect::<Vec<_>>().join(", ")
                }
                Stretch::Folded { count, lines } => format!("{count} folded, {} there", lines.len()),
                Stretch::Cut(count) => format!("{count} cut"),
            })
            .collect();
        assert_eq!(
            told,
            [
                "1 folded, 1 there",
                "Gone 5/0 line 5, Come 0/5 line five",
                "18 folded, 18 there",
                "Gone 30/0 line 30",
                "7 folded, 7 there"
            ]
        );
        assert_eq!((found.added, found.removed, found.shown()), (1, 2, 15));
        assert!(Difference::of("the same\n", "the same\n").is_empty());
    }

    #[test]
    fn the_words_that_differ_are_marked() {
        let found = Difference::of("let total = price * 2;\n", "let total = price * 3;\nmore\n");
        let Stretch::Shown(lines) = &found.stretches[0] else { panic!("{found:?}") };
        assert!(lines.iter().all(|line| line.differs.is_none()), "not line for line: {lines:?}");
        let found = Difference::of("let total = price * 2;\n", "let total = price * 30;\n");
        let Stretch::Shown(lines) = &found.stretches[0] else { panic!("{found:?}") };
        let marked: Vec<&str> =
            lines.iter().map(|line| &line.text[line.differs.clone().unwrap_or(0..0)]).collect();
        assert_eq!(marked, ["2", "30"]);
        let other = Difference::of("ä one\n", "ö two\n");
        let Stretch::Shown(lines) = &other.stretches[0] else { panic!("{other:?}") };
        assert!(lines.iter().all(|line| line.differs.is_none()), "little is common: {lines:?}");
    }

    #[test]
    fn a_file_without_end_is_cut() {
        let long: String = (0..5000).map(|line| format!("{line}\n")).collect();
        let found = Difference::of("", &long);
        assert_eq!((found.shown(), found.added), (1000, 5000));
        assert_eq!(found.stretches.last(), Some(&Stretch::Cut(4000)));
    }
}
