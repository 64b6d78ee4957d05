//! Adds lines to a text and removes them again, with the line ends that the text has.

use std::collections::BTreeSet;

use super::jsonc::Splice;

/// Appends lines, unless the first of them is there.
pub(crate) fn at_the_end(text: &str, lines: &str) -> Option<Splice> {
    let first = lines.lines().find(|line| !line.trim().is_empty())?;
    if text.lines().any(|line| line.trim() == first.trim()) {
        return None;
    }
    Some(appended(text, lines))
}

/// Appends the rules that the text lacks, below their comment.
pub(crate) fn rules(text: &str, rules: &str) -> Option<Splice> {
    let is_there = |rule: &str| text.lines().any(|line| line.trim() == rule.trim());
    let is_missing = |line: &&str| !line.trim().is_empty() && (is_comment(line) || !is_there(line));
    let missing: Vec<&str> = rules.lines().filter(is_missing).collect();
    if missing.iter().all(|line| is_comment(line)) {
        return None;
    }
    Some(appended(text, &format!("{}\n", missing.join("\n"))))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

fn appended(text: &str, lines: &str) -> Splice {
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Splice { at: text.len(), text: as_in(text, &format!("{gap}{lines}")) }
}

/// Returns lines with the line ends of a text.
pub(crate) fn as_in(text: &str, lines: &str) -> String {
    if text.contains("\r\n") { lines.replace('\n', "\r\n") } else { lines.to_owned() }
}

/// Returns the text without a paragraph, also if it was wrapped differently since. `None` if only a part of
/// it is there.
pub(crate) fn without_paragraph(text: &str, paragraph: &str) -> Option<String> {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    if let Some(gone) = wrapped(&all, paragraph) {
        return Some(without(&all, gone));
    }
    let ours: Vec<&str> = paragraph.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let gone: BTreeSet<usize> = at(&all, &ours);
    match gone.len() {
        0 => Some(text.to_owned()),
        found if found == ours.len() => Some(without(&all, gone)),
        _ => None,
    }
}

/// Returns the text without these rules, each for itself.
pub(crate) fn without_rules(text: &str, rules: &str) -> String {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let ours: Vec<&str> = rules.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    without(&all, at(&all, &ours))
}

fn at(all: &[&str], ours: &[&str]) -> BTreeSet<usize> {
    (0..all.len()).filter(|line| ours.contains(&all[*line].trim())).collect()
}

/// Returns the lines that hold the words of a paragraph, and nothing else.
fn wrapped(all: &[&str], paragraph: &str) -> Option<BTreeSet<usize>> {
    let words: Vec<(usize, &str)> = all
        .iter()
        .enumerate()
        .flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)))
        .collect();
    let ours: Vec<&str> = paragraph.split_whitespace().collect();
    let is_ours = |part: &[(usize, &str)]| part.iter().map(|(_, word)| *word).eq(ours.iter().copied());
    let begin = words.windows(ours.len().max(1)).position(is_ours)?;
    let (first, last) = (words[begin].0, words[begin + ours.len() - 1].0);
    let starts_line = begin == 0 || words[begin - 1].0 < first;
    let ends_line = words.get(begin + ours.len()).is_none_or(|(line, _)| *line > last);
    (starts_line && ends_line).then(|| (first..=last).collect())
}

/// Removes lines, the blank lines between them, and the one that separated them from the text before.
pub(crate) fn without(all: &[&str], mut gone: BTreeSet<usize>) -> String {
    let is_blank = |line: usize| all[line].trim().is_empty();
    for line in 0..all.len() {
        let next = (line..all.len()).find(|line| !is_blank(*line));
        let previous = (0..line).rev().find(|line| !is_blank(*line));
        let is_between = previous.is_some_and(|line| gone.contains(&line))
            && next.is_some_and(|line| gone.contains(&line));
        if is_blank(line) && is_between {
            gone.insert(line);
        }
    }
    for line in 1..all.len() {
        let begins = gone.contains(&line) && !gone.contains(&(line - 1));
        let after = (line..all.len()).find(|line| !gone.contains(line));
        if begins && is_blank(line - 1) && after.is_none_or(is_blank) {
            gone.insert(line - 1);
        }
    }
    let left = (0..all.len()).filter(|line| !gone.contains(line));
    left.map(|line| all[line]).collect()
}
