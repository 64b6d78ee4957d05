//! Makes foreign text harmless for a terminal.
//!
//! Plans, agents, checks and other machines may write anything. Colours are removed, or kept where the text is
//! provost's own; other terminal sequences and invisible characters are shown as symbols.
//!
//! **Invariant:** the result of [`visible`] moves no cursor and changes no writing direction.

use std::fmt::Write as _;

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

/// Returns the text with its colours, and with every other invisible character replaced by a symbol.
pub(crate) fn visible_in_colour(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let sequence =
            rest.match_indices('\u{1b}').find_map(|(at, _)| Some((at, after_colour(&rest[at..])?)));
        let Some((at, after)) = sequence else {
            out.push_str(&visible(rest));
            return out;
        };
        out.push_str(&visible(&rest[..at]));
        out.push_str(&rest[at..rest.len() - after.len()]);
        rest = after;
    }
}

/// Returns the visible text in one line.
pub(crate) fn line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns a line being typed, with its spaces.
pub(crate) fn line_as_typed(text: &str) -> String {
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
    !sign.is_ascii() && Span::raw(&*sign.encode_utf8(&mut [0; 4])).width() == 0
}

#[cfg(test)]
mod tests {
    use super::visible_in_colour;

    #[test]
    fn colours_stay_and_nothing_else_does() {
        let mixed = "\u{1b}[2J\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}";
        assert_eq!(visible_in_colour(mixed), "␛[2J\u{1b}[31mred\u{1b}[0m␛]0;title␇");
    }
}
