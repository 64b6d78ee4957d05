//! Runs as traces: sent to the collector that the environment names, as each of them ends.
//!
//! A trace is made of the log alone and is the same whenever it is sent; one that could not be sent is counted,
//! and `provost log --otel=send` sends it again.

use std::sync::atomic::{AtomicU64, Ordering};

use provost_core::model::chain::PlanId;
use provost_engine::harness::{Access, Settings};
use provost_engine::history::{History, Wanted};
use provost_engine::{Collector, CollectorError, Error};

use crate::http::Shared;

#[derive(Default)]
pub struct Traces {
    collector: Option<Collector>,
    pub sent: AtomicU64,
    pub failed: AtomicU64,
}

impl Traces {
    /// By the usual variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and its kin); none of them, no traces.
    pub fn by_environment(settings: &Settings) -> Result<Self, Error> {
        match Collector::from_environment(&settings.environment) {
            Ok(collector) => Ok(Self { collector: Some(collector), ..Self::default() }),
            Err(CollectorError::NoAddress) => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A plan has come to its end. A collector that is slow keeps nobody waiting.
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
    let history = History::open(house.overview.settings(), &Wanted::Plans(vec![plan.0]), Access::Read)?;
    history.trace(&mut |request| {
        collector.post(&request.line())?;
        Ok(())
    })
}
