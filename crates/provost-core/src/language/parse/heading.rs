//! Reads the heading of a step: `### 2. ✅ Title (depends on Task 1)`.
//!
//! The number and the mark are read from the written bytes, the title from the visible text.
//!
//! **Invariant:** only a heading of exactly this form is a step.

use pulldown_cmark::CowStr;

use crate::model::plan::{Mark, MarkPlace, Span, Spanned, StepNumber};

pub(super) enum Heading {
    Step(Box<StepHeading>),
    /// `3–N.`, `N+1.`, `2-4.`: one heading for several steps.
    Range {
        number: Span,
    },
    /// Another heading, with the number it seems to have and the fix for its beginning.
    Other {
        number: Option<u32>,
        fix: Option<(Span, String)>,
    },
}

pub(super) struct StepHeading {
    pub number: StepNumber,
    pub title: String,
    pub span: Span,
    pub mark: MarkPlace,
    pub needs: Option<Vec<Spanned<StepNumber>>>,
    /// A "(depends on …)" note that could not be read.
    pub unread_needs: Option<Span>,
}

/// Joins the visible text of all pieces of a heading.
pub(super) fn shown(pieces: &[(Span, CowStr<'_>)]) -> String {
    pieces.iter().map(|(_, piece)| piece.as_ref()).collect::<String>().trim().to_string()
}

pub(super) fn read(text: &str, pieces: &[(Span, CowStr<'_>)], end: usize) -> Heading {
    let Some(start) = pieces.first().map(|(span, _)| span.start) else {
        return Heading::Other { number: None, fix: None };
    };
    let end = pieces.last().map_or(end, |(span, _)| span.end).max(start);
    let raw = &text[start..end];
    let digits = raw.bytes().take_while(u8::is_ascii_digit).count();
    let number = raw[..digits].parse::<u32>().ok().filter(|n| *n > 0 && digits < 10 && !raw.starts_with('0'));
    let after = raw[digits..].strip_prefix('.');
    match (number, after) {
        (Some(number), Some(after)) if after.starts_with([' ', '\t']) && !after.trim().is_empty() => {
            step(text, pieces, StepNumber(number), Span::new(start, end), start + digits + 1)
        }
        _ => unread(raw, start),
    }
}

fn step(text: &str, pieces: &[(Span, CowStr<'_>)], number: StepNumber, span: Span, after: usize) -> Heading {
    let skip = |from: usize| {
        let rest = &text[from..span.end];
        from + (rest.len() - rest.trim_start_matches([' ', '\t']).len())
    };
    let place = skip(after);
    let mark = mark_at(&text[place..span.end], place);
    let title_start = skip(mark.span.end);
    let (title_end, needs, unread_needs) = depends_on(text, title_start, span.end);
    let title = title(text, pieces, title_start, title_end);
    // A title of number signs alone would close the heading once a mark is written before it.
    if title.trim_matches('#').trim().is_empty() {
        return Heading::Other { number: Some(number.0), fix: None };
    }
    let heading = StepHeading { number, title, span, mark, needs, unread_needs };
    Heading::Step(Box::new(heading))
}

/// Finds a mark: a known symbol, an optional emoji selector, and one space.
fn mark_at(rest: &str, at: usize) -> MarkPlace {
    for mark in Mark::ALL {
        let Some(after) = rest.strip_prefix(mark.symbol()) else { continue };
        let after = after.strip_prefix('\u{fe0f}').unwrap_or(after);
        if let Some(after) = after.strip_prefix(' ').filter(|after| !after.trim().is_empty()) {
            return MarkPlace { mark: Some(mark), span: Span::new(at, at + rest.len() - after.len()) };
        }
    }
    MarkPlace { mark: None, span: Span::at(at) }
}

/// Returns the visible text from `start` to `end`.
fn title(text: &str, pieces: &[(Span, CowStr<'_>)], start: usize, end: usize) -> String {
    let mut title = String::new();
    for (span, piece) in pieces {
        if span.end <= start || span.start >= end {
            continue;
        }
        if span.start >= start && span.end <= end {
            title.push_str(piece);
        } else {
            // Only plain text can extend over the number, the mark or the note.
            title.push_str(text.get(span.start.max(start)..span.end.min(end)).unwrap_or(""));
        }
    }
    title.trim().to_string()
}

/// Reads `(depends on Task 1, Task 2)` at the end of a title: returns the end of the title, and the steps.
#[allow(clippy::type_complexity)]
fn depends_on(
    text: &str,
    start: usize,
    end: usize,
) -> (usize, Option<Vec<Spanned<StepNumber>>>, Option<Span>) {
    const OPENING: &str = "(depends on";
    let raw = &text[start..end];
    if !raw.contains('(') {
        return (end, None, None);
    }
    let lower = raw.to_ascii_lowercase();
    let Some(at) = lower.rfind(OPENING) else { return (end, None, None) };
    let note = Span::new(start + at, end);
    let Some(inner) = raw[at + OPENING.len()..].trim_end().strip_suffix(')') else {
        return (end, None, Some(note));
    };
    match numbers(inner, start + at + OPENING.len()) {
        Some(needs) if !needs.is_empty() => (start + at, Some(needs), None),
        Some(_) | None => (end, None, Some(note)),
    }
}

/// Reads `1, Task 2 and step 3`, each with its span; `base` is the offset of `list`.
pub(super) fn numbers(list: &str, base: usize) -> Option<Vec<Spanned<StepNumber>>> {
    let mut found = Vec::new();
    let mut at = 0;
    for word in list.split([' ', '\t', ',', '&', '#']) {
        let digits = word.trim_end_matches('.');
        match digits.to_ascii_lowercase().as_str() {
            "" | "and" | "task" | "tasks" | "step" | "steps" => {}
            _ => {
                let number: u32 = digits.parse().ok()?;
                found.push(Spanned::new(StepNumber(number), Span::new(base + at, base + at + digits.len())));
            }
        }
        at += word.len() + 1;
    }
    Some(found)
}

/// Explains why a heading is not a step, with a fix.
fn unread(raw: &str, start: usize) -> Heading {
    if let Some(length) = range_length(raw) {
        return Heading::Range { number: Span::new(start, start + length) };
    }
    let lower = raw.to_ascii_lowercase();
    let word = ["step", "task"].iter().find(|word| lower.starts_with(*word)).map_or(0, |word| word.len());
    let rest = raw[word..].trim_start_matches([' ', '\t', '#']);
    let digits_at = raw.len() - rest.len();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..digits].parse::<u32>().ok().filter(|n| *n > 0 && digits < 10);
    let after = &rest[digits..];
    let title = after.trim_start_matches([' ', '\t', '.', ':', ')', '-', '–', '—', '\\']);
    let prefix = digits_at + digits + (after.len() - title.len());
    let separated = after.len() > title.len();
    let fix = number
        .filter(|_| separated && !title.trim().is_empty())
        .map(|number| (Span::new(start, start + prefix), format!("{number}. ")));
    Heading::Other { number: number.filter(|_| separated), fix }
}

/// Returns the length of a symbolic number before the dot: `3–N`, `N+1`, `2-4`, `N`.
fn range_length(raw: &str) -> Option<usize> {
    let end = raw
        .char_indices()
        .take(16)
        .find(|(at, c)| *c == '.' && !raw[at + 1..].starts_with('.') && !raw[..*at].ends_with('.'))?
        .0;
    let label = raw[..end].trim();
    let mut symbolic = false;
    let mut letters = 0;
    for c in label.chars() {
        match c {
            '0'..='9' | ' ' => letters = 0,
            '-' | '–' | '—' | '+' | '…' | '.' | '~' | '*' => {
                symbolic = true;
                letters = 0;
            }
            c if c.is_ascii_alphabetic() => {
                letters += 1;
                symbolic |= label.len() == 1;
                if letters > 1 {
                    return None;
                }
            }
            _ => return None,
        }
    }
    (symbolic && !label.is_empty() && label.chars().any(|c| c.is_ascii_alphanumeric())).then_some(end)
}
