//! The proof map: which parts of a change a contract notices if they are missing or broken.
//!
//! It is a lower bound. A proved hunk is one that the contract notices; that does not make it right.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The result for one hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HunkMark {
    /// The contract failed without it, or with a sabotage of it.
    Proved,
    /// The contract held all the same.
    Unproved,
    /// Without it nothing builds, and no sabotage was possible.
    NotBuildable,
    NotTried,
}

impl HunkMark {
    /// Returns the sign for people.
    pub fn sign(self) -> char {
        match self {
            Self::Proved => '✓',
            Self::Unproved => '✗',
            Self::NotBuildable => '?',
            Self::NotTried => '–',
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Unproved => "unproved",
            Self::NotBuildable => "not buildable alone",
            Self::NotTried => "not tried",
        }
    }
}

/// One run of the contract on a changed tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantRun {
    /// The difference from the judged tree: "taken out", "line 4: `==` became `!=`".
    pub change: String,
    pub result: VariantResult,
    /// What was not met, or why there is no result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    pub duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariantResult {
    /// The contract held.
    Green,
    /// It failed, and the code was run.
    Red,
    /// The code could not be built or loaded, or a name was missing.
    NotBuilt,
    /// It could not be run to its end.
    NoResult,
}

/// A hunk with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HunkProof {
    pub path: String,
    /// The first and the last of its lines in the judged tree, counted from 1. If it only removes lines,
    /// both are the line after them.
    pub first_line: usize,
    pub last_line: usize,
    pub added_lines: usize,
    pub removed_lines: usize,
    /// It is code; other hunks are tried on request only.
    pub is_code: bool,
    pub mark: HunkMark,
    pub why: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<VariantRun>,
    /// The result was known from an earlier run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

impl HunkProof {
    /// Returns the place as `file:first-last`.
    pub fn place(&self) -> String {
        let path = crate::model::quote::one_line(&self.path);
        match self.first_line == self.last_line {
            true => format!("{path}:{}", self.first_line),
            false => format!("{path}:{}-{}", self.first_line, self.last_line),
        }
    }

    /// Returns whether it counts for the share of proved hunks. A hunk that cannot be built alone does not.
    fn counts(&self) -> bool {
        match self.mark {
            HunkMark::Proved | HunkMark::Unproved => true,
            HunkMark::NotBuildable => false,
            HunkMark::NotTried => self.is_code,
        }
    }
}

/// What happened to a line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChange {
    Added,
    Removed,
}

/// The map of one change, in the order of its files and lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofMap {
    pub hunks: Vec<HunkProof>,
}

impl ProofMap {
    /// Returns the hunk of a changed line of a diff. `line` counts the lines of the judged tree from 1; for a
    /// removed line it is the line that follows.
    pub fn of_line(&self, path: &str, line: usize, change: LineChange) -> Option<&HunkProof> {
        self.hunks.iter().find(|hunk| {
            let is_here = match change {
                LineChange::Added => {
                    hunk.added_lines > 0 && (hunk.first_line..=hunk.last_line).contains(&line)
                }
                LineChange::Removed => hunk.removed_lines > 0 && hunk.first_line == line,
            };
            hunk.path == path && is_here
        })
    }

    pub fn share(&self) -> ProvedShare {
        let number = |wanted: &dyn Fn(&HunkProof) -> bool| {
            u32::try_from(self.hunks.iter().filter(|hunk| wanted(hunk)).count()).unwrap_or(u32::MAX)
        };
        ProvedShare {
            proved: number(&|hunk| hunk.mark == HunkMark::Proved),
            hunks: number(&HunkProof::counts),
            not_tried: number(&|hunk| hunk.counts() && hunk.mark == HunkMark::NotTried),
            not_buildable: number(&|hunk| hunk.mark == HunkMark::NotBuildable),
            demanded: None,
        }
    }
}

/// The number of proved hunks among those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvedShare {
    pub proved: u32,
    /// Hunks of code that can be taken out or sabotaged.
    pub hunks: u32,
    /// Hunks among them for which there was no time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_tried: u32,
    /// Hunks that are left out because nothing builds without them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_buildable: u32,
    /// The share that the step needed to pass, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demanded: Option<u8>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ProvedShare {
    /// Returns the share in whole percent, rounded down; `None` without hunks.
    pub fn percent(&self) -> Option<u8> {
        let share = u64::from(self.proved) * 100 / u64::from((self.hunks > 0).then_some(self.hunks)?);
        u8::try_from(share).ok()
    }
}

/// Writes one line for people.
impl fmt::Display for ProvedShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(percent) = self.percent() else { return f.write_str("no hunk of code to prove") };
        let (are, hunks) = if self.proved == 1 { ("is", "hunk") } else { ("are", "hunks") };
        let hunks = if self.hunks == 1 { hunks } else { "hunks" };
        write!(f, "{} of {} {hunks} {are} proved ({percent} %)", self.proved, self.hunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(mark: HunkMark, is_code: bool) -> HunkProof {
        HunkProof {
            path: "a.py".to_owned(),
            first_line: 1,
            last_line: 2,
            added_lines: 2,
            removed_lines: 0,
            is_code,
            mark,
            why: String::new(),
            runs: Vec::new(),
            cached: false,
        }
    }

    #[test]
    fn the_share_counts_code_that_was_or_should_have_been_tried() {
        let hunks = vec![
            hunk(HunkMark::Proved, true),
            hunk(HunkMark::Unproved, true),
            hunk(HunkMark::NotBuildable, true),
            hunk(HunkMark::NotTried, true),
            hunk(HunkMark::NotTried, false),
        ];
        let share = ProofMap { hunks }.share();
        assert_eq!((share.proved, share.hunks, share.not_tried, share.not_buildable), (1, 3, 1, 1));
        assert_eq!(share.to_string(), "1 of 3 hunks is proved (33 %)");
        assert_eq!(ProofMap::default().share().to_string(), "no hunk of code to prove");
        let all = ProofMap { hunks: vec![hunk(HunkMark::Proved, true); 2] }.share();
        assert_eq!(all.to_string(), "2 of 2 hunks are proved (100 %)");
    }
}
