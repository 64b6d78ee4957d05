//! Parses sections of a TOML text key by key and reports the position of errors.
//!
//! The parser is written by hand instead of derived, so that an error can show the line, the position and
//! the key that was meant.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::suggest;
use provost_core::redact::Redactor;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::process::size;

/// Most entries of a list; below, most bytes of a text.
const LIST_MAX: usize = 1000;
const STRING_MAX: usize = 4096;

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

pub(super) struct Text<'t> {
    pub(super) path: &'t Path,
    pub(super) text: &'t str,
}

impl<'t> Text<'t> {
    pub(super) fn table(&self) -> Result<Spanned<DeTable<'t>>, Wrong> {
        DeTable::parse(self.text).map_err(|error| {
            self.wrong(error.span().unwrap_or(0..0), error.message().trim().replace('\n', ", "))
        })
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

/// A table of the text, with functions that read its keys.
pub(super) struct Section<'s, 't> {
    text: &'s Text<'t>,
    /// The full name, such as `agents.coder`; empty for the top.
    name: String,
    table: &'s DeTable<'t>,
    span: Range<usize>,
}

impl<'s, 't> Section<'s, 't> {
    pub(super) fn new(
        text: &'s Text<'t>,
        name: &str,
        table: &'s Spanned<DeTable<'t>>,
        keys: &[&str],
    ) -> Result<Self, Wrong> {
        let section = Self { text, name: name.to_owned(), table: table.get_ref(), span: table.span() };
        section.only(keys)?;
        Ok(section)
    }

    /// Returns an error for a key that is not in `keys`.
    pub(super) fn only(&self, keys: &[&str]) -> Result<(), Wrong> {
        // The first one in the text, not in the alphabet.
        let unknown = self.table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let place = if self.name.is_empty() { String::new() } else { format!(" in [{}]", self.name) };
        let message = format!("unknown key `{}`{place}{}", key.get_ref(), meant(key.get_ref(), keys));
        Err(self.text.wrong(key.span(), message))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn value(&self, key: &str) -> Option<&'s Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    /// Returns an error that points at the value of `key`.
    pub(super) fn wrong(&self, key: &str, message: String) -> Wrong {
        self.text.wrong(self.value(key).map_or(self.span.clone(), Spanned::span), message)
    }

    /// Returns an error that points at the head of the section.
    pub(super) fn wrong_here(&self, message: String) -> Wrong {
        self.text.wrong(self.span.clone(), message)
    }

    pub(super) fn wrong_value(&self, key: &str, message: &str, known: &[&str]) -> Wrong {
        let given = self.value(key).and_then(|value| value.get_ref().as_str()).unwrap_or("");
        self.wrong(key, format!("{message}{}", meant(given, known)))
    }

    pub(super) fn missing(&self, key: &str) -> Wrong {
        self.wrong_here(format!("[{}] has no `{key}`", self.name))
    }

    fn mistyped(&self, key: &str, wanted: &str, found: &DeValue<'_>) -> Wrong {
        self.wrong(key, format!("`{key}` must be {wanted}, but this is a {}", found.type_str()))
    }

    fn under(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn below(
        &self,
        name: String,
        key: &str,
        value: &'s Spanned<DeValue<'t>>,
    ) -> Result<Section<'s, 't>, Wrong> {
        match value.get_ref().as_table() {
            Some(table) => Ok(Section { text: self.text, name, table, span: value.span() }),
            None => {
                let message =
                    format!("`{key}` must be a section, but this is a {}", value.get_ref().type_str());
                Err(self.text.wrong(value.span(), message))
            }
        }
    }

    pub(super) fn section(&self, key: &str, keys: &[&str]) -> Result<Option<Section<'s, 't>>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let section = self.below(self.under(key), key, value)?;
        section.only(keys)?;
        Ok(Some(section))
    }

    /// Reads `[[key]]`: sections in their order, each with these keys.
    pub(super) fn list(&self, key: &str, keys: &[&str]) -> Result<Vec<Section<'s, 't>>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let Some(list) = value.get_ref().as_array() else {
            let message = format!("`{key}` is a list of sections: write [[{}]]", self.under(key));
            return Err(self.wrong(key, message));
        };
        let section = |value| {
            let section = self.below(self.under(key), key, value)?;
            section.only(keys)?;
            Ok(section)
        };
        list.iter().take(LIST_MAX).map(section).collect()
    }

    /// Returns the section below `key`; the caller checks its keys.
    pub(super) fn open_section(&self, key: &str) -> Result<Option<Section<'s, 't>>, Wrong> {
        self.value(key).map(|value| self.below(self.under(key), key, value)).transpose()
    }

    /// Returns the sections in this one, which also has `keys` of its own.
    pub(super) fn tables(&self, keys: &[&str]) -> Result<Vec<(String, Section<'s, 't>)>, Wrong> {
        let is_table = |value: &Spanned<DeValue<'_>>| value.get_ref().as_table().is_some();
        let sections: Vec<_> = self.table.iter().filter(|(_, value)| is_table(value)).collect();
        let names =
            sections.iter().map(|(name, _)| name.get_ref().as_ref()).filter(|name| !keys.contains(name));
        self.only(&keys.iter().copied().chain(names).collect::<Vec<_>>())?;
        let mut all = Vec::new();
        for (name, value) in sections.into_iter().filter(|(name, _)| !keys.contains(&name.get_ref().as_ref()))
        {
            let name = name.get_ref().as_ref();
            all.push((name.to_owned(), self.below(self.under(name), name, value)?));
        }
        Ok(all)
    }

    /// Reads a table of texts: `{ NAME = "value" }`.
    pub(super) fn texts(&self, key: &str) -> Result<BTreeMap<String, String>, Wrong> {
        let Some(section) = self.open_section(key)? else { return Ok(BTreeMap::new()) };
        let names = section.table.keys().map(|name| name.get_ref().as_ref());
        names.map(|name| Ok((name.to_owned(), section.string(name)?.unwrap_or_default()))).collect()
    }

    /// Returns the sections below `key`, by the names that people gave them.
    pub(super) fn named(&self, key: &str) -> Result<impl Iterator<Item = (String, Section<'s, 't>)>, Wrong> {
        let mut all = Vec::new();
        if let Some(value) = self.value(key) {
            let parent = self.below(self.under(key), key, value)?;
            for (name, value) in parent.table {
                let name = name.get_ref().as_ref();
                if name.is_empty() || name.chars().any(|each| each.is_whitespace() || each.is_control()) {
                    return Err(self.text.wrong(
                        value.span(),
                        format!("{name:?} is not a valid name for a section of [{}]", parent.name),
                    ));
                }
                all.push((name.to_owned(), parent.below(parent.under(name), name, value)?));
            }
        }
        Ok(all.into_iter())
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<String>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let Some(text) = value.get_ref().as_str() else {
            return Err(self.mistyped(key, "a text in quotes", value.get_ref()));
        };
        if text.len() > STRING_MAX {
            return Err(self.wrong(key, format!("`{key}` is longer than {STRING_MAX} bytes")));
        }
        Ok(Some(text.to_owned()))
    }

    /// Reads one of a few words; the default if the key is missing.
    pub(super) fn word<T: Copy + Default>(
        &self,
        key: &str,
        all: &[T],
        spelled: fn(T) -> &'static str,
    ) -> Result<T, Wrong> {
        let Some(given) = self.string(key)? else { return Ok(T::default()) };
        all.iter().copied().find(|each| spelled(*each) == given).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|each| spelled(*each)).collect();
            self.wrong_value(key, &format!("`{key}` cannot be `{given}`"), &known)
        })
    }

    /// Reads `command`: a program and its arguments.
    pub(super) fn command(&self) -> Result<Vec<String>, Wrong> {
        let words = self.strings("command")?.ok_or_else(|| self.missing("command"))?;
        match words.first() {
            Some(program) if !program.is_empty() => Ok(words),
            _ => Err(self.wrong("command", "a command needs at least the name of a program".to_owned())),
        }
    }

    pub(super) fn required(&self, key: &str) -> Result<String, Wrong> {
        self.string(key)?.filter(|text| !text.is_empty()).ok_or_else(|| self.missing(key))
    }

    pub(super) fn strings(&self, key: &str) -> Result<Option<Vec<String>>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let Some(list) = value.get_ref().as_array() else {
            return Err(self.mistyped(key, "a list", value.get_ref()));
        };
        if list.len() > LIST_MAX {
            return Err(self.wrong(key, format!("`{key}` has more than {LIST_MAX} entries")));
        }
        let text = |entry: &Spanned<DeValue<'_>>| match entry.get_ref().as_str() {
            Some(text) if text.len() <= STRING_MAX => Ok(text.to_owned()),
            Some(_) => Err(self.text.wrong(entry.span(), format!("this is longer than {STRING_MAX} bytes"))),
            None => {
                let message =
                    format!("`{key}` must be a list of texts, but this is a {}", entry.get_ref().type_str());
                Err(self.text.wrong(entry.span(), message))
            }
        };
        list.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Reads a list of whole numbers.
    pub(super) fn integers(&self, key: &str, allowed: RangeInclusive<u64>) -> Result<Vec<u64>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let Some(list) = value.get_ref().as_array() else {
            return Err(self.mistyped(key, "a list", value.get_ref()));
        };
        let number = |entry: &Spanned<DeValue<'_>>| {
            let number = entry.get_ref().as_integer();
            let number = number.and_then(|text| u64::from_str_radix(text.as_str(), text.radix()).ok());
            number.filter(|number| allowed.contains(number)).ok_or_else(|| {
                let message = format!(
                    "`{key}` must be a list of numbers between {} and {}",
                    allowed.start(),
                    allowed.end()
                );
                self.text.wrong(entry.span(), message)
            })
        };
        list.iter().take(LIST_MAX).map(number).collect()
    }

    /// Reads a list of times such as `["5s", "30s"]`, none longer than `longest`.
    pub(super) fn durations(&self, key: &str, longest: Duration) -> Result<Option<Vec<Duration>>, Wrong> {
        let Some(texts) = self.strings(key)? else { return Ok(None) };
        let entries = self.value(key).and_then(|value| value.get_ref().as_array());
        let duration =
            |(text, entry): (&String, &Spanned<DeValue<'_>>)| match humantime::parse_duration(text.trim()) {
                Ok(duration) if duration <= longest => Ok(duration),
                Ok(_) => {
                    let longest = humantime::format_duration(longest);
                    Err(self.text.wrong(entry.span(), format!("the longest wait is {longest}")))
                }
                Err(error) => {
                    let message =
                        format!("`{key}` must be a list of times such as [\"5s\", \"30s\"]: {error}");
                    Err(self.text.wrong(entry.span(), message))
                }
            };
        texts.iter().zip(entries.into_iter().flatten()).map(duration).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the byte offset of the section in the text.
    pub(super) fn start(&self) -> usize {
        self.span.start
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref().as_bool() {
            Some(boolean) => Ok(Some(boolean)),
            None => Err(self.mistyped(key, "true or false", value.get_ref())),
        }
    }

    pub(super) fn integer(&self, key: &str, allowed: RangeInclusive<u64>) -> Result<Option<u64>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let Some(integer) = value.get_ref().as_integer() else {
            return Err(self.mistyped(key, "a whole number", value.get_ref()));
        };
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if allowed.contains(&number) => Ok(Some(number)),
            _ => {
                Err(self
                    .wrong(key, format!("`{key}` must be between {} and {}", allowed.start(), allowed.end())))
            }
        }
    }

    /// Reads dollars and returns micro-dollars.
    pub(super) fn micro_usd(&self, key: &str) -> Result<Option<u64>, Wrong> {
        const USD_MAX: f64 = 1e6;
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = match value.get_ref() {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            other => return Err(self.mistyped(key, "a sum in dollars", other)),
        };
        match text.parse::<f64>() {
            Ok(usd) if (0.0..=USD_MAX).contains(&usd) => Ok(Some((usd * 1e6).round() as u64)),
            _ => Err(self.wrong(key, format!("`{key}` must be between 0 and {USD_MAX} dollars"))),
        }
    }

    /// Reads a size such as `"20 GiB"` or `"512 MiB"`; at least `least`.
    pub(super) fn bytes(&self, key: &str, least: u64) -> Result<Option<u64>, Wrong> {
        const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
        let Some(text) = self.string(key)? else { return Ok(None) };
        let read = UNITS.iter().find_map(|(unit, shift)| {
            let count: u64 = text.trim().strip_suffix(unit)?.trim_end().parse().ok()?;
            count.checked_mul(1 << shift)
        });
        match read {
            Some(bytes) if bytes >= least => Ok(Some(bytes)),
            Some(_) => Err(self.wrong(key, format!("`{key}` must be at least {}", size(least)))),
            None => {
                let message =
                    format!("`{key}` must be a size such as \"20 GiB\" or \"512 MiB\", with a whole number");
                Err(self.wrong(key, message))
            }
        }
    }

    /// Reads a time such as `"10m"` or `"1h 30m"`; more than zero and at most `longest`.
    pub(super) fn duration(&self, key: &str, longest: Duration) -> Result<Option<Duration>, Wrong> {
        let Some(text) = self.string(key)? else { return Ok(None) };
        let duration = humantime::parse_duration(text.trim()).map_err(|error| {
            self.wrong(key, format!("`{key}` must be a time such as \"10m\" or \"60s\": {error}"))
        })?;
        if duration.is_zero() || duration > longest {
            let longest = humantime::format_duration(longest);
            return Err(self.wrong(key, format!("`{key}` must be more than zero and at most {longest}")));
        }
        Ok(Some(duration))
    }
}

/// Returns "; did you mean …?", or all choices if none is similar.
fn meant(given: &str, known: &[&str]) -> String {
    match suggest::suggestion(given, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; it is one of {}", known.join(", ")),
    }
}
