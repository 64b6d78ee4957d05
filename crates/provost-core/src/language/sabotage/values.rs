//! Changes values: truth, arithmetic, numbers and strings.

use super::{Code, Kind, Sabotage};
use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan::CodeTokenKind;

pub(super) fn find(code: &Code<'_>, found: &mut Vec<(Kind, Sabotage)>) {
    for at in code.inside().filter(|at| !code.imports(*at)) {
        let word = code.text_at(at);
        let changed = match code.tokens[at].kind {
            CodeTokenKind::Word => truth(word).map(|with| (Kind::Truth, with.to_owned())),
            CodeTokenKind::Sign => calculated(code, at).map(|with| (Kind::Arithmetic, with.to_owned())),
            CodeTokenKind::Number => one_more(word).map(|with| (Kind::Number, with)),
            CodeTokenKind::Text => emptied(code, at).map(|with| (Kind::Text, with)),
            CodeTokenKind::Comment => None,
        };
        let Some((kind, with)) = changed else { continue };
        let mut sabotage = code.swapped(at, &with);
        if kind == Kind::Text {
            sabotage.what = "a string became empty".to_owned();
        }
        found.push((kind, sabotage));
    }
}

fn truth(word: &str) -> Option<&'static str> {
    match word {
        "true" => Some("false"),
        "false" => Some("true"),
        "True" => Some("False"),
        "False" => Some("True"),
        _ => None,
    }
}

fn calculated(code: &Code<'_>, at: usize) -> Option<&'static str> {
    if !code.is_spaced(at) {
        return None;
    }
    match code.text_at(at) {
        "+" => Some("-"),
        "-" => Some("+"),
        "*" => Some("+"),
        "/" | "%" => Some("*"),
        "+=" => Some("-="),
        "-=" => Some("+="),
        _ => None,
    }
}

/// Returns a whole number and one more.
fn one_more(word: &str) -> Option<String> {
    let number: u64 = word.parse().ok()?;
    Some(number.checked_add(1)?.to_string())
}

fn emptied(code: &Code<'_>, at: usize) -> Option<String> {
    let word = code.text_at(at);
    let quotes = match code.language {
        SourceLanguage::Rust => word.starts_with('"'),
        SourceLanguage::Go => word.starts_with(['"', '`']),
        SourceLanguage::JavaScript => word.starts_with(['"', '\'', '`']),
        SourceLanguage::Python => true,
    };
    let is_bytes = word.starts_with(['b', 'B']);
    let is_empty = word.trim_matches(['"', '\'', '`']).is_empty();
    let ends = word.len() > 1 && word.ends_with(['"', '\'', '`']);
    if !quotes || is_bytes || is_empty || !ends || is_alone(code, at) {
        return None;
    }
    Some("\"\"".to_owned())
}

/// Returns whether a string is a statement of its own, such as the description of a function of Python.
pub(super) fn is_alone(code: &Code<'_>, at: usize) -> bool {
    let ends_line =
        code.tokens.get(at + 1).is_none_or(|next| next.line > code.tokens[at].last_line(code.text));
    let begins = matches!(code.before(at), ":" | "");
    code.language == SourceLanguage::Python && code.is_first_of_line(at) && ends_line && begins
}
