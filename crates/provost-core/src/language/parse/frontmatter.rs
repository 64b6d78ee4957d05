//! Reads the YAML between the first two `---` lines.
//!
//! It is cut out by hand at the first byte, because Markdown parsers accept such blocks anywhere. A YAML
//! parser that knows the span of every scalar reads it.
//!
//! **Invariant:** `plan.status.span` is exactly the status word, so that provost replaces nothing else.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::language::diagnostic::say;
use crate::language::parse::{Sink, values};
use crate::model::plan::{Plan, STATUSES, Span, Spanned};

type Yaml<T> = serde_saphyr::Spanned<T>;

/// Reads the frontmatter into `plan` and returns the byte where the body begins.
pub(super) fn read(text: &str, plan: &mut Plan, sink: &mut Sink) -> usize {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let Some(yaml) = opening(text, start) else {
        sink.push(say::no_frontmatter(start));
        return start;
    };
    let Some((yaml_end, body)) = closing(text, yaml) else {
        sink.push(say::frontmatter_open(Span::new(start, yaml)));
        return yaml;
    };
    fields(text, Span::new(yaml, yaml_end), plan, sink);
    second(text, body, sink)
}

/// Returns the byte after a `---` line that starts at `at`.
fn opening(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let (line, _) = rest.split_once('\n')?;
    (line.trim_end() == "---").then_some(at + line.len() + 1)
}

/// Returns the end of the YAML and the start of the text after the closing line.
fn closing(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    for line in text.get(from..)?.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((at, at + line.len()));
        }
        // A heading cannot be part of the frontmatter: the closing line is missing.
        if line.starts_with("## ") {
            return None;
        }
        at += line.len();
    }
    None
}

/// Reports a second frontmatter right after the first: it would be visible but not read.
fn second(text: &str, body: usize, sink: &mut Sink) -> usize {
    let rest = &text[body..];
    let start = body + (rest.len() - rest.trim_start().len());
    let Some(yaml) = opening(text, start) else { return body };
    let is_key = |line: &str| {
        line.split_once(':').is_some_and(|(key, _)| {
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        })
    };
    let first_line = text[yaml..].lines().next().unwrap_or("");
    match closing(text, yaml) {
        Some((_, after)) if is_key(first_line) => {
            sink.push(say::frontmatter_doubled(Span::new(start, after)));
            after
        }
        _ => body,
    }
}

fn fields(text: &str, yaml: Span, plan: &mut Plan, sink: &mut Sink) {
    let raw = yaml.of(text);
    if raw.trim().is_empty() {
        sink.push(say::no_status(Span::at(yaml.start)));
        return;
    }
    let front: Front = match serde_saphyr::from_str(raw) {
        Ok(front) => front,
        Err(error) => {
            sink.push(say::frontmatter_invalid(error_span(text, yaml, &error), &one_line(&error)));
            return;
        }
    };
    let place = Place { text, base: yaml.start, end: yaml.end };
    for key in &front.unknown {
        sink.push(say::frontmatter_unknown(place.scalar(key), &key.value));
    }
    match &front.kind {
        Some(kind) if kind.value != "plan" => sink.push(say::not_a_plan(place.scalar(kind), &kind.value)),
        Some(_) | None => {}
    }
    match &front.status {
        Some(status) => {
            let span = place.scalar(status);
            if span.of(text) != status.value || !STATUSES.contains(&status.value.as_str()) {
                sink.push(say::bad_status(span, &status.value));
            }
            plan.status = Some(Spanned::new(status.value.clone(), span));
        }
        None => sink.push(say::no_status(Span::at(yaml.start))),
    }
    let spanned = |value: &Yaml<String>| Spanned::new(value.value.clone(), place.scalar(value));
    plan.owner = front.owner.as_ref().map(spanned);
    plan.depends_on = front.depends_on.iter().flatten().map(spanned).collect();
    plan.require_red = front.require_red.as_ref().and_then(|value| {
        let span = place.scalar(value);
        match values::switch(&value.value) {
            Some(red) => Some(Spanned::new(red, span)),
            None => {
                sink.push(say::bad_require_red(span, &value.value));
                None
            }
        }
    });
    plan.touches = front.touches.as_ref().map(|globs| globs.iter().map(spanned).collect());
}

struct Place<'t> {
    text: &'t str,
    base: usize,
    end: usize,
}

impl Place<'_> {
    /// Returns the bytes of a scalar, without quotes.
    fn scalar<T>(&self, value: &Yaml<T>) -> Span {
        let span = value.referenced.span();
        let start = self.base + span.byte_offset().unwrap_or(0) as usize;
        let end = (start + span.byte_len().unwrap_or(0) as usize).min(self.end);
        let raw = self.text.get(start..end).unwrap_or("");
        let trimmed = raw.trim_end();
        let end = start + trimmed.len();
        let quoted =
            |quote: char| trimmed.len() >= 2 && trimmed.starts_with(quote) && trimmed.ends_with(quote);
        if quoted('"') || quoted('\'') { Span::new(start + 1, end - 1) } else { Span::new(start, end) }
    }
}

/// Returns the line of the YAML error, if the parser reports one.
fn error_span(text: &str, yaml: Span, error: &serde_saphyr::Error) -> Span {
    let Some(location) = error.location() else { return yaml };
    let mut at = yaml.start;
    for (number, line) in (1u64..).zip(yaml.of(text).split_inclusive('\n')) {
        if number == location.line() {
            return Span::new(at, at + line.trim_end().len());
        }
        at += line.len();
    }
    yaml
}

fn one_line(error: &serde_saphyr::Error) -> String {
    let words = error.without_snippet().to_string();
    let first = words.lines().next().unwrap_or("it cannot be read").trim();
    // Drop the parser's line number: it counts from the frontmatter, and the span gives the position.
    let first = first.split(" at line ").next().unwrap_or(first);
    first.chars().take(200).collect()
}

/// The keys of a plan, and the names of unknown ones.
#[derive(Default)]
struct Front {
    kind: Option<Yaml<String>>,
    status: Option<Yaml<String>>,
    owner: Option<Yaml<String>>,
    depends_on: Option<Vec<Yaml<String>>>,
    touches: Option<Vec<Yaml<String>>>,
    require_red: Option<Yaml<String>>,
    unknown: Vec<Yaml<String>>,
}

impl<'de> Deserialize<'de> for Front {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FrontVisitor)
    }
}

struct FrontVisitor;

impl<'de> Visitor<'de> for FrontVisitor {
    type Value = Front;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys and values such as `status: draft`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Front, A::Error> {
        let mut front = Front::default();
        while let Some(key) = map.next_key::<Yaml<String>>()? {
            match key.value.as_str() {
                "type" => front.kind = map.next_value()?,
                "status" => front.status = map.next_value()?,
                "owner" => front.owner = map.next_value()?,
                "depends_on" => front.depends_on = map.next_value()?,
                "touches" => front.touches = map.next_value()?,
                "require_red" => front.require_red = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    front.unknown.push(key);
                }
            }
        }
        Ok(front)
    }
}
