//! Drops a statement that is one line: a call or an assignment.

use super::{Code, Kind, Sabotage, depth_change};
use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan::CodeTokenKind;

/// Words that begin a line without which the code would rarely compile.
const KEPT: [&str; 50] = [
    "def",
    "class",
    "return",
    "import",
    "from",
    "if",
    "elif",
    "else",
    "for",
    "while",
    "try",
    "except",
    "finally",
    "with",
    "pass",
    "break",
    "continue",
    "global",
    "nonlocal",
    "async",
    "lambda",
    "match",
    "case",
    "let",
    "const",
    "var",
    "static",
    "use",
    "export",
    "pub",
    "fn",
    "type",
    "mod",
    "function",
    "struct",
    "enum",
    "trait",
    "impl",
    "extern",
    "func",
    "package",
    "switch",
    "default",
    "do",
    "catch",
    "interface",
    "where",
    "loop",
    "unsafe",
    "abstract",
];

/// Signs that continue the statement of the line before.
const CONTINUES: [&str; 12] = [".", "?.", "?", ":", "(", "[", "+", "-", "*", "/", "&&", "||"];

pub(super) fn find(code: &Code<'_>, found: &mut Vec<(Kind, Sabotage)>) {
    let mut depths = Vec::with_capacity(code.tokens.len());
    let mut depth = 0;
    for token in &code.tokens {
        depths.push(depth);
        // The braces of code are no brackets of an expression.
        if code.language == SourceLanguage::Python || !matches!(token.text(code.text), "{" | "}") {
            depth += depth_change(token, code.text);
        }
    }
    for at in code.inside().filter(|at| code.is_first_of_line(*at) && depths[*at] == 0) {
        let end = code.line_end(at);
        if !is_statement(code, (at, end)) || depths.get(end).is_some_and(|depth| *depth != 0) {
            continue;
        }
        let written = code.text[code.tokens[at].start..code.tokens[end - 1].end].to_owned();
        let with = if code.language == SourceLanguage::Python { "pass" } else { "" };
        found.push((Kind::Statement, code.replaced((at, end), with, format!("`{written}` was removed"))));
    }
}

fn is_statement(code: &Code<'_>, (at, end): (usize, usize)) -> bool {
    let first = code.tokens[at];
    if first.kind != CodeTokenKind::Word || KEPT.contains(&code.text_at(at)) {
        return false;
    }
    let acts = (at..end).any(|at| {
        matches!(code.text_at(at), "(" | "=" | "+=" | "-=" | "*=" | "/=" | "|=" | "&=" | "++" | "--")
    }) || matches!(code.text_at(at), "raise" | "throw" | "yield" | "del" | "panic");
    let balance: i32 = code.tokens[at..end].iter().map(|token| depth_change(token, code.text)).sum();
    if !acts || balance != 0 {
        return false;
    }
    let last = code.text_at(end - 1);
    let next = code.text_at(end);
    match code.language {
        SourceLanguage::Python => last != ":" && last != "\\" && code.before(at) != "\\",
        SourceLanguage::Rust => last == ";" && matches!(code.before(at), ";" | "{" | "}"),
        SourceLanguage::JavaScript => {
            let is_whole = matches!(code.before(at), ";" | "{" | "}" | ")" | "" | "]");
            is_whole && !matches!(last, "{" | "," | "=>" | ":") && !CONTINUES.contains(&next)
        }
        SourceLanguage::Go => {
            let declares = (at..end).any(|at| code.text_at(at) == ":=");
            !declares && !matches!(last, "{" | "," | "." | ":" | "+" | "&&" | "||")
        }
    }
}
