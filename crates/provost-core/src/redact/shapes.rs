//! Describes the public formats of tokens; the table is `shapes.toml`.
//!
//! A shape is tried only if one of its hints occurs in the text, and a word that is long enough. A match extends to the end of its run of
//! characters, so that no tail of a longer future token is left.

use std::sync::{LazyLock, OnceLock};

use regex::Regex;

use super::Found;
use super::values;

pub(super) struct Shape {
    pub(super) kind: &'static str,
    /// At least one of these is part of every match, in any case. If there are none, every match has
    /// [`DIGIT_GROUPS`].
    pub(super) hints: &'static [&'static str],
    pattern: &'static str,
    /// The pattern is the whole token and starts at a word boundary. Escapes that end in a letter (`\n`, a
    /// colour, `%3D`) are not part of the word. Otherwise the secret is group 1 of the pattern.
    whole: bool,
    /// Bytes of the shortest word with a match; 0 if a match may have several words.
    pub(super) least: usize,
    regex: OnceLock<Regex>,
}

// `SHAPES`, which `build.rs` makes from the table.
include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// Decimal digits in base64, in groups of three digits and four characters: how the tokens of shapes without
/// hints begin. Searching for them takes a fraction of the time that compiling such a shape takes.
const DIGIT_GROUPS: usize = 4;

const BEFORE: &str = r"(?:^|[^A-Za-z0-9_]|\\[nrt]|\[[0-9;]{0,12}m|%[0-9A-Fa-f]{2})";

impl Shape {
    const fn new(
        kind: &'static str,
        hints: &'static [&'static str],
        pattern: &'static str,
        whole: bool,
        least: usize,
    ) -> Self {
        Self { kind, hints, pattern, whole, least, regex: OnceLock::new() }
    }

    pub(super) fn find<'k>(&'k self, text: &str, found: &mut Vec<Found<'k>>) {
        for captures in self.regex().captures_iter(text) {
            let Some(secret) = captures.get(1) else { continue };
            let blank = match self.whole {
                true => values::crossed_out(secret.as_str()) || values::spelled(secret.as_str()),
                false => values::stands_for(secret.as_str()) || pins_digest(text, secret.end()),
            };
            if !blank {
                found.push(Found { start: secret.start(), end: secret.end(), kind: self.kind });
            }
        }
    }

    fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            let pattern =
                if self.whole { format!("{BEFORE}({})", self.pattern) } else { self.pattern.to_owned() };
            // A test compiles every pattern.
            Regex::new(&pattern).unwrap_or_else(|error| unreachable!("shape {}: {error}", self.kind))
        })
    }
}

/// Returns whether the text may match a shape that has no hint.
pub(super) fn may_match_without_hint(text: &str) -> bool {
    const GROUP: [&[u8]; 4] = [b"MNO", b"DTjz", b"AEIMQUYcgk", b"wxyz012345"];
    let begins =
        |window: &[u8]| window.iter().zip(GROUP.iter().cycle()).all(|(byte, set)| set.contains(byte));
    text.as_bytes().windows(DIGIT_GROUPS * GROUP.len()).any(begins)
}

/// Recognises `docker://image:tag@sha256:…`, which has the form of a password but is none.
fn pins_digest(text: &str, end: usize) -> bool {
    text[end..].starts_with("@sha256:")
}

pub(super) fn all() -> &'static [Shape] {
    &SHAPES
}

pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.kind)
}

/// Returns all hints of all shapes, in the order that [`of_hint`] uses.
pub(super) fn hints() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().flat_map(|shape| shape.hints.iter().copied())
}

/// Returns the shape of the hint at `index`.
pub(super) fn of_hint(index: usize) -> Option<usize> {
    static OWNERS: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let each = SHAPES.iter().enumerate();
        each.flat_map(|(shape, data)| std::iter::repeat_n(shape, data.hints.len())).collect()
    });
    OWNERS.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_compiles_and_captures_one_secret() {
        for shape in all() {
            assert!(shape.regex().captures_len() >= 2, "{} has no group", shape.kind);
        }
    }

    #[test]
    fn a_shape_without_hints_begins_with_digits_in_base64() {
        let digits = "MTIzNDU2Nzg5MDEy";
        assert!(may_match_without_hint(&format!("at {digits}.")));
        assert!(!may_match_without_hint(&digits[1..]));
        let group = "[MNO][DTjz][AEIMQUYcgk][wxyz0-5]";
        for shape in all().iter().filter(|shape| shape.hints.is_empty()) {
            assert!(shape.pattern.contains(&format!("((?:{group}){{{DIGIT_GROUPS}")), "{}", shape.kind);
        }
    }

    #[test]
    fn hints_and_kinds_are_what_the_prefilter_and_the_marks_expect() {
        for shape in all() {
            assert!(shape.hints.iter().all(|hint| *hint == hint.to_lowercase()), "{}", shape.kind);
            assert!(
                shape
                    .kind
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit())
            );
        }
    }
}
