//! Tells which part of a plan a place in its text is, also in a plan that a person is still writing.
//!
//! The parser reads whole plans. While a field or a fence is incomplete it reads something else, so this
//! module goes through the lines itself. Nothing here decides about a plan.

use provost_core::model::plan::Span;

/// The line at a place, and what it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place<'t> {
    pub kind: LineKind<'t>,
    /// The line without its end.
    pub line: Span,
    pub part: Part,
}

/// The part of the plan that a line is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Frontmatter,
    Preamble,
    /// Between `## Steps` and the first step.
    Steps,
    Step,
    Postconditions,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineKind<'t> {
    /// `key: value` of the frontmatter, or a part of it.
    Key {
        name: &'t str,
        name_span: Span,
        value: Option<Span>,
    },
    /// `- value` of the frontmatter.
    KeyItem {
        key: &'t str,
        value: Span,
    },
    /// `**name:** value`.
    Field {
        name: &'t str,
        name_span: Span,
        value: Span,
    },
    /// `- value` below a field.
    Item {
        field: &'t str,
        value: Span,
    },
    /// A line between fences, and the field it belongs to.
    Command {
        field: Option<&'t str>,
    },
    /// A line after the fence of a check.
    AfterCheck,
    Heading,
    /// Anything else, with the last field before it.
    Text {
        field: Option<&'t str>,
    },
}

/// The lines before the one that is looked for.
struct Reader<'t> {
    text: &'t str,
    part: Part,
    field: Option<&'t str>,
    key: &'t str,
    fence: Option<&'t str>,
    is_after_check: bool,
}

pub(super) fn find(text: &str, offset: usize) -> Place<'_> {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut reader =
        Reader { text, part: Part::Preamble, field: None, key: "", fence: None, is_after_check: false };
    let mut at = start;
    loop {
        let rest = &text[at..];
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let line = Span::new(at, at + rest[..length].trim_end_matches(['\r', '\n']).len());
        let is_last = at + length >= text.len() && !rest[..length].ends_with('\n');
        let kind = reader.read(line, at == start);
        if offset < at + length || is_last {
            return Place { kind, line, part: reader.part };
        }
        at += length;
    }
}

impl<'t> Reader<'t> {
    fn read(&mut self, line: Span, is_first: bool) -> LineKind<'t> {
        let text = line.of(self.text);
        let content = text.trim();
        let none = LineKind::Text { field: None };
        if is_first && content == "---" {
            self.part = Part::Frontmatter;
            return none;
        }
        if self.part == Part::Frontmatter {
            if content == "---" {
                self.part = Part::Preamble;
                return none;
            }
            return self.key(line);
        }
        if let Some(fence) = self.fence {
            if content.starts_with(fence) && content.trim_start_matches(&fence[..1]).is_empty() {
                self.fence = None;
                self.is_after_check = true;
                return LineKind::Text { field: self.field };
            }
            return LineKind::Command { field: self.field };
        }
        if content.starts_with("```") || content.starts_with("~~~") {
            let sign = &content[..1];
            let length = content.len() - content.trim_start_matches(sign).len();
            self.fence = Some(&content[..length]);
            return LineKind::Text { field: self.field };
        }
        if let Some(kind) = self.heading(text) {
            return kind;
        }
        if let Some((name, name_span, value)) = field(self.text, line) {
            (self.field, self.is_after_check) = (Some(name), false);
            return LineKind::Field { name, name_span, value };
        }
        let bare = text.trim_start();
        let item = bare.strip_prefix("- ").or_else(|| bare.strip_prefix("* "));
        if let (Some(item), Some(field)) = (item, self.field) {
            return LineKind::Item { field, value: Span::new(line.end - item.len(), line.end) };
        }
        let is_checked = self.is_after_check && matches!(self.part, Part::Step | Part::Postconditions);
        if is_checked { LineKind::AfterCheck } else { LineKind::Text { field: self.field } }
    }

    fn key(&mut self, line: Span) -> LineKind<'t> {
        let text = line.of(self.text);
        if let Some(item) = text.trim_start().strip_prefix("- ") {
            return LineKind::KeyItem { key: self.key, value: Span::new(line.end - item.len(), line.end) };
        }
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(Span::new(line.end - value.len(), line.end))),
            None => (text, None),
        };
        let name_span = Span::new(line.start, line.start + name.len());
        self.key = name.trim();
        LineKind::Key { name: name.trim(), name_span, value }
    }

    fn heading(&mut self, text: &'t str) -> Option<LineKind<'t>> {
        let level = text.bytes().take_while(|byte| *byte == b'#').count();
        let title = text[level..].strip_prefix([' ', '\t'])?.trim();
        if !(1..=6).contains(&level) {
            return None;
        }
        let is_numbered = title.starts_with(|letter: char| letter.is_ascii_digit());
        self.part = match (level, title) {
            (1, _) => Part::Preamble,
            (2, "Steps") => Part::Steps,
            (2, "Postconditions") => Part::Postconditions,
            (_, _) if is_numbered && matches!(self.part, Part::Steps | Part::Step) => Part::Step,
            (2, _) => Part::Other,
            (_, _) => self.part,
        };
        (self.field, self.is_after_check) = (None, false);
        Some(LineKind::Heading)
    }
}

/// Reads `**name:** value` or `**name**: value` at the start of a line.
fn field(text: &str, line: Span) -> Option<(&str, Span, Span)> {
    let rest = line.of(text).strip_prefix("**")?;
    let end = rest.find("**")?;
    let (inner, after) = (&rest[..end], &rest[end + 2..]);
    let (name, value) = match (inner.strip_suffix(':'), after.strip_prefix(':')) {
        (Some(name), _) => (name, after),
        (None, Some(value)) => (inner, value),
        (None, None) => return None,
    };
    let start = line.start + 2;
    Some((name, Span::new(start, start + name.len()), Span::new(line.end - value.len(), line.end)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const TEXT: &str = "---\r\nstatus: draft\r\ntouches:\r\n- src/**\r\nty\r\n---\r\n# Pläne 😀\r\n**Budget:** $1\r\n\r\n## Steps\r\n\
        ### 1. One\r\n**target:** coder\r\n**subscriptions:**\r\n- file:a\r\n**task:**\r\nDo it.\r\n**on\r\n**contract:**\r\n\
        ~~~sh\r\n# no heading\r\n```\r\n~~~\r\nexit_code == 0\r\n\r\n## Postconditions\r\n1. It works\r\n   ```\r\n   true\r\n   ```\r\n   std";

    #[test]
    fn every_line_of_a_plan_has_its_kind() {
        let mut shown = String::new();
        let mut at = 0;
        for line in TEXT.split_inclusive('\n') {
            let found = find(TEXT, at + line.trim_end().len());
            assert_eq!(found.line.of(TEXT), line.trim_end_matches(['\r', '\n']));
            let kind = match found.kind {
                LineKind::Key { name, value, .. } => {
                    format!("key {name} = {:?}", value.map(|span| span.of(TEXT)))
                }
                LineKind::KeyItem { key, value } => format!("item of {key} = {}", value.of(TEXT)),
                LineKind::Field { name, name_span, value } => {
                    assert_eq!(name_span.of(TEXT), name);
                    format!("field {name} = {}", value.of(TEXT))
                }
                LineKind::Item { field, value } => format!("item of {field} = {}", value.of(TEXT)),
                other => format!("{other:?}"),
            };
            shown.push_str(&format!("{:?}: {kind}\n", found.part));
            at += line.len();
        }
        expect![[r##"
            Frontmatter: Text { field: None }
            Frontmatter: key status = Some(" draft")
            Frontmatter: key touches = Some("")
            Frontmatter: item of touches = src/**
            Frontmatter: key ty = None
            Preamble: Text { field: None }
            Preamble: Heading
            Preamble: field Budget =  $1
            Preamble: Text { field: Some("Budget") }
            Steps: Heading
            Step: Heading
            Step: field target =  coder
            Step: field subscriptions = 
            Step: item of subscriptions = file:a
            Step: field task = 
            Step: Text { field: Some("task") }
            Step: Text { field: Some("task") }
            Step: field contract = 
            Step: Text { field: Some("contract") }
            Step: Command { field: Some("contract") }
            Step: Command { field: Some("contract") }
            Step: Text { field: Some("contract") }
            Step: AfterCheck
            Step: AfterCheck
            Postconditions: Heading
            Postconditions: Text { field: None }
            Postconditions: Text { field: None }
            Postconditions: Command { field: None }
            Postconditions: Text { field: None }
            Postconditions: AfterCheck
        "##]]
        .assert_eq(&shown);
    }

    #[test]
    fn the_ends_of_odd_texts_have_a_place() {
        for text in ["", "\n", "---", "---\n", "\u{feff}---\nstatus: draft", "**", "#", "# ", "```", "😀"] {
            for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
                find(text, at);
            }
        }
        assert_eq!(find("---\nst", 6).part, Part::Frontmatter);
        assert_eq!(find("a\n", 2).line, Span::at(2));
    }
}
