//! Text for the screen: cuts or wraps foreign text to a width, after [`crate::visible_text`] made it visible.

use ratatui::style::Style;
use ratatui::text::Span;

pub(crate) use crate::visible_text::{line, line_as_typed, visible};

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
