//! Decides whether a section of `provost.toml` may be used that reaches outside of every sandbox.
//!
//! An agent may be able to write `provost.toml`. Such a section is therefore used only if a person must have
//! written it: all agents so far were kept from that file by the level `clean`, or a person has trusted its
//! exact words.

use std::path::Path;

use provost_core::model::verdict::Isolation;
use provost_store::Log;

use crate::Error;
use crate::plan::prove::Prover;
use crate::plan::{gate, past_levels};

/// Returns whether the section with this digest may be used. While a run is under way nothing is recorded,
/// because the run watches the list of trusted texts for tampering.
pub(crate) fn is_trusted(
    log: &dyn Log,
    state: &Path,
    prover: &Prover,
    digest: &str,
    is_under_way: bool,
) -> Result<bool, Error> {
    if let Some(secret) = prover.secret_if_any()?
        && gate::trusts(state, &secret.key().public(), digest)?
    {
        return Ok(true);
    }
    if is_under_way || !past_levels::were_all(log, |level| level == Isolation::Clean)? {
        return Ok(false);
    }
    // Record the trust now: agents may later work at levels at which they can write the file.
    gate::trust(state, &prover.secret()?.key(), digest)?;
    Ok(true)
}
