//! Colours source code: keywords, strings, numbers and comments of the usual languages.
//!
//! It is no parser: it reads line by line, and remembers only a string or a comment that goes on. A mistake
//! colours a word wrongly and does nothing else.
//!
//! **Invariant:** the text of a line is shown unchanged; only elements with a class are added to it.

use std::ops::Range;

use maud::{Markup, PreEscaped, Render as _};

use super::text::T;

/// A stretch of a line with its class: `k` keyword, `s` string, `n` number, `c` comment.
pub(super) type Colour = (Range<usize>, &'static str);

/// How a language writes strings and comments, and its keywords.
#[derive(Debug, Default)]
pub(super) struct Syntax {
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// Quotes of strings that may span lines.
    long_quotes: &'static [&'static str],
    quotes: &'static [char],
    /// A quote after a letter is an apostrophe.
    has_prose: bool,
    /// `'a` is a lifetime, `'a'` a character.
    has_lifetimes: bool,
    is_markdown: bool,
    keywords: &'static str,
}

const C_LIKE: Syntax = Syntax {
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    long_quotes: &[],
    quotes: &['"', '\''],
    has_prose: false,
    has_lifetimes: false,
    is_markdown: false,
    keywords: "",
};
const HASH: Syntax =
    Syntax { line_comments: &["#"], block_comment: None, quotes: &['"', '\''], has_prose: true, ..C_LIKE };

static RUST: Syntax = Syntax {
    long_quotes: &["\""],
    quotes: &[],
    has_lifetimes: true,
    keywords: " as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while ",
    ..C_LIKE
};
static PYTHON: Syntax = Syntax {
    long_quotes: &["\"\"\"", "'''"],
    has_prose: false,
    keywords: " and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield ",
    ..HASH
};
static JAVASCRIPT: Syntax = Syntax {
    long_quotes: &["`"],
    keywords: " abstract as async await break case catch class const continue debugger default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null of private protected public readonly return static super switch this throw true try type typeof undefined var void while with yield ",
    ..C_LIKE
};
static GO: Syntax = Syntax {
    long_quotes: &["`"],
    keywords: " break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil package range return select struct switch true type var ",
    ..C_LIKE
};
static JAVA: Syntax = Syntax {
    long_quotes: &["\"\"\""],
    keywords: " abstract assert boolean break byte case catch char class const continue default do double else enum extends false final finally float for fun if implements import instanceof int interface long native new null object override package private protected public record return sealed short static super switch synchronized this throw throws transient true try val var void volatile when while yield ",
    ..C_LIKE
};
static C: Syntax = Syntax {
    keywords: " #define #elif #else #endif #if #ifdef #ifndef #include #pragma alignas auto bool break case catch char class const constexpr continue decltype default delete do double else enum explicit export extern false final float for friend goto if inline int long mutable namespace new noexcept nullptr operator override private protected public register return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while ",
    ..C_LIKE
};
static SHELL: Syntax = Syntax {
    keywords: " break case continue do done elif else esac exit export fi for function if in local readonly return set shift then trap unset until while ",
    ..HASH
};
static YAML: Syntax = Syntax { keywords: " true false null yes no on off ", ..HASH };
static TOML: Syntax = Syntax { long_quotes: &["\"\"\"", "'''"], keywords: " true false inf nan ", ..HASH };
static JSON: Syntax =
    Syntax { line_comments: &["//"], keywords: " true false null ", quotes: &['"'], ..HASH };
static MARKDOWN: Syntax = Syntax { long_quotes: &["```"], quotes: &['`'], is_markdown: true, ..C_LIKE };

impl Syntax {
    /// Returns the syntax of a file by its path, or of a fenced block by its language.
    pub(super) fn of(name: &str) -> Option<&'static Syntax> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let ending = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
        Some(match ending.as_str() {
            "rs" | "rust" => &RUST,
            "py" | "pyi" | "python" => &PYTHON,
            "js" | "cjs" | "mjs" | "jsx" | "ts" | "cts" | "mts" | "tsx" | "javascript" | "typescript" => {
                &JAVASCRIPT
            }
            "go" => &GO,
            "java" | "kt" | "kts" | "scala" | "kotlin" => &JAVA,
            "c" | "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "c++" => &C,
            "sh" | "bash" | "zsh" | "shell" | "console" | "makefile" | "dockerfile" => &SHELL,
            "yml" | "yaml" => &YAML,
            "toml" | "ini" | "cfg" => &TOML,
            "json" | "jsonc" => &JSON,
            "md" | "markdown" => &MARKDOWN,
            _ => return None,
        })
    }

    fn is_keyword(&self, word: &str) -> bool {
        !word.is_empty() && self.keywords.contains(&format!(" {word} "))
    }
}

/// Returns the colours of each line of a text.
pub(super) fn lines(text: &str, syntax: &Syntax) -> Vec<Vec<Colour>> {
    let mut open = None;
    text.lines().map(|line| Scan { line, syntax, at: 0, found: Vec::new() }.line(&mut open)).collect()
}

/// What a line leaves open: the class, and the text that ends it.
type Open = Option<(&'static str, &'static str)>;

struct Scan<'t> {
    line: &'t str,
    syntax: &'t Syntax,
    at: usize,
    found: Vec<Colour>,
}

impl Scan<'_> {
    fn line(mut self, open: &mut Open) -> Vec<Colour> {
        if let Some((class, end)) = *open {
            self.until(0, class, end, open);
        } else if self.syntax.is_markdown && self.line.starts_with(['#', '>']) {
            let class = if self.line.starts_with('#') { "k" } else { "c" };
            self.add(self.line.len(), class);
        }
        while let Some(letter) = self.rest().chars().next() {
            self.step(letter, open);
        }
        self.found
    }

    fn rest(&self) -> &str {
        &self.line[self.at..]
    }

    /// Colours the next `length` bytes and goes on after them.
    fn add(&mut self, length: usize, class: &'static str) {
        self.found.push((self.at..self.at + length, class));
        self.at += length;
    }

    /// Colours to the end of a string or a comment whose mark has `begin` bytes, or leaves it open.
    fn until(&mut self, begin: usize, class: &'static str, end: &'static str, open: &mut Open) {
        let inside = &self.rest()[begin..];
        let close = if class == "s" { unescaped(inside, end) } else { inside.find(end) };
        *open = close.is_none().then_some((class, end));
        let length = close.map_or(self.rest().len(), |at| begin + at + end.len());
        self.add(length, class);
    }

    fn step(&mut self, letter: char, open: &mut Open) {
        let syntax = self.syntax;
        let before = self.line[..self.at].chars().next_back();
        let is_after_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        let begins = |mark: &&&'static str| self.rest().starts_with(**mark);
        if let Some(quote) = syntax.long_quotes.iter().find(begins) {
            self.until(quote.len(), "s", quote, open);
        } else if syntax.line_comments.iter().any(|mark| self.rest().starts_with(mark))
            && (letter != '#' || before.is_none_or(char::is_whitespace))
        {
            self.add(self.rest().len(), "c");
        } else if let Some((begin, end)) =
            syntax.block_comment.filter(|(begin, _)| self.rest().starts_with(begin))
        {
            self.until(begin.len(), "c", end, open);
        } else if syntax.quotes.contains(&letter) && !(syntax.has_prose && is_after_word) {
            let inside = &self.rest()[letter.len_utf8()..];
            let mut quote = [0; 4];
            let close = unescaped(inside, letter.encode_utf8(&mut quote));
            self.add(close.map_or(self.rest().len(), |at| at + 2 * letter.len_utf8()), "s");
        } else if letter == '\'' && syntax.has_lifetimes {
            match character(self.rest()) {
                Some(length) => self.add(length, "s"),
                None => self.at += 1,
            }
        } else if letter.is_ascii_digit() && !is_after_word {
            let end = self.rest().find(|letter: char| !(letter.is_alphanumeric() || "._".contains(letter)));
            self.add(end.unwrap_or(self.rest().len()), "n");
        } else if letter.is_alphabetic() || "_#".contains(letter) {
            let rest = &self.rest()[letter.len_utf8()..];
            let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            let length = letter.len_utf8() + end.unwrap_or(rest.len());
            match syntax.is_keyword(&self.rest()[..length]) {
                true => self.add(length, "k"),
                false => self.at += length,
            }
        } else {
            self.at += letter.len_utf8();
        }
    }
}

/// Returns where `end` is, not counting those after a backslash.
fn unescaped(text: &str, end: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(end)?;
        let slashes = text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        if slashes % 2 == 0 {
            return Some(at);
        }
        from = at + end.len();
    }
}

/// Returns the length of a character in quotes; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    let from = if first == '\\' { 2 } else { first.len_utf8() };
    let close = inside.get(from..)?.find('\'')?;
    let is_short = if first == '\\' { close < 9 } else { close == 0 };
    is_short.then_some(1 + from + close + 1)
}

/// Renders a part of a line with its colours.
pub(super) fn coloured(line: &str, part: Range<usize>, colours: &[Colour]) -> Markup {
    let mut out = String::new();
    let mut at = part.start;
    for (range, class) in colours {
        let (start, end) = (range.start.clamp(at, part.end), range.end.clamp(at, part.end));
        if start == end {
            continue;
        }
        T(line.get(at..start).unwrap_or_default()).render_to(&mut out);
        out.push_str("<span class=\"");
        out.push_str(class);
        out.push_str("\">");
        T(line.get(start..end).unwrap_or_default()).render_to(&mut out);
        out.push_str("</span>");
        at = end;
    }
    T(line.get(at..part.end).unwrap_or_default()).render_to(&mut out);
    PreEscaped(out)
}

/// Renders a whole text with its colours.
pub(super) fn code(text: &str, syntax: &Syntax) -> Markup {
    let colours = lines(text, syntax);
    let each = text.lines().zip(&colours).map(|(line, colours)| coloured(line, 0..line.len(), colours).0);
    PreEscaped(each.map(|line| line + "\n").collect())
}

#[cfg(test)]
mod tests {
    use super::{Syntax, coloured, lines};

    /// Returns the coloured stretches of a text.
    fn told(name: &str, text: &str) -> String {
        let colours = lines(text, Syntax::of(name).expect("a language"));
        let of_line = |(line, colours): (&str, &Vec<super::Colour>)| {
            let each = colours.iter().map(|(range, class)| format!("{class}:{}", &line[range.clone()]));
            each.collect::<Vec<_>>().join(" ")
        };
        text.lines().zip(&colours).map(of_line).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn keywords_strings_numbers_and_comments_are_told_apart() {
        let table = [
            (
                "a.rs",
                "fn f<'a>(x: &'a str) { let c = '\\n'; 0x1f } // fn",
                "k:fn k:let s:'\\n' n:0x1f c:// fn",
            ),
            (
                "a.rs",
                "let s = \"a \\\" b\nfn\"; /* fn\n*/ fn",
                "k:let s:\"a \\\" b | s:fn\" c:/* fn | c:*/ k:fn",
            ),
            (
                "a.py",
                "def f():\n  '''if\n  '''; return f\"x\" # for",
                "k:def | s:'''if | s:  ''' k:return s:\"x\" c:# for",
            ),
            ("a.ts", "const a = `x\ny` + 'it\\'s'", "k:const s:`x | s:y` s:'it\\'s'"),
            ("a.go", "func main() { var x = nil }", "k:func k:var k:nil"),
            ("A.java", "public class A { int x1 = 1; }", "k:public k:class k:int n:1"),
            ("a.cpp", "#include \"a.h\"\nint x = 'c';", "k:#include s:\"a.h\" | k:int s:'c'"),
            ("a.sh", "if x; then echo don't $# # ja", "k:if k:then c:# ja"),
            ("a.yaml", "a: \"x\" # b\nc: true", "s:\"x\" c:# b | k:true"),
            ("a.json", "{\"a\": 1.5, \"b\": null}", "s:\"a\" n:1.5 s:\"b\" k:null"),
            ("README.md", "# Title\ntext `code` 'x\n> quote", "k:# Title | s:`code` | c:> quote"),
        ];
        for (name, text, wanted) in table {
            assert_eq!(told(name, text), wanted, "{name}: {text}");
        }
        assert!(Syntax::of("picture.png").is_none());
    }

    #[test]
    fn a_coloured_line_is_the_same_text_and_nothing_in_it_is_markup() {
        let line = "let a = \"<b>\"; // ü";
        let colours = &lines(line, Syntax::of("a.rs").expect("a language"))[0];
        let shown = coloured(line, 0..line.len(), colours).0;
        assert_eq!(
            shown,
            "<span class=\"k\">let</span> a = <span class=\"s\">&quot;&lt;b&gt;&quot;</span>; <span class=\"c\">// ü</span>"
        );
        assert_eq!(coloured(line, 9..11, colours).0, "<span class=\"s\">&lt;b</span>");
    }
}
