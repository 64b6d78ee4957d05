//! Compares rows with the figures that are kept in the repository (`benches/ratios.toml`).
//!
//! **Invariant:** only a row that got worse on a quiet machine fails; a busy machine decides nothing.

use serde::{Deserialize, Serialize};

/// The file of figures. Every figure is better if it is smaller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// The build that was measured: `release` or `debug`.
    pub profile: String,
    #[serde(default)]
    pub row: Vec<Stored>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub what: String,
    pub figure: f64,
    /// The share by which a figure may differ: 0.15 is 15 %.
    pub tolerance: f64,
}

/// A figure of this run.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub what: String,
    pub figure: f64,
    /// The tolerance of a row that is new in the file.
    pub tolerance: f64,
    pub is_quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Ok,
    Worse,
    Better,
    /// Other processes used the machine, so the figure says nothing.
    Busy,
    /// The file has no such row.
    New,
}

impl Change {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Busy => "busy",
            Self::New => "new",
        }
    }
}

/// Returns the build that this program is part of.
pub(crate) fn profile() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

pub(crate) fn compare(measured: &Measured, stored: Option<&Stored>) -> Change {
    let Some(stored) = stored else { return Change::New };
    // Not a number is never better.
    let is_at_most = |limit: f64| measured.figure <= limit;
    if !measured.is_quiet {
        Change::Busy
    } else if !is_at_most(stored.figure * (1.0 + stored.tolerance)) {
        Change::Worse
    } else if measured.figure < stored.figure * (1.0 - stored.tolerance) {
        Change::Better
    } else {
        Change::Ok
    }
}

/// Returns whether the check fails.
pub(crate) fn fails(changes: &[Change]) -> bool {
    changes.contains(&Change::Worse)
}

impl Baseline {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    pub(crate) fn find(&self, what: &str) -> Option<&Stored> {
        self.row.iter().find(|row| row.what == what)
    }

    /// Takes over the figures of a quiet machine. Tolerances that the file has, and rows that were not measured,
    /// stay. Figures of another build are of no use and go.
    pub(crate) fn update(&mut self, all: &[Measured]) {
        if self.profile != profile() {
            *self = Self { profile: profile().to_owned(), row: Vec::new() };
        }
        for measured in all.iter().filter(|measured| measured.is_quiet && measured.figure.is_finite()) {
            let Measured { what, tolerance, .. } = measured.clone();
            let figure = (measured.figure * 1000.0).round() / 1000.0;
            match self.row.iter_mut().find(|row| row.what == what) {
                Some(row) => row.figure = figure,
                None => self.row.push(Stored { what, figure, tolerance }),
            }
        }
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> String {
        let rows = toml::to_string(self).unwrap_or_default();
        format!(
            "# Figures of `cargo bench`, for `cargo bench -- --check`. `cargo bench -- --check --update` writes them;\n\
             # a tolerance that you set by hand stays.\n{rows}"
        )
    }
}
