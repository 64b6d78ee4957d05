//! What this machine offers, for people: the same survey and self-test a run begins with.

use provost_core::verdict::Isolation;
use provost_host::config::Demand;
use provost_host::git;
use provost_host::ground::{self, Estate};
use provost_host::sandbox::{Line, Probe, State};

use crate::Error;
use crate::harness::Settings;

pub struct Findings {
    /// The strongest level that was attested.
    pub level: Isolation,
    pub offers: Vec<Offered>,
    pub probes: Vec<Probe>,
}

/// One thing the machine has or lacks.
pub struct Offered {
    pub name: &'static str,
    pub here: bool,
    /// What was found, or why not.
    pub words: String,
    /// How to get it.
    pub hint: Option<String>,
}

impl From<Line> for Offered {
    fn from(line: Line) -> Self {
        let (here, words) = match line.state {
            State::Here(words) => (true, words),
            State::Missing(words) => (false, words),
        };
        Self { name: line.name, here, words, hint: line.hint }
    }
}

pub fn examine(settings: &Settings) -> Result<Findings, Error> {
    let workspace = git::top(&settings.cwd).unwrap_or_else(|| settings.cwd.clone());
    let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
    std::fs::create_dir_all(&state).map_err(|source| Error::Io {
        what: "make",
        path: state.clone(),
        source,
    })?;
    let estate = Estate { workspace: &workspace, state: &state, read_only: &[], secret: None };
    let (offer, seen) = ground::attest(Demand::Auto, &estate)?;
    Ok(Findings {
        level: seen.level,
        offers: offer.iter().flat_map(|offer| offer.lines()).map(Offered::from).collect(),
        probes: seen.probes,
    })
}
