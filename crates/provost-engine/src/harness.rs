//! The façade: one plan, its log and its doors.
//!
//! People come in by [`Harness::human`], agents by [`Harness::agent`]; the harness's own door is not
//! public. Methods are short: what they decide is core's, what they do is host's. `harness/doors.rs` has the
//! doors, `harness/driving.rs` what carries a plan out, `harness/looking.rs` what is only looked at.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::model::approved_spec;
use provost_core::model::chain::{PlanId, Sealed};
use provost_core::model::event::{Event, Revision};
use provost_core::model::hash::Hash;
use provost_core::model::proof::Statement;
use provost_core::model::timestamp::Timestamp;
use provost_core::redact;
use provost_core::redact::Redactor;
use provost_core::rules::command::{HarnessCommand, HumanCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage};
use provost_host::config::Config;
use provost_host::plan_file::PlanPlace;
use provost_host::{config, judge, plan_file};
use provost_store::{Append, Effect, Entry, Fence, Log};

use crate::carry::Carrying;
use crate::errand::Within;
use crate::people::Who;
use crate::prove::Prover;
use crate::reading::Reading;
use crate::site::Site;
use crate::{Error, drive, logbook, people, places, project, reading, site, uncommitted};

pub mod base_look;
mod doors;
mod driving;
mod looking;
mod starting;

pub use driving::Recheck;
pub(crate) use driving::lease;

/// How the holder of a lease is called that looks at what a session has left.
pub(crate) const LOOKING: &str = "a look for a session of ";

/// Where and for whom the harness works.
#[derive(Clone, Debug)]
pub struct Settings {
    pub cwd: PathBuf,
    pub state: PathBuf,
    /// A path, a name, or nothing for the active plan.
    pub plan: Option<String>,
    /// How to start this program's scripted agent.
    pub launcher: Vec<OsString>,
    /// Set when a person interrupts.
    pub stop: Arc<AtomicBool>,
    /// What agents get, and where the values stand that must not be shown.
    pub environment: Vec<(OsString, OsString)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looks only: creates nothing, syncs nothing.
    Read,
    Write,
}

pub struct Harness {
    log: Arc<dyn Log>,
    /// Many machines share the log.
    shared: bool,
    site: Site,
    state: PathBuf,
    /// When this process was begun, or not much later.
    begun: Timestamp,
    who: Who,
    /// Under which name, where that is not this account's.
    name: Option<String>,
    /// Where the plan carries out a step of another.
    pub(crate) within: Option<Within>,
    /// Where its trees travel between machines.
    pub(crate) carrying: Option<Carrying>,
    /// Hears of plans that carry out steps of this one.
    told: Mutex<Option<Arc<Below>>>,
    /// Uncommitted files inside `touches` become part of the base.
    pub(crate) includes: AtomicBool,
}

/// Is told every event of a plan that carries out a step, with that plan's name.
pub type Below = dyn Fn(&str, &Run, &Sealed, &Event) + Send + Sync;

/// The user's state folder, outside every workspace.
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

/// Knows the values of the environment that must not be shown.
pub(crate) fn redactor(environment: &[(OsString, OsString)], secrets: &[String]) -> Redactor {
    let text = environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let is_secret = |name: &str| redact::looks_secret(name) || secrets.iter().any(|secret| secret == name);
    Redactor::new(text.filter(|(name, _)| is_secret(name)))
}

/// Checks see a virtual environment of the workspace that is on `PATH` as they see the caches that the
/// configuration names: as it was before any agent.
fn add_tools_of_the_workspace(config: &mut Config, workspace: &Path) {
    let tools = judge::kept_in_workspace(workspace);
    let caches = &mut config.verify.caches;
    caches.extend(tools.into_iter().filter(|tool| !caches.contains(tool)).collect::<Vec<_>>());
}

/// The log of all plans, to look at.
pub fn open_log(state: &Path) -> Result<Box<dyn Log>, Error> {
    logbook::open(state, Access::Read)
}

impl Harness {
    pub fn open(settings: Settings, access: Access) -> Result<Self, Error> {
        let place = places::resolve(settings.plan.as_deref(), &settings.cwd)?;
        Self::at(place, settings, access)
    }

    /// For a plan that is not there yet; one that is, is an error.
    pub fn upcoming(settings: Settings) -> Result<Self, Error> {
        let name = settings.plan.clone().unwrap_or_default();
        let place = plan_file::upcoming(&name, &settings.cwd, &places::folder(&settings.cwd)?)?;
        Self::at(place, settings, Access::Write)
    }

    /// On a log that is open already and that many machines share.
    pub fn open_on(settings: Settings, log: Arc<dyn Log>) -> Result<Self, Error> {
        let place = places::resolve(settings.plan.as_deref(), &settings.cwd)?;
        let config = config::find(&place.workspace)?;
        let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
        if state.starts_with(&place.workspace) {
            return Err(Error::StateInWorkspace(state));
        }
        Ok(Self::with(place, config, state, settings, log, true))
    }

    /// For a plan that has its identifier from the log, and whose trees come from elsewhere.
    pub(crate) fn at_an_outpost(
        place: PlanPlace,
        config: Config,
        state: PathBuf,
        settings: Settings,
        log: Arc<dyn Log>,
        (id, carrying): (PlanId, Carrying),
    ) -> Self {
        let mut harness = Self::with(place, config, state, settings, log, true);
        harness.site.id = id;
        Self { carrying: Some(carrying), ..harness }
    }

    pub(crate) fn at(place: PlanPlace, settings: Settings, access: Access) -> Result<Self, Error> {
        let begun = site::now();
        let config = config::find(&place.workspace)?;
        let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
        if state.starts_with(&place.workspace) {
            return Err(Error::StateInWorkspace(state));
        }
        logbook::check(&state, &config.store)?;
        let log = Arc::from(logbook::open(&state, access)?);
        let shared = logbook::address(&state)?.is_some();
        let harness = Self { begun, ..Self::with(place, config, state, settings, log, shared) };
        if access == Access::Write {
            places::keep(&harness.state, harness.id(), harness.place());
        }
        Ok(harness)
    }

    fn with(
        place: PlanPlace,
        mut config: Config,
        state: PathBuf,
        settings: Settings,
        log: Arc<dyn Log>,
        shared: bool,
    ) -> Self {
        let begun = site::now();
        add_tools_of_the_workspace(&mut config, &place.workspace);
        let redactor = redactor(&settings.environment, &config.verify.secrets);
        let Settings { launcher, environment, stop, .. } = settings;
        let site = Site::new(place, config, redactor, launcher, environment, stop);
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

    /// At a person's door it is not this process that knocks, but whoever called its server.
    pub fn on_behalf_of(self, who: Who) -> Self {
        Self { who, ..self }
    }

    /// For a process that opens plans long after it was begun: since when it is there.
    pub(crate) fn in_process_since(self, begun: Timestamp) -> Self {
        Self { begun: begun.min(self.begun), ..self }
    }

    /// The name on the token of whoever called.
    pub fn named(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }

    /// As whom they count who approve here, and who is said to have written what they bring along.
    pub fn person(&self) -> String {
        self.name.clone().unwrap_or_else(people::account)
    }

    /// `told` hears of plans that carry out steps of this one.
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

    /// Signs a statement with the harness's key; an envelope, as text.
    pub fn seal(&self, statement: &Statement) -> Result<String, Error> {
        self.prover().seal(statement)
    }

    pub(crate) fn who(&self) -> &Who {
        &self.who
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// A person wants the harness to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.site.stop.load(Ordering::Relaxed)
    }

    /// The log is one that many machines share.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Without what must not be seen.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.site.redactor.text(text).into_owned()
    }

    pub fn redactor(&self) -> &Redactor {
        &self.site.redactor
    }

    /// The plan as the log knows it.
    pub fn run(&self) -> Result<Run, Error> {
        drive::read(&*self.log, self.id())
    }

    /// The plan file as it stands, parsed and bound to its surroundings, not yet verified.
    pub fn read(&self) -> Result<Reading, Error> {
        let found = plan_file::read(&self.place().path)?;
        let reading = Reading::of(&self.site, &found.bytes);
        // Without a log that can be believed nothing was included.
        let run = self.run().unwrap_or_default();
        let mut included = uncommitted::still_included(&self.place().workspace, &run);
        if self.includes.load(Ordering::Relaxed) {
            included = self.with_uncommitted(run, &reading, included)?;
        }
        Ok(reading.including(included))
    }

    /// Parses and verifies the plan file.
    pub fn check(&self) -> Result<Reading, Error> {
        Ok(self.read()?.verified(&self.site))
    }

    /// Parses and verifies a text that is not in the plan file yet.
    pub fn check_text(&self, text: Vec<u8>) -> Result<Reading, Error> {
        Ok(Reading::of(&self.site, &text).verified(&self.site))
    }

    /// Takes a plan without errors into the log: recorded, verified. Marks follow.
    pub fn record(&self, reading: &Reading) -> Result<Run, Error> {
        let run = self.harness(|_| HarnessCommand::Record {
            text: reading.text.clone(),
            binding: reading.binding.clone(),
            author: Some(self.person()),
        })?;
        if run.stage != Stage::Draft {
            return Ok(run);
        }
        // This text and no other was looked at, whatever was recorded since.
        let (revision, warnings) = (run.revision, reading.warnings());
        let verified = self.harness(|_| HarnessCommand::Verified { revision: revision.clone(), warnings });
        self.or_found(verified, |run| run.revision == revision && run.stage != Stage::Draft)
    }

    /// Somebody else may have been faster with the same; then it stands as they left it.
    fn or_found(&self, said: Result<Run, Error>, is_it: impl Fn(&Run) -> bool) -> Result<Run, Error> {
        match said {
            Err(refused @ Error::Refused(Refusal::WrongStage { .. })) => {
                let run = self.run()?;
                if is_it(&run) { Ok(run) } else { Err(refused) }
            }
            said => said,
        }
    }

    /// Reads, verifies and records the plan file, or says what is wrong with it. What was read comes
    /// along when it was new to the log.
    pub fn bring_up(&self) -> Result<(Run, Option<Reading>), Error> {
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

    /// The same for whoever wants to approve the revision they typed, which may be a prefix. What would be
    /// refused is refused before anything is recorded.
    pub fn bring_up_to_approve_revision(&self, typed: &str) -> Result<(Run, Option<Reading>), Error> {
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

    /// The same for whoever reads the plan first. Where nobody approves what they wrote, the log has to know
    /// already who that was.
    pub fn bring_up_to_approve(&self) -> Result<(Run, Option<Reading>), Error> {
        let before = self.run()?;
        if !self.config().gate.quorum.self_approval || !before.quorum().self_approval {
            let (now, _) = self.preview()?;
            if now.law != before.law || before.author.is_none() {
                return Err(Refusal::NoAuthor.into());
            }
        }
        self.bring_up()
    }

    /// The plan as the log knows it, if nobody else wrote to the log.
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

    /// The file is, byte for byte, what the log would write, and its surroundings are as they were: no
    /// need to parse it.
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

    /// The log holds this text already, verified or further.
    fn unchanged(&self, run: &Run, reading: &Reading) -> bool {
        if run.started() {
            run.law == Some(approved_spec::digest(&reading.text, &reading.plan))
                && run.binding.terms == reading.binding.terms
        } else {
            run.revision == reading.revision
        }
    }

    /// Decides on the newest state and appends, again if somebody else was faster.
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

    /// The events as they may stand in the log: without secrets.
    pub(crate) fn redacted(&self, events: Vec<Event>) -> Vec<Event> {
        events.into_iter().map(|event| self.site.redactor.event(event)).collect()
    }

    /// Applies the events and makes them durable.
    pub(crate) fn append(
        &self,
        run: &mut Run,
        events: &[Event],
    ) -> Result<Vec<Sealed>, provost_store::Error> {
        self.append_with(run, events, None, &self.wakes())
    }

    /// The same while this lease is held, with what must follow.
    pub(crate) fn append_with(
        &self,
        run: &mut Run,
        events: &[Event],
        fence: Option<&Fence>,
        effects: &[Effect],
    ) -> Result<Vec<Sealed>, provost_store::Error> {
        let expected_seq = run.seq;
        // All events that no drive makes pass here; to redact twice changes nothing.
        let events = &self.redacted(events.to_vec());
        for event in events {
            run.apply(event);
        }
        let entries: Vec<Entry<'_>> = events
            .iter()
            .map(|event| Entry { event, task_name: event.step().and_then(|step| run.title(step)) })
            .collect();
        let (plan, at) = (self.id(), site::now());
        let sealed = self.log.append(Append { plan, expected_seq, at, fence, events: &entries, effects })?;
        for event in events {
            run.tick(event, at);
        }
        Ok(sealed)
    }

    /// Shows the run in the files people look at; trouble there is told, not failed on. A run that is
    /// under way does it itself, and would not know who else wrote to them.
    pub(crate) fn project(&self, run: &Run) {
        if !self.is_under_way() {
            let _ = project::marks(&self.site, run);
        }
    }

    /// Makes the plan file show where the run stands, for whoever looks after a crash: a run that is under way
    /// does so itself.
    pub fn catch_up_marks(&self, run: &Run) {
        if run.exists() && run.forged_from.is_none() {
            self.project(run);
        }
    }

    pub(crate) fn prover(&self) -> Prover {
        Prover::new(&self.state, self.id(), self.config().proof.ssh_key.as_deref())
    }

    /// Replaces the plan file's text, if it is still the text that was read.
    pub fn rewrite(&self, read: &Reading, text: &str) -> Result<(), Error> {
        let expected = Hash::of(read.text.as_bytes());
        plan_file::replace(&self.place().path, &expected, text.as_bytes())?;
        Ok(())
    }
}
