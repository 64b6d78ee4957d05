//! From the command line's words to an open harness: folder, state, plan, environment, interruption.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_engine::journal::log_locator;
use provost_engine::plan::harness::Harness;
use provost_engine::settings::{Access, EngineSettings};
use provost_engine::workplace::Workplace;

use crate::failure::Failure;
use crate::{hardening, hints};

/// Heading of these options in a help; they come last.
const GLOBAL: &str = "Global options";

/// The options every command has.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Global {
    /// Work in this folder instead of the current one
    #[arg(short = 'C', long = "dir", global = true, help_heading = GLOBAL, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep the log in this folder [default: the user's state folder]
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "PROVOST_STATE",
        value_name = "DIR",
        hide_env_values = true
    )]
    pub state: Option<PathBuf>,
    /// Print JSON for programs: one document, or one object per line
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
}

/// The words of a command that is about a plan, or about one step of it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PlanWords {
    /// Path or name of the plan [default: the active plan]; a number alone is a step of the active plan
    plan: Option<String>,
    /// Number of the step
    step: Option<u32>,
}

impl PlanWords {
    /// Returns the plan and the step that are meant.
    pub(crate) fn meant(&self) -> (Option<&str>, Option<StepNumber>) {
        let word = self.plan.as_deref();
        match (word.and_then(|word| word.parse().ok()), self.step) {
            (Some(step), None) => (None, Some(StepNumber(step))),
            (_, step) => (word, step.map(StepNumber)),
        }
    }
}

impl Global {
    pub(crate) fn open(&self, plan: Option<&str>, access: Access) -> Result<Harness, Failure> {
        self.keep_for_hints(plan);
        Ok(Harness::open(self.settings(plan)?, access)?)
    }

    /// Keeps the plan that this command is about and the options that were typed, for hints.
    pub(crate) fn keep_for_hints(&self, plan: Option<&str>) {
        hints::keep(self.dir.as_deref(), self.state.as_deref(), plan);
    }

    /// A harness for a plan that is not there yet.
    pub(crate) fn upcoming(&self, name: &str) -> Result<Harness, Failure> {
        Ok(Harness::upcoming(self.settings(Some(name))?)?)
    }

    pub(crate) fn settings(&self, plan: Option<&str>) -> Result<EngineSettings, Failure> {
        Ok(EngineSettings { stop: stop_flag(), ..self.settings_without_signals(plan)? })
    }

    /// The same for a command that handles signals itself.
    pub(crate) fn settings_without_signals(&self, plan: Option<&str>) -> Result<EngineSettings, Failure> {
        let mut environment = hardening::environment();
        let state = match &self.state {
            Some(folder) => folder.clone(),
            None => provost_engine::settings::state_folder(&environment)?,
        };
        provost_engine::trust::use_state(&state);
        log_locator::keep_the_keys(&state, &mut environment)?;
        let workplace = workplace(&state, &mut environment);
        let program = std::env::current_exe()
            .map_err(|source| Failure::Io { what: "find this program's own file".to_owned(), source })?;
        Ok(EngineSettings {
            cwd: self.cwd()?,
            state,
            plan: plan.map(str::to_owned),
            launcher: vec![program.into(), "scripted-agent".into()],
            stop: Arc::default(),
            environment,
            workplace,
        })
    }

    /// The folder the command is about.
    pub(crate) fn cwd(&self) -> Result<PathBuf, Failure> {
        let here = std::env::current_dir()
            .map_err(|source| Failure::Io { what: "find the current folder".to_owned(), source })?;
        let folder = match &self.dir {
            Some(dir) => here.join(dir),
            None => here,
        };
        if folder.is_dir() {
            Ok(folder)
        } else {
            Err(Failure::Usage { message: format!("{} is not a folder", folder.display()), hint: None })
        }
    }
}

/// Returns where agents work. Credentials of the workers' git remote leave the environment of agents.
#[cfg(feature = "cluster")]
fn workplace(state: &Path, environment: &mut Vec<(OsString, OsString)>) -> Arc<dyn Workplace> {
    provost_dbos::remote::keep_the_keys(state, environment);
    provost_dbos::remote_base::workplace()
}

/// Returns where agents work. This build has no use for the token of the workers' git remote, and no agent gets it.
#[cfg(not(feature = "cluster"))]
fn workplace(_state: &Path, environment: &mut Vec<(OsString, OsString)>) -> Arc<dyn Workplace> {
    environment.retain(|(name, _)| name != "PROVOST_REMOTE_TOKEN");
    Arc::new(provost_engine::workplace::LocalWorkplace)
}

/// The first interruption asks the harness to stop and put things in order; the second ends it.
fn stop_flag() -> Arc<AtomicBool> {
    static FLAG: std::sync::OnceLock<Arc<AtomicBool>> = std::sync::OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone());
            let _ = signal_hook::flag::register(signal, flag.clone());
        }
        flag
    });
    flag.clone()
}

/// A file without any step that the log has never seen is some other file.
pub(crate) fn is_a_plan(harness: &Harness, run: &Run) -> Result<(), Failure> {
    if !run.plan.steps.is_empty() || run.forged_from.is_some() || harness.run()?.exists() {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{} is not a plan: it has no steps", harness.place().path.display()),
        "`provost verify` shows what is wrong with it; `provost new NAME` creates a plan.",
    ))
}
