//! Proofs of verdicts, signed with provost's own key and kept beside the log.
//!
//! Proofs are made from the log when a run stops: one per passed step, and one for the plan with the head of
//! its log. A hash chain without a key can be rebuilt, so the log is also compared with the proofs: one that
//! does not fit means that the log was changed.
//!
//! **Invariant:** a proof states only what is in the log, and no proof is replaced by a different one about
//! the same event.

use std::fs;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::proof::{Doubt, Envelope, ProofKey, ProofStatement, PublicKey, ssh};
use provost_core::state::run::Run;
use provost_store::{Log, Query};

use crate::Error;

mod witness;

use witness::Witness;

/// Paths of the key and the proofs of a state folder.
pub struct Prover {
    folder: PathBuf,
    file: PathBuf,
    /// A key of the user that also signs.
    ssh_key: Option<PathBuf>,
}

impl Prover {
    pub fn new(state: &Path, plan: &PlanId, ssh_key: Option<&Path>) -> Self {
        let file = state.join("proofs").join(format!("{plan}.jsonl"));
        Self { folder: state.to_owned(), file, ssh_key: ssh_key.map(Path::to_owned) }
    }

    /// Returns the user's own key, if one is to sign too.
    fn second(&self) -> Result<Option<ProofKey>, Error> {
        let Some(path) = &self.ssh_key else { return Ok(None) };
        let text = fs::read_to_string(path).map_err(|source| Error::Io {
            what: "read the ssh key",
            path: path.clone(),
            source,
        })?;
        let key = ssh::private(&text).map_err(|why| Error::SshKey { path: path.clone(), why })?;
        Ok(Some(key))
    }

    /// Returns the file with the plan's envelopes, one per line.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the public key, if there is one yet.
    pub fn public_key(&self) -> Option<PublicKey> {
        PublicKey::read(&fs::read_to_string(self.folder.join("key.pub")).ok()?).ok()
    }

    /// Compares every proof with the log. Returns one line per finding; none means that all fit.
    pub fn check(&self, log: &dyn Log, plan: &PlanId) -> Result<Vec<String>, Error> {
        let Ok(text) = fs::read_to_string(&self.file) else { return Ok(Vec::new()) };
        let Some(key) = self.public_key() else {
            return Ok(vec!["there are proofs, but the key that signed them is missing".to_owned()]);
        };
        let mut findings = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if let Err(why) = self.fits(&key, line, log, plan)? {
                findings.push(format!("proof {}: {why}", index + 1));
            }
        }
        Ok(findings)
    }

    /// Returns whether a valid proof says that the plan is done with this revision and this tree.
    pub fn vouches(&self, revision: &str, tree: &str) -> bool {
        let (Ok(text), Some(key)) = (fs::read_to_string(&self.file), self.public_key()) else { return false };
        let opened = text.lines().filter_map(|line| key.open(&Envelope::read(line).ok()?).ok());
        let mut done = opened.filter(|statement| {
            let predicate = &statement.predicate;
            predicate["step"].is_null() && predicate["stage"] == "done" && predicate["revision"] == revision
        });
        done.any(|statement| statement.subject.iter().any(|subject| subject.digest.sha256 == tree))
    }

    fn fits(
        &self,
        key: &PublicKey,
        line: &str,
        log: &dyn Log,
        plan: &PlanId,
    ) -> Result<Result<(), String>, Error> {
        let statement = match Envelope::read(line).and_then(|envelope| key.open(&envelope)) {
            Ok(statement) => statement,
            Err(doubt) => return Ok(Err(doubt.to_string())),
        };
        let seq = statement.predicate["log"]["seq"].as_u64().unwrap_or(0);
        let hash = statement.predicate["log"]["hash"].as_str().unwrap_or_default().to_owned();
        let mut found = None;
        let query = Query { after_seq: Some(seq.saturating_sub(1)), limit: Some(1), ..Query::plan(plan) };
        log.read(&query, &mut |sealed| {
            found = Some(sealed);
            ControlFlow::Break(())
        })?;
        Ok(match found {
            Some(sealed) if sealed.seq == seq && sealed.hash.to_string() == hash => Ok(()),
            Some(sealed) if sealed.seq == seq => {
                Err(format!("event {seq} of the log differs from the one in the proof"))
            }
            _ => Err(format!("event {seq} is in the proof but not in the log")),
        })
    }

    /// Starts new proofs; they cover the events that are passed to it, from the first one on.
    pub fn begin(&self, secret: &KeySeed) -> Result<ProofWriter, Error> {
        let folder = self.folder.join("proofs");
        let next = self.file.with_extension("next");
        let io = |source| Error::Io { what: "write the proofs", path: next.clone(), source };
        fs::create_dir_all(&folder).map_err(io)?;
        // A process that lost the lease may still have the last file open.
        let _ = fs::remove_file(&next);
        let file = BufWriter::new(fs::File::create(&next).map_err(io)?);
        let (key, second, place) = (secret.key(), self.second()?, self.file.clone());
        Ok(ProofWriter { key, second, file, next, place, witness: Witness::default(), failed: None })
    }

    /// Signs a statement that is kept elsewhere.
    pub fn seal(&self, statement: &ProofStatement) -> Result<String, Error> {
        Ok(line(&sealed(&self.secret()?.key(), self.second()?.as_ref(), statement)))
    }

    /// Returns provost's key, made on first use. Refuses a key that does not fit its public half or what it
    /// signed.
    pub fn secret(&self) -> Result<KeySeed, Error> {
        let other = |why| Error::OtherKey { folder: self.folder.clone(), why };
        let is_made = self.public_key().is_some() && self.secret_if_any()?.is_some();
        // Processes that start at the same time must make one key, and none may read half of it.
        let _lock = if is_made { None } else { Some(self.lock()?) };
        let public = self.public_key();
        let secret = match self.secret_if_any()? {
            Some(secret) => secret,
            None if public.is_some() => return Err(other("it is missing, but its public key is there")),
            None if self.a_proof().is_some() => {
                return Err(other("it is missing, but proofs that it signed are there"));
            }
            None => KeySeed::make(&self.folder.join("key"))?,
        };
        let own = secret.key().public();
        match public {
            Some(public) if public != own => return Err(other("its public key belongs to another key")),
            Some(_) => {}
            None => secret.publish(&self.folder)?,
        }
        let fits = |line: &str| Envelope::read(line).and_then(|envelope| own.open(&envelope)).is_ok();
        match self.a_proof() {
            Some(line) if !fits(&line) => Err(other("the proofs beside it were signed with another key")),
            _ => Ok(secret),
        }
    }

    /// Locks the folder until the returned file is dropped.
    fn lock(&self) -> Result<fs::File, Error> {
        let io = |source| Error::Io { what: "lock", path: self.folder.clone(), source };
        let folder = fs::File::open(&self.folder).map_err(io)?;
        folder.lock().map_err(io)?;
        Ok(folder)
    }

    pub fn secret_if_any(&self) -> Result<Option<KeySeed>, Error> {
        let path = self.folder.join("key");
        let mut seed = [0; 32];
        match fs::File::open(&path).and_then(|mut file| file.read_exact(&mut seed)) {
            Ok(()) => Ok(Some(KeySeed(seed))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { what: "read the key", path, source }),
        }
    }

    /// Returns the first line of this plan's proofs, or of another plan's.
    fn a_proof(&self) -> Option<String> {
        let first = |path: &Path| {
            let mut line = String::new();
            BufReader::new(fs::File::open(path).ok()?).read_line(&mut line).ok()?;
            (!line.trim().is_empty()).then_some(line)
        };
        let others = || {
            let entries = fs::read_dir(self.folder.join("proofs")).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).find_map(|path| {
                if path.extension().is_some_and(|kind| kind == "jsonl") { first(&path) } else { None }
            })
        };
        first(&self.file).or_else(others)
    }
}

/// Secret seed of a key. A run keeps the one it started with, even if the file changes.
#[derive(Clone)]
pub struct KeySeed([u8; 32]);

impl KeySeed {
    fn make(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { what: "make the key", path: path.to_owned(), source };
        let mut seed = [0; 32];
        fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut seed)).map_err(io)?;
        // The hard link makes the file appear whole, even if this process is killed, and never replaces
        // another.
        let fresh = path.with_extension(std::process::id().to_string());
        private(&fresh, &seed).and_then(|()| fs::hard_link(&fresh, path)).map_err(io)?;
        let _ = fs::remove_file(&fresh);
        Ok(Self(seed))
    }

    pub fn key(&self) -> ProofKey {
        ProofKey::new(&self.0)
    }

    fn public_text(&self) -> String {
        format!("{}\n", self.key().public())
    }

    fn publish(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join("key.pub");
        let written = fs::write(&path, self.public_text());
        written.map_err(|source| Error::Io { what: "write the public key", path, source })
    }
}

/// Writes a new file that only this user may read.
fn private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all())
}

/// Returns whether both halves of the key in the folder are unchanged.
pub fn is_kept(folder: &Path, secret: &KeySeed) -> bool {
    let same = |name, bytes: &[u8]| {
        let found = fs::File::open(folder.join(name)).and_then(|file| {
            let mut found = Vec::new();
            file.take(bytes.len() as u64 + 1).read_to_end(&mut found).map(|_| found)
        });
        found.is_ok_and(|found| found == bytes)
    };
    same("key", &secret.0) && same("key.pub", secret.public_text().as_bytes())
}

/// Restores both halves. They replace existing files instead of writing into them, because these may be
/// links.
pub fn put_back(folder: &Path, secret: &KeySeed) -> std::io::Result<()> {
    for (name, bytes) in [("key", &secret.0[..]), ("key.pub", secret.public_text().as_bytes())] {
        let fresh = folder.join(format!("{name}.next"));
        private(&fresh, bytes)?;
        fs::rename(&fresh, folder.join(name))?;
    }
    Ok(())
}

/// Proofs being written: one line for every passed step, and the plan's own at the end.
pub struct ProofWriter {
    key: ProofKey,
    second: Option<ProofKey>,
    file: BufWriter<fs::File>,
    next: PathBuf,
    place: PathBuf,
    witness: Witness,
    failed: Option<std::io::Error>,
}

impl ProofWriter {
    pub fn hear(&mut self, run: &Run, sealed: &SealedEvent, event: &Event) {
        if let Some(statement) = self.witness.hear(run, sealed, event) {
            self.write(&statement);
        }
    }

    fn write(&mut self, statement: &ProofStatement) {
        if self.failed.is_none() {
            let envelope = sealed(&self.key, self.second.as_ref(), statement);
            self.failed = self.file.write_all(line(&envelope).as_bytes()).err();
        }
    }

    /// Ends the proofs of a run that stopped normally; they replace the previous ones.
    pub fn finish(mut self, run: &Run) -> Result<(), Error> {
        if let Some(statement) = self.witness.plan(run) {
            self.write(&statement);
        }
        self.put_in_place()
    }

    /// Ends the proofs of an aborted run: they cover what it knew to be in the log, and nothing after it.
    pub fn stop(mut self) -> Result<(), Error> {
        if let Some(statement) = self.witness.stopped() {
            self.write(&statement);
        }
        self.put_in_place()
    }

    fn put_in_place(mut self) -> Result<(), Error> {
        let written = self.failed.take().map_or_else(|| self.file.flush(), Err);
        written.and_then(|()| fs::rename(&self.next, &self.place)).map_err(|source| Error::Io {
            what: "write the proofs",
            path: self.place.clone(),
            source,
        })
    }
}

/// Opens one envelope with only a public key.
pub fn open(envelope: &str, key: &str) -> Result<ProofStatement, Doubt> {
    PublicKey::read(key)?.open(&Envelope::read(envelope)?)
}

fn sealed(key: &ProofKey, second: Option<&ProofKey>, statement: &ProofStatement) -> Envelope {
    let mut envelope = key.seal(statement);
    if let Some(second) = second {
        second.also_seal(&mut envelope);
    }
    envelope
}

fn line(envelope: &Envelope) -> String {
    format!("{}\n", serde_json::to_value(envelope).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_begin_at_once_have_the_same_key() {
        for _ in 0..20 {
            let state = tempfile::tempdir().unwrap();
            let begin = std::sync::Barrier::new(8);
            let keys: Vec<PublicKey> = std::thread::scope(|scope| {
                let made = (0..8).map(|_| {
                    scope.spawn(|| {
                        let prover = Prover::new(state.path(), &PlanId("plan".to_owned()), None);
                        begin.wait();
                        prover.secret().unwrap().key().public()
                    })
                });
                let made: Vec<_> = made.collect();
                made.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| *key == keys[0]));
        }
    }
}
