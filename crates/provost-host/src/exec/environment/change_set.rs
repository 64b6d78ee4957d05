//! Shows the work of a step to a model judge: the changes and the resulting tree.
//!
//! **Invariant:** the judge sees the tree that a check would have seen, with the whole change. Work that is
//! too large or is not text is not judged.

use std::fs;
use std::io;
use std::path::Path;

use provost_core::model::verdict::{CheckOutcome, Verdict};
use provost_core::text::judgement::{ChangedFiles, FileVersions};

use super::check::seen;
use super::{CheckSpec, ExecEnv, told};
use crate::Interrupted;
use crate::tree::{Base, ExclusionReason, Layer};

/// Most bytes of changed files, before and after; a larger change cannot be judged with care.
const CHANGED_BYTES: usize = 256 * 1024;

/// The work, as the judge sees it.
pub struct Exhibit<'a> {
    pub changes: ChangedFiles,
    /// provost's own copy of the tree with the work in it.
    pub folder: &'a Path,
}

impl ExecEnv {
    /// Shows the work to `judge`. If the verdict holds, the tree is kept, as after a command.
    pub fn exhibit(
        &self,
        case: &CheckSpec<'_>,
        judge: impl FnOnce(&Exhibit<'_>) -> Result<Verdict, Interrupted>,
    ) -> Result<Verdict, Interrupted> {
        let not_run = |reason: String| Ok(Verdict::not_run(self.level, reason));
        let Some(approved) = &self.trees else {
            return not_run(format!("at `{}` provost has no tree of its own to show to a judge", self.level));
        };
        let (base, layer) = match approved.look(case) {
            Ok(found) => found,
            Err(error) => return Ok(self.unseen(error)),
        };
        let tree = Some(Box::new(approved.told(case, seen(&base, &layer))));
        if let Some(first) = layer.protected_changed.first() {
            let what = format!("{first} is protected and was changed");
            return Ok(Verdict { tree, ..Verdict::bare(self.level, CheckOutcome::Tampered { what }) });
        }
        let cut = layer
            .refused
            .iter()
            .find(|refused| matches!(refused.why, ExclusionReason::TooMany | ExclusionReason::OverTotal));
        if let Some(cut) = cut {
            return not_run(format!("provost could not take over everything inside `touches`: {cut}"));
        }
        let changes = match changes(&base, &layer) {
            Ok(changes) => changes,
            Err(why) => return not_run(why),
        };
        if changes.is_empty() {
            let unmet =
                vec!["the agent changed nothing inside `touches`, so there is nothing to judge".to_owned()];
            return Ok(Verdict {
                tree,
                unmet,
                ..Verdict::bare(self.level, CheckOutcome::Broke { exit_code: 1 })
            });
        }
        let assembled = match approved.trees.assemble(&base, &layer) {
            Ok(assembled) => assembled,
            Err(error) => return not_run(told(&error)),
        };
        let verdict = judge(&Exhibit { changes, folder: &assembled.path })?;
        if verdict.held()
            && let Err(error) = approved.trees.advance(&base, layer)
        {
            return not_run(told(&error));
        }
        // A judgement that did not run says nothing about the tree.
        let ran = !matches!(verdict.outcome, CheckOutcome::NotRun { .. });
        Ok(Verdict { tree: tree.filter(|_| ran), ..verdict })
    }
}

fn changes(base: &Base, layer: &Layer) -> Result<ChangedFiles, String> {
    let mut changes = ChangedFiles::new();
    let mut bytes = 0;
    let mut text = |path: &Path| -> Result<Option<String>, String> {
        let content = match fs::read(path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        bytes += content.len();
        if bytes > CHANGED_BYTES {
            return Err("the changes are too large for a judge: at most 256 KiB, before and after".to_owned());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        String::from_utf8(content)
            .map(Some)
            .map_err(|_| format!("{name} is not text, so a judge cannot read it"))
    };
    let mut before = |path: &Path| -> Result<Option<String>, String> {
        if base.gone.iter().any(|gone| path.starts_with(gone)) {
            let over = base.over.as_ref().map(|over| over.join(path));
            return over.map_or(Ok(None), |over| text(&over));
        }
        if let Some(over) = &base.over
            && let Some(found) = text(&over.join(path))?
        {
            return Ok(Some(found));
        }
        text(&base.path.join(path))
    };
    let paths: Vec<&Path> = layer.changed_paths().collect();
    let mut old = Vec::new();
    for path in paths.iter().copied().chain(layer.deleted_paths()) {
        old.push((path.to_owned(), before(path)?));
    }
    for (path, old) in old {
        let new = if paths.contains(&path.as_path()) { text(&layer.path.join(&path))? } else { None };
        if old != new {
            changes.insert(path.to_string_lossy().into_owned(), FileVersions { old, new });
        }
    }
    Ok(changes)
}
