//! Writes the state of a run into the files people read: marks in the plan file, lines in the progress file.
//!
//! Both are projections: they can be lost and are written again, and no decision reads them. A file that was
//! edited meanwhile is left alone; the loop notices a changed spec itself.
//!
//! The file is not rewritten for each event, but no state is left out: a thread writes what was held back
//! when the pause is over ([`DelayedWriter`]).
//!
//! **Invariant:** only `status` and step marks are written, and only to a file that has the spec of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::approved_spec;
use provost_core::model::chain::SealedEvent;
use provost_core::model::event::Event;
use provost_core::model::hash::Hash;
use provost_core::model::plan::{Mark, Plan, StepNumber};
use provost_core::model::verdict::Isolation;
use provost_core::state::run::{Run, Stage, StepState, has_spec};
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
    marked: Option<Marked>,
    /// When the marks are to be written.
    due: Option<(Instant, Arc<TamperWatch>)>,
    is_over: bool,
}

/// State of a run as its plan file shows it.
struct Marked {
    digest: Option<Hash>,
    text: String,
    plan: Arc<Plan>,
    stage: Stage,
    steps: BTreeMap<StepNumber, Mark>,
}

/// Steps whose marks may differ from those that were noted last.
enum Changed {
    All,
    Steps(BTreeSet<StepNumber>),
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
            let left = waiting.due.as_ref().map(|(at, _)| at.saturating_duration_since(Instant::now()));
            waiting = match left {
                None => self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    if let Some((_, watch)) = waiting.due.take() {
                        watch.own_write(|| {
                            waiting.tell(site);
                            let _ = waiting.marked.as_ref().map(|marked| marked.write(site));
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
    changed: Changed,
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
        Self { site, watch, trailing, next_marks: Instant::now(), written, changed: Changed::All }
    }

    /// Adds the line of an event, unless the progress file already has it.
    pub fn event(&mut self, run: &Run, sealed: &SealedEvent, event: &Event) {
        match (&mut self.changed, event.step()) {
            // An answer may settle other steps too.
            (Changed::Steps(steps), Some(step)) if !matches!(event, Event::Answered { .. }) => {
                steps.insert(step);
            }
            (changed, _) => *changed = Changed::All,
        }
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
            let mut waiting = self.trailing.lock();
            self.changed.note(run, &mut waiting.marked);
            waiting.due = Some((self.next_marks, self.watch.clone()));
            self.trailing.bell.notify_all();
        }
    }

    /// Writes before an agent starts that the plan file is held back for, unless it is held back already.
    pub fn before_an_attempt(&mut self, run: &Run, step: StepNumber) {
        let mut holding = run.under_way().filter(|number| holds_back(run, *number));
        let (first, second) = (holding.next(), holding.next());
        if second.is_some() || first != Some(step) {
            return;
        }
        let mut waiting = self.trailing.lock();
        self.changed.note(run, &mut waiting.marked);
        // An older state that is due later must not be written while the agent works.
        waiting.due = None;
        self.watch.own_write(|| {
            let _ = waiting.marked.as_ref().map(|marked| marked.write(self.site));
        });
        drop(waiting);
        self.next_marks = Instant::now() + PAUSE;
    }

    /// Writes now, when the run has stopped. Returns what could not be written; this does not fail the run.
    pub fn write(&mut self, run: &Run) -> Vec<String> {
        let mut complaints = Vec::new();
        let watch = self.watch.clone();
        let mut waiting = self.trailing.lock();
        waiting.due = None;
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
}

impl Changed {
    /// Brings the noted marks up to date.
    fn note(&mut self, run: &Run, noted: &mut Option<Marked>) {
        let mark = |number: StepNumber| Some((number, run.mark(number)?));
        match (std::mem::replace(self, Changed::Steps(BTreeSet::new())), noted) {
            (Changed::Steps(steps), Some(marked)) if marked.digest == run.law => {
                marked.stage = run.stage;
                for number in steps {
                    marked.steps.remove(&number);
                    marked.steps.extend(mark(number));
                }
            }
            (_, noted) => {
                let (text, plan) = (run.text.clone(), run.plan.clone());
                let steps = run.steps().filter_map(|(step, _)| mark(step.number)).collect();
                *noted = Some(Marked { digest: run.law, text, plan, stage: run.stage, steps });
            }
        }
    }
}

impl Marked {
    fn write(&self, site: &PlanContext) -> Result<(), String> {
        write_marks(site, (self.digest, &self.text, &self.plan), || {
            let mark = |step| self.steps.get(&step).copied();
            approved_spec::mark(&self.text, &self.plan, self.stage.word(), mark)
        })
    }
}

/// Returns whether the marks have to wait until an agent has ended.
fn is_held_back(run: &Run) -> bool {
    run.under_way().any(|number| holds_back(run, number))
}

/// Returns whether an agent works on the step in a sandbox in which the plan file is mounted read-only, or masked.
/// Replacing the file ends that mount: the agent could write the new file, or read the unmasked one.
fn holds_back(run: &Run, number: StepNumber) -> bool {
    let is_mounted = run.isolation.is_some_and(Isolation::has_fence) && !run.works_apart(number);
    let is_running = run.step(number).is_some_and(|step| matches!(step.state, StepState::Running { .. }));
    is_running && (run.hides || is_mounted)
}

/// Writes the current marks into the plan file.
///
/// A file with the run's spec differs from the text in the log only by status and marks. The marked text is
/// therefore made from the log, and an unchanged file is not parsed again.
pub fn marks(site: &PlanContext, run: &Run) -> Result<(), String> {
    write_marks(site, (run.law, &run.text, &run.plan), || {
        approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step))
    })
}

fn write_marks(
    site: &PlanContext,
    (digest, text, plan): (Option<Hash>, &str, &Plan),
    marked: impl FnOnce() -> String,
) -> Result<(), String> {
    let found = plan_file::read(&site.place.path).map_err(|error| error.to_string())?;
    if !site.is_lawful(found.stamp, digest) {
        let Ok(other) = std::str::from_utf8(&found.bytes) else { return Ok(()) };
        if !has_spec(digest, text, plan, other) {
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
