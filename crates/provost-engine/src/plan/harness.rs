//! The handle of one plan: its place, its configuration and its log.
//!
//! Everything above takes this handle: [`commands`](super::commands) accepts the commands of people and
//! agents, [`recording`](super::recording) reads and records the plan file, [`queries`](super::queries) only
//! reads, [`run_plan`](crate::run::run_plan) runs the plan.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::redact::Redactor;
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::Run;
use provost_host::config;
use provost_host::config::Config;
use provost_host::plans::plan_file::{self, PlanPlace};
use provost_store::{Effect, Error as StoreError, Fence, Holder, Lease, Log};

use crate::journal::{lease, log_locator};
use crate::plan::human_check::{self, Who};
use crate::plan::plan_context::{self, PlanContext};
use crate::plan::plan_registry;
use crate::plan::prove::Prover;
use crate::plan::subplan::ParentContext;
use crate::settings::{Access, EngineSettings};
use crate::workplace::Workplace;
use crate::{Error, journal, settings};

pub struct Harness {
    log: Arc<dyn Log>,
    /// Several machines share the log.
    pub(crate) is_shared: bool,
    site: PlanContext,
    state: PathBuf,
    /// Start time of this process, or a little later.
    pub(crate) begun: Timestamp,
    who: Who,
    /// Name of the caller, if it is not this account's.
    name: Option<String>,
    /// Context of the parent plan, if this plan is a sub-plan.
    pub(crate) within: Option<ParentContext>,
    /// Where agents work.
    pub(crate) workplace: Arc<dyn Workplace>,
    /// Callback for the events of sub-plans.
    told: Mutex<Option<Arc<Below>>>,
    /// Uncommitted files inside `touches` become part of the base.
    pub(crate) includes: AtomicBool,
}

/// Called with every event of a sub-plan and with that plan's name.
pub type Below = dyn Fn(&str, &Run, &SealedEvent, &Event) + Send + Sync;

impl Harness {
    pub fn open(settings: EngineSettings, access: Access) -> Result<Self, Error> {
        let place = plan_registry::resolve(settings.plan.as_deref(), &settings.cwd)?;
        Self::at(place, settings, access)
    }

    /// Opens a plan that does not exist yet; an existing one is an error.
    pub fn upcoming(settings: EngineSettings) -> Result<Self, Error> {
        let name = settings.plan.clone().unwrap_or_default();
        let place = plan_file::upcoming(&name, &settings.cwd, &plan_registry::folder(&settings.cwd)?)?;
        Self::at(place, settings, Access::Write)
    }

    /// Opens a plan on an open log that several machines share.
    pub fn open_on(settings: EngineSettings, log: Arc<dyn Log>) -> Result<Self, Error> {
        let place = plan_registry::resolve(settings.plan.as_deref(), &settings.cwd)?;
        let config = config::find(&place.workspace)?;
        let state = settings.state_folder();
        if state.starts_with(&place.workspace) {
            return Err(Error::StateInWorkspace(state));
        }
        Ok(Self::with(place, config, state, settings, log, true))
    }

    /// Opens a plan that has its identifier from the log, in a workspace that was made for it.
    pub fn for_logged_plan(
        place: PlanPlace,
        config: Config,
        state: PathBuf,
        settings: EngineSettings,
        log: Arc<dyn Log>,
        id: PlanId,
    ) -> Self {
        let mut harness = Self::with(place, config, state, settings, log, true);
        harness.site.id = id;
        harness
    }

    pub(crate) fn at(place: PlanPlace, settings: EngineSettings, access: Access) -> Result<Self, Error> {
        let begun = plan_context::now();
        let config = config::find(&place.workspace)?;
        let state = settings.state_folder();
        if state.starts_with(&place.workspace) {
            return Err(Error::StateInWorkspace(state));
        }
        log_locator::check(&state, &config.store)?;
        let log = Arc::from(log_locator::open(&state, access)?);
        let shared = log_locator::address(&state)?.is_some();
        let harness = Self { begun, ..Self::with(place, config, state, settings, log, shared) };
        if access == Access::Write {
            plan_registry::keep(&harness.state, harness.id(), harness.place());
        }
        Ok(harness)
    }

    fn with(
        place: PlanPlace,
        config: Config,
        state: PathBuf,
        settings: EngineSettings,
        log: Arc<dyn Log>,
        shared: bool,
    ) -> Self {
        let begun = plan_context::now();
        let redactor = settings::redactor(&settings.environment, &config);
        let EngineSettings { launcher, environment, stop, workplace, .. } = settings;
        let site = PlanContext::new(place, config, redactor, launcher, environment, stop);
        Self {
            log,
            is_shared: shared,
            site,
            state,
            begun,
            who: Who::Here,
            name: None,
            within: None,
            workplace,
            told: Mutex::default(),
            includes: AtomicBool::new(false),
        }
    }

    /// Authenticates the remote caller of the server instead of this process.
    pub fn on_behalf_of(self, who: Who) -> Self {
        Self { who, ..self }
    }

    /// Sets the start time of a process that opens plans long after it started.
    pub(crate) fn in_process_since(self, begun: Timestamp) -> Self {
        Self { begun: begun.min(self.begun), ..self }
    }

    /// Sets the name on the caller's token.
    pub fn named(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Returns the name under which approvals made here count, and under which recorded plans are authored.
    pub fn person(&self) -> String {
        let known = || self.log.own_name().ok().flatten();
        self.name.clone().or_else(known).unwrap_or_else(human_check::account)
    }

    /// Sets the callback for the events of sub-plans.
    pub fn tell_of_plans_below(&self, told: Option<Arc<Below>>) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    pub(crate) fn told(&self) -> Option<Arc<Below>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn id(&self) -> &PlanId {
        &self.site.id
    }

    pub fn place(&self) -> &PlanPlace {
        &self.site.place
    }

    pub fn config(&self) -> &Config {
        &self.site.config
    }

    pub fn log(&self) -> &dyn Log {
        &*self.log
    }

    pub(crate) fn shared_log(&self) -> Arc<dyn Log> {
        self.log.clone()
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn who(&self) -> &Who {
        &self.who
    }

    pub fn site(&self) -> &PlanContext {
        &self.site
    }

    pub fn redactor(&self) -> &Redactor {
        &self.site.redactor
    }

    /// Folds the plan's log.
    pub fn run(&self) -> Result<Run, Error> {
        journal::read(&*self.log, self.id())
    }

    /// Folds the plan's log; an error if another process has forged events in it.
    pub fn genuine(&self) -> Result<Run, Error> {
        let run = self.run()?;
        match run.forged_from {
            None => Ok(run),
            Some(from_seq) => Err(forged(self.id(), from_seq)),
        }
    }

    /// Decides on the newest state and appends; repeats if another process wrote first.
    pub(crate) fn say(&self, decision: impl Fn(&Run) -> Result<Vec<Event>, Refusal>) -> Result<Run, Error> {
        loop {
            let mut run = self.run()?;
            let events = self.site.redacted(decision(&run)?);
            if events.is_empty() {
                return Ok(run);
            }
            match self.append(&mut run, &events) {
                Ok(_) => return Ok(run),
                Err(provost_store::Error::Conflict { .. }) => continue,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Applies the events and makes them durable.
    pub(crate) fn append(
        &self,
        run: &mut Run,
        events: &[Event],
    ) -> Result<Vec<SealedEvent>, provost_store::Error> {
        // If several machines share the log, the plan is scheduled again.
        let wakes = self.is_shared.then(|| Effect::Wake(self.id().clone()));
        self.append_with(run, events, None, wakes.as_slice())
    }

    /// Applies the events and makes them durable, under this lease and with these effects.
    pub fn append_with(
        &self,
        run: &mut Run,
        events: &[Event],
        fence: Option<&Fence>,
        effects: &[Effect],
    ) -> Result<Vec<SealedEvent>, provost_store::Error> {
        // Every event that no run makes passes here; redacting twice changes nothing.
        let events = &self.site.redacted(events.to_vec());
        for event in events {
            run.apply(event);
        }
        let at = plan_context::now();
        let sealed = journal::append(&*self.log, self.id(), run, at, fence, events, effects)?;
        for event in events {
            run.tick(event, at);
        }
        Ok(sealed)
    }

    pub(crate) fn prover(&self) -> Prover {
        Prover::new(&self.state, self.id(), self.config().proof.ssh_key.as_deref())
    }

    /// Returns whether a process holds the lease; `true` also if this cannot be read.
    pub(crate) fn is_under_way(&self) -> bool {
        let is_held = |name: &str| !matches!(self.log.holder(name), Ok(None));
        // Another machine may hold the plan with its own workspace.
        is_held(&self.workspace_lease()) || self.is_shared && is_held(&format!("plan {}", self.id()))
    }

    pub(crate) fn workspace_lease(&self) -> String {
        format!("workspace {}", self.place().workspace.display())
    }

    /// Decides a command of provost itself and records the result.
    pub(crate) fn own_command(&self, command: impl Fn(&Run) -> HarnessCommand) -> Result<Run, Error> {
        self.say(|run| decide::harness(run, command(run)))
    }

    /// Makes the events durable under this lease and passes them to `watch`.
    pub(crate) fn tell(
        &self,
        run: &mut Run,
        events: &[Event],
        fence: Option<&Fence>,
        watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
    ) -> Result<(), Error> {
        let events = self.site.redacted(events.to_vec());
        let sealed = self.append_with(run, &events, fence, &[])?;
        for (sealed, event) in sealed.iter().zip(&events) {
            watch(run, sealed, event);
        }
        Ok(())
    }
}

/// Takes a lease of the plan's log; waits at most `usual` for its holder.
pub(crate) fn lease(harness: &Harness, name: &str, holder: &Holder, usual: Duration) -> Result<Lease, Error> {
    lease::take(harness.log(), name, holder, (usual, Duration::ZERO), &harness.site().stop)
}

/// Returns the name of the lease on an attempt at a step, if the plan's lease is not held meanwhile.
pub fn step_lease(plan: &PlanId, step: StepNumber) -> String {
    format!("plan {plan} step {step}")
}

/// Returns the leases by which processes work on the plan; that of the plan itself, if there is none.
pub fn leases_at_work(harness: &Harness) -> Result<Vec<String>, Error> {
    let (mut held, plan) = (Vec::new(), format!("plan {}", harness.id()));
    let steps = harness.run()?.at_work.into_iter().map(|step| step_lease(harness.id(), step));
    for name in std::iter::once(plan.clone()).chain(steps) {
        if harness.log().holder(&name)?.is_some() {
            held.push(name);
        }
    }
    Ok(if held.is_empty() { vec![plan] } else { held })
}

/// Returns the process that works on the plan, or on one of its steps.
pub fn holder(log: &dyn Log, plan: &PlanId, run: &Run) -> Result<Option<Holder>, StoreError> {
    let steps = run.at_work.iter().map(|step| step_lease(plan, *step));
    for name in std::iter::once(format!("plan {plan}")).chain(steps) {
        if let Some(holder) = log.holder(&name)? {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

/// Returns the files that provost itself reads and writes, wherever they are.
pub(crate) fn own_files(harness: &Harness) -> Vec<PathBuf> {
    let place = harness.place();
    let marker = plan_file::marker(&place.workspace);
    let own = [place.path.clone(), place.progress.clone(), marker].into_iter();
    let own = own.chain(harness.config().path.clone());
    own.chain(harness.within.iter().flat_map(|within| within.files.clone())).collect()
}

/// Returns the error for a log in which an earlier run has found forged events.
pub(crate) fn forged(plan: &PlanId, from_seq: u64) -> Error {
    Error::Forged { plan: plan.clone(), from_seq, what: "an earlier run found it".to_owned() }
}
