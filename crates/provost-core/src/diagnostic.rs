//! What is wrong with a plan, said to its author.
//!
//! A plan that is wrong is never an `Err`: it is a plan and a list of these. One struct feeds every
//! renderer (terminal, JSON, SARIF). The page behind a code is a Markdown file in `diagnostic/`.
//!
//! **Invariant:** a code, once released, keeps its meaning for ever.

use std::fmt;

use crate::plan::Span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    /// One line, lowercase, no full stop.
    pub message: String,
    pub span: Span,
    /// A sentence that says what to do.
    pub hint: Option<String>,
    pub fix: Option<Fix>,
}

/// `P012`: what a person types after `--explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:03}", self.0)
    }
}

/// An edit that removes the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    pub span: Span,
    pub replacement: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The plan cannot be approved.
    Error,
    /// It can, but a reader should know.
    Warning,
    /// Taste and experience.
    Advice,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Advice => "advice",
        }
    }
}
