//! Shows what a call would do before the person allows it: the change of a file, or the command.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use similar::TextDiff;

use crate::terminal;

/// Time limit for comparing two texts; after it the difference is longer than necessary.
const TIME_LIMIT: Duration = Duration::from_millis(300);
/// Most lines of a change that are shown.
const LINES: usize = 60;

/// A call as the person sees it.
pub(super) struct CallPreview {
    /// The change or the command, line by line.
    pub lines: Vec<String>,
    pub question: String,
    /// What "always" allows.
    pub kind: String,
}

pub(super) fn of(tool: &str, arguments: &Value, folder: &Path) -> CallPreview {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let path = text("path");
    match tool {
        "shell" => {
            let command = text("command");
            let program = command.split_whitespace().next().unwrap_or_default().to_owned();
            CallPreview {
                lines: command.lines().map(|line| format!("  $ {line}")).collect(),
                question: "Run this".to_owned(),
                kind: format!("shell {program}"),
            }
        }
        "write_file" => {
            let old = std::fs::read_to_string(folder.join(&path)).unwrap_or_default();
            let lines = diff(&old, &text("content"));
            CallPreview { lines, question: format!("Write {path}"), kind: "change files".to_owned() }
        }
        "edit" => {
            let edits = match arguments["edits"].as_array() {
                Some(edits) => edits.iter().collect(),
                None => vec![arguments],
            };
            let part = |edit: &Value, name: &str| edit[name].as_str().unwrap_or_default().to_owned();
            let lines = edits.iter().flat_map(|edit| diff(&part(edit, "old"), &part(edit, "new")));
            let lines = lines.collect();
            CallPreview { lines, question: format!("Edit {path}"), kind: "change files".to_owned() }
        }
        "apply_patch" => CallPreview {
            lines: shortened(text("patch").lines().map(coloured).collect()),
            question: "Apply this patch".to_owned(),
            kind: "change files".to_owned(),
        },
        "fetch" => CallPreview {
            lines: vec![format!("  {}", text("url"))],
            question: "Read this page".to_owned(),
            kind: "fetch".to_owned(),
        },
        other => CallPreview {
            lines: vec![format!("  {arguments}").chars().take(400).collect()],
            question: format!("Call {other}"),
            kind: other.to_owned(),
        },
    }
}

fn diff(old: &str, new: &str) -> Vec<String> {
    let text = TextDiff::configure()
        .timeout(TIME_LIMIT)
        .diff_lines(old, new)
        .unified_diff()
        .missing_newline_hint(false)
        .context_radius(2)
        .to_string();
    shortened(text.lines().filter(|line| !line.starts_with("@@")).map(coloured).collect())
}

fn coloured(line: &str) -> String {
    match line.chars().next() {
        Some('+') => terminal::coloured(&format!("  {line}"), "32"),
        Some('-') => terminal::coloured(&format!("  {line}"), "31"),
        _ => format!("  {line}"),
    }
}

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(format!("  … {}", terminal::count(more, "more line")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_shown_as_a_difference_and_a_command_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").expect("a file");
        let seen = |tool: &str, arguments: Value| of(tool, &arguments, folder.path());
        let plain = |preview: &CallPreview| preview.lines.join("\n").replace("\u{1b}[", "");
        let write = seen("write_file", json!({ "path": "a.txt", "content": "one\nthree\n" }));
        assert_eq!(write.question, "Write a.txt");
        assert!(plain(&write).contains("-two") && plain(&write).contains("+three"), "{}", plain(&write));
        let edit = seen("edit", json!({ "path": "a.txt", "edits": [{ "old": "x", "new": "y" }] }));
        assert!(plain(&edit).contains("-x") && plain(&edit).contains("+y"), "{}", plain(&edit));
        let shell = seen("shell", json!({ "command": "cargo test\n" }));
        assert_eq!(
            (shell.lines.as_slice(), shell.kind.as_str()),
            (&["  $ cargo test".to_owned()][..], "shell cargo")
        );
    }
}
