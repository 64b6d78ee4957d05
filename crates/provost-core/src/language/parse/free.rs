//! Builds free text of many lines from its visible spans.

use crate::model::plan::Span;

/// Free text, collected as spans and built once.
#[derive(Default)]
pub(super) struct Free {
    pub start: Option<usize>,
    pub visible: Vec<Span>,
    pub hidden: Vec<Span>,
}

impl Free {
    pub(super) fn span(&self) -> Span {
        let start = self.start.or(self.visible.first().map(|span| span.start)).unwrap_or(0);
        Span::new(start, self.visible.last().map_or(start, |span| span.end).max(start))
    }

    /// Returns the visible lines as written, without the hidden bytes.
    pub(super) fn build(&self, text: &str) -> String {
        let (Some(first), Some(last)) = (self.visible.first(), self.visible.last()) else {
            return String::new();
        };
        let mut built = String::with_capacity(last.end - first.start);
        let mut visible = self.visible.iter().peekable();
        let mut hidden = self.hidden.iter().peekable();
        let mut at = first.start;
        let end = text[last.end..].find('\n').map_or(text.len(), |to| last.end + to);
        let region = &text[at..end.min(last.end.max(at))];
        for line in region.split_inclusive('\n') {
            let span = Span::new(at, at + line.len());
            at = span.end;
            while visible.next_if(|shown| shown.end <= span.start && !shown.is_empty()).is_some() {}
            let shows = visible.peek().is_some_and(|shown| shown.start < span.end);
            if !shows && !line.trim().is_empty() {
                continue;
            }
            let mut from = span.start;
            while let Some(cut) = hidden.peek().filter(|cut| cut.start < span.end) {
                built.push_str(text.get(from..cut.start.max(from)).unwrap_or(""));
                from = from.max(cut.end.min(span.end));
                if cut.end > span.end {
                    break;
                }
                hidden.next();
            }
            built.push_str(text.get(from..span.end).unwrap_or(""));
            if from > span.start && !built.ends_with('\n') && line.ends_with('\n') {
                built.push('\n');
            }
        }
        let mut built = if built.contains('\r') { built.replace("\r\n", "\n") } else { built };
        built.truncate(built.trim_end().len());
        if built.starts_with(char::is_whitespace) { built.trim_start().to_string() } else { built }
    }
}
