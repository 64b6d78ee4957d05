//! Analyses the shell text of a contract.
//!
//! It is a small lexer: it knows words, quotes, operators, here-documents and substitutions. That is enough
//! to list the commands a check calls and to see what determines its exit code. Whether the text is valid
//! bash is decided by `bash -n`.
//!
//! **Invariant:** linear in the text, and it never guesses: a command word that is not literal is unknown.

use std::borrow::Cow;

mod outer_paths;
mod lex;
mod names;

pub use lex::read;
pub(crate) use names::{WrappedCommand, wrapped};
pub use names::{files, is_assignment, named_files, relative_path, tools};
pub use outer_paths::{OuterPath, outer_paths, outer_paths_in_code};

/// A script as a flat list of its simple commands.
#[derive(Debug, Default)]
pub struct ShellScript {
    pub words: Vec<Word>,
    /// In the order of the text; commands inside `$(…)` come after the command they belong to.
    pub commands: Vec<ShellCommand>,
    /// The words of `for x in …` and of arrays.
    pub listed: Vec<Word>,
    /// The bodies of here-documents, as spans of the text.
    pub documents: Vec<(usize, usize)>,
    /// Names of functions the script defines, as spans of the text.
    pub functions: Vec<(usize, usize)>,
    /// `<like-this>`: a placeholder that was not filled in.
    pub placeholders: Vec<(usize, usize)>,
}

#[derive(Clone, Debug)]
pub struct Word {
    pub start: usize,
    pub end: usize,
    /// It contains quotes or backslashes.
    pub quoted: bool,
    /// Its value is known only at run time: expansions, globs, substitutions.
    pub expands: bool,
}

#[derive(Clone, Debug)]
pub struct ShellCommand {
    /// Index of its first word in `Script::words`, and the number of words.
    pub first: usize,
    pub count: usize,
    pub start: usize,
    pub end: usize,
    /// Part of the outermost list, not of a loop, a function or a substitution.
    pub top: bool,
    /// A loop, a condition or a group, taken as one command.
    pub compound: bool,
    pub negated: bool,
    /// The operator between it and the next command.
    pub then: Join,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The end of the script or of the enclosing construct.
    End,
    /// `;` or a new line.
    Next,
    And,
    Or,
    Pipe,
    Background,
}

impl ShellScript {
    pub fn words_of(&self, command: &ShellCommand) -> &[Word] {
        self.words.get(command.first..command.first + command.count).unwrap_or(&[])
    }

    /// Returns the commands of the outermost list.
    pub fn top(&self) -> impl Iterator<Item = &ShellCommand> {
        self.commands.iter().filter(|command| command.top)
    }
}

impl Word {
    pub fn raw<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start..self.end).unwrap_or("")
    }

    /// Returns the word as bash would pass it, if it can be known.
    pub fn literal<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if self.expands {
            return None;
        }
        let raw = self.raw(text);
        if !self.quoted {
            return Some(Cow::Borrowed(raw));
        }
        Some(Cow::Owned(unquoted(raw)))
    }
}

/// Removes quotes and backslashes from a word without expansions.
fn unquoted(raw: &str) -> String {
    let mut value = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => value.push(c),
            (None, '\\') => match chars.next() {
                Some('\n') | None => {}
                Some(next) => value.push(next),
            },
            (Some(_), '\\') => match chars.next() {
                Some('\n') | None => {}
                Some(next) => {
                    if !matches!(next, '"' | '\\' | '$' | '`') {
                        value.push('\\');
                    }
                    value.push(next);
                }
            },
            (_, c) => value.push(c),
        }
    }
    value
}

#[cfg(test)]
mod tests;
