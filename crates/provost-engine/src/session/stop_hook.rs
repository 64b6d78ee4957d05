//! Decides whether an external session may stop.
//!
//! The stop hook of a client that provost did not start asks here. What the log can answer is answered at
//! once. If checks are due, a separate provost process runs them, and the hook waits for it as long as the
//! client allows.
//!
//! **Invariant:** nothing here decides that a plan is done. A session that is released, for whatever reason,
//! leaves the log as it is, or a step that waits for a person.
//! **Invariant:** a plan that the session neither made nor took holds it only if the configuration says so.

use crate::journal;
use crate::run::run_plan;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use provost_core::model::chain::PlanId;
use provost_core::model::event::{Event, RunOutcome};
use provost_core::state::run::{PostState, Run, Stage};
use provost_core::text::hook_protocol::{HookAnswer, HookClient, HookQuestion, Moment};
use provost_core::text::prompt;
use provost_host::config::Hook;
use provost_host::plans::plan_file::{self, PlanChoice, PlanPlace};
use provost_host::{config, git, process};
use provost_store::{Error as StoreError, Log, Query};

use crate::Error;
use crate::observe::agenda;
use crate::plan::harness::Harness;
use crate::plan::plan_registry;
use crate::plan::sessions::{ClientIdentity, ClientSession, Sessions};
use crate::session::holding::{free, is_open};
use crate::session::session_turns::Turns;
use crate::settings::{Access, EngineSettings};

/// Hidden subcommand that runs the checks.
pub const COMMAND: &str = "hook-look";
/// Variable that names a session's plan.
pub const PLAN: &str = "PROVOST_PLAN";
/// File with failures of hooks, and its maximum size.
const FAILURES: &str = "hook-failures.txt";
const FAILURES_MAX: u64 = 64 * 1024;
/// Factor for combining progress and tool calls; larger than the number of tool calls of any session.
const TOOLS: u64 = 1_000_000;
/// Number of texts that count as one stop, if a client asks after each text.
const TEXTS: u32 = 10;
/// Interval at which the hook polls whether the checks are done.
const LOOK: Duration = Duration::from_millis(20);

/// Answers a client. `settings.plan` is the plan that was named, if one was.
pub fn asked(
    settings: EngineSettings,
    client: HookClient,
    asked: &HookQuestion,
) -> Result<HookAnswer, Error> {
    let gate = Gate::new(settings, client, asked);
    match asked.moment {
        Moment::Other => Ok(let_go("")),
        Moment::Begin => gate.begins(),
        Moment::Stop => gate.stops(),
    }
}

/// Runs the checks that are due for [`asked`], in a separate process.
pub fn look(harness: &Harness, client: &str) -> Result<(), Error> {
    let run = harness.run()?;
    if !is_open(&run) {
        return Ok(());
    }
    match run_plan::look(harness, client) {
        // Another process already runs them; the hook waits for that one too.
        Err(Error::Store(StoreError::LeaseHeld { .. })) => Ok(()),
        looked => looked.map(drop),
    }
}

fn let_go(words: impl Into<String>) -> HookAnswer {
    HookAnswer::LetGo { words: words.into() }
}

struct Gate {
    settings: EngineSettings,
    client: HookClient,
    session: ClientSession,
    sessions: Sessions,
    turns: Turns,
    tools: u64,
    /// A helper session, for example for titles: only a plan that was bound to it by name holds it.
    is_fleeting: bool,
}

/// The plan of a session, and how it was found.
struct Found {
    place: PlanPlace,
    id: PlanId,
    by: FoundBy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundBy {
    /// It was named for this session, or the session made or took it.
    Session,
    /// The marker of a linked worktree names it, which is there for this plan.
    Worktree,
    /// It is the active plan of the folder, where anything else may be done too.
    Folder,
}

impl Gate {
    fn new(settings: EngineSettings, client: HookClient, asked: &HookQuestion) -> Self {
        let cwd = settings.cwd.canonicalize().unwrap_or_else(|_| settings.cwd.clone());
        let workspace = git::top(&cwd).unwrap_or(cwd);
        Self {
            client,
            session: session(&settings, asked, &workspace),
            sessions: Sessions::new(&settings.state),
            turns: Turns::open(&settings.state, &workspace),
            tools: asked.tools,
            is_fleeting: asked.is_fleeting,
            settings,
        }
    }

    /// Tells a starting session about the plan it is expected to carry out.
    fn begins(&self) -> Result<HookAnswer, Error> {
        let own = match self.plan() {
            Ok(found) => found,
            // A broken marker is reported with the list of plans.
            Err(Error::PlanFile(_)) => None,
            Err(error) => return Err(error),
        };
        let mut words = String::new();
        if let Some(found) = own.filter(|found| !self.is_another_sessions(found)) {
            let run =
                journal::read(&*crate::journal::log_locator::for_reading(&self.settings.state)?, &found.id)?;
            if is_open(&run) {
                words = match self.holds(&found)? {
                    true => prompt::unfinished(&run),
                    false => prompt::open_plan(&run, &found.place.name),
                };
            }
        }
        words.push_str(&self.plans()?);
        Ok(HookAnswer::Tell { words })
    }

    /// Lists the plans here, if there are more than the unnamed one, without those of other sessions.
    fn plans(&self) -> Result<String, Error> {
        let plans = match agenda::read(&self.settings) {
            Ok(plans) => plans,
            Err(Error::PlanFile(_)) => return Ok(String::new()),
            Err(error) => return Err(error),
        };
        let seen = |plan: &&agenda::PlanEntry| !self.sessions.is_taken(&self.session, &plan.file);
        let known: Vec<prompt::ListedPlan<'_>> = (plans.listed.iter().filter(seen))
            .map(|plan| prompt::ListedPlan {
                name: &plan.card.name,
                stage: plan.card.stage,
                progress: (plan.card.done, plan.card.total),
                is_active: plan.is_active,
            })
            .collect();
        Ok(prompt::plans(&known, plans.dangling.as_deref()))
    }

    fn stops(&self) -> Result<HookAnswer, Error> {
        // The provost process that started the attempt judges it at its end.
        if std::env::var_os(process::TAG).is_some() {
            return Ok(let_go(""));
        }
        let Some(found) = self.plan()? else { return self.without_a_plan() };
        let log = crate::journal::log_locator::for_reading(&self.settings.state)?;
        if is_done(&*log, &found.id)? || self.is_another_sessions(&found) {
            return Ok(let_go(""));
        }
        if !self.holds(&found)? {
            return self.advise(&found, &*log);
        }
        let run = journal::read(&*log, &found.id)?;
        if !run.exists() {
            return Ok(let_go(format!(
                "plan {} is not verified yet, so this session is not held",
                found.place.name
            )));
        }
        if let Some(words) = free(&run) {
            return Ok(let_go(words));
        }
        // The same without the environment variable.
        if process::inside_attempt().is_some() {
            return Ok(let_go(""));
        }
        self.held(&found, &*log, run.seq)
    }

    /// Returns the plan: explicitly named, bound to the session, or active; `None` if there is none.
    fn plan(&self) -> Result<Option<Found>, Error> {
        let bound = || Some(self.sessions.plan_of(&self.session)?.plan.to_string_lossy().into_owned());
        let named = self.settings.plan.clone().filter(|_| !self.is_fleeting).or_else(bound);
        match plan_registry::resolve(named.as_deref(), &self.settings.cwd) {
            Ok(place) => {
                let marked = matches!(place.why, PlanChoice::Marker(_));
                let by = match named {
                    Some(_) => FoundBy::Session,
                    None if marked && git::main_checkout(&place.workspace).is_some() => FoundBy::Worktree,
                    None => FoundBy::Folder,
                };
                Ok(Some(Found { id: plan_file::id(&place), place, by }))
            }
            Err(Error::PlanFile(plan_file::Error::NoPlan { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the plan is not this session's. Helper sessions, for example for titles, have no plan.
    fn is_another_sessions(&self, found: &Found) -> bool {
        found.by != FoundBy::Session
            && self.client != HookClient::GitPrePush
            && (self.is_fleeting || self.sessions.is_taken(&self.session, &found.place.path))
    }

    /// Returns whether the plan may hold this session: one that only works in its folder is held only if the
    /// configuration says so. A push is not a session's.
    fn holds(&self, found: &Found) -> Result<bool, Error> {
        if found.by != FoundBy::Folder || self.client == HookClient::GitPrePush {
            return Ok(true);
        }
        let hook = config::find(&self.settings.cwd)?.hook;
        Ok(hook.capture || hook.require_plan)
    }

    /// Lets a session stop that did not take the open plan of its folder, and says once how to take it.
    fn advise(&self, found: &Found, log: &dyn Log) -> Result<HookAnswer, Error> {
        let told = format!("{} told", self.name());
        if !is_open(&journal::read(log, &found.id)?) || self.turns.refused(&told, &found.id, 0)? > 1 {
            return Ok(let_go(""));
        }
        let name = &found.place.name;
        Ok(let_go(format!(
            "plan {name} is open, and this session has not taken it, so it may stop. A session that carries \
             it out takes it with the tool plan_take or with `provost session take {name}`"
        )))
    }

    fn without_a_plan(&self) -> Result<HookAnswer, Error> {
        let hook = config::find(&self.settings.cwd)?.hook;
        if !hook.require_plan || self.is_fleeting || process::inside_attempt().is_some() {
            return Ok(let_go(""));
        }
        let none = PlanId("none".to_owned());
        let times = self.count(&none, 0, hook.refusals)?;
        if times > hook.refusals {
            return Ok(let_go("this project requires a plan and has none; provost let the session stop"));
        }
        let words = "This project requires a plan, and there is none. Write one (plan_create, or PLAN.md as in \
         docs/plan-format.md), have it approved, carry it out, and then stop.";
        Ok(HookAnswer::Refuse { words: words.to_owned() })
    }

    /// Counts the refusals in a row, including this one. A push is refused every time; its author can act on
    /// it.
    fn count(&self, plan: &PlanId, progress: u64, most: u32) -> Result<u32, Error> {
        match self.client {
            HookClient::GitPrePush => Ok(0),
            HookClient::Opencode => {
                // This client asks after every text. If a tool was used since, the last text was not the end.
                let now = progress.saturating_mul(TOOLS).saturating_add(self.tools);
                let times = self.turns.refused(self.name(), plan, now)?;
                let all = self.turns.refused(&format!("{} in all", self.name()), plan, progress)?;
                Ok(if all > most.saturating_mul(TEXTS) { all } else { times })
            }
            _ => self.turns.refused(self.name(), plan, progress),
        }
    }

    /// Returns the session's name. Unnamed sessions share a counter, so that each is released at some point.
    fn name(&self) -> &str {
        self.session.name.as_deref().unwrap_or(self.client.word())
    }

    fn held(&self, found: &Found, log: &dyn Log, seq: u64) -> Result<HookAnswer, Error> {
        let hook = config::find(&found.place.workspace)?.hook;
        let lease = format!("workspace {}", found.place.workspace.display());
        let holder = log.holder(&lease).ok().flatten();
        if let Some(holder) = holder.as_ref().filter(|holder| !holder.checks_session) {
            return Ok(let_go(format!("{holder} is running a plan here and checks it itself")));
        }
        let waited = self.turns.waits_since(self.name());
        // Checks that ran since the session was told to wait are the ones it waited for.
        let is_answered = holder.is_none() && waited.is_some_and(|since| seq > since);
        if !is_answered {
            let looking = if holder.is_none() { Some(self.begin_look(found)?) } else { None };
            if !wait(looking, log, &lease, Instant::now() + hook.patience) {
                self.turns.wait_since(self.name(), Some(waited.unwrap_or(seq)))?;
                return Ok(HookAnswer::Refuse { words: still_looking(&found.place.name) });
            }
        }
        self.turns.wait_since(self.name(), None)?;
        self.after_the_look(found, log, &hook)
    }

    /// Starts the checks in a separate process, because the client may kill the children of its hook.
    fn begin_look(&self, found: &Found) -> Result<Child, Error> {
        let program = self.settings.launcher.first().cloned().unwrap_or_else(|| OsString::from("provost"));
        let _ = fs::create_dir_all(self.settings.state.join("turns"));
        let mut look = Command::new(&program);
        look.arg("--state").arg(&self.settings.state).arg(COMMAND).arg(self.client.word());
        look.arg(&found.place.path).current_dir(&found.place.workspace);
        look.stdin(Stdio::null()).stdout(Stdio::null());
        look.stderr(fs::File::create(self.said(found)).map_or_else(|_| Stdio::null(), Stdio::from));
        look.spawn().map_err(|source| Error::Io {
            what: "start the checks with",
            path: program.into(),
            source,
        })
    }

    /// Returns the file with the reason why the last checks could not run.
    fn said(&self, found: &Found) -> PathBuf {
        self.settings.state.join("turns").join(format!("{}.err", found.id))
    }

    fn after_the_look(&self, found: &Found, log: &dyn Log, hook: &Hook) -> Result<HookAnswer, Error> {
        let run = journal::read(log, &found.id)?;
        if run.stage == Stage::Done {
            return Ok(let_go(format!("plan {} is done: every contract held", found.place.name)));
        }
        if let Some(words) = free(&run) {
            return Ok(let_go(words));
        }
        let mut words = prompt::unfinished(&run);
        if let Some(changes) = self.law_changes(found, &run) {
            words = format!(
                "The plan file {} differs from what was approved ({changes}). Restore it: provost \
                 checks only against the approved plan.\n\n{words}",
                found.place.name
            );
        }
        let trouble = fs::read_to_string(self.said(found)).unwrap_or_default();
        if !trouble.trim().is_empty() {
            words = format!("provost could not run the checks:\n{}\n\n{words}", trouble.trim());
        }
        let times = self.count(&found.id, progress(&run), hook.refusals)?;
        if times <= hook.refusals {
            return Ok(HookAnswer::Refuse { words });
        }
        self.let_session_go(found, times)
    }

    fn law_changes(&self, found: &Found, run: &Run) -> Option<String> {
        let text = plan_file::read(&found.place.path).ok()?;
        let text = String::from_utf8_lossy(&text.bytes);
        (!run.has_spec(&text)).then(|| {
            let plan = provost_core::language::parse::plan(&text).plan;
            let old =
                provost_core::model::approved_spec::Law { text: &run.text, plan: &run.plan, binding: None };
            let new = provost_core::model::approved_spec::Law { text: &text, plan: &plan, binding: None };
            provost_core::model::approved_spec::diff(old, new).join("; ")
        })
    }

    /// Releases the session; its step stays open and waits for a person.
    fn let_session_go(&self, found: &Found, times: u32) -> Result<HookAnswer, Error> {
        let mut settings = self.settings.clone();
        settings.plan = Some(found.place.path.to_string_lossy().into_owned());
        let harness = Harness::open(settings, Access::Write)?;
        let reason = format!("{} asked to stop {times} times without progress", self.client.word());
        run_plan::let_session_go(&harness, &reason)?;
        self.turns.forgive(self.name(), &found.id)?;
        self.turns.forgive(&format!("{} in all", self.name()), &found.id)?;
        Ok(let_go(format!(
            "{reason}; plan {} is not done and waits for you; see `provost inbox`",
            found.place.name
        )))
    }
}

/// Returns the session. Its possible processes are looked up only if some session is known by process. A
/// helper session shares the process of another session and must not be taken for it.
fn session(settings: &EngineSettings, asked: &HookQuestion, workspace: &Path) -> ClientSession {
    let name = asked.session.clone();
    match !asked.is_fleeting && settings.state.join("sessions").exists() {
        true => ClientSession::of_hook(&settings.environment, name, workspace),
        false => {
            ClientSession { name, workspace: workspace.to_owned(), by: ClientIdentity::Hook(Vec::new()) }
        }
    }
}

/// Returns whether the last event says that the plan is done; this needs no fold.
fn is_done(log: &dyn Log, plan: &PlanId) -> Result<bool, Error> {
    let query = Query { newest_first: true, limit: Some(1), ..Query::plan(plan) };
    let mut done = false;
    log.read(&query, &mut |sealed| {
        done = matches!(sealed.event(), Ok(Event::RunEnded { outcome: RunOutcome::Done, .. }));
        std::ops::ControlFlow::Break(())
    })?;
    Ok(done)
}

/// Returns a number that changes whenever the plan advances or is set back.
fn progress(run: &Run) -> u64 {
    let (settled, _) = run.progress();
    let held = run.postconditions().filter(|(_, state)| matches!(state, PostState::Held(_))).count();
    u64::from(settled) * 1000 + held as u64
}

/// Waits for the checks; returns whether they were done before `until`.
fn wait(mut looking: Option<Child>, log: &dyn Log, lease: &str, until: Instant) -> bool {
    loop {
        let is_begun = looking.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        let is_over = !is_begun && matches!(log.holder(lease), Ok(None));
        if is_over || Instant::now() >= until {
            return is_over;
        }
        std::thread::sleep(LOOK);
    }
}

fn still_looking(plan: &str) -> String {
    format!(
        "The checks of plan {plan} are still running. Change nothing, wait a minute, and stop again; \
         then you get the result."
    )
}

/// Records a failed hook, because every client treats a failure as permission to stop.
pub fn failed(state: &Path, client: HookClient, why: &str) {
    let file = state.join(FAILURES);
    if fs::metadata(&file).is_ok_and(|found| found.len() > FAILURES_MAX) {
        let _ = fs::remove_file(&file);
    }
    let line =
        format!("{} {}: {}\n", crate::plan::plan_context::now(), client.word(), why.replace('\n', " "));
    let opened = fs::File::options().append(true).create(true).open(file);
    let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Returns the last failure of a hook.
pub fn last_failure(state: &Path) -> Option<String> {
    fs::read_to_string(state.join(FAILURES)).ok()?.lines().last().map(str::to_owned)
}

/// Returns the folder that a client's hook names, or the one it was started in.
pub fn folder<'a>(asked: &'a HookQuestion, cwd: &'a Path) -> &'a Path {
    asked.cwd.as_deref().map(Path::new).filter(|folder| folder.is_dir()).unwrap_or(cwd)
}
