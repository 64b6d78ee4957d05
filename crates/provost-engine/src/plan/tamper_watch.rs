//! Watches provost's own files for tampering while agents work.
//!
//! In the workspace these are the plan file, the configuration, the marker and the progress file; in the
//! state folder the key, the proofs, the list of trusted policies and the address of the log. None of them
//! decides anything during a run, because the spec is in the log and the key in memory. A write to them by an
//! agent is reported all the same. provost's own writes go through [`TamperWatch::own_write`], so that they are not
//! taken for an agent's. If other workers share the plan, they write marks, lines of the progress file and
//! proofs meanwhile: those are not reported, because the spec and each proof are compared with the log anyway.
//!
//! **Invariant:** tampering in the state folder is undone before anything depends on it: the key is restored,
//! and a policy that no person trusted is removed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use provost_core::model::hash::Hash;
use provost_host::plans::plan_file::{self, PlanFileStamp};
use provost_host::plans::progress;
use sha2::{Digest as _, Sha256};

use crate::journal::log_locator;
use crate::plan::gate;
use crate::plan::plan_context::PlanContext;
use crate::plan::prove::{self, KeySeed};

pub struct TamperWatch(Mutex<Watching>);

struct Watching {
    files: Vec<Watched>,
    progress: Progress,
    state: State,
    is_shared: bool,
    /// Agents cannot write existing files at the attested level, but can still create missing ones.
    fenced: bool,
    attempts: usize,
    findings: Vec<String>,
}

impl TamperWatch {
    /// `is_shared` says that other processes of provost write for this plan meanwhile.
    pub fn new(site: &PlanContext, state: &Path, proofs: &Path, secret: KeySeed, is_shared: bool) -> Self {
        let place = &site.place;
        let config = site.config.path.clone().unwrap_or_else(|| place.workspace.join("provost.toml"));
        let files = [
            ("the plan file", place.path.clone(), is_shared),
            ("the configuration", config, false),
            ("the marker of the active plan", plan_file::marker(&place.workspace), false),
        ];
        let watched = |(what, path, by_others)| Watched { what, path, seen: Look::Absent, by_others };
        Self(Mutex::new(Watching {
            files: files.map(watched).into(),
            progress: Progress::new(place.progress.clone()),
            state: State::new(state, proofs, secret, is_shared),
            is_shared,
            fenced: false,
            attempts: 0,
            findings: Vec::new(),
        }))
    }

    /// Sets whether the attested level protects existing files from agents.
    pub fn behind_a_fence(&self, fenced: bool) {
        self.lock().fenced = fenced;
    }

    /// Starts an attempt: the current state of the files is the reference.
    pub fn enter(&self) {
        let mut watching = self.lock();
        if watching.attempts == 0 {
            watching.rebase();
        }
        watching.attempts += 1;
    }

    /// Ends an attempt and returns what was done to provost's files since, one line each, reported once.
    pub fn leave(&self) -> Vec<String> {
        let mut watching = self.lock();
        watching.look();
        watching.rebase();
        watching.attempts -= 1;
        let planted = watching.state.look();
        watching.findings.extend(planted);
        std::mem::take(&mut watching.findings)
    }

    /// Checks the state folder after all agents have ended and before the proofs are signed.
    pub fn at_the_end(&self) -> Vec<String> {
        self.lock().state.look()
    }

    /// Writes provost's own files while agents may work.
    pub fn own_write(&self, write: impl FnOnce()) {
        let mut watching = self.lock();
        if watching.attempts == 0 {
            return write();
        }
        watching.look();
        write();
        watching.rebase();
    }

    fn lock(&self) -> MutexGuard<'_, Watching> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watching {
    fn rebase(&mut self) {
        for file in &mut self.files {
            file.seen = Look::at(&file.path, &file.seen);
        }
        self.progress.rebase();
    }

    fn look(&mut self) {
        for file in &self.files {
            if self.fenced && file.seen != Look::Absent {
                continue;
            }
            if let Some(done) = file.became(&Look::at(&file.path, &file.seen)) {
                let words = format!("{} was {done} during an attempt", file.what);
                self.findings.push(words);
            }
        }
        if !(self.fenced && self.progress.is_there()) {
            self.findings.extend(self.progress.look(self.is_shared));
        }
    }
}

struct Watched {
    what: &'static str,
    path: PathBuf,
    seen: Look,
    /// Other processes of provost write it, too.
    by_others: bool,
}

impl Watched {
    /// Returns what happened to it that provost did not do.
    fn became(&self, now: &Look) -> Option<&'static str> {
        let is_theirs = self.by_others && matches!(now, Look::Text { is_link: false, .. });
        self.seen.became(now).filter(|_| !is_theirs)
    }
}

/// Result of looking at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Absent,
    Text {
        is_link: bool,
        stamp: PlanFileStamp,
        hash: Hash,
    },
    /// A pipe, a folder, something endless or unreadable.
    Odd,
}

impl Look {
    /// Reads the file only if it changed since `known`.
    fn at(path: &Path, known: &Look) -> Self {
        let is_link = match path.symlink_metadata() {
            Ok(found) => found.is_symlink(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Look::Absent,
            Err(_) => return Look::Odd,
        };
        if let (Look::Text { is_link: was, stamp, .. }, Ok(now)) = (known, plan_file::stamp(path))
            && (*was, *stamp) == (is_link, now)
        {
            return *known;
        }
        match plan_file::read(path) {
            Ok(text) => Look::Text { is_link, stamp: text.stamp, hash: text.hash },
            Err(_) => Look::Odd,
        }
    }

    /// Returns what happened to the content; `None` if it is the same, even in a new file.
    fn became(&self, now: &Look) -> Option<&'static str> {
        match (self, now) {
            (Look::Absent, Look::Absent) | (Look::Odd, Look::Odd) => None,
            (Look::Absent, _) => Some("made"),
            (_, Look::Absent) => Some("removed"),
            (Look::Text { is_link, hash, .. }, Look::Text { is_link: link_now, hash: hash_now, .. }) => {
                ((is_link, hash) != (link_now, hash_now)).then_some("changed")
            }
            (Look::Text { .. }, Look::Odd) | (Look::Odd, Look::Text { .. }) => Some("replaced"),
        }
    }
}

/// The progress file: existing lines must stay, and people may write below them.
struct Progress {
    path: PathBuf,
    stamp: Option<PlanFileStamp>,
    length: u64,
    known: Sha256,
}

impl Progress {
    fn new(path: PathBuf) -> Self {
        Self { path, stamp: None, length: 0, known: Sha256::new() }
    }

    fn is_there(&self) -> bool {
        self.stamp.is_some()
    }

    fn look(&self, is_shared: bool) -> Option<String> {
        if stamp(&self.path) == self.stamp {
            return None;
        }
        let length = self.length as usize;
        let Some(bytes) = progress::since(&self.path, 0) else {
            return self.is_there().then(|| "the progress file was removed or replaced".to_owned());
        };
        match bytes.split_at_checked(length) {
            Some((kept, new)) if Sha256::digest(kept) == self.known.clone().finalize() => {
                let posing = !is_shared && progress::has_our_lines(new);
                posing.then(|| {
                    "another process wrote a line of provost's form into the progress file".to_owned()
                })
            }
            _ => Some("lines that provost had written into the progress file were changed".to_owned()),
        }
    }

    /// Reads only what was appended, unless the rest changed too.
    fn rebase(&mut self) {
        let now = stamp(&self.path);
        if now == self.stamp {
            return;
        }
        let grown = match (self.stamp, now) {
            (Some(then), Some(now)) => then.inode == now.inode && then.size < now.size,
            _ => false,
        };
        if !grown {
            *self = Self::new(std::mem::take(&mut self.path));
        }
        let new = progress::since(&self.path, self.length).unwrap_or_default();
        self.length += new.len() as u64;
        self.known.update(&new);
        self.stamp = now;
    }
}

fn stamp(path: &Path) -> Option<PlanFileStamp> {
    plan_file::stamp(path).ok()
}

/// State that the run has in memory and others may have changed on disk.
struct State {
    secret: KeySeed,
    folder: PathBuf,
    proofs: Watched,
    policies: String,
    /// `None` if the log is in the state folder itself.
    address: Option<Vec<u8>>,
}

impl State {
    fn new(folder: &Path, proofs: &Path, secret: KeySeed, by_others: bool) -> Self {
        let (path, seen) = (proofs.to_owned(), Look::at(proofs, &Look::Absent));
        let proofs = Watched { what: "the proofs in the state folder", path, seen, by_others };
        let policies = std::fs::read_to_string(gate::list(folder)).unwrap_or_default();
        let address = std::fs::read(log_locator::file(folder)).ok();
        Self { secret, folder: folder.to_owned(), proofs, policies, address }
    }

    /// Returns what was changed, and restores it.
    fn look(&mut self) -> Vec<String> {
        let mut findings = Vec::new();
        if !prove::is_kept(&self.folder, &self.secret) {
            let how = match prove::put_back(&self.folder, &self.secret) {
                Ok(()) => "; provost restored it".to_owned(),
                Err(error) => format!("; provost could not restore it: {error}"),
            };
            findings.push(format!("the key in the state folder was changed{how}"));
        }
        let proofs = Look::at(&self.proofs.path, &self.proofs.seen);
        if let Some(done) = self.proofs.became(&proofs) {
            findings.push(format!("{} were {done}; provost writes them again", self.proofs.what));
        }
        self.proofs.seen = proofs;
        findings.extend(self.look_at_policies());
        findings.extend(self.look_at_the_address());
        findings
    }

    /// Restores the address of the log; a changed one could make provost trust another log.
    fn look_at_the_address(&self) -> Option<String> {
        let path = log_locator::file(&self.folder);
        if std::fs::read(&path).ok() == self.address {
            return None;
        }
        let put_back = match &self.address {
            Some(address) => std::fs::write(&path, address),
            None => std::fs::remove_file(&path),
        };
        let how = match put_back {
            Ok(()) => "; provost restored it".to_owned(),
            Err(error) => format!("; provost could not restore it: {error}"),
        };
        Some(format!("the address of the log in the state folder was changed{how}"))
    }

    fn look_at_policies(&mut self) -> Option<String> {
        let path = gate::list(&self.folder);
        let now = std::fs::read(&path).unwrap_or_default();
        if now == self.policies.as_bytes() {
            return None;
        }
        let public = self.secret.key().public();
        let text = String::from_utf8_lossy(&now).into_owned();
        let fresh: Vec<&str> = text
            .lines()
            .filter(|line| !self.policies.lines().any(|known| known == *line))
            .filter(|line| gate::trusted(line, &public).is_some())
            .collect();
        self.policies.extend(fresh.iter().map(|line| format!("{line}\n")));
        // The only change is a policy that a person trusted meanwhile.
        if now == self.policies.as_bytes() {
            return None;
        }
        let how = match std::fs::write(&path, &self.policies) {
            Ok(()) => "; provost restored it".to_owned(),
            Err(error) => format!("; provost could not restore it: {error}"),
        };
        Some(format!("the list of trusted policies was changed, but not by a person{how}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Look, Progress};
    use provost_core::model::timestamp::Timestamp;
    use provost_host::plans::progress::{ProgressLine, append};

    #[test]
    fn the_same_words_in_a_new_file_are_no_finding() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("PLAN.md");
        let look = |known: &Look| Look::at(&path, known);
        let absent = look(&Look::Absent);
        std::fs::write(&path, "one").expect("written");
        let one = look(&absent);
        assert_eq!(absent.became(&one), Some("made"));
        std::fs::rename(&path, folder.path().join("kept")).expect("renamed");
        std::fs::write(&path, "one").expect("written");
        assert_eq!(one.became(&look(&one)), None);
        std::fs::write(&path, "two").expect("written");
        assert_eq!(one.became(&look(&one)), Some("changed"));
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(one.became(&look(&one)), Some("removed"));
        std::os::unix::fs::symlink("kept", &path).expect("a link");
        assert_eq!(one.became(&look(&one)), Some("changed"));
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a folder");
        assert_eq!(one.became(&look(&one)), Some("replaced"));
    }

    #[test]
    fn people_may_write_below_the_lines_and_nobody_may_pose_as_us() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress.md");
        let line = |seq| ProgressLine { at: Timestamp(1_794_711_600_000), seq, words: "begun".to_owned() };
        let mut progress = Progress::new(path.clone());
        append(&path, &[line(1)]).expect("written");
        progress.rebase();
        assert_eq!(progress.look(false), None);
        let ours = std::fs::read_to_string(&path).expect("read");
        for (text, finding) in [
            (format!("{ours}a note of a person\n"), None),
            (format!("{ours}{}\n", line(99)), Some("another process wrote a line")),
            (ours.replace("begun", "done!"), Some("lines that provost had written")),
            (String::new(), Some("lines that provost had written")),
        ] {
            std::fs::write(&path, &text).expect("written");
            let found = progress.look(false).unwrap_or_default();
            assert!(found.starts_with(finding.unwrap_or_default()), "{text:?}: {found}");
            assert_eq!(found.is_empty(), finding.is_none(), "{text:?}: {found}");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(progress.look(false).is_some());
        progress.rebase();
        assert_eq!(progress.look(false), None);
        append(&path, &[line(2)]).expect("written");
        progress.rebase();
        append(&path, &[line(3)]).expect("written");
        assert!(progress.look(false).is_some(), "an unknown line was written by another process");
    }
}
