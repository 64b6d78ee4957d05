//! Reads `[hook]`: how the stop hook keeps sessions of other clients working until their plan is done.

use std::time::Duration;

use super::reading::{Section, Wrong};

const KEYS: [&str; 3] = ["refusals", "require_plan", "patience"];
/// Longest wait of a hook; clients are configured to wait no longer than this.
const LONGEST: Duration = Duration::from_secs(590);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// How often a session without progress is sent back before provost asks a person.
    pub refusals: u32,
    /// A session without a plan may not stop either.
    pub require_plan: bool,
    /// How long a hook waits for checks before it reports that they are still running.
    pub patience: Duration,
}

impl Default for Hook {
    fn default() -> Self {
        Self { refusals: 5, require_plan: false, patience: Duration::from_secs(45) }
    }
}

pub(super) fn read(top: &Section<'_, '_>) -> Result<Hook, Wrong> {
    let default = Hook::default();
    let Some(section) = top.section("hook", &KEYS)? else { return Ok(default) };
    let refusals = section.integer("refusals", 1..=1000)?;
    Ok(Hook {
        refusals: refusals.and_then(|most| u32::try_from(most).ok()).unwrap_or(default.refusals),
        require_plan: section.boolean("require_plan")?.unwrap_or(default.require_plan),
        patience: section.duration("patience", LONGEST)?.unwrap_or(default.patience),
    })
}
