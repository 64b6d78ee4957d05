//! Sends each run as a trace to the collector of the environment when the run ends.
//!
//! A trace is made from the log alone and is the same whenever it is sent. A failed one is counted, and
//! `provost log --otel=send` sends it again.

use std::sync::atomic::{AtomicU64, Ordering};

use provost_core::model::chain::PlanId;
use provost_engine::observe::history::{History, PlanSelection};
use provost_engine::settings::{Access, EngineSettings};
use provost_engine::{Collector, CollectorError, Error};

use crate::http::Shared;

#[derive(Default)]
pub struct Traces {
    collector: Option<Collector>,
    pub sent: AtomicU64,
    pub failed: AtomicU64,
}

impl Traces {
    /// Reads the usual variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and related ones); without them no traces are
    /// sent.
    pub fn by_environment(settings: &EngineSettings) -> Result<Self, Error> {
        match Collector::from_environment(&settings.environment) {
            Ok(collector) => Ok(Self { collector: Some(collector), ..Self::default() }),
            Err(CollectorError::NoAddress) => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sends the trace of a plan that has ended, on its own thread, so that a slow collector delays nothing.
pub fn ended(house: &Shared, plan: PlanId) {
    if house.traces.collector.is_none() {
        return;
    }
    let house = house.clone();
    let _ = std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
        let count = match send(&house, plan) {
            Ok(_) => &house.traces.sent,
            Err(_) => &house.traces.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    });
}

fn send(house: &Shared, plan: PlanId) -> Result<u64, Error> {
    let Some(collector) = &house.traces.collector else { return Ok(0) };
    let history =
        History::open(house.overview.settings(), &PlanSelection::Plans(vec![plan.0]), Access::Read)?;
    history.trace(&mut |request| {
        collector.post(&request.line())?;
        Ok(())
    })
}
