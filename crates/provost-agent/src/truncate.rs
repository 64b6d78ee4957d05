//! Truncates text at character boundaries, with a note in place of the omitted part.

/// Returns the largest character boundary at or below `at`.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the beginning and the end of a long text, with a note in the middle that says how to read the
/// rest.
pub(crate) fn middle(text: &str, max: usize, how_to_read_on: &str) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = floor(text, max * 2 / 3);
    let tail = ceil(text, text.len() - max / 3);
    let left_out = tail - head;
    format!("{}\n[… {left_out} bytes left out; {how_to_read_on} …]\n{}", &text[..head], &text[tail..])
}

fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Returns the first line of a text, truncated, for listings.
pub(crate) fn line(text: &str, max: usize) -> String {
    indented_line(text.trim_start(), max)
}

/// Returns the first line with its indentation, cut after `max` bytes.
pub(crate) fn indented_line(text: &str, max: usize) -> String {
    let first = text.lines().next().unwrap_or_default().trim_end();
    if first.len() <= max { first.to_owned() } else { format!("{}…", &first[..floor(first, max)]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_both_ends_and_whole_characters() {
        assert_eq!(middle("short", 10, "read on"), "short");
        let cut = middle(&"ä".repeat(100), 31, "read on");
        assert!(cut.starts_with("ä") && cut.ends_with("ä"), "{cut}");
        assert!(cut.contains("bytes left out; read on"), "{cut}");
        assert!(cut.len() < 31 + 40, "{cut}");
        assert_eq!(line("one\ntwo", 10), "one");
        assert_eq!(line("äöü", 3), "ä…");
        assert_eq!(
            (line("  one  ", 10), indented_line("  one  ", 10)),
            ("one".to_owned(), "  one".to_owned())
        );
    }
}
