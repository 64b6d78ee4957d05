//! Negates conditions: comparisons, `and` and `or`, and the condition of an `if`.

use super::{Code, Kind, Sabotage, depth_change};
use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan::CodeTokenKind;

pub(super) fn find(code: &Code<'_>, found: &mut Vec<(Kind, Sabotage)>) {
    for at in code.inside() {
        let token = code.tokens[at];
        let word = code.text_at(at);
        if is_main_guard(code, at) {
            continue;
        }
        match token.kind {
            CodeTokenKind::Sign => {
                found.extend(compared(code, at).map(|with| (Kind::Condition, code.swapped(at, with))));
                let other = match word {
                    "&&" => Some("||"),
                    "||" => Some("&&"),
                    _ => None,
                };
                // A closure of Rust without arguments begins with `||`.
                let other = other.filter(|_| code.language != SourceLanguage::Rust || code.is_spaced(at));
                found.extend(other.map(|with| (Kind::Junction, code.swapped(at, with))));
            }
            CodeTokenKind::Word if code.language == SourceLanguage::Python => {
                found.extend(python_word(code, at));
                found.extend(negated(code, at).map(|sabotage| (Kind::Condition, sabotage)));
            }
            CodeTokenKind::Word => {
                found.extend(negated(code, at).map(|sabotage| (Kind::Condition, sabotage)))
            }
            CodeTokenKind::Number | CodeTokenKind::Text | CodeTokenKind::Comment => {}
        }
    }
}

/// Returns whether the line is `if __name__ == "__main__":`, which no test reaches.
fn is_main_guard(code: &Code<'_>, at: usize) -> bool {
    (code.line_start(at)..code.line_end(at)).any(|at| code.text_at(at) == "__name__")
}

/// Returns the opposite of a comparison. `<` and `>` are also brackets of types, which have no space on both
/// sides.
fn compared(code: &Code<'_>, at: usize) -> Option<&'static str> {
    Some(match code.text_at(at) {
        "==" => "!=",
        "!=" => "==",
        "===" => "!==",
        "!==" => "===",
        "<=" => ">",
        ">=" => "<",
        "<" if code.is_spaced(at) => ">=",
        ">" if code.is_spaced(at) => "<=",
        _ => return None,
    })
}

fn python_word(code: &Code<'_>, at: usize) -> Option<(Kind, Sabotage)> {
    let after = code.text_at(at + 1);
    let two = |with: &str| {
        let what = format!("`{} {after}` became `{with}`", code.text_at(at));
        Some((Kind::Condition, code.replaced((at, at + 2), with, what)))
    };
    match code.text_at(at) {
        "and" => Some((Kind::Junction, code.swapped(at, "or"))),
        "or" => Some((Kind::Junction, code.swapped(at, "and"))),
        "is" if after == "not" => two("is"),
        "is" => Some((Kind::Condition, code.swapped(at, "is not"))),
        "not" if after == "in" => two("in"),
        "in" if code.before(at) != "not" && !is_loop(code, at) => {
            Some((Kind::Condition, code.swapped(at, "not in")))
        }
        "not" if code.before(at) != "is" => {
            let what = "`not` was removed".to_owned();
            Some((Kind::Condition, code.replaced((at, at + 1), "", what)))
        }
        _ => None,
    }
}

fn is_loop(code: &Code<'_>, at: usize) -> bool {
    (code.line_start(at)..at).any(|at| code.text_at(at) == "for")
}

/// Negates the condition of an `if` on one line that has no comparison of its own.
fn negated(code: &Code<'_>, at: usize) -> Option<Sabotage> {
    if !matches!(code.text_at(at), "if" | "elif") {
        return None;
    }
    let end = code.line_end(at);
    let mut depth = 0;
    let mut stop = None;
    for here in at + 1..end {
        depth += depth_change(&code.tokens[here], code.text);
        let ends = match code.language {
            SourceLanguage::Python => depth == 0 && code.text_at(here) == ":",
            SourceLanguage::Rust | SourceLanguage::Go => depth == 1 && code.text_at(here) == "{",
            SourceLanguage::JavaScript => depth == 0 && code.text_at(here) == ")",
        };
        if ends {
            stop = Some(here);
            break;
        }
    }
    let stop = stop?;
    let is_script = code.language == SourceLanguage::JavaScript;
    let (first, last) = if is_script { (at + 2, stop) } else { (at + 1, stop) };
    // A suffix `if` of Python (`a if b else c`) ends with no colon of its own.
    let is_suffix = code.language == SourceLanguage::Python && !code.is_first_of_line(at);
    let is_other = |at: usize| {
        matches!(code.text_at(at), "let" | ":=" | ";" | "not" | "and" | "or" | "&&" | "||" | "is" | "in")
            || code.tokens[at].kind == CodeTokenKind::Sign && compared(code, at).is_some()
    };
    if first >= last || is_suffix || (first..last).any(is_other) {
        return None;
    }
    let condition = &code.text[code.tokens[first].start..code.tokens[last - 1].end];
    let not = if code.language == SourceLanguage::Python { "not " } else { "!" };
    let what = format!("`if {condition}` became `if {not}({condition})`");
    Some(code.replaced((first, last), &format!("{not}({condition})"), what))
}
