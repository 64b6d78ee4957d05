//! Kinds of a pass: how strong the evidence is.
//!
//! Every view takes the mark and the word from here, so that a weaker pass looks weaker everywhere.
//!
//! **Invariant:** the mark ✅ means [`Pass::Verified`], and no other pass has it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of a pass, strongest first; summaries list them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// The contract failed before the work and held after it, or could not be run before.
    Verified,
    /// A named person confirmed it.
    Confirmed,
    /// A model judged that it holds.
    Judged,
    /// The contract held, but the agent that did the work wrote it, or the tests that it runs. No person approved
    /// them.
    SelfChecked,
    /// The contract also held before the work: it proves nothing about the work.
    HeldBefore,
}

impl Pass {
    pub const ALL: [Pass; 5] =
        [Pass::Verified, Pass::Confirmed, Pass::Judged, Pass::SelfChecked, Pass::HeldBefore];

    /// Returns the mark in front of a step's title.
    pub fn mark(self) -> &'static str {
        match self {
            Pass::Verified => "✅",
            Pass::Confirmed => "👤",
            Pass::Judged => "🤖",
            Pass::SelfChecked => "🟡",
            Pass::HeldBefore => "⚪",
        }
    }

    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Pass::Verified => "verified",
            Pass::Confirmed => "confirmed by a person",
            Pass::Judged => "judged by a model",
            Pass::SelfChecked => "self-checked",
            Pass::HeldBefore => "held before",
        }
    }

    /// Returns the word for `--json`, the API and proofs.
    pub fn key(self) -> &'static str {
        match self {
            Pass::Verified => "verified",
            Pass::Confirmed => "confirmed",
            Pass::Judged => "judged",
            Pass::SelfChecked => "self_checked",
            Pass::HeldBefore => "held_before",
        }
    }

    /// Explains the kind in one sentence; `None` for the ordinary one.
    pub fn explanation(self) -> Option<&'static str> {
        match self {
            Pass::Verified => None,
            Pass::Confirmed => Some("a person confirmed it; no command decided"),
            Pass::Judged => Some("a model judged it; that is weaker than a contract that held"),
            Pass::SelfChecked => Some(
                "the agent wrote this check or its tests itself, and no person approved them outside of the agent's \
                 client",
            ),
            Pass::HeldBefore => Some("the check held before the work too; it proves nothing about the work"),
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Number of steps per kind of pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passes([u32; Pass::ALL.len()]);

impl Passes {
    pub fn add(&mut self, pass: Pass) {
        self.0[pass as usize] += 1;
    }

    pub fn count(&self, pass: Pass) -> u32 {
        self.0[pass as usize]
    }

    /// Returns the weakest kind that occurs.
    pub fn weakest(&self) -> Option<Pass> {
        Pass::ALL.into_iter().rev().find(|pass| self.count(*pass) > 0)
    }
}

/// Writes, for example, `3 verified, 1 held before`.
impl fmt::Display for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Pass::ALL.into_iter().filter(|pass| self.count(*pass) > 0);
        let parts: Vec<String> = found.map(|pass| format!("{} {pass}", self.count(pass))).collect();
        f.write_str(if parts.is_empty() { "0 verified" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

impl FromIterator<Pass> for Passes {
    fn from_iter<I: IntoIterator<Item = Pass>>(passes: I) -> Self {
        let mut all = Self::default();
        passes.into_iter().for_each(|pass| all.add(pass));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Pass, Passes};
    use std::collections::HashSet;

    #[test]
    fn every_kind_has_a_mark_and_a_word_of_its_own() {
        let marks: HashSet<&str> = Pass::ALL.iter().map(|pass| pass.mark()).collect();
        let words: HashSet<&str> = Pass::ALL.iter().map(|pass| pass.word()).collect();
        assert_eq!((marks.len(), words.len()), (Pass::ALL.len(), Pass::ALL.len()));
        for pass in Pass::ALL {
            assert_eq!(serde_json::to_value(pass).unwrap(), pass.key());
            assert_eq!(pass.explanation().is_none(), pass == Pass::Verified);
        }
    }

    #[test]
    fn a_sum_names_the_kinds_that_are_there_and_its_weakest() {
        let some: Passes = [Pass::HeldBefore, Pass::Verified, Pass::Verified].into_iter().collect();
        assert_eq!(some.to_string(), "2 verified, 1 held before");
        assert_eq!(some.weakest(), Some(Pass::HeldBefore));
        assert_eq!(Passes::default().to_string(), "0 verified");
        assert_eq!(Passes::default().weakest(), None);
    }
}
