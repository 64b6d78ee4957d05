//! Returns a default instead of the value.

use super::{Code, Kind, Sabotage, depth_change};
use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan::CodeTokenKind;

pub(super) fn find(code: &Code<'_>, found: &mut Vec<(Kind, Sabotage)>) {
    for at in code.inside() {
        let is_return = code.tokens[at].kind == CodeTokenKind::Word && code.text_at(at) == "return";
        let value = match is_return {
            true => value_after(code, at),
            false => last_expression(code, at),
        };
        let Some((first, end)) = value else { continue };
        let written = &code.text[code.tokens[first].start..code.tokens[end - 1].end];
        let Some(default) = default(code, (first, end)).filter(|default| default != written) else {
            continue;
        };
        let what = format!("`{default}` is returned instead of the value");
        found.push((Kind::Return, code.replaced((first, end), &default, what)));
    }
}

/// Returns the tokens of the value after `return`, which may span lines inside of brackets.
fn value_after(code: &Code<'_>, at: usize) -> Option<(usize, usize)> {
    let first = at + 1;
    let mut depth = 0;
    let mut end = first;
    let mut line = code.tokens[at].line;
    while let Some(token) = code.tokens.get(end) {
        let change = depth_change(token, code.text);
        let is_over = depth == 0 && (token.line > line || code.text_at(end) == ";" || change < 0);
        if is_over {
            break;
        }
        depth += change;
        line = token.last_line(code.text);
        end += 1;
    }
    (first < end).then_some((first, end))
}

/// Returns the tokens of the last expression of a function of Rust, if it is one line without `;`.
fn last_expression(code: &Code<'_>, at: usize) -> Option<(usize, usize)> {
    if code.language != SourceLanguage::Rust || !code.is_first_of_line(at) {
        return None;
    }
    let end = code.line_end(at);
    let is_begun = matches!(code.before(at), ";" | "{" | "}");
    let is_ended = !matches!(code.text_at(end - 1), ";" | "{" | "}" | "," | "(" | "[" | "=>" | "->");
    let is_last = code.text_at(end) == "}" && code.is_first_of_line(end);
    let is_statement =
        matches!(code.text_at(at), "let" | "use" | "#" | "}" | "if" | "for" | "while" | "match" | "return");
    let depth: i32 = code.tokens[at..end].iter().map(|token| depth_change(token, code.text)).sum();
    (is_begun && is_ended && is_last && !is_statement && depth == 0).then_some((at, end))
}

fn default(code: &Code<'_>, (first, end): (usize, usize)) -> Option<String> {
    match code.language {
        SourceLanguage::Python => Some("None".to_owned()),
        SourceLanguage::JavaScript => Some("undefined".to_owned()),
        SourceLanguage::Rust => Some(
            match (code.text_at(first), code.text_at(first + 1)) {
                ("Ok", "(") => "Ok(Default::default())",
                ("Some", "(") => "None",
                ("true", _) if end == first + 1 => "false",
                _ => "Default::default()",
            }
            .to_owned(),
        ),
        SourceLanguage::Go => go_default(code, first),
    }
}

/// Returns the zero values of the results of the function around, which its first line declares.
fn go_default(code: &Code<'_>, at: usize) -> Option<String> {
    let func = (0..at).rev().find(|at| code.text_at(*at) == "func")?;
    // Each pair of brackets in turn: the receiver, the arguments, and results with names or several types.
    let mut results = String::new();
    let (mut depth, mut at) = (0, func + 1);
    let mut last = String::new();
    let end = code.line_end(func);
    while at < end {
        let token = &code.tokens[at];
        if depth == 0 && token.text(code.text) == "{" {
            break;
        }
        let change = depth_change(token, code.text);
        if depth == 0 && change == 0 || depth > 0 && depth + change > 0 {
            let space =
                if token.kind == CodeTokenKind::Word && results.ends_with(is_letter) { " " } else { "" };
            results.push_str(&format!("{space}{}", token.text(code.text)));
        }
        depth += change;
        if depth == 0 && change < 0 {
            last = std::mem::take(&mut results);
        }
        at += 1;
    }
    // A single type follows the brackets of the arguments; several are in brackets of their own.
    let is_list = results.is_empty() && code.before(at) == ")" && code.before(at - 1) != "(";
    let results = if is_list { last } else { results };
    let types: Vec<&str> = results.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    // `(n int, err error)` has names.
    let types: Vec<String> =
        types.iter().map(|part| format!("*new({})", part.rsplit(' ').next().unwrap_or(part))).collect();
    (!types.is_empty()).then(|| types.join(", "))
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}
