//! A run as an OpenTelemetry trace, by the conventions for generative AI.
//!
//! The run is the root (`invoke_workflow`). Below it are its steps; below each the attempts
//! (`invoke_agent`), the checks (`execute_tool`) and the time spent waiting. Everything else that
//! happened is an event of the span it fell into. `docs/log.md` lists names and attributes.
//!
//! It lives in the engine because it is a projection of the log, like the marks in the plan file; what
//! goes over the network is done by `provost_host::collector`. The messages are our own: the crate that
//! has them would bring twenty others for what is one short room here.
//!
//! **Invariant:** ids are made of the log's hashes alone: a run exported twice is the same trace.
//! **Invariant:** what the agent said and what checks printed stays in the log.

mod notes;
mod parts;
mod spans;
mod wire;

use provost_core::model::chain::{PlanId, Sealed};
use provost_core::model::event::Event;

use crate::Error;
use spans::Tracer;
pub use wire::Request;
use wire::{Resource, ResourceSpans, Scope, ScopeSpans, Span};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// As many spans go into one request; a long run is several.
const SPANS_MAX: usize = 512;

/// One run on its way out. Holds what is open, and what was not sent yet.
pub struct Export {
    tracer: Tracer,
    closed: Vec<Span>,
    sent: u64,
}

impl Export {
    pub fn new(plan: &PlanId) -> Self {
        Self { tracer: Tracer::new(plan), closed: Vec::new(), sent: 0 }
    }

    pub fn hear(
        &mut self,
        sealed: &Sealed,
        event: &Event,
        send: &mut dyn FnMut(&Request<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.tracer.hear(sealed, event, &mut self.closed);
        if self.closed.len() >= SPANS_MAX { self.flush(send) } else { Ok(()) }
    }

    /// Closes what is open as of the last event. Says how many spans there were.
    pub fn end(mut self, send: &mut dyn FnMut(&Request<'_>) -> Result<(), Error>) -> Result<u64, Error> {
        self.tracer.end(&mut self.closed);
        self.flush(send)?;
        Ok(self.sent)
    }

    fn flush(&mut self, send: &mut dyn FnMut(&Request<'_>) -> Result<(), Error>) -> Result<(), Error> {
        for spans in self.closed.chunks(SPANS_MAX) {
            send(&request(spans))?;
        }
        self.sent += self.closed.len() as u64;
        self.closed.clear();
        Ok(())
    }
}

fn request(spans: &[Span]) -> Request<'_> {
    let attributes = notes::attributes([
        ("service.name", "provost".into()),
        ("service.version", VERSION.into()),
        ("telemetry.sdk.name", "provost".into()),
        ("telemetry.sdk.language", "rust".into()),
        ("telemetry.sdk.version", VERSION.into()),
    ]);
    let scope_spans = [ScopeSpans { scope: Scope { name: "provost", version: VERSION }, spans }];
    Request { resource_spans: [ResourceSpans { resource: Resource { attributes }, scope_spans }] }
}

impl Request<'_> {
    /// One line of JSON: what a collector takes by HTTP, and what it writes to files.
    pub fn line(&self) -> String {
        match serde_json::to_string(self) {
            Ok(line) => line,
            Err(error) => unreachable!("spans hold text and numbers: {error}"),
        }
    }
}

#[cfg(test)]
mod tests;
