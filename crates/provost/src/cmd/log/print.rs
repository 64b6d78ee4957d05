//! Prints events to standard output: one JSON object or one sentence per line.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::state::run::Run;
use provost_core::text::render;

use crate::failure::Failure;
use crate::terminal;

pub(super) struct Printer {
    json: bool,
    /// Each line names its plan, because there are several.
    many: bool,
    /// Specs of plans with hidden contracts; their events are rendered without the hidden parts.
    hiding: BTreeMap<PlanId, Run>,
    failed: Option<Failure>,
    /// A line was printed.
    pub has_printed: bool,
}

impl Printer {
    pub(super) fn new(json: bool, many: bool) -> Self {
        Self { json, many, hiding: BTreeMap::new(), failed: None, has_printed: false }
    }

    pub(super) fn print(&mut self, sealed: &SealedEvent) -> ControlFlow<()> {
        self.has_printed = true;
        let line = if self.json { sealed.line() } else { self.words(sealed) };
        match terminal::print(&format!("{line}\n")) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    /// Returns the error that stopped the output, if any.
    pub(super) fn result(&mut self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn words(&mut self, sealed: &SealedEvent) -> String {
        let words = match sealed.event() {
            Ok(event) => {
                self.learn(&sealed.plan, &event);
                let run = self.hiding.get(&sealed.plan);
                run.map_or_else(|| render::event(&Run::default(), &event), |run| render::event(run, &event))
                    .words
            }
            Err(error) => error.to_string(),
        };
        let plan = if self.many { format!("{} ", sealed.plan) } else { String::new() };
        let step = sealed.step.map_or(String::new(), |step| format!("step {step}: "));
        format!("{plan}{:>4} {} {:<24} {step}{words}", sealed.seq, sealed.at, sealed.name)
    }

    fn learn(&mut self, plan: &PlanId, event: &Event) {
        if !matches!(event, Event::PlanCreated { .. } | Event::PlanRewritten { .. }) {
            return;
        }
        let mut run = Run::default();
        run.apply(event);
        if run.hides {
            self.hiding.insert(plan.clone(), run);
        } else {
            self.hiding.remove(plan);
        }
    }
}
