//! Answers with metrics of the server and the plans as Prometheus text, and with health and readiness.
//!
//! **Invariant:** no name of a plan, a person or a token is in the metrics.
//! **Invariant:** the response takes bounded time. A part that is not available in time is left out, and a
//! metric says so.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use provost_core::model::usage::Resource;
use provost_core::rules::inbox;
use provost_core::state::run::Stage;

use crate::principal::Scraper;
use crate::problem::{Answer, Problem};
use crate::state::{AppState, Family, SharedState, ask};

/// Time limit of the readiness probe. Orchestrators often give up after two seconds.
const READY: Duration = Duration::from_millis(1500);

pub(crate) fn routes() -> Router<SharedState> {
    Router::new().route("/metrics", get(show)).route("/healthz", get(healthy)).route("/readyz", get(ready))
}

async fn show(State(app): State<SharedState>, scraper: Scraper) -> Answer<Response> {
    let plans = match scraper.is_looked_up {
        true => {
            let asked = app.clone();
            app.plan_numbers.ask(async move { ask(&asked, |app| Ok(plans(app)?)).await.ok() }).await
        }
        false => None,
    };
    let beside = match &app.beside {
        Some(beside) => {
            let beside = beside.clone();
            let read = async move { tokio::task::spawn_blocking(move || families(&beside())).await.ok() };
            app.other_numbers.ask(read).await
        }
        None => None,
    };
    let mut page = Page(String::new());
    page.single("log_up", "gauge", "1 if the log could be read, else 0.", u8::from(plans.is_some()));
    page.0.extend([plans, beside].into_iter().flatten());
    own(&app, &mut page);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response())
}

async fn healthy() -> &'static str {
    "ok\n"
}

/// Answers the readiness probe: the log can be read. A log that does not answer in time is not readable; the
/// question to it continues in the background, and later probes wait for it, so that they occupy no threads.
async fn ready(State(app): State<SharedState>) -> Answer<&'static str> {
    let asked = app.clone();
    let read =
        async move { ask(&asked, |app| Ok(app.overview.cursor()?)).await.ok().map(|_| "ok".to_owned()) };
    match tokio::time::timeout(READY, app.readiness.ask(read)).await {
        Ok(Some(_)) => Ok("ok\n"),
        // The details are only for principals that may read.
        Ok(None) | Err(_) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "the log cannot be read"))
        }
    }
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

fn plans(app: &AppState) -> Result<String, provost_engine::Error> {
    let mut page = Page(String::new());
    let plans = app.overview.plans()?;
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
    page.family("waiting", "gauge", "Items that wait for a person, by kind.");
    for (kind, count) in waits {
        page.value("waiting", &format!("{{kind=\"{kind}\"}}"), count);
    }
    let troubled = plans.iter().filter(|seen| seen.trouble.is_some() || seen.run.forged_from.is_some());
    page.single("logs_not_believed", "gauge", "Plans whose log does not verify.", troubled.count());
    page.single("attempts", "gauge", "Attempts dispatched, of all plans as they stand.", attempts);
    page.single("used_tokens", "gauge", "Model tokens used, as far as agents report them.", tokens);
    page.single("used_usd", "gauge", "US dollars spent, as far as agents report them.", usd as f64 / 1e6);
    page.single("used_agent_seconds", "gauge", "Time agents worked.", agent_ms as f64 / 1e3);
    page.single("events_total", "counter", "Events in the log.", app.overview.cursor()?.0);
    Ok(page.0)
}

/// Adds the metrics of the server itself.
fn own(app: &AppState, page: &mut Page) {
    page.single("subscribers", "gauge", "Streams of events that are open.", app.live.subscribers());
    page.family("traces_total", "counter", "Traces of runs, by whether the collector accepted them.");
    for (outcome, count) in [("sent", &app.traces.sent), ("failed", &app.traces.failed)] {
        let label = format!("{{outcome=\"{outcome}\"}}");
        page.value("traces_total", &label, count.load(Ordering::Relaxed));
    }
    page.family("http_responses_total", "counter", "Answers by class of status.");
    for (class, count) in (1..).zip(&app.counts.by_class) {
        let label = format!("{{class=\"{class}xx\"}}");
        page.value("http_responses_total", &label, count.load(Ordering::Relaxed));
    }
    let seconds = app.counts.micros.load(Ordering::Relaxed) as f64 / 1e6;
    page.single("http_seconds_total", "counter", "Time until answers began.", seconds);
    page.family("build_info", "gauge", "Version of the program.");
    page.value("build_info", concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1);
}
