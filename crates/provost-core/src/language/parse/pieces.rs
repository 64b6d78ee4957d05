//! Cuts a long text at places where Markdown starts afresh, so that a plan of ten thousand steps is never in
//! memory as one tree.
//!
//! A heading at the start of a line closes every paragraph, list and quotation before it; only a fence, a
//! block of HTML or a link definition can continue past it. If one of these might, no cut is made.
//!
//! **Invariant:** reading the pieces one after the other gives exactly the result of reading the whole.

/// Minimum length of a piece; a shorter text is one piece.
pub(super) const USUAL: usize = 128 * 1024;

/// Returns the end of the piece that begins at `from`.
pub(super) fn end(text: &str, from: usize, at_least: usize) -> usize {
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
                // It may or may not continue past a heading, so make no more cuts.
                Opening::Doubtful => return text.len(),
            },
        }
        at += line.len();
    }
    text.len()
}

/// A link definition applies to the whole text, so such a text stays whole.
pub(super) fn can_be_cut(text: &str) -> bool {
    !text.contains("]:")
}

fn is_heading(line: &str) -> bool {
    let after = line.trim_start_matches('#');
    let level = line.len() - after.len();
    (1..=6).contains(&level) && after.starts_with([' ', '\t'])
}

enum Opening<'t> {
    Nothing,
    /// A fence that begins its line, with its run of marks.
    Fence(&'t str),
    Doubtful,
}

fn opening(line: &str) -> Opening<'_> {
    if let Some(mark) = run(line) {
        let info = &line[mark.len()..];
        // A run of backticks with more backticks after it is inline code.
        return if mark.starts_with('`') && info.contains('`') {
            Opening::Nothing
        } else {
            Opening::Fence(mark)
        };
    }
    let doubtful = line.contains("```") || line.contains("~~~") || line.contains('<') || line.contains('\r');
    if doubtful { Opening::Doubtful } else { Opening::Nothing }
}

/// Returns three or more backticks or tildes at the start of the line.
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
