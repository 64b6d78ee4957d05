//! Finds the secrets that provost handed out, in every form in which a program is likely to print them.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};

use super::Found;

/// Minimum length; a shorter value would also match ordinary words.
const VALUE_MIN: usize = 8;
/// Minimum length for a search in forms that are printed only to hide the value.
const DISGUISED_MIN: usize = 12;
/// Minimum length of a line of a multi-line secret, such as a key file.
const LINE_MIN: usize = 16;
/// Maximum length of a name in a mark.
pub(super) const NAME_MAX: usize = 64;

pub(super) struct KnownSecrets {
    names: Vec<String>,
    /// The index of the name, for each pattern of `automaton`.
    owners: Vec<usize>,
    automaton: Option<AhoCorasick>,
}

impl KnownSecrets {
    pub(super) fn new<N: AsRef<str>, V: AsRef<str>>(known: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut names = Vec::new();
        let mut owners = Vec::new();
        let mut patterns = Vec::new();
        for (name, value) in known {
            let forms = forms(value.as_ref());
            if forms.is_empty() {
                continue;
            }
            owners.extend(std::iter::repeat_n(names.len(), forms.len()));
            patterns.extend(forms);
            names.push(safe_name(name.as_ref()));
        }
        let automaton = (!patterns.is_empty()).then(|| {
            // Every occurrence counts, also of a value inside or across another.
            AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .build(&patterns)
                .unwrap_or_else(|error| unreachable!("the environment of a process does not fit: {error}"))
        });
        Self { names, owners, automaton }
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub(super) fn find<'k>(&'k self, text: &str, found: &mut Vec<Found<'k>>) {
        let Some(automaton) = &self.automaton else { return };
        for hit in automaton.find_overlapping_iter(text) {
            let kind = &self.names[self.owners[hit.pattern().as_usize()]];
            found.push(Found { start: hit.start(), end: hit.end(), kind });
        }
    }
}

/// Returns a name in the form that is allowed in a mark.
fn safe_name(name: &str) -> String {
    let fits = |each: char| each.is_ascii_alphanumeric() || "_.-".contains(each);
    let name: String = name.chars().map(|each| if fits(each) { each } else { '_' }).take(NAME_MAX).collect();
    if name.is_empty() { "known-value".to_owned() } else { name }
}

fn forms(value: &str) -> BTreeSet<String> {
    let value = value.trim();
    let mut forms = BTreeSet::new();
    if value.chars().count() < VALUE_MIN {
        return forms;
    }
    forms.insert(value.to_owned());
    forms.insert(json_escaped(value));
    forms.insert(url_encoded(value, false));
    forms.insert(url_encoded(value, true));
    forms.insert(url_encoded(value, false).replace("%20", "+"));
    forms.insert(hex(value));
    for alphabet in [STANDARD, URL_SAFE] {
        for shift in 0..3 {
            forms.insert(base64_inside(value.as_bytes(), shift, alphabet));
        }
    }
    if value.chars().count() >= DISGUISED_MIN {
        forms.insert(value.chars().rev().collect());
        forms.insert(hex(value).to_ascii_uppercase());
        forms.extend([false, true].map(|lowercase| percent_encoded(value, lowercase)));
    }
    if value.contains('\n') {
        forms.extend(value.lines().map(str::trim).filter(|line| line.len() >= LINE_MIN).map(str::to_owned));
    }
    forms.retain(|form| form.len() >= VALUE_MIN);
    forms
}

fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn url_encoded(value: &str, lowercase: bool) -> String {
    let mut out = String::with_capacity(value.len() * 3);
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else if lowercase {
            out.push_str(&format!("%{byte:02x}"));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Percent-encodes every byte, also those that do not need it.
fn percent_encoded(value: &str, lowercase: bool) -> String {
    let hex = hex(value);
    let hex = if lowercase { hex } else { hex.to_ascii_uppercase() };
    let pairs = hex.as_bytes().chunks(2).map(|pair| format!("%{}", String::from_utf8_lossy(pair)));
    pairs.collect()
}

fn hex(value: &str) -> String {
    value.bytes().map(|byte| format!("{byte:02x}")).collect()
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the characters that base64 of any text with `value` must contain if `shift` bytes, modulo 3, come
/// before it: those that hold only bits of the value. So `user:value` is found as well.
fn base64_inside(value: &[u8], shift: usize, alphabet: &[u8; 64]) -> String {
    let bits = |index: usize| {
        let byte = index / 8;
        let Some(inside) = byte.checked_sub(shift).and_then(|at| value.get(at)) else { return 0 };
        (inside >> (7 - index % 8)) & 1
    };
    let first = (shift * 8).div_ceil(6);
    let last = (shift + value.len()) * 8 / 6;
    (first..last)
        .map(|sextet| {
            let index = (0..6).fold(0usize, |sum, bit| sum << 1 | usize::from(bits(sextet * 6 + bit)));
            char::from(alphabet[index])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_at_every_alignment() {
        assert_eq!(base64_inside(b"hunter2!", 0, STANDARD), "aHVudGVyMi");
        // "x" before it: eGh1bnRlcjIh
        assert_eq!(base64_inside(b"hunter2!", 1, STANDARD), "h1bnRlcjIh");
        // "xy" before it: eHlodW50ZXIyIQ==
        assert_eq!(base64_inside(b"hunter2!", 2, STANDARD), "odW50ZXIyI");
    }

    #[test]
    fn a_value_in_disguise_is_known() {
        let forms = forms("rt-5f0c2d1e9b7a48d3");
        for disguise in [
            "3d84a7b9e1d2c0f5-tr",
            "72742D35663063326431653962376134386433",
            "72742d35663063326431653962376134386433",
            "cnQtNWYwYzJkMWU5YjdhNDhkM",
            "%72%74%2D%35%66%30%63%32%64%31%65%39%62%37%61%34%38%64%33",
            "%72%74%2d%35%66%30%63%32%64%31%65%39%62%37%61%34%38%64%33",
        ] {
            assert!(forms.contains(disguise), "{disguise}");
        }
        assert!(!super::forms("hunter2!").contains("!2retnuh"), "too short to be sure");
    }

    #[test]
    fn a_short_value_is_left_to_the_other_layers() {
        assert!(forms("hunter2").is_empty());
        assert!(!forms("hunter2!").is_empty());
    }
}
