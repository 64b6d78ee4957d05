//! Adds tables to the end of a TOML text, and removes them again by what they mean.

use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::jsonc::Splice;
use super::{Care, OWN_KEY, Trouble, lines};

/// Appends tables; refuses if the text already sets the same key differently.
pub(crate) fn tables(text: &str, tables: &str, keys: &[String]) -> Result<Option<Splice>, Trouble> {
    let now = parsed(text)?;
    if holds(&now, &parsed(tables)?) {
        return Ok(None);
    }
    if at(&now, keys).is_some() {
        return Err(Trouble::new(format!("`{}` is there already, and says something else", keys.join("."))));
    }
    let splice = lines::at_the_end(text, tables);
    if let Some(splice) = &splice {
        parsed(&splice.apply(text)).map_err(|_| {
            let words = format!("its tables cannot be added to; add by hand:\n{tables}");
            Trouble::new(words)
        })?;
    }
    Ok(splice)
}

pub(crate) fn parsed(text: &str) -> Result<Table, Trouble> {
    text.parse::<Table>().map_err(|error| Trouble::new(format!("it is not TOML: {}", error.message())))
}

/// Returns the value below these keys.
pub(crate) fn at(table: &Table, keys: &[String]) -> Option<Value> {
    keys.iter().skip(1).try_fold(table.get(keys.first()?)?.clone(), |at, key| at.get(key).cloned())
}

/// Returns whether `now` contains everything of `wanted`; lists may have more.
fn holds(now: &Table, wanted: &Table) -> bool {
    wanted.iter().all(|(key, wanted)| match (now.get(key), wanted) {
        (Some(Value::Table(now)), Value::Table(wanted)) => holds(now, wanted),
        (Some(Value::Array(now)), Value::Array(wanted)) => wanted.iter().all(|each| now.contains(each)),
        (Some(now), wanted) => now == wanted,
        (None, _) => false,
    })
}

/// A key, or the number of an entry of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Key(String),
    Index(usize),
}

/// Returns the text without these tables; `ours` identifies entries of lists that are provost's. `None` if
/// they were changed and `care` forbids it, or if they cannot be removed.
pub(crate) fn without(text: &str, tables: &str, keys: &[String], ours: &str, care: Care) -> Option<String> {
    let (mut now, wanted) = (parsed(text).ok()?, parsed(tables).ok()?);
    let mut search = Search { keys, ours, care, path: Vec::new(), gone: Vec::new() };
    search.compare(&now, &wanted)?;
    let gone = search.gone;
    let mut statements = Vec::new();
    collect(&DeTable::parse(text).ok()?.into_inner(), text, &mut Vec::new(), &mut statements);
    let left = cut(text, tables, &statements, &gone, &wanted);
    for path in gone.iter().rev() {
        remove(&mut now, path);
    }
    let mut after = parsed(&left).ok()?;
    prune(&mut now);
    prune(&mut after);
    (now == after).then_some(left)
}

/// Finds what is provost's in a table.
struct Search<'a> {
    keys: &'a [String],
    ours: &'a str,
    care: Care,
    path: Vec<Part>,
    /// Paths to remove, entries of a list in their order.
    gone: Vec<Vec<Part>>,
}

impl Search<'_> {
    fn compare(&mut self, now: &Table, wanted: &Table) -> Option<()> {
        for (key, wanted) in wanted {
            let Some(now) = now.get(key) else { continue };
            self.path.push(Part::Key(key.clone()));
            match (now, wanted) {
                (Value::Table(now), Value::Table(wanted)) if !self.is_own() => self.compare(now, wanted)?,
                (Value::Array(now), Value::Array(wanted)) if wanted.iter().all(Value::is_table) => {
                    self.entries(now, wanted)?;
                }
                (now, wanted) if now == wanted || self.is_own() && self.care == Care::Any => {
                    self.gone.push(self.path.clone());
                }
                _ if self.care == Care::Any => {}
                _ => return None,
            }
            self.path.pop();
        }
        Some(())
    }

    /// Returns whether this is provost's own table, whatever it holds.
    fn is_own(&self) -> bool {
        let here = self.path.iter().map(|part| match part {
            Part::Key(key) => key.as_str(),
            Part::Index(_) => "",
        });
        self.keys.last().is_some_and(|key| key == OWN_KEY) && here.eq(self.keys.iter().map(String::as_str))
    }

    fn entries(&mut self, now: &[Value], wanted: &[Value]) -> Option<()> {
        for (index, entry) in now.iter().enumerate() {
            let is_same = wanted.contains(entry);
            if !is_same && !self.is_ours(entry) {
                continue;
            }
            if !is_same && self.care == Care::Unchanged {
                return None;
            }
            self.path.push(Part::Index(index));
            let shared = entry.as_table().and_then(|entry| self.shared(entry)).filter(|_| !is_same);
            match shared {
                Some((key, indices)) => {
                    let inner =
                        |index| [&self.path[..], &[Part::Key(key.clone()), Part::Index(index)]].concat();
                    let inner: Vec<Vec<Part>> = indices.into_iter().map(inner).collect();
                    self.gone.extend(inner);
                }
                None => self.gone.push(self.path.clone()),
            }
            self.path.pop();
        }
        Some(())
    }

    fn is_ours(&self, entry: &Value) -> bool {
        !self.ours.is_empty() && entry.to_string().contains(self.ours)
    }

    /// Finds a list in which both provost and the user have items. Returns its key and the indexes of provost's
    /// items.
    fn shared(&self, entry: &Table) -> Option<(String, Vec<usize>)> {
        entry.iter().find_map(|(key, value)| {
            let list = value.as_array()?;
            let own: Vec<usize> = (0..list.len()).filter(|index| self.is_ours(&list[*index])).collect();
            (!own.is_empty() && own.len() < list.len()).then(|| (key.clone(), own))
        })
    }
}

/// A table header, or a key with its value, and its position in the text.
struct Statement {
    path: Vec<Part>,
    start: usize,
    end: usize,
    is_header: bool,
}

fn collect(table: &DeTable<'_>, text: &str, path: &mut Vec<Part>, found: &mut Vec<Statement>) {
    let begins = |value: &Spanned<DeValue<'_>>| text[value.span().start..].chars().next();
    for (key, value) in table {
        path.push(Part::Key(key.get_ref().to_string()));
        let whole = Statement {
            path: path.clone(),
            start: key.span().start,
            end: value.span().end,
            is_header: false,
        };
        match value.get_ref() {
            DeValue::Table(_) if begins(value) == Some('{') => found.push(whole),
            DeValue::Table(inner) => {
                if begins(value) == Some('[') {
                    found.push(Statement { start: value.span().start, is_header: true, ..whole });
                }
                collect(inner, text, path, found);
            }
            DeValue::Array(list)
                if list.iter().any(|entry| entry.get_ref().is_table() && begins(entry) == Some('[')) =>
            {
                for (index, entry) in list.iter().enumerate() {
                    path.push(Part::Index(index));
                    let (start, end) = (entry.span().start, entry.span().end);
                    found.push(Statement { path: path.clone(), start, end, is_header: true });
                    if let Some(inner) = entry.get_ref().as_table() {
                        collect(inner, text, path, found);
                    }
                    path.pop();
                }
            }
            _ => found.push(whole),
        }
        path.pop();
    }
}

/// Removes the lines of the statements that are gone, their comments, and headers that nothing is left of.
fn cut(text: &str, tables: &str, statements: &[Statement], gone: &[Vec<Part>], wanted: &Table) -> String {
    let is_gone = |path: &[Part]| gone.iter().any(|gone| path.starts_with(gone));
    let is_emptied = |header: &Statement| {
        let keys: Option<Vec<String>> = header
            .path
            .iter()
            .map(|part| match part {
                Part::Key(key) => Some(key.clone()),
                Part::Index(_) => None,
            })
            .collect();
        let mut inner = statements
            .iter()
            .filter(|other| other.path.len() > header.path.len() && other.path.starts_with(&header.path))
            .peekable();
        let is_ours = keys.is_some_and(|keys| at(wanted, &keys).is_some());
        is_ours && inner.peek().is_some() && inner.all(|other| is_gone(&other.path))
    };
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let line_of = |position: usize| text[..position].matches('\n').count();
    let mut lines = BTreeSet::new();
    for statement in statements {
        if is_gone(&statement.path) || statement.is_header && is_emptied(statement) {
            lines.extend(line_of(statement.start)..=line_of(statement.end));
        }
    }
    let is_our_comment = |line: &str| {
        let line = line.trim();
        line.starts_with('#') && tables.lines().any(|ours| ours.trim() == line)
    };
    for line in (1..all.len()).rev() {
        if lines.contains(&line) && is_our_comment(all[line - 1]) {
            lines.insert(line - 1);
        }
    }
    lines::without(&all, lines)
}

fn remove(table: &mut Table, path: &[Part]) {
    let Some((Part::Key(key), rest)) = path.split_first() else { return };
    let Some((next, after)) = rest.split_first() else {
        table.remove(key);
        return;
    };
    match (table.get_mut(key), next) {
        (Some(Value::Table(inner)), Part::Key(_)) => remove(inner, rest),
        (Some(Value::Array(list)), Part::Index(index)) if after.is_empty() => {
            list.remove(*index);
        }
        (Some(Value::Array(list)), Part::Index(index)) => {
            if let Some(Value::Table(inner)) = list.get_mut(*index) {
                remove(inner, after);
            }
        }
        _ => {}
    }
}

/// Removes tables and lists without content, so that two texts can be compared.
fn prune(table: &mut Table) {
    for (_, value) in table.iter_mut() {
        match value {
            Value::Table(inner) => prune(inner),
            Value::Array(list) => list.iter_mut().filter_map(Value::as_table_mut).for_each(prune),
            _ => {}
        }
    }
    table.retain(|_, value| {
        !value.as_table().is_some_and(Table::is_empty) && !value.as_array().is_some_and(Vec::is_empty)
    });
}
