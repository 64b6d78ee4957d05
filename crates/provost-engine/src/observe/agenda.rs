//! Lists all plans of a repository, each by its file and its log.

use crate::journal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use provost_core::fleet::agenda::{Agenda, AgendaEntry};
use provost_core::language::diagnostic::{Diagnostic, Severity};
use provost_core::language::parse;
use provost_core::model::chain::PlanId;
use provost_core::model::plan::{Plan, Spanned, StepNumber};
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::inbox;
use provost_core::state::run::Run;
use provost_host::plans::plan_file::{self, PlanPlace};
use provost_host::plans::plan_lease;
use provost_store::{Holder, Log, Query};
use serde::Serialize;

use crate::Error;
use crate::observe::overview::PlanSnapshot;
use crate::observe::view::{self, PlanCard, PlanState};
use crate::plan::plan_registry::{self, PlanLocation};
use crate::plan::sessions::Sessions;
use crate::plan::{harness, plan_context};
use crate::settings::EngineSettings;

pub use provost_host::plans::plan_file::{ConflictCopy, PlanListing};

/// One plan of the list.
#[derive(Clone, Debug, Serialize)]
pub struct PlanEntry {
    /// What is shown of it everywhere; title, dependencies and globs are those of its file.
    #[serde(flatten)]
    pub card: PlanCard,
    #[serde(skip)]
    pub file: PathBuf,
    pub progress: PathBuf,
    /// It is used if no plan is named.
    #[serde(rename = "active")]
    pub is_active: bool,
    /// A process holds it, here or on another machine.
    #[serde(rename = "running")]
    pub is_running: bool,
    /// Worktrees that were made for it.
    pub worktrees: Vec<PathBuf>,
    /// Process on this machine that holds its lease.
    #[serde(skip)]
    pub holder: Option<Holder>,
    /// Running work, as of the last event.
    #[serde(skip)]
    pub running_steps: Vec<RunningStep>,
    #[serde(skip)]
    pub last: Option<Last>,
    /// Its file is no plan: empty, or with errors that parsing finds.
    #[serde(skip)]
    pub has_errors: bool,
    /// It has started, and nothing can be done before a person has answered.
    #[serde(skip)]
    pub asks_a_person: bool,
    /// Number of lines its commit changes, if there is one.
    #[serde(skip)]
    pub size: Option<u64>,
    /// File of a claim on it, if its folder is shared.
    #[serde(skip)]
    pub lease_file: PathBuf,
    /// Claim on it, from any machine.
    #[serde(skip)]
    pub lease: Option<SharedFolderClaim>,
}

/// A claim on a plan of a shared folder.
#[derive(Clone, Debug)]
pub struct SharedFolderClaim {
    pub pid: u32,
    pub host: String,
    pub since: Timestamp,
    pub until: Timestamp,
    pub epoch: u64,
    /// It is no longer renewed.
    pub is_stale: bool,
}

#[derive(Clone, Debug)]
pub struct RunningStep {
    pub step: StepNumber,
    pub title: String,
    pub role: String,
}

/// The newest event of a plan.
#[derive(Clone, Debug)]
pub struct Last {
    pub at: Timestamp,
    pub event: String,
}

/// All plans here, and their dependencies on each other.
pub struct RepositoryPlans {
    pub listed: Vec<PlanEntry>,
    pub agenda: Agenda,
    /// Names of archived plans, which are not listed.
    pub archived: Vec<String>,
    /// Those of them that a listed plan depends on.
    needed: Vec<AgendaEntry>,
    /// Content of this worktree's marker, if it names no plan.
    pub dangling: Option<String>,
    /// Other files in the plan folders.
    pub listing: PlanListing,
}

pub fn read(settings: &EngineSettings) -> Result<RepositoryPlans, Error> {
    let state = settings.state_folder();
    let log = crate::journal::log_locator::for_reading(&state)?;
    let listing = plan_file::list_in(&settings.cwd, &plan_registry::folder(&settings.cwd)?)?;
    let marker = plan_file::marker(&listing.workspace);
    let (active, dangling) = match plan_registry::resolve(None, &settings.cwd) {
        Ok(place) => (Some(place.path), None),
        Err(error) if marker.symlink_metadata().is_ok() => (None, Some(error.to_string())),
        Err(_) => (None, None),
    };
    let worktrees = crate::observe::worktrees::list(settings);
    let (mut listed, mut archived): (Vec<PlanEntry>, Vec<&PlanPlace>) = (Vec::new(), Vec::new());
    for place in &listing.plans {
        if log.is_archived(&plan_file::id(place))? {
            archived.push(place);
            continue;
        }
        let mut plan = one(&*log, &state, place);
        plan.is_active = active.as_ref() == Some(&place.path);
        let own = worktrees
            .iter()
            .filter(|found| found.note.as_ref().is_some_and(|note| note.plan == plan.card.name));
        plan.worktrees = own.map(|found| found.path.clone()).collect();
        if listed.iter().any(|other| other.card.name == plan.card.name) {
            plan.card.trouble = Some("another plan has the same name".to_owned());
        }
        listed.push(plan);
    }
    let is_needed =
        |place: &&&PlanPlace| listed.iter().any(|plan| plan.card.depends_on.contains(&place.slug));
    let needed: Vec<AgendaEntry> =
        archived.iter().filter(is_needed).map(|place| entry(&one(&*log, &state, place))).collect();
    let archived = archived.iter().map(|place| place.name.clone()).collect();
    let agenda = agenda(&listed, &needed);
    Ok(RepositoryPlans { listed, agenda, archived, needed, dangling, listing })
}

impl RepositoryPlans {
    /// Counts the lines that the work of each plan changes, for the merge order.
    pub fn measure(&mut self, settings: &EngineSettings) {
        let files: Vec<&Path> = self.listed.iter().map(|plan| plan.file.as_path()).collect();
        let sizes = crate::observe::worktrees::sizes(settings, &files);
        for (plan, size) in self.listed.iter_mut().zip(sizes) {
            plan.size = size;
        }
        self.agenda = agenda(&self.listed, &self.needed);
    }
}

fn agenda(listed: &[PlanEntry], needed: &[AgendaEntry]) -> Agenda {
    Agenda::new(listed.iter().map(entry).chain(needed.iter().cloned()))
}

fn entry(plan: &PlanEntry) -> AgendaEntry {
    let card = &plan.card;
    AgendaEntry {
        name: card.name.clone(),
        stage: card.stage,
        depends_on: card.depends_on.clone(),
        touches: card.touches.clone(),
        under_way: plan.is_running,
        asks_a_person: plan.asks_a_person,
        trouble: card.trouble.clone().or_else(|| plan.has_errors.then(|| "its file has errors".to_owned())),
        size: plan.size,
    }
}

fn one(log: &dyn Log, state: &Path, place: &PlanPlace) -> PlanEntry {
    let (id, lease_file) = (plan_file::id(place), plan_lease::file(place));
    let (plan, has_errors, mut trouble) = match plan_file::read(&place.path) {
        Ok(text) => {
            let parsed = parse::plan(&String::from_utf8_lossy(&text.bytes));
            let is_error = |found: &Diagnostic| found.severity == Severity::Error;
            (parsed.plan, parsed.diagnostics.iter().any(is_error), None)
        }
        Err(error) => (Default::default(), false, Some(error.to_string())),
    };
    let run = journal::read(log, &id).unwrap_or_else(|error| {
        trouble = Some(error.to_string());
        Run::default()
    });
    let has_errors = has_errors || plan.steps.is_empty();
    let (holder, lease) = (harness::holder(log, &id, &run).ok().flatten(), lease(&lease_file));
    let is_running = holder.is_some() || lease.as_ref().is_some_and(|lease| !lease.is_stale);
    let (running_steps, asks_a_person) =
        (run.under_way().map(|step| working(&run, step)).collect(), view::asks_a_person(&run));
    let now = PlanState::of(&run, is_running || Sessions::new(state).has_client_for(&place.path));
    PlanEntry {
        card: PlanCard { state: now, ..card(&id, place, plan, run, trouble) },
        file: place.path.clone(),
        progress: place.progress.clone(),
        is_active: false,
        is_running,
        worktrees: Vec::new(),
        holder,
        running_steps,
        last: last(log, &id),
        has_errors,
        asks_a_person,
        size: None,
        lease_file,
        lease,
    }
}

/// Makes the card from the log, with what the file says now.
fn card(id: &PlanId, place: &PlanPlace, file: Plan, run: Run, trouble: Option<String>) -> PlanCard {
    let exists = run.exists();
    let waiting = inbox::waiting(&run).len();
    let named = PlanLocation { name: place.name.clone(), ..PlanLocation::unregistered(place) };
    let seen = PlanSnapshot::of_run(id.clone(), named, run, waiting);
    let card = PlanCard::of(&PlanSnapshot { trouble, ..seen });
    let spelled = |globs: Vec<Spanned<String>>| globs.into_iter().map(|each| each.value).collect();
    PlanCard {
        total: if exists { card.total } else { file.steps.len() as u32 },
        title: file.title,
        depends_on: spelled(file.depends_on),
        touches: file.touches.map(spelled),
        ..card
    }
}

fn lease(path: &Path) -> Option<SharedFolderClaim> {
    let claim = plan_lease::look(path).filter(|claim| !claim.is_given_back())?;
    Some(SharedFolderClaim {
        is_stale: claim.is_expired(plan_context::now().0) || claim.is_dead(),
        pid: claim.pid,
        host: claim.host,
        since: Timestamp(claim.since),
        until: Timestamp(claim.until),
        epoch: claim.epoch,
    })
}

fn working(run: &Run, step: StepNumber) -> RunningStep {
    let title = run.title(step).unwrap_or_default().to_owned();
    RunningStep { step, title, role: run.role(step).to_owned() }
}

fn last(log: &dyn Log, id: &PlanId) -> Option<Last> {
    let mut last = None;
    let query = Query { newest_first: true, limit: Some(1), ..Query::plan(id) };
    let read = log.read(&query, &mut |sealed| {
        let event = sealed.event().map_or_else(|_| "?".to_owned(), |event| event.name().to_owned());
        last = Some(Last { at: sealed.at, event });
        ControlFlow::Break(())
    });
    read.ok().and(last)
}
