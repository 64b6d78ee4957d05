//! Verifies open plans in a thread of its own, and publishes their diagnostics.
//!
//! The texts are verified as `provost verify` does it, once the person has paused typing. Only the newest
//! text of a document counts: a result for an older one is dropped.
//!
//! **Invariant:** a slow survey of the machine delays diagnostics only, never an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use provost_core::language::diagnostic::{Diagnostic, Severity};
use provost_core::language::parse;
use provost_engine::plan::recording;
use serde_json::{Value, json};

use super::documents::Document;
use super::surroundings::Surroundings;
use super::wire::{Kind, Outbox};

/// A pause in typing after which a text is verified.
const PAUSE: Duration = Duration::from_millis(80);
/// Maximum time that typing delays diagnostics.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) type Found = Arc<Vec<Diagnostic>>;

/// Verifies documents in its thread.
#[derive(Clone)]
pub(super) struct Verifier {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Documents to verify.
    waiting: BTreeMap<String, Arc<Document>>,
    /// The newest text of every open document.
    open: BTreeMap<String, Arc<Document>>,
    /// The last results, with the text that they are about.
    found: BTreeMap<String, (Arc<Document>, Found)>,
    /// When the oldest waiting document came, and the newest.
    since: Option<(Instant, Instant)>,
}

impl Verifier {
    /// Starts the thread. It ends with the process.
    pub(super) fn start(surroundings: Surroundings, outbox: Outbox, shows_related: bool) -> Self {
        let shared = Arc::<Shared>::default();
        let own = shared.clone();
        std::thread::spawn(move || {
            let mut told = BTreeSet::new();
            loop {
                let document = own.next();
                let work = std::panic::AssertUnwindSafe(|| diagnose(&surroundings, &document));
                // A panic has been printed; it costs one result.
                let Ok((found, trouble)) = std::panic::catch_unwind(work) else { continue };
                if let Some(trouble) = trouble.filter(|trouble| told.insert(trouble.clone())) {
                    outbox.show(Kind::Warning, &format!("the plan is only parsed: {trouble}"));
                }
                if own.keep(&document, &found) {
                    outbox.notify(
                        "textDocument/publishDiagnostics",
                        json!({
                            "uri": document.uri,
                            "version": document.version,
                            "diagnostics": all_shown(&document, &found, shows_related),
                        }),
                    );
                }
            }
        });
        Self { shared }
    }

    /// Verifies the document soon.
    pub(super) fn verify(&self, document: &Arc<Document>) {
        let mut state = self.shared.lock();
        state.open.insert(document.uri.clone(), document.clone());
        state.waiting.insert(document.uri.clone(), document.clone());
        let now = Instant::now();
        state.since = Some((state.since.map_or(now, |(first, _)| first), now));
        self.shared.work.notify_one();
    }

    pub(super) fn forget(&self, uri: &str) {
        let mut state = self.shared.lock();
        state.open.remove(uri);
        state.waiting.remove(uri);
        state.found.remove(uri);
    }

    /// Returns the diagnostics of exactly this text, if it was verified already.
    pub(super) fn found(&self, document: &Arc<Document>) -> Option<Found> {
        let state = self.shared.lock();
        let (about, found) = state.found.get(&document.uri)?;
        Arc::ptr_eq(about, document).then(|| found.clone())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a document, and for a pause in typing.
    fn next(&self) -> Arc<Document> {
        let mut state = self.lock();
        loop {
            let Some((first, last)) = state.since.filter(|_| !state.waiting.is_empty()) else {
                state.since = None;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let due = (last + PAUSE).min(first + PATIENCE);
            match due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                Some(left) => {
                    let waited = self.work.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    if let Some((_, document)) = state.waiting.pop_first() {
                        if state.waiting.is_empty() {
                            state.since = None;
                        }
                        return document;
                    }
                }
            }
        }
    }

    /// Keeps a result; false if the document has changed or was closed meanwhile.
    fn keep(&self, document: &Arc<Document>, found: &Found) -> bool {
        let mut state = self.lock();
        let is_newest = state.open.get(&document.uri).is_some_and(|newest| Arc::ptr_eq(newest, document));
        if is_newest {
            state.found.insert(document.uri.clone(), (document.clone(), found.clone()));
        }
        is_newest
    }
}

/// Returns what `provost verify` would say about the text, and why only the parser has read it.
fn diagnose(surroundings: &Surroundings, document: &Document) -> (Found, Option<String>) {
    if !document.is_plan() {
        return (Found::default(), None);
    }
    let parsed = || Arc::new(parse::plan(&document.text).diagnostics);
    let Some(opened) = surroundings.open(document) else { return (parsed(), None) };
    let text = document.text.clone().into_bytes();
    match opened.and_then(|harness| Ok(recording::check_text(&harness, text)?)) {
        Ok(reading) => (Arc::new(reading.diagnostics), None),
        Err(error) => (parsed(), Some(error.to_string())),
    }
}

fn all_shown(document: &Document, found: &[Diagnostic], shows_related: bool) -> Vec<Value> {
    found.iter().map(|diagnostic| shown(document, diagnostic, shows_related)).collect()
}

/// Returns a diagnostic for the client: its message with the hint, and the beginning of its page.
pub(super) fn shown(document: &Document, diagnostic: &Diagnostic, shows_related: bool) -> Value {
    let code = diagnostic.code;
    let message = match &diagnostic.hint {
        Some(hint) => format!("{}\n{hint}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let range = document.range(diagnostic.span);
    let severity = match diagnostic.severity {
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Advice => 3,
    };
    let mut value = json!({
        "range": range,
        "severity": severity,
        "code": code.id(),
        "source": "provost",
        "message": message,
    });
    if shows_related {
        let meaning = code.page().split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
        let message = format!("{meaning} `provost verify --explain {code}` explains it.");
        let location = json!({ "uri": document.uri, "range": range });
        value["relatedInformation"] = json!([{ "location": location, "message": message }]);
    }
    value
}
