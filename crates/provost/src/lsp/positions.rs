//! Converts byte offsets to positions of the protocol and back.
//!
//! A position is a line and a number of UTF-16 units from its start, both from 0. A line ends with `\n`,
//! `\r\n` or `\r`.
//!
//! **Invariant:** every position gives an offset between two characters of the text.

use provost_core::model::plan::Span;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Position {
    pub line: u32,
    /// UTF-16 units.
    pub character: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Range {
    pub start: Position,
    pub end: Position,
}

/// The starts of all lines of a text.
#[derive(Debug)]
pub(super) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let is_end = |at: usize| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let after = (0..bytes.len()).filter(|at| is_end(*at)).map(|at| at + 1);
        Self { starts: std::iter::once(0).chain(after).collect() }
    }

    /// Returns the line that a byte is in, from 0.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// Returns the bytes of a line without its end.
    pub(super) fn span(&self, text: &str, line: usize) -> Span {
        let Some(start) = self.starts.get(line).copied() else { return Span::at(text.len()) };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        Span::new(start, start + text[start..end].trim_end_matches(['\r', '\n']).len())
    }

    pub(super) fn position(&self, text: &str, offset: usize) -> Position {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.line(offset);
        let units = text[self.starts[line]..offset].chars().map(char::len_utf16).sum::<usize>();
        Position { line: line as u32, character: units as u32 }
    }

    pub(super) fn range(&self, text: &str, span: Span) -> Range {
        Range { start: self.position(text, span.start), end: self.position(text, span.end.max(span.start)) }
    }

    /// Returns the offset of a position; beyond the end of a line, the end of the line.
    pub(super) fn offset(&self, text: &str, position: Position) -> usize {
        let span = self.span(text, position.line as usize);
        let mut units = 0;
        for (at, letter) in span.of(text).char_indices() {
            units += letter.len_utf16() as u32;
            if units > position.character {
                return span.start + at;
            }
        }
        span.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset, line and character of every character of a text.
    fn table(text: &str) -> Vec<(usize, u32, u32)> {
        let lines = Lines::new(text);
        let offsets = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        offsets
            .map(|at| {
                let position = lines.position(text, at);
                (at, position.line, position.character)
            })
            .collect()
    }

    #[test]
    fn characters_are_counted_in_utf_16() {
        // An emoji is two units and four bytes, an umlaut one unit and two bytes.
        assert_eq!(table("ü😀x"), [(0, 0, 0), (2, 0, 1), (6, 0, 3), (7, 0, 4)]);
        let text = "a\n😀ü\n";
        let lines = Lines::new(text);
        for (offset, line, character) in table(text) {
            assert_eq!(lines.offset(text, Position { line, character }), offset);
        }
        // The middle of an emoji is its start, and a place beyond the line is its end.
        assert_eq!(lines.offset(text, Position { line: 1, character: 1 }), 2);
        assert_eq!(lines.offset(text, Position { line: 1, character: 99 }), 8);
        assert_eq!(lines.offset(text, Position { line: 99, character: 0 }), text.len());
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        let text = "a\r\nb\rc\n\nd";
        let lines = Lines::new(text);
        let all: Vec<&str> = (0..6).map(|line| lines.span(text, line).of(text)).collect();
        assert_eq!(all, ["a", "b", "c", "", "d", ""]);
        assert_eq!(lines.position(text, 5), Position { line: 2, character: 0 });
        assert_eq!(lines.offset(text, Position { line: 0, character: 9 }), 1);
        assert_eq!(Lines::new("").position("", 0), Position { line: 0, character: 0 });
    }

    #[test]
    fn an_offset_inside_a_character_is_its_start() {
        let text = "😀";
        assert_eq!(Lines::new(text).position(text, 2), Position { line: 0, character: 0 });
        assert_eq!(Lines::new(text).position(text, 77), Position { line: 0, character: 2 });
    }
}
