//! Suggests the word that a person probably meant to type.
//!
//! It uses one small edit distance for every short list of words. Swapped neighbouring letters count as one
//! edit, because people often mistype that way.

/// Returns the nearest word of `known` if it is at most two edits away and those are fewer than half of its
/// letters.
pub fn suggestion<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(edits, candidate)| *edits <= 2 && edits * 2 < candidate.chars().count().max(3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Counts insertions, deletions, replacements and swaps of neighbours between two short words.
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX / 4;
    }
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_recognised_and_another_word_is_not() {
        let known = ["target", "task", "contract", "on_fail"];
        for (typed, meant) in [
            ("contarct", Some("contract")),
            ("Contrat", Some("contract")),
            ("targte", Some("target")),
            ("onfail", Some("on_fail")),
            ("note", None),
            ("status", None),
            ("", None),
        ] {
            assert_eq!(suggestion(typed, known), meant, "{typed}");
        }
    }
}
