//! Counts approvals: how many a plan needs, who counts, and how many are missing.
//!
//! A person is identified by a name they cannot choose: of their account, on their token, or of an identity
//! provider. The engine ensures that; this module compares names.
//!
//! **Invariant:** one name counts once in any spelling, and all policies together count once.
//! **Invariant:** one account at an identity provider counts once, whatever its e-mail address is.

use serde::Serialize;

use crate::model::event::Approver;
use crate::model::person;
use crate::model::run_policy::Quorum;
use crate::state::run::{Run, Stage};

/// Returns whether both names are the same person, in any spelling.
pub fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one), plain(other));
    match (person::account(&one), person::account(&other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn plain(name: &str) -> String {
    let seen = |c: &char| {
        (c.is_whitespace() || !c.is_control())
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
    };
    let words: String = name.chars().filter(seen).flat_map(char::to_lowercase).collect();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn counts_as(one: &Approver, other: &Approver) -> bool {
    match (one, other) {
        (
            Approver::Person(one) | Approver::Dialog { by: one, .. },
            Approver::Person(other) | Approver::Dialog { by: other, .. },
        ) => is_same(one, other),
        (Approver::Policy { .. }, Approver::Policy { .. }) => true,
        (Approver::Person(_) | Approver::Dialog { .. }, Approver::Policy { .. })
        | (Approver::Policy { .. }, Approver::Person(_) | Approver::Dialog { .. }) => false,
    }
}

impl Run {
    /// Returns the quorum of this revision. If it asks for less than an earlier revision that has an
    /// approval, the stricter one still applies: no single person can weaken it.
    pub fn quorum(&self) -> Quorum {
        let asked = self.binding.terms.quorum;
        self.held_to.map_or(asked, |before| asked.and(before))
    }

    pub(crate) fn has_approval_of(&self, by: &Approver) -> bool {
        self.approvals.iter().any(|known| counts_as(known, by))
    }

    /// Returns the approvers, once the quorum is complete.
    pub fn approvers(&self) -> Option<String> {
        let last = self.approved_by.as_ref()?;
        let all: Vec<String> = self.approvals.iter().map(ToString::to_string).collect();
        Some(if all.is_empty() { last.to_string() } else { all.join(", ") })
    }
}

/// The state of the approvals of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalCount {
    pub needed: u32,
    /// Names of the approvers so far.
    pub given: Vec<String>,
    pub missing: u32,
    pub self_approval: bool,
    /// The author of the text, if the log names one.
    pub author: Option<String>,
}

impl ApprovalCount {
    pub fn of(run: &Run) -> Self {
        let quorum = run.quorum();
        let (asked, given) = (quorum.approvals.max(1), run.approvals.len() as u32);
        // After the approval the earlier quorum is met and no longer applies.
        let needed = if run.approved_by.is_some() { asked.max(given) } else { asked };
        Self {
            needed,
            given: run.approvals.iter().map(ToString::to_string).collect(),
            missing: if run.approved_by.is_some() { 0 } else { needed.saturating_sub(given) },
            self_approval: quorum.self_approval,
            author: run.author.clone(),
        }
    }

    /// Returns whether an approval by this person would count.
    pub fn lets(&self, name: &str) -> bool {
        let wrote = self.author.as_deref().is_none_or(|author| is_same(author, name));
        (self.self_approval || !wrote) && !self.given.iter().any(|known| is_same(known, name))
    }

    /// Describes the missing approvals, if more than any single approval is needed.
    pub fn open(run: &Run) -> Option<String> {
        let gate = matches!(run.stage, Stage::Draft | Stage::Verified);
        (gate && !run.quorum().is_usual()).then(|| Self::of(run).to_string())
    }
}

/// Writes `1 of 2 approvals (ada); still needed: 1 more person, other than bob, who wrote it`.
impl std::fmt::Display for ApprovalCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { needed, given, missing, .. } = self;
        let plural = if *needed == 1 { "" } else { "s" };
        write!(f, "{} of {needed} approval{plural}", given.len())?;
        if !given.is_empty() {
            write!(f, " ({})", given.join(", "))?;
        }
        if *missing == 0 {
            return Ok(());
        }
        let more = if given.is_empty() { "" } else { " more" };
        let people = if *missing == 1 { "person" } else { "people" };
        write!(f, "; still needed: {missing}{more} {people}")?;
        match (&self.author, self.self_approval) {
            (_, true) => Ok(()),
            (Some(author), false) => write!(f, ", other than {author}, who wrote it"),
            (None, false) => write!(f, ", other than the author"),
        }
    }
}

#[cfg(test)]
mod tests;
