//! Holds the texts of all diagnostics.
//!
//! Messages are lowercase fragments that name the subject; hints are sentences that say what to do. There is
//! one function per finding, so that two checks never describe the same mistake differently.

use super::{Code, Diagnostic};
use crate::model::plan::Span;

mod document;
mod fields;
mod contracts;
mod order;
mod limits;
mod traits;

pub use contracts::*;
pub use document::*;
pub use fields::*;
pub use limits::*;
pub use order::*;
pub use traits::*;

type D = Diagnostic;

fn new(code: Code, span: Span, message: impl Into<String>) -> D {
    Diagnostic::new(code, span, message)
}

fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().take(12).map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn clip(value: &str) -> String {
    let line = value.lines().next().unwrap_or("");
    match line.char_indices().nth(60) {
        Some((at, _)) => format!("`{}…`", &line[..at]),
        None => format!("`{line}`"),
    }
}

fn clip_list(words: &[String]) -> String {
    match words.len() {
        0..=12 => words.join(" → "),
        _ => format!("{} → … ({} in all)", words[..10].join(" → "), words.len() - 1),
    }
}
