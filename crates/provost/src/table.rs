//! Formats tables for people: within the width of a terminal, and whole in a file or a pipe.

use std::io::IsTerminal as _;

/// Width if the terminal's is unknown.
const USUAL: usize = 80;
const GAP: &str = "  ";

/// Formats a head and rows with the same number of cells. On a terminal, the last column takes the rest of
/// the line and is cut there. Cells may be coloured.
pub(crate) fn lines(head: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..head.len())
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| width_of(cell));
            cells.chain([width_of(head[at])]).max().unwrap_or(0)
        })
        .collect();
    let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP.len()).sum();
    let room = width().map_or(usize::MAX, |width| width.saturating_sub(before).max(12));
    let mut text = line(&head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>(), &widths, room);
    for row in rows {
        text.push_str(&line(row, &widths, room));
    }
    text
}

fn line(row: &[String], widths: &[usize], room: usize) -> String {
    let mut text = String::new();
    for (at, cell) in row.iter().enumerate() {
        let is_last = at + 1 == widths.len();
        if is_last {
            text.push_str(&cut(cell, room));
        } else {
            let gap = widths[at].saturating_sub(width_of(cell)) + GAP.len();
            text.push_str(&format!("{cell}{}", " ".repeat(gap)));
        }
    }
    format!("{}\n", text.trim_end())
}

/// Cuts a text to `room` characters and marks the cut.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Returns the number of characters that a terminal shows of the text: colours take no room.
fn width_of(text: &str) -> usize {
    let mut is_escape = false;
    let shown = text.chars().filter(|letter| {
        let was_escape = is_escape;
        is_escape = *letter == '\u{1b}' || is_escape && *letter != 'm';
        !is_escape && !was_escape
    });
    shown.count()
}

/// Returns the width of the terminal; `None` if standard output is none.
fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    Some(seen.or(told).filter(|width| *width >= 40).unwrap_or(USUAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_cut_and_the_others_are_not() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = line(&row(["a", "a long title that goes on"]), &[4, 25], 10);
        assert_eq!(text, "a     a long ti…\n");
        assert_eq!(line(&row(["ab", ""]), &[4, 5], 10), "ab\n");
        assert_eq!(cut("žluťoučký", 9), "žluťoučký");
        assert_eq!(width_of("\u{1b}[33midle\u{1b}[0m"), 4);
    }
}
