//! The context a plan runs in: its files, its configuration, its secrets.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::language::parse;
use provost_core::model::approved_spec::{self, Law};
use provost_core::model::chain::PlanId;
use provost_core::model::event::Event;
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use provost_core::redact::Redactor;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::state::run::Run;
use provost_host::check::judge;
use provost_host::config;
use provost_host::config::Config;
use provost_host::plans::plan_file::{self, PlanFileStamp, PlanPlace};

use crate::Error;

pub struct PlanContext {
    pub place: PlanPlace,
    pub id: PlanId,
    pub config: Config,
    pub redactor: Redactor,
    /// Command that starts the scripted agent: this program with a hidden subcommand.
    pub launcher: Vec<OsString>,
    /// Environment given to provost, including the keys that agents need.
    pub environment: Vec<(OsString, OsString)>,
    /// The same environment without the secrets of checks; agents get this one.
    pub agents_environment: Vec<(OsString, OsString)>,
    pub stop: Arc<AtomicBool>,
    /// Stamp of the plan file when it was last read, with the digest of its spec.
    lawful: Mutex<Option<(PlanFileStamp, Hash)>>,
    caches: OnceLock<Vec<String>>,
}

impl PlanContext {
    pub fn new(
        place: PlanPlace,
        config: Config,
        redactor: Redactor,
        launcher: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let id = plan_file::id(&place);
        let is_kept = |name: &OsString| config.verify.secrets.iter().any(|secret| name == secret.as_str());
        let agents_environment = environment.iter().filter(|(name, _)| !is_kept(name)).cloned().collect();
        let (lawful, caches) = (Mutex::new(None), OnceLock::new());
        Self { place, id, config, redactor, launcher, environment, agents_environment, stop, lawful, caches }
    }

    /// Returns the folders of the workspace that checks see as they were before any agent ran: those that
    /// the configuration names, and environments with programs, such as `.venv`.
    pub fn caches(&self) -> &[String] {
        self.caches.get_or_init(|| {
            let mut caches = self.config.verify.caches.clone();
            let tools = judge::kept_in_workspace(&self.place.workspace).into_iter();
            caches.extend(tools.filter(|tool| !self.config.verify.caches.contains(tool)));
            caches
        })
    }

    /// Returns whether a person has asked provost to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the events without secrets.
    pub fn redacted(&self, events: Vec<Event>) -> Vec<Event> {
        events.into_iter().map(|event| self.redactor.event(event)).collect()
    }

    /// Remembers that the plan file has this spec; it is not read again until its stamp changes.
    pub fn now_lawful(&self, stamp: PlanFileStamp, law: Option<Hash>) {
        let mut lawful = self.lawful.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *lawful = law.map(|law| (stamp, law));
    }

    /// Returns whether the plan file is unchanged since it was found to have the wanted spec.
    pub fn is_lawful(&self, stamp: PlanFileStamp, wanted: Option<Hash>) -> bool {
        let lawful = *self.lawful.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        lawful.is_some_and(|(known, law)| known == stamp && wanted == Some(law))
    }

    /// Returns the differences between the plan file and the approved spec, or `None` if there are none.
    pub fn law_changes(&self, run: &Run) -> Option<Vec<String>> {
        match plan_file::stamp(&self.place.path) {
            Ok(stamp) if self.is_lawful(stamp, run.law) => return None,
            Ok(_) => {}
            Err(error) => return Some(vec![error.to_string()]),
        }
        let found = match plan_file::read(&self.place.path) {
            Ok(found) => found,
            Err(error) => return Some(vec![error.to_string()]),
        };
        let text = String::from_utf8_lossy(&found.bytes);
        if run.has_spec(&text) {
            self.now_lawful(found.stamp, run.law);
            return None;
        }
        let plan = parse::plan(&text).plan;
        let approved = Law { text: &run.text, plan: &run.plan, binding: None };
        Some(approved_spec::diff(approved, Law { text: &text, plan: &plan, binding: None }))
    }
}

/// Returns the recipes that apply in a folder, by the configuration found from there upwards.
pub fn recipes(folder: &Path) -> Result<Recipes, Error> {
    Ok(config::find(folder)?.recipes)
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as u64)
}
