//! The log of a state folder, to look at: one plan of it, several, or all.
//!
//! Reading what happened takes no configuration, and of a plan whose file is gone only its id.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use provost_core::model::chain::{PlanId, Sealed};
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_core::text::summary::{Hearing, Summary};
use provost_host::plan_file;
use provost_host::plan_file::PlanPlace;
use provost_store::{Cursor, Log, Query};

use crate::harness::{Access, Settings};
use crate::otel::Request;
use crate::{Error, otel, places, site};

/// Which plans are wanted.
#[derive(Clone, Debug)]
pub enum Wanted {
    All,
    /// Paths, names or ids; none for the active plan.
    Plans(Vec<String>),
}

pub struct History {
    log: Box<dyn Log>,
    /// Nothing stands for all of them, those to come included.
    chosen: Option<BTreeSet<PlanId>>,
}

impl History {
    pub fn open(settings: &Settings, wanted: &Wanted, access: Access) -> Result<Self, Error> {
        let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
        let arguments: Vec<Option<&str>> = match wanted {
            Wanted::All => return Ok(Self { log: open_log(&state, access)?, chosen: None }),
            Wanted::Plans(none) if none.is_empty() => vec![None],
            Wanted::Plans(arguments) => arguments.iter().map(|argument| Some(argument.as_str())).collect(),
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
        Ok(Self { log, chosen: Some(chosen) })
    }

    /// Nothing stands for all plans.
    pub fn chosen(&self) -> Option<&BTreeSet<PlanId>> {
        self.chosen.as_ref()
    }

    /// The plans that were chosen, as far as there are any.
    pub fn plans(&self) -> Result<Vec<PlanId>, Error> {
        Ok(match &self.chosen {
            Some(chosen) => chosen.iter().cloned().collect(),
            None => self.log.plans()?,
        })
    }

    pub fn each(&self, query: &Query, each: &mut dyn FnMut(Sealed) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(self.log.read(query, each)?)
    }

    pub fn cursor(&self) -> Result<Cursor, Error> {
        Ok(self.log.cursor()?)
    }

    pub fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        Ok(self.log.wait(after, timeout)?)
    }

    /// What the plans took from `since` on, and before `until` or now.
    pub fn summary(&self, since: Option<Timestamp>, until: Option<Timestamp>) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        let now = site::now();
        let end = until.map_or(now, |until| until.min(now));
        for plan in self.plans()? {
            let mut hearing = None;
            self.events(&Query { until, ..Query::plan(&plan) }, &mut |sealed, event| {
                hearing.get_or_insert_with(|| Hearing::since(since)).hear(sealed.at, event);
                Ok(())
            })?;
            if let Some(hearing) = hearing {
                hearing.end(plan, end, &mut summary);
            }
        }
        Ok(summary)
    }

    /// The plans as traces, in requests of a bounded size, in their order.
    pub fn trace(&self, send: &mut dyn FnMut(&Request<'_>) -> Result<(), Error>) -> Result<u64, Error> {
        let mut spans = 0;
        for plan in self.plans()? {
            let mut export = otel::Export::new(&plan);
            self.events(&Query::plan(&plan), &mut |sealed, event| export.hear(sealed, event, send))?;
            spans += export.end(send)?;
        }
        Ok(spans)
    }

    /// Each event that this version can read, and the first trouble there is.
    fn events(
        &self,
        query: &Query,
        each: &mut dyn FnMut(&Sealed, &Event) -> Result<(), Error>,
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
    crate::logbook::open(state, access)
}

/// Also where the configuration cannot be read: plans are then looked for in the usual place.
fn resolved(argument: Option<&str>, cwd: &Path) -> Result<PlanPlace, Error> {
    match places::resolve(argument, cwd) {
        Err(Error::Config(_)) => Ok(plan_file::resolve(argument, cwd)?),
        resolved => resolved,
    }
}

/// The argument is a plan's id, as the log has it.
fn known(log: &dyn Log, argument: Option<&str>) -> Result<Option<PlanId>, Error> {
    let Some(argument) = argument else { return Ok(None) };
    Ok(log.plans()?.into_iter().find(|plan| plan.0 == argument))
}
