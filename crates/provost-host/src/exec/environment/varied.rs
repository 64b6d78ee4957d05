//! Runs a check on a kept tree in which one file is changed, to see whether the check notices it.
//!
//! **Invariant:** nothing of such a run is kept: neither its tree nor its build results.

use std::path::{Path, PathBuf};

use provost_core::model::verdict::Verdict;

use super::check_request::CheckSpec;
use super::{ExecEnv, told};
use crate::Interrupted;
use crate::check::judge::reporter::Control;
use crate::tree::{self, Base, Variation};

/// The change of one file.
#[derive(Clone, Copy, Debug)]
pub struct FileEdit<'a> {
    pub path: &'a Path,
    /// Its text; `None` removes the file.
    pub text: Option<&'a str>,
}

/// Two kept trees, and the paths at which they differ.
pub struct KeptPair {
    pub before: Base,
    pub after: Base,
    pub paths: Vec<PathBuf>,
}

impl ExecEnv {
    /// Opens two kept trees; `None` if the level has no trees of its own.
    pub fn kept_pair(&self, before: &str, after: &str) -> Result<Option<KeptPair>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(None) };
        let (before, after) = (approved.kept(before)?, approved.kept(after)?);
        let paths = approved.trees.differing_paths(&before, &after)?;
        Ok(Some(KeptPair { before, after, paths }))
    }

    /// Runs a check once on its tree with this change, without negative controls.
    pub fn judge_varied(&self, case: &CheckSpec<'_>, edit: &FileEdit<'_>) -> Result<Verdict, Interrupted> {
        self.judge_once(case, Some(edit))
    }

    /// Runs a check once on its tree, with a change if there is one, without negative controls.
    pub fn judge_once(
        &self,
        case: &CheckSpec<'_>,
        edit: Option<&FileEdit<'_>>,
    ) -> Result<Verdict, Interrupted> {
        let not_run = |reason: &str| Ok(Verdict::not_run(self.level, reason));
        let Some(approved) = &self.trees else {
            return not_run("at this level provost has no tree of its own");
        };
        let varied = approved.look(case).and_then(|(base, layer)| {
            let Some(FileEdit { path, text }) = edit else { return Ok((base, layer)) };
            let how = match text {
                Some(text) => Variation::Also { path, content: text.as_bytes() },
                None => Variation::Without(path),
            };
            let layer = approved.trees.varied(&base, &layer, &how)?;
            Ok((base, layer))
        });
        let before = self.results_before(approved, case)?;
        match varied {
            Ok((base, layer)) => {
                Ok(self.on(approved, case, &base, &layer, Control::AsTheyAre, &before)?.verdict)
            }
            Err(error) => not_run(&told(&error)),
        }
    }
}
