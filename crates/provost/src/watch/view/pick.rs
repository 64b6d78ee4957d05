//! The selected line of a list, and the keys that identify lines.

use crate::watch::known::{Known, LogLine, Tone};

/// A selected line, which stays the same line when others are added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pick {
    pub at: usize,
    pub(super) key: String,
}

impl Pick {
    pub(super) fn put(&mut self, at: usize, keys: &[String]) {
        self.at = at.min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned().unwrap_or_default();
    }

    pub(super) fn settle(&mut self, keys: &[String]) {
        let found = keys.iter().position(|key| *key == self.key);
        self.put(found.unwrap_or(self.at), keys);
    }
}

/// Returns the first step that is worked on or waits, for opening a plan.
pub(super) fn busiest(known: &Known) -> usize {
    let parts = known.sheet.iter().flat_map(|sheet| &sheet.parts);
    let is_open = |tone: Tone| matches!(tone, Tone::Busy | Tone::Wait | Tone::Bad);
    parts.map(|part| part.tone).position(is_open).unwrap_or(0)
}

pub(super) fn plan_keys(known: &Known) -> Vec<String> {
    known.plans.iter().map(|plan| plan.id.0.clone()).collect()
}

pub(super) fn item_keys(known: &Known) -> Vec<String> {
    known.waiting.iter().map(|waits| waits.item.id.to_string()).collect()
}

pub(super) fn part_keys(known: &Known) -> Vec<String> {
    known.sheet.iter().flat_map(|sheet| &sheet.parts).map(|part| part.number.clone()).collect()
}

pub(super) fn event_keys(events: &[&LogLine]) -> Vec<String> {
    events.iter().map(|line| format!("{} {}", line.plan, line.seq)).collect()
}
