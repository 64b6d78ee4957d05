//! Asks the engine for what is on the screen, and no more than that.

mod gate;
mod item;
mod log;
mod plan;

use std::sync::Arc;

use provost_core::model::chain::PlanId;
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::Resource;
use provost_core::state::run::Run;
use provost_engine::overview::{Overview, Seen};
use provost_engine::places::Here;

use super::known::{Gate, Known, PlanRow, Sheet};
use super::text;
use super::view::View;
use crate::failure::Failure;
use crate::terminal;

/// What more than this many plans wait for is read only for whoever looks at it.
const FEW: usize = 200;

pub struct Reader {
    overview: Arc<Overview>,
    /// Only plans of this repository.
    here: Option<Here>,
    log: log::Tail,
    /// The gate that was read, and how far its plan was then.
    gate: Option<(PlanId, u64)>,
    /// Its checks are being tried on the base, which is no event.
    pub gate_is_looked_at: bool,
    /// What the attempts of the plan that is open had printed when somebody last looked.
    printed: Vec<Option<String>>,
}

impl Reader {
    pub fn new(overview: Arc<Overview>, here: Option<Here>) -> Self {
        Self {
            overview,
            here,
            log: log::Tail::default(),
            gate: None,
            gate_is_looked_at: false,
            printed: Vec::new(),
        }
    }

    /// Brings what is known up to date. What cannot be read is said, and what was known stays.
    pub fn read(&mut self, view: &View, known: &mut Known) {
        known.now = terminal::now();
        known.trouble = match self.try_read(view, known) {
            Ok(()) => None,
            Err(failure) => Some(text::line(&words(&failure))),
        };
    }

    /// Whether an attempt of the plan that is open has printed more than was seen.
    pub fn is_more_printed(&mut self, known: &Known) -> bool {
        let Some(row) = known.sheet.as_ref().map(|sheet| &sheet.row) else { return false };
        let now: Vec<_> = row.at_work.iter().map(|step| self.overview.output(&row.id, *step)).collect();
        let is_more = now != self.printed;
        self.printed = now;
        is_more
    }

    /// The gate is to be read anew, even though nothing is new in the log.
    pub fn forget_gate(&mut self) {
        self.gate = None;
    }

    fn try_read(&mut self, view: &View, known: &mut Known) -> Result<(), Failure> {
        let seen = self.plans()?;
        known.plans = rows(&seen);
        let waiting: usize = known.plans.iter().map(|plan| plan.waiting).sum();
        if waiting <= FEW || view.tab() == 1 {
            known.waiting = self.inbox(&seen)?;
        }
        known.sheet = match view.open_plan() {
            Some(id) => self.sheet(&seen, id)?,
            None => None,
        };
        self.read_gate(view, &seen, known)?;
        let only_these = self.here.is_some();
        self.log.read(&self.overview, view.log_of.as_ref(), &seen, only_these, &mut known.log)
    }

    /// Trains keep a log of their own, but are no plans.
    fn plans(&self) -> Result<Vec<Seen>, Failure> {
        let mut all = self.overview.plans()?;
        all.retain(|seen| seen.run.exists() || seen.trouble.is_some());
        if let Some(here) = &self.here {
            all.retain(|seen| seen.place.as_ref().is_some_and(|place| here.has(place)));
        }
        Ok(all)
    }

    fn inbox(&self, all: &[Seen]) -> Result<Vec<super::known::Waits>, Failure> {
        let mut waiting = Vec::new();
        for seen in all.iter().filter(|seen| seen.waiting > 0 && seen.trouble.is_none()) {
            let items = self.overview.items(seen)?;
            waiting.extend(items.iter().map(|item| item::waits(item, &seen.run)));
        }
        waiting.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
        Ok(waiting)
    }

    fn sheet(&self, all: &[Seen], id: &PlanId) -> Result<Option<Sheet>, Failure> {
        let Some(seen) = all.iter().find(|seen| seen.id == *id) else { return Ok(None) };
        let output = |step: StepNumber| self.overview.output(id, step);
        Ok(Some(plan::sheet(row(seen), &seen.run, &self.overview.attempts(id)?, &output)))
    }

    /// What stands at the gate takes a whole verification to find out.
    fn read_gate(&mut self, view: &View, all: &[Seen], known: &mut Known) -> Result<(), Failure> {
        let Some(id) = view.open_gate() else {
            (known.gate, self.gate, self.gate_is_looked_at) = (None, None, false);
            return Ok(());
        };
        let Some(seen) = all.iter().find(|seen| seen.id == *id) else { return Ok(()) };
        let now = Some((id.clone(), seen.run.seq));
        if self.gate != now || self.gate_is_looked_at {
            known.gate = Some(gate::of(&self.overview, seen).unwrap_or_else(|failure| Gate {
                plan: seen.id.clone(),
                name: text::line(seen.name()),
                revision: String::new(),
                short: String::new(),
                open: false,
                is_looked_at: false,
                page: vec![super::known::Said::new(super::known::Tone::Bad, words(&failure))],
            }));
            self.gate = now;
            self.gate_is_looked_at = known.gate.as_ref().is_some_and(|gate| gate.is_looked_at);
        }
        Ok(())
    }
}

/// An error with what is behind it, in one text.
pub fn words(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// What waits first, then what is worked on, then what moved last.
fn rows(all: &[Seen]) -> Vec<PlanRow> {
    let mut rows: Vec<PlanRow> = all.iter().map(row).collect();
    let urgency = |row: &PlanRow| (row.waiting > 0, !row.at_work.is_empty(), row.moved);
    rows.sort_by(|a, b| urgency(b).cmp(&urgency(a)).then_with(|| a.id.cmp(&b.id)));
    rows
}

fn row(seen: &Seen) -> PlanRow {
    let run = &seen.run;
    let (done, total) = run.progress();
    let forged = run.forged_from.map(|from| format!("somebody else wrote to its log from event {from} on"));
    PlanRow {
        id: seen.id.clone(),
        name: text::line(seen.name()),
        title: text::line(&run.plan.title),
        stage: run.stage,
        done,
        total,
        waiting: seen.waiting,
        cost: cost(run),
        at_work: run.under_way().collect(),
        moved: seen.moved,
        trouble: seen.trouble.clone().or(forged).map(|trouble| text::line(&trouble)),
    }
}

/// In money where that is known, in tokens where that is; what nobody counted is not zero.
fn cost(run: &Run) -> String {
    let (cost, limits) = (run.ledger.cost(), provost_core::rules::budget::of_plan(run));
    let of = |used: Option<u64>, limit: Option<u64>, resource: Resource| {
        let used = resource.say(used.filter(|used| *used > 0)?);
        Some(limit.map_or(used.clone(), |limit| format!("{used} of {}", resource.say(limit))))
    };
    of(cost.micro_usd, limits.micro_usd, Resource::Usd)
        .or_else(|| of(cost.tokens, limits.tokens, Resource::Tokens))
        .unwrap_or_default()
}
