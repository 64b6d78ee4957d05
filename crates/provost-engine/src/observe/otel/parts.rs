//! Builds single spans: their name, their attributes, and their end.

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::{AttemptEnd, CheckSubject, Event, RunOutcome};
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Usage;
use provost_core::model::verdict::{CheckOutcome, Verdict};

use super::notes::{self, attributes, maybe};
use super::wire::{Attribute, INTERNAL, Id, Nanoseconds, OtelSpan, SpanEvent, SpanStatus, Value};

/// Maximum number of events per span, as collectors expect; the rest is only counted.
const EVENTS_MAX: usize = 128;

pub(super) fn run_begun(plan: &PlanId, sealed: &SealedEvent) -> OtelSpan {
    let at = instant(sealed.at);
    // The plan's name without the digest that makes it unique.
    let name = plan.0.rsplit_once('-').map_or(plan.0.as_str(), |(name, _)| name);
    OtelSpan {
        trace_id: Id(first(&sealed.hash)),
        span_id: span_id("run", &sealed.hash),
        parent_span_id: None,
        name: format!("invoke_workflow {name}"),
        kind: INTERNAL,
        start_time_unix_nano: at,
        end_time_unix_nano: at,
        attributes: attributes([
            ("gen_ai.operation.name", "invoke_workflow".into()),
            ("gen_ai.workflow.name", name.into()),
            ("provost.plan.id", plan.0.as_str().into()),
            ("provost.seq", sealed.seq.into()),
        ]),
        events: Vec::new(),
        dropped_events_count: 0,
        status: SpanStatus::default(),
    }
}

pub(super) fn attempt_begun(step: &OtelSpan, sealed: &SealedEvent, attempt: u32, role: &str) -> OtelSpan {
    let name = format!("invoke_agent {role}");
    let mut span = child(step, "attempt", sealed, &name, instant(sealed.at));
    span.attributes.extend(attributes([
        ("gen_ai.operation.name", "invoke_agent".into()),
        ("gen_ai.agent.name", role.into()),
        ("provost.attempt", attempt.into()),
    ]));
    span
}

pub(super) fn attempt_ended(
    mut span: OtelSpan,
    at: Nanoseconds,
    end: &AttemptEnd,
    usage: &Usage,
) -> OtelSpan {
    let (kind, message) = match end {
        AttemptEnd::Exited { exit_code } => ("exited", format!("exit code {exit_code}")),
        AttemptEnd::Signalled { signal } => ("signalled", format!("signal {signal}")),
        AttemptEnd::TimedOut => ("timed_out", "it ran out of time".to_owned()),
        AttemptEnd::NotStarted { reason } => ("not_started", reason.clone()),
        AttemptEnd::OverBounds { reason } => ("over_bounds", reason.clone()),
        AttemptEnd::PlanFailed { reason, .. } => ("plan_failed", reason.clone()),
        AttemptEnd::PlanWaits { reason, .. } => ("plan_waits", reason.clone()),
        AttemptEnd::PlanStopped { plan } => ("plan_stopped", format!("the budget for {plan} was used up")),
    };
    span.attributes.extend(maybe("provost.attempt.end", Some(kind)));
    if let AttemptEnd::Exited { exit_code } = end {
        span.attributes.extend(maybe("process.exit.code", Some(*exit_code)));
    }
    span.attributes.extend(used(usage));
    if *end != (AttemptEnd::Exited { exit_code: 0 }) {
        span.attributes.extend(maybe("error.type", Some(kind)));
        span.status = SpanStatus::bad(message);
    }
    ended(span, at)
}

/// Returns the usage attributes; the log knows only the model that answered.
fn used(usage: &Usage) -> impl Iterator<Item = Attribute> {
    let dollars = usage.micro_usd.map(|micro| micro as f64 / 1_000_000.0);
    [
        maybe("gen_ai.request.model", usage.model.as_deref()),
        maybe("gen_ai.usage.input_tokens", usage.input_tokens),
        maybe("gen_ai.usage.output_tokens", usage.output_tokens),
        maybe("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        maybe("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
        maybe("provost.usage.calls", usage.calls),
        maybe("provost.usage.cost_usd", dollars),
    ]
    .into_iter()
    .flatten()
}

pub(super) fn lost(mut span: OtelSpan, at: Nanoseconds) -> OtelSpan {
    span.attributes.extend(maybe("error.type", Some("lost")));
    span.status = SpanStatus::bad("provost stopped while it ran");
    unseen(span, at)
}

/// Ends an attempt whose end was not recorded; its usage is unknown.
pub(super) fn unseen(mut span: OtelSpan, at: Nanoseconds) -> OtelSpan {
    span.attributes.extend(maybe("provost.attempt.end", Some("lost")));
    ended(span, at)
}

pub(super) fn check(
    parent: &OtelSpan,
    sealed: &SealedEvent,
    begun: Nanoseconds,
    at: Nanoseconds,
    subject: CheckSubject,
    verdict: &Verdict,
) -> OtelSpan {
    let name = match subject {
        CheckSubject::Precondition(_) => "precondition",
        CheckSubject::Control(_) => "control",
        CheckSubject::Contract(_) => "contract",
        CheckSubject::Final(_) => "final",
        CheckSubject::Postcondition(_) => "postcondition",
    };
    let mut span = child(parent, "check", sealed, &format!("execute_tool {name}"), begun);
    span.attributes.extend(attributes([
        ("gen_ai.operation.name", "execute_tool".into()),
        ("gen_ai.tool.name", name.into()),
        ("gen_ai.tool.type", "function".into()),
        ("provost.verdict", verdict.outcome.word().into()),
        ("provost.isolation", verdict.isolation.to_string().into()),
        ("provost.verdict.cached", verdict.cached.into()),
    ]));
    match subject {
        CheckSubject::Postcondition(number) => {
            span.attributes.extend(maybe("provost.postcondition", Some(number)));
        }
        CheckSubject::Precondition(step)
        | CheckSubject::Control(step)
        | CheckSubject::Contract(step)
        | CheckSubject::Final(step) => span.attributes.extend(maybe("provost.step", Some(step.0))),
    }
    span.attributes.extend(maybe("provost.verdict.tests", verdict.tests));
    if let CheckOutcome::Broke { exit_code } = verdict.outcome {
        span.attributes.extend(maybe("process.exit.code", Some(exit_code)));
    }
    // A negative control is expected to fail.
    if !verdict.held() && !matches!(subject, CheckSubject::Control(_)) {
        span.attributes.extend(maybe("error.type", Some(verdict.outcome.word())));
        span.status = SpanStatus::bad(verdict.outcome.to_string());
    }
    ended(span, at)
}

pub(super) fn complete(root: &mut OtelSpan, event: &Event) {
    let Event::RunEnded { outcome, summary, why, .. } = event else { return };
    // A resumed run ends more than once; the last end counts.
    root.attributes.retain(|known| !known.key.starts_with("provost.run.") && known.key != "error.type");
    root.attributes.extend(attributes([
        ("provost.run.outcome", notes::outcome(*outcome).into()),
        ("provost.run.completed", summary.completed.into()),
        ("provost.run.failed", summary.failed.into()),
        ("provost.run.skipped", summary.skipped.into()),
        ("provost.run.retries", summary.retries.into()),
    ]));
    let why = why.map(notes::why);
    root.attributes.extend(maybe("provost.run.why", why));
    root.status = match outcome {
        RunOutcome::Done => SpanStatus::good(),
        RunOutcome::Failed => {
            root.attributes.extend(maybe("error.type", Some(why.unwrap_or("failed"))));
            SpanStatus::bad("the plan failed")
        }
    };
}

pub(super) fn waiting(parent: &OtelSpan, whom: &'static str, sealed: &SealedEvent) -> OtelSpan {
    let name = if whom == "approval" { "wait for approval" } else { "wait for a person" };
    let mut span = child(parent, "wait", sealed, name, instant(sealed.at));
    span.attributes.extend(maybe("provost.wait.for", Some(whom)));
    span
}

pub(super) fn answered(mut wait: OtelSpan, at: Nanoseconds, event: &Event) -> OtelSpan {
    let answer = match event {
        Event::Approved { .. } => Some("approve"),
        Event::Rejected { .. } => Some("reject"),
        Event::Answered { choice, .. } => Some(notes::answer(*choice)),
        _ => None,
    };
    wait.attributes.extend(maybe("provost.answer", answer));
    ended(wait, at)
}

pub(super) fn child(
    parent: &OtelSpan,
    kind: &str,
    sealed: &SealedEvent,
    name: &str,
    begun: Nanoseconds,
) -> OtelSpan {
    let begun = begun.max(parent.start_time_unix_nano);
    OtelSpan {
        trace_id: parent.trace_id,
        span_id: span_id(kind, &sealed.hash),
        parent_span_id: Some(parent.span_id),
        name: name.trim_end_matches(". ").to_owned(),
        kind: INTERNAL,
        start_time_unix_nano: begun,
        end_time_unix_nano: begun,
        attributes: attributes([("provost.seq", Value::from(sealed.seq))]),
        events: Vec::new(),
        dropped_events_count: 0,
        status: SpanStatus::default(),
    }
}

/// Ends a span, never before its start even if the clock jumped.
pub(super) fn ended(mut span: OtelSpan, at: Nanoseconds) -> OtelSpan {
    span.end_time_unix_nano = at.max(span.start_time_unix_nano);
    span
}

pub(super) fn note(span: &mut OtelSpan, sealed: &SealedEvent, event: &Event) {
    let Some(mut attributes) = notes::of(event) else { return };
    if span.events.len() >= EVENTS_MAX {
        span.dropped_events_count += 1;
        return;
    }
    attributes.extend(maybe("provost.seq", Some(sealed.seq)));
    let (time_unix_nano, name) = (instant(sealed.at), sealed.name.clone());
    span.events.push(SpanEvent { time_unix_nano, name, attributes });
}

pub(super) fn instant(at: Timestamp) -> Nanoseconds {
    Nanoseconds(at.0.saturating_mul(1_000_000))
}

/// Returns a span id. One event may start several spans, so `kind` makes the ids differ.
pub(super) fn span_id(kind: &str, hash: &Hash) -> Id<8> {
    Id(first(&Hash::of(format!("{kind} {hash}").as_bytes())))
}

fn first<const N: usize>(hash: &Hash) -> [u8; N] {
    std::array::from_fn(|at| hash.0[at])
}
