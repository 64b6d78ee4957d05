//! Reads the log of a state folder: one plan, several, or all.
//!
//! Reading needs no configuration; a plan whose file is gone can be named by its id.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::text::summary::{PlansSummary, SummaryReader};
use provost_host::plans::plan_file::{self, PlanPlace};
use provost_store::{Cursor, Log, Query};

use crate::Error;
use crate::observe::otel::{self, TraceRequest};
use crate::observe::overview::{AttemptTranscript, transcripts};
use crate::plan::{plan_context, plan_registry};
use crate::settings::{Access, EngineSettings};

/// Selection of plans.
#[derive(Clone, Debug)]
pub enum PlanSelection {
    All,
    /// Paths, names or ids; empty for the active plan.
    Plans(Vec<String>),
}

pub struct History {
    log: Box<dyn Log>,
    state: PathBuf,
    /// `None` for all plans, including future ones.
    chosen: Option<BTreeSet<PlanId>>,
}

impl History {
    pub fn open(settings: &EngineSettings, wanted: &PlanSelection, access: Access) -> Result<Self, Error> {
        let state = settings.state_folder();
        let arguments: Vec<Option<&str>> = match wanted {
            PlanSelection::All => {
                return Ok(Self { log: open_log(&state, access)?, state, chosen: None });
            }
            PlanSelection::Plans(none) if none.is_empty() => vec![None],
            PlanSelection::Plans(arguments) => {
                arguments.iter().map(|argument| Some(argument.as_str())).collect()
            }
        };
        let places: Vec<_> = arguments.iter().map(|argument| resolved(*argument, &settings.cwd)).collect();
        // Before anything is created.
        if places.iter().flatten().any(|place| state.starts_with(&place.workspace)) {
            return Err(Error::StateInWorkspace(state));
        }
        let log = open_log(&state, access)?;
        let mut chosen = BTreeSet::new();
        for (argument, place) in arguments.iter().zip(places) {
            chosen.insert(match place {
                Ok(place) => plan_file::id(&place),
                Err(error) => known(&*log, *argument)?.ok_or(error)?,
            });
        }
        Ok(Self { log, state, chosen: Some(chosen) })
    }

    /// Returns the selected plans; `None` for all.
    pub fn chosen(&self) -> Option<&BTreeSet<PlanId>> {
        self.chosen.as_ref()
    }

    /// Returns the number of archived plans that are left out.
    pub fn left_out(&self) -> Result<u64, Error> {
        if self.chosen.is_some() { Ok(0) } else { Ok(self.log.archived_count()?) }
    }

    /// Returns the selected plans that exist. All plans are those in the log.
    pub fn plans(&self) -> Result<Vec<PlanId>, Error> {
        Ok(match &self.chosen {
            Some(chosen) => chosen.iter().cloned().collect(),
            None => self.log.unarchived_plans()?,
        })
    }

    pub fn each(
        &self,
        query: &Query,
        each: &mut dyn FnMut(SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        Ok(self.log.read(query, each)?)
    }

    pub fn cursor(&self) -> Result<Cursor, Error> {
        Ok(self.log.cursor()?)
    }

    pub fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        Ok(self.log.wait(after, timeout)?)
    }

    /// Returns the transcript of an attempt at a step of a plan, by default of the last attempt; `None` if
    /// there is no such attempt.
    pub fn transcript(
        &self,
        plan: &PlanId,
        step: StepNumber,
        number: Option<u32>,
    ) -> Result<Option<AttemptTranscript>, Error> {
        transcripts::of_attempt(&*self.log, &self.state, plan, step, number)
    }

    /// Summarises the plans from `since` on and before `until`, or until now.
    pub fn summary(&self, since: Option<Timestamp>, until: Option<Timestamp>) -> Result<PlansSummary, Error> {
        let mut summary = PlansSummary::default();
        let now = plan_context::now();
        let end = until.map_or(now, |until| until.min(now));
        for plan in self.plans()? {
            let mut hearing = None;
            self.events(&Query { until, ..Query::plan(&plan) }, &mut |sealed, event| {
                hearing.get_or_insert_with(|| SummaryReader::since(since)).hear(sealed.at, event);
                Ok(())
            })?;
            if let Some(hearing) = hearing {
                hearing.end(plan, end, &mut summary);
            }
        }
        Ok(summary)
    }

    /// Exports the plans as traces, in order and in requests of a bounded size. Returns the number of spans.
    pub fn trace(&self, send: &mut dyn FnMut(&TraceRequest<'_>) -> Result<(), Error>) -> Result<u64, Error> {
        let mut spans = 0;
        for plan in self.plans()? {
            let mut export = otel::Export::new(&plan);
            self.events(&Query::plan(&plan), &mut |sealed, event| export.hear(sealed, event, send))?;
            spans += export.end(send)?;
        }
        Ok(spans)
    }

    /// Calls `each` for every event; returns the first error.
    fn events(
        &self,
        query: &Query,
        each: &mut dyn FnMut(&SealedEvent, &Event) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut heard = Ok(());
        self.log.read(query, &mut |sealed| {
            heard = sealed.event().map_err(Error::from).and_then(|event| each(&sealed, &event));
            if heard.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        heard
    }
}

fn open_log(state: &Path, access: Access) -> Result<Box<dyn Log>, Error> {
    crate::journal::log_locator::open(state, access)
}

/// Resolves an argument; if the configuration cannot be read, in the default plan folder.
fn resolved(argument: Option<&str>, cwd: &Path) -> Result<PlanPlace, Error> {
    match plan_registry::resolve(argument, cwd) {
        Err(Error::Config(_)) => Ok(plan_file::resolve(argument, cwd)?),
        resolved => resolved,
    }
}

/// Returns the plan of the log whose id is the argument.
fn known(log: &dyn Log, argument: Option<&str>) -> Result<Option<PlanId>, Error> {
    let Some(plan) = argument.map(|argument| PlanId(argument.to_owned())) else { return Ok(None) };
    Ok((log.head(&plan)?.seq > 0).then_some(plan))
}
