//! What a worker's machine has, and what a role asks of it: `gpu`, `os=linux`.
//!
//! **Invariant:** what is not said is not had: a label that is asked for and was not given is lacking.

use std::fmt;
use std::str::FromStr;

/// A word, and what of it: `os=linux`. Without a value it is had, or asked for, as such.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    pub name: String,
    pub value: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no label: write `gpu` or `os=linux`, with letters, digits, `.`, `-` and `_`")]
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

/// All of them in one word, with commas.
pub fn joined(labels: &[Label]) -> String {
    labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The first label that is asked for and not had. Any value will do where none is asked for.
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
