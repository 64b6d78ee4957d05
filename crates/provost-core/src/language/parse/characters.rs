//! Finds invisible characters and control characters.
//!
//! A person approves a plan by looking at it, so nothing in it may be invisible, reorder its line, or control
//! a terminal.
//!
//! **Invariant:** one pass over the bytes; plain ASCII costs one table lookup per byte.

use crate::language::diagnostic::say;
use crate::language::parse::Sink;
use crate::model::plan::Span;

/// Bytes that may begin such a character: controls, and the lead bytes of every Unicode block with invisible
/// characters.
const SUSPECT: [bool; 256] = suspect();

const fn suspect() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = byte != b'\t' as usize && byte != b'\n' as usize && byte != b'\r' as usize;
        byte += 1;
    }
    table[0x7f] = true;
    // C2 AD and C1 controls, CD 8F, D8 9C, E1 (Hangul fillers, Mongolian), E2 80/81, E3 85 A4, EF (BOM,
    // variation selectors, half-width filler), F3 A0 (tags).
    table[0xc2] = true;
    table[0xcd] = true;
    table[0xd8] = true;
    table[0xe1] = true;
    table[0xe2] = true;
    table[0xe3] = true;
    table[0xef] = true;
    table[0xf3] = true;
    table
}

/// Reports every character that must not be in a plan.
pub(super) fn inspect(text: &str, sink: &mut Sink) {
    let bytes = text.as_bytes();
    let mut at = if text.starts_with('\u{feff}') { 3 } else { 0 };
    while let Some(step) = bytes[at..].iter().position(|byte| SUSPECT[*byte as usize]) {
        at += step;
        let Some(found) = text[at..].chars().next() else { return };
        let end = at + found.len_utf8();
        if is_control(found) {
            sink.push(say::control(Span::new(at, end), found));
        } else if is_invisible(found) && !belongs_to_emoji(text, at, end, found) {
            sink.push(say::invisible(Span::new(at, end), found));
        }
        at = end;
    }
}

fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether the character is part of an emoji: U+FE0F after one, or U+200D between two.
fn belongs_to_emoji(text: &str, at: usize, end: usize, c: char) -> bool {
    let before = text[..at].chars().next_back();
    match c {
        '\u{fe0f}' => before.is_some_and(|b| is_pictograph(b) || matches!(b, '0'..='9' | '#' | '*')),
        '\u{200d}' => {
            let joined = before.is_some_and(|b| is_pictograph(b) || b == '\u{fe0f}');
            joined && text[end..].chars().next().is_some_and(is_pictograph)
        }
        _ => false,
    }
}

/// Recognises an emoji, roughly by Unicode block.
pub(super) fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{27bf}'
        | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
        | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Reports the first non-ASCII characters of a value that is run or names a file.
pub(super) fn ascii(text: &str, span: Span, what: &str, sink: &mut Sink) {
    let raw = span.of(text);
    if raw.is_ascii() {
        return;
    }
    for (at, c) in raw.char_indices().filter(|(_, c)| !c.is_ascii()).take(3) {
        let at = span.start + at;
        let place = Span::new(at, at + c.len_utf8());
        if c == '\u{200d}' {
            // U+200D is allowed between emoji in prose, but not in a value that is run or names a file.
            sink.push(say::invisible(place, c));
        } else {
            sink.push(say::non_ascii(place, c, what));
        }
    }
}
