//! Suggests the word that a person probably meant to type.
//!
//! Swapped neighbouring letters count as one edit, because people often mistype that way.

use strsim::osa_distance;

/// Returns the nearest word of `known` if it is at most two edits away and those are fewer than half of its
/// letters.
pub fn suggestion<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    known
        .into_iter()
        // Other lengths need more than two edits.
        .filter(|candidate| candidate.chars().count().abs_diff(word.chars().count()) <= 2)
        .map(|candidate| (osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(edits, candidate)| *edits <= 2 && edits * 2 < candidate.chars().count().max(3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
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
