//! Metrics of the server and the plans: Prometheus text, health and readiness.
//!
//! **Invariant:** no name of a plan, a person or a token is in the metrics.
//! **Invariant:** the response takes bounded time. A part that is not available in time is left out, and a
//! metric says so.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use provost_core::model::usage::Resource;
use provost_core::rules::inbox;
use provost_core::state::run::Stage;

use crate::http::{Answer, AppState, Problem, Scraper, Shared, ask};

/// Time limit for each part of the response.
const AWHILE: Duration = Duration::from_secs(4);
/// Time for which a part is reused for other requests.
const FRESH: Duration = Duration::from_secs(1);

/// A metric family: samples with their labels.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: &'static str,
    pub kind: &'static str,
    pub help: &'static str,
    pub samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Returns extra metric families from the caller. Called outside of the async threads.
pub type Beside = dyn Fn() -> Vec<Family> + Send + Sync;

/// A slow part of the response: computed once at a time, and cached.
#[derive(Default)]
pub struct CachedPart {
    turn: Arc<tokio::sync::Mutex<()>>,
    kept: Mutex<Option<(Instant, String)>>,
}

impl CachedPart {
    /// Returns the part; `None` if it takes too long. It then continues in the background, and other requests
    /// wait for it.
    async fn ask(&self, asked: impl Future<Output = Option<String>> + Send + 'static) -> Option<String> {
        let told = tokio::time::timeout(AWHILE, async {
            let turn = self.turn.clone().lock_owned().await;
            if let Some(kept) = self.kept() {
                return Some(kept);
            }
            let asked = tokio::spawn(async move {
                let _turn = turn;
                asked.await
            });
            let told = asked.await.ok().flatten()?;
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), told.clone()));
            Some(told)
        });
        told.await.ok().flatten()
    }

    fn kept(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, text)| text.clone())
    }
}

#[derive(Default)]
pub struct Counts {
    /// By the first digit of the status, from 1 to 5.
    answers: [AtomicU64; 5],
    micros: AtomicU64,
}

impl Counts {
    pub fn answered(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        if let Some(count) = self.answers.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

pub async fn show(State(house): State<Shared>, scraper: Scraper) -> Answer<Response> {
    let plans = match scraper.is_looked_up {
        true => {
            let asked = house.clone();
            house.plan_numbers.ask(async move { ask(&asked, |house| Ok(plans(house)?)).await.ok() }).await
        }
        false => None,
    };
    let beside = match &house.beside {
        Some(beside) => {
            let beside = beside.clone();
            let read = async move { tokio::task::spawn_blocking(move || families(&beside())).await.ok() };
            house.other_numbers.ask(read).await
        }
        None => None,
    };
    let mut page = Page(String::new());
    page.single("log_up", "gauge", "Whether the log could be read.", u8::from(plans.is_some()));
    page.0.extend([plans, beside].into_iter().flatten());
    own(&house, &mut page);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response())
}

pub async fn healthy() -> &'static str {
    "ok\n"
}

/// Answers the readiness probe: the log can be read.
pub async fn ready(State(house): State<Shared>) -> Answer<&'static str> {
    ask(&house, |house| match house.overview.cursor() {
        Ok(_) => Ok("ok\n"),
        // The details are only for principals that may read.
        Err(_) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "the log cannot be read")),
    })
    .await
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP provost_{name} {help}\n# TYPE provost_{name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "provost_{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.value(name, "", value);
    }
}

fn families(families: &[Family]) -> String {
    let mut page = Page(String::new());
    for Family { name, kind, help, samples } in families {
        page.family(name, kind, help);
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            page.value(name, &labels, value);
        }
    }
    page.0
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn plans(house: &AppState) -> Result<String, provost_engine::Error> {
    let mut page = Page(String::new());
    let plans = house.overview.plans()?;
    page.family("plans", "gauge", "Plans by stage.");
    for stage in Stage::ALL {
        let count = plans.iter().filter(|seen| seen.run.stage == stage).count();
        page.value("plans", &format!("{{stage=\"{}\"}}", stage.word()), count);
    }
    let mut steps: BTreeMap<&str, u64> = BTreeMap::new();
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut attempts, mut tokens, mut usd, mut agent_ms) = (0, 0, 0, 0);
    for seen in &plans {
        for (step, state) in seen.run.steps() {
            *steps.entry(seen.run.state_word(step.number)).or_default() += 1;
            attempts += u64::from(state.attempts);
        }
        for waiting in inbox::waiting(&seen.run) {
            *waits.entry(waiting.kind.word()).or_default() += 1;
        }
        tokens += seen.run.ledger.known(Resource::Tokens);
        usd += seen.run.ledger.known(Resource::Usd);
        agent_ms += seen.run.ledger.known(Resource::WallClock);
    }
    page.family("steps", "gauge", "Steps by state.");
    for (state, count) in steps {
        page.value("steps", &format!("{{state=\"{state}\"}}"), count);
    }
    page.family("waiting", "gauge", "What waits for a person, by kind.");
    for (kind, count) in waits {
        page.value("waiting", &format!("{{kind=\"{kind}\"}}"), count);
    }
    let troubled = plans.iter().filter(|seen| seen.trouble.is_some() || seen.run.forged_from.is_some());
    page.single("logs_not_believed", "gauge", "Plans whose log does not verify.", troubled.count());
    page.single("attempts", "gauge", "Attempts dispatched, of all plans as they stand.", attempts);
    page.single("used_tokens", "gauge", "Model tokens used, as far as anybody counted.", tokens);
    page.single("used_usd", "gauge", "US dollars spent, as far as anybody counted.", usd as f64 / 1e6);
    page.single("used_agent_seconds", "gauge", "Time agents worked.", agent_ms as f64 / 1e3);
    page.single("events_total", "counter", "Events in the log.", house.overview.cursor()?.0);
    Ok(page.0)
}

/// Adds the metrics of the server itself.
fn own(house: &AppState, page: &mut Page) {
    page.single("subscribers", "gauge", "Streams of events that are open.", house.live.subscribers());
    page.family(
        "traces_total",
        "counter",
        "Runs whose traces were sent to the collector, or were not taken.",
    );
    for (outcome, count) in [("sent", &house.traces.sent), ("failed", &house.traces.failed)] {
        let label = format!("{{outcome=\"{outcome}\"}}");
        page.value("traces_total", &label, count.load(Ordering::Relaxed));
    }
    page.family("http_responses_total", "counter", "Answers by class of status.");
    for (class, count) in (1..).zip(&house.counts.answers) {
        let label = format!("{{class=\"{class}xx\"}}");
        page.value("http_responses_total", &label, count.load(Ordering::Relaxed));
    }
    let seconds = house.counts.micros.load(Ordering::Relaxed) as f64 / 1e6;
    page.single("http_seconds_total", "counter", "Time until answers began.", seconds);
    page.family("build_info", "gauge", "Which version it is.");
    page.value("build_info", concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1);
}
