//! Turns captured output into an excerpt that can be stored in the log and shown to people.
//!
//! **Invariant:** an excerpt is within its limit, is text, and contains no character that moves a
//! terminal's cursor or reorders text.

use std::fmt::Write as _;

use provost_core::model::verdict::Excerpt;

use super::Output;

impl Output {
    /// Returns at most `limit` bytes: the whole output, or half of the limit each from its beginning and
    /// its end.
    pub fn excerpt(&self, limit: usize) -> Excerpt {
        let half = limit / 2;
        if self.is_whole() && self.bytes <= limit as u64 {
            let all = visible(&[self.head.as_slice(), &self.tail].concat());
            if all.len() <= limit {
                return Excerpt { head: all, tail: String::new(), bytes: self.bytes };
            }
        }
        let mut head = visible(first(&self.head, half));
        while head.len() > half {
            head.pop();
        }
        let mut tail = visible(last(&self.end(half), half));
        let mut start = tail.len().saturating_sub(half);
        while !tail.is_char_boundary(start) {
            start += 1;
        }
        tail.drain(..start);
        Excerpt { head, tail, bytes: self.bytes }
    }

    /// Returns the last `count` bytes that were kept, if they are contiguous; otherwise the tail.
    fn end(&self, count: usize) -> Vec<u8> {
        let missing = count.saturating_sub(self.tail.len());
        if missing == 0 || !self.is_whole() {
            return self.tail.clone();
        }
        let from_head = &self.head[self.head.len().saturating_sub(missing)..];
        [from_head, &self.tail].concat()
    }
}

/// Returns at most `count` bytes, without a partial character at the cut.
fn first(bytes: &[u8], count: usize) -> &[u8] {
    let mut end = count.min(bytes.len());
    while end > count.saturating_sub(4) && end < bytes.len() && is_continuation(bytes[end]) {
        end -= 1;
    }
    &bytes[..end]
}

fn last(bytes: &[u8], count: usize) -> &[u8] {
    let mut start = bytes.len().saturating_sub(count);
    for _ in 0..3 {
        if bytes.get(start).is_some_and(|byte| is_continuation(*byte)) {
            start += 1;
        }
    }
    &bytes[start..]
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(is_dangerous) {
        return text.into_owned();
    }
    let mut shown = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        match c {
            c if !is_dangerous(c) => shown.push(c),
            // Unicode has a picture for each ASCII control character.
            c if c.is_ascii() => {
                shown.push(char::from_u32(0x2400 + u32::from(c)).filter(|_| c != '\x7f').unwrap_or('␡'));
            }
            c => {
                let _ = write!(shown, "<U+{:04X}>", u32::from(c));
            }
        }
    }
    shown
}

/// Returns true for control characters and for characters that hide or reorder others.
fn is_dangerous(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::process::Output;

    fn output(text: &[u8]) -> Output {
        Output { head: text.to_vec(), tail: Vec::new(), bytes: text.len() as u64 }
    }

    #[test]
    fn a_short_output_is_kept_whole() {
        let excerpt = output("grün\n\tok\n".as_bytes()).excerpt(64);
        assert_eq!((excerpt.head.as_str(), excerpt.tail.as_str(), excerpt.bytes), ("grün\n\tok\n", "", 10));
    }

    #[test]
    fn a_long_output_is_cut_between_characters() {
        for limit in 8..40 {
            let excerpt = output("äöü€🦀".repeat(40).as_bytes()).excerpt(limit);
            assert!(excerpt.head.len() <= limit / 2 && excerpt.tail.len() <= limit / 2, "{excerpt:?}");
            assert!(!excerpt.head.contains('\u{fffd}') && !excerpt.tail.contains('\u{fffd}'), "{excerpt:?}");
            assert!(excerpt.tail.ends_with('🦀') || excerpt.tail.is_empty());
        }
    }

    #[test]
    fn what_could_fool_a_terminal_is_made_visible() {
        let excerpt = output("\x1b[2Jred\r\x07\x7f a\u{202e}b \u{85}".as_bytes()).excerpt(1024);
        assert_eq!(excerpt.head, "␛[2Jred␍␇␡ a<U+202E>b <U+0085>");
    }

    #[test]
    fn garbage_stays_within_the_limit() {
        let garbage: Vec<u8> = (0..100_000u32).map(|n| (n * 7 % 251) as u8 | 0x80).collect();
        for limit in [0, 1, 7, 1024, 8192] {
            let excerpt = output(&garbage).excerpt(limit);
            assert!(excerpt.head.len() + excerpt.tail.len() <= limit);
            assert_eq!(excerpt.bytes, 100_000);
        }
    }
}
