//! Sabotages: small changes of code that a good check notices, such as a negated condition.
//!
//! `provost proved` puts one sabotage at a time into changed lines and runs the contract. They are found in
//! the tokens of the code, never in strings or comments. Some do not compile; the run shows that.
//!
//! **Invariant:** the same text and lines give the same sabotages in the same order.

mod conditions;
mod returns;
mod statements;
mod values;
mod variants;

use std::ops::Range;

use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan::{self, CodeToken, CodeTokenKind};

pub use variants::rewritten;

/// Most sabotages of one hunk.
pub const SABOTAGES_MAX: usize = 3;

/// One small change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sabotage {
    /// The line that it changes, counted from 0.
    pub line: usize,
    /// What is changed, for people: "`==` became `!=`".
    pub what: String,
    edit: Range<usize>,
    with: String,
}

impl Sabotage {
    /// Returns the text of the file with the sabotage.
    pub fn applied(&self, text: &str) -> String {
        let (before, after) = (&text[..self.edit.start], &text[self.edit.end..]);
        [before, &self.with, after].concat()
    }
}

/// The kinds of sabotages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Return,
    Condition,
    Junction,
    Statement,
    Truth,
    Arithmetic,
    Number,
    Text,
}

impl Kind {
    /// Returns the kinds, the most telling first. A default value rarely fits the types of Rust and Go, so
    /// there a condition comes first.
    fn ranked(language: SourceLanguage) -> [Self; 8] {
        use Kind::{Arithmetic, Condition, Junction, Number, Return, Statement, Text, Truth};
        match language {
            SourceLanguage::Python | SourceLanguage::JavaScript => {
                [Return, Condition, Junction, Statement, Truth, Arithmetic, Number, Text]
            }
            SourceLanguage::Rust | SourceLanguage::Go => {
                [Condition, Return, Junction, Truth, Arithmetic, Statement, Number, Text]
            }
        }
    }
}

/// Source code with its tokens, and the lines that may be sabotaged.
struct Code<'t> {
    text: &'t str,
    language: SourceLanguage,
    /// Without comments.
    tokens: Vec<CodeToken>,
    lines: &'t Range<usize>,
}

/// Returns the most telling sabotages of these lines, at most [`SABOTAGES_MAX`]: first one of each kind.
pub fn of_lines(text: &str, language: SourceLanguage, lines: &Range<usize>) -> Vec<Sabotage> {
    let mut found = all(text, language, lines);
    let mut chosen = Vec::new();
    while chosen.len() < SABOTAGES_MAX && !found.is_empty() {
        let mut later = Vec::new();
        let mut taken: Vec<Kind> = Vec::new();
        for (kind, sabotage) in found {
            if taken.contains(&kind) {
                later.push((kind, sabotage));
            } else {
                taken.push(kind);
                chosen.push(sabotage);
            }
        }
        found = later;
    }
    chosen.truncate(SABOTAGES_MAX);
    chosen
}

/// Returns all sabotages, the most telling kind first, each kind in the order of the lines.
fn all(text: &str, language: SourceLanguage, lines: &Range<usize>) -> Vec<(Kind, Sabotage)> {
    let tokens = scan::tokens(text, language).into_iter().filter(|token| !token.is_comment()).collect();
    let code = Code { text, language, tokens, lines };
    let mut found: Vec<(Kind, Sabotage)> = Vec::new();
    conditions::find(&code, &mut found);
    returns::find(&code, &mut found);
    statements::find(&code, &mut found);
    values::find(&code, &mut found);
    let ranked = Kind::ranked(language);
    let rank = |kind: Kind| ranked.iter().position(|own| *own == kind).unwrap_or(ranked.len());
    found.sort_by_key(|(kind, sabotage)| (rank(*kind), sabotage.edit.start));
    found
}

impl Code<'_> {
    /// Returns the positions of the tokens that begin on one of the lines.
    fn inside(&self) -> impl Iterator<Item = usize> {
        (0..self.tokens.len()).filter(|at| self.lines.contains(&self.tokens[*at].line))
    }

    fn text_at(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text(self.text))
    }

    /// Returns the text of the token before, or nothing at the beginning of the file.
    fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |at| self.text_at(at))
    }

    fn is_first_of_line(&self, at: usize) -> bool {
        at.checked_sub(1).is_none_or(|before| self.tokens[before].last_line(self.text) < self.tokens[at].line)
    }

    /// Returns the position after the last token of the line that this token is on.
    fn line_end(&self, at: usize) -> usize {
        let line = self.tokens[at].line;
        let more = self.tokens[at..].iter().take_while(|token| token.line == line).count();
        at + more
    }

    /// Returns the position of the first token of the line that this token is on.
    fn line_start(&self, at: usize) -> usize {
        let line = self.tokens[at].line;
        at - self.tokens[..at].iter().rev().take_while(|token| token.line == line).count()
    }

    /// Returns whether a space or a line end is on both sides of the token, as around an operator.
    fn is_spaced(&self, at: usize) -> bool {
        let CodeToken { start, end, .. } = self.tokens[at];
        let before = self.text[..start].chars().next_back().is_some_and(char::is_whitespace);
        before && self.text[end..].chars().next().is_some_and(char::is_whitespace)
    }

    /// Returns whether the line of a token imports something.
    fn imports(&self, at: usize) -> bool {
        matches!(self.text_at(self.line_start(at)), "import" | "from" | "use" | "package" | "require")
    }

    /// Replaces the tokens from `first` to before `end`.
    fn replaced(&self, (first, end): (usize, usize), with: &str, what: String) -> Sabotage {
        let (from, to) = (self.tokens[first], self.tokens[end - 1]);
        Sabotage { line: from.line, what, edit: from.start..to.end, with: with.to_owned() }
    }

    /// Replaces one token and says so.
    fn swapped(&self, at: usize, with: &str) -> Sabotage {
        self.replaced((at, at + 1), with, format!("`{}` became `{with}`", self.text_at(at)))
    }
}

/// Returns how a sign changes the depth of brackets.
fn depth_change(token: &CodeToken, text: &str) -> i32 {
    match token.text(text) {
        "(" | "[" | "{" if token.kind == CodeTokenKind::Sign => 1,
        ")" | "]" | "}" if token.kind == CodeTokenKind::Sign => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
