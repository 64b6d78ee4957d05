//! Describes the secrets of the configuration: names whose values are secret, and shapes of tokens.
//!
//! **Invariant:** they only add spans to remove; what the other layers find is removed in any case.

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use super::Found;
use super::known::NAME_MAX;

/// Characters of a token after its prefix.
const REST: &str = "[A-Za-z0-9_.~+/=-]";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnSecrets {
    /// Names of variables and settings, in any case.
    pub names: Vec<String>,
    pub shapes: Vec<OwnShape>,
}

/// The shape of a token.
#[derive(Clone, Debug)]
pub struct OwnShape {
    kind: String,
    regex: Regex,
}

impl PartialEq for OwnShape {
    fn eq(&self, other: &Self) -> bool {
        (&self.kind, self.regex.as_str()) == (&other.kind, other.regex.as_str())
    }
}

impl Eq for OwnShape {}

impl OwnShape {
    /// Returns whether `kind` can be part of a mark: `[redacted:kind]`.
    pub fn is_kind(kind: &str) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        !kind.is_empty() && kind.len() <= NAME_MAX && kind.bytes().all(fits)
    }

    /// A token by its pattern; group 1 is the secret, or everything if there is no group. `Err` describes the
    /// mistake in one line.
    pub fn new(kind: &str, pattern: &str) -> Result<Self, String> {
        let regex = Regex::new(pattern).map_err(|error| {
            let words = error.to_string();
            format!("is not a regular expression: {}", words.lines().last().unwrap_or_default().trim())
        })?;
        if regex.is_match("") {
            return Err("matches even an empty text".to_owned());
        }
        Ok(Self { kind: kind.to_owned(), regex })
    }

    /// A token that begins with `prefix`, with at least `length` more characters.
    pub fn with_prefix(kind: &str, prefix: &str, length: u32) -> Result<Self, String> {
        Self::new(kind, &format!("{}{REST}{{{length},}}", regex::escape(prefix)))
    }
}

impl OwnSecrets {
    /// Returns whether a value of this name is secret.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|each| each.eq_ignore_ascii_case(name))
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().map(|shape| shape.kind.as_str())
    }

    /// Finds the names in a text; `None` if there are none to find.
    pub(super) fn hints(&self) -> Option<AhoCorasick> {
        let names = || super::folded(self.names.iter().map(String::as_str), AhoCorasickKind::ContiguousNFA);
        (!self.names.is_empty()).then(names)
    }

    pub(super) fn find<'k>(&'k self, text: &str, found: &mut Vec<Found<'k>>) {
        for shape in &self.shapes {
            for captures in shape.regex.captures_iter(text) {
                let Some(secret) = captures.get(1).or(captures.get(0)) else { continue };
                if !secret.is_empty() {
                    found.push(Found { start: secret.start(), end: secret.end(), kind: &shape.kind });
                }
            }
        }
    }
}
