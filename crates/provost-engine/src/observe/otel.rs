//! Exports a run as an OpenTelemetry trace, by the conventions for generative AI.
//!
//! The run is the root (`invoke_workflow`). Below it are its steps; below each step are the attempts
//! (`invoke_agent`), the checks (`execute_tool`) and the time spent waiting. All other events are attached to
//! the span they fall into. `docs/log.md` lists names and attributes.
//!
//! This is in the engine because it is a projection of the log, like the marks in the plan file;
//! `provost_host::notify::collector` does the network part. The message types are provost's own: the crate that has
//! them would add about twenty dependencies.
//!
//! **Invariant:** ids are derived only from the log's hashes, so a run that is exported twice is the same
//! trace.
//! **Invariant:** words of the agent and output of checks are not exported.

mod notes;
mod parts;
mod spans;
mod wire;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Event;

use crate::Error;
use spans::Tracer;
pub use wire::TraceRequest;
use wire::{InstrumentationScope, OtelResource, OtelSpan, ResourceSpans, ScopeSpans};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum number of spans in one request; a long run takes several.
const SPANS_MAX: usize = 512;

/// Export of one run: the open spans and those not sent yet.
pub struct Export {
    tracer: Tracer,
    closed: Vec<OtelSpan>,
    sent: u64,
}

impl Export {
    pub fn new(plan: &PlanId) -> Self {
        Self { tracer: Tracer::new(plan), closed: Vec::new(), sent: 0 }
    }

    pub fn hear(
        &mut self,
        sealed: &SealedEvent,
        event: &Event,
        send: &mut dyn FnMut(&TraceRequest<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.tracer.hear(sealed, event, &mut self.closed);
        if self.closed.len() >= SPANS_MAX { self.flush(send) } else { Ok(()) }
    }

    /// Closes the open spans at the time of the last event. Returns the number of spans.
    pub fn end(mut self, send: &mut dyn FnMut(&TraceRequest<'_>) -> Result<(), Error>) -> Result<u64, Error> {
        self.tracer.end(&mut self.closed);
        self.flush(send)?;
        Ok(self.sent)
    }

    fn flush(&mut self, send: &mut dyn FnMut(&TraceRequest<'_>) -> Result<(), Error>) -> Result<(), Error> {
        for spans in self.closed.chunks(SPANS_MAX) {
            send(&request(spans))?;
        }
        self.sent += self.closed.len() as u64;
        self.closed.clear();
        Ok(())
    }
}

fn request(spans: &[OtelSpan]) -> TraceRequest<'_> {
    let attributes = notes::attributes([
        ("service.name", "provost".into()),
        ("service.version", VERSION.into()),
        ("telemetry.sdk.name", "provost".into()),
        ("telemetry.sdk.language", "rust".into()),
        ("telemetry.sdk.version", VERSION.into()),
    ]);
    let scope_spans =
        [ScopeSpans { scope: InstrumentationScope { name: "provost", version: VERSION }, spans }];
    TraceRequest { resource_spans: [ResourceSpans { resource: OtelResource { attributes }, scope_spans }] }
}

impl TraceRequest<'_> {
    /// Returns one line of JSON, as a collector accepts it by HTTP and writes it to files.
    pub fn line(&self) -> String {
        match serde_json::to_string(self) {
            Ok(line) => line,
            Err(error) => unreachable!("spans hold text and numbers: {error}"),
        }
    }
}

#[cfg(test)]
mod tests;
