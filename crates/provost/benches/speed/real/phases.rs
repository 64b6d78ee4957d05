//! Where the time of a run went, by the times of its events.
//!
//! The phases follow each other, so that their sum is the whole time, also if the engine does two things at
//! the same time.

use serde_json::Value;

/// Seconds between two moments of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Phases {
    /// From the start of the program until its isolation level is tested.
    pub prepare: f64,
    /// From then until the agent starts; mostly the check of the base.
    pub base: f64,
    pub agent: f64,
    /// The run of the contract that decides.
    pub check: f64,
    /// The rest of the time between the agent's end and the verdict: taking over the work and the negative
    /// controls.
    pub control: f64,
    /// From the passed step until the plan is done.
    pub last: f64,
    /// From then until the program has ended.
    pub exit: f64,
}

/// What the log of a run says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Account {
    pub phases: Phases,
    /// How long the contract itself ran on the base.
    pub base_run: f64,
    /// Runs of the contract that the log names.
    pub runs: u32,
    /// The `PATH` of the check.
    pub path: Vec<String>,
    pub verified: bool,
}

/// Reads the events of a run that began and ended at these times, in milliseconds since 1970.
pub(crate) fn account(events: &[Value], begun: f64, ended: f64) -> Account {
    let when = |name: &str| events.iter().find(|event| event["event"] == name).and_then(milliseconds);
    let verdict = |subject: &str| {
        let is_of = |event: &&Value| {
            event["event"] == "CONTRACT_JUDGED" && event["details"]["subject"].get(subject).is_some()
        };
        events.iter().rfind(is_of).map_or(&Value::Null, |event| &event["details"]["verdict"])
    };
    let took = |verdict: &Value| verdict["duration_ms"].as_f64().unwrap_or(0.0);
    let is_run = |verdict: &&Value| !verdict.is_null() && verdict["cached"] != true;
    let (base, check, last) = (verdict("control"), verdict("contract"), verdict("final"));
    let has_control = !check["teeth"]["planted"].is_null();
    let attested = when("ISOLATION_ATTESTED").unwrap_or(begun);
    let started = when("TASK_STARTED").unwrap_or(attested);
    let left = when("ATTEMPT_ENDED").unwrap_or(started);
    let passed = when("TASK_COMPLETED").unwrap_or(left);
    let done = when("EXECUTION_COMPLETE").unwrap_or(passed);
    let own = took(check).min(passed - left);
    let seconds = |ms: f64| ms / 1e3;
    let strings = |value: &Value| value.as_str().map(str::to_owned);
    Account {
        phases: Phases {
            prepare: seconds(attested - begun),
            base: seconds(started - attested),
            agent: seconds(left - started),
            check: seconds(own),
            control: seconds(passed - left - own),
            last: seconds(done - passed),
            exit: seconds(ended - done),
        },
        base_run: seconds(took(base)),
        runs: [base, check, last].iter().filter(|verdict| is_run(verdict)).count() as u32
            + u32::from(has_control),
        path: check["environment"]["path"].as_array().into_iter().flatten().filter_map(strings).collect(),
        verified: events
            .iter()
            .any(|event| event["event"] == "TASK_COMPLETED" && event["details"]["pass"] == "verified"),
    }
}

/// Returns the time of an event: `2026-01-31T07:17:43.858Z`.
fn milliseconds(event: &Value) -> Option<f64> {
    let text = event["timestamp"].as_str()?;
    let time = humantime::parse_rfc3339(text).ok()?;
    Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64() * 1e3)
}
