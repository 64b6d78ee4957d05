//! provost's own repository, the only one in which it runs git.
//!
//! A fetch would start git inside the workspace's repository, where the agent controls configuration, hooks
//! and promisor remotes: what runs there depends on the version of git. So nothing is fetched. git works in
//! the mirror, with the mirror's configuration, and uses only the object folder of the workspace, which is
//! data. Borrowed objects are packed into the mirror and indexed there again: the index names every object
//! by the digest of its content, so an object with a wrong name is simply missing.
//!
//! **Invariant:** a tree is read only when no object is borrowed any more.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use provost_core::model::plan::Stream;

use super::Error;
use super::checkout::{lossy, parallelism};
use super::retention::boot;
use crate::process;
use crate::process::{Enclosure, HeadAndTail, How, Spawn, StartError};

mod extract;
mod pack;

pub(super) use extract::{Submodule, is_harmless};

/// Timeout for one git command. A pipe in place of an object would block git forever.
const DEADLINE: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(1);
/// Limit on git's output: a name for each of some millions of objects.
const LIST_MAX: usize = 1 << 30;
const COMPLAINT_MAX: usize = 4096;
/// Limit on the output of a command that contacts another machine: refs, and what that machine says.
const ACROSS: HeadAndTail = HeadAndTail { head: 64 << 20, tail: 64 << 10 };
const OBJECTS: &str = "GIT_ALTERNATE_OBJECT_DIRECTORIES";

/// When a git command is ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit<'a> {
    pub deadline: Duration,
    pub stop: Option<&'a AtomicBool>,
}

const USUAL: Limit<'_> = Limit { deadline: DEADLINE, stop: None };

pub(super) struct Mirror<'a> {
    folder: PathBuf,
    workspace: &'a Path,
    commit: &'a str,
    environment: Vec<(OsString, OsString)>,
}

impl<'a> Mirror<'a> {
    /// Opens the mirror in `folder` for commits of this hash format, and makes it if necessary. A mirror
    /// from before the last boot is made again: it may not have reached the disk completely.
    pub(super) fn open(folder: &Path, workspace: &'a Path, commit: &'a str) -> Result<Self, Error> {
        let format = match commit.len() {
            40 => "sha1",
            64 => "sha256",
            _ => {
                return Err(Error::Git { commit: commit.to_owned(), said: "this is not a commit id".into() });
            }
        };
        if !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::Git { commit: commit.to_owned(), said: "this is not a commit id".into() });
        }
        let folder = folder.join(format!("mirror-{format}.git"));
        let environment = environment(workspace, &folder);
        let mirror = Self { folder, workspace, commit, environment };
        if fs::read_to_string(mirror.folder.join("complete")).ok().as_deref() != Some(boot()) {
            mirror.make(format)?;
        }
        Ok(mirror)
    }

    fn make(&self, format: &str) -> Result<(), Error> {
        match fs::remove_dir_all(&self.folder) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("remove", &self.folder, error)),
        }
        fs::create_dir(&self.folder).map_err(|error| Error::io("make", &self.folder, error))?;
        let format = format!("--object-format={format}");
        self.git(&["init", "--quiet", "--bare", "--template=", &format], b"", &[])?;
        let marker = self.folder.join("complete");
        fs::write(&marker, boot()).map_err(|error| Error::io("write", &marker, error))
    }

    /// Copies the commit and its tree into the mirror; objects whose name does not match their content are
    /// left out.
    pub(super) fn borrow(&self) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        let objects = objects(self.workspace).ok_or_else(|| Error::Git {
            commit: self.commit.to_owned(),
            said: "the workspace has no repository".into(),
        })?;
        self.take_in(&objects)
    }

    /// Returns the mirror's own object folder, for another mirror.
    pub(super) fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Packs the commit and its tree from an object folder, and indexes them again.
    pub(super) fn take_in(&self, objects: &Path) -> Result<(), Error> {
        let lent = [(OBJECTS.into(), quoted(objects))];
        let list = ["rev-list", "--objects", "--no-object-names", "--no-walk", self.commit, "--"];
        let wanted = self.git(&list, b"", &lent)?;
        self.pack_parts_in(&wanted, &lent, parallelism())
    }

    /// Returns the number of digits in this repository's ids.
    pub(super) fn id_length(&self) -> usize {
        self.commit.len()
    }

    /// Returns the commits at which the workspace's history is cut off, if it is a shallow clone.
    pub(super) fn shallow(&self) -> Option<String> {
        let path = objects(self.workspace)?.parent()?.join("shallow");
        let text = path.is_file().then(|| fs::read_to_string(path).ok())??;
        let is_id =
            |line: &&str| line.len() == self.commit.len() && line.bytes().all(|b| b.is_ascii_hexdigit());
        Some(text.lines().filter(is_id).map(|line| format!("{line}\n")).collect())
    }

    /// Packs the commit and its history into another, existing repository, and makes its index.
    pub(super) fn lend_all(&self, folder: &Path) -> Result<(), Error> {
        let there = [("GIT_DIR".into(), folder.into())];
        let is_cut_off = folder.join("shallow").exists();
        // Objects of the mirror itself were indexed by their content, so their names can be believed.
        let is_own = self.has_whole_history() && !is_cut_off;
        let lent = if is_own { Vec::new() } else { self.lent_to(folder)? };
        let list = ["rev-list", "--objects", "--no-object-names", self.commit, "--"];
        let wanted = self.git(&list, b"", &lent)?;
        let packs = folder.join("objects/pack");
        let name =
            self.git_path(&["pack-objects", "--quiet", "--window=0"], &packs.join("pack"), &wanted, &lent)?;
        if !is_own {
            let pack = packs.join(format!("pack-{}.pack", lossy(name.trim_ascii())));
            for other in ["idx", "rev"] {
                let _ = fs::remove_file(pack.with_extension(other));
            }
            // Indexed again by content, as in the mirror.
            self.git_path(&["index-pack"], &pack, b"", &there)?;
        }
        self.git(&["read-tree", self.commit], b"", &there).map(|_| ())
    }

    /// Returns what lends git the objects of the workspace's repository for a copy in `folder`.
    fn lent_to(&self, folder: &Path) -> Result<Vec<(OsString, OsString)>, Error> {
        let objects = objects(self.workspace).ok_or_else(|| self.said("the workspace has no repository"))?;
        let mut lent = vec![(OBJECTS.into(), quoted(&objects))];
        if folder.join("shallow").exists() {
            lent.push(("GIT_SHALLOW_FILE".into(), folder.join("shallow").into()));
        }
        Ok(lent)
    }

    /// Returns the file that exists once the history of the commit is here; its lines are the commits at which
    /// it is cut off.
    pub(super) fn history_marker(&self) -> PathBuf {
        self.folder.join(format!("history-{}", self.commit))
    }

    fn has_whole_history(&self) -> bool {
        fs::metadata(self.history_marker()).is_ok_and(|found| found.len() == 0)
    }

    /// Merges two commits of the mirror. Returns whether they merged, and git's output with the tree and
    /// the files in conflict. If one side renamed a folder, files of the other side are not moved along.
    pub(super) fn merge_tree(&self, ours: &str, theirs: &str) -> Result<(bool, Vec<u8>), Error> {
        let words = ["-c", "merge.directoryRenames=false", "merge-tree", "--write-tree", "-z", "--name-only"];
        let args: Vec<OsString> =
            words.into_iter().chain(["--no-messages", ours, theirs]).map(OsString::from).collect();
        let ended = self.run(&args, b"", &[], HeadAndTail { head: LIST_MAX, tail: 0 }, USUAL, None)?;
        match ended.how {
            How::Exited(1) => Ok((false, ended.stdout.head)),
            _ => self.succeeded(&ended).map(|()| (true, ended.stdout.head)),
        }
    }

    /// Returns whether `older` is in the history of the commit, according to the workspace's repository.
    pub(super) fn is_ancestor(&self, older: &str) -> Result<bool, Error> {
        let objects = objects(self.workspace).ok_or_else(|| self.said("the workspace has no repository"))?;
        let lent = [(OBJECTS.into(), quoted(&objects))];
        let args = ["merge-base", "--is-ancestor", older, self.commit].map(OsString::from);
        let ended = self.run(&args, b"", &lent, HeadAndTail { head: 0, tail: COMPLAINT_MAX }, USUAL, None)?;
        match ended.how {
            How::Exited(1) => Ok(false),
            _ => self.succeeded(&ended).map(|()| true),
        }
    }

    /// Returns the commits since `since`, according to the workspace's repository.
    pub(super) fn log(&self, since: &str, paths: &[&str], most: usize) -> Result<Vec<String>, Error> {
        let objects = objects(self.workspace).ok_or_else(|| self.said("the workspace has no repository"))?;
        let lent = [(OBJECTS.into(), quoted(&objects))];
        let (most, range) = (format!("--max-count={most}"), format!("{since}..{}", self.commit));
        let words = ["log", "--no-merges", "--no-show-signature", "--format=%h %s", &most, &range, "--"];
        let args: Vec<&str> = words.iter().chain(paths).copied().collect();
        let more = [lent, [("GIT_LITERAL_PATHSPECS".into(), "1".into())]].concat();
        let told = self.git(&args, b"", &more)?;
        Ok(lossy(&told).lines().map(str::to_owned).collect())
    }

    fn is_here(&self) -> bool {
        self.marker().exists()
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    pub(super) fn commit(&self) -> &str {
        self.commit
    }

    pub(super) fn workspace(&self) -> &Path {
        self.workspace
    }

    /// Returns the environment that lends git the objects of the workspace's repository, and its shallow
    /// file.
    pub(super) fn lends(&self) -> Result<Vec<(OsString, OsString)>, Error> {
        let objects = objects(self.workspace).ok_or_else(|| self.said("the workspace has no repository"))?;
        let shallow = objects.parent().map(|repository| repository.join("shallow"));
        let cut_off =
            shallow.filter(|path| path.is_file()).map(|path| ("GIT_SHALLOW_FILE".into(), path.into()));
        Ok([(OBJECTS.into(), quoted(&objects))].into_iter().chain(cut_off).collect())
    }

    fn marker(&self) -> PathBuf {
        self.folder.join(format!("here-{}", self.commit))
    }

    /// Returns the objects that the mirror itself does not have.
    fn missing(&self, wanted: &[u8]) -> Result<Vec<u8>, Error> {
        let answers = self.git(&["cat-file", "--batch-check=%(objectname)", "--buffer"], wanted, &[])?;
        let lines = answers.split(|byte| *byte == b'\n');
        let missing = lines.filter_map(|line| line.strip_suffix(b" missing"));
        Ok(missing.flat_map(|id| [id, b"\n"].concat()).collect())
    }

    pub(super) fn git(
        &self,
        args: &[&str],
        stdin: &[u8],
        more: &[(OsString, OsString)],
    ) -> Result<Vec<u8>, Error> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        self.answered(&args, stdin, more)
    }

    /// Runs a git command that contacts another machine.
    pub(super) fn across(
        &self,
        args: &[&str],
        more: &[(OsString, OsString)],
        limit: Limit<'_>,
    ) -> Result<process::ProcessEnd, Error> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        self.run(&args, b"", more, ACROSS, limit, None)
    }

    pub(super) fn git_path(
        &self,
        args: &[&str],
        path: &Path,
        stdin: &[u8],
        more: &[(OsString, OsString)],
    ) -> Result<Vec<u8>, Error> {
        let args: Vec<OsString> = args.iter().map(OsString::from).chain([path.into()]).collect();
        self.answered(&args, stdin, more)
    }

    fn answered(
        &self,
        args: &[OsString],
        stdin: &[u8],
        more: &[(OsString, OsString)],
    ) -> Result<Vec<u8>, Error> {
        let ended = self.run(args, stdin, more, HeadAndTail { head: LIST_MAX, tail: 0 }, USUAL, None)?;
        self.succeeded(&ended)?;
        if !ended.stdout.is_whole() {
            return Err(self.said("the tree is too large"));
        }
        Ok(ended.stdout.head)
    }

    fn run(
        &self,
        args: &[OsString],
        stdin: &[u8],
        more: &[(OsString, OsString)],
        keep: HeadAndTail,
        limit: Limit<'_>,
        mut tee: process::Tee<'_>,
    ) -> Result<process::ProcessEnd, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let tag = format!("tree/{}/{}.", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let environment: Vec<_> = self.environment.iter().chain(more).cloned().collect();
        let settings = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            // git would read and trust both from the lent folder.
            "core.commitGraph=false",
            "core.multiPackIndex=false",
            "pack.useBitmaps=false",
            "pack.compression=1",
            "gc.auto=0",
            "maintenance.auto=false",
        ];
        let settings = settings.into_iter().flat_map(|setting| ["-c".into(), setting.into()]);
        let args: Vec<OsString> = settings.chain(args.iter().cloned()).collect();
        let mut each = |stream: Stream, bytes: &[u8]| {
            if let Some(tee) = &mut tee {
                tee(stream, bytes);
            }
        };
        process::run(Spawn {
            program: OsStr::new("git"),
            args: &args,
            cwd: &self.folder,
            env: &environment,
            stdin,
            deadline: limit.deadline,
            grace: GRACE,
            keep,
            tag: &tag,
            stop: process::stop_flag(limit.stop),
            tee: Some(&mut each),
            bounds: None,
            enclosure: Enclosure::None,
        })
        .map_err(|source| match source {
            StartError::NotFound { .. } => Error::NoGit { commit: self.commit.to_owned() },
            source => Error::NotStarted { source },
        })
    }

    fn succeeded(&self, ended: &process::ProcessEnd) -> Result<(), Error> {
        let complaint = [&ended.stderr.head[..], &ended.stderr.tail].concat();
        let complaint = &complaint[..complaint.len().min(COMPLAINT_MAX)];
        match ended.how {
            How::Exited(0) => Ok(()),
            How::TimedOut | How::OverBounds(_) => Err(self.said("git did not finish")),
            How::Exited(_) | How::Signalled(_) | How::Stopped => Err(self.said(lossy(complaint).trim())),
        }
    }

    pub(super) fn said(&self, said: &str) -> Error {
        Error::Git { commit: self.commit.to_owned(), said: said.to_owned() }
    }
}

/// Returns an environment for git without the user's settings, without prompts and without lazy fetches.
fn environment(workspace: &Path, folder: &Path) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_GRAFT_FILE", "/dev/null"),
        ("GIT_ALLOW_PROTOCOL", ""),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("LC_ALL", "C"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    environment.push(("GIT_DIR".into(), folder.into()));
    environment.push(("HOME".into(), folder.into()));
    environment.push(("PATH".into(), path(workspace)));
    environment
}

/// Returns provost's own `PATH` without folders that an agent can write.
fn path(workspace: &Path) -> OsString {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let workspace = real(workspace);
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let kept = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute() && !real(folder).starts_with(&workspace));
    std::env::join_paths(kept).unwrap_or_else(|_| "/usr/bin:/bin".into())
}

/// Returns the object folder of a checkout's repository. `.git` may be a file that names a folder, and that
/// folder may share its objects with others. An agent may redirect this path, but only objects whose names
/// match their content can be used.
pub(super) fn objects(workspace: &Path) -> Option<PathBuf> {
    let git = workspace.join(".git");
    let own = if git.is_dir() {
        git
    } else {
        workspace.join(OsStr::from_bytes(first_line(&git)?.strip_prefix(b"gitdir:")?.trim_ascii()))
    };
    let shared = match first_line(&own.join("commondir")) {
        Some(relative) => own.join(OsStr::from_bytes(&relative)),
        None => own,
    };
    let objects = shared.join("objects");
    objects.is_dir().then_some(objects)
}

fn first_line(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    // Reading a pipe would block forever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(4096).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?.trim_ascii();
    (!line.is_empty()).then(|| line.to_vec())
}

/// Returns the variable that lends an object folder to git.
pub(super) fn lending(objects: &Path) -> (OsString, OsString) {
    (OBJECTS.into(), quoted(objects))
}

/// Quotes a path: git reads a list of folders here, and the name may contain a colon.
fn quoted(path: &Path) -> OsString {
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}
