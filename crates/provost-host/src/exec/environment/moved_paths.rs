//! Moves the paths in a contract from the workspace to the folder that its check runs in.

use std::path::Path;

use provost_core::model::plan::Shell;

/// Returns the contract with paths of the workspace replaced by those of the check's tree.
pub(super) fn moved(shell: &Shell, workspace: &Path, tree: &Path) -> Option<Shell> {
    let (from, to) = (workspace.to_str()?, tree.to_str()?);
    let command = paths_moved(&shell.command, from, to)?;
    Some(Shell { command, ..shell.clone() })
}

/// Replaces each occurrence of `from` that is a whole path or the beginning of one.
fn paths_moved(text: &str, from: &str, to: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '@');
    let mut moved = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        let begins = !before.chars().next_back().is_some_and(|c| is_part(c) || c == '/');
        let ends = !after.chars().next().is_some_and(is_part);
        moved.push_str(before);
        moved.push_str(if begins && ends { to } else { from });
        rest = after;
    }
    let is_moved = moved.contains(to);
    moved.push_str(rest);
    is_moved.then_some(moved)
}
