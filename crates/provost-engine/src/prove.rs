//! Proofs of what was judged, signed with the harness's own key, beside the log.
//!
//! A proof is made from the log when a run comes to rest: one per passed step, and one for the plan
//! with the head of its log. Since a chain without a key can be built anew, the proofs are also what
//! the log is held against: one that does not fit means that the log was changed.
//!
//! **Invariant:** nothing is proved that the log does not say, and no proof that was given is replaced
//! by another about the same event.

use std::fs;
use std::io::{BufWriter, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use provost_core::chain::{PlanId, Sealed};
use provost_core::event::{Event, Subject as Judged};
use provost_core::plan::{Check, StepNumber};
use provost_core::proof::{Doubt, Envelope, Key, PublicKey, Statement, Subject};
use provost_core::run::Run;
use provost_core::verdict::Verdict;
use provost_store::{Log, Query};
use serde_json::{Value, json};

use crate::Error;

/// Where a state folder keeps its key and its proofs.
pub struct Prover {
    folder: PathBuf,
    file: PathBuf,
}

impl Prover {
    pub fn new(state: &Path, plan: &PlanId) -> Self {
        Self { folder: state.to_owned(), file: state.join("proofs").join(format!("{plan}.jsonl")) }
    }

    /// The file with the plan's envelopes, one a line.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The public key, if there is one yet.
    pub fn public_key(&self) -> Option<PublicKey> {
        PublicKey::read(&fs::read_to_string(self.folder.join("key.pub")).ok()?).ok()
    }

    /// Holds every proof against the log. The findings, a line each; none means that all fit.
    pub fn check(&self, log: &dyn Log, plan: &PlanId) -> Result<Vec<String>, Error> {
        let Ok(text) = fs::read_to_string(&self.file) else { return Ok(Vec::new()) };
        let Some(key) = self.public_key() else {
            return Ok(vec!["there are proofs, but the key they were made with is gone".to_owned()]);
        };
        let mut findings = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if let Err(why) = self.fits(&key, line, log, plan)? {
                findings.push(format!("proof {}: {why}", index + 1));
            }
        }
        Ok(findings)
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
                Err(format!("event {seq} of the log is not the one that was proved"))
            }
            _ => Err(format!("event {seq} was proved and is not in the log")),
        })
    }

    /// Proves what it hears of, from the first event on.
    pub fn begin(&self) -> Result<Proving, Error> {
        let key = self.key()?;
        let folder = self.folder.join("proofs");
        let next = self.file.with_extension("next");
        let io = |source| Error::Io { what: "write the proofs", path: next.clone(), source };
        fs::create_dir_all(&folder).map_err(io)?;
        let file = BufWriter::new(fs::File::create(&next).map_err(io)?);
        Ok(Proving { key, file, next, place: self.file.clone(), witness: Witness::default(), failed: None })
    }

    /// Signs a statement that is kept elsewhere.
    pub fn seal(&self, statement: &Statement) -> Result<String, Error> {
        Ok(line(&self.key()?.seal(statement)))
    }

    /// The harness's key, made on first use.
    fn key(&self) -> Result<Key, Error> {
        let path = self.folder.join("key");
        let io = |source| Error::Io { what: "read or make the key", path: path.clone(), source };
        let mut seed = [0; 32];
        match fs::File::open(&path) {
            Ok(mut file) => file.read_exact(&mut seed).map_err(io)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::File::open("/dev/urandom")
                    .and_then(|mut random| random.read_exact(&mut seed))
                    .map_err(io)?;
                let mut file = fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path)
                    .map_err(io)?;
                file.write_all(&seed).and_then(|()| file.sync_all()).map_err(io)?;
            }
            Err(error) => return Err(io(error)),
        }
        let key = Key::new(&seed);
        let public = self.folder.join("key.pub");
        if self.public_key().as_ref() != Some(&key.public()) {
            fs::write(&public, format!("{}\n", key.public())).map_err(|source| Error::Io {
                what: "write the public key",
                path: public,
                source,
            })?;
        }
        Ok(key)
    }
}

/// Proofs in the making: one line for every step that passes, and the plan's own at the end.
pub struct Proving {
    key: Key,
    file: BufWriter<fs::File>,
    next: PathBuf,
    place: PathBuf,
    witness: Witness,
    failed: Option<std::io::Error>,
}

impl Proving {
    pub fn hear(&mut self, run: &Run, sealed: &Sealed, event: &Event) {
        if let Some(statement) = self.witness.hear(run, sealed, event) {
            self.write(&statement);
        }
    }

    fn write(&mut self, statement: &Statement) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(line(&self.key.seal(statement)).as_bytes()).err();
        }
    }

    /// The run is at rest: the proofs take the place of the last ones.
    pub fn finish(mut self, run: &Run) -> Result<(), Error> {
        if let Some(statement) = self.witness.plan(run) {
            self.write(&statement);
        }
        let written = self.failed.take().map_or_else(|| self.file.flush(), Err);
        written.and_then(|()| fs::rename(&self.next, &self.place)).map_err(|source| Error::Io {
            what: "write the proofs",
            path: self.place.clone(),
            source,
        })
    }
}

/// Opens one envelope with nothing but a public key.
pub fn open(envelope: &str, key: &str) -> Result<Statement, Doubt> {
    PublicKey::read(key)?.open(&Envelope::read(envelope)?)
}

fn line(envelope: &Envelope) -> String {
    format!("{}\n", serde_json::to_value(envelope).unwrap_or_default())
}

/// Follows the log and says, where a step passes, what it rests on.
#[derive(Default)]
struct Witness {
    verdicts: std::collections::BTreeMap<StepNumber, Verdict>,
    attested: Value,
    head: Option<Sealed>,
}

impl Witness {
    fn hear(&mut self, run: &Run, sealed: &Sealed, event: &Event) -> Option<Statement> {
        self.head = Some(Sealed { details: String::new(), ..sealed.clone() });
        match event {
            Event::Judged { subject: Judged::Contract(step), verdict, .. } => {
                self.verdicts.insert(*step, verdict.clone());
                None
            }
            Event::IsolationAttested { .. } => {
                self.attested =
                    serde_json::to_value(event).map(|mut value| value["details"].take()).unwrap_or_default();
                None
            }
            Event::StepPassed { step, result, tree, .. } => {
                Some(self.step(run, sealed, *step, result, tree.as_deref()))
            }
            _ => None,
        }
    }

    fn step(
        &mut self,
        run: &Run,
        sealed: &Sealed,
        number: StepNumber,
        result: &str,
        tree: Option<&str>,
    ) -> Statement {
        let mut predicate = self.about(run, sealed);
        predicate["step"] = json!({ "number": number, "title": run.title(number) });
        predicate["contract"] = contract(run, number);
        predicate["verdict"] = json!(self.verdicts.remove(&number));
        predicate["result"] = json!(result);
        predicate["timestamp"] = json!(sealed.at.to_string());
        Statement::new(subjects(&sealed.hash.to_string(), tree), predicate)
    }

    /// The plan as it stands, with the head of its log.
    fn plan(&self, run: &Run) -> Option<Statement> {
        let head = self.head.as_ref()?;
        let mut predicate = self.about(run, head);
        predicate["stage"] = json!(run.stage.word());
        predicate["summary"] = json!(run.summary());
        Some(Statement::new(subjects(&head.hash.to_string(), run.tree.as_deref()), predicate))
    }

    fn about(&self, run: &Run, at: &Sealed) -> Value {
        json!({
            "plan": at.plan,
            "title": run.plan.title,
            "revision": run.revision,
            "base": run.binding.base,
            "approver": run.approved_by.as_ref().map(ToString::to_string),
            "isolation": self.attested,
            "log": { "seq": at.seq, "hash": at.hash.to_string() },
        })
    }
}

fn contract(run: &Run, number: StepNumber) -> Value {
    let contract = run.plan.step(number).and_then(|step| step.contract.as_ref());
    match contract.map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => {
            let expectations: Vec<String> = shell.expectations.iter().map(|e| e.value.to_string()).collect();
            json!({ "kind": "shell", "command": shell.command, "expectations": expectations })
        }
        Some(Check::Human) => json!({ "kind": "human" }),
        Some(Check::Judge { rubric }) => json!({ "kind": "judge", "rubric": rubric }),
        None => Value::Null,
    }
}

fn subjects(log: &str, tree: Option<&str>) -> Vec<Subject> {
    let mut subjects = vec![Subject::new("log", log)];
    subjects.extend(tree.map(|tree| Subject::new("tree", tree)));
    subjects
}
