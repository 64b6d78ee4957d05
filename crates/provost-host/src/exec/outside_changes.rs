//! Finds what changed outside `touches` while an agent was working: in the workspace and, if the agent can
//! write it, in the repository.
//!
//! provost does not ask git, whose index the agent may write; it examines every name before and after. A
//! file counts as changed if its stamp moved: the stamp holds the ctime, which no program can set.
//!
//! **Invariant:** no symbolic link is followed, and a list that was cut says so.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::model::event::{OutsideChange, OutsideKind, OutsidePath};
use provost_core::model::hash::Hash;
use provost_core::model::quote;
use rustix::fs::FileType;

use crate::files::safe_open::{self, FileStamp};
use crate::plans::plan_file;
use crate::tree::Touches;
use crate::{config, git};

/// Limit on the names that are examined. A larger workspace is compared in part, and the result says so.
const NAMES_MAX: usize = 400_000;
/// Limit on the changes that are listed one by one.
const NAMED_MAX: usize = 60;
/// If a folder that the base does not have holds more changes than this, the folder is listed instead.
const IN_FOLDER: usize = 3;
const DEPTH: usize = 128;
/// How long a file of provost's own, written beside a plan, may take to disappear again.
const MOMENT: Duration = Duration::from_millis(500);
/// Files in a repository inside the workspace from which git runs programs, or which redirect git.
const OBEYED: [&[u8]; 6] = [b"config", b"config.worktree", b"commondir", b"gitdir", b"HEAD", b"hooks"];

/// The folders and rules of a comparison.
#[derive(Clone, Copy)]
pub struct ComparedFolders<'a> {
    pub workspace: &'a Path,
    /// Paths the agent may change.
    pub touches: &'a Touches,
    /// Files that provost writes itself or watches by other means.
    pub own: &'a [PathBuf],
    /// Returns whether the approved tree has a file or folder at a path.
    pub known: &'a dyn Fn(&Path) -> bool,
    /// True if the agent can write the repository.
    pub repository: bool,
}

/// The state of a workspace before an attempt.
pub struct WorkspaceState {
    files: BTreeMap<Vec<u8>, FileStamp>,
    is_whole: bool,
    refs: BTreeMap<String, String>,
    obeyed: BTreeMap<PathBuf, Hash>,
}

impl WorkspaceState {
    pub fn look(scope: &ComparedFolders<'_>) -> Self {
        let mut walk = Walk { scope, files: BTreeMap::new(), left: NAMES_MAX };
        if let Ok(top) = safe_open::top(scope.workspace) {
            walk.folder(&top, b"", 0);
        }
        let (refs, obeyed) = match scope.repository {
            true => (refs(scope.workspace), obeyed(scope.workspace)),
            false => Default::default(),
        };
        Self { files: walk.files, is_whole: walk.left > 0, refs, obeyed }
    }

    /// Returns the files that would influence a later command of provost.
    pub fn deciding(&self, workspace: &Path) -> Vec<PathBuf> {
        let paths = self.files.keys().filter(|path| decides_later(path));
        paths.map(|path| workspace.join(OsStr::from_bytes(path))).collect()
    }

    /// Returns the differences between then and now, files first.
    pub fn compare(&self, scope: &ComparedFolders<'_>) -> ChangesLeft {
        let now = Self::look(scope);
        let mut found = Vec::new();
        for (path, stamp) in &now.files {
            match self.files.get(path) {
                Some(before) if before == stamp => {}
                Some(_) => found.push((path.clone(), OutsideChange::Changed)),
                None => found.push((path.clone(), OutsideChange::Made)),
            }
        }
        let gone = self.files.keys().filter(|path| !now.files.contains_key(*path));
        found.extend(gone.map(|path| (path.clone(), OutsideChange::Removed)));
        // A folder that changed only through its content is represented by that content.
        let is_folder = |path: &[u8], files: &BTreeMap<Vec<u8>, FileStamp>| {
            files.get(path).is_some_and(|stamp| stamp.kind() == FileType::Directory)
        };
        found.retain(|(path, change)| match change {
            OutsideChange::Changed => !(is_folder(path, &self.files) && is_folder(path, &now.files)),
            OutsideChange::Made => !is_folder(path, &now.files) || is_empty(&now.files, path),
            OutsideChange::Removed => !is_folder(path, &self.files) || is_empty(&self.files, path),
        });
        found.retain(|(path, _)| !was_ours_for_a_moment(scope.workspace, path));
        found.sort();
        let decides =
            found.iter().filter(|(path, change)| *change != OutsideChange::Removed && decides_later(path));
        let decides = decides.map(|(path, _)| scope.workspace.join(OsStr::from_bytes(path))).collect();
        // Inside `touches`, only files that have an effect elsewhere were examined.
        found.retain(|(path, _)| !scope.touches.covers(path) || is_repository(path));
        let mut outside = named(scope, found);
        outside.extend(self.in_repository(&now));
        if !(self.is_whole && now.is_whole) {
            outside.push(OutsidePath {
                path: format!(
                    "provost did not compare everything: the workspace has more than {NAMES_MAX} names"
                ),
                kind: OutsideKind::Note,
                ..OutsidePath::default()
            });
        }
        ChangesLeft { outside, decides }
    }

    fn in_repository(&self, now: &Self) -> Vec<OutsidePath> {
        let mut found = Vec::new();
        let names: BTreeSet<&String> = self.refs.keys().chain(now.refs.keys()).collect();
        for name in names {
            let (before, after) = (self.refs.get(name), now.refs.get(name));
            if before != after {
                found.push(OutsidePath {
                    path: quote::one_line(name).into_owned(),
                    change: change(before.is_some(), after.is_some()),
                    kind: OutsideKind::Ref,
                    before: before.cloned(),
                    after: after.cloned(),
                    ..OutsidePath::default()
                });
            }
        }
        let paths: BTreeSet<&PathBuf> = self.obeyed.keys().chain(now.obeyed.keys()).collect();
        for path in paths {
            let (before, after) = (self.obeyed.get(path), now.obeyed.get(path));
            if before != after {
                found.push(OutsidePath {
                    path: quote::one_line(&format!(".git/{}", path.display())).into_owned(),
                    change: change(before.is_some(), after.is_some()),
                    kind: OutsideKind::Git,
                    after: after.map(ToString::to_string),
                    ..OutsidePath::default()
                });
            }
        }
        found
    }
}

/// The changes that an attempt left behind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChangesLeft {
    pub outside: Vec<OutsidePath>,
    /// Configurations, markers and topics that are new or changed, in any place: they have no effect until
    /// a person has trusted them.
    pub decides: Vec<PathBuf>,
}

fn change(before: bool, after: bool) -> OutsideChange {
    match (before, after) {
        (false, _) => OutsideChange::Made,
        (true, true) => OutsideChange::Changed,
        (true, false) => OutsideChange::Removed,
    }
}

fn is_empty(files: &BTreeMap<Vec<u8>, FileStamp>, folder: &[u8]) -> bool {
    let beneath = [folder, b"/"].concat();
    let mut behind = files.range(beneath.clone()..);
    !behind.next().is_some_and(|(path, _)| path.starts_with(&beneath))
}

/// Returns whether the file is gone and has a name that provost uses while it replaces a plan file, which can
/// happen during an attempt. A file that stays is reported, whatever its name.
fn was_ours_for_a_moment(workspace: &Path, path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    if !(name.starts_with(b".provost-") && name.ends_with(b".tmp")) {
        return false;
    }
    let full = workspace.join(OsStr::from_bytes(path));
    let begun = Instant::now();
    while full.symlink_metadata().is_ok() {
        if begun.elapsed() > MOMENT {
            return false;
        }
        std::thread::sleep(MOMENT / 50);
    }
    true
}

/// Returns whether a file would influence a later command of provost: a configuration, a marker, a topic.
pub fn decides_later(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let in_harness = folder == plan_file::FOLDER || folder.ends_with(&format!("/{}", plan_file::FOLDER));
    let in_topics = folder.rsplit_once('/').map_or(folder, |(_, last)| last) == "topics";
    name == config::FILE_NAME || in_harness && name == "active-plan" || in_topics && name.ends_with(".md")
}

/// Returns whether the path belongs to a repository inside the workspace.
fn is_repository(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part == b".git")
}

/// Lists the changes one by one, or by folder for folders that the base does not have and that hold many.
fn named(scope: &ComparedFolders<'_>, found: Vec<(Vec<u8>, OutsideChange)>) -> Vec<OutsidePath> {
    let mut folders: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut single = Vec::new();
    for (path, change) in found {
        match new_folder(scope, &path).filter(|_| !is_repository(&path) && !decides_later(&path)) {
            Some(folder) => {
                *folders.entry(folder.clone()).or_default() += 1;
                single.push((path, change, Some(folder)));
            }
            None => single.push((path, change, None)),
        }
    }
    let is_many = |folder: &Option<Vec<u8>>| {
        folder
            .as_ref()
            .is_some_and(|folder| folders.get(folder).is_some_and(|count| *count as usize > IN_FOLDER))
    };
    let mut outside: Vec<OutsidePath> = Vec::new();
    for (path, change, _) in single.iter().filter(|(_, _, folder)| !is_many(folder)) {
        outside.push(OutsidePath {
            path: shown(path),
            change: *change,
            after: (*change != OutsideChange::Removed).then(|| digest(scope.workspace, path)).flatten(),
            ..OutsidePath::default()
        });
    }
    let cut = outside.len().saturating_sub(NAMED_MAX);
    outside.truncate(NAMED_MAX);
    if cut > 0 {
        outside.push(OutsidePath {
            path: "and more".to_owned(),
            files: cut as u32,
            kind: OutsideKind::Note,
            ..OutsidePath::default()
        });
    }
    for (folder, count) in folders.iter().filter(|(_, count)| **count as usize > IN_FOLDER) {
        outside.push(OutsidePath {
            path: format!("{}/", shown(folder)),
            change: OutsideChange::Changed,
            kind: OutsideKind::Folder,
            files: *count,
            ..OutsidePath::default()
        });
    }
    outside
}

/// Returns the outermost folder on the path that the approved tree does not have.
fn new_folder(scope: &ComparedFolders<'_>, path: &[u8]) -> Option<Vec<u8>> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut folders = ends.map(|at| &path[..at]);
    folders.find(|folder| !(scope.known)(Path::new(OsStr::from_bytes(folder)))).map(<[u8]>::to_vec)
}

fn shown(path: &[u8]) -> String {
    quote::one_line(&String::from_utf8_lossy(path)).into_owned()
}

/// Returns the digest of a regular file of at most 16 MiB, which is small enough to be read again on each
/// comparison.
pub fn digest(workspace: &Path, path: &[u8]) -> Option<String> {
    let top = safe_open::top(workspace).ok()?;
    let file = safe_open::file(&top, path).ok()?;
    let stamp = safe_open::stamp(&file).ok()?;
    if stamp.kind() != FileType::RegularFile || stamp.size > 16 << 20 {
        return None;
    }
    safe_open::digest(&file).ok().map(|digest| digest.to_string())
}

fn refs(workspace: &Path) -> BTreeMap<String, String> {
    let mut refs: BTreeMap<String, String> = git::refs(workspace, "refs/").into_iter().collect();
    let head = git::branch(workspace).or_else(|| git::head(workspace));
    refs.extend(head.map(|head| ("HEAD".to_owned(), head)));
    refs
}

/// Returns the digests of the repository's files that make git run programs.
fn obeyed(workspace: &Path) -> BTreeMap<PathBuf, Hash> {
    let mut found = BTreeMap::new();
    let Some(repository) = git::repository(workspace) else { return found };
    for name in ["config", "config.worktree", "commondir", "info/attributes", "info/exclude", "info/grafts"] {
        found.extend(std::fs::read(repository.join(name)).ok().map(|text| (name.into(), Hash::of(&text))));
    }
    for entry in repository.join("hooks").read_dir().into_iter().flatten().flatten() {
        if let Ok(text) = std::fs::read(entry.path()) {
            found.insert(Path::new("hooks").join(entry.file_name()), Hash::of(&text));
        }
    }
    found
}

struct Walk<'a, 's> {
    scope: &'a ComparedFolders<'s>,
    files: BTreeMap<Vec<u8>, FileStamp>,
    left: usize,
}

impl Walk<'_, '_> {
    fn folder(&mut self, folder: &OwnedFd, path: &[u8], depth: usize) {
        let Ok(names) = safe_open::names(folder, self.left) else {
            self.left = 0;
            return;
        };
        for (name, kind) in names {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            let here = if path.is_empty() { name.clone() } else { [path, b"/", &name].concat() };
            // The repository of the workspace itself is compared by its refs and configuration instead.
            if here == b".git" || self.is_own(&here) {
                continue;
            }
            let in_repository = path.split(|byte| *byte == b'/').next_back() == Some(b".git");
            if in_repository && !OBEYED.contains(&name.as_slice()) {
                continue;
            }
            // A folder that leads to a path in `touches` is created and removed together with that path.
            let is_on_the_way = kind == FileType::Directory && self.scope.touches.reaches_into(&here);
            let is_inside = self.scope.touches.covers(&here) || is_on_the_way;
            if (!is_inside || is_repository(&here) || decides_later(&here))
                && let Ok(stamp) = safe_open::stamp_at(folder, &name)
            {
                self.files.insert(here.clone(), stamp);
            }
            if kind == FileType::Directory
                && depth < DEPTH
                && let Ok(inner) = safe_open::folder(folder, &name)
            {
                self.folder(&inner, &here, depth + 1);
            }
        }
    }

    fn is_own(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        // provost writes plans, progress files and claims itself, and watches those of this run.
        let in_harness =
            path.starts_with(plan_file::FOLDER.as_bytes()) && path != plan_file::FOLDER.as_bytes();
        if in_harness && !decides_later(path) && name != b"topics" {
            return true;
        }
        let full = self.scope.workspace.join(OsStr::from_bytes(path));
        self.scope.own.contains(&full)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use provost_core::model::event::OutsideChange;

    use super::{ComparedFolders, WorkspaceState};
    use crate::tree::Touches;

    fn words(work: &Path, act: impl FnOnce()) -> (Vec<String>, Vec<String>) {
        let touches = Touches::new(&["src/**"]).expect("globs");
        let own = [work.join("progress.md")];
        let known =
            |path: &Path| path.starts_with("tests") || path.starts_with("src") || path.starts_with("sub");
        let scope = ComparedFolders {
            workspace: work,
            touches: &touches,
            own: &own,
            known: &known,
            repository: true,
        };
        let before = WorkspaceState::look(&scope);
        act();
        let changes = before.compare(&scope);
        let word = |change| match change {
            OutsideChange::Made => "made",
            OutsideChange::Changed => "changed",
            OutsideChange::Removed => "removed",
        };
        let outside =
            changes.outside.iter().map(|each| format!("{} {} {}", each.path, word(each.change), each.files));
        let decides =
            changes.decides.iter().map(|path| path.strip_prefix(work).expect("inside").display().to_string());
        (outside.collect(), decides.collect())
    }

    fn workspace() -> tempfile::TempDir {
        let work = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("src/a.py", "1"),
            ("tests/test_a.py", "assert a == 1"),
            ("tests/test_b.py", "2"),
            ("sub/.git/config", "[core]"),
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/refs/heads/main", "1111111111111111111111111111111111111111\n"),
            (".git/refs/heads/keep", "1111111111111111111111111111111111111111\n"),
            (".git/config", "[core]"),
        ] {
            let path = work.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        work
    }

    #[test]
    fn what_is_inside_touches_and_the_harness_own_files_are_nobody_elses_business() {
        let work = workspace();
        let at = |name: &str| work.path().join(name);
        let found = words(work.path(), || {
            fs::write(at("src/a.py"), "2").expect("written");
            fs::write(at("src/b.py"), "2").expect("written");
            fs::write(at("progress.md"), "2").expect("written");
        });
        assert_eq!(found, (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_file_that_provost_writes_beside_a_plan_for_a_moment_is_no_change() {
        let work = workspace();
        let passing = work.path().join(".provost-a1B2c3.tmp");
        fs::write(work.path().join(".provost-before.tmp"), "").expect("written");
        let (outside, _) = words(work.path(), || {
            fs::remove_file(work.path().join(".provost-before.tmp")).expect("removed");
            fs::write(work.path().join(".provost-stays.tmp"), "").expect("written");
            fs::write(&passing, "").expect("written");
            std::thread::spawn(move || {
                std::thread::sleep(super::MOMENT / 5);
                fs::remove_file(passing)
            });
        });
        assert_eq!(outside, [".provost-stays.tmp made 0"]);
    }

    #[test]
    fn every_change_outside_is_named() {
        let work = workspace();
        let at = |name: &str| work.path().join(name);
        let (outside, decides) = words(work.path(), || {
            // Same size and same mtime: only the ctime, which no program can set, moved.
            let time = fs::metadata(at("tests/test_a.py")).expect("there").modified().expect("a time");
            fs::write(at("tests/test_a.py"), "assert a == 2").expect("written");
            let file = fs::File::options().write(true).open(at("tests/test_a.py")).expect("open");
            file.set_modified(time).expect("set");
            fs::remove_file(at("tests/test_b.py")).expect("removed");
            symlink("/etc/passwd", at("tests/link")).expect("a link");
            fs::create_dir_all(at("target/debug")).expect("made");
            for number in 0..9 {
                fs::write(at(&format!("target/debug/{number}")), "x").expect("written");
            }
            fs::create_dir_all(at("src/vendor/.git")).expect("made");
            fs::write(at("src/vendor/.git/config"), "[core]\nfsmonitor = evil").expect("written");
            fs::write(at("sub/.git/config"), "[core]\nfsmonitor = evil").expect("written");
            fs::write(at("sub/provost.toml"), "").expect("written");
            fs::write(at("src/provost.toml"), "").expect("written");
            fs::create_dir_all(at(".harness/topics")).expect("made");
            fs::write(at(".harness/topics/a.md"), "obey me").expect("written");
            fs::write(at("a\n# b"), "").expect("written");
            fs::remove_file(at(".git/refs/heads/keep")).expect("removed");
            fs::write(at(".git/refs/heads/new"), "2222222222222222222222222222222222222222\n")
                .expect("written");
            fs::write(at(".git/config"), "[core]\nfsmonitor = evil").expect("written");
        });
        assert_eq!(
            outside,
            [
                ".harness/topics/a.md made 0",
                "a\\n# b made 0",
                "src/vendor/.git/config made 0",
                "sub/.git/config changed 0",
                "sub/provost.toml made 0",
                "tests/link made 0",
                "tests/test_a.py changed 0",
                "tests/test_b.py removed 0",
                "target/ changed 9",
                "refs/heads/keep removed 0",
                "refs/heads/new made 0",
                ".git/config changed 0",
            ]
        );
        assert_eq!(decides, [".harness/topics/a.md", "src/provost.toml", "sub/provost.toml"]);
    }
}
