//! What the agent of a session may ask for: a plan of its own, its steps, its checks, its topics.
//!
//! The client is started by a person and starts us, so nothing here is fenced from the agent: it may ask,
//! and what it says goes in by the agent's door. Checks are run on the harness's own ground and their
//! verdicts decide, as in any run; that the agent itself worked outside of a fence is in the log.
//!
//! **Invariant:** nothing of an agent's words reaches the harness's door but which step they are about.
//! **Invariant:** inside an attempt of a run nothing is judged here; a claim is passed on.

mod create;
mod refused;
mod topics;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::model::chain::{Head, PlanId, Sealed};
use provost_core::model::event::{AttemptEnd, Ended, Event, Post};
use provost_core::model::plan::StepNumber;
use provost_core::rules::command::{AgentCommand, HarnessCommand, Refusal};
use provost_core::state::run::{Run, Stage, StepState};
use provost_host::config::SessionGate;
use provost_host::{config, plan_file, process};

use crate::harness::{Access, Harness, Settings};
use crate::sessions::{Session, Sessions};
use crate::worker::{Words, Worker};
use crate::world::Said;
use crate::{Error, drive, places, site};

pub use create::{Created, Gate};
pub use refused::Refused;

type Answer<T> = Result<T, Refused>;
/// Is told every event of a check as it becomes durable.
pub type Told<'a> = &'a mut dyn FnMut(&Run, &Sealed, &Event);

pub struct Desk {
    settings: Settings,
    sessions: Sessions,
    /// As it was when the person's client started us: an agent may write the configuration later.
    gate: SessionGate,
    /// The plan that was named when we were started.
    named: Option<String>,
    /// The attempt of a run we are inside of.
    attempt: Option<String>,
    /// A plan as it was read last, with the head it was read at.
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    path: PathBuf,
    harness: Arc<Harness>,
    head: Head,
    run: Arc<Run>,
}

/// A plan, and how it stands.
#[derive(Clone)]
pub struct Shown {
    pub run: Arc<Run>,
    /// What people call the plan.
    pub name: String,
    pub path: PathBuf,
}

impl Desk {
    /// `settings.plan` is the plan of all sessions, where it is given.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let gate = config::find(&settings.cwd)?.mcp.gate;
        Ok(Self {
            sessions: Sessions::new(&settings.state),
            gate,
            named: settings.plan.clone(),
            attempt: process::inside_attempt(),
            settings,
            kept: Mutex::default(),
        })
    }

    /// A server of this session is there.
    pub fn arrive(&self, session: &Session) -> Answer<()> {
        self.sessions.arrive(session)?;
        // What was named is bound at once: hooks of the client ask for it too.
        if self.named.is_some() && self.attempt.is_none() {
            self.path(session)?;
        }
        Ok(())
    }

    /// The server of this session ends because its client wants it to, and not because somebody killed it.
    pub fn depart(&self, session: &Session) {
        self.sessions.depart(session);
    }

    fn bound(&self, session: &Session, path: PathBuf) -> Answer<PathBuf> {
        if self.sessions.plan_of(session).is_none_or(|bound| bound.plan != path) {
            self.sessions.bind(session, &path)?;
        }
        Ok(path)
    }

    /// What is being judged is to end.
    pub fn stop(&self) {
        self.settings.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.settings.stop.load(Ordering::Relaxed)
    }

    /// The plan of the session as it stands.
    pub fn show(&self, session: &Session) -> Answer<Shown> {
        let path = self.path(session)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let harness = match kept.as_ref().filter(|kept| kept.path == path) {
            Some(kept) => kept.harness.clone(),
            None => Arc::new(self.at(&path, Access::Read)?),
        };
        let head = harness.log().head(harness.id()).map_err(Error::from)?;
        let run = match kept.as_ref().filter(|kept| kept.path == path && kept.head == head && head.seq > 0) {
            Some(kept) => kept.run.clone(),
            None => Arc::new(drive::read(harness.log(), harness.id())?),
        };
        let name = harness.place().name.clone();
        // A log that was not there when it was opened for reading is looked for again.
        *kept = (head.seq > 0).then(|| Kept { path: path.clone(), harness, head, run: run.clone() });
        if !run.exists() {
            return Err(Refused::NotRecorded { name });
        }
        Ok(Shown { run, name, path })
    }

    /// The session takes up a plan whose own session is over.
    pub fn take_up(&self, session: &Session, name: &str) -> Answer<Shown> {
        // By its name only: a path could lead anywhere.
        if self.attempt.is_some() || self.named.is_some() || name.contains('/') {
            return Err(Refused::NotToTakeUp { name: name.to_owned() });
        }
        let place = places::resolve(Some(name), &self.settings.cwd)?;
        if self.sessions.is_taken(session, &place.path) {
            return Err(Refused::Taken { name: place.name });
        }
        if !self.at(&place.path, Access::Read)?.run()?.exists() {
            return Err(Refused::NotRecorded { name: place.name });
        }
        self.sessions.bind(session, &place.path)?;
        self.show(session)
    }

    /// The session begins a step.
    pub fn begin(&self, session: &Session, step: u32, told: Told<'_>) -> Answer<Run> {
        let harness = self.to_write(session)?;
        let run = harness.run()?;
        let step = self.workable(&harness, &run, step)?;
        if is_running(&run, step) {
            return Ok(run);
        }
        let words = move |run: &Run| start(run, step);
        self.judged(&harness, &words, told)
    }

    /// The session does not work on a step any more.
    pub fn put_back(&self, session: &Session, step: u32) -> Answer<Run> {
        let harness = self.to_write(session)?;
        let run = harness.run()?;
        let step = known(&run, step)?;
        let Some(StepState::Running { attempt }) = run.step(step).map(|step| step.state.clone()) else {
            return Ok(run);
        };
        let back =
            move |_: &Run| Ok(vec![Said::Harness(HarnessCommand::AttemptInterrupted { step, attempt })]);
        Ok(harness.note(&back)?)
    }

    /// The session says that a step is done. The check says whether it is.
    pub fn claim(&self, session: &Session, step: u32, evidence: &str, told: Told<'_>) -> Answer<Run> {
        if evidence.trim().is_empty() {
            return Err(Refused::NoEvidence);
        }
        if let Some(tag) = &self.attempt {
            let evidence = evidence.to_owned();
            return self.pass_on(tag, AgentCommand::Claim { step: StepNumber(step), evidence });
        }
        let harness = self.to_write(session)?;
        let run = harness.run()?;
        if let Some(number) = already(&run, step) {
            return Err(Refused::Over { step: number, how: run.state_word(number) });
        }
        let step = self.workable(&harness, &run, step)?;
        let evidence = harness.redactor().text(evidence.trim()).into_owned();
        let since = begun(&harness, step)?;
        let posts = self.posts(harness.id(), &run, step);
        let words = move |run: &Run| {
            let claim = Said::Agent(AgentCommand::Claim { step, evidence: evidence.clone() });
            let ended = ended(run, step, since, posts.clone());
            Ok(start(run, step)?.into_iter().chain(ended).chain([claim]).collect())
        };
        let run = self.judged(&harness, &words, told)?;
        if is_over(&run, step) {
            self.forget_posts(harness.id(), step);
        }
        Ok(run)
    }

    /// The session cannot go on with a step; a person is asked.
    pub fn block(&self, session: &Session, step: u32, reason: &str) -> Answer<Run> {
        if reason.trim().is_empty() {
            return Err(Refused::NoReason);
        }
        if let Some(tag) = &self.attempt {
            let reason = reason.to_owned();
            return self.pass_on(tag, AgentCommand::Block { step: StepNumber(step), reason });
        }
        let harness = self.to_write(session)?;
        let step = self.workable(&harness, &harness.run()?, step)?;
        let reason = harness.redactor().text(reason.trim()).into_owned();
        let words = move |run: &Run| {
            let block = Said::Agent(AgentCommand::Block { step, reason: reason.clone() });
            Ok(start(run, step)?.into_iter().chain([block]).collect())
        };
        Ok(harness.note(&words)?)
    }

    /// Every check of the plan once more, and the postconditions, if all steps are over.
    pub fn verify(&self, session: &Session, told: Told<'_>) -> Answer<Run> {
        let harness = self.to_write(session)?;
        let run = harness.run()?;
        self.may_work(&harness, &run)?;
        if run.stage == Stage::Done {
            return Ok(run);
        }
        if !run.all_settled() {
            let open = run.steps().filter(|(step, _)| !is_over(&run, step.number));
            return Err(Refused::StepsOpen { steps: open.map(|(step, _)| step.number).collect() });
        }
        self.judged(&harness, &|_| Ok(Vec::new()), told)
    }

    /// The plan's events, oldest first, as they stand in the log; the last `most` of them.
    pub fn log(&self, session: &Session, most: usize) -> Answer<Vec<Sealed>> {
        let harness = self.at(&self.path(session)?, Access::Read)?;
        let query = provost_store::Query {
            newest_first: true,
            limit: Some(most as u64),
            ..provost_store::Query::plan(harness.id())
        };
        let mut events = Vec::new();
        harness.each(&query, &mut |sealed| {
            events.push(sealed);
            std::ops::ControlFlow::Continue(())
        })?;
        events.reverse();
        Ok(events)
    }

    fn judged(&self, harness: &Harness, words: &Words<'_>, told: Told<'_>) -> Answer<Run> {
        match harness.drive_for(&Worker::Session { words }, told) {
            Ok((run, _)) => Ok(run),
            // The look before the work may have sent the step to a person.
            Err(Error::Refused(Refusal::NotOpen { step })) => {
                Err(match harness.run()?.step(step).map(|step| step.state.clone()) {
                    Some(StepState::Blocked { reason }) => Refused::Blocked { step, reason },
                    _ => Refusal::NotOpen { step }.into(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The file of the session's plan: the named one, the one it made, or the one of this worktree.
    fn path(&self, session: &Session) -> Answer<PathBuf> {
        if let Some(tag) = &self.attempt {
            return self.of_attempt(tag);
        }
        if let Some(name) = &self.named {
            let place = places::resolve(Some(name), &self.settings.cwd)?;
            return self.bound(session, place.path);
        }
        if let Some(bound) = self.sessions.plan_of(session) {
            return Ok(bound.plan);
        }
        let here = places::Here::of(&self.settings.cwd);
        if plan_file::marker(here.workspace()).symlink_metadata().is_ok() {
            let place = places::resolve(None, &self.settings.cwd)?;
            return self.bound(session, place.path);
        }
        Err(Refused::NoPlan)
    }

    fn of_attempt(&self, tag: &str) -> Answer<PathBuf> {
        let plan = PlanId(tag.split('/').next().unwrap_or_default().to_owned());
        places::find(&self.settings.state, &plan).map(|place| place.path).ok_or(Refused::InsideAttempt)
    }

    fn at(&self, path: &Path, access: Access) -> Answer<Harness> {
        let settings = Settings { plan: Some(path.display().to_string()), ..self.settings.clone() };
        Ok(Harness::open(settings, access)?)
    }

    fn to_write(&self, session: &Session) -> Answer<Harness> {
        if self.attempt.is_some() {
            return Err(Refused::InsideAttempt);
        }
        self.at(&self.path(session)?, Access::Write)
    }

    /// Inside an attempt the run is the judge; it hears claims by the agent's door, if its log can be
    /// reached from here.
    fn pass_on(&self, tag: &str, command: AgentCommand) -> Answer<Run> {
        let path = self.of_attempt(tag)?;
        let harness = self.at(&path, Access::Write).map_err(|_| Refused::InsideAttempt)?;
        match harness.agent(command) {
            Ok(run) => Ok(run),
            Err(Error::Refused(refusal)) => Err(refusal.into()),
            Err(_) => Err(Refused::InsideAttempt),
        }
    }

    /// The step may be worked on by the session now.
    fn workable(&self, harness: &Harness, run: &Run, step: u32) -> Answer<StepNumber> {
        self.may_work(harness, run)?;
        let number = known(run, step)?;
        if let Some(plan) = run.carried_by(number) {
            return Err(Refusal::CarriedByPlan { step: number, plan: plan.to_owned() }.into());
        }
        let state = run.step(number).map(|step| &step.state);
        match state {
            Some(StepState::Running { .. }) => return Ok(number),
            Some(StepState::Ended { .. }) if !run.confirmed_by_person(number) => return Ok(number),
            Some(StepState::Pending) => {}
            Some(StepState::Blocked { reason }) => {
                return Err(Refused::Blocked { step: number, reason: reason.clone() });
            }
            _ => return Err(Refused::Over { step: number, how: run.state_word(number) }),
        }
        if let Some(other) = run.under_way().find(|other| is_running(run, *other)) {
            return Err(Refused::OneAtATime { step: other });
        }
        if let Some((blocked, _)) =
            run.steps().find(|(_, step)| matches!(step.state, StepState::Blocked { .. }))
        {
            return Err(Refused::AnotherBlocked { step: blocked.number });
        }
        if !run.ready().any(|ready| ready == number) {
            return Err(Refused::NotItsTurn { step: number, next: run.ready().next() });
        }
        Ok(number)
    }

    /// The plan is through the gate, and its file still says what was approved.
    fn may_work(&self, harness: &Harness, run: &Run) -> Answer<()> {
        match run.stage {
            Stage::Approved | Stage::InProgress => {}
            Stage::Done => return Ok(()),
            Stage::Failed => return Err(Refused::Failed),
            Stage::Draft | Stage::Verified => {
                return Err(Refused::AtTheGate { name: harness.place().name.clone() });
            }
        }
        match harness.site().law_changes(run) {
            Some(changes) => Err(Refused::LawChanged { name: harness.place().name.clone(), changes }),
            None => Ok(()),
        }
    }
}

fn is_running(run: &Run, step: StepNumber) -> bool {
    matches!(run.step(step).map(|step| &step.state), Some(StepState::Running { .. }))
}

fn is_over(run: &Run, step: StepNumber) -> bool {
    matches!(run.step(step).map(|step| &step.state), Some(StepState::Passed | StepState::Waived { .. }))
}

fn already(run: &Run, step: u32) -> Option<StepNumber> {
    Some(StepNumber(step)).filter(|number| is_over(run, *number))
}

fn known(run: &Run, step: u32) -> Answer<StepNumber> {
    let count = run.plan.steps.len() as u32;
    if (1..=count).contains(&step) { Ok(StepNumber(step)) } else { Err(Refused::NoSuchStep { step, count }) }
}

fn start(run: &Run, step: StepNumber) -> Result<Vec<Said>, Refusal> {
    let is_pending = run.step(step).is_some_and(|step| step.state == StepState::Pending);
    Ok(if is_pending { vec![Said::Harness(HarnessCommand::Start { step })] } else { Vec::new() })
}

/// The attempt is over when the session says so. One that waits for its check again has ended before.
fn ended(
    run: &Run,
    step: StepNumber,
    since: Option<provost_core::model::timestamp::Timestamp>,
    published: Vec<Post>,
) -> Option<Said> {
    let (state, attempts) = run.step(step).map(|step| (step.state.clone(), step.attempts))?;
    let attempt = match state {
        StepState::Running { attempt } => attempt,
        StepState::Pending => attempts + 1,
        _ => return None,
    };
    let duration_ms = since.map_or(0, |since| site::now().0.saturating_sub(since.0));
    Some(Said::Harness(HarnessCommand::AttemptEnded(Ended {
        duration_ms,
        published,
        ..Ended::new(step, attempt, AttemptEnd::Exited { exit_code: 0 })
    })))
}

/// When the attempt that is under way began.
fn begun(harness: &Harness, step: StepNumber) -> Answer<Option<provost_core::model::timestamp::Timestamp>> {
    if !is_running(&harness.run()?, step) {
        return Ok(None);
    }
    let query = provost_store::Query {
        names: vec!["TASK_STARTED".to_owned()],
        newest_first: true,
        ..provost_store::Query::plan(harness.id())
    };
    let mut at = None;
    harness.each(&query, &mut |sealed| {
        let is_it = sealed.event().is_ok_and(|event| event.step() == Some(step));
        at = is_it.then_some(sealed.at);
        if is_it { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    })?;
    Ok(at)
}
