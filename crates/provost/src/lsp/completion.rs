//! Completion: fields, keys, their values, named checks and expectations.

use provost_core::language::parse;
use provost_core::model::plan::{FRONTMATTER_KEYS, STATUSES, Span};
use serde_json::{Value, json};

use super::documents::Document;
use super::names::Names;
use super::place::{self, LineKind, Part, Place};
use super::reference;

/// Kinds of an item, which clients show as a symbol.
#[derive(Clone, Copy)]
enum Symbol {
    Field = 5,
    Value = 12,
    Snippet = 15,
    File = 17,
    Reference = 18,
    Folder = 19,
}

/// One proposal: it replaces `span` by `text`.
struct Proposal {
    label: String,
    text: String,
    span: Span,
    symbol: Symbol,
    about: Option<String>,
}

impl Proposal {
    fn new(symbol: Symbol, span: Span, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { label: text.trim().to_owned(), text, span, symbol, about: None }
    }

    fn labelled(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    fn about(self, about: Option<String>) -> Self {
        Self { about, ..self }
    }

    fn shown(self, document: &Document, number: usize) -> Value {
        // Named by their label, filtered by what they replace.
        let filter = if matches!(self.symbol, Symbol::Snippet) { &self.label } else { &self.text };
        let mut item = json!({
            "label": self.label,
            "kind": self.symbol as u8,
            "sortText": format!("{number:04}"),
            "filterText": filter,
            "textEdit": document.edit(self.span, &self.text),
        });
        if let Some(about) = self.about {
            item["documentation"] = json!({ "kind": "markdown", "value": about });
        }
        item
    }
}

/// Returns the proposals at an offset. `names` is asked for only if a name may follow.
pub(super) fn find(document: &Document, offset: usize, names: impl Fn() -> Names) -> Vec<Value> {
    let place = place::find(&document.text, offset);
    let proposals = proposals(document, offset, &place, names);
    proposals.into_iter().zip(0..).map(|(each, number)| each.shown(document, number)).collect()
}

fn proposals(
    document: &Document,
    offset: usize,
    place: &Place<'_>,
    names: impl Fn() -> Names,
) -> Vec<Proposal> {
    let text = &document.text;
    let before = text.get(place.line.start..offset).unwrap_or_default();
    let values = |field: &str, value: Span| {
        let own = document.step_at(offset).map(|step| step.number.0);
        ValuePlace { text, offset, value, own }.of_field(field, document, names())
    };
    match &place.kind {
        LineKind::Key { value: Some(value), name, .. } if offset >= value.start => {
            ValuePlace { text, offset, value: *value, own: None }.of_key(name, names())
        }
        LineKind::Key { name_span, .. } => keys(text, *name_span),
        LineKind::KeyItem { key, value } => {
            ValuePlace { text, offset, value: *value, own: None }.of_key(key, names())
        }
        LineKind::Field { name, value, .. } if offset >= value.start => values(name, *value),
        LineKind::Field { value, .. } => {
            fields(document, offset, place, Span::new(place.line.start, value.start))
        }
        LineKind::Item { field, value } if offset >= value.start => values(field, *value),
        LineKind::Command { field: Some(field) } if is_check(field) => checks(before, offset, names()),
        LineKind::AfterCheck => {
            let start = offset - before.trim_start().len();
            let forms = reference::expectations().iter();
            let mut all: Vec<Proposal> = forms
                .map(|form| {
                    let form = form.replace('…', "");
                    Proposal::new(Symbol::Value, Span::new(start, place.line.end), &form)
                        .about(reference::expectation(&form))
                })
                .collect();
            all.extend(fields(document, offset, place, rest_of_name(text, place.line, offset)));
            all
        }
        LineKind::Heading if place.part == Part::Step && before.contains("(depends on") => values(
            "needs",
            Span::new(place.line.start + before.find("(depends on").unwrap_or(0) + 11, place.line.end),
        ),
        LineKind::Text { field } if before.is_empty() || before.starts_with('*') => {
            let mut all = Vec::new();
            if field.is_some_and(is_check) && before.is_empty() {
                let fence = "```shell\n\n```";
                all.push(Proposal::new(Symbol::Snippet, Span::at(offset), fence).labelled("```shell"));
            }
            all.extend(fields(document, offset, place, rest_of_name(text, place.line, offset)));
            all
        }
        _ => Vec::new(),
    }
}

fn is_check(field: &str) -> bool {
    ["contract", "precondition"].iter().any(|check| field.eq_ignore_ascii_case(check))
}

/// Returns the beginning of a line that a field name replaces: all of it up to the cursor, and signs after it
/// that the editor may have added.
fn rest_of_name(text: &str, line: Span, offset: usize) -> Span {
    let after = text.get(offset..line.end).unwrap_or_default();
    let added = after.len() - after.trim_start_matches(['*', ':']).len();
    Span::new(line.start, offset + added)
}

fn keys(text: &str, span: Span) -> Vec<Proposal> {
    let front = text.split("\n---").next().unwrap_or_default();
    let has = |key: &&&str| front.lines().any(|line| line.starts_with(&format!("{key}:")));
    let open = FRONTMATTER_KEYS.iter().filter(|key| !has(key));
    let proposal = |key: &&str| {
        let about = reference::key(key);
        let after = if text[span.end..].starts_with(':') { "" } else { ": " };
        Proposal::new(Symbol::Field, span, format!("{key}{after}")).labelled(*key).about(about)
    };
    open.map(proposal).collect()
}

/// Returns the fields that are not written yet.
fn fields(document: &Document, offset: usize, place: &Place<'_>, span: Span) -> Vec<Proposal> {
    let text = &document.text;
    let line = place.line;
    let is_line_of_its_own = text.get(span.start..offset).is_some_and(|typed| {
        typed.chars().all(|letter| letter.is_alphanumeric() || "*_-: ".contains(letter))
    });
    if !is_line_of_its_own {
        return Vec::new();
    }
    let proposal = |name: &str, about: Option<String>| {
        let gap = if text[span.end..].starts_with(' ') { "" } else { " " };
        Proposal::new(Symbol::Field, span, format!("**{name}:**{gap}")).labelled(name).about(about)
    };
    match place.part {
        Part::Preamble => {
            reference::PREAMBLE.iter().map(|name| proposal(name, reference::preamble(name))).collect()
        }
        Part::Step => {
            let section = document.step_at(offset).map_or("", |step| step.section.of(text));
            let other = section.lines().filter(|written| *written != line.of(text));
            let written: Vec<String> = other
                .filter_map(|line| {
                    Some(line.strip_prefix("**")?.split_once("**")?.0.trim_end_matches(':').to_lowercase())
                })
                .collect();
            let open = parse::fields().filter(|(name, _)| !written.iter().any(|written| written == name));
            open.map(|(name, _)| proposal(name, reference::field(name))).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the named checks, such as `check:unit`.
fn checks(before: &str, offset: usize, names: Names) -> Vec<Proposal> {
    let start = offset - before.trim_start().len();
    let proposal = |(name, command): (String, String)| {
        let about = format!("`[checks.{name}]` of provost.toml:\n\n    {}", command.replace('\n', "\n    "));
        let inserted = format!("check:{name}");
        Proposal::new(Symbol::Snippet, Span::new(start, offset), inserted).labelled(name).about(Some(about))
    };
    names.checks.into_iter().map(proposal).collect()
}

/// The value of a field or key, and the place in it.
struct ValuePlace<'t> {
    text: &'t str,
    offset: usize,
    value: Span,
    /// Number of the step that it belongs to.
    own: Option<u32>,
}

impl ValuePlace<'_> {
    /// Returns the whole value, without the space before it.
    fn whole(&self) -> Span {
        let value = self.value.of(self.text);
        let start = self.value.start + value.len() - value.trim_start().len();
        Span::new(start.min(self.offset), self.value.end)
    }

    /// Returns the part of a list that the cursor is in.
    fn part(&self) -> Span {
        const SEPARATORS: [char; 6] = [',', ' ', '[', ']', '"', '\''];
        let before = self.text.get(self.value.start..self.offset).unwrap_or_default();
        let after = self.text.get(self.offset..self.value.end).unwrap_or_default();
        let start = before.rfind(SEPARATORS).map_or(0, |at| at + 1);
        let end = after.find(SEPARATORS).unwrap_or(after.len());
        Span::new(self.value.start + start, self.offset + end)
    }

    fn all(&self, span: Span, symbol: Symbol, texts: impl IntoIterator<Item = String>) -> Vec<Proposal> {
        // Right after the name of a field the value needs a space.
        let is_stuck =
            self.text[..span.start].ends_with([':', '*']) && !self.text[..span.start].ends_with("- ");
        let space = if is_stuck && span.start == self.value.start { " " } else { "" };
        texts.into_iter().map(|text| Proposal::new(symbol, span, format!("{space}{text}"))).collect()
    }

    fn of_key(&self, key: &str, names: Names) -> Vec<Proposal> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match key {
            "type" => self.all(self.whole(), Symbol::Value, words(&["plan"])),
            "status" => self.all(self.whole(), Symbol::Value, words(&STATUSES)),
            "require_red" => self.all(self.whole(), Symbol::Value, words(&["true", "false"])),
            "depends_on" => self.all(self.part(), Symbol::Reference, names.plans),
            "touches" => self.globs(&names),
            _ => Vec::new(),
        }
    }

    fn of_field(&self, field: &str, document: &Document, names: Names) -> Vec<Proposal> {
        let name = field.to_lowercase().replace([' ', '-'], "_");
        match name.as_str() {
            "target" => self.all(self.whole(), Symbol::Reference, names.roles),
            "plan" => self.all(self.whole(), Symbol::Reference, names.plans),
            "needs" => {
                let earlier = |number: &u32| self.own.is_none_or(|own| *number < own);
                let steps = &document.plan().steps;
                let steps = steps.iter().filter(|step| earlier(&step.number.0));
                let mut all: Vec<Proposal> = steps
                    .flat_map(|step| {
                        let number = self.all(self.part(), Symbol::Reference, [step.number.to_string()]);
                        number.into_iter().map(|each| each.about(Some(step.title.clone())))
                    })
                    .collect();
                all.extend(self.all(self.whole(), Symbol::Value, ["none".to_owned()]));
                all
            }
            "subscriptions" => self.subscriptions(&names),
            "publishes" => self.all(self.part(), Symbol::Reference, names.topics),
            "touches" | "protect" => self.globs(&names),
            "secrets" => self.all(self.part(), Symbol::Reference, names.secrets),
            "contract" => self.all(self.whole(), Symbol::Value, ["human".to_owned(), "judge".to_owned()]),
            // The sentence about the form of a value quotes the words that may be written.
            _ => {
                let form = parse::fields().find(|(known, _)| *known == name).map_or("", |(_, form)| form);
                let words = form.split('`').skip(1).step_by(2).map(str::to_owned);
                let about = (!form.is_empty()).then(|| form.to_owned());
                let all = self.all(self.whole(), Symbol::Value, words);
                all.into_iter().map(|each| each.about(about.clone())).collect()
            }
        }
    }

    fn subscriptions(&self, names: &Names) -> Vec<Proposal> {
        let part = self.part();
        let typed = self.text.get(part.start..self.offset).unwrap_or_default();
        match typed.split_once(':') {
            Some(("file", path)) => {
                let paths = names.paths(path).into_iter().map(|path| format!("file:{path}"));
                self.all(part, Symbol::File, paths)
            }
            Some(("topic", _)) => {
                let topics = names.topics.iter().map(|topic| format!("topic:{topic}"));
                self.all(part, Symbol::Reference, topics)
            }
            _ => self.all(part, Symbol::Value, ["file:".to_owned(), "topic:".to_owned()]),
        }
    }

    /// Returns paths, and for a folder also the glob of everything in it.
    fn globs(&self, names: &Names) -> Vec<Proposal> {
        let part = self.part();
        let typed = self.text.get(part.start..self.offset).unwrap_or_default();
        let paths = names.paths(typed);
        let of_folder = |path: &String| [format!("{path}**"), path.clone()];
        let (folders, files): (Vec<String>, Vec<String>) =
            paths.into_iter().partition(|path| path.ends_with('/'));
        let mut all = self.all(part, Symbol::Folder, folders.iter().flat_map(of_folder));
        all.extend(self.all(part, Symbol::File, files));
        all
    }
}

#[cfg(test)]
mod tests;
