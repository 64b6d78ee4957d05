//! Decides which worktrees may be removed. In doubt a worktree stays, and the reason is given.

use std::fs;
use std::path::Path;

use super::note::{ListedWorktree, Records};
use super::refs;
use crate::files::folder;
use crate::git;
use crate::tree::{Trees, UnsavedWork};

/// If one of these exists, a git operation is in progress.
const UNDER_WAY: [&str; 6] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply"];
/// Number of names in a message.
const SHOWN: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Merged and clean: nothing is lost by removing it.
    Goes,
    /// The reasons why it stays.
    Stays(Vec<String>),
}

/// Decides about a worktree. `is_busy` says whether a folder may be in use.
pub fn fate(
    trees: &Trees,
    workspace: &Path,
    found: &ListedWorktree,
    is_busy: &dyn Fn(&Path) -> bool,
) -> Fate {
    let mut reasons = Vec::new();
    let Some(note) = &found.note else {
        return Fate::Stays(vec!["provost did not make it; `git worktree remove` removes it".to_owned()]);
    };
    // Only the recorded place counts, not the target of a link that is there now.
    if found.path.canonicalize().is_ok_and(|real| real != found.path) {
        return Fate::Stays(vec!["a link at its path leads elsewhere".to_owned()]);
    }
    if !note.finished {
        let is_making = rustix::process::Pid::from_raw(note.pid as i32)
            .is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok());
        let is_handed_out = found.head.as_ref().is_some_and(|head| *head != note.base);
        match (is_making, is_handed_out || found.own.join("index").exists()) {
            (true, _) => return Fate::Stays(vec!["provost is making it".to_owned()]),
            // The process that made it died before there was anything in it.
            (false, false) => return Fate::Goes,
            (false, true) => {}
        }
    } else if found.is_locked {
        reasons.push("it is locked (`git worktree unlock`)".to_owned());
    }
    if is_busy(&found.path) {
        reasons.push("a process works in it".to_owned());
    }
    let cwd = std::env::current_dir().ok();
    if cwd.is_some_and(|cwd| cwd.starts_with(&found.path)) {
        reasons.push("you are in it".to_owned());
    }
    reasons.extend(
        UNDER_WAY
            .iter()
            .filter(|name| found.own.join(name).exists())
            .map(|name| format!("git is in the middle of something in it ({name})")),
    );
    match &found.branch {
        Some(branch) if has_stash(workspace, branch) => {
            reasons.push("work on its branch is stashed".to_owned())
        }
        Some(branch) if *branch == format!("refs/heads/{}", note.branch) => {}
        Some(branch) => reasons.push(format!("it is on another branch now ({branch})")),
        None => reasons.push("it is on no branch".to_owned()),
    }
    let merged = merged(trees, workspace, found, &mut reasons);
    if reasons.is_empty() && found.is_there() {
        unsaved(trees, workspace, found, &merged, &mut reasons);
    }
    if reasons.is_empty() { Fate::Goes } else { Fate::Stays(reasons) }
}

/// Returns the commits that count as stored elsewhere, the likeliest first.
fn merged(trees: &Trees, workspace: &Path, found: &ListedWorktree, reasons: &mut Vec<String>) -> Vec<String> {
    let Some(head) = &found.head else {
        reasons.push("its commit cannot be found".to_owned());
        return Vec::new();
    };
    let top = git::main_checkout(workspace).unwrap_or_else(|| workspace.to_owned());
    let others = git::refs(workspace, "refs/heads/").into_iter().chain(git::refs(workspace, "refs/remotes/"));
    let is_own = |name: &String| name.starts_with("refs/heads/spawn/") || found.branch.as_ref() == Some(name);
    let others = others.filter(|(name, _)| !is_own(name)).map(|(_, commit)| commit);
    let mut others: Vec<String> = git::head(&top).into_iter().chain(others).collect();
    let mut known = std::collections::BTreeSet::new();
    others.retain(|commit| known.insert(commit.clone()));
    match trees.is_within(head, &others) {
        Ok(true) => {}
        Ok(false) => reasons.push("its commits are neither merged nor pushed".to_owned()),
        Err(error) => reasons.push(format!("provost cannot tell whether its commits are merged: {error}")),
    }
    others
}

/// Adds content that is only in the worktree to the reasons, unless a merged commit has exactly these
/// files.
fn unsaved(
    trees: &Trees,
    workspace: &Path,
    found: &ListedWorktree,
    merged: &[String],
    reasons: &mut Vec<String>,
) {
    let Some(head) = &found.head else { return };
    let left = match trees.unsaved(&found.path, head, true) {
        Ok(left) => without_marker(left),
        Err(error) => return reasons.push(format!("provost cannot read what is in it: {error}")),
    };
    if left.has_submodules {
        return reasons.push("it has submodules, which provost does not look into".to_owned());
    }
    let is_clean = left.staged.is_empty() && left.changed.is_empty() && left.untracked.is_empty();
    if is_clean || left.staged.is_empty() && is_elsewhere(trees, workspace, found, merged) {
        return;
    }
    for (what, names) in
        [("staged", &left.staged), ("uncommitted", &left.changed), ("untracked", &left.untracked)]
    {
        if !names.is_empty() {
            let more = if names.len() > SHOWN { ", …" } else { "" };
            let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
            reasons.push(format!("{what}: {shown}{more}"));
        }
    }
}

/// Returns whether the files are those of a merged commit: `provost commit` leaves a worktree like that.
fn is_elsewhere(trees: &Trees, workspace: &Path, found: &ListedWorktree, merged: &[String]) -> bool {
    let slug = found.note.as_ref().map(|note| {
        let plain = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_lowercase() } else { '-' };
        note.plan.trim_end_matches(".md").chars().map(plain).collect::<String>()
    });
    let own = slug.and_then(|slug| git::find(workspace, &format!("refs/heads/provost/{slug}")));
    let top = git::main_checkout(workspace).unwrap_or_else(|| workspace.to_owned());
    let head = git::head(&top);
    let own = own.filter(|own| {
        head.iter().any(|head| trees.is_within(own, std::slice::from_ref(head)).unwrap_or(false))
    });
    let candidates = own.into_iter().chain(head).filter(|commit| merged.contains(commit));
    candidates.into_iter().any(|commit| {
        let left = trees.unsaved(&found.path, &commit, false).map(without_marker);
        left.is_ok_and(|left| left.changed.is_empty() && left.untracked.is_empty())
    })
}

fn without_marker(mut left: UnsavedWork) -> UnsavedWork {
    for names in [&mut left.staged, &mut left.changed, &mut left.untracked] {
        names.retain(|name| name != ".harness/active-plan");
    }
    left
}

/// Returns whether a stash belongs to the branch: `git stash` writes the branch name into its message.
fn has_stash(workspace: &Path, branch: &str) -> bool {
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let Some(repository) = git::repository(workspace) else { return true };
    let text = fs::read_to_string(repository.join("logs/refs/stash")).unwrap_or_default();
    text.lines().any(|line| {
        let words = line.split_once('\t').map_or("", |(_, words)| words);
        [format!("WIP on {short}:"), format!("On {short}:")]
            .iter()
            .any(|start| words.starts_with(start.as_str()))
    })
}

/// Removes a worktree with its branch, after checking it once more.
pub fn prune(
    trees: &Trees,
    workspace: &Path,
    found: &ListedWorktree,
    records: &Records,
    is_busy: &dyn Fn(&Path) -> bool,
) -> Result<(), super::Error> {
    if let Fate::Stays(reasons) = fate(trees, workspace, found, is_busy) {
        let source = std::io::Error::other(reasons.join("; "));
        return Err(super::Error::Io { attempted: "remove", path: found.path.clone(), source });
    }
    folder::remove(&found.path);
    if found.path.symlink_metadata().is_ok() {
        let source = std::io::Error::other("something in it cannot be removed");
        return Err(super::Error::Io { attempted: "remove", path: found.path.clone(), source });
    }
    folder::remove(&found.own);
    records.remove(&found.path);
    if let (Some(branch), Some(head), Some(repository)) =
        (&found.branch, &found.head, git::repository(workspace))
    {
        refs::delete(&repository, branch, head)
            .map_err(super::Error::io("remove the branch of", &found.path))?;
    }
    Ok(())
}
