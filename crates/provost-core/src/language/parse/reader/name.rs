//! Reads bold text at the start of a line: a field name, a misspelt one, or one in a form that Markdown does
//! not read.

use super::super::blocks::Strong;
use super::super::field::Field;
use crate::model::plan::Span;
use crate::model::suggest;

/// The field that bold text at the start of a line names.
pub(super) enum Name {
    Field(FieldMatch),
    Near { span: Span, name: String, known: &'static str },
    Form { span: Span, field: Field, fix: Option<(Span, String)> },
}

pub(super) struct FieldMatch {
    pub field: Field,
    pub name: Span,
    pub value: Span,
}

/// Bold text with its colon: `**name:**` or `**name**:`.
pub(super) struct Bold<'s> {
    pub span: Span,
    pub name: Span,
    pub shown: &'s str,
    /// Start of the value.
    pub value: usize,
}

pub(super) fn bold_name<'s>(text: &'s str, strong: &'s Strong, line: Span) -> Option<Bold<'s>> {
    let inner = strong.inner.of(text);
    let after = text.get(strong.span.end..line.end.max(strong.span.end)).unwrap_or("");
    let shown = strong.disguise.as_deref().unwrap_or(inner);
    let (name, value) = match (shown.trim_end().strip_suffix(':'), after.strip_prefix(':')) {
        (Some(name), _) => (name, strong.span.end),
        (None, Some(_)) => (shown, strong.span.end + 1),
        (None, None) => return None,
    };
    let rest = &text[value..line.end.max(value)];
    let value = value + (rest.len() - rest.trim_start().len());
    let name_span =
        Span::new(strong.inner.start, strong.inner.start + inner.trim_end_matches([':', ' ']).len());
    Some(Bold { span: strong.span, name: name_span, shown: name, value })
}

pub(super) fn name(text: &str, strong: &Strong, line: Span) -> Option<Name> {
    let inner = strong.inner.of(text);
    let whole_line = strong.span.end >= line.end;
    let Some(bold) = bold_name(text, strong, line) else {
        // `**target: coder**`, or `**contract**` alone on its line.
        let (word, rest) = inner.split_once(':').unwrap_or((inner, ""));
        let field = Field::named(word.trim())?;
        if rest.is_empty() && !whole_line {
            return None;
        }
        let fixed = match rest.trim() {
            "" => format!("**{}:**", field.name()),
            value => format!("**{}:** {value}", field.name()),
        };
        return Some(Name::Form { span: strong.span, field, fix: Some((strong.span, fixed)) });
    };
    let shown = bold.shown.trim();
    match Field::named(shown) {
        Some(field) if strong.disguise.is_some() => {
            let fixed = format!("**{}:**", field.name());
            let end = bold.span.end + usize::from(text[bold.span.end..].starts_with(':'));
            Some(Name::Form { span: bold.span, field, fix: Some((Span::new(bold.span.start, end), fixed)) })
        }
        Some(field) => {
            let value = Span::new(bold.value.min(line.end), line.end);
            Some(Name::Field(FieldMatch { field, name: bold.span, value }))
        }
        None => {
            let normal = shown.replace([' ', '-'], "_");
            let known = suggest::suggestion(&normal, Field::ALL.iter().map(|field| field.name()))?;
            Some(Name::Near { span: bold.name, name: shown.to_string(), known })
        }
    }
}

/// Finds `** target:** coder`: stars that Markdown does not read as bold.
pub(super) fn spaced_name(text: &str, line: Span) -> Option<Name> {
    let rest = line.of(text).strip_prefix("**")?;
    let (inner, _) = rest.split_once("**")?;
    let word = inner.trim().strip_suffix(':').unwrap_or(inner.trim());
    let field = Field::named(word.trim())?;
    let span = Span::new(line.start, line.start + inner.len() + 4);
    Some(Name::Form { span, field, fix: Some((span, format!("**{}:**", field.name()))) })
}
