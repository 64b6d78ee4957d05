//! Current state of all plans of a state folder, cached for frequent readers: pages, programs, metrics.
//!
//! Each plan is the fold of its events, as everywhere. New events are folded onto the known state, so that a
//! read costs only what has happened since the last.
//!
//! **Invariant:** only what is in the log is shown, and a chain that does not verify is shown as such.

mod archived;
mod attempts;
mod law;
mod listening;
mod live_view;
mod lives;
pub(super) mod transcripts;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::model::chain::{Auditor, PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::inbox::{DecisionKind, InboxItem, waiting as what_waits};
use provost_core::state::run::{Run, Stage};
use provost_core::text::summary::{PlanRow, PlansSummary, SummaryReader};
use provost_store::{Cursor, Log, Query};

use crate::observe::inbox;
use crate::plan::harness::Harness;
use crate::plan::human_check::Who;
use crate::plan::plan_context;
use crate::plan::plan_registry::{self, Here, PlanLocation};
use crate::plan::sessions::Sessions;
use crate::settings::{Access, EngineSettings};
use crate::{CommandOrigin, Error, journal};

pub use attempts::{AttemptRecord, TimedVerdict};
pub use law::SpecChanges;
pub use listening::{ServerAddressFile, link_to_running, running};
pub use lives::Life;
pub use transcripts::AttemptTranscript;

/// One plan.
#[derive(Clone)]
pub struct PlanSnapshot {
    pub id: PlanId,
    pub run: Arc<Run>,
    /// Times of its first and its last event, if it is in the log.
    pub begun: Option<Timestamp>,
    pub moved: Option<Timestamp>,
    /// Location of its file, if registered.
    pub place: Option<PlanLocation>,
    /// Why the rest of it is unknown.
    pub trouble: Option<String>,
    /// Number of its items that wait for a person.
    pub waiting: usize,
    /// A run, or an agent in its own client, works on it.
    pub is_worked_on: bool,
}

impl PlanSnapshot {
    /// Describes a run that was read without the cache, with the number of items that wait.
    pub fn of_run(id: PlanId, place: PlanLocation, run: Run, waiting: usize) -> Self {
        let (begun, moved, run) = (run.begun, run.moved, Arc::new(run));
        let (place, trouble, is_worked_on) = (Some(place), None, false);
        Self { id, run, begun, moved, place, trouble, waiting, is_worked_on }
    }

    /// Describes the run of an open plan.
    pub fn of_harness(harness: &Harness, run: Run, waiting: usize) -> Self {
        let place = PlanLocation::unregistered(harness.place());
        let seen = Self::of_run(harness.id().clone(), place, run, waiting);
        seen.looked_after(harness.log(), harness.state(), harness.is_shared)
    }

    /// Adds whether a process works on it. Only a plan that can continue is looked up.
    fn looked_after(mut self, log: &dyn Log, state: &Path, is_shared: bool) -> Self {
        let can_continue = matches!(self.run.stage, Stage::Approved | Stage::InProgress);
        self.is_worked_on = can_continue
            && (is_held(log, &self.id)
                // Workers of a cluster hold a plan only while they schedule it.
                || is_shared && self.run.under_way().next().is_some()
                || self.place.as_ref().is_some_and(|place| Sessions::new(state).has_client_for(&place.path)));
        self
    }

    /// Returns its name for people.
    pub fn name(&self) -> &str {
        self.place.as_ref().map_or(&self.id.0, |place| &place.name)
    }
}

/// The plans of a state folder, or of some of its repositories ([`Overview::only`]).
#[derive(Clone)]
pub struct Overview {
    settings: EngineSettings,
    log: Arc<dyn Log>,
    /// Other machines use the log too.
    is_shared: bool,
    /// Start time of this process, or a little later.
    begun: Timestamp,
    known: Arc<Mutex<Known>>,
    /// The only repositories whose plans exist here; `None` for all.
    only: Option<Arc<[PathBuf]>>,
}

#[derive(Default)]
struct Known {
    through: Cursor,
    /// As the log counts them; archived plans are then no longer kept here.
    archivings: u64,
    plans: BTreeMap<PlanId, Fold>,
    /// Their workspaces, each once.
    workspaces: BTreeSet<PathBuf>,
    /// Number of items of all plans that wait for a person.
    waiting: usize,
}

struct Fold {
    run: Arc<Run>,
    auditor: Auditor,
    begun: Timestamp,
    moved: Timestamp,
    place: Option<PlanLocation>,
    trouble: Option<String>,
    waiting: usize,
    /// Another process forged events in its log; the trusted part must be read again.
    disbelieved: bool,
}

impl Overview {
    pub fn open(settings: EngineSettings) -> Result<Self, Error> {
        let state = settings.state_folder();
        let log = crate::journal::log_locator::open(&state, crate::settings::Access::Write)?;
        let is_shared = crate::journal::log_locator::address(&state)?.is_some();
        let settings = EngineSettings { state, plan: None, ..settings };
        let (log, begun) = (Arc::from(log), plan_context::now());
        Ok(Self { settings, log, is_shared, begun, known: Arc::default(), only: None })
    }

    /// Returns the same plans without those of other repositories. Every function then answers as if those
    /// did not exist.
    pub fn only(&self, repositories: &[PathBuf]) -> Self {
        Self { only: Some(repositories.into()), ..self.clone() }
    }

    /// Returns whether some plans may be left out.
    pub fn is_limited(&self) -> bool {
        self.only.is_some()
    }

    /// Returns whether a plan exists here.
    pub fn has(&self, id: &PlanId) -> Result<bool, Error> {
        Ok(self.only.is_none() || self.plan(id)?.is_some())
    }

    /// A plan whose repository is not known is in none.
    fn shows(&self, fold: &Fold) -> bool {
        let Some(only) = &self.only else { return true };
        fold.place.as_ref().is_some_and(|place| only.contains(&place.repository_key()))
    }

    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    pub fn state(&self) -> &Path {
        &self.settings.state
    }

    /// Returns every plan, ordered by id.
    pub fn plans(&self) -> Result<Vec<PlanSnapshot>, Error> {
        let known = self.caught_up()?;
        let all: Vec<_> =
            known.plans.iter().filter(|(_, fold)| self.shows(fold)).map(|(id, fold)| fold.seen(id)).collect();
        drop(known);
        Ok(all.into_iter().map(|seen| self.looked_after(seen)).collect())
    }

    pub fn plan(&self, id: &PlanId) -> Result<Option<PlanSnapshot>, Error> {
        let known = self.caught_up()?.plans.get(id).map(|fold| (self.shows(fold), fold.seen(id)));
        let seen = match known {
            Some((shows, seen)) => shows.then_some(seen),
            None => self.archived_plan(id)?,
        };
        Ok(seen.map(|seen| self.looked_after(seen)))
    }

    fn looked_after(&self, seen: PlanSnapshot) -> PlanSnapshot {
        seen.looked_after(&*self.log, self.state(), self.is_shared)
    }

    /// Returns the number of items that wait for a person.
    pub fn waiting(&self) -> Result<usize, Error> {
        let known = self.caught_up()?;
        Ok(match self.only {
            None => known.waiting,
            Some(_) => known.plans.values().filter(|fold| self.shows(fold)).map(|fold| fold.waiting).sum(),
        })
    }

    /// Returns everything that waits for a person, newest last.
    pub fn inbox(&self) -> Result<Vec<InboxItem>, Error> {
        let here = Here::of(&self.settings.cwd);
        let mut items = Vec::new();
        for seen in self.plans()? {
            if seen.trouble.is_none() {
                items.extend(self.items_of(&seen, &here)?);
            }
        }
        items.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
        Ok(items)
    }

    /// Returns what waits in one plan.
    pub fn items(&self, seen: &PlanSnapshot) -> Result<Vec<InboxItem>, Error> {
        self.items_of(seen, &Here::of(&self.settings.cwd))
    }

    fn items_of(&self, seen: &PlanSnapshot, here: &Here) -> Result<Vec<InboxItem>, Error> {
        let heading = inbox::heading(&seen.id, seen.place.as_ref(), here);
        let mut items = inbox::items(&*self.log, &heading, &seen.run)?;
        for item in items.iter_mut().filter(|item| item.kind == DecisionKind::Confirmation) {
            if let Ok(harness) = self.harness(seen, Access::Read, Who::Here) {
                inbox::show_work(&harness, item);
            }
        }
        Ok(items)
    }

    /// Returns the attempts of the plan's steps, oldest first.
    pub fn attempts(&self, id: &PlanId) -> Result<Vec<AttemptRecord>, Error> {
        if !self.has(id)? {
            return Ok(Vec::new());
        }
        attempts::of(&*self.log, id)
    }

    /// Returns what the plan and its steps took so far: time of agents and checks, and waits for a person.
    pub fn effort(&self, seen: &PlanSnapshot) -> Result<PlanRow, Error> {
        let mut reader = SummaryReader::since(None);
        let mut unread = Ok(());
        self.log.read(&Query::plan(&seen.id), &mut |sealed| {
            unread = sealed.event().map(|event| reader.hear(sealed.at, &event));
            if unread.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        unread?;
        let mut summary = PlansSummary::default();
        reader.end(seen.id.clone(), seen.moved.unwrap_or_default(), &mut summary);
        summary.plans.pop().ok_or_else(|| Error::NotThere { plan: seen.id.clone() })
    }

    /// Returns the transcript of an attempt, by default of the step's last one; `None` if there is no such
    /// attempt.
    pub fn transcript(
        &self,
        id: &PlanId,
        step: StepNumber,
        number: Option<u32>,
    ) -> Result<Option<AttemptTranscript>, Error> {
        if !self.has(id)? {
            return Ok(None);
        }
        transcripts::of_attempt(&*self.log, self.state(), id, step, number)
    }

    /// Returns what was tried under each of its revisions, oldest first.
    pub fn lives(&self, seen: &PlanSnapshot) -> Result<Vec<Life>, Error> {
        lives::of(&*self.log, seen)
    }

    /// Returns what changed in the spec from its last approval up to `run`; `None` if it was never approved.
    pub fn changes_since_approval(&self, id: &PlanId, run: &Run) -> Result<Option<SpecChanges>, Error> {
        law::changes(&*self.log, id, run)
    }

    /// Opens a plan for the caller.
    pub fn harness(&self, seen: &PlanSnapshot, access: Access, who: Who) -> Result<Harness, Error> {
        let place = seen.place.as_ref().ok_or_else(|| Error::NotThere { plan: seen.id.clone() })?;
        self.harness_at(&seen.id, place, access, who)
    }

    /// Opens a plan that does not exist yet, in the folder of this process.
    pub fn upcoming(&self, name: &str, who: Who) -> Result<Harness, Error> {
        let settings = EngineSettings { plan: Some(name.to_owned()), ..self.settings.clone() };
        Ok(Harness::upcoming(settings)?.on_behalf_of(who).in_process_since(self.begun))
    }

    fn harness_at(
        &self,
        id: &PlanId,
        place: &PlanLocation,
        access: Access,
        who: Who,
    ) -> Result<Harness, Error> {
        let settings = EngineSettings {
            cwd: place.workspace.clone(),
            plan: Some(place.path.display().to_string()),
            ..self.settings.clone()
        };
        let harness = Harness::open(settings, access)?.on_behalf_of(who).in_process_since(self.begun);
        if harness.id() != id {
            return Err(Error::NotThere { plan: id.clone() });
        }
        Ok(harness)
    }

    /// Calls `each` for every matching event, with its position in the whole log.
    pub fn each(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if self.only.is_none() {
            return Ok(self.log.read_placed(query, each)?);
        }
        // The limit counts only events that are shown.
        let plans: BTreeSet<PlanId> = {
            let known = self.caught_up()?;
            known.plans.iter().filter(|(_, fold)| self.shows(fold)).map(|(id, _)| id.clone()).collect()
        };
        let mut left = query.limit;
        // Also a plan that the lists leave out.
        let is_shown = match &query.plan {
            Some(plan) => self.has(plan)?,
            None => false,
        };
        let all = Query { limit: None, ..query.clone() };
        Ok(self.log.read_placed(&all, &mut |at, sealed| {
            if !is_shown && !plans.contains(&sealed.plan) {
                return ControlFlow::Continue(());
            }
            match &mut left {
                Some(0) => return ControlFlow::Break(()),
                Some(left) => *left -= 1,
                None => {}
            }
            each(at, sealed)
        })?)
    }

    pub fn cursor(&self) -> Result<Cursor, Error> {
        Ok(self.log.cursor()?)
    }

    pub fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        Ok(self.log.wait(after, timeout)?)
    }

    /// Refuses and records a caller from inside an attempt of any running plan.
    pub fn only_people(&self, who: &Who) -> Result<(), Error> {
        // An unidentified caller cannot be recorded.
        if who.has_hung_up() {
            return Err(Error::NotAPerson {
                why: CommandOrigin::Attempt("and hung up before it could be seen from where".to_owned()),
            });
        }
        // The registry is enough; the log may be long and adds nothing.
        let known = plan_registry::all(self.state());
        let mut workspaces = BTreeSet::new();
        for (plan, place) in &known {
            if !place.is_there() || !workspaces.insert(&place.workspace) {
                continue;
            }
            let holder = match self.log.holder(&lease(&place.workspace)) {
                Ok(None) => continue,
                Ok(Some(holder)) => holder.what,
                Err(_) => String::new(),
            };
            // Record it in the plan that runs there, if that is known.
            let of_run = |(other, there): &&(PlanId, PlanLocation)| {
                // A plan that is being drafted has no file yet.
                there.workspace == place.workspace && holder.ends_with(&other.0) && there.is_there()
            };
            let (plan, place) =
                known.iter().find(of_run).map_or((plan, place), |(plan, place)| (plan, place));
            crate::plan::authorization::only_people(&self.harness_at(
                plan,
                place,
                Access::Write,
                who.clone(),
            )?)?;
        }
        match who.inside(&Sessions::new(self.state())) {
            Some(why) => Err(Error::NotAPerson { why }),
            None => Ok(()),
        }
    }

    pub(crate) fn log(&self) -> &dyn Log {
        &*self.log
    }

    /// Returns whether no run is under way.
    pub fn is_quiet(&self) -> Result<bool, Error> {
        let workspaces = self.caught_up()?.workspaces.clone();
        Ok(workspaces.iter().all(|workspace| matches!(self.log.holder(&lease(workspace)), Ok(None))))
    }

    fn caught_up(&self) -> Result<MutexGuard<'_, Known>, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.log.cursor()?;
        if now == known.through {
            return Ok(known);
        }
        let query = Query { after: Some(known.through), through: Some(now), ..Query::default() };
        let Known { plans, workspaces, waiting, .. } = &mut *known;
        let mut moved = BTreeSet::new();
        let read = self.log.read(&query, &mut |sealed| {
            // A plan may have been archived and continued since the last look.
            if plans.get(&sealed.plan).is_none_or(|fold| fold.misses_events_before(&sealed)) {
                let place = plan_registry::find(&self.settings.state, &sealed.plan);
                workspaces.extend(place.iter().map(|place| place.workspace.clone()));
                let before = plans.get(&sealed.plan).map_or(0, |before| before.waiting);
                plans.insert(sealed.plan.clone(), Fold::before(&*self.log, &sealed, place, before));
            }
            let Some(fold) = plans.get_mut(&sealed.plan) else { return ControlFlow::Continue(()) };
            fold.hear(&sealed);
            moved.insert(sealed.plan);
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            // An unknown part of the events was applied; start over.
            *known = Known::default();
            return Err(error.into());
        }
        for id in moved {
            let Some(fold) = plans.get_mut(&id) else { continue };
            if fold.disbelieved {
                match journal::read(&*self.log, &id) {
                    Ok(run) => fold.run = Arc::new(run),
                    Err(error) => fold.trouble = Some(error.to_string()),
                }
            }
            *waiting -= fold.waiting;
            fold.waiting = what_waits(&fold.run).len();
            *waiting += fold.waiting;
        }
        known.through = now;
        self.forget_archived(&mut known)?;
        Ok(known)
    }
}

/// Returns whether a process holds the plan's lease.
pub(crate) fn is_held(log: &dyn Log, plan: &PlanId) -> bool {
    !matches!(log.holder(&format!("plan {plan}")), Ok(None))
}

fn lease(workspace: &Path) -> String {
    format!("workspace {}", workspace.display())
}

impl Fold {
    fn new(begun: Timestamp, place: Option<PlanLocation>) -> Self {
        Self {
            run: Arc::default(),
            auditor: Auditor::default(),
            begun,
            moved: begun,
            place,
            trouble: None,
            waiting: 0,
            disbelieved: false,
        }
    }

    fn hear(&mut self, sealed: &SealedEvent) {
        self.moved = sealed.at;
        if self.trouble.is_some() {
            return;
        }
        let checked = self.auditor.next(sealed).map_err(|broken| broken.to_string());
        match checked.and_then(|()| sealed.event().map_err(|error| error.to_string())) {
            Ok(event) => {
                self.disbelieved |= matches!(event, Event::TamperDetected { from_seq: Some(_), .. });
                Arc::make_mut(&mut self.run).apply_at(&event, sealed.at);
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    fn seen(&self, id: &PlanId) -> PlanSnapshot {
        PlanSnapshot {
            id: id.clone(),
            run: self.run.clone(),
            begun: Some(self.begun),
            moved: Some(self.moved),
            place: self.place.clone(),
            trouble: self.trouble.clone(),
            waiting: self.waiting,
            is_worked_on: false,
        }
    }
}
