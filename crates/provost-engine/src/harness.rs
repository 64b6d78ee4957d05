//! The façade: one plan, its log and its doors.
//!
//! People come in by [`Harness::human`], agents by [`Harness::agent`]; the harness's own door is not
//! public. Methods are short: what they decide is core's, what they do is host's.
//!
//! **Invariant:** a person's door does not open from inside an attempt.

use std::cell::Cell;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::chain::{Hash, Head, PlanId, Sealed, Timestamp};
use provost_core::command::{AgentCommand, HarnessCommand, HumanCommand, Refusal};
use provost_core::decide;
use provost_core::doors;
use provost_core::event::{Approver, Event, Probe, Revision};
use provost_core::law::{self, Law};
use provost_core::plan::{Step, StepNumber};
use provost_core::proof::Statement;
use provost_core::quorum::Tally;
use provost_core::redact::{self, Redactor};
use provost_core::run::{Run, Stage, StepState};
use provost_core::verdict::{Isolation, Verdict};
use provost_host::agent::home;
use provost_host::config::{self, Config, Demand};
use provost_host::ground::{self, Approval, Estate, Ground, Wanted};
use provost_host::plan_file::{self, PlanPlace};
use provost_host::sandbox::{self, Attestation, Offer};
use provost_host::{judge, process};
use provost_store::{Append, Cursor, Effect, Entry, Error as StoreError, Fence, Holder, Lease, Log, Query};

use crate::Error;
use crate::audit::{self, Audit};
use crate::confined;
use crate::drive::{self, Drive, Rest};
use crate::errand::Within;
use crate::gate::{self, Hearing};
use crate::hands::Hands;
use crate::logbook;
use crate::people::{self, Who};
use crate::places;
use crate::project::{self, Projector};
use crate::prove::Prover;
use crate::reading::{self, Reading};
use crate::sessions::Sessions;
use crate::share;
use crate::sharing::Sharing;
use crate::site::{self, Site};
use crate::watch_over::Watch;
use crate::worker::Worker;

/// How often a lease that somebody has is asked for again.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// Of a process that was killed while it started another, that one has the lease until it has begun.
const LAST_BREATH: Duration = Duration::from_secs(10);

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
    /// Hears of plans that carry out steps of this one.
    told: Mutex<Option<Arc<Below>>>,
}

/// Is told every event of a plan that carries out a step, with that plan's name.
pub type Below = dyn Fn(&str, &Run, &Sealed, &Event) + Send + Sync;

/// A verdict and the same check again.
pub struct Recheck {
    pub recorded: Verdict,
    /// Nothing, where the check was interrupted.
    pub now: Option<Verdict>,
}

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

fn redactor(environment: &[(OsString, OsString)]) -> Redactor {
    let text = environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    Redactor::new(text.filter(|(name, _)| redact::looks_secret(name)))
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
        config: Config,
        state: PathBuf,
        settings: Settings,
        log: Arc<dyn Log>,
        shared: bool,
    ) -> Self {
        let begun = site::now();
        let redactor = redactor(&settings.environment);
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
            told: Mutex::default(),
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
        Ok(Reading::of(&self.site, &found.bytes))
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
        self.harness(|_| HarnessCommand::Record {
            text: reading.text.clone(),
            binding: reading.binding.clone(),
            author: Some(self.person()),
        })?;
        let run = self.run()?;
        if run.stage != Stage::Draft {
            return Ok(run);
        }
        let warnings = reading.warnings();
        self.harness(|run| HarnessCommand::Verified { revision: run.revision.clone(), warnings })
    }

    /// Reads, verifies and records the plan file, or says what is wrong with it. What was read comes
    /// along when it was new to the log.
    pub fn bring_up(&self) -> Result<(Run, Option<Reading>), Error> {
        let run = self.genuine()?;
        if run.stage != Stage::Draft && self.stands(&run)? {
            return Ok((run, None));
        }
        let reading = self.read()?;
        if self.unchanged(&run, &reading) && run.stage != Stage::Draft {
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

    /// The same for whoever wants to approve it. Where nobody approves what they wrote, the log has to know
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
        let marked = law::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
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
            run.law == Some(law::digest(&reading.text, &reading.plan))
                && run.binding.terms == reading.binding.terms
        } else {
            run.revision == reading.revision
        }
    }

    pub fn request_approval(&self) -> Result<Run, Error> {
        let plan_id = self.id().to_string();
        self.harness(|_| HarnessCommand::RequestApproval { plan_id: plan_id.clone() })
    }

    /// Lets the policies of the configuration speak.
    pub fn ask_policies(&self, run: &Run) -> Result<(Run, Hearing), Error> {
        let key = self.prover().secret_if_any()?.map(|secret| secret.key().public());
        let hearing = gate::hear(&self.state, key.as_ref(), &self.policies(), &run.plan)?;
        let Some(by) = hearing.approver.clone() else { return Ok((run.clone(), hearing)) };
        let revision = run.revision.clone();
        let command = HarnessCommand::ApproveByPolicy { revision: revision.clone(), by: by.clone() };
        let approved = self.say(|run| match self.is_under_way() {
            true => doors::policy(run, revision.clone(), by.clone()),
            false => decide::harness(run, command.clone()),
        });
        match approved {
            Ok(run) if run.approved_by.is_none() => {
                let silent = vec![format!("{by} has approved it: {}", Tally::of(&run))];
                Ok((run, Hearing { approver: None, silent }))
            }
            Ok(run) => Ok((run, hearing)),
            Err(Error::Refused(refusal)) => {
                let silent = vec![format!("policy did not speak: {refusal}")];
                Ok((run.clone(), Hearing { approver: None, silent }))
            }
            Err(error) => Err(error),
        }
    }

    /// The rule for plans that an agent made in a session lets this one through.
    pub(crate) fn approve_by_rule(&self, run: &Run, by: Approver) -> Result<Run, Error> {
        let revision = run.revision.clone();
        self.say(|run| match self.is_under_way() {
            true => doors::policy(run, revision.clone(), by.clone()),
            false => {
                let (revision, by) = (revision.clone(), by.clone());
                decide::harness(run, HarnessCommand::ApproveByPolicy { revision, by })
            }
        })
    }

    fn policies(&self) -> Vec<(provost_core::policy::Policy, String)> {
        let policies = self.config().gate.policies.values();
        policies.map(|policy| (policy.clone(), config::digest(policy).to_string())).collect()
    }

    /// A person has read a policy's text and lets it speak.
    pub fn trust_policy(&self, name: &str) -> Result<(), Error> {
        self.only_people()?;
        self.only_at_a_terminal()?;
        let policies = self.policies();
        let (_, digest) = policies
            .iter()
            .find(|(policy, _)| policy.name == name)
            .ok_or_else(|| Error::NoSuchPolicy { name: name.to_owned() })?;
        gate::trust(&self.state, &self.prover().secret()?.key(), digest)
    }

    /// A person approves the revision they read; what was changed on the way is kept with it.
    pub fn approve(&self, run: &Run, revision: Revision, by: String) -> Result<Run, Error> {
        let modifications = self.last_changes(run)?;
        self.human(HumanCommand::Approve { revision, by, modifications })
    }

    /// The door for people.
    pub fn human(&self, command: HumanCommand) -> Result<Run, Error> {
        self.only_people()?;
        let command = self.in_their_name(command)?;
        if doors::lets_through(&command) {
            self.only_at_a_terminal()?;
        }
        let run = self.say(|run| match self.is_under_way() {
            true => doors::human(run, command.clone()),
            false => decide::human(run, command.clone()),
        })?;
        self.project(&run);
        Ok(run)
    }

    /// Where it matters who approves, they do so under the name that is theirs.
    fn in_their_name(&self, command: HumanCommand) -> Result<HumanCommand, Error> {
        Ok(match command {
            HumanCommand::Approve { revision, modifications, .. } if !self.run()?.quorum().is_usual() => {
                HumanCommand::Approve { revision, by: self.person(), modifications }
            }
            other => other,
        })
    }

    /// Refuses and records whoever comes from inside an attempt, or may.
    pub fn only_people(&self) -> Result<(), Error> {
        let sessions = Sessions::new(&self.state);
        let Some(why) = people::intruder(&*self.log, &self.workspace_lease(), &sessions, &self.who)? else {
            return Ok(());
        };
        let what = format!("a person's command was tried {why}");
        self.harness(|_| HarnessCommand::Tampered { step: None, what: what.clone() })?;
        Err(Error::NotAPerson { why })
    }

    /// Where agents have run without a fence, some decisions take a terminal none of them can have.
    pub(crate) fn only_at_a_terminal(&self) -> Result<(), Error> {
        let why = |plan: &PlanId| match &self.who {
            Who::Here => people::no_terminal(&*self.log, plan, self.begun),
            Who::Caller(caller) => people::no_old_program(&*self.log, plan, caller),
        };
        // Whoever works for a plan above is as near to this one as its own agents.
        let mut found = why(self.id())?;
        for plan in self.plans_above()? {
            found = found.or(why(&plan)?);
        }
        let Some(why) = found else { return Ok(()) };
        let what = format!("a person's decision was tried, and {why}");
        self.harness(|_| HarnessCommand::Tampered { step: None, what: what.clone() })?;
        Err(Error::NoTerminal { why })
    }

    /// Somebody has the lease; in doubt, too.
    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self.log.holder(&self.workspace_lease()), Ok(None))
    }

    pub(crate) fn workspace_lease(&self) -> String {
        format!("workspace {}", self.place().workspace.display())
    }

    /// The door for agents: words only.
    pub fn agent(&self, command: AgentCommand) -> Result<Run, Error> {
        self.say(|run| decide::agent(run, command.clone()))
    }

    pub(crate) fn harness(&self, command: impl Fn(&Run) -> HarnessCommand) -> Result<Run, Error> {
        self.say(|run| decide::harness(run, command(run)))
    }

    /// The same while nobody else is at work on the plan.
    pub(crate) fn harness_alone(&self, command: HarnessCommand) -> Result<Run, Error> {
        let holder = Holder::here(format!("plan {}", self.id()), site::now());
        let patience = self.config().run.lease_timeout;
        let _plan = self.lease(&format!("plan {}", self.id()), &holder, patience)?;
        self.harness(|_| command.clone())
    }

    /// Decides on the newest state and appends, again if somebody else was faster.
    fn say(&self, decision: impl Fn(&Run) -> Result<Vec<Event>, Refusal>) -> Result<Run, Error> {
        loop {
            let mut run = self.run()?;
            let events = decision(&run)?;
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

    /// Every role of the plan has an agent.
    pub fn ready_to_drive(&self, run: &Run) -> Result<(), Error> {
        let target = |step: &Step| step.target.as_ref().map(|target| target.value.clone());
        let mut roles: Vec<String> = run.plan.steps.iter().filter_map(target).collect();
        roles.sort();
        roles.dedup();
        roles.retain(|role| !self.config().agents.contains_key(role));
        if roles.is_empty() { Ok(()) } else { Err(Error::NoAgent { roles }) }
    }

    /// Carries the plan out until it rests. One run per workspace, and one per plan.
    pub fn drive(
        &self,
        jobs: usize,
        watch: &mut dyn FnMut(&Run, &Sealed, &Event),
    ) -> Result<(Run, Rest), Error> {
        self.drive_for(&Worker::Agents { jobs: jobs.max(1) }, watch)
    }

    /// Looks at what a session of `client` has left: every check that is due, once each, until one does
    /// not hold.
    pub fn look(&self, client: &str) -> Result<(Run, Rest), Error> {
        self.drive_for(&Worker::Look { client }, &mut |_, _, _| {})
    }

    /// A session was sent back often enough: a person decides. Nothing, where a run is under way, which
    /// then has the word.
    pub fn let_session_go(&self, reason: &str) -> Result<Run, Error> {
        let holder = Holder::here(format!("plan {}", self.id()), site::now());
        let patience = self.config().run.lease_timeout;
        let _workspace = self.lease(&self.workspace_lease(), &holder, patience)?;
        let _plan = self.lease(&format!("plan {}", self.id()), &holder, patience)?;
        let run = self.harness(|_| HarnessCommand::LetGo { reason: reason.to_owned() })?;
        let _ = project::marks(&self.site, &run);
        Ok(run)
    }

    pub(crate) fn drive_for(
        &self,
        worker: &Worker<'_>,
        watch: &mut dyn FnMut(&Run, &Sealed, &Event),
    ) -> Result<(Run, Rest), Error> {
        // Orphans of an attempt come back to this process and can be ended.
        process::become_subreaper().map_err(|source| Error::Io {
            what: "take in orphans in",
            path: "/proc/self".into(),
            source,
        })?;
        let what = match worker {
            Worker::Agents { .. } | Worker::Share(_) => format!("plan {}", self.id()),
            Worker::Look { client } => format!("{LOOKING}{client}, at plan {}", self.id()),
            Worker::Session { .. } => format!("{LOOKING}an MCP client, at plan {}", self.id()),
        };
        let holder = Holder::here(what, site::now());
        let patience = worker.patience(self.config().run.lease_timeout);
        // The plan above has the workspace in hand already.
        let alone = self.within.is_none();
        let workspace = || self.lease(&self.workspace_lease(), &holder, patience);
        let _workspace = alone.then(workspace).transpose()?;
        let lease = self.lease(&format!("plan {}", self.id()), &holder, patience)?;
        let sharing = self.share(&holder.what, patience)?;
        if let Worker::Share(share) = worker
            && let Some(over) = self.take_share(share, lease.fence())?
        {
            return Ok((over, Rest::Nothing));
        }
        self.still_proved()?;
        let secret = self.prover().secret()?;
        let mut proving = self.prover().begin(&secret)?;
        let watched = Watch::new(&self.site, &self.state, self.prover().file(), secret);
        let mut projector = Projector::new(&self.site, &watched, self.log.head(self.id())?.seq);
        // Lines that a crash kept from the progress file are told again.
        let (mut run, head) = drive::retell(&*self.log, self.id(), &mut |run, sealed, event| {
            projector.event(run, sealed, event);
            proving.hear(run, sealed, event);
        })?;
        if let Some(from_seq) = run.forged_from {
            return Err(self.forged(from_seq));
        }
        let head = Cell::new(head);
        let mut both = |run: &Run, sealed: &Sealed, event: &Event| {
            head.set(Head { seq: sealed.seq, hash: sealed.hash });
            projector.event(run, sealed, event);
            projector.catch_up(run);
            proving.hear(run, sealed, event);
            watch(run, sealed, event);
        };
        let took_over = sharing.as_ref().and_then(|sharing| sharing.took_over.clone());
        let ground = self.ground(worker, took_over, &mut run, Some(lease.fence()), &mut both)?;
        if let Worker::Agents { .. } = worker {
            while let Some(step) = self.plan_goes_on(&run) {
                let events = decide::harness(&run, HarnessCommand::PlanGoesOn { step })?;
                self.tell(&mut run, &events, &mut both)?;
            }
        }
        let hands = Hands::new(&self.site, ground).watched(&watched).for_worker(worker);
        let hands = hands.delegating(self).within(self.within.as_ref());
        let mut go_on = |run: Run, both: &mut dyn FnMut(&Run, &Sealed, &Event)| {
            let drive = Drive {
                log: &*self.log,
                plan: self.id(),
                fence: Some(lease.fence().clone()),
                world: &hands,
                jobs: worker.jobs(),
                watch: both,
            };
            match worker {
                Worker::Share(share) => share.done_by(drive, run, head.get()),
                _ => drive.go_on(run, head.get()),
            }
        };
        let driven = match worker {
            Worker::Agents { .. } | Worker::Look { .. } | Worker::Share(_) => go_on(run, &mut both),
            Worker::Session { words } => self.hear_session(words, run, &mut both, &mut go_on),
        };
        let planted = watched.at_the_end();
        // Whoever lost the plan to somebody else writes no more of it.
        let kept = sharing.map_or(Ok(()), Sharing::end);
        let (mut run, rest) = match driven.and_then(|driven| kept.map(|()| driven)) {
            Ok(driven) => driven,
            // Whoever took it over has the proofs in hand.
            Err(error @ Error::Store(StoreError::Fenced { .. })) => return Err(error),
            Err(error) => {
                // Whoever wrote to the log does not write what we knew of it.
                let _ = proving.stop();
                return Err(error);
            }
        };
        for what in planted {
            let events = decide::harness(&run, HarnessCommand::Tampered { step: None, what })?;
            self.tell(&mut run, &events, &mut both)?;
        }
        let left = hands.leave(&run);
        projector.write(&run);
        proving.finish(&run)?;
        left.map_err(ground::Error::Trees)?;
        if matches!(run.stage, Stage::Done | Stage::Failed) {
            home::forget(&self.state, &self.id().to_string());
        }
        if run.stage == Stage::Done {
            ground::forget_apart(&self.state, &self.id().to_string());
        }
        // Others may be judged in the rooms of a process that does many items at a time.
        if alone && !matches!(worker, Worker::Share(_)) {
            judge::leave();
        }
        Ok((run, rest))
    }

    /// Takes a lease, and waits so long for whoever has it.
    pub(crate) fn lease(&self, name: &str, holder: &Holder, usual: Duration) -> Result<Lease, Error> {
        let begun = Instant::now();
        loop {
            let held = match self.log.lease(name, holder) {
                Err(StoreError::LeaseHeld { name, holder }) => (name, holder),
                taken => return Ok(taken?),
            };
            let is_gone = held.1.as_ref().is_some_and(Holder::is_gone);
            let patience = if is_gone { usual.max(LAST_BREATH) } else { usual };
            if begun.elapsed() >= patience || self.site.stop.load(Ordering::Relaxed) {
                return Err(StoreError::LeaseHeld { name: held.0, holder: held.1 }.into());
            }
            std::thread::sleep(LEASE_LOOK);
        }
    }

    /// Makes the events durable and tells them.
    pub(crate) fn tell(
        &self,
        run: &mut Run,
        events: &[Event],
        watch: &mut dyn FnMut(&Run, &Sealed, &Event),
    ) -> Result<(), Error> {
        self.tell_with(run, events, None, watch)
    }

    /// The same while this lease is held.
    fn tell_with(
        &self,
        run: &mut Run,
        events: &[Event],
        fence: Option<&Fence>,
        watch: &mut dyn FnMut(&Run, &Sealed, &Event),
    ) -> Result<(), Error> {
        let sealed = self.append_with(run, events, fence, &[])?;
        for (sealed, event) in sealed.iter().zip(events) {
            watch(run, sealed, event);
        }
        Ok(())
    }

    /// Attests what this machine holds, records it, and makes the ground ready before any agent runs.
    fn ground(
        &self,
        worker: &Worker<'_>,
        took_over: Option<String>,
        run: &mut Run,
        fence: Option<&Fence>,
        watch: &mut dyn FnMut(&Run, &Sealed, &Event),
    ) -> Result<Ground, Error> {
        let place = self.place();
        let marker = plan_file::marker(&place.workspace);
        let read_only: Vec<PathBuf> = [place.path.clone(), place.progress.clone(), marker]
            .into_iter()
            .chain(self.config().path.clone())
            .chain(self.within.iter().flat_map(|within| within.files.clone()))
            .collect();
        let secret = self.config().proof.ssh_key.as_deref();
        let launcher = confined::launcher(&self.site.launcher);
        let workspace = &self.place().workspace;
        let estate =
            Estate { workspace, state: &self.state, read_only: &read_only, secret, launcher: &launcher };
        let verify = &self.config().verify;
        let (offer, seen) = match worker {
            Worker::Share(_) => share::attest(verify.isolation, &estate, &place.path)?,
            _ => ground::attest(verify.isolation, &estate)?,
        };
        let level = seen.level;
        self.attested(worker, took_over, run, seen, fence, watch)?;
        self.on_the_base(run, offer, level, &estate)
    }

    pub(crate) fn on_the_base(
        &self,
        run: &Run,
        offer: Option<Offer>,
        level: Isolation,
        estate: &Estate<'_>,
    ) -> Result<Ground, Error> {
        let verify = &self.config().verify;
        let all = [String::from("**")];
        let touches: Vec<String> = match &run.plan.touches {
            Some(touches) => touches.iter().map(|glob| glob.value.clone()).collect(),
            None => all.to_vec(),
        };
        let approval = Approval {
            revision: &run.revision.0,
            commit: run.binding.base.as_deref(),
            files: &run.binding.files,
            touches: &touches,
            caches: &verify.caches,
            wanted: Wanted {
                provision: &verify.provision,
                build_caches: verify.build_caches,
                stop: Some(&self.site.stop),
            },
        };
        Ok(Ground::prepare(offer, level, estate, &approval)?)
    }

    /// Runs the contract of a passed step once more, on the tree it passed on, and records nothing.
    pub fn recheck(&self, number: StepNumber) -> Result<Recheck, Error> {
        let run = self.run()?;
        let step = run.step(number).ok_or(Refusal::NoSuchStep { step: number })?;
        let recorded = step.verdict.clone().filter(|_| step.state == StepState::Passed);
        let recorded = recorded.ok_or(Refusal::NotPassed { step: number })?;
        let _ = process::become_subreaper();
        let launcher = confined::launcher(&self.site.launcher);
        let workspace = &self.place().workspace;
        let estate =
            Estate { workspace, state: &self.state, read_only: &[], secret: None, launcher: &launcher };
        let (offer, seen) = ground::attest(Demand::Exactly(recorded.isolation), &estate)?;
        let tree = recorded.tree.as_ref().map(|tree| tree.id.clone());
        let hands = Hands::new(&self.site, self.on_the_base(&run, offer, seen.level, &estate)?);
        let now = hands.recheck(&run, number, tree);
        judge::leave();
        Ok(Recheck { recorded, now })
    }

    fn attested(
        &self,
        worker: &Worker<'_>,
        took_over: Option<String>,
        run: &mut Run,
        seen: Attestation,
        fence: Option<&Fence>,
        watch: &mut dyn FnMut(&Run, &Sealed, &Event),
    ) -> Result<(), Error> {
        let require_red = self.config().verify.require_red;
        let known = (run.isolation, run.require_red, run.agent_outside);
        if let Worker::Share(share) = worker {
            // Many do the work of one run: it is said again only where it is something else.
            if known == (Some(seen.level), require_red, false) {
                return Ok(());
            }
            let events = share.given_back(run)?;
            self.tell_with(run, &events, fence, watch)?;
        }
        let probe =
            |probe: sandbox::Probe| Probe { name: probe.name, held: probe.held, detail: probe.detail };
        let command = HarnessCommand::Attested {
            level: seen.level,
            require_red,
            probes: seen.probes.into_iter().map(probe).collect(),
            kernel: seen.kernel,
            bubblewrap: seen.bubblewrap,
            agent_outside: !worker.starts_agents(),
            took_over,
        };
        let events = decide::harness(run, command)?;
        self.tell_with(run, &events, fence, watch)
    }

    pub fn each(&self, query: &Query, each: &mut dyn FnMut(Sealed) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(self.log.read(query, each)?)
    }

    pub fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        Ok(self.log.wait(after, timeout)?)
    }

    /// The plan as it would be if the file were recorded now, and whether that changes anything.
    pub fn preview(&self) -> Result<(Run, bool), Error> {
        let mut run = self.run()?;
        if run.forged_from.is_some() || run.exists() && self.stands(&run)? {
            return Ok((run, false));
        }
        let reading = self.read()?;
        if run.exists() && self.unchanged(&run, &reading) {
            return Ok((run, false));
        }
        // Whoever only looks has written nothing.
        let (text, binding, author) = (reading.text, reading.binding, None);
        let record = HarnessCommand::Record { text, binding, author };
        let events = decide::harness(&run, record)?;
        for event in &events {
            run.apply(event);
        }
        Ok((run, !events.is_empty()))
    }

    /// What the rewrite that led to this revision changed, for the person at the gate.
    pub fn last_changes(&self, run: &Run) -> Result<Vec<String>, Error> {
        let mut changes = Vec::new();
        let query = Query {
            names: vec!["PLAN_REWRITTEN".to_owned()],
            newest_first: true,
            limit: Some(1),
            ..Query::plan(self.id())
        };
        self.each(&query, &mut |sealed| {
            if let Ok(Event::PlanRewritten { changes: found, revision, .. }) = sealed.event()
                && revision == run.revision
            {
                changes = found;
            }
            ControlFlow::Break(())
        })?;
        Ok(changes)
    }

    /// What changed in the plan file since the revision in the log.
    pub fn changes(&self, run: &Run, reading: &Reading) -> Vec<String> {
        let old = Law { text: &run.text, plan: &run.plan, binding: Some(&run.binding) };
        law::diff(old, reading.law())
    }

    /// Checks the chain from its start, the verdict behind every passed step, and the proofs.
    pub fn audit(&self) -> Result<Audit, Error> {
        audit::plan(&*self.log, self.id(), &self.prover())
    }

    /// The envelopes of the plan's proofs, one a line, oldest first.
    pub fn proofs(&self) -> Result<Vec<String>, Error> {
        let path = self.prover().file().to_owned();
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(Error::Io { what: "read the proofs", path, source }),
        }
    }

    pub(crate) fn prover(&self) -> Prover {
        Prover::new(&self.state, self.id(), self.config().proof.ssh_key.as_deref())
    }

    /// A log that was rebuilt verifies, but does not fit the proofs that were given.
    fn still_proved(&self) -> Result<(), Error> {
        match self.prover().check(&*self.log, self.id())?.into_iter().next() {
            Some(finding) => Err(Error::Disproved { plan: self.id().clone(), finding }),
            None => Ok(()),
        }
    }

    /// Replaces the plan file's text, if it is still the text that was read.
    pub fn rewrite(&self, read: &Reading, text: &str) -> Result<(), Error> {
        let expected = Hash::of(read.text.as_bytes());
        plan_file::replace(&self.place().path, &expected, text.as_bytes())?;
        Ok(())
    }
}
