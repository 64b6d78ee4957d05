//! What the work of a step changed, file by file: the tree its contract held on, against the one before.
//!
//! Both are trees the harness kept; what the workspace has become since does not matter.
//!
//! **Invariant:** secrets are taken out, as of everything that is shown.

use std::fs;
use std::path::Path;

use provost_core::command::Refusal;
use provost_core::plan::StepNumber;
use provost_host::ground;
use provost_host::tree::Base;

use crate::Error;
use crate::carry;
use crate::commit;
use crate::harness::Harness;

/// No more of a file is shown than this.
const FILE_BYTES: u64 = 256 * 1024;
/// How a verdict says that a file is gone.
const DELETED: &str = " (deleted)";

/// A file before and after. Nothing, where there is none; or where it is no text, or a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: String,
    pub old: Option<String>,
    pub new: Option<String>,
    /// Why it is not shown.
    pub unshown: Option<&'static str>,
}

/// Of a step that has passed, where that was on a tree of the harness's own.
pub fn of_step(harness: &Harness, number: StepNumber) -> Result<Vec<Changed>, Error> {
    let run = harness.run()?;
    let step = run.step(number).ok_or(Refusal::NoSuchStep { step: number })?;
    let tree = step.verdict.as_ref().and_then(|verdict| verdict.tree.as_deref());
    let Some(tree) = tree else { return Err(Refusal::NoTree.into()) };
    let trees = ground::trees_of(&harness.place().workspace, harness.state())?;
    // What the first step began with is made anew where no machine has sent it.
    if let (true, Some(commit)) = (run.work.is_some(), run.binding.base.as_deref()) {
        commit::trees(harness, &run, commit)?;
    }
    let kept = |id: &str| carry::kept(harness, &run, &trees, id)?.ok_or_else(|| Error::from(Refusal::NoTree));
    let (before, after) = (kept(&tree.base)?, kept(&tree.id)?);
    let paths = tree.files.iter().map(|path| path.strip_suffix(DELETED).unwrap_or(path));
    Ok(paths.map(|path| clean(harness, changed(path, &before, &after))).collect())
}

fn clean(harness: &Harness, changed: Changed) -> Changed {
    let clean = |text: Option<String>| text.map(|text| harness.redactor().text(&text).into_owned());
    Changed { old: clean(changed.old), new: clean(changed.new), ..changed }
}

fn changed(path: &str, before: &Base, after: &Base) -> Changed {
    let (old, new) = (text(before, path), text(after, path));
    let unshown = old.as_ref().err().or(new.as_ref().err()).copied();
    let shown =
        |text: Result<Option<String>, &'static str>| text.ok().flatten().filter(|_| unshown.is_none());
    Changed { path: path.to_owned(), old: shown(old), new: shown(new), unshown }
}

fn text(base: &Base, path: &str) -> Result<Option<String>, &'static str> {
    if !base.has(path) {
        return Ok(None);
    }
    let place = base.file(Path::new(path));
    let found = fs::symlink_metadata(&place).map_err(|_| "it cannot be read")?;
    match () {
        () if !found.is_file() => Err("it is no file"),
        () if found.len() > FILE_BYTES => Err("it is too long to be shown"),
        () => {
            let bytes = fs::read(&place).map_err(|_| "it cannot be read")?;
            String::from_utf8(bytes).map(Some).map_err(|_| "it is no text")
        }
    }
}
