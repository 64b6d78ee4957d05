//! Cuts the change of a file into hunks that can be taken out one at a time.
//!
//! A hunk is a run of changed lines. Long new runs are cut at their functions, so that each function stands
//! for itself.
//!
//! **Invariant:** the same texts give the same hunks in the same order.

mod cut;

use std::ops::Range;

use crate::language::sabotage::{self, Sabotage};
use crate::language::source_code::scan::{self, CodeToken, CodeTokenKind};
use crate::language::source_code::{FileRole, SourceLanguage, test_lines};
use crate::model::hash::Hash;

/// Version of the rules that make hunks and sabotages; a new one makes earlier results unusable.
const RULES: &str = "provost hunk 1";

/// Lines of the old text that were replaced by lines of the new one; counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRun {
    pub old: Range<usize>,
    pub new: Range<usize>,
}

/// The texts of a changed file; `None` if the file does not exist on that side.
#[derive(Clone, Copy, Debug)]
pub struct FileTexts<'t> {
    pub path: &'t str,
    pub old: Option<&'t str>,
    pub new: Option<&'t str>,
}

/// A part of a change. Lines are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    pub path: String,
    pub old: Range<usize>,
    pub new: Range<usize>,
    /// The new lines without blank lines at their end, and at their beginning if nothing was removed there.
    pub shown: Range<usize>,
    pub subject: HunkSubject,
    /// Number of conditions and returned values in it.
    pub branches: usize,
}

/// The kind of the lines of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HunkSubject {
    Code,
    /// Lines of a file that is no code, or of a test inside a file of code.
    Other(FileRole),
    /// Comments, blank lines and brackets.
    Comment,
}

impl HunkSubject {
    /// Returns why the hunk is no code; `None` for code.
    pub fn why_no_code(self) -> Option<String> {
        match self {
            Self::Code => None,
            Self::Other(role) => Some(format!("not code: {}", role.word())),
            Self::Comment => Some("not code: a comment".to_owned()),
        }
    }
}

/// Returns the hunks of a file, in the order of its lines.
pub fn of_file(file: &FileTexts<'_>, runs: &[ChangedRun]) -> Vec<Hunk> {
    let role = FileRole::of_path(file.path);
    let language = SourceLanguage::of_path(file.path);
    let new = file.new.unwrap_or_default();
    let source = Source::read(new, language);
    let pieces = runs.iter().flat_map(|run| match role {
        FileRole::Code => cut::pieces(&source, run),
        _ => vec![run.clone()],
    });
    pieces
        .map(|ChangedRun { old, new }| {
            let mut shown = source.without_blank_end(&new);
            if old.is_empty() {
                shown.start += source.blank_start(&shown);
            }
            let subject = match role {
                FileRole::Code if source.is_test(&shown) => HunkSubject::Other(FileRole::Test),
                FileRole::Code if source.has_code(&shown) || has_code(file.old, language, &old) => {
                    HunkSubject::Code
                }
                FileRole::Code => HunkSubject::Comment,
                role => HunkSubject::Other(role),
            };
            let branches = source.branches(&shown);
            Hunk { path: file.path.to_owned(), old, new, shown, subject, branches }
        })
        .collect()
}

/// Returns whether the lines of the old text are code: then removing them changes code.
fn has_code(old: Option<&str>, language: Option<SourceLanguage>, lines: &Range<usize>) -> bool {
    !lines.is_empty() && old.is_some_and(|old| Source::read(old, language).has_code(lines))
}

/// Sorts hunks by how much they need a proof: code first, then those with more conditions and more lines.
pub fn rank(hunks: &mut [&Hunk]) {
    let order = |hunk: &Hunk| {
        let is_code = hunk.subject == HunkSubject::Code;
        let lines = hunk.shown.len() + hunk.old.len();
        (!is_code, std::cmp::Reverse((hunk.branches, lines)), hunk.path.clone(), hunk.new.start)
    };
    hunks.sort_by_key(|hunk| order(hunk));
}

impl Hunk {
    /// Returns the file without this hunk; `None` if the file does not exist then.
    pub fn reversed(&self, file: &FileTexts<'_>) -> Option<String> {
        let Some(new) = file.new else { return file.old.map(str::to_owned) };
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let old: Vec<&str> = file.old.unwrap_or_default().split_inclusive('\n').collect();
        if file.old.is_none() && self.new.len() == new.len() {
            return None;
        }
        let parts = [&new[..self.new.start], &old[self.old.clone()], &new[self.new.end..]];
        let mut text = String::new();
        for line in parts.into_iter().flatten() {
            // Only the last line of a file may have no line end.
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(line);
        }
        Some(text)
    }

    /// Returns the sabotages of its lines, if provost knows the language.
    pub fn sabotages(&self, file: &FileTexts<'_>) -> Vec<Sabotage> {
        match (SourceLanguage::of_path(&self.path), file.new, self.subject) {
            (Some(language), Some(text), HunkSubject::Code) => {
                sabotage::of_lines(text, language, &self.shown)
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether its lines define one of these functions, types or variables.
    pub fn defines(&self, file: &FileTexts<'_>, names: &[String]) -> bool {
        const BEFORE: [&str; 12] = [
            "def", "fn", "func", "function", "class", "const", "let", "var", "struct", "enum", "trait",
            "type",
        ];
        let Some(text) = file.new else { return false };
        let source = Source::read(text, SourceLanguage::of_path(&self.path));
        let inside: Vec<&str> = self.shown.clone().flat_map(|line| source.words_of_line(line)).collect();
        inside.windows(2).any(|pair| BEFORE.contains(&pair[0]) && names.iter().any(|name| name == pair[1]))
            // A method of Go: `func (c Cart) total(`.
            || inside.windows(3).any(|words| {
                words[0] == ")" && words[2] == "(" && names.iter().any(|name| name == words[1])
            })
    }

    /// Returns the digest of the place and the content of the hunk.
    pub fn digest(&self, file: &FileTexts<'_>) -> String {
        let lines = |text: Option<&str>, lines: &Range<usize>| {
            let all = text.unwrap_or_default().split_inclusive('\n');
            all.skip(lines.start).take(lines.len()).collect::<String>()
        };
        let parts = [
            RULES.to_owned(),
            self.path.clone(),
            format!("{} {}", self.old.start, self.new.start),
            lines(file.old, &self.old),
            lines(file.new, &self.new),
        ];
        let text: String = parts.iter().map(|part| format!("{} {part}\n", part.len())).collect();
        Hash::of(text.as_bytes()).to_string()
    }
}

/// A text with what is known about its lines.
struct Source<'t> {
    text: &'t str,
    lines: Vec<&'t str>,
    language: Option<SourceLanguage>,
    tokens: Vec<CodeToken>,
    tests: Vec<Range<usize>>,
}

impl<'t> Source<'t> {
    fn read(text: &'t str, language: Option<SourceLanguage>) -> Self {
        let tokens = language.map(|language| scan::tokens(text, language)).unwrap_or_default();
        let tests = match language {
            Some(SourceLanguage::Rust) => test_lines(text, &tokens),
            _ => Vec::new(),
        };
        Self { text, lines: text.lines().collect(), language, tokens, tests }
    }

    fn line(&self, at: usize) -> &'t str {
        self.lines.get(at).copied().unwrap_or_default()
    }

    /// Returns the texts of the tokens that begin on a line.
    fn words_of_line(&self, at: usize) -> Vec<&'t str> {
        let first = self.tokens.partition_point(|token| token.line < at);
        self.tokens[first..]
            .iter()
            .take_while(|token| token.line == at)
            .map(|token| token.text(self.text))
            .collect()
    }

    fn without_blank_end(&self, lines: &Range<usize>) -> Range<usize> {
        let blank = lines.clone().rev().take_while(|at| self.line(*at).trim().is_empty()).count();
        lines.start..lines.end - blank
    }

    fn blank_start(&self, lines: &Range<usize>) -> usize {
        lines.clone().take_while(|at| self.line(*at).trim().is_empty()).count()
    }

    fn is_test(&self, lines: &Range<usize>) -> bool {
        !lines.is_empty()
            && self.tests.iter().any(|tests| tests.start <= lines.start && lines.end <= tests.end)
    }

    /// Returns whether the lines have more than comments, descriptions, blank lines and brackets.
    fn has_code(&self, lines: &Range<usize>) -> bool {
        if self.language.is_none() {
            return lines.clone().any(|at| !self.line(at).trim().is_empty());
        }
        self.tokens.iter().enumerate().any(|(at, token)| {
            let touches = token.line < lines.end && lines.start <= token.last_line(self.text);
            touches && self.is_code(at)
        })
    }

    fn is_code(&self, at: usize) -> bool {
        let token = &self.tokens[at];
        match token.kind {
            CodeTokenKind::Comment => false,
            CodeTokenKind::Sign => {
                !matches!(token.text(self.text), "(" | ")" | "[" | "]" | "{" | "}" | "," | ";")
            }
            CodeTokenKind::Text => !self.is_description(at),
            CodeTokenKind::Word | CodeTokenKind::Number => true,
        }
    }

    /// Returns whether a string describes a function, class or module of Python.
    fn is_description(&self, at: usize) -> bool {
        let token = &self.tokens[at];
        let before = self.tokens[..at].iter().rev().find(|token| !token.is_comment());
        let begins = before
            .is_none_or(|before| before.text(self.text) == ":" && before.last_line(self.text) < token.line);
        let after = self.tokens[at + 1..].iter().find(|token| !token.is_comment());
        let ends = after.is_none_or(|after| after.line > token.last_line(self.text));
        self.language == Some(SourceLanguage::Python) && begins && ends
    }

    fn branches(&self, lines: &Range<usize>) -> usize {
        let inside = self.tokens.iter().filter(|token| lines.contains(&token.line));
        let is_branch = |token: &&CodeToken| {
            matches!(
                token.text(self.text),
                "if" | "elif"
                    | "return"
                    | "match"
                    | "case"
                    | "=="
                    | "!="
                    | "==="
                    | "!=="
                    | "<="
                    | ">="
                    | "&&"
                    | "||"
            )
        };
        inside.filter(is_branch).count()
    }
}

#[cfg(test)]
mod tests;
