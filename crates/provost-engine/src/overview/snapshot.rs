//! What a check saw of an agent's work: the files that were taken over, before and after, for as long as both
//! trees are kept.
//!
//! **Invariant:** secrets are taken out, as everywhere; what is no text, or is long, is told by its size.

use std::fs;

use provost_core::verdict::Tree;
use provost_host::ground;
use provost_host::tree::Base;

use crate::Error;
use crate::harness::Harness;

/// Nobody reads more of one file on a page.
const TEXT_MAX: u64 = 256 * 1024;
/// How the list of files says that one was taken away.
const DELETED: &str = " (deleted)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Nothing,
    Text(String),
    Other { bytes: u64 },
}

#[derive(Clone, Debug)]
pub struct Changed {
    pub path: String,
    pub before: Content,
    pub after: Content,
}

/// Nothing, where one of the trees is not kept any more, or never was: only what held is kept.
pub fn of(harness: &Harness, tree: &Tree) -> Result<Option<Vec<Changed>>, Error> {
    let trees = ground::kept_trees(&harness.place().workspace, harness.state())?;
    let Some(trees) = trees else { return Ok(None) };
    let kept = |id: &str| trees.kept(id, &harness.config().verify.caches).map_err(ground::Error::from);
    let (Some(before), Some(after)) = (kept(&tree.base)?, kept(&tree.id)?) else { return Ok(None) };
    let changed = |name: &String| {
        let path = match name.strip_suffix(DELETED) {
            Some(path) if !after.has(name) => path,
            _ => name,
        };
        Changed {
            path: path.to_owned(),
            before: content(harness, &before, path),
            after: content(harness, &after, path),
        }
    };
    Ok(Some(tree.files.iter().map(changed).collect()))
}

fn content(harness: &Harness, base: &Base, path: &str) -> Content {
    if !base.has(path) {
        return Content::Nothing;
    }
    let file = base.file(path);
    let Ok(found) = fs::symlink_metadata(&file) else { return Content::Nothing };
    let other = Content::Other { bytes: found.len() };
    if !found.is_file() || found.len() > TEXT_MAX {
        return other;
    }
    match fs::read(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) if !text.contains('\0') => Content::Text(harness.redactor().text(&text).into_owned()),
        _ => other,
    }
}
