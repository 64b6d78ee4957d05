//! Labels of a worker's machine, and the labels that a role requires: `gpu`, `os=linux`.
//!
//! **Invariant:** a required label that the machine does not declare is missing.

use std::fmt;
use std::str::FromStr;

/// A name with an optional value: `os=linux`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    pub name: String,
    pub value: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a label; write `gpu` or `os=linux`, with letters, digits, `.`, `-` and `_`")]
pub struct NoLabel(pub String);

impl FromStr for Label {
    type Err = NoLabel;

    fn from_str(text: &str) -> Result<Self, NoLabel> {
        let plain = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
        };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if !plain(name) || value.is_some_and(|value| !plain(value)) {
            return Err(NoLabel(text.to_owned()));
        }
        Ok(Self { name: name.to_owned(), value: value.map(str::to_owned) })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Joins the labels with commas.
pub fn joined(labels: &[Label]) -> String {
    labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the first required label that is missing. A label without a value accepts any value.
pub fn lacking<'a>(has: &[Label], asked: &'a [Label]) -> Option<&'a Label> {
    let fits = |asked: &Label| {
        let named = has.iter().filter(|label| label.name == asked.name);
        named.into_iter().any(|label| asked.value.is_none() || label.value == asked.value)
    };
    asked.iter().find(|asked| !fits(asked))
}

#[cfg(test)]
mod tests {
    use super::{Label, lacking};

    fn labels(text: &str) -> Vec<Label> {
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    #[track_caller]
    fn lacks(has: &str, asked: &str, expected: Option<&str>) {
        let asked = labels(asked);
        let found = lacking(&labels(has), &asked).map(ToString::to_string);
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn a_machine_has_what_it_says_and_nothing_else() {
        lacks("", "", None);
        lacks("gpu os=linux", "", None);
        lacks("os=linux gpu", "gpu os=linux", None);
        lacks("os=linux", "gpu", Some("gpu"));
        lacks("os=linux", "os=macos", Some("os=macos"));
        lacks("gpu=a100", "gpu", None);
        lacks("gpu", "gpu=a100", Some("gpu=a100"));
        lacks("arch=x arch=y", "arch=y", None);
        lacks("a b", "a c d", Some("c"));
    }

    #[test]
    fn labels_are_plain_words() {
        for wrong in ["", "=", "a=", "=b", "a b", "a=b=c", "a,b", "ä"] {
            assert!(wrong.parse::<Label>().is_err(), "{wrong}");
        }
        assert_eq!("os=debian-12.1".parse::<Label>().unwrap().to_string(), "os=debian-12.1");
    }
}
