//! Reads the text by serde, and reports an error with its line, its key and what is allowed there.
//!
//! An error of `toml` has a message and a span. The span leads to the key and its section, and the messages
//! of serde are reworded for people who do not know Rust.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use provost_core::model::suggest;
use provost_core::redact::Redactor;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Keys of lists that people write as `[[key]]`.
const LISTS_OF_SECTIONS: [&str; 3] = ["allow", "shapes", "webhook"];
/// Separates the key from the message in [`at`].
const AT: char = '\u{1f}';

/// An error in a configuration, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub path: PathBuf,
    /// Line and column, counted from 1, in characters.
    pub line: usize,
    pub column: usize,
    /// The source line, and the number of characters to underline.
    pub source: String,
    pub width: usize,
    pub message: String,
}

impl std::error::Error for Wrong {}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}:{}: {}", self.path.display(), self.line, self.column, self.message)?;
        writeln!(f, "  {}", self.source.replace('\t', " "))?;
        write!(f, "  {:indent$}{}", "", "^".repeat(self.width.max(1)), indent = self.column - 1)
    }
}

/// Points an error of a section or a list at the value of one of its keys or at an entry; can be nested.
pub(super) fn at(key: impl fmt::Display, message: impl fmt::Display) -> String {
    format!("{key}{AT}{message}")
}

/// Says that the section lacks a key; the words are those of serde.
pub(super) fn missing(key: &str) -> String {
    format!("missing field `{key}`")
}

/// Returns "; did you mean …?", or all choices if none is similar.
pub(super) fn meant(given: &str, known: &[&str]) -> String {
    match suggest::suggestion(given, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; it is one of {}", known.join(", ")),
    }
}

pub(super) struct Text<'t> {
    pub(super) path: &'t Path,
    pub(super) text: &'t str,
}

impl<'t> Text<'t> {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Wrong> {
        let table = self.table()?;
        self.check_table(table.get_ref())?;
        T::deserialize(toml::Deserializer::from(table))
            .map_err(|error| self.reworded(error.span().unwrap_or_default(), error.message()))
    }

    fn table(&self) -> Result<Spanned<DeTable<'t>>, Wrong> {
        DeTable::parse(self.text).map_err(|error| {
            self.wrong(error.span().unwrap_or_default(), error.message().trim().replace('\n', ", "))
        })
    }

    /// Checks that no list has more than 1000 entries, and no text more than 4096 bytes.
    fn check_lengths(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let message = match value.get_ref() {
            DeValue::Table(table) => return self.check_table(table),
            DeValue::String(text) if text.len() > 4096 => "is longer than 4096 bytes",
            DeValue::Array(list) if list.len() > 1000 => "has more than 1000 entries",
            DeValue::Array(list) => return list.iter().try_for_each(|entry| self.check_lengths(key, entry)),
            _ => return Ok(()),
        };
        Err(self.wrong(value.span(), format!("`{key}` {message}")))
    }

    fn check_table(&self, table: &DeTable<'_>) -> Result<(), Wrong> {
        table.iter().try_for_each(|(key, value)| self.check_lengths(key.get_ref(), value))
    }

    /// Rewords an error of serde, or one of our own. Our own may contain `{key}`, the nearest key, and start
    /// with keys that lead to the value ([`at`]).
    pub(super) fn reworded(&self, mut span: Range<usize>, mut message: &str) -> Wrong {
        let Ok(root) = self.table() else { return self.wrong(span, message.to_owned()) };
        let mut spot = Spot::find(root.get_ref(), "", &span);
        while let Some((key, rest)) = message.split_once(AT) {
            let inner = match &spot {
                Some(spot) => spot.below(key),
                None => Spot::of(root.get_ref(), "", key),
            };
            message = rest;
            let Some((inner, place)) = inner else { continue };
            (spot, span) = (Some(inner), place);
        }
        let Some(spot) = spot else { return self.wrong(span, message.to_owned()) };
        let unknown = message.strip_prefix("unknown field ").or(message.strip_prefix("invalid type: "));
        if let Some((_, wanted)) = unknown.and_then(|rest| rest.rsplit_once(", expected ")) {
            // The names of the known keys are in backticks.
            let known: Vec<&str> = wanted.split('`').skip(1).step_by(2).collect();
            return match known.is_empty() {
                true => self.wrong(span, spot.mistyped(wanted)),
                false => self.wrong(spot.key.span(), spot.unknown(&known)),
            };
        }
        if let Some(key) = message.strip_prefix("missing field ") {
            return self.wrong(span, format!("[{}] has no {key}", spot.name()));
        }
        self.wrong(span, message.replace("{key}", spot.key.get_ref()).replace("{section}", &spot.section))
    }

    fn wrong(&self, span: Range<usize>, message: String) -> Wrong {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let source = self.text[line_start..].lines().next().unwrap_or("");
        let column = before[line_start..].chars().count() + 1;
        let here = &source[(start - line_start).min(source.len())..];
        let width = here.char_indices().take_while(|(at, _)| start + at < span.end).count();
        Wrong {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column,
            // The line may contain an address with a password, and it is shown.
            source: Redactor::new(std::iter::empty::<(&str, &str)>()).text(source).into_owned(),
            width,
            message,
        }
    }
}

/// The place of an error: a key, its value (or an entry of the list that is its value), and its section.
struct Spot<'v, 't> {
    /// The full name, such as `agents.coder`; empty for the top.
    section: String,
    key: &'v Spanned<DeString<'t>>,
    value: &'v DeValue<'t>,
    in_list: bool,
}

impl<'v, 't> Spot<'v, 't> {
    /// Finds the key or the value with this span.
    fn find(table: &'v DeTable<'t>, section: &str, span: &Range<usize>) -> Option<Self> {
        table.iter().find_map(|(key, value)| {
            let spot = |value: &'v Spanned<DeValue<'t>>, in_list| {
                Some(Spot { section: section.to_owned(), key, value: value.get_ref(), in_list })
            };
            let below = under(section, key.get_ref());
            let inner = match value.get_ref() {
                DeValue::Table(table) => Spot::find(table, &below, span),
                DeValue::Array(list) => list.iter().find_map(|entry| match entry.get_ref() {
                    DeValue::Table(table) if entry.span() != *span => Spot::find(table, &below, span),
                    _ if entry.span() == *span => spot(entry, true),
                    _ => None,
                }),
                _ => None,
            };
            inner.or_else(|| spot(value, false).filter(|_| key.span() == *span || value.span() == *span))
        })
    }

    /// Finds a key of a section, and the span of its value.
    fn of(table: &'v DeTable<'t>, section: &str, key: &str) -> Option<(Self, Range<usize>)> {
        let (key, value) = table.get_key_value(key)?;
        Some((
            Spot { section: section.to_owned(), key, value: value.get_ref(), in_list: false },
            value.span(),
        ))
    }

    /// Finds a key of the section, or an entry of the list, that is this value.
    fn below(&self, key: &str) -> Option<(Self, Range<usize>)> {
        match self.value {
            DeValue::Array(list) => {
                let entry = list.get(key.parse::<usize>().ok()?)?;
                let (section, value) = (self.section.clone(), entry.get_ref());
                Some((Spot { section, key: self.key, value, in_list: true }, entry.span()))
            }
            value => Spot::of(value.as_table()?, &self.name(), key),
        }
    }

    /// The full name of the section that is this value.
    fn name(&self) -> String {
        under(&self.section, self.key.get_ref())
    }

    fn unknown(&self, known: &[&str]) -> String {
        let key = self.key.get_ref();
        let place = if self.section.is_empty() { String::new() } else { format!(" in [{}]", self.section) };
        format!("unknown key `{key}`{place}{}", meant(key, known))
    }

    fn mistyped(&self, wanted: &str) -> String {
        let key = self.key.get_ref();
        let wanted = match (wanted, self.in_list) {
            ("a sequence", _) if LISTS_OF_SECTIONS.contains(&key.as_ref()) => {
                return format!("`{key}` is a list of sections: write [[{}]]", self.name());
            }
            ("a string", false) => "a text in quotes",
            ("a string", true) => "a list of texts",
            ("i128", false) => "a whole number",
            ("i128", true) => "a list of whole numbers",
            ("a boolean", _) => "true or false",
            ("f64", _) => "a sum in dollars",
            ("a sequence", _) => "a list",
            ("a map", _) => "a section",
            (other, _) => other,
        };
        format!("`{key}` must be {wanted}, but this is a {}", self.value.type_str())
    }
}

fn under(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}
