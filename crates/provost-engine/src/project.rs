//! The log, written back where people look: marks in the plan file, lines in the progress file.
//!
//! Both are projections: they can be lost and are made again, and nothing is ever read from them. A
//! file that somebody edited meanwhile is left alone; the loop notices the change of the law itself.
//!
//! **Invariant:** only `status` and step marks of a file whose law is the log's are written.

use std::time::{Duration, Instant};

use provost_core::chain::Sealed;
use provost_core::event::Event;
use provost_core::law;
use provost_core::parse;
use provost_core::render;
use provost_core::run::{Run, StepState};
use provost_host::{plan_file, progress};

use crate::site::Site;
use crate::watch_over::Watch;

/// A rewrite may cost at most this share of the time: a large plan is marked less often.
const COST_SHARE: u32 = 20;
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

pub struct Projector<'a> {
    site: &'a Site,
    watch: &'a Watch,
    next_marks: Instant,
    /// The last event that stands in the progress file.
    written: u64,
    lines: Vec<progress::Line>,
}

impl<'a> Projector<'a> {
    /// `head` is the last event of the log: an agent can write the progress file, so it is believed
    /// no further than that.
    pub fn new(site: &'a Site, watch: &'a Watch, head: u64) -> Self {
        let written = progress::last_seq(&site.place.progress).unwrap_or(0).min(head);
        Self { site, watch, next_marks: Instant::now(), written, lines: Vec::new() }
    }

    /// An event that may be new to the files.
    pub fn event(&mut self, run: &Run, sealed: &Sealed, event: &Event) {
        if sealed.seq <= self.written {
            return;
        }
        self.written = sealed.seq;
        let line = render::event(run, event);
        if !line.told_elsewhere {
            self.lines.push(progress::Line { at: sealed.at, seq: sealed.seq, words: line.to_string() });
        }
    }

    /// Writes if it is time to.
    pub fn catch_up(&mut self, run: &Run) {
        if Instant::now() >= self.next_marks {
            self.write(run);
        }
    }

    /// Writes now: the run has come to rest. What cannot be written is said, and is no failure of
    /// the run.
    pub fn write(&mut self, run: &Run) -> Vec<String> {
        let begun = Instant::now();
        let mut complaints = Vec::new();
        let watch = self.watch;
        watch.own_write(|| {
            if !self.lines.is_empty() {
                match progress::append(&self.site.place.progress, &self.lines) {
                    Ok(()) => self.lines.clear(),
                    Err(error) => complaints.push(error.to_string()),
                }
            }
            if !veiled_attempt(run) {
                complaints.extend(marks(self.site, run).err());
            }
        });
        let spent = begun.elapsed();
        self.next_marks = Instant::now() + (spent * COST_SHARE).max(SHORTEST_PAUSE);
        complaints
    }
}

/// Somebody works with a plan file that hides something. To replace the file under his fence would show
/// him the new one, and for a moment a second one beside it; the marks can wait.
fn veiled_attempt(run: &Run) -> bool {
    let is_running = |state: &StepState| matches!(state, StepState::Running { .. });
    run.hides && run.steps().any(|(_, step)| is_running(&step.state))
}

/// Makes the plan file show where the run stands.
///
/// A file with the run's law differs from the text in the log by nothing but status and marks, so the
/// marked text is made of that one, and a file that has not moved need not be parsed again.
pub fn marks(site: &Site, run: &Run) -> Result<(), String> {
    let found = plan_file::read(&site.place.path).map_err(|error| error.to_string())?;
    if !site.is_lawful(found.stamp, run) {
        let Ok(text) = std::str::from_utf8(&found.bytes) else { return Ok(()) };
        if run.law != Some(law::digest(text, &parse::plan(text).plan)) {
            return Ok(());
        }
    }
    let marked = law::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
    if marked.as_bytes() == found.bytes {
        site.now_lawful(found.stamp, run);
        return Ok(());
    }
    match plan_file::replace(&site.place.path, &found.hash, marked.as_bytes()) {
        Ok(stamp) => {
            site.now_lawful(stamp, run);
            Ok(())
        }
        // Somebody is editing: their bytes win.
        Err(plan_file::Error::Changed { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
