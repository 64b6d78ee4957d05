//! What changed since the last approval, and during which attempt.

use super::Run;
use crate::model::event::{OutsideKind, OutsidePath};
use crate::model::plan::StepNumber;

impl Run {
    /// Lists for the next approver what changed since the last approval, and by whom.
    pub fn changed_since_approval(&self) -> Vec<String> {
        let Some(approved) = self.approved.as_ref().filter(|_| self.approved_by.is_none()) else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        if approved.base != self.binding.base {
            lines.push(self.base_moved(&approved.base, &self.binding.base));
        }
        lines.extend(approved.terms.changes(&self.binding.terms));
        lines.extend(
            self.outside_lines(|_| true).into_iter().map(|line| format!("outside of `touches`, {line}")),
        );
        lines
    }

    /// Lists the changes of agents outside of `touches` since the last approval that `counts` selects, one line
    /// per attempt.
    pub fn outside_lines(&self, counts: impl Fn(&OutsidePath) -> bool) -> Vec<String> {
        let mut lines: Vec<((StepNumber, u32), Vec<String>)> = Vec::new();
        for (step, attempt, change) in self.outside.iter().filter(|(.., change)| counts(change)) {
            let by = (*step, *attempt);
            match lines.iter_mut().find(|(known, _)| *known == by) {
                Some((_, changes)) => changes.push(change.to_string()),
                None => lines.push((by, vec![change.to_string()])),
            }
        }
        lines.sort_by_key(|(by, _)| *by);
        let line = |((step, attempt), changes): ((StepNumber, u32), Vec<String>)| {
            format!("during step {step}, attempt {attempt}: {}", changes.join(", "))
        };
        lines.into_iter().map(line).collect()
    }

    /// Describes a move of the base, and the attempt during which it happened, if any.
    pub(crate) fn base_moved(&self, old: &Option<String>, new: &Option<String>) -> String {
        let short = |base: &Option<String>| {
            base.as_ref().map_or("none".to_owned(), |id| id.chars().take(12).collect())
        };
        let by = match new.as_deref().and_then(|commit| self.moved_by(commit)) {
            Some((step, attempt)) => format!(" during step {step}, attempt {attempt}: by the agent"),
            None if self.approved.is_some() => ", not during an attempt of this plan".to_owned(),
            None => String::new(),
        };
        format!("the base commit moved: {} -> {}{by}", short(old), short(new))
    }

    /// Returns the attempt since the last approval that moved a ref to this commit.
    pub fn moved_by(&self, commit: &str) -> Option<(StepNumber, u32)> {
        let made =
            |change: &OutsidePath| change.kind == OutsideKind::Ref && change.after.as_deref() == Some(commit);
        self.outside.iter().find(|(_, _, change)| made(change)).map(|(step, attempt, _)| (*step, *attempt))
    }

    /// Returns the attempt since the last approval that changed something at or below a path.
    pub fn touched_by(&self, path: &str) -> Option<(StepNumber, u32)> {
        let path = path.trim_end_matches('/');
        let is_at = |change: &OutsidePath| {
            let other = change.path.trim_end_matches('/');
            let beneath = |one: &str, other: &str| {
                one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            matches!(change.kind, OutsideKind::File | OutsideKind::Folder)
                && (beneath(other, path) || change.kind == OutsideKind::Folder && beneath(path, other))
        };
        self.outside.iter().find(|(_, _, change)| is_at(change)).map(|(step, attempt, _)| (*step, *attempt))
    }
}
