//! Writes the state of a run into the files people read: marks in the plan file, lines in the progress file.
//!
//! Both are projections: they can be lost and are written again, and no decision reads them. A file that was
//! edited meanwhile is left alone; the loop notices a changed spec itself.
//!
//! The file is not rewritten for each event, but no state is left out: a thread writes what was held back
//! when the pause is over ([`DelayedWriter`]).
//!
//! **Invariant:** only `status` and step marks are written, and only to a file that has the spec of the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use provost_core::language::parse;
use provost_core::model::approved_spec;
use provost_core::model::chain::SealedEvent;
use provost_core::model::event::Event;
use provost_core::model::hash::Hash;
use provost_core::model::plan::{Mark, Plan, Step, StepNumber};
use provost_core::model::verdict::Isolation;
use provost_core::state::run::{Run, Stage, StepRun, StepState};
use provost_core::text::render;
use provost_host::plans::{plan_file, progress};

use crate::plan::plan_context::PlanContext;
use crate::plan::tamper_watch::TamperWatch;

/// Pause after a rewrite. It keeps the file less than a second behind the log.
const PAUSE: Duration = Duration::from_millis(900);

/// Writes the last state of a run when the pause is over, even if no further event comes. One thread serves
/// it for the whole run.
#[derive(Default)]
pub struct DelayedWriter {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

/// State that the files do not show yet.
#[derive(Default)]
struct Waiting {
    lines: Vec<progress::ProgressLine>,
    marks: Option<Due>,
    is_over: bool,
}

/// Marks to write at a given time.
struct Due {
    at: Instant,
    watch: Arc<TamperWatch>,
    marked: Marked,
}

/// State of a run as its plan file shows it.
struct Marked {
    law: Arc<Lawful>,
    stage: Stage,
    steps: BTreeMap<StepNumber, Mark>,
}

/// Text and plan of a spec, shared as long as the spec is the same.
struct Lawful {
    digest: Option<Hash>,
    text: String,
    plan: Plan,
}

/// Ends the writing thread when it is dropped.
pub struct WriterGuard<'a>(&'a DelayedWriter);

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.bell.notify_all();
    }
}

impl DelayedWriter {
    pub fn until_dropped(&self) -> WriterGuard<'_> {
        WriterGuard(self)
    }

    /// Writes what is due until the run is over.
    pub fn attend(&self, site: &PlanContext) {
        let mut waiting = self.lock();
        while !waiting.is_over {
            let left = waiting.marks.as_ref().map(|due| due.at.saturating_duration_since(Instant::now()));
            waiting = match left {
                None => self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    if let Some(due) = waiting.marks.take() {
                        due.watch.own_write(|| {
                            waiting.tell(site);
                            let _ = due.marked.write(site);
                        });
                    }
                    waiting
                }
                Some(left) => self.bell.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Appends to the progress file. If this fails, keeps the lines and returns the error text.
    fn tell(&mut self, site: &PlanContext) -> Option<String> {
        if self.lines.is_empty() {
            return None;
        }
        match progress::append(&site.place.progress, &self.lines) {
            Ok(()) => {
                self.lines.clear();
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

pub struct Projector<'a> {
    site: &'a PlanContext,
    watch: Arc<TamperWatch>,
    trailing: &'a DelayedWriter,
    next_marks: Instant,
    /// Last event in the progress file.
    written: u64,
    law: Option<Arc<Lawful>>,
}

impl<'a> Projector<'a> {
    /// Starts after the last event in the progress file. `head` is the last event of the log and limits this,
    /// because an agent can write the progress file.
    pub fn new(
        site: &'a PlanContext,
        watch: Arc<TamperWatch>,
        trailing: &'a DelayedWriter,
        head: u64,
    ) -> Self {
        let written = progress::last_seq(&site.place.progress).unwrap_or(0).min(head);
        Self { site, watch, trailing, next_marks: Instant::now(), written, law: None }
    }

    /// Adds the line of an event, unless the progress file already has it.
    pub fn event(&mut self, run: &Run, sealed: &SealedEvent, event: &Event) {
        if sealed.seq <= self.written {
            return;
        }
        self.written = sealed.seq;
        let line = render::event(run, event);
        if !line.told_elsewhere {
            let line = progress::ProgressLine { at: sealed.at, seq: sealed.seq, words: line.to_string() };
            self.trailing.lock().lines.push(line);
        }
    }

    /// Writes now if the pause is over; otherwise schedules the write.
    pub fn catch_up(&mut self, run: &Run) {
        if Instant::now() >= self.next_marks {
            self.write(run);
        } else if !is_held_back(run) {
            let (at, watch, marked) = (self.next_marks, self.watch.clone(), self.marked(run));
            self.trailing.lock().marks = Some(Due { at, watch, marked });
            self.trailing.bell.notify_all();
        }
    }

    /// Writes before an agent starts that the plan file is held back for, unless it is held back already.
    pub fn before_an_attempt(&mut self, run: &Run, step: StepNumber) {
        let mut holding = run.steps().filter(|(step, state)| holds_back(run, step, state));
        let (first, second) = (holding.next(), holding.next());
        if second.is_some() || first.is_none_or(|(first, _)| first.number != step) {
            return;
        }
        let marked = self.marked(run);
        // An older state that is due later must not be written while the agent works.
        self.trailing.lock().marks = None;
        self.watch.own_write(|| {
            let _ = marked.write(self.site);
        });
        self.next_marks = Instant::now() + PAUSE;
    }

    /// Writes now, when the run has stopped. Returns what could not be written; this does not fail the run.
    pub fn write(&mut self, run: &Run) -> Vec<String> {
        let mut complaints = Vec::new();
        let watch = self.watch.clone();
        let mut waiting = self.trailing.lock();
        waiting.marks = None;
        watch.own_write(|| {
            complaints.extend(waiting.tell(self.site));
            if !is_held_back(run) {
                complaints.extend(marks(self.site, run).err());
            }
        });
        drop(waiting);
        self.next_marks = Instant::now() + PAUSE;
        complaints
    }

    fn marked(&mut self, run: &Run) -> Marked {
        let law = match self.law.take().filter(|law| law.digest == run.law) {
            Some(law) => law,
            None => Arc::new(Lawful { digest: run.law, text: run.text.clone(), plan: run.plan.clone() }),
        };
        self.law = Some(law.clone());
        let mark = |(step, _): (&Step, &StepRun)| Some((step.number, run.mark(step.number)?));
        Marked { law, stage: run.stage, steps: run.steps().filter_map(mark).collect() }
    }
}

impl Marked {
    fn write(&self, site: &PlanContext) -> Result<(), String> {
        let Lawful { digest, text, plan } = &*self.law;
        write_marks(site, *digest, || {
            approved_spec::mark(text, plan, self.stage.word(), |step| self.steps.get(&step).copied())
        })
    }
}

fn is_running(step: &StepRun) -> bool {
    matches!(step.state, StepState::Running { .. })
}

/// Returns whether the marks have to wait until an agent has ended.
fn is_held_back(run: &Run) -> bool {
    run.steps().any(|(step, state)| holds_back(run, step, state))
}

/// Returns whether an agent works on the step in a sandbox in which the plan file is mounted read-only, or masked.
/// Replacing the file ends that mount: the agent could write the new file, or read the unmasked one.
fn holds_back(run: &Run, step: &Step, state: &StepRun) -> bool {
    let is_mounted = run.isolation.is_some_and(Isolation::has_fence) && !run.works_apart(step.number);
    is_running(state) && (run.hides || is_mounted)
}

/// Writes the current marks into the plan file.
///
/// A file with the run's spec differs from the text in the log only by status and marks. The marked text is
/// therefore made from the log, and an unchanged file is not parsed again.
pub fn marks(site: &PlanContext, run: &Run) -> Result<(), String> {
    write_marks(site, run.law, || {
        approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step))
    })
}

fn write_marks(
    site: &PlanContext,
    digest: Option<Hash>,
    marked: impl FnOnce() -> String,
) -> Result<(), String> {
    let found = plan_file::read(&site.place.path).map_err(|error| error.to_string())?;
    if !site.is_lawful(found.stamp, digest) {
        let Ok(text) = std::str::from_utf8(&found.bytes) else { return Ok(()) };
        if digest != Some(approved_spec::digest(text, &parse::plan(text).plan)) {
            return Ok(());
        }
    }
    let marked = marked();
    if marked.as_bytes() == found.bytes {
        site.now_lawful(found.stamp, digest);
        return Ok(());
    }
    match plan_file::replace(&site.place.path, &found.hash, marked.as_bytes()) {
        Ok(stamp) => {
            site.now_lawful(stamp, digest);
            Ok(())
        }
        // A person is editing the file; their version wins.
        Err(plan_file::Error::Changed { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
