//! One thing that a file must contain: how it gets in, and how it is removed again.
//!
//! If a file has not changed since, the install manifest removes the inserted bytes. If it has, this module
//! removes what they meant: a key, an entry of a list, a table, a line.
//!
//! **Invariant:** a removal leaves a file that its client can read, or is not done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jsonc::Splice;
use super::{Care, OWN_KEY, Trouble, jsonc, lines, shell_hook, toml_text, yaml_text};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Edit {
    /// A JSON object has this member.
    Member { path: Vec<String>, value: Value },
    /// A JSON object has this member, without which its client cannot read the rest.
    Header { key: String, value: Value },
    /// A JSON list has this element; `ours` identifies provost's own element.
    Element { path: Vec<String>, value: Value, ours: String },
    /// Tables at the end of a TOML file; `ours` identifies provost's own entries of lists.
    Tables { text: String, keys: Vec<String>, ours: String },
    /// A mapping at the top of a YAML file has this entry, with these lines below its key.
    YamlEntry { parent: String, key: String, lines: String },
    /// Lines at the end of a text, unless its first line is there.
    Paragraph(String),
    /// Lines of a text that each stand for themselves.
    Rules(String),
    /// The first command of a shell script; `ours` identifies a call of any provost.
    Call { lines: String, ours: String },
    /// The whole file, if it does not exist. Once it is written it is the person's.
    Template(String),
    /// The whole file. It is provost's own.
    Generated(String),
    /// The file cannot be set up, for this reason.
    Refused(String),
}

/// An edit that was made in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InsertedEdit {
    pub edit: Edit,
    /// Number of keys of its path that were there before.
    pub existing: usize,
}

impl Edit {
    pub(super) fn member(path: &[&str], value: Value) -> Self {
        Edit::Member { path: owned(path), value }
    }

    pub(super) fn element(path: &[&str], value: Value, ours: &str) -> Self {
        Edit::Element { path: owned(path), value, ours: ours.to_owned() }
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self, Edit::Member { .. } | Edit::Header { .. } | Edit::Element { .. })
    }

    /// Returns what the text lacks; `is_new` if there is no file.
    pub(super) fn insertion(&self, text: &str, is_new: bool) -> Result<Option<Splice>, Trouble> {
        match self {
            Edit::Member { path, value } => jsonc::member(text, &words(path), value),
            Edit::Header { key, value } => match jsonc::existing(text, &[key]) {
                0 => jsonc::member(text, &[key], value),
                _ => Ok(None),
            },
            Edit::Element { path, value, ours } => {
                jsonc::element(text, &words(path), value, |element| has_words(element, ours))
            }
            Edit::Tables { text: tables, keys, .. } => toml_text::tables(text, tables, keys),
            Edit::YamlEntry { parent, key, lines } => yaml_text::entry(text, parent, key, lines),
            Edit::Paragraph(paragraph) => Ok(lines::at_the_end(text, paragraph)),
            Edit::Rules(rules) => Ok(lines::rules(text, rules)),
            Edit::Call { lines, ours } => shell_hook::call(text, lines, ours),
            Edit::Template(whole) if is_new => Ok(Some(Splice { at: text.len(), text: whole.clone() })),
            Edit::Template(_) => Ok(None),
            Edit::Generated(whole) if text == whole => Ok(None),
            Edit::Generated(whole) => Ok(Some(Splice { at: text.len(), text: whole.clone() })),
            Edit::Refused(why) => Err(Trouble::new(why.clone())),
        }
    }

    /// Returns the edit as it is made by an insertion into a text.
    pub(super) fn made_by(&self, insertion: &Splice, text: &str) -> InsertedEdit {
        let existing = match self {
            Edit::Member { path, .. } | Edit::Element { path, .. } => jsonc::existing(text, &words(path)),
            Edit::YamlEntry { parent, .. } => usize::from(!insertion.text.contains(&format!("{parent}:"))),
            _ => 0,
        };
        let edit = match self {
            // Rules that were there before are not provost's.
            Edit::Rules(_) => Edit::Rules(insertion.text.clone()),
            edit => edit.clone(),
        };
        InsertedEdit { edit, existing }
    }

    /// Returns the program that this edit names in a text.
    pub(super) fn program(&self, text: &str) -> Option<String> {
        match self {
            Edit::Member { path, .. } if path.last().is_some_and(|key| key == OWN_KEY) => {
                let whole = jsonc::value(text).ok()?;
                let server = path.iter().try_fold(&whole, |at, key| at.get(key))?;
                let command = server.get("command")?;
                command.get(0).unwrap_or(command).as_str().map(str::to_owned)
            }
            Edit::Tables { keys, .. } if keys.last().is_some_and(|key| key == OWN_KEY) => {
                let server = toml_text::at(&toml_text::parsed(text).ok()?, keys)?;
                server.get("command")?.as_str().map(str::to_owned)
            }
            Edit::YamlEntry { parent, key, .. } => {
                let lines = yaml_text::lines_of(text, parent, key)?;
                let command = lines.iter().find_map(|line| line.strip_prefix("cmd:"))?.trim();
                let quoted = serde_json::from_str::<String>(command).ok();
                Some(quoted.unwrap_or_else(|| command.trim_matches('\'').to_owned()))
            }
            Edit::Call { ours, .. } => shell_hook::program(text, ours),
            _ => None,
        }
    }
}

impl InsertedEdit {
    /// Returns the text without the edit. A key that is called like provost is its own, whatever it holds;
    /// another key is removed only if it has the value that was written.
    fn removed(&self, text: &str, care: Care) -> Option<String> {
        let stays = || Some(text.to_owned());
        match &self.edit {
            Edit::Member { path, value } => {
                let whole = jsonc::value(text).ok()?;
                let found = path.iter().try_fold(&whole, |at, key| at.get(key));
                let is_own = path.last().is_some_and(|key| key == OWN_KEY);
                match found {
                    Some(found) if found != value && care == Care::Unchanged => None,
                    Some(found) if found != value && !is_own => stays(),
                    _ => jsonc::removal::member(text, &words(path), self.existing),
                }
            }
            Edit::Header { key, .. } => match jsonc::value(text).ok()?.as_object()?.len() {
                1 => jsonc::removal::member(text, &[key], 0),
                _ => stays(),
            },
            Edit::Element { path, value, ours } => {
                let is_ours =
                    |element: &Value| element == value || !value.is_string() && has_words(element, ours);
                let whole = jsonc::value(text).ok()?;
                let list = path.iter().try_fold(&whole, |at, key| at.get(key)).and_then(Value::as_array);
                let is_changed = |list: &Vec<Value>| list.iter().any(|each| is_ours(each) && each != value);
                if care == Care::Unchanged && list.is_some_and(is_changed) {
                    return None;
                }
                jsonc::removal::elements(text, &words(path), self.existing, is_ours)
            }
            Edit::Tables { text: tables, keys, ours } => toml_text::without(text, tables, keys, ours, care),
            Edit::YamlEntry { parent, key, lines } => {
                let is_kept = care == Care::Unchanged && !yaml_text::is_unchanged(text, parent, key, lines);
                if is_kept { None } else { yaml_text::without(text, parent, key, self.existing == 0) }
            }
            Edit::Paragraph(paragraph) => lines::without_paragraph(text, paragraph),
            Edit::Rules(rules) => Some(lines::without_rules(text, rules)),
            Edit::Call { lines, .. } => Some(lines::without_rules(text, lines)),
            Edit::Template(_) | Edit::Refused(_) => stays(),
            Edit::Generated(_) => Some(String::new()),
        }
    }
}

/// Returns the text without all these edits; `None` if one of them cannot be removed.
pub(super) fn removed(edits: &[InsertedEdit], text: &str, care: Care) -> Option<String> {
    let is_header = |made: &&InsertedEdit| matches!(made.edit, Edit::Header { .. });
    let (headers, others): (Vec<_>, Vec<_>) = edits.iter().rev().partition(is_header);
    others.into_iter().chain(headers).try_fold(text.to_owned(), |text, made| made.removed(&text, care))
}

/// Returns whether two texts mean the same to the client that reads the first.
pub(super) fn mean_the_same(edits: &[InsertedEdit], one: &str, other: &str) -> bool {
    let has = |is: fn(&Edit) -> bool| edits.iter().any(|made| is(&made.edit));
    if has(Edit::is_json) {
        let is_as_strict = jsonc::is_strict(one) || !jsonc::is_strict(other);
        return is_as_strict
            && jsonc::value(one).is_ok_and(|one| jsonc::value(other).is_ok_and(|other| one == other));
    }
    if has(|edit| matches!(edit, Edit::Tables { .. })) {
        return toml_text::parsed(one)
            .is_ok_and(|one| toml_text::parsed(other).is_ok_and(|other| one == other));
    }
    true
}

/// Returns whether nothing is left in a file.
pub(super) fn is_nothing(edits: &[InsertedEdit], text: &str) -> bool {
    let bare: String = text.chars().filter(|each| !each.is_whitespace() && *each != '\u{feff}').collect();
    let is_script = edits.iter().any(|made| matches!(made.edit, Edit::Call { .. }));
    bare.is_empty() || bare == "{}" || is_script && shell_hook::is_empty(text)
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}

fn words(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

fn has_words(value: &Value, words: &str) -> bool {
    match value {
        Value::String(text) => text.contains(words),
        Value::Array(list) => list.iter().any(|each| has_words(each, words)),
        Value::Object(members) => members.values().any(|each| has_words(each, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
