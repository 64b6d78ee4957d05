//! Test support: a folder, a model, and a run with the standard tools.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_agent::agent::{Agent, AgentRun, Settings, Stop};
use provost_agent::builtin::{self, BuiltinOptions};
use provost_agent::call_log::CallLog;
use provost_agent::event::AgentEvent;
use provost_agent::plan_state::PlanHolder;
use provost_agent::provider::api::{Api, Dialect, Key};
use provost_agent::provider::{Patience, Provider};
use provost_agent::tool::Catalogue;
use provost_agent::tool::files::Workspace;
use provost_rehearsal::Rehearsal;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const KEY: &str = "sk-rehearsed-and-not-a-real-key";

/// The four APIs of the mock model.
pub(crate) const DIALECTS: [Dialect; 4] =
    [Dialect::Anthropic, Dialect::OpenAi, Dialect::Chat, Dialect::Gemini];

pub(crate) struct Stage {
    pub folder: TempDir,
    pub holder: PlanHolder,
    pub settings: Settings,
    pub stop: Stop,
    pub events: Arc<Mutex<Vec<AgentEvent>>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            holder: PlanHolder::default(),
            settings: Settings { patience: impatient(), ..Settings::default() },
            stop: Stop::default(),
            events: Arc::default(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("a file");
    }

    pub(crate) async fn run(&self, provider: &dyn Provider, task: &str) -> AgentRun {
        let ledger = CallLog::default();
        let workspace = Workspace::new(self.path()).expect("a workspace");
        let agent = Agent {
            provider,
            catalogue: Catalogue::standard(&workspace, &ledger).with_plan(&self.holder, &ledger),
            holder: self.holder.clone(),
            ledger,
            settings: self.settings.clone(),
        };
        let events = self.events.clone();
        agent.run(task, &self.stop, &mut move |event| events.lock().expect("events").push(event)).await
    }

    /// Runs the agent as its process does; returns its exit code and its report.
    pub(crate) fn perform(&self, model: &Rehearsal, options: BuiltinOptions) -> (i32, Value) {
        let options = BuiltinOptions {
            model: "rehearsed".to_owned(),
            provider: options.provider.or(Some("anthropic".to_owned())),
            base_url: Some(model.url()),
            ..options
        };
        let environment = |name: &str| (name == builtin::API_KEY).then(|| KEY.to_owned());
        let mut out = Vec::new();
        let code = builtin::perform(&options, "do it", self.path(), &environment, &mut out).expect("begun");
        let out = String::from_utf8(out).expect("text");
        (code, serde_json::from_str(out.lines().last().unwrap_or_default()).expect("a report"))
    }

    pub(crate) fn told(&self) -> Vec<AgentEvent> {
        self.events.lock().expect("events").clone()
    }
}

/// Retries as often as usual, but without pauses.
pub(crate) fn impatient() -> Patience {
    Patience { pauses: vec![Duration::from_millis(1); 4], longest: Duration::from_secs(2) }
}

pub(crate) fn api(dialect: Dialect, model: &Rehearsal) -> Api {
    Api::new(dialect, "rehearsed", Some(&model.url()), Key::new(KEY)).expect("a provider")
}
