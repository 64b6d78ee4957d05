//! The facade of one plan: its log and the commands it accepts.
//!
//! Commands of people enter by [`Harness::human`], commands of agents by [`Harness::agent`]; provost's own
//! commands have no public entry. Methods are short: core decides, host acts. `harness/doors.rs` has the
//! entry points, `harness/driving.rs` runs a plan, `harness/looking.rs` only reads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::model::approved_spec;
use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::{Event, Revision};
use provost_core::model::hash::Hash;
use provost_core::model::proof::ProofStatement;
use provost_core::model::timestamp::Timestamp;
use provost_core::redact;
use provost_core::redact::Redactor;
use provost_core::rules::command::{HarnessCommand, HumanCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage};
use provost_host::check::judge;
use provost_host::config;
use provost_host::config::Config;
use provost_host::plans::plan_file::{self, PlanPlace};
use provost_store::{Append, Effect, Fence, Log, LogEntry};

use crate::human_check::Who;
use crate::plan_context::PlanContext;
use crate::prove::Prover;
use crate::reading::BoundPlan;
use crate::remote_tree::TreeTransport;
use crate::subplan::ParentContext;
use crate::{
    Error, drive, human_check, log_locator, plan_context, plan_registry, projections, reading, uncommitted,
};

pub mod base_look;
mod commands;
mod run_plan;
mod queries;
mod starting;

pub use run_plan::Recheck;
pub(crate) use run_plan::lease;

/// Prefix in the name of a lease holder that checks the work of a session.
pub(crate) const LOOKING: &str = "a look for a session of ";

/// Settings of a harness: folders, plan, environment.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    pub cwd: PathBuf,
    pub state: PathBuf,
    /// A path, a name, or `None` for the active plan.
    pub plan: Option<String>,
    /// Command that starts this program's scripted agent.
    pub launcher: Vec<OsString>,
    /// Set when a person interrupts.
    pub stop: Arc<AtomicBool>,
    /// Environment for agents; its secret values must not be shown.
    pub environment: Vec<(OsString, OsString)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only: creates nothing, syncs nothing.
    Read,
    Write,
}

pub struct Harness {
    log: Arc<dyn Log>,
    /// Several machines share the log.
    shared: bool,
    site: PlanContext,
    state: PathBuf,
    /// Start time of this process, or a little later.
    begun: Timestamp,
    who: Who,
    /// Name of the caller, if it is not this account's.
    name: Option<String>,
    /// Context of the parent plan, if this plan is a sub-plan.
    pub(crate) within: Option<ParentContext>,
    /// Transport of trees, if they travel between machines.
    pub(crate) carrying: Option<TreeTransport>,
    /// Callback for the events of sub-plans.
    told: Mutex<Option<Arc<Below>>>,
    /// Uncommitted files inside `touches` become part of the base.
    pub(crate) includes: AtomicBool,
}

/// Called with every event of a sub-plan and with that plan's name.
pub type Below = dyn Fn(&str, &Run, &SealedEvent, &Event) + Send + Sync;

/// Returns the user's state folder, which is outside every workspace.
pub fn state_folder(environment: &[(OsString, OsString)]) -> Result<PathBuf, Error> {
    let value = |name: &str| {
        environment.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    };
    if let Some(folder) = value("PROVOST_STATE") {
        return Ok(PathBuf::from(folder));
    }
    if let Some(folder) = value("XDG_STATE_HOME") {
        return Ok(Path::new(folder).join("provost"));
    }
    let home = value("HOME").ok_or(Error::NoStateFolder)?;
    Ok(Path::new(home).join(".local/state/provost"))
}

/// Returns a redactor that knows the secret values of the environment.
pub(crate) fn redactor(environment: &[(OsString, OsString)], secrets: &[String]) -> Redactor {
    let text = environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let is_secret = |name: &str| redact::looks_secret(name) || secrets.iter().any(|secret| secret == name);
    Redactor::new(text.filter(|(name, _)| is_secret(name)))
}

/// Adds tools of the workspace that are on `PATH`, such as a virtual environment, to the configured caches:
/// checks see them as they were before any agent ran.
fn add_tools_of_the_workspace(config: &mut Config, workspace: &Path) {
    let tools = judge::kept_in_workspace(workspace);
    let caches = &mut config.verify.caches;
    caches.extend(tools.into_iter().filter(|tool| !caches.contains(tool)).collect::<Vec<_>>());
}

/// Opens the log of all plans for reading.
pub fn open_log(state: &Path) -> Result<Box<dyn Log>, Error> {
    log_locator::open(state, Access::Read)
}

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
        let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
        if state.starts_with(&place.workspace) {
            return Err(Error::StateInWorkspace(state));
        }
        Ok(Self::with(place, config, state, settings, log, true))
    }

    /// Opens a plan that has its identifier from the log and whose trees come from a remote.
    pub(crate) fn at_an_outpost(
        place: PlanPlace,
        config: Config,
        state: PathBuf,
        settings: EngineSettings,
        log: Arc<dyn Log>,
        (id, carrying): (PlanId, TreeTransport),
    ) -> Self {
        let mut harness = Self::with(place, config, state, settings, log, true);
        harness.site.id = id;
        Self { carrying: Some(carrying), ..harness }
    }

    pub(crate) fn at(place: PlanPlace, settings: EngineSettings, access: Access) -> Result<Self, Error> {
        let begun = plan_context::now();
        let config = config::find(&place.workspace)?;
        let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
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
        mut config: Config,
        state: PathBuf,
        settings: EngineSettings,
        log: Arc<dyn Log>,
        shared: bool,
    ) -> Self {
        let begun = plan_context::now();
        add_tools_of_the_workspace(&mut config, &place.workspace);
        let redactor = redactor(&settings.environment, &config.verify.secrets);
        let EngineSettings { launcher, environment, stop, .. } = settings;
        let site = PlanContext::new(place, config, redactor, launcher, environment, stop);
        Self {
            log,
            shared,
            site,
            state,
            begun,
            who: Who::Here,
            name: None,
            within: None,
            carrying: None,
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
        self.name.clone().unwrap_or_else(human_check::account)
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

    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Signs a statement with provost's key and returns the envelope as text.
    pub fn seal(&self, statement: &ProofStatement) -> Result<String, Error> {
        self.prover().seal(statement)
    }

    pub(crate) fn who(&self) -> &Who {
        &self.who
    }

    pub(crate) fn site(&self) -> &PlanContext {
        &self.site
    }

    /// Returns whether a person has asked provost to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.site.stop.load(Ordering::Relaxed)
    }

    /// Returns whether several machines share the log.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Returns the text without secrets.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.site.redactor.text(text).into_owned()
    }

    pub fn redactor(&self) -> &Redactor {
        &self.site.redactor
    }

    /// Folds the plan's log.
    pub fn run(&self) -> Result<Run, Error> {
        drive::read(&*self.log, self.id())
    }

    /// Reads and parses the plan file and binds it to its surroundings; does not verify it.
    pub fn read(&self) -> Result<BoundPlan, Error> {
        let found = plan_file::read(&self.place().path)?;
        let reading = BoundPlan::of(&self.site, &found.bytes);
        // Without a trustworthy log no files count as included.
        let run = self.run().unwrap_or_default();
        let mut included = uncommitted::still_included(&self.place().workspace, &run);
        if self.includes.load(Ordering::Relaxed) {
            included = self.with_uncommitted(run, &reading, included)?;
        }
        Ok(reading.including(included))
    }

    /// Parses and verifies the plan file.
    pub fn check(&self) -> Result<BoundPlan, Error> {
        Ok(self.read()?.verified(&self.site))
    }

    /// Parses and verifies a text that is not in the plan file yet.
    pub fn check_text(&self, text: Vec<u8>) -> Result<BoundPlan, Error> {
        Ok(BoundPlan::of(&self.site, &text).verified(&self.site))
    }

    /// Records a plan without errors in the log as recorded and verified.
    pub fn record(&self, reading: &BoundPlan) -> Result<Run, Error> {
        let run = self.harness(|_| HarnessCommand::Record {
            text: reading.text.clone(),
            binding: reading.binding.clone(),
            author: Some(self.person()),
        })?;
        if run.stage != Stage::Draft {
            return Ok(run);
        }
        // The verification applies to this revision, even if another one was recorded since.
        let (revision, warnings) = (run.revision, reading.warnings());
        let verified = self.harness(|_| HarnessCommand::Verified { revision: revision.clone(), warnings });
        self.or_found(verified, |run| run.revision == revision && run.stage != Stage::Draft)
    }

    /// Accepts a `WrongStage` refusal if another process has already brought the run to the wanted state.
    fn or_found(&self, said: Result<Run, Error>, is_it: impl Fn(&Run) -> bool) -> Result<Run, Error> {
        match said {
            Err(refused @ Error::Refused(Refusal::WrongStage { .. })) => {
                let run = self.run()?;
                if is_it(&run) { Ok(run) } else { Err(refused) }
            }
            said => said,
        }
    }

    /// Reads, verifies and records the plan file, or returns its diagnostics. Returns the reading too if it
    /// was new to the log.
    pub fn bring_up(&self) -> Result<(Run, Option<BoundPlan>), Error> {
        let run = self.genuine()?;
        if run.stage != Stage::Draft && !self.is_to_include(&run) && self.stands(&run)? {
            return Ok((run, None));
        }
        let reading = self.read()?;
        if self.unchanged(&run, &reading) && run.stage != Stage::Draft {
            self.project(&run);
            return Ok((run, None));
        }
        drop(run);
        let reading = reading.verified(&self.site);
        if reading.errors() {
            return Err(Error::Diagnosed { text: reading.text, diagnostics: reading.diagnostics });
        }
        let run = self.record(&reading)?;
        self.project(&run);
        Ok((run, Some(reading)))
    }

    /// Brings up the plan for a person who approves the revision they typed, which may be a prefix. An
    /// approval that would be refused is refused before anything is recorded.
    pub fn bring_up_to_approve_revision(&self, typed: &str) -> Result<(Run, Option<BoundPlan>), Error> {
        self.genuine()?;
        let (mut run, _) = self.preview()?;
        if !run.revision.is_named_by(typed) {
            let (read, current) = (Revision(typed.to_owned()), run.revision.short().to_owned());
            return Err(Refusal::Stale { read: read.short().to_owned(), current }.into());
        }
        if run.stage == Stage::Draft {
            run.apply(&Event::PlanVerified { revision: run.revision.clone(), warnings: 0 });
        }
        let (revision, by, modifications) = (run.revision.clone(), self.person(), Vec::new());
        decide::human(&run, HumanCommand::Approve { revision, by, modifications })?;
        self.only_at_a_terminal()?;
        self.refuse_uncommitted(&run)?;
        self.bring_up_to_approve()
    }

    /// Brings up the plan for a person who reads it before approving. If authors may not approve their own
    /// plans, the log must already name the author.
    pub fn bring_up_to_approve(&self) -> Result<(Run, Option<BoundPlan>), Error> {
        let before = self.run()?;
        if !self.config().gate.quorum.self_approval || !before.quorum().self_approval {
            let (now, _) = self.preview()?;
            if now.law != before.law || before.author.is_none() {
                return Err(Refusal::NoAuthor.into());
            }
        }
        self.bring_up()
    }

    /// Folds the plan's log; an error if another process has forged events in it.
    pub(crate) fn genuine(&self) -> Result<Run, Error> {
        let run = self.run()?;
        match run.forged_from {
            None => Ok(run),
            Some(from_seq) => Err(self.forged(from_seq)),
        }
    }

    fn forged(&self, from_seq: u64) -> Error {
        Error::Forged { plan: self.id().clone(), from_seq, what: "an earlier run found it".to_owned() }
    }

    /// Returns whether the file is byte for byte what provost would write and its surroundings are unchanged;
    /// then it needs no parsing.
    fn stands(&self, run: &Run) -> Result<bool, Error> {
        let found = plan_file::read(&self.place().path)?;
        let marked = approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
        if found.bytes != marked.as_bytes() {
            return Ok(false);
        }
        Ok(match run.started() {
            true => reading::terms(&self.site, &run.plan) == run.binding.terms,
            false => reading::revision_now(&self.site, run) == run.revision,
        })
    }

    /// Returns whether the log already holds this text.
    fn unchanged(&self, run: &Run, reading: &BoundPlan) -> bool {
        if run.started() {
            run.law == Some(approved_spec::digest(&reading.text, &reading.plan))
                && run.binding.terms == reading.binding.terms
        } else {
            run.revision == reading.revision
        }
    }

    /// Decides on the newest state and appends; repeats if another process wrote first.
    fn say(&self, decision: impl Fn(&Run) -> Result<Vec<Event>, Refusal>) -> Result<Run, Error> {
        loop {
            let mut run = self.run()?;
            let events = self.redacted(decision(&run)?);
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

    /// Returns the events without secrets.
    pub(crate) fn redacted(&self, events: Vec<Event>) -> Vec<Event> {
        events.into_iter().map(|event| self.site.redactor.event(event)).collect()
    }

    /// Applies the events and makes them durable.
    pub(crate) fn append(
        &self,
        run: &mut Run,
        events: &[Event],
    ) -> Result<Vec<SealedEvent>, provost_store::Error> {
        self.append_with(run, events, None, &self.wakes())
    }

    /// Applies the events and makes them durable, under this lease and with these effects.
    pub(crate) fn append_with(
        &self,
        run: &mut Run,
        events: &[Event],
        fence: Option<&Fence>,
        effects: &[Effect],
    ) -> Result<Vec<SealedEvent>, provost_store::Error> {
        let expected_seq = run.seq;
        // Every event that no drive makes passes here; redacting twice changes nothing.
        let events = &self.redacted(events.to_vec());
        for event in events {
            run.apply(event);
        }
        let entries: Vec<LogEntry<'_>> = events
            .iter()
            .map(|event| LogEntry { event, task_name: event.step().and_then(|step| run.title(step)) })
            .collect();
        let (plan, at) = (self.id(), plan_context::now());
        let sealed = self.log.append(Append { plan, expected_seq, at, fence, events: &entries, effects })?;
        for event in events {
            run.tick(event, at);
        }
        Ok(sealed)
    }

    /// Writes the marks of the run into the plan file and ignores failures. A running drive writes them
    /// itself and could not tell these writes from tampering.
    pub(crate) fn project(&self, run: &Run) {
        if !self.is_under_way() {
            let _ = projections::marks(&self.site, run);
        }
    }

    /// Updates the plan file after a crash; a running drive does so itself.
    pub fn catch_up_marks(&self, run: &Run) {
        if run.exists() && run.forged_from.is_none() {
            self.project(run);
        }
    }

    pub(crate) fn prover(&self) -> Prover {
        Prover::new(&self.state, self.id(), self.config().proof.ssh_key.as_deref())
    }

    /// Replaces the plan file's text, if it is still the text that was read.
    pub fn rewrite(&self, read: &BoundPlan, text: &str) -> Result<(), Error> {
        let expected = Hash::of(read.text.as_bytes());
        plan_file::replace(&self.place().path, &expected, text.as_bytes())?;
        Ok(())
    }
}
