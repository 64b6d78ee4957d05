//! Shows people what this machine offers, by the same survey and self-test that a run starts with.

use std::ffi::OsString;
use std::path::Path;

use provost_core::model::verdict::Isolation;
use provost_host::exec::environment::{self, RunPaths};
pub use provost_host::sandbox::SelfTestProbe;
use provost_host::sandbox::{FeatureLine, State};
use provost_host::{git, notify, process};

use crate::Error;
use crate::exec::confined;
use crate::settings::EngineSettings;

pub struct Findings {
    /// The strongest attested level.
    pub level: Isolation,
    pub offers: Vec<MachineFeature>,
    /// The levels with a sandbox, strongest first.
    pub levels: Vec<LevelProbes>,
}

/// A level, and the results of the attempts to escape its sandbox.
pub struct LevelProbes {
    pub level: Isolation,
    pub probes: Vec<SelfTestProbe>,
}

impl From<(Isolation, Vec<SelfTestProbe>)> for LevelProbes {
    fn from((level, probes): (Isolation, Vec<SelfTestProbe>)) -> Self {
        Self { level, probes }
    }
}

/// One feature that the machine has or lacks.
pub struct MachineFeature {
    pub name: &'static str,
    pub here: bool,
    /// Description of what was found, or of why it is missing.
    pub words: String,
    /// How to get it.
    pub hint: Option<String>,
}

impl From<FeatureLine> for MachineFeature {
    fn from(line: FeatureLine) -> Self {
        let (here, words) = match line.state {
            State::Here(words) => (true, words),
            State::Missing(words) => (false, words),
        };
        Self { name: line.name, here, words, hint: line.hint }
    }
}

/// Returns what `desktop = true` under `[notify]` would use.
fn desktop(environment: &[(OsString, OsString)]) -> MachineFeature {
    let found = notify::desktop(environment);
    let hint = "Install notify-send (Debian: libnotify-bin), or use a command or a webhook: docs/inbox.md";
    MachineFeature {
        name: "desktop notifications",
        here: found.is_some(),
        words: match &found {
            Some(desktop) => Path::new(desktop.program()).display().to_string(),
            None => "neither notify-send nor osascript is on PATH".to_owned(),
        },
        hint: found.is_none().then(|| hint.to_owned()),
    }
}

pub fn examine(settings: &EngineSettings) -> Result<Findings, Error> {
    let workspace = git::top(&settings.cwd).unwrap_or_else(|| settings.cwd.clone());
    let state = settings.state_folder();
    std::fs::create_dir_all(&state).map_err(|source| Error::Io {
        what: "make",
        path: state.clone(),
        source,
    })?;
    // Leftover processes of the probes are reparented to this process.
    let _ = process::become_subreaper();
    let launcher = confined::launcher(&settings.launcher);
    let estate =
        RunPaths { workspace: &workspace, state: &state, read_only: &[], secrets: &[], launcher: &launcher };
    let (offer, seen) = environment::levels(&estate);
    let strongest = seen.iter().find(|(_, probes)| probes.iter().all(|probe| probe.held));
    Ok(Findings {
        level: strongest.map_or(Isolation::GuardClean, |(level, _)| *level),
        offers: offer
            .lines()
            .into_iter()
            .map(MachineFeature::from)
            .chain([desktop(&settings.environment)])
            .collect(),
        levels: seen.into_iter().map(LevelProbes::from).collect(),
    })
}
