//! Makes a repository for checks: the approved commit, its history, an index, and nothing that git would
//! run.
//!
//! It is made once for each commit, before any agent runs: the mirror imports the history, and a small
//! folder gets `HEAD`, refs, an index and provost's own configuration. The refs are those of the
//! workspace's repository that point into this history. There are no hooks, filters, remotes or settings of
//! the user.
//!
//! A check gets a writable view of the folder, which is discarded afterwards; objects are read from the
//! mirror.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use provost_core::model::event::NamedFile;
use provost_core::model::hash::Hash;

use super::checkout::lossy;
use super::git_index;
use super::mirror::{self, Mirror};
use super::retention::{Lock, boot};
use super::touches::is_at_or_beneath;
use super::{Base, Error, Trees};
use crate::git;
use crate::sandbox::{CheckMount, MountWrites, What};

/// If the packed objects are larger than this, the history is cut off after `COMMITS` commits.
const LARGE: u64 = 256 << 20;
const COMMITS: &str = "--max-count=200";
/// Limit on the number of refs that a check sees.
const REFS: usize = 20_000;
const UNUSED_MAX: Duration = Duration::from_secs(14 * 24 * 3600);
/// Path of the objects inside a sandbox.
const OBJECTS_INSIDE: &str = "/var/cache/check/git-objects";
/// Path of the repository inside a sandbox.
const FOLDER_INSIDE: &str = "/var/cache/check/git";

const CONFIG: &str = "\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n\
    \tcheckstat = minimal\n\ttrustctime = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n\
    [user]\n\tname = check\n\temail = check@localhost\n";

/// A repository that is ready to be shown to checks.
#[derive(Clone, Debug)]
pub struct CheckRepository {
    /// The repository without its objects.
    pub folder: PathBuf,
    /// The `.git` file that names it in a tree.
    pub link: PathBuf,
    pub objects: PathBuf,
}

impl CheckRepository {
    /// Returns what a sandbox shows of it; `room` is an empty folder for the files that the mount needs.
    pub fn kept<'k>(&'k self, room: &'k Path) -> [CheckMount<'k>; 3] {
        let lowers = std::slice::from_ref(&self.folder);
        let what = What::Layered { lowers, folder: room, writes: MountWrites::Forgotten };
        [
            CheckMount { at: Path::new(FOLDER_INSIDE), what },
            CheckMount { at: Path::new(OBJECTS_INSIDE), what: What::ReadOnly(&self.objects) },
            CheckMount { at: Path::new(".git"), what: What::ReadOnly(&self.link) },
        ]
    }

    /// Makes a copy for one check without a sandbox, and writes its `.git` file into `tree`.
    pub fn lay(&self, tree: &Path, folder: &Path) -> io::Result<()> {
        let copy = folder.join("git");
        crate::files::folder::copy(&self.folder, &copy)?;
        fs::write(copy.join("objects/info/alternates"), format!("{}\n", self.objects.display()))?;
        fs::write(tree.join(".git"), format!("gitdir: {}\n", copy.display()))
    }
}

impl Trees {
    /// Returns the repository of a base that was made from a commit and these named files.
    pub fn repository_for_checks(
        &self,
        base: &Base,
        commit: &str,
        files: &[NamedFile],
    ) -> Result<CheckRepository, Error> {
        let branch = git::branch(&self.workspace).filter(|name| git::is_branch_or_note(name));
        let refs = git::all_refs(&self.workspace, REFS);
        let places = self.folder.join("repositories");
        let place = places.join(&key(base, commit, branch.as_deref(), &refs)[..16]);
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let made = CheckRepository {
            folder: place.join("git"),
            link: place.join("link"),
            objects: mirror.objects(),
        };
        let used = place.join("used");
        if fs::read_to_string(&used).ok().as_deref() == Some(boot()) {
            // Its mtime is the time of the last use.
            let _ = fs::write(&used, boot());
            return Ok(made);
        }
        let room = self.room()?;
        let folder = room.path().join("git");
        let as_written = self.has_trusted_copies().then_some(files);
        let new = Making { mirror: &mirror, folder, commit, as_written };
        new.make(base, branch.as_deref(), &refs)?;
        let write = |name: &str, text: &str| {
            let path = room.path().join(name);
            fs::write(&path, text).map_err(|error| Error::io("write", &path, error))
        };
        write("link", &format!("gitdir: {FOLDER_INSIDE}\n"))?;
        write("used", boot())?;
        sweep(&places);
        let put = || {
            fs::create_dir_all(&places)?;
            crate::files::folder::remove(&place);
            fs::rename(room.path(), &place)
        };
        put().map_err(|error| Error::io("make", &place, error))?;
        Ok(made)
    }
}

fn key(base: &Base, commit: &str, branch: Option<&str>, refs: &BTreeMap<String, String>) -> String {
    let mut text = format!("repository 1\n{commit}\n{}\n{}\n", base.id, branch.unwrap_or_default());
    refs.iter().for_each(|(name, id)| text.push_str(&format!("{id} {name}\n")));
    Hash::of(text.as_bytes()).to_string()
}

fn sweep(places: &Path) {
    for entry in fs::read_dir(places).into_iter().flatten().flatten() {
        let used = fs::metadata(entry.path().join("used")).and_then(|found| found.modified());
        let is_old =
            used.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > UNUSED_MAX));
        if is_old {
            crate::files::folder::remove(&entry.path());
        }
    }
}

struct Making<'m> {
    mirror: &'m Mirror<'m>,
    folder: PathBuf,
    commit: &'m str,
    /// The files that are not from the commit, if provost knows that all others are as it wrote them.
    as_written: Option<&'m [NamedFile]>,
}

impl Making<'_> {
    fn make(&self, base: &Base, branch: Option<&str>, refs: &BTreeMap<String, String>) -> Result<(), Error> {
        for name in ["objects/pack", "objects/info", "refs/heads", "refs/tags", "info"] {
            let path = self.folder.join(name);
            fs::create_dir_all(&path).map_err(|error| Error::io("make", &path, error))?;
        }
        let format = match self.commit.len() {
            64 => "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n[core]\n",
            _ => "[core]\n\trepositoryformatversion = 0\n",
        };
        self.write("config", &format!("{format}{CONFIG}"))?;
        self.write("objects/info/alternates", &format!("{OBJECTS_INSIDE}\n"))?;
        let cut_off = self.mirror.borrow_history()?;
        if !cut_off.is_empty() {
            self.write("shallow", &cut_off)?;
        }
        let head = branch.map_or(format!("{}\n", self.commit), |branch| format!("ref: {branch}\n"));
        self.write("HEAD", &head)?;
        let mut kept = self.within_history(refs)?;
        kept.extend(branch.map(|branch| (branch.to_owned(), self.commit.to_owned())));
        let lines: String = kept.iter().map(|(name, id)| format!("{id} {name}\n")).collect();
        self.write("packed-refs", &lines)?;
        let there = self.environment();
        self.mirror.git(&["read-tree", self.commit], b"", &there)?;
        self.note_files_of_commit(base);
        // Uses the times of the base's files, so that a check reads only files that changed. git reads the files
        // that were not noted. If files differ, it exits with 1; the check will see these differences.
        let tree = ("GIT_WORK_TREE".into(), base.path.clone().into());
        let there: Vec<_> = there.into_iter().chain([tree]).collect();
        let _ = self.mirror.git(&["update-index", "-q", "--refresh"], b"", &there);
        Ok(())
    }

    /// Notes the files in the index that were written from the objects of the commit. If that fails, git reads
    /// them.
    fn note_files_of_commit(&self, base: &Base) {
        let Some(named) = self.as_written else { return };
        let ground = base.ground();
        let digests: HashSet<&str> = named.iter().map(|file| file.sha256.as_str()).collect();
        let mut others: HashSet<Vec<u8>> = HashSet::new();
        if !digests.is_empty() {
            let walked = ground.index.walk(b"", ground.index.root(), &mut |path, entry| {
                if digests.contains(entry.digest.to_string().as_str()) {
                    others.insert(path.to_vec());
                }
                Ok(())
            });
            if walked.is_err() {
                return;
            }
        }
        let mut found = |path: &[u8]| {
            let is_of_commit = !others.contains(path)
                && !ground.caches.iter().any(|cache| is_at_or_beneath(path, cache))
                && !base.gone.iter().any(|gone| is_at_or_beneath(path, gone.as_os_str().as_bytes()))
                && base
                    .over
                    .as_ref()
                    .is_none_or(|over| over.join(OsStr::from_bytes(path)).symlink_metadata().is_err());
            is_of_commit.then(|| ground.path.join(OsStr::from_bytes(path)).symlink_metadata().ok())?
        };
        let has_sha256 = self.commit.len() == 64;
        let _ = git_index::note_files(&self.folder.join("index"), has_sha256, &mut found);
    }

    fn environment(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        vec![
            ("GIT_DIR".into(), self.folder.clone().into()),
            ("GIT_OBJECT_DIRECTORY".into(), self.mirror.objects().into()),
        ]
    }

    /// Returns the refs that name a commit of the history, and tags of one. Imports the tag objects.
    fn within_history(&self, refs: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
        let there = self.environment();
        let listed = self.mirror.git(&["rev-list", self.commit, "--"], b"", &there)?;
        let listed = lossy(&listed);
        let history: HashSet<&str> = listed.lines().collect();
        let mut kept: BTreeMap<String, String> = BTreeMap::new();
        let mut tags: Vec<(&String, &String)> = Vec::new();
        for (name, id) in refs.iter().filter(|(name, _)| is_shown(name)) {
            match history.contains(id.as_str()) {
                true => _ = kept.insert(name.clone(), id.clone()),
                false if name.starts_with("refs/tags/") => tags.push((name, id)),
                false => {}
            }
        }
        if tags.is_empty() {
            return Ok(kept);
        }
        let lent = self.mirror.lends()?;
        let asked: String = tags.iter().map(|(_, id)| format!("{id}^{{commit}}\n")).collect();
        let answers =
            self.mirror.git(&["cat-file", "--batch-check=%(objectname)"], asked.as_bytes(), &lent)?;
        let answers = lossy(&answers);
        let mut objects = String::new();
        for ((name, id), commit) in tags.into_iter().zip(answers.lines()) {
            if history.contains(commit.trim()) {
                objects.push_str(&format!("{id}\n"));
                kept.insert(name.clone(), id.clone());
            }
        }
        self.mirror.pack_in(objects.as_bytes(), &lent)?;
        Ok(kept)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| Error::io("write", &path, error))
    }
}

/// Returns whether the ref is shown: branches, tags and remote-tracking branches.
fn is_shown(name: &str) -> bool {
    let shown = ["refs/heads/", "refs/tags/", "refs/remotes/"];
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"~^:?*[\\ \"".contains(&byte);
    shown.iter().any(|prefix| name.starts_with(prefix)) && name.bytes().all(plain) && !name.contains("..")
}

impl Mirror<'_> {
    /// Copies the history of the commit into the mirror. Returns the commits whose parents are missing, as
    /// lines of git's file `shallow`; empty if the history is complete.
    fn borrow_history(&self) -> Result<String, Error> {
        let marker = self.history_marker();
        if let Ok(cut_off) = fs::read_to_string(&marker) {
            return Ok(cut_off);
        }
        let (cut_off, list) = match self.history() {
            Ok(found) => found,
            // Objects are missing there, as in a partial clone: use the commit alone.
            Err(_) => (format!("{}\n", self.commit()), Vec::new()),
        };
        let mut lent = self.lends()?;
        lent.retain(|(name, _)| name != "GIT_SHALLOW_FILE");
        self.pack_in(&list, &lent)?;
        fs::write(&marker, &cut_off).map_err(|error| Error::io("write", &marker, error))?;
        Ok(cut_off)
    }

    fn history(&self) -> Result<(String, Vec<u8>), Error> {
        let lent = self.lends()?;
        let cut_off = match self.is_large() {
            true => self.ends_of_the_last(&lent)?,
            false => self.shallow().unwrap_or_default(),
        };
        let file = self.path().join("cut-off");
        fs::write(&file, &cut_off).map_err(|error| Error::io("write", &file, error))?;
        let mut lent = lent;
        lent.retain(|(name, _)| name != "GIT_SHALLOW_FILE");
        if !cut_off.is_empty() {
            lent.push(("GIT_SHALLOW_FILE".into(), file.into()));
        }
        let mut words = vec!["rev-list", "--objects", "--no-object-names", self.commit()];
        let known = if cut_off.is_empty() { self.whole_histories() } else { Vec::new() };
        words.extend(known.iter().map(String::as_str));
        words.push("--");
        Ok((cut_off, self.git(&words, b"", &lent)?))
    }

    /// Returns the commits whose complete history is in the mirror, as arguments that make git exclude it.
    fn whole_histories(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let whole = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.len() == 0));
        let names = whole.filter_map(|entry| entry.file_name().into_string().ok());
        let ids = names.filter_map(|name| name.strip_prefix("history-").map(|id| format!("^{id}")));
        ids.take(64).collect()
    }

    fn is_large(&self) -> bool {
        let packs = mirror::objects(self.workspace()).map(|objects| objects.join("pack"));
        let entries = packs.and_then(|packs| fs::read_dir(packs).ok()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum::<u64>() > LARGE
    }

    /// Returns those of the last commits that have a parent outside them.
    fn ends_of_the_last(&self, lent: &[(std::ffi::OsString, std::ffi::OsString)]) -> Result<String, Error> {
        let listed = self.git(&["rev-list", "--parents", COMMITS, self.commit(), "--"], b"", lent)?;
        let listed = lossy(&listed);
        let commits: HashSet<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
        let ends =
            listed.lines().filter(|line| line.split(' ').skip(1).any(|parent| !commits.contains(parent)));
        Ok(ends.filter_map(|line| line.split(' ').next()).map(|id| format!("{id}\n")).collect())
    }
}
