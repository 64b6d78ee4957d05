//! What is known of the place a plan is run in: its files, its configuration, its secrets.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::language::parse;
use provost_core::model::approved_spec::{self, Law};
use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use provost_core::redact::Redactor;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::state::run::Run;
use provost_host::config::Config;
use provost_host::plan_file::{PlanPlace, Stamp};
use provost_host::{config, plan_file};

use crate::Error;

pub struct Site {
    pub place: PlanPlace,
    pub id: PlanId,
    pub config: Config,
    pub redactor: Redactor,
    /// How the scripted agent is started: this program with a hidden subcommand.
    pub launcher: Vec<OsString>,
    /// What the harness was given, with the keys that agents need.
    pub environment: Vec<(OsString, OsString)>,
    /// The same without the secrets of checks: what an agent gets.
    pub agents_environment: Vec<(OsString, OsString)>,
    pub stop: Arc<AtomicBool>,
    /// The plan file as it was when its law was last found to be this one.
    lawful: Mutex<Option<(Stamp, Hash)>>,
}

impl Site {
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
        let lawful = Mutex::new(None);
        Self { place, id, config, redactor, launcher, environment, agents_environment, stop, lawful }
    }

    /// The plan file holds the run's law: no need to read it again until it moves.
    pub fn now_lawful(&self, stamp: Stamp, law: Option<Hash>) {
        let mut lawful = self.lawful.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *lawful = law.map(|law| (stamp, law));
    }

    /// The plan file has not moved since it was found to hold the run's law.
    pub fn is_lawful(&self, stamp: Stamp, wanted: Option<Hash>) -> bool {
        let lawful = *self.lawful.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        lawful.is_some_and(|(known, law)| known == stamp && wanted == Some(law))
    }

    /// What differs between the plan file and the approved law, if anything does.
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
        let plan = parse::plan(&text).plan;
        if run.law == Some(approved_spec::digest(&text, &plan)) {
            self.now_lawful(found.stamp, run.law);
            return None;
        }
        let approved = Law { text: &run.text, plan: &run.plan, binding: None };
        Some(approved_spec::diff(approved, Law { text: &text, plan: &plan, binding: None }))
    }
}

/// The recipes that hold in a folder, by the configuration found from there upwards.
pub fn recipes(folder: &Path) -> Result<Recipes, Error> {
    Ok(config::find(folder)?.recipes)
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as u64)
}
