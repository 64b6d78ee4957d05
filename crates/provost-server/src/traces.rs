//! Sends each run as a trace to the collector of the environment when the run ends.
//!
//! A trace is made from the log alone and is the same whenever it is sent. A failed one is counted, and
//! `provost log --otel=send` sends it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use provost_core::model::chain::PlanId;
use provost_engine::observe::history::{History, PlanSelection};
use provost_engine::settings::{Access, EngineSettings};
use provost_engine::{Collector, CollectorError, Error};

pub(crate) struct Traces {
    settings: EngineSettings,
    collector: Option<Collector>,
    pub sent: AtomicU64,
    pub failed: AtomicU64,
}

impl Traces {
    /// Reads the usual variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and related ones); without them no traces are
    /// sent.
    pub(crate) fn from_environment(settings: &EngineSettings) -> Result<Self, Error> {
        let collector = match Collector::from_environment(&settings.environment) {
            Ok(collector) => Some(collector),
            Err(CollectorError::NoAddress) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { settings: settings.clone(), collector, sent: AtomicU64::new(0), failed: AtomicU64::new(0) })
    }

    /// Sends the trace of a plan that has ended, on its own thread, so that a slow collector delays nothing.
    pub(crate) fn send_ended(self: &Arc<Self>, plan: PlanId) {
        if self.collector.is_none() {
            return;
        }
        let traces = self.clone();
        let _ = std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
            let count = match traces.send(plan) {
                Ok(_) => &traces.sent,
                Err(_) => &traces.failed,
            };
            count.fetch_add(1, Ordering::Relaxed);
        });
    }

    fn send(&self, plan: PlanId) -> Result<u64, Error> {
        let Some(collector) = &self.collector else { return Ok(0) };
        let history = History::open(&self.settings, &PlanSelection::Plans(vec![plan.0]), Access::Read)?;
        history.trace(&mut |request| {
            collector.post(&request.line())?;
            Ok(())
        })
    }
}
