//! Cuts a run of new lines at its functions.
//!
//! A cut is made at a line that begins a function, a class or the like, and at a line after a blank one that
//! is indented as the function before it. The first method stays with the head of its class. Brackets that
//! close something outside of a piece belong to no piece.

use std::ops::Range;

use super::{ChangedRun, Source};
use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan::CodeTokenKind;

/// Words before the one that says what is defined.
const MODIFIERS: [&str; 20] = [
    "pub",
    "async",
    "export",
    "default",
    "unsafe",
    "const",
    "extern",
    "(",
    ")",
    "crate",
    "super",
    "static",
    "public",
    "private",
    "protected",
    "readonly",
    "abstract",
    "override",
    "get",
    "set",
];

/// What begins at a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    Function,
    /// A class, an `impl` or the like, which holds functions.
    Container,
    Nothing,
}

/// The definitions of the piece that is being read.
#[derive(Default)]
struct Open {
    function: Option<usize>,
    container: Option<usize>,
    /// Indentation of its first line of code.
    first: Option<usize>,
}

pub(super) fn pieces(source: &Source<'_>, run: &ChangedRun) -> Vec<ChangedRun> {
    let mut starts = vec![run.new.start];
    let mut open = Open::default();
    for at in run.new.clone() {
        let line = source.line(at);
        if line.trim().is_empty() || is_inside_token(source, at) {
            continue;
        }
        let begins = begins(source, at);
        let indent = indentation(line);
        let start = with_notes(source, at, &run.new);
        let is_cut =
            open.first.is_some() && (is_sibling(begins, indent, &open) || is_next(source, at, indent, &open));
        if is_cut && starts.last() != Some(&start) {
            starts.push(start);
            open = Open::default();
        }
        if is_note(source, line) {
            continue;
        }
        open.first.get_or_insert(indent);
        match begins {
            Begins::Function => open.function = open.function.or(Some(indent)),
            Begins::Container => open.container = open.container.or(Some(indent)),
            Begins::Nothing => {}
        }
    }
    let ends = starts.iter().skip(1).copied().chain([run.new.end]);
    let ranges: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
    let is_alone = ranges.len() == 1;
    let mut pieces = Vec::new();
    for (place, new) in ranges.into_iter().enumerate() {
        // The first piece takes the place of the old lines; the others are new.
        let old = if place == 0 { run.old.clone() } else { run.old.end..run.old.end };
        let new = if is_alone { new } else { without_closing(source, new) };
        pieces.push(ChangedRun { old, new });
    }
    pieces
}

/// Returns whether a definition stands beside what the piece already has.
fn is_sibling(begins: Begins, indent: usize, open: &Open) -> bool {
    match (begins, open.function, open.container) {
        (Begins::Nothing, ..) => false,
        (_, Some(function), _) => indent <= function,
        (_, None, Some(container)) => indent <= container,
        (_, None, None) => open.first.is_some_and(|first| indent <= first),
    }
}

/// Returns whether a line after a blank one stands beside the function that the piece has.
fn is_next(source: &Source<'_>, at: usize, indent: usize, open: &Open) -> bool {
    let after_blank = at > 0 && source.line(at - 1).trim().is_empty();
    let line = source.line(at).trim_start();
    let closes = line.starts_with(['}', ')', ']']);
    let beside = open.function.or(open.container).or(match source.language {
        None => open.first,
        Some(_) => None,
    });
    after_blank && !closes && beside.is_some_and(|beside| indent <= beside)
}

/// Returns the line with which a definition begins, with the comments and attributes directly above it.
fn with_notes(source: &Source<'_>, at: usize, run: &Range<usize>) -> usize {
    let above = (run.start..at).rev().take_while(|at| is_note(source, source.line(*at))).count();
    at - above
}

/// Recognises a comment, an attribute or a decorator.
fn is_note(source: &Source<'_>, line: &str) -> bool {
    let line = line.trim_start();
    match source.language {
        Some(SourceLanguage::Python) => line.starts_with(['#', '@']),
        Some(SourceLanguage::Rust) => line.starts_with("//") || line.starts_with("#["),
        Some(SourceLanguage::JavaScript) => {
            line.starts_with("//") || line.starts_with("/*") || line.starts_with('*') || line.starts_with('@')
        }
        Some(SourceLanguage::Go) => line.starts_with("//"),
        None => false,
    }
}

/// Returns whether the line begins inside of a string or comment of several lines.
fn is_inside_token(source: &Source<'_>, at: usize) -> bool {
    let spans = |kind| matches!(kind, CodeTokenKind::Text | CodeTokenKind::Comment);
    let mut tokens = source.tokens.iter().filter(|token| spans(token.kind));
    tokens.any(|token| token.line < at && at <= token.last_line(source.text))
}

fn begins(source: &Source<'_>, at: usize) -> Begins {
    let Some(language) = source.language else { return Begins::Nothing };
    let words = source.words_of_line(at);
    let first = words.iter().copied().find(|word| !MODIFIERS.contains(word)).unwrap_or_default();
    match (language, first) {
        (SourceLanguage::Python, "def") | (SourceLanguage::Rust, "fn") | (SourceLanguage::Go, "func") => {
            Begins::Function
        }
        (SourceLanguage::JavaScript, "function") => Begins::Function,
        (SourceLanguage::Python | SourceLanguage::JavaScript, "class") => Begins::Container,
        (SourceLanguage::Rust, "impl" | "trait" | "mod" | "struct" | "enum" | "macro_rules") => {
            Begins::Container
        }
        (SourceLanguage::Go, "type") => Begins::Container,
        (SourceLanguage::JavaScript, "interface") => Begins::Container,
        (SourceLanguage::JavaScript, _) if is_method_or_arrow(&words) => Begins::Function,
        _ => Begins::Nothing,
    }
}

/// Recognises `name(…) {` and `const name = (…) => …` of JavaScript.
fn is_method_or_arrow(words: &[&str]) -> bool {
    let declares = |word: &&str| matches!(*word, "const" | "let" | "var");
    let is_arrow = words.iter().any(declares) && words.contains(&"=>");
    let own: Vec<&str> = words.iter().copied().skip_while(|word| MODIFIERS.contains(word)).collect();
    let statements = ["if", "for", "while", "switch", "catch", "return", "else", "}", "do", "try", "with"];
    let is_method = own.get(1) == Some(&"(")
        && own.last() == Some(&"{")
        && !own.contains(&"=>")
        && own.first().is_some_and(|first| !statements.contains(first));
    is_arrow || is_method
}

/// Returns the piece without lines of brackets that close something outside of it.
fn without_closing(source: &Source<'_>, piece: Range<usize>) -> Range<usize> {
    let is_blank = |at: &usize| source.line(*at).trim().is_empty();
    let Some(first) = piece.clone().find(|at| !is_blank(at)) else { return piece };
    let indent = indentation(source.line(first));
    let closes = |at: &usize| {
        let line = source.line(*at);
        let only_brackets = line.trim().chars().all(|c| matches!(c, '}' | ')' | ']' | ';' | ','));
        only_brackets && (line.trim().is_empty() || indentation(line) < indent)
    };
    let outside = piece.clone().rev().take_while(closes);
    // Blank lines at the end stay, unless a bracket follows them.
    match outside.filter(|at| !is_blank(at)).last() {
        Some(bracket) if bracket > first => piece.start..bracket,
        _ => piece,
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
