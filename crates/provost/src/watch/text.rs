//! Text for the screen: escapes foreign text, then cuts or wraps it to a width.
//!
//! Plans, agents and checks may print anything. Colours are removed; other terminal sequences and invisible
//! characters are shown as symbols.
//!
//! **Invariant:** the result of [`visible`] moves no cursor and changes no writing direction.

use std::fmt::Write as _;

use ratatui::style::Style;
use ratatui::text::Span;

const TAB: usize = 4;
const MARKS: u32 = 2;

/// Returns the text with invisible characters replaced by symbols; keeps lines.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // More combining marks on one character than any language has would cover the lines above and below.
    let mut marks = 0;
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        if let Some(after) = after_colour(rest) {
            rest = after;
            continue;
        }
        rest = &rest[sign.len_utf8()..];
        marks = if is_mark(sign) { marks + 1 } else { 0 };
        match sign {
            '\n' => out.push('\n'),
            '\t' => out.extend(std::iter::repeat_n(' ', TAB)),
            '\r' if rest.starts_with('\n') => {}
            // Unicode has a symbol for each ASCII control character.
            '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(sign)).unwrap_or('?')),
            '\u{7f}' => out.push('␡'),
            sign if sign.is_control() || is_unseen(sign) || marks > MARKS => {
                let _ = write!(out, "<U+{:04X}>", u32::from(sign));
            }
            sign => out.push(sign),
        }
    }
    out
}

/// Returns the visible text in one line.
pub(super) fn line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns a line being typed, with its spaces.
pub(super) fn line_as_typed(text: &str) -> String {
    visible(&text.replace('\n', " "))
}

/// Returns the text after a colour sequence, if it starts with one.
fn after_colour(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("\u{1b}[")?;
    inside.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m')
}

/// Returns whether the character changes the writing direction, changes the character before it, or has no
/// width.
fn is_unseen(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether the character combines with the one before it.
fn is_mark(sign: char) -> bool {
    !sign.is_ascii() && width(sign.encode_utf8(&mut [0; 4])) == 0
}

/// Returns the number of columns it takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Cuts a line to `room` columns and marks the cut.
pub(super) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    if room == 0 { String::new() } else { format!("{}…", &text[..split(text, room - 1)]) }
}

/// Cuts or pads a text to exactly `room` columns.
pub(super) fn fit(text: &str, room: usize) -> String {
    let mut cut = cut(text, room);
    cut.extend(std::iter::repeat_n(' ', room.saturating_sub(width(&cut))));
    cut
}

/// Wraps a text to `room` columns, at spaces if there are any; continued lines keep the indentation of their
/// line.
pub(super) fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(8);
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent: String = line.chars().take_while(|c| *c == ' ').take(room / 2).collect();
        let mut rest = line.trim_end().to_owned();
        while width(&rest) > room {
            let fits = split(&rest, room);
            let at = rest[..fits].rfind(' ').filter(|at| *at > indent.len()).unwrap_or(fits);
            // At least one character must fit, however wide it is.
            let next = rest[indent.len()..].chars().next().map_or(0, char::len_utf8);
            let at = at.max(indent.len() + next);
            let left = rest[at..].trim_start().to_owned();
            lines.push(rest[..at].to_owned());
            rest = format!("{indent}{left}");
        }
        lines.push(rest);
    }
    lines
}

/// Returns the length in bytes of the longest prefix that takes at most `room` columns.
fn split(text: &str, room: usize) -> usize {
    let (mut used, mut end) = (0, 0);
    let span = Span::raw(text);
    for grapheme in span.styled_graphemes(Style::new()) {
        let wide = width(grapheme.symbol);
        if used + wide > room {
            break;
        }
        (used, end) = (used + wide, end + grapheme.symbol.len());
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_obeyed() {
        assert_eq!(visible("a\u{1b}[31;1mred\u{1b}[0m\n"), "ared\n");
        assert_eq!(visible("\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}5n"), "␛[2J␛]0;title␇<U+009B>5n");
        assert_eq!(visible("x\u{202e}y\u{200b}z\u{2066}"), "x<U+202E>y<U+200B>z<U+2066>");
        assert_eq!(visible("one\r\ntwo\rthree\0\tend"), "one\ntwo␍three␀    end");
        assert_eq!(visible("\u{1b}["), "␛[");
        assert_eq!(visible("e\u{301}"), "e\u{301}");
        assert_eq!(visible("e\u{301}\u{302}\u{303}\u{304}"), "e\u{301}\u{302}<U+0303><U+0304>");
        assert_eq!(line(" a\nb\u{1b}[K "), "a b␛[K");
    }

    #[test]
    fn wide_signs_take_two_columns_and_are_not_halved() {
        assert_eq!(cut("日本語テキスト", 5), "日本…");
        assert_eq!(fit("日本語", 8), "日本語  ");
        assert_eq!(cut("plain", 5), "plain");
        assert_eq!(wrap("  日本語日本語 x", 8), ["  日本語", "  日本語", "  x"]);
        assert_eq!(wrap("one two three\n\nfour", 9), ["one two", "three", "", "four"]);
        assert_eq!(wrap("abcdefghijklmnop", 8), ["abcdefgh", "ijklmnop"]);
    }
}
