//! Formats tables for people, within the width of a terminal.

/// Width if the terminal's is unknown.
const USUAL: usize = 80;
const GAP: &str = "  ";

/// Formats a head and rows with the same number of cells. The last column takes the rest of the line and is
/// cut there.
pub(crate) fn lines(head: &[&str], rows: &[Vec<String>]) -> String {
    let width_of = |text: &str| text.chars().count();
    let widths: Vec<usize> = (0..head.len())
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| width_of(cell));
            cells.chain([width_of(head[at])]).max().unwrap_or(0)
        })
        .collect();
    let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP.len()).sum();
    let room = width().saturating_sub(before).max(12);
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
        let cell = if is_last { cut(cell, room) } else { format!("{cell:<width$}{GAP}", width = widths[at]) };
        text.push_str(&cell);
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

fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    seen.or(told).filter(|width| *width >= 40).unwrap_or(USUAL)
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
    }
}
