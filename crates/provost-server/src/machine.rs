//! Defines what is shown of the machine, and caches the result of its self-test.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_engine::manage::doctor;
use provost_engine::settings::EngineSettings;
use serde::Serialize;
use utoipa::ToSchema;

/// Time for which the result of the self-test is reused.
const KEPT_FOR: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Machine {
    /// The strongest level that was attested.
    #[schema(example = "clean")]
    pub level: String,
    pub offers: Vec<Offer>,
    pub probes: Vec<ProbeView>,
    pub version: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Offer {
    pub name: String,
    pub here: bool,
    pub words: String,
    pub hint: Option<String>,
}

/// One attempt to get through a fence from inside.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Probe)]
pub(crate) struct ProbeView {
    pub name: String,
    pub held: bool,
    pub detail: String,
}

#[derive(Default)]
pub(crate) struct MachineCache(Mutex<Option<(Instant, Machine)>>);

impl MachineCache {
    /// Returns the machine; runs the self-test if the cached result is old.
    pub(crate) fn look(&self, settings: &EngineSettings) -> Result<Machine, provost_engine::Error> {
        // One self-test at a time; requests that come meanwhile wait for its result.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, machine)) = kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT_FOR) {
            return Ok(machine.clone());
        }
        let found = doctor::examine(settings)?;
        let offers = found.offers.iter().map(|line| Offer {
            name: line.name.to_owned(),
            here: line.here,
            words: line.words.clone(),
            hint: line.hint.clone(),
        });
        let probes = found.levels.iter().flat_map(|seen| &seen.probes).map(|probe| ProbeView {
            name: probe.name.clone(),
            held: probe.held,
            detail: probe.detail.clone(),
        });
        let machine = Machine {
            level: found.level.to_string(),
            offers: offers.collect(),
            probes: probes.collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        *kept = Some((Instant::now(), machine.clone()));
        Ok(machine)
    }
}
