//! Splits source code into tokens: words, numbers, signs, strings and comments.
//!
//! It is no parser. It knows enough of each language to find where strings and comments begin and end, so
//! that nothing inside of them is taken for code.
//!
//! **Invariant:** it never fails. A string that does not end reaches to the end of its line, or of the file
//! if the language lets it span lines.

use super::SourceLanguage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeTokenKind {
    Word,
    Number,
    Sign,
    /// A string, a character or a regular expression.
    Text,
    Comment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeToken {
    pub kind: CodeTokenKind,
    pub start: usize,
    pub end: usize,
    /// The line that it begins on, counted from 0.
    pub line: usize,
}

impl CodeToken {
    pub fn text<'t>(&self, source: &'t str) -> &'t str {
        source.get(self.start..self.end).unwrap_or_default()
    }

    pub fn is_comment(&self) -> bool {
        self.kind == CodeTokenKind::Comment
    }

    /// Returns the line that it ends on, counted from 0.
    pub fn last_line(&self, source: &str) -> usize {
        self.line + self.text(source).matches('\n').count()
    }
}

/// Signs of more than one character, the longest first.
const SIGNS: [&str; 42] = [
    ">>>=", "===", "!==", "**=", "...", "..=", "<<=", ">>=", "&&=", "||=", "??=", "//=", "&^=", ">>>", "==",
    "!=", "<=", ">=", "&&", "||", "->", "=>", "::", ":=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=",
    "<<", ">>", "**", "//", "++", "--", "..", "??", "?.", "<-",
];

/// Words of JavaScript after which a slash begins a regular expression.
const BEFORE_REGEX: [&str; 14] = [
    "return",
    "typeof",
    "case",
    "in",
    "of",
    "do",
    "else",
    "void",
    "delete",
    "throw",
    "new",
    "instanceof",
    "yield",
    "await",
];

pub fn tokens(text: &str, language: SourceLanguage) -> Vec<CodeToken> {
    let mut scan = Scan { text, language, at: 0, line: 0, tokens: Vec::new() };
    while let Some(letter) = scan.rest().chars().next() {
        match letter {
            '\n' => {
                scan.line += 1;
                scan.at += 1;
            }
            letter if letter.is_whitespace() => scan.at += letter.len_utf8(),
            letter => {
                let (kind, length) = scan.next(letter);
                scan.push(kind, length.max(letter.len_utf8()));
            }
        }
    }
    scan.tokens
}

struct Scan<'t> {
    text: &'t str,
    language: SourceLanguage,
    at: usize,
    line: usize,
    tokens: Vec<CodeToken>,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: CodeTokenKind, length: usize) {
        let token = CodeToken { kind, start: self.at, end: self.at + length, line: self.line };
        self.line += token.text(self.text).matches('\n').count();
        self.at = token.end;
        self.tokens.push(token);
    }

    /// Returns the kind and the length of the token that begins with this character.
    fn next(&self, letter: char) -> (CodeTokenKind, usize) {
        let rest = self.rest();
        if let Some(length) = self.comment(rest) {
            return (CodeTokenKind::Comment, length);
        }
        if let Some(length) = self.string(rest) {
            return (CodeTokenKind::Text, length);
        }
        if letter.is_ascii_digit() {
            return (CodeTokenKind::Number, number(rest));
        }
        // A lifetime of Rust; a character was found above.
        let is_lifetime = self.language == SourceLanguage::Rust && letter == '\'';
        if is_word(letter) || is_lifetime {
            let first = letter.len_utf8();
            let more = rest[first..].find(|c| !is_word(c)).unwrap_or(rest.len() - first);
            return (CodeTokenKind::Word, first + more);
        }
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign) && self.has_sign(sign));
        (CodeTokenKind::Sign, sign.map_or(letter.len_utf8(), |sign| sign.len()))
    }

    fn has_sign(&self, sign: &str) -> bool {
        self.language == SourceLanguage::Python || !matches!(sign, "//" | "//=")
    }

    fn comment(&self, rest: &str) -> Option<usize> {
        let to_line_end = || rest.find('\n').unwrap_or(rest.len());
        if self.language == SourceLanguage::Python {
            return rest.starts_with('#').then(to_line_end);
        }
        if rest.starts_with("//") {
            return Some(to_line_end());
        }
        if !rest.starts_with("/*") {
            return None;
        }
        let (mut depth, mut at) = (1, 2);
        while depth > 0 && at < rest.len() {
            let here = &rest[at..];
            if here.starts_with("*/") {
                (depth, at) = (depth - 1, at + 2);
            } else if here.starts_with("/*") && self.language == SourceLanguage::Rust {
                (depth, at) = (depth + 1, at + 2);
            } else {
                at += here.chars().next().map_or(1, char::len_utf8);
            }
        }
        Some(at)
    }

    fn string(&self, rest: &str) -> Option<usize> {
        match self.language {
            SourceLanguage::Python => python_string(rest),
            SourceLanguage::Rust => rust_string(rest),
            SourceLanguage::Go => match rest.as_bytes()[0] {
                b'"' => Some(quoted(rest, '"')),
                b'\'' => Some(quoted(rest, '\'')),
                b'`' => Some(rest[1..].find('`').map_or(rest.len(), |at| at + 2)),
                _ => None,
            },
            SourceLanguage::JavaScript => match rest.as_bytes()[0] {
                b'"' => Some(quoted(rest, '"')),
                b'\'' => Some(quoted(rest, '\'')),
                b'`' => Some(template(rest)),
                b'/' if self.may_be_regex() => regex(rest),
                _ => None,
            },
        }
    }

    /// Returns whether a slash here begins a regular expression and divides nothing.
    fn may_be_regex(&self) -> bool {
        let before = self.tokens.iter().rev().find(|token| !token.is_comment());
        before.is_none_or(|token| match token.kind {
            CodeTokenKind::Word => BEFORE_REGEX.contains(&token.text(self.text)),
            CodeTokenKind::Number | CodeTokenKind::Text | CodeTokenKind::Comment => false,
            CodeTokenKind::Sign => !matches!(token.text(self.text), ")" | "]" | "}" | "++" | "--"),
        })
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

fn number(rest: &str) -> usize {
    let mut letters = rest.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let mut followed_by_digit = || letters.peek().is_some_and(|(_, next)| next.is_ascii_digit());
        if !(is_word(letter) || letter == '.' && followed_by_digit()) {
            return at;
        }
    }
    rest.len()
}

/// Returns the length of a string that ends with its quote or with its line.
fn quoted(rest: &str, quote: char) -> usize {
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '\n' => return at,
            letter if letter == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a string that may span lines and ends with `end`.
fn spanning(rest: &str, begin: usize, end: &str) -> usize {
    let mut at = begin;
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with(end) {
            return at + end.len();
        }
        let first = here.chars().next().map_or(1, char::len_utf8);
        let escaped = || here[first..].chars().next().map_or(0, char::len_utf8);
        at += if here.starts_with('\\') { first + escaped() } else { first };
    }
    rest.len()
}

fn python_string(rest: &str) -> Option<usize> {
    let prefix = rest.find(['"', '\'']).filter(|at| *at <= 2)?;
    if !rest[..prefix].chars().all(|c| "rRbBuUfFtT".contains(c)) {
        return None;
    }
    let body = &rest[prefix..];
    for triple in ["\"\"\"", "'''"] {
        if body.starts_with(triple) {
            return Some(prefix + spanning(body, 3, triple));
        }
    }
    let quote = if body.starts_with('"') { '"' } else { '\'' };
    Some(prefix + quoted(body, quote))
}

fn rust_string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r"].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix).unwrap_or_default();
        let is_raw = prefix.ends_with('r') && after.trim_start_matches('#').starts_with('"');
        after.starts_with('"') || is_raw || *prefix == "b" && after.starts_with('\'')
    });
    let begin = prefix.map_or(0, str::len);
    let body = &rest[begin..];
    if prefix.is_some_and(|prefix| prefix.ends_with('r')) {
        let hashes = body.bytes().take_while(|byte| *byte == b'#').count();
        let end = format!("\"{}", "#".repeat(hashes));
        let from = hashes + 1;
        return Some(begin + body[from..].find(&end).map_or(body.len(), |at| from + at + end.len()));
    }
    if body.starts_with('"') {
        return Some(begin + spanning(body, 1, "\""));
    }
    let mut letters = body.strip_prefix('\'')?.chars();
    match (letters.next()?, letters.next()) {
        ('\\', _) => Some(begin + quoted(body, '\'')),
        (one, Some('\'')) => Some(begin + 2 + one.len_utf8()),
        _ => None,
    }
}

/// Returns the length of a template of JavaScript, with the code inside of it.
fn template(rest: &str) -> usize {
    let mut at = 1;
    while at < rest.len() {
        let here = &rest[at..];
        let first = here.chars().next().map_or(1, char::len_utf8);
        if here.starts_with('`') {
            return at + 1;
        } else if here.starts_with('\\') {
            at += first + here[first..].chars().next().map_or(0, char::len_utf8);
        } else if let Some(code) = here.strip_prefix("${") {
            at += 2 + inner_code(code);
        } else {
            at += first;
        }
    }
    rest.len()
}

/// Returns the length of the code of a template, up to and with the bracket that ends it.
fn inner_code(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let here = &rest[at..];
        match here.as_bytes()[0] {
            b'`' => at += template(here),
            b'"' => at += quoted(here, '"'),
            b'\'' => at += quoted(here, '\''),
            b'}' if depth == 0 => return at + 1,
            b'}' => (depth, at) = (depth - 1, at + 1),
            b'{' => (depth, at) = (depth + 1, at + 1),
            _ => at += here.chars().next().map_or(1, char::len_utf8),
        }
    }
    rest.len()
}

/// Returns the length of a regular expression; `None` if it does not end on its line.
fn regex(rest: &str) -> Option<usize> {
    let mut letters = rest.char_indices().skip(1);
    let mut in_class = false;
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '\n' => return None,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => {
                let flags = rest[at + 1..].find(|c: char| !c.is_ascii_alphabetic());
                return Some(flags.map_or(rest.len(), |flags| at + 1 + flags));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(language: SourceLanguage, text: &str, expected: Expect) {
        let shown: Vec<String> = tokens(text, language)
            .iter()
            .map(|token| {
                let mark = match token.kind {
                    CodeTokenKind::Word => "w",
                    CodeTokenKind::Number => "n",
                    CodeTokenKind::Sign => "s",
                    CodeTokenKind::Text => "T",
                    CodeTokenKind::Comment => "C",
                };
                format!("{mark}:{}@{}", token.text(text).replace('\n', "⏎"), token.line)
            })
            .collect();
        expected.assert_eq(&shown.join(" "));
    }

    #[test]
    fn python_strings_and_comments_are_no_code() {
        check(
            SourceLanguage::Python,
            "x = rb'a\\'b' # if a == b\n\"\"\"doc\n'''in\"\"\"\ny = f\"{x} == 1\" // 2\nnot_r'x\n",
            expect![[
                r##"w:x@0 s:=@0 T:rb'a\'b'@0 C:# if a == b@0 T:"""doc⏎'''in"""@1 w:y@3 s:=@3 T:f"{x} == 1"@3 s://@3 n:2@3 w:not_r@4 T:'x@4"##
            ]],
        );
    }

    #[test]
    fn rust_raw_strings_characters_and_nested_comments_are_told_from_lifetimes() {
        check(
            SourceLanguage::Rust,
            "fn f<'a>(x: &'a str) -> char { /* a /* == */ b */ r#\"a \" == b\"#; b'\\''; '\"'; 'é'; r#type; 0..=1.5 }",
            expect![[
                r##"w:fn@0 w:f@0 s:<@0 w:'a@0 s:>@0 s:(@0 w:x@0 s::@0 s:&@0 w:'a@0 w:str@0 s:)@0 s:->@0 w:char@0 s:{@0 C:/* a /* == */ b */@0 T:r#"a " == b"#@0 s:;@0 T:b'\''@0 s:;@0 T:'"'@0 s:;@0 T:'é'@0 s:;@0 w:r@0 s:#@0 w:type@0 s:;@0 n:0@0 s:..=@0 n:1.5@0 s:}@0"##
            ]],
        );
    }

    #[test]
    fn templates_and_regular_expressions_of_javascript_are_strings() {
        check(
            SourceLanguage::JavaScript,
            "a = `x ${b === `}` ? {c: '}'} : 1} y`; d = e / f / g; h.match(/[/\"]=='/gi); // i\nreturn /j/",
            expect![[
                r#"w:a@0 s:=@0 T:`x ${b === `}` ? {c: '}'} : 1} y`@0 s:;@0 w:d@0 s:=@0 w:e@0 s:/@0 w:f@0 s:/@0 w:g@0 s:;@0 w:h@0 s:.@0 w:match@0 s:(@0 T:/[/"]=='/gi@0 s:)@0 s:;@0 C:// i@0 w:return@1 T:/j/@1"#
            ]],
        );
    }

    #[test]
    fn raw_strings_and_runes_of_go_are_strings() {
        check(
            SourceLanguage::Go,
            "x := `a\n\" == b` + \"c\\\"d\" // e\nif r == '\\'' { ch <- x &^= y }",
            expect![[
                r#"w:x@0 s::=@0 T:`a⏎" == b`@0 s:+@1 T:"c\"d"@1 C:// e@1 w:if@2 w:r@2 s:==@2 T:'\''@2 s:{@2 w:ch@2 s:<-@2 w:x@2 s:&^=@2 w:y@2 s:}@2"#
            ]],
        );
    }

    #[test]
    fn unfinished_code_is_read_to_its_end() {
        for language in
            [SourceLanguage::Rust, SourceLanguage::Python, SourceLanguage::JavaScript, SourceLanguage::Go]
        {
            for text in
                ["\"a", "'", "`a ${", "/* a", "/", "r#", "'''", "b'", "é\"", "\\", "1.", "${", "r#\"é"]
            {
                let last = tokens(text, language).last().map_or(0, |token| token.end);
                assert_eq!(last, text.len(), "{language:?} {text}");
            }
        }
    }
}
