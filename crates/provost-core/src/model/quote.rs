//! Quotes names that an agent may have chosen, so that they cannot be taken for other text.
//!
//! A file name may hold line breaks, headings, escape sequences and invisible characters. provost shows it on
//! one line, escaped, on terminals, in prompts and in logs.

use std::borrow::Cow;

/// Returns the text on one line: control characters, line separators and characters that change the direction
/// of text become escapes.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for each in text.chars() {
        match is_plain(each) {
            true => out.push(each),
            false => out.extend(each.escape_default()),
        }
    }
    Cow::Owned(out)
}

/// Returns the text as inline code of Markdown that no content can close.
pub fn code(text: &str) -> String {
    let line = one_line(text.trim_end());
    let longest = line.split(|each| each != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let gap = if longest > 0 { " " } else { "" };
    format!("{fence}{gap}{line}{gap}{fence}")
}

fn is_plain(each: char) -> bool {
    let turns = matches!(each, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !each.is_control() && !turns && each != '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::{code, one_line};

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(one_line("src/ümlaut 🎉.rs"), "src/ümlaut 🎉.rs");
        assert_eq!(one_line("a\n# b\u{1b}[2J\u{202e}"), r"a\n# b\u{1b}[2J\u{202e}");
    }

    #[test]
    fn code_cannot_be_closed_from_inside() {
        assert_eq!(code("src/a.rs"), "`src/a.rs`");
        assert_eq!(code("a`b``c"), "``` a`b``c ```");
        assert_eq!(code("a\n`"), r"`` a\n` ``");
    }
}
