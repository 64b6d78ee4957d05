//! Reads from the engine what is on the screen, and no more.

mod changes;
mod gate;
mod item;
mod log;
mod plan;
mod transcript;

use std::sync::Arc;

use provost_core::model::chain::PlanId;
use provost_core::model::plan::StepNumber;
use provost_engine::observe::overview::{Overview, PlanSnapshot};
use provost_engine::observe::view::{PlanCard, PlanState, PlanView};
use provost_engine::plan::plan_registry::Here;

use super::known::{Gate, Known, Said, Sheet, Tone, Waits, drawable};
use super::text;
use super::view::{Screen, View};
use crate::failure::Failure;
use crate::terminal;

/// With more waiting items than this, the inbox is read only if it is shown.
const FEW: usize = 200;

pub(super) struct Reader {
    overview: Arc<Overview>,
    /// Only plans of this repository.
    here: Option<Here>,
    log: log::Tail,
    /// The gate read last, and the last event of its plan at that time.
    gate: Option<(PlanId, u64)>,
    /// The screen whose changes were read last, and the last event of its plan at that time.
    changes: Option<(Screen, u64)>,
    /// The step whose transcript is shown; it can grow.
    transcript: Option<(PlanId, u32)>,
    /// Its checks are being run on the base; their end is no event.
    pub gate_is_looked_at: bool,
    /// Live output of the open plan's attempts at the last read.
    printed: Vec<Option<String>>,
}

impl Reader {
    pub(super) fn new(overview: Arc<Overview>, here: Option<Here>) -> Self {
        Self {
            overview,
            here,
            log: log::Tail::default(),
            gate: None,
            changes: None,
            transcript: None,
            gate_is_looked_at: false,
            printed: Vec::new(),
        }
    }

    /// Updates the data. Read errors are shown, and the old data stays.
    pub(super) fn read(&mut self, view: &View, known: &mut Known) {
        known.now = terminal::now();
        known.trouble = match self.try_read(view, known) {
            Ok(()) => None,
            Err(failure) => Some(text::line(&words(&failure))),
        };
    }

    /// Returns whether an attempt of the open plan has printed more since the last call.
    pub(super) fn is_more_printed(&mut self, known: &Known) -> bool {
        let sheet = known.sheet.as_ref().map(|sheet| (&sheet.card.id, sheet.card.at_work.as_slice()));
        let transcript = self.transcript.as_ref().map(|(plan, step)| (plan, std::slice::from_ref(step)));
        let Some((plan, steps)) = transcript.or(sheet) else { return false };
        let output = steps.iter().map(|step| self.overview.output(plan, StepNumber(*step)));
        let busy = self.overview.busy(plan);
        let now: Vec<_> = output.chain([busy]).collect();
        let is_more = now != self.printed;
        self.printed = now;
        is_more
    }

    /// Makes the gate be read again, even without new events.
    pub(super) fn forget_gate(&mut self) {
        self.gate = None;
    }

    fn try_read(&mut self, view: &View, known: &mut Known) -> Result<(), Failure> {
        let seen = self.plans()?;
        known.plans = cards(&seen);
        let waiting: usize = known.plans.iter().map(|plan| plan.waiting).sum();
        if waiting <= FEW || view.tab() == 1 {
            known.waiting = self.inbox(&seen)?;
        }
        known.sheet = match view.open_plan() {
            Some(id) => self.sheet(&seen, id)?,
            None => None,
        };
        self.read_gate(view, &seen, known)?;
        self.read_work(view, &seen, known);
        let only_these = self.here.is_some();
        self.log.read(&self.overview, view.log_of.as_ref(), &seen, only_these, &mut known.log)
    }

    /// Returns the plans, without the logs of merge trains.
    fn plans(&self) -> Result<Vec<PlanSnapshot>, Failure> {
        let mut all = self.overview.plans()?;
        all.retain(|seen| seen.run.exists() || seen.trouble.is_some());
        if let Some(here) = &self.here {
            all.retain(|seen| seen.place.as_ref().is_some_and(|place| here.has(place)));
        }
        Ok(all)
    }

    fn inbox(&self, all: &[PlanSnapshot]) -> Result<Vec<Waits>, Failure> {
        let mut waiting = Vec::new();
        for seen in all.iter().filter(|seen| seen.waiting > 0 && seen.trouble.is_none()) {
            let items = self.overview.items(seen)?;
            waiting.extend(items.iter().map(|item| item::waits(item, &seen.run)));
        }
        waiting.sort_by(|a: &Waits, b| (a.item.since, &a.item.id).cmp(&(b.item.since, &b.item.id)));
        Ok(waiting)
    }

    fn sheet(&self, all: &[PlanSnapshot], id: &PlanId) -> Result<Option<Sheet>, Failure> {
        let Some(seen) = all.iter().find(|seen| seen.id == *id) else { return Ok(None) };
        let output = |step: u32| self.overview.output(id, StepNumber(step));
        let view = PlanView::of(seen, &self.overview.attempts(id)?, Vec::new());
        Ok(Some(plan::sheet(view, &output, self.overview.busy(id))))
    }

    /// Reads the changes of a step once, and again after new events of its plan; a transcript each time.
    fn read_work(&mut self, view: &View, all: &[PlanSnapshot], known: &mut Known) {
        let open = view.open_work();
        let Some((seen, step)) =
            open.and_then(|(id, step)| Some((all.iter().find(|seen| seen.id == *id)?, step)))
        else {
            (known.work, self.changes, self.transcript) = (None, None, None);
            return;
        };
        let now = Some((view.screen().clone(), seen.run.seq));
        let is_transcript = matches!(view.screen(), Screen::Transcript(..));
        if self.changes != now || is_transcript {
            let page = match is_transcript {
                true => transcript::page(&self.overview, seen, step),
                false => changes::page(&self.overview, seen, step),
            };
            known.work = Some(page.unwrap_or_else(|failure| vec![Said::new(Tone::Wait, words(&failure))]));
            self.changes = now;
        }
        self.transcript = is_transcript.then(|| (seen.id.clone(), step));
    }

    /// Reads the gate; this needs a whole verification.
    fn read_gate(&mut self, view: &View, all: &[PlanSnapshot], known: &mut Known) -> Result<(), Failure> {
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
                page: vec![Said::new(Tone::Bad, words(&failure))],
            }));
            self.gate = now;
            self.gate_is_looked_at = known.gate.as_ref().is_some_and(|gate| gate.is_looked_at);
        }
        Ok(())
    }
}

/// Returns an error with its causes as one text.
pub(super) fn words(failure: &Failure) -> String {
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

/// Returns the plans that wait first, then those being worked on, then the most recently changed.
fn cards(all: &[PlanSnapshot]) -> Vec<PlanCard> {
    let mut cards: Vec<PlanCard> = all.iter().map(|seen| drawable(PlanCard::of(seen))).collect();
    let urgency = |card: &PlanCard| (card.waits_for_person, card.state == PlanState::Running, card.moved);
    cards.sort_by(|a, b| urgency(b).cmp(&urgency(a)).then_with(|| a.id.cmp(&b.id)));
    cards
}
