//! Texts about contracts that were run on the base: what they do besides their result.

use super::{Code, D, new};
use crate::model::contract_traits::Evidence;
use crate::model::plan::Span;

pub fn reaches_network(span: Span, evidence: &Evidence) -> D {
    new(Code::ReachesNetwork, span, format!("the contract reaches for the network: {}", evidence.what)).hint(
        "Use files of the repository or a service that the contract starts, or write `**network:** on`.",
    )
}

pub fn reads_clock(span: Span, evidence: &Evidence) -> D {
    new(Code::ReadsClock, span, format!("the contract reads the clock: {}", evidence.what))
        .hint("Pass a fixed time to the code under test, so that the result is the same tomorrow.")
}

pub fn uses_chance(span: Span, evidence: &Evidence) -> D {
    new(Code::UsesChance, span, format!("the contract uses random values: {}", evidence.what))
        .hint("Set a seed, or use fixed values.")
}

pub fn writes_tree(span: Span, evidence: &Evidence) -> D {
    new(Code::WritesTree, span, format!("the contract changes files of its tree: {}", evidence.what))
        .hint("Write to a temporary folder: `mktemp -d`.")
}

pub fn uses_git(span: Span, evidence: &Evidence) -> D {
    new(Code::UsesGit, span, format!("the contract uses git: {}", evidence.what))
        .hint("A check sees the approved history only, not the commits of an agent; compare files instead.")
}

pub fn cannot_run(span: Span, reason: &str) -> D {
    new(Code::CannotRun, span, format!("the contract cannot be run here: {reason}"))
        .hint("Make its tools available to checks; `provost try STEP` shows its output.")
}
