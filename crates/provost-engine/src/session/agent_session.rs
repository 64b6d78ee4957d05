//! The requests that the agent of an external session may make: a plan, its steps, its checks, its topics.
//!
//! A person starts the client and the client starts provost, so the agent is in no sandbox. It may ask, and
//! what it reports counts as an agent's command. provost runs the checks in its own execution environment and
//! their verdicts decide, as in any run. The log records that the agent worked outside of a sandbox.
//!
//! **Invariant:** of an agent's requests, only the step number and its published posts reach provost's own
//! commands.
//! **Invariant:** inside an attempt of a run nothing is judged here; a claim is passed on to that run.

mod create;
mod dialogs;
mod folder;
mod refused;
mod topics;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::event::{AttemptEnd, EndedAttempt, Event, TopicPost};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::{AgentCommand, HarnessCommand, Refusal};
use provost_core::rules::session_work::{self, WorkRefusal};
use provost_core::state::run::{Run, Stage, StepState};
use provost_core::text::prompt;
use provost_host::config::{McpConfig, SessionGate};
use provost_host::plans::plan_file;
use provost_host::{config, process};

use crate::plan::harness::Harness;
use crate::plan::sessions::{ClientSession, Sessions};
use crate::plan::{commands, plan_context, plan_registry, queries};
use crate::run::live_session::{LiveSession, Words};
use crate::run::{live_session, run_plan};
use crate::run_loop::world::TaskOutcome;
use crate::session::holding;
use crate::settings::{Access, EngineSettings};
use crate::{Error, journal};

pub use create::{CreateResult, SessionDecision};
pub use folder::{FolderPlan, LogWatch};
pub use refused::SessionRefusal;

type Answer<T> = Result<T, SessionRefusal>;
/// Called with every event of a check as it becomes durable.
pub type EventListener<'a> = &'a mut dyn FnMut(&Run, &SealedEvent, &Event);

pub struct AgentSessions {
    settings: EngineSettings,
    sessions: Sessions,
    /// Gate setting when the client started provost; an agent may change the configuration later.
    gate: SessionGate,
    /// Clients in whose dialogs a person may decide, as they were then.
    elicitation: Vec<String>,
    /// The plan that was named when provost was started.
    named: Option<String>,
    /// The attempt of a run that this process is inside of.
    attempt: Option<String>,
    /// The plan read last.
    known: Mutex<Option<KnownPlan>>,
}

struct KnownPlan {
    path: PathBuf,
    /// The plan, opened for reading.
    reader: Arc<Harness>,
    /// Its newest event when `run` was folded.
    head: Head,
    run: Arc<Run>,
}

/// A plan and its state.
#[derive(Clone)]
pub struct SessionPlan {
    pub run: Arc<Run>,
    /// Name of the plan for people.
    pub name: String,
    pub path: PathBuf,
    /// It is the plan of the session that asks.
    pub is_own: bool,
}

impl AgentSessions {
    /// Opens the requests of sessions. `settings.plan` is the plan of all sessions, if given.
    pub fn open(settings: EngineSettings) -> Result<Self, Error> {
        let McpConfig { gate, elicitation } = config::find(&settings.cwd)?.mcp;
        Ok(Self {
            sessions: Sessions::new(&settings.state),
            gate,
            elicitation,
            named: settings.plan.clone(),
            attempt: process::inside_attempt(),
            settings,
            known: Mutex::default(),
        })
    }

    /// Requires a person at the gate, whatever the configuration says.
    #[must_use]
    pub fn gated_by_person(self) -> Self {
        Self { gate: SessionGate::Person, ..self }
    }

    /// Returns what is missing in the session's plan, if the plan is open and a person is not needed.
    pub fn unfinished(&self, session: &ClientSession) -> Answer<Option<String>> {
        match self.show(session) {
            Ok(known) if holding::free(&known.run).is_none() => Ok(Some(prompt::unfinished(&known.run))),
            Ok(_) | Err(SessionRefusal::NoPlan) => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Registers a server of this session.
    pub fn arrive(&self, session: &ClientSession) -> Answer<()> {
        self.sessions.arrive(session)?;
        // A named plan is bound at once, because hooks of the client ask for it too.
        if self.named.is_some() && self.attempt.is_none() {
            self.path(session)?;
        }
        Ok(())
    }

    /// Unregisters the server of this session, which ends because its client asked for it, not because it was
    /// killed.
    pub fn depart(&self, session: &ClientSession) {
        self.sessions.depart(session);
    }

    fn bound(&self, session: &ClientSession, path: PathBuf) -> Answer<PathBuf> {
        if self.sessions.plan_of(session).is_none_or(|bound| bound.plan != path) {
            self.sessions.bind(session, &path)?;
        }
        Ok(path)
    }

    /// Stops the running checks.
    pub fn stop(&self) {
        self.settings.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.settings.stop.load(Ordering::Relaxed)
    }

    /// Returns the plan of the session with its current state. Folds the log only if it has changed since the
    /// last time.
    pub fn show(&self, session: &ClientSession) -> Answer<SessionPlan> {
        self.read(self.path(session)?)
    }

    fn read(&self, path: PathBuf) -> Answer<SessionPlan> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known.take().filter(|known| known.path == path);
        let reader = match &last {
            Some(last) => last.reader.clone(),
            None => Arc::new(self.at(&path, Access::Read)?),
        };
        let head = reader.log().head(reader.id()).map_err(Error::from)?;
        let run = match last.filter(|last| last.head == head && head.seq > 0) {
            Some(last) => last.run,
            None => Arc::new(journal::read(reader.log(), reader.id())?),
        };
        let name = reader.place().name.clone();
        // A log that did not exist when it was opened for reading is opened again next time.
        *known = (head.seq > 0).then(|| KnownPlan { path: path.clone(), reader, head, run: run.clone() });
        if !run.exists() {
            return Err(SessionRefusal::NotRecorded { name });
        }
        Ok(SessionPlan { run, name, path, is_own: true })
    }

    /// Binds the session to a plan whose own session is over; without a name, to the active one. A plan that
    /// still holds the session is not exchanged for another one.
    pub fn take(&self, session: &ClientSession, name: Option<&str>) -> Answer<SessionPlan> {
        if !self.sessions.can_tell(session) {
            return Err(SessionRefusal::UnknownSession);
        }
        if self.named.is_some() {
            return Err(SessionRefusal::NotToTake { name: name.unwrap_or("the active plan").to_owned() });
        }
        let place = self.place(name)?;
        if self.sessions.is_taken(session, &place.path) {
            return Err(SessionRefusal::Taken { name: place.name });
        }
        let bound = self.sessions.plan_of(session).filter(|bound| bound.plan != place.path);
        // A plan that cannot be read any more holds no session.
        if let Some(known) = bound.and_then(|bound| self.read(bound.plan).ok())
            && holding::free(&known.run).is_none()
        {
            return Err(SessionRefusal::HasAPlan { name: known.name });
        }
        let taken = self.read(place.path)?;
        self.sessions.bind(session, &taken.path)?;
        Ok(taken)
    }

    /// Starts a step for the session.
    pub fn begin(&self, session: &ClientSession, step: u32, told: EventListener<'_>) -> Answer<Run> {
        let (harness, run) = self.to_write(session)?;
        let step = self.workable(&harness, &run, step)?;
        if session_work::is_running(&run, step) {
            return Ok(Arc::unwrap_or_clone(run));
        }
        let words = move |run: &Run| start(run, step);
        self.judged(&harness, &words, told)
    }

    /// Gives back a step that the session no longer works on.
    pub fn put_back(&self, session: &ClientSession, step: u32) -> Answer<Run> {
        let (harness, run) = self.to_write(session)?;
        let step = session_work::known_step(&run, step)?;
        let Some(StepState::Running { attempt }) = run.step(step).map(|step| step.state.clone()) else {
            return Ok(Arc::unwrap_or_clone(run));
        };
        let back = move |_: &Run| {
            Ok(vec![TaskOutcome::Harness(HarnessCommand::AttemptInterrupted { step, attempt })])
        };
        Ok(live_session::note(&harness, &back)?)
    }

    /// Claims a step for the session and runs its check, which decides.
    pub fn claim(
        &self,
        session: &ClientSession,
        step: u32,
        evidence: &str,
        told: EventListener<'_>,
    ) -> Answer<Run> {
        if evidence.trim().is_empty() {
            return Err(SessionRefusal::NoEvidence);
        }
        if let Some(tag) = &self.attempt {
            let evidence = evidence.to_owned();
            return self.pass_on(tag, AgentCommand::Claim { step: StepNumber(step), evidence });
        }
        let (harness, run) = self.to_write(session)?;
        let step = self.workable(&harness, &run, step)?;
        let evidence = harness.redactor().text(evidence.trim()).into_owned();
        let since = begun(&harness, &run, step)?;
        let posts = self.posts(harness.id(), &run, step);
        let words = move |run: &Run| {
            let claim = TaskOutcome::Agent(AgentCommand::Claim { step, evidence: evidence.clone() });
            let ended = ended(run, step, since, posts.clone());
            Ok(start(run, step)?.into_iter().chain(ended).chain([claim]).collect())
        };
        let run = self.judged(&harness, &words, told)?;
        if session_work::is_over(&run, step) {
            self.forget_posts(harness.id(), step);
        }
        Ok(run)
    }

    /// Reports that the session cannot continue with a step; provost asks a person.
    pub fn block(&self, session: &ClientSession, step: u32, reason: &str) -> Answer<Run> {
        if reason.trim().is_empty() {
            return Err(SessionRefusal::NoReason);
        }
        if let Some(tag) = &self.attempt {
            let reason = reason.to_owned();
            return self.pass_on(tag, AgentCommand::Block { step: StepNumber(step), reason });
        }
        let (harness, run) = self.to_write(session)?;
        let step = self.workable(&harness, &run, step)?;
        let reason = harness.redactor().text(reason.trim()).into_owned();
        let words = move |run: &Run| {
            let block = TaskOutcome::Agent(AgentCommand::Block { step, reason: reason.clone() });
            Ok(start(run, step)?.into_iter().chain([block]).collect())
        };
        Ok(live_session::note(&harness, &words)?)
    }

    /// Runs every check of the plan again, and the postconditions, if all steps are settled.
    pub fn verify(&self, session: &ClientSession, told: EventListener<'_>) -> Answer<Run> {
        let (harness, run) = self.to_write(session)?;
        self.may_work(&harness, &run)?;
        if run.stage == Stage::Done {
            return Ok(Arc::unwrap_or_clone(run));
        }
        session_work::finish(&run)?;
        self.judged(&harness, &|_| Ok(Vec::new()), told)
    }

    /// Returns the last `most` events of the plan from the log, oldest first.
    pub fn log(&self, session: &ClientSession, most: usize) -> Answer<Vec<SealedEvent>> {
        let SessionPlan { run, name, path, .. } = self.show(session)?;
        if run.hides {
            return Err(SessionRefusal::HidesContracts { name });
        }
        let harness = self.at(&path, Access::Read)?;
        let query = provost_store::Query {
            newest_first: true,
            limit: Some(most as u64),
            ..provost_store::Query::plan(harness.id())
        };
        let mut events = Vec::new();
        queries::each(&harness, &query, &mut |sealed| {
            events.push(sealed);
            std::ops::ControlFlow::Continue(())
        })?;
        events.reverse();
        Ok(events)
    }

    fn judged(&self, harness: &Harness, words: &Words<'_>, told: EventListener<'_>) -> Answer<Run> {
        match run_plan::drive_for(harness, &LiveSession { words }, told) {
            Ok((run, _)) => Ok(run),
            // The check before the work may have escalated the step to a person.
            Err(Error::Refused(Refusal::NotOpen { step })) => {
                Err(match harness.run()?.step(step).map(|step| step.state.clone()) {
                    Some(StepState::Blocked { reason, .. }) => WorkRefusal::Blocked { step, reason }.into(),
                    _ => Refusal::NotOpen { step }.into(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the file of the session's plan: the named one, the one it made or took, or the one that the
    /// marker of this worktree names.
    fn path(&self, session: &ClientSession) -> Answer<PathBuf> {
        if let Some(tag) = &self.attempt {
            return self.of_attempt(tag);
        }
        if let Some(name) = &self.named {
            let place = plan_registry::resolve(Some(name), &self.settings.cwd)?;
            return self.bound(session, place.path);
        }
        if let Some(bound) = self.sessions.plan_of(session) {
            return Ok(bound.plan);
        }
        let here = plan_registry::Here::of(&self.settings.cwd);
        if plan_file::marker(here.workspace()).symlink_metadata().is_ok() {
            return Ok(plan_registry::resolve(None, &self.settings.cwd)?.path);
        }
        Err(SessionRefusal::NoPlan)
    }

    fn of_attempt(&self, tag: &str) -> Answer<PathBuf> {
        let plan = PlanId(tag.split('/').next().unwrap_or_default().to_owned());
        plan_registry::find(&self.settings.state, &plan)
            .map(|place| place.path)
            .ok_or(SessionRefusal::InsideAttempt)
    }

    fn at(&self, path: &Path, access: Access) -> Answer<Harness> {
        let settings = EngineSettings { plan: Some(path.display().to_string()), ..self.settings.clone() };
        Ok(Harness::open(settings, access)?)
    }

    /// Opens the plan of the session for writing, with its current state. A session that works on the plan
    /// that the marker names takes it by that.
    fn to_write(&self, session: &ClientSession) -> Answer<(Harness, Arc<Run>)> {
        if self.attempt.is_some() {
            return Err(SessionRefusal::InsideAttempt);
        }
        let SessionPlan { run, path, .. } = self.show(session)?;
        let path = self.bound(session, path)?;
        Ok((self.at(&path, Access::Write)?, run))
    }

    /// Passes a command to the run that this process is inside of, if its log can be reached from here. That
    /// run judges.
    fn pass_on(&self, tag: &str, command: AgentCommand) -> Answer<Run> {
        let path = self.of_attempt(tag)?;
        let harness = self.at(&path, Access::Write).map_err(|_| SessionRefusal::InsideAttempt)?;
        match commands::agent(&harness, command) {
            Ok(run) => Ok(run),
            Err(Error::Refused(refusal)) => Err(refusal.into()),
            Err(_) => Err(SessionRefusal::InsideAttempt),
        }
    }

    /// Checks that the session may work on the step now.
    fn workable(&self, harness: &Harness, run: &Run, step: u32) -> Answer<StepNumber> {
        self.may_work(harness, run)?;
        Ok(session_work::step(run, step)?)
    }

    /// Checks that the plan is approved and its file still has the approved spec.
    fn may_work(&self, harness: &Harness, run: &Run) -> Answer<()> {
        let name = &harness.place().name;
        session_work::plan(run, name)?;
        if run.stage == Stage::Done {
            return Ok(());
        }
        match harness.site().law_changes(run) {
            Some(changes) => Err(SessionRefusal::LawChanged { name: name.clone(), changes }),
            None => Ok(()),
        }
    }
}

fn start(run: &Run, step: StepNumber) -> Result<Vec<TaskOutcome>, Refusal> {
    let is_pending = run.step(step).is_some_and(|step| step.state == StepState::Pending);
    Ok(if is_pending { vec![TaskOutcome::Harness(HarnessCommand::Start { step })] } else { Vec::new() })
}

/// Returns the end of the attempt that the session claims. A step that is checked again has ended before.
fn ended(
    run: &Run,
    step: StepNumber,
    since: Option<Timestamp>,
    published: Vec<TopicPost>,
) -> Option<TaskOutcome> {
    let (state, attempts) = run.step(step).map(|step| (step.state.clone(), step.attempts))?;
    let attempt = match state {
        StepState::Running { attempt } => attempt,
        StepState::Pending => attempts + 1,
        _ => return None,
    };
    let duration_ms = since.map_or(0, |since| plan_context::now().0.saturating_sub(since.0));
    Some(TaskOutcome::Harness(HarnessCommand::AttemptEnded(EndedAttempt {
        duration_ms,
        published,
        ..EndedAttempt::new(step, attempt, AttemptEnd::Exited { exit_code: 0 })
    })))
}

/// Returns when the running attempt started.
fn begun(harness: &Harness, run: &Run, step: StepNumber) -> Answer<Option<Timestamp>> {
    if !session_work::is_running(run, step) {
        return Ok(None);
    }
    let query = provost_store::Query {
        names: vec!["TASK_STARTED".to_owned()],
        newest_first: true,
        ..provost_store::Query::plan(harness.id())
    };
    let mut at = None;
    queries::each(harness, &query, &mut |sealed| {
        let is_it = sealed.event().is_ok_and(|event| event.step() == Some(step));
        at = is_it.then_some(sealed.at);
        if is_it { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    })?;
    Ok(at)
}
