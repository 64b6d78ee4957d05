//! Merges plans with one another, in provost's own repository.
//!
//! A union is a git tree: the branch as it is, with the changes of each plan since its base, merged three
//! ways. git does this in the mirror, with the mirror's configuration: no merge driver, filter, attribute
//! or hook of the user's repository takes part. To judge a union, provost applies it to the base that a
//! plan was approved on, so that its checks find everything that they found before.
//!
//! **Invariant:** nothing in the user's repository is written here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use provost_core::model::hash::Hash;

use super::checkout::{TreeWriter, lossy, stays_inside};
use super::index::{EntryKind, Leaf, TreeDraft};
use super::mirror::{self, Mirror};
use super::retention::Lock;
use super::touches::is_at_or_beneath;
use super::{Base, CommitText, Error, Laid, Layer, TREE, Trees};

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Union {
    /// The tree's id in git.
    Clean(String),
    /// Files that both sides changed in conflicting ways.
    Conflict(Vec<String>),
}

/// A path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeDifference {
    pub path: Vec<u8>,
    /// Mode and object; `None` if the path does not exist.
    pub old: Option<(String, String)>,
    pub new: Option<(String, String)>,
}

impl Trees {
    /// Copies a commit of the workspace's repository into the mirror, and returns the id of its tree.
    pub fn tree_of(&self, commit: &str) -> Result<String, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        mirror.borrow()?;
        one_word(&mirror.git(&["rev-parse", &format!("{commit}^{{tree}}")], b"", &[])?)
    }

    /// Copies a commit and its tree from the mirror of another workspace into this one's.
    pub fn bring(&self, from: &Trees, commit: &str) -> Result<(), Error> {
        if self.folder == from.folder {
            return Ok(());
        }
        let _lock = Lock::take(&self.folder)?;
        let theirs = Mirror::open(&from.folder, &from.workspace, commit)?.objects();
        Mirror::open(&self.folder, &self.workspace, commit)?.take_in(&theirs)
    }

    /// Returns whether the mirror has a commit that was made there: the mirror is made again after each
    /// boot.
    pub fn has(&self, commit: &str) -> bool {
        let mirror = Mirror::open(&self.folder, &self.workspace, commit);
        mirror.is_ok_and(|mirror| {
            mirror.git(&["cat-file", "-e", &format!("{commit}^{{tree}}")], b"", &[]).is_ok()
        })
    }

    /// Applies the changes from `base` to `theirs` to `ours`; all three are trees that the mirror has.
    pub fn merge(&self, base: &str, ours: &str, theirs: &str) -> Result<Union, Error> {
        if theirs == base || ours == theirs {
            return Ok(Union::Clean(ours.to_owned()));
        }
        if ours == base {
            return Ok(Union::Clean(theirs.to_owned()));
        }
        let mirror = Mirror::open(&self.folder, &self.workspace, ours)?;
        // git finds the base of a merge through the history, so make the shortest possible one.
        let commit = |tree: &str, parent: Option<&str>| -> Result<String, Error> {
            let parents = parent.into_iter().flat_map(|parent| ["-p", parent]);
            let args: Vec<&str> = ["commit-tree", tree].into_iter().chain(parents).collect();
            one_word(&mirror.git(&args, b"union\n", &nobody())?)
        };
        let root = commit(base, None)?;
        let (ours, theirs) = (commit(ours, Some(&root))?, commit(theirs, Some(&root))?);
        let (is_clean, said) = mirror.merge_tree(&ours, &theirs)?;
        let mut words = said.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(lossy);
        let tree = words.next().unwrap_or_default();
        Ok(if is_clean { Union::Clean(tree) } else { Union::Conflict(words.collect()) })
    }

    /// Returns the differences between two trees or commits of the mirror, in the order of the paths.
    pub fn differing(&self, old: &str, new: &str) -> Result<Vec<TreeDifference>, Error> {
        if old == new {
            return Ok(Vec::new());
        }
        let mirror = Mirror::open(&self.folder, &self.workspace, old)?;
        let listed = mirror.git(&["diff-tree", "-r", "-z", "--no-renames", "--raw", old, new], b"", &[])?;
        let mut words = listed.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let mut differing = Vec::new();
        while let (Some(head), Some(path)) = (words.next(), words.next()) {
            let head = lossy(head.strip_prefix(b":").unwrap_or(head));
            let [old_mode, new_mode, old, new, _] = head.split(' ').collect::<Vec<_>>()[..] else {
                return Err(mirror.said("git listed a difference in an unknown way"));
            };
            let side = |mode: &str, id: &str| (mode != "000000").then(|| (mode.to_owned(), id.to_owned()));
            differing.push(TreeDifference {
                path: path.to_vec(),
                old: side(old_mode, old),
                new: side(new_mode, new),
            });
        }
        Ok(differing)
    }

    /// Returns the number of lines that differ; each side of a binary file counts as one.
    pub fn size(&self, old: &str, new: &str) -> Result<u64, Error> {
        let mirror = Mirror::open(&self.folder, &self.workspace, old)?;
        let listed =
            mirror.git(&["diff-tree", "-r", "-z", "--no-renames", "--numstat", old, new], b"", &[])?;
        let lines = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()).map(|line| {
            let text = lossy(line);
            let mut words = text.split('\t').take(2).map(|word| word.parse::<u64>().unwrap_or(1));
            words.next().unwrap_or(0) + words.next().unwrap_or(0)
        });
        Ok(lines.sum())
    }

    /// Returns whether a commit of the workspace's repository is in the history of another.
    pub fn is_in(&self, older: &str, newer: &str) -> Result<bool, Error> {
        if older == newer {
            return Ok(true);
        }
        Mirror::open(&self.folder, &self.workspace, newer)?.is_ancestor(older)
    }

    /// Returns the commits of the workspace's repository between two commits that change one of these
    /// paths, newest first: id and subject, at most `most`.
    pub fn commits(&self, old: &str, new: &str, paths: &[&str], most: usize) -> Result<Vec<String>, Error> {
        Mirror::open(&self.folder, &self.workspace, new)?.log(old, paths, most)
    }

    /// Returns the parents of a commit that the mirror has, in order.
    pub fn parents(&self, commit: &str) -> Result<Vec<String>, Error> {
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let told = mirror.git(&["rev-parse", &format!("{commit}^@")], b"", &[])?;
        Ok(lossy(&told).lines().map(str::to_owned).collect())
    }

    /// Makes a commit of this tree with these parents in the mirror.
    pub fn merge_commit(&self, tree: &str, parents: &[&str], by: &CommitText<'_>) -> Result<String, Error> {
        let mirror = Mirror::open(&self.folder, &self.workspace, tree)?;
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let args: Vec<&str> = ["commit-tree", tree].into_iter().chain(parents).collect();
        one_word(&mirror.git(&args, by.message.as_bytes(), &by.environment())?)
    }

    /// Returns a base with all differences between two git trees applied, which the mirror of `from` has;
    /// with `own`, the given paths are as in that other tree. Cache folders stay those of the base.
    pub fn laid(
        &self,
        base: &Base,
        from: &Trees,
        (old, new): (&str, &str),
        own: Option<(&str, &BTreeSet<Vec<u8>>)>,
    ) -> Result<Base, Error> {
        let mut differing = from.differing(old, new)?;
        if let Some((tree, paths)) = own {
            differing.retain(|change| !paths.contains(&change.path));
            let kept = from.differing(old, tree)?;
            differing.extend(kept.into_iter().filter(|change| paths.contains(&change.path)));
        }
        let in_cache = |path: &[u8]| base.caches.iter().any(|cache| is_at_or_beneath(path, cache));
        let changes: Vec<&TreeDifference> = differing
            .iter()
            .filter(|change| mirror::is_harmless(&change.path) && !in_cache(&change.path))
            .filter(|change| !change.is_of_a_submodule())
            .collect();
        if let Some(odd) = changes.iter().find(|change| !change.is_of_files_and_links()) {
            return Err(Error::Unlaid { path: lossy(&odd.path) });
        }
        let layer = self.layer_of(base, from, &changes)?;
        self.advance(base, layer)
    }

    fn layer_of(&self, base: &Base, from: &Trees, changes: &[&TreeDifference]) -> Result<Layer, Error> {
        let layers = self.folder.join("layers");
        let folder =
            tempfile::tempdir_in(&layers).map_err(|error| Error::io("make a folder in", &layers, error))?;
        let path = folder.path().join(TREE);
        let listed = |error| Error::io("read", &base.path, error);
        let mut checkout = TreeWriter::begin(path.clone(), TreeDraft::on(&base.index).map_err(listed)?)?;
        let mut removed = Vec::new();
        // Removals first: another file may come at the same place.
        for change in changes.iter().filter(|change| change.new.is_none()) {
            if base.index.find(&change.path).map_err(listed)?.is_some() {
                checkout.draft.remove(&change.path).map_err(listed)?;
                removed.push(change.path.clone());
            }
        }
        let ids = changes.iter().filter_map(|change| Some(change.new.as_ref()?.1.as_str()));
        let mut blobs = from.blobs(ids.collect())?;
        let mut taken = Vec::new();
        for change in changes {
            let Some((mode, id)) = &change.new else { continue };
            let missing = || Error::Object { path: lossy(&change.path), said: "it is missing".into() };
            let bytes = blobs.remove(id.as_str()).ok_or_else(missing)?;
            let kind = if mode == "120000" { EntryKind::Link } else { EntryKind::of_git(mode == "100755") };
            let leaf = Leaf { kind, digest: Hash::of(&bytes), size: bytes.len() as u64 };
            let there = base.index.find(&change.path).map_err(listed)?;
            let is_same = there.is_some_and(|entry| entry.kind == kind && entry.digest == leaf.digest);
            match kind {
                _ if is_same => {}
                EntryKind::Link if !stays_inside(&change.path, &bytes) => {
                    return Err(Error::Unlaid { path: lossy(&change.path) });
                }
                EntryKind::Link => checkout.link(&change.path, &bytes)?,
                kind => checkout.write(&change.path, kind, &bytes)?,
            }
            if !is_same {
                taken.push((change.path.clone(), leaf));
            }
            // Two paths may have the same content.
            blobs.insert(id.clone(), bytes);
        }
        let draft = checkout.finish()?;
        Layer::laid(base, draft, (folder, path), Laid { taken, removed, folders: Vec::new() })
    }

    /// Returns the content of objects that the mirror has.
    pub(super) fn blobs(&self, ids: Vec<&str>) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let Some(first) = ids.first() else { return Ok(BTreeMap::new()) };
        let mirror = Mirror::open(&self.folder, &self.workspace, first)?;
        let wanted: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let told = mirror.git(&["cat-file", "--batch", "--buffer"], wanted.as_bytes(), &[])?;
        let odd = || mirror.said("git told of an object in an unknown way");
        let (mut blobs, mut rest) = (BTreeMap::new(), told.as_slice());
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(odd)?;
            let head = lossy(&rest[..end]);
            let [id, "blob", size] = head.split(' ').collect::<Vec<_>>()[..] else { return Err(odd()) };
            let size: usize = size.parse().map_err(|_| odd())?;
            let bytes = rest.get(end + 1..end + 1 + size).ok_or_else(odd)?;
            blobs.insert(id.to_owned(), bytes.to_vec());
            rest = rest.get(end + 2 + size..).ok_or_else(odd)?;
        }
        Ok(blobs)
    }
}

impl TreeDifference {
    pub fn shown(&self) -> String {
        lossy(&self.path)
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    fn sides(&self) -> impl Iterator<Item = &str> {
        self.old.iter().chain(&self.new).map(|(mode, _)| mode.as_str())
    }

    fn is_of_a_submodule(&self) -> bool {
        self.sides().all(|mode| mode == "160000")
    }

    fn is_of_files_and_links(&self) -> bool {
        self.sides().all(|mode| mode.starts_with("100") || mode == "120000")
    }

    pub(super) fn is_of_files(&self) -> bool {
        self.sides().all(|mode| mode.starts_with("100"))
    }
}

/// Returns a fixed author and time, so that the commits are the same each time.
fn nobody() -> Vec<(OsString, OsString)> {
    let date = "1000000000 +0000";
    let names = ["NAME", "EMAIL", "DATE"].into_iter().zip(["provost", "", date]);
    let both = names.flat_map(|(what, value)| {
        ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_{what}").into(), value.into()))
    });
    both.collect()
}

fn one_word(bytes: &[u8]) -> Result<String, Error> {
    Ok(lossy(bytes.trim_ascii()))
}
