//! A long text, cut where Markdown starts afresh, so that a plan of ten thousand steps is never in
//! memory as one tree.
//!
//! A heading that begins a line closes every paragraph, list and quotation before it; only a fence, a
//! block of HTML or a link definition reaches over it. Where one of these might, no cut is made.
//!
//! **Invariant:** the pieces read one after the other give exactly what the whole gives.

/// Pieces are at least this long; a shorter text is one piece.
pub const USUAL: usize = 128 * 1024;

/// Where the piece that begins at `from` ends.
pub fn end(text: &str, from: usize, at_least: usize) -> usize {
    let rest = text.get(from..).unwrap_or("");
    if rest.len() <= at_least {
        return text.len();
    }
    let mut fence: Option<&str> = None;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        match fence {
            Some(open) => {
                if closes(line, open) {
                    fence = None;
                }
            }
            None if at >= at_least && is_heading(line) => return from + at,
            None => match opening(line) {
                Opening::Nothing => {}
                Opening::Fence(mark) => fence = Some(mark),
                // Whether it reaches over a heading depends on what it stands in: no more cuts.
                Opening::Doubtful => return text.len(),
            },
        }
        at += line.len();
    }
    text.len()
}

/// A link defined anywhere is known everywhere: such a text stays whole.
pub fn can_be_cut(text: &str) -> bool {
    !text.contains("]:")
}

fn is_heading(line: &str) -> bool {
    let after = line.trim_start_matches('#');
    let level = line.len() - after.len();
    (1..=6).contains(&level) && after.starts_with([' ', '\t'])
}

enum Opening<'t> {
    Nothing,
    /// Of a fence that begins its line: its run of marks.
    Fence(&'t str),
    Doubtful,
}

fn opening(line: &str) -> Opening<'_> {
    if let Some(mark) = run(line) {
        let info = &line[mark.len()..];
        // A run of backticks with more of them behind is code in a line.
        return if mark.starts_with('`') && info.contains('`') {
            Opening::Nothing
        } else {
            Opening::Fence(mark)
        };
    }
    let doubtful = line.contains("```") || line.contains("~~~") || line.contains('<') || line.contains('\r');
    if doubtful { Opening::Doubtful } else { Opening::Nothing }
}

/// Three or more backticks or tildes at the start.
fn run(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| &line[..length])
}

fn closes(line: &str, open: &str) -> bool {
    let inner = line.trim_start_matches(' ');
    if line.len() - inner.len() > 3 {
        return false;
    }
    run(inner).is_some_and(|mark| {
        mark.starts_with(&open[..1])
            && mark.len() >= open.len()
            && inner[mark.len()..].trim_matches([' ', '\t', '\n']).is_empty()
    })
}
