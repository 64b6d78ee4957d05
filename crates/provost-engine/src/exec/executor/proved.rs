//! Makes the proof map of a step whose contract held, if the step demands a share of proved code.
//!
//! **Invariant:** nothing here makes a verdict better.

use provost_core::model::plan::Shell;
use provost_core::model::proof_map::{HunkMark, ProofMap, ProvedShare};
use provost_core::model::verdict::{CheckOutcome, Verdict};
use provost_host::Interrupted;

use super::Executor;
use super::check::CheckOrder;
use crate::exec::proof_map::{self, Change, MapSettings, MappedStep};

/// Most hunks that are named in a verdict.
const HUNKS_NAMED: usize = 10;

impl Executor<'_> {
    /// Returns the verdict with the share of the change that the contract proves; a share that is too small
    /// breaks it.
    pub(super) fn proved(
        &self,
        order: &CheckOrder,
        shell: &Shell,
        verdict: Verdict,
    ) -> Result<Verdict, Interrupted> {
        let Some(demanded) = order.min_proved.filter(|_| verdict.held() && verdict.proved.is_none()) else {
            return Ok(verdict);
        };
        let not_run =
            |reason: String| Ok(Verdict { outcome: CheckOutcome::NotRun { reason }, ..verdict.clone() });
        let Some(tree) = verdict.tree.clone() else {
            let level = self.ground.level;
            return not_run(format!("at {level} provost has no tree of its own to find what is proved"));
        };
        let before = tree.start.clone().unwrap_or_else(|| tree.base.clone());
        let pair = match self.ground.kept_pair(&before, &tree.id) {
            Ok(Some(pair)) => pair,
            Ok(None) => return Ok(verdict),
            Err(error) => return not_run(format!("provost cannot find what is proved: {error}")),
        };
        let Some(mut contract) = self.on_tree(order, &tree.id) else { return Ok(verdict) };
        contract.held = Some(verdict.clone());
        let subject = MappedStep {
            shell: shell.clone(),
            level: Some(verdict.isolation),
            verdict: Some(verdict.clone()),
            before,
            after: tree.id.clone(),
        };
        let settings = MapSettings {
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            time_limit: self.site.config.verify.proved_time_limit,
            all: false,
        };
        let change = Change::between(&pair);
        let stop = &self.site.stop;
        let made =
            proof_map::make(self.ground.state(), &change, &subject, &contract, &settings, stop, &|_| {});
        if made.interrupted {
            return Err(Interrupted);
        }
        let share = ProvedShare { demanded: Some(demanded), ..made.map.share() };
        let proved = Some(Box::new(share));
        if share.percent().is_none_or(|percent| percent >= demanded) {
            return Ok(Verdict { proved, ..verdict });
        }
        let unmet = unmet(&made.map, &share, demanded);
        Ok(Verdict { outcome: CheckOutcome::Broke { exit_code: 0 }, unmet, proved, ..verdict })
    }
}

/// Says what is missing: the share, then the hunks that are not proved.
fn unmet(map: &ProofMap, share: &ProvedShare, demanded: u8) -> Vec<String> {
    let mut lines = vec![format!(
        "{demanded} % of the changed code must be proved: {share}; write a test that fails without these \
         lines, or remove them"
    )];
    let open = map
        .hunks
        .iter()
        .filter(|hunk| hunk.mark == HunkMark::Unproved || hunk.is_code && hunk.mark == HunkMark::NotTried);
    let open: Vec<String> =
        open.map(|hunk| format!("{} {}: {}", hunk.mark.words(), hunk.place(), hunk.why)).collect();
    let more = open.len().saturating_sub(HUNKS_NAMED);
    lines.extend(open.into_iter().take(HUNKS_NAMED));
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}
