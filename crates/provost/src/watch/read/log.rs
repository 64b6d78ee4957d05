//! The end of the log, kept while it is shown.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::pass::Pass;
use provost_core::state::run::Run;
use provost_core::text::render::{self, EventLine, Symbol};
use provost_engine::observe::overview::{Overview, PlanSnapshot};
use provost_engine::{Cursor, Query};

use crate::failure::Failure;
use crate::watch::known::{LogLine, Tone};
use crate::watch::text;

/// Number of the newest events that are kept.
const KEPT: usize = 2000;

/// Position up to which the log was read.
#[derive(Default)]
pub(super) struct Tail {
    of: Option<PlanId>,
    through: Cursor,
}

impl Tail {
    /// Adds the new events, of one plan or of all; with `only_these`, only of the plans in `all`.
    pub(super) fn read(
        &mut self,
        overview: &Overview,
        of: Option<&PlanId>,
        all: &[PlanSnapshot],
        only_these: bool,
        lines: &mut VecDeque<LogLine>,
    ) -> Result<(), Failure> {
        if self.of.as_ref() != of {
            *self = Self { of: of.cloned(), ..Self::default() };
            lines.clear();
        }
        let now = overview.cursor()?;
        if now == self.through {
            return Ok(());
        }
        let query = Query {
            plan: of.cloned(),
            after: Some(self.through),
            through: Some(now),
            newest_first: true,
            limit: Some(KEPT as u64),
            ..Query::default()
        };
        let mut fresh = Vec::new();
        overview.each(&query, &mut |_, sealed| {
            fresh.push(sealed);
            ControlFlow::Continue(())
        })?;
        let ids: BTreeSet<&PlanId> = all.iter().map(|seen| &seen.id).collect();
        fresh.retain(|sealed| !only_these || ids.contains(&sealed.plan));
        lines.extend(fresh.iter().rev().map(|sealed| line(sealed, all)));
        let surplus = lines.len().saturating_sub(KEPT);
        lines.drain(..surplus);
        self.through = now;
        Ok(())
    }
}

fn line(sealed: &SealedEvent, all: &[PlanSnapshot]) -> LogLine {
    let seen = all.iter().find(|seen| seen.id == sealed.plan);
    let none = Run::default();
    let run = seen.map_or(&none, |seen| &*seen.run);
    let (tone, words) = match sealed.event() {
        Ok(event) => {
            let EventLine { symbol, words, .. } = render::event(run, &event);
            let step = sealed.step.map(|step| format!("step {step}: ")).unwrap_or_default();
            (tone(symbol), format!("{} {step}{words}", symbol.text()))
        }
        Err(error) => (Tone::Bad, error.to_string()),
    };
    LogLine {
        plan: sealed.plan.clone(),
        plan_name: text::line(seen.map_or(&sealed.plan.0, |seen| seen.name())),
        seq: sealed.seq,
        at: sealed.at,
        event: text::line(&sealed.name),
        words: text::line(&words),
        tone,
        whole: sealed.line(),
    }
}

fn tone(symbol: Symbol) -> Tone {
    match symbol {
        Symbol::Passed(Pass::Verified) | Symbol::Good => Tone::Good,
        Symbol::Failed | Symbol::Bad => Tone::Bad,
        Symbol::Passed(_) | Symbol::Blocked | Symbol::Waived | Symbol::Waiting => Tone::Wait,
        Symbol::Begun => Tone::Busy,
        Symbol::Claim | Symbol::Note => Tone::Plain,
    }
}
