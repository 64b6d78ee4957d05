//! Runs checks that take longer than clients wait: a tool answers within its time limit, and the next call
//! gets the result.
//!
//! A session has one running check at a time, on its own thread. While a call waits for it, the client gets
//! progress notifications.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::chain::SealedEvent;
use provost_core::model::event::Event;
use provost_core::state::run::Run;
use provost_core::text::render;
use provost_engine::session::agent_session::SessionRefusal;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::sync::watch;

/// Interval of progress notifications.
const TICK: Duration = Duration::from_secs(1);

pub(super) type JobListener<'a> = dyn FnMut(&Run, &SealedEvent, &Event) + 'a;
type Outcome = Arc<Result<Run, String>>;

/// A check to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckJob {
    /// Description for people.
    what: String,
    /// Key that is equal for a repeated call.
    key: String,
}

impl CheckJob {
    pub(super) fn new(what: impl Into<String>, key: String) -> Self {
        Self { what: what.into(), key }
    }
}

/// Result of a request for a check.
#[derive(Clone)]
pub(super) enum CheckJobResult {
    /// Nothing was running.
    Nothing,
    Still {
        what: String,
        seconds: u64,
    },
    /// The outcome; `of` names the earlier call if it belongs to another one.
    Over {
        outcome: Outcome,
        of: Option<String>,
    },
}

pub(super) struct CheckJobs {
    patience: Duration,
    current: Mutex<Option<Job>>,
}

#[derive(Clone)]
struct Job {
    ask: CheckJob,
    begun: Instant,
    news: watch::Receiver<News>,
}

impl Job {
    fn still(&self) -> CheckJobResult {
        CheckJobResult::Still { what: self.ask.what.clone(), seconds: self.begun.elapsed().as_secs() }
    }
}

#[derive(Clone, Default)]
struct News {
    line: String,
    outcome: Option<Outcome>,
}

impl CheckJobs {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, current: Mutex::default() }
    }

    fn current(&self) -> MutexGuard<'_, Option<Job>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the check. If another one is already running, waits for that one instead.
    pub(super) async fn judge<F>(
        &self,
        ask: CheckJob,
        context: &RequestContext<RoleServer>,
        work: F,
    ) -> CheckJobResult
    where
        F: FnOnce(&mut JobListener<'_>) -> Result<Run, SessionRefusal> + Send + 'static,
    {
        let (job, is_ours) = self.take(&ask, work);
        self.wait(&job, is_ours, context).await
    }

    /// Waits for the running check, if there is one.
    pub(super) async fn settled(&self, context: &RequestContext<RoleServer>) -> CheckJobResult {
        let job = self.current().clone();
        match job {
            Some(job) => self.wait(&job, false, context).await,
            None => CheckJobResult::Nothing,
        }
    }

    /// Returns a line about the running check.
    pub(super) fn note(&self) -> String {
        match self.current().as_ref() {
            Some(job) if job.news.borrow().outcome.is_none() => format!(
                "\nStill judging {} ({} s so far): call plan_next for the result.\n",
                job.ask.what,
                job.begun.elapsed().as_secs()
            ),
            _ => String::new(),
        }
    }

    /// Waits for the running check, at most for `patience`.
    pub(super) fn wind_down(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let Some(job) = self.current().clone() else { return };
        while job.news.borrow().outcome.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn take<F>(&self, ask: &CheckJob, work: F) -> (Job, bool)
    where
        F: FnOnce(&mut JobListener<'_>) -> Result<Run, SessionRefusal> + Send + 'static,
    {
        let mut current = self.current();
        if let Some(job) = current.as_ref() {
            return (job.clone(), job.ask == *ask);
        }
        let (sender, news) = watch::channel(News::default());
        std::thread::spawn(move || {
            let worked = work(&mut |run, _, event| {
                let line = render::event(run, event).words;
                sender.send_modify(|news| news.line = line);
            });
            let outcome = Arc::new(worked.map_err(|refused| refused.told()));
            sender.send_modify(|news| news.outcome = Some(outcome));
        });
        let job = Job { ask: ask.clone(), begun: Instant::now(), news };
        *current = Some(job.clone());
        (job, true)
    }

    async fn wait(&self, job: &Job, is_ours: bool, context: &RequestContext<RoleServer>) -> CheckJobResult {
        let mut news = job.news.clone();
        let deadline = tokio::time::Instant::now() + self.patience;
        let token = context.meta.get_progress_token();
        let mut ticks = 0u32;
        loop {
            let now = news.borrow_and_update().clone();
            if let Some(outcome) = now.outcome {
                self.collect(job);
                return CheckJobResult::Over { outcome, of: (!is_ours).then(|| job.ask.what.clone()) };
            }
            ticks += 1;
            tell(context, token.as_ref(), ticks, job, &now.line).await;
            tokio::select! {
                changed = news.changed() => if changed.is_err() {
                    // The thread ended without a result.
                    self.collect(job);
                    let outcome = Arc::new(Err("the check ended without a verdict; call it again".to_owned()));
                    return CheckJobResult::Over { outcome, of: None };
                },
                () = tokio::time::sleep(TICK) => {}
                () = tokio::time::sleep_until(deadline) => return job.still(),
                // The client cancelled this call and ignores its result; the next call gets it.
                () = context.ct.cancelled() => return job.still(),
            }
        }
    }

    /// Forgets a job whose outcome was reported, so that the next call starts a new one.
    fn collect(&self, job: &Job) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|known| known.begun == job.begun) {
            *current = None;
        }
    }
}

async fn tell(
    context: &RequestContext<RoleServer>,
    token: Option<&ProgressToken>,
    ticks: u32,
    job: &Job,
    line: &str,
) {
    let Some(token) = token else { return };
    let mut progress = ProgressNotificationParam::new(token.clone(), f64::from(ticks));
    let seconds = job.begun.elapsed().as_secs();
    progress.message = Some(match line.is_empty() {
        true => format!("judging {} ({seconds} s)", job.ask.what),
        false => format!("judging {} ({seconds} s): {line}", job.ask.what),
    });
    // A client that ignores progress still gets its answer.
    let _ = context.peer.notify_progress(progress).await;
}
