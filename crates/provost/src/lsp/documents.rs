//! The open documents of the editor, with the plan that each text is.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use provost_core::language::parse;
use provost_core::model::plan::{Plan, Span, Step};
use serde::Deserialize;
use serde_json::{Value, json};

use super::positions::{Lines, Position, Range};

/// Bytes that stay as they are in the path of an address.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One version of an open document.
pub(super) struct Document {
    pub uri: String,
    /// `None` if the document is not a file.
    pub path: Option<PathBuf>,
    pub version: i64,
    pub text: String,
    lines: Lines,
    plan: OnceLock<Plan>,
}

/// A change of a document: a part, or the whole text if there is no range.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    range: Option<Range>,
    text: String,
}

impl Document {
    pub(super) fn new(uri: String, version: i64, text: String) -> Self {
        let (path, lines) = (path_of(&uri), Lines::new(&text));
        Self { uri, path, version, text, lines, plan: OnceLock::new() }
    }

    /// Returns the next version.
    pub(super) fn changed(&self, version: i64, changes: Vec<Change>) -> Self {
        let mut text = self.text.clone();
        for change in changes {
            match change.range {
                None => text = change.text,
                Some(range) => {
                    let lines = Lines::new(&text);
                    let start = lines.offset(&text, range.start);
                    let end = lines.offset(&text, range.end).max(start);
                    text.replace_range(start..end, &change.text);
                }
            }
        }
        Self::new(self.uri.clone(), version, text)
    }

    pub(super) fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| parse::plan(&self.text).plan)
    }

    /// Returns whether this is a plan, by its name or by `type: plan`. Other Markdown is left alone.
    pub(super) fn is_plan(&self) -> bool {
        let name = self.path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let name = name.unwrap_or_default();
        let is_named = name.strip_suffix(".md").is_some_and(|stem| {
            stem.strip_prefix("PLAN").is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        let front = self.text.trim_start_matches('\u{feff}').strip_prefix("---").unwrap_or_default();
        let mut keys = front.lines().take_while(|line| line.trim_end() != "---");
        is_named || keys.any(|line| line.split_whitespace().eq(["type:", "plan"]))
    }

    pub(super) fn offset(&self, position: Position) -> usize {
        self.lines.offset(&self.text, position)
    }

    pub(super) fn range(&self, span: Span) -> Range {
        self.lines.range(&self.text, span)
    }

    pub(super) fn span(&self, range: Range) -> Span {
        Span::new(self.offset(range.start), self.offset(range.end))
    }

    /// Returns the lines from the one with the first byte to the one with the last, from 0.
    pub(super) fn lines_of(&self, span: Span) -> (usize, usize) {
        let end = span.start + span.of(&self.text).trim_end().len();
        (self.lines.line(span.start), self.lines.line(end.saturating_sub(1).max(span.start)))
    }

    /// Returns the bytes of the line that holds an offset, without its end.
    pub(super) fn line_at(&self, offset: usize) -> Span {
        self.lines.span(&self.text, self.lines.line(offset))
    }

    /// Returns the step whose section holds an offset.
    pub(super) fn step_at(&self, offset: usize) -> Option<&Step> {
        self.plan().steps.iter().find(|step| step.section.start <= offset && offset <= step.section.end)
    }

    /// Returns an edit of this document for the client.
    pub(super) fn edit(&self, span: Span, text: &str) -> Value {
        json!({ "range": self.range(span), "newText": text })
    }

    /// Returns edits as a change of the workspace.
    pub(super) fn workspace_edit(&self, edits: Vec<Value>) -> Value {
        json!({ "changes": { &self.uri: edits } })
    }
}

/// Returns the path of a `file:` address.
pub(super) fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = &rest[rest.find('/')?..];
    Some(PathBuf::from(OsString::from_vec(percent_decode_str(path).collect())))
}

pub(super) fn uri_of(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), IN_PATH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(range: Option<[u32; 4]>, text: &str) -> Change {
        let range = range.map(|[line, character, to_line, to_character]| Range {
            start: Position { line, character },
            end: Position { line: to_line, character: to_character },
        });
        Change { range, text: text.to_owned() }
    }

    #[test]
    fn changes_apply_one_after_the_other() {
        let first = Document::new("file:///PLAN.md".to_owned(), 1, "ü😀\r\nb\r\n".to_owned());
        let changes = vec![change(Some([0, 1, 0, 3]), "x"), change(Some([1, 0, 1, 1]), "c\r\nd")];
        assert_eq!(first.changed(2, changes).text, "üx\r\nc\r\nd\r\n");
        assert_eq!(first.changed(2, vec![change(None, "new")]).text, "new");
        // A range that ends before it starts inserts.
        assert_eq!(first.changed(2, vec![change(Some([1, 1, 0, 0]), "!")]).text, "ü😀\r\nb!\r\n");
    }

    #[test]
    fn addresses_of_files_are_paths() {
        let path = Path::new("/a b/ü/PLAN.md");
        assert_eq!(uri_of(path), "file:///a%20b/%C3%BC/PLAN.md");
        assert_eq!(path_of(&uri_of(path)).as_deref(), Some(path));
        assert_eq!(path_of("file://localhost/x").as_deref(), Some(Path::new("/x")));
        assert_eq!(path_of("untitled:Untitled-1"), None);
    }

    #[test]
    fn a_plan_is_known_by_its_name_or_its_type() {
        let is_plan = |uri: &str, text: &str| Document::new(uri.to_owned(), 1, text.to_owned()).is_plan();
        assert!(is_plan("file:///a/PLAN.md", "x"));
        assert!(is_plan("file:///a/PLAN-fix.md", ""));
        assert!(is_plan("file:///a/notes.md", "---\r\ntype:  plan\r\n---\r\n"));
        assert!(is_plan("untitled:1", "---\ntype: plan\n---\n"));
        assert!(!is_plan("file:///a/README.md", "# Plan\ntype: plan\n"));
        assert!(!is_plan("file:///a/PLANNING.md", "---\nstatus: draft\n---\ntype: plan\n"));
    }
}
