//! Moves the events of plans that are over to cold files, when a person asks for it.
//!
//! **Invariant:** a plan stays in the log while anything of it can happen: it is not over, a process holds it, or
//! another plan or a merge train needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::chain::PlanId;
use provost_core::model::event::Event;
use provost_core::model::plan::Step;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::inbox::waiting;
use provost_core::state::run::{Run, Stage};
use provost_host::plans::plan_lease;
use provost_store::archive::{self, ArchiveResult};
use provost_store::{ArchivableLog, Holder, Lease, Log, Query};
use serde::Serialize;

use crate::Error;
use crate::journal::{self, lease, log_locator};
use crate::observe::overview::{Overview, is_held};
use crate::plan::human_check::Who;
use crate::plan::plan_context;
use crate::plan::plan_registry::{self, PlanLocation};
use crate::plan::sessions::Sessions;
use crate::settings::{Access, EngineSettings};

/// Name of the lease that allows one archiving of a log at a time.
const LEASE: &str = "archive";

/// Which plans to archive, and where to.
#[derive(Clone, Debug, Default)]
pub struct ArchiveRequest {
    /// Paths, names or ids; all plans if empty.
    pub plans: Vec<String>,
    /// Time since the last event of a plan.
    pub older_than: Duration,
    /// Folder of the cold files, if it is not the one in the state folder.
    pub to: Option<PathBuf>,
    pub dry_run: bool,
}

/// A plan that was archived, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArchivedPlan {
    pub plan: PlanId,
    pub name: String,
    pub events: u64,
    /// Time of its last event.
    pub last: Timestamp,
}

/// A plan that stays in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeptPlan {
    pub plan: PlanId,
    pub name: String,
    pub why: String,
}

/// Result of an archiving.
#[derive(Clone, Debug, Default)]
pub struct ArchiveReport {
    pub archived: Vec<ArchivedPlan>,
    pub kept: Vec<KeptPlan>,
    pub folder: PathBuf,
    pub result: ArchiveResult,
}

/// Moves plans that are over to cold files. Only a person may do this.
pub fn archive(settings: &EngineSettings, request: &ArchiveRequest) -> Result<ArchiveReport, Error> {
    let state = settings.state_folder();
    let folder = match &request.to {
        Some(folder) => settings.cwd.join(folder),
        None => state.join(archive::FOLDER),
    };
    let access = if request.dry_run { Access::Read } else { Access::Write };
    let log = log_locator::open_archivable(&state, access)?;
    check_folder(&state, &folder)?;
    let _lease = if request.dry_run { None } else { Some(begin(settings, &*log)?) };
    let plans = Plans::read(&*log, &state)?;
    let mut report = ArchiveReport { folder: folder.clone(), ..ArchiveReport::default() };
    let chosen = chosen(settings, &*log, &plans, &request.plans, &mut report.kept)?;
    let now = plan_context::now();
    for plan in plans.all.iter().filter(|plan| chosen.as_ref().is_none_or(|some| some.contains(&plan.id))) {
        match plans
            .why_kept(plan, now, request.older_than, chosen.is_some())
            .or_else(|| in_use(&*log, &state, plan))
        {
            Some(why) => report.kept.push(KeptPlan { plan: plan.id.clone(), name: plan.name.clone(), why }),
            None => report.archived.push(ArchivedPlan {
                plan: plan.id.clone(),
                name: plan.name.clone(),
                events: plan.events,
                last: plan.last,
            }),
        }
    }
    if !request.dry_run {
        let ids: Vec<PlanId> = report.archived.iter().map(|plan| plan.plan.clone()).collect();
        report.result = archive::archive(&*log, &folder, &ids, now, &mut |_| Ok(()))?;
        let (stayed, archived) = std::mem::take(&mut report.archived)
            .into_iter()
            .partition(|plan| report.result.left.contains(&plan.plan));
        report.archived = archived;
        let why = "another process uses it or wrote to it just now";
        let kept = |plan: ArchivedPlan| KeptPlan { plan: plan.plan, name: plan.name, why: why.to_owned() };
        report.kept.extend(Vec::into_iter(stayed).map(kept));
    }
    Ok(report)
}

/// Refuses everybody but a person, and a second archiving at the same time.
fn begin(settings: &EngineSettings, log: &dyn ArchivableLog) -> Result<Lease, Error> {
    Overview::open(settings.clone())?.only_people(&Who::Here)?;
    log.check_may_archive()?;
    let holder = Holder::here("`provost archive`", plan_context::now());
    lease::take(log, LEASE, &holder, (Duration::ZERO, Duration::ZERO), &settings.stop)
}

/// Refuses a folder in a workspace, where agents can remove the files.
fn check_folder(state: &Path, folder: &Path) -> Result<(), Error> {
    // The folder may not be there yet; its parents are.
    let there = folder.ancestors().find_map(|above| above.canonicalize().ok());
    let workspaces = plan_registry::all(state).into_iter().map(|(_, place)| place.workspace);
    match workspaces
        .into_iter()
        .any(|workspace| there.as_ref().is_some_and(|there| there.starts_with(&workspace)))
    {
        true => Err(Error::ArchiveInWorkspace(folder.to_owned())),
        false => Ok(()),
    }
}

/// Returns the named plans; `None` for all. A plan that is archived already is only reported.
fn chosen(
    settings: &EngineSettings,
    log: &dyn Log,
    plans: &Plans,
    named: &[String],
    kept: &mut Vec<KeptPlan>,
) -> Result<Option<BTreeSet<PlanId>>, Error> {
    if named.is_empty() {
        return Ok(None);
    }
    let mut found = BTreeSet::new();
    for argument in named {
        let by_id = PlanId(argument.clone());
        let id = match plan_registry::resolve(Some(argument), &settings.cwd) {
            _ if log.head(&by_id)?.seq > 0 => by_id,
            Ok(place) => plan_registry::id(&place),
            Err(error) => return Err(error),
        };
        if !plans.all.iter().any(|plan| plan.id == id) {
            let why = match log.head(&id)?.seq {
                0 => "the log has no event of it",
                _ => "it is archived already",
            };
            kept.push(KeptPlan { plan: id.clone(), name: argument.clone(), why: why.to_owned() });
        }
        found.insert(id);
    }
    Ok(Some(found))
}

/// A plan in the log, as far as it matters here.
struct LoggedPlan {
    id: PlanId,
    name: String,
    place: Option<PlanLocation>,
    repository: Option<PathBuf>,
    events: u64,
    last: Timestamp,
    is_over: bool,
    has_landed: bool,
    is_done: bool,
    /// Names of the plans that it depends on.
    depends_on: Vec<String>,
    /// Names of its sub-plans.
    carries: Vec<String>,
    /// Why its log cannot be archived, if so.
    trouble: Option<String>,
}

/// All plans in the log.
struct Plans {
    all: Vec<LoggedPlan>,
    /// Plans that a merge train has taken along.
    boarded: BTreeSet<PlanId>,
    /// Repositories that have a merge train.
    with_trains: BTreeSet<PathBuf>,
}

impl Plans {
    fn read(log: &dyn Log, state: &Path) -> Result<Self, Error> {
        let places: BTreeMap<PlanId, PlanLocation> = plan_registry::all(state).into_iter().collect();
        let mut plans = Self { all: Vec::new(), boarded: BTreeSet::new(), with_trains: BTreeSet::new() };
        for id in log.unarchived_plans()? {
            plans.boarded.extend(boarded(log, &id)?);
            let place = places.get(&id).cloned();
            plans.all.push(LoggedPlan::new(id.clone(), place, journal::read(log, &id)));
        }
        // Also of plans that are archived already.
        let with_trains = plans.boarded.iter().filter_map(|id| places.get(id));
        plans.with_trains = with_trains.map(PlanLocation::repository_key).collect();
        Ok(plans)
    }

    /// Returns why a plan stays in the log, if so.
    fn why_kept(
        &self,
        plan: &LoggedPlan,
        now: Timestamp,
        older_than: Duration,
        is_named: bool,
    ) -> Option<String> {
        if let Some(trouble) = &plan.trouble {
            return Some(trouble.clone());
        }
        if is_train(&plan.id) {
            return Some("it is the log of a merge train, which says what has landed".to_owned());
        }
        if !plan.is_over {
            return Some("it is not over".to_owned());
        }
        if u128::from(now.0.saturating_sub(plan.last.0)) < older_than.as_millis() {
            let age = humantime::format_duration(older_than);
            return Some(format!("its last event is not older than {age}"));
        }
        let is_open = |other: &&LoggedPlan| !other.is_over && other.id != plan.id && other.is_near(plan);
        let mut open = self.all.iter().filter(is_open);
        let needs = |other: &LoggedPlan| {
            other.depends_on.contains(&plan.name)
                || other.carries.contains(&plan.name)
                || plan.carries.contains(&other.name)
        };
        if let Some(other) = open.find(|other| needs(other)) {
            return Some(format!("plan {}, which is not over, needs it", other.name));
        }
        let may_land = plan.is_done && !plan.has_landed;
        let has_train =
            !is_named && plan.repository.as_ref().is_some_and(|found| self.with_trains.contains(found));
        let boards = may_land && (self.boarded.contains(&plan.id) || has_train);
        boards.then(|| "it is done and a merge train has not landed it".to_owned())
    }
}

impl LoggedPlan {
    fn new(id: PlanId, place: Option<PlanLocation>, read: Result<Run, Error>) -> Self {
        // The identifier of a plan of another machine is its name and a digest.
        let slug = || id.0.rsplit_once('-').map_or(id.0.clone(), |(name, _)| name.to_owned());
        let name = place.as_ref().map_or_else(slug, |place| place.name.clone());
        let (run, trouble) = match read {
            Ok(run) if run.forged_from.is_some() => {
                (run, Some("its log is not trusted: see `provost audit`".to_owned()))
            }
            Ok(run) => (run, None),
            Err(error) => (Run::default(), Some(error.to_string())),
        };
        let repository = place.as_ref().map(PlanLocation::repository_key);
        let texts = |found: Vec<&str>| found.into_iter().map(str::to_owned).collect();
        Self {
            name,
            repository,
            events: run.seq,
            last: run.moved.unwrap_or_default(),
            is_over: is_over(&run),
            has_landed: run.landed.is_some(),
            is_done: run.stage == Stage::Done,
            depends_on: texts(run.plan.depends_on.iter().map(|name| name.value.as_str()).collect()),
            carries: texts(run.plan.steps.iter().filter_map(Step::carried_by).collect()),
            trouble,
            id,
            place,
        }
    }

    /// Returns whether both may be in one repository, where plans name each other.
    fn is_near(&self, other: &Self) -> bool {
        self.repository.is_none() || other.repository.is_none() || self.repository == other.repository
    }
}

/// Returns whether a plan has ended and waits for nobody.
fn is_over(run: &Run) -> bool {
    matches!(run.stage, Stage::Done | Stage::Failed)
        && waiting(run).is_empty()
        && run.under_way().next().is_none()
}

fn is_train(id: &PlanId) -> bool {
    id.0.starts_with("train-")
}

/// Returns the plans that a merge train has taken along, if this is the log of a train.
fn boarded(log: &dyn Log, id: &PlanId) -> Result<Vec<PlanId>, Error> {
    let mut found = Vec::new();
    if !is_train(id) {
        return Ok(found);
    }
    let names = vec!["TRAIN_STARTED".to_owned()];
    log.read(&Query { names, ..Query::plan(id) }, &mut |sealed| {
        if let Ok(Event::TrainStarted { plans, .. }) = sealed.event() {
            found.extend(plans.into_iter().map(|entry| PlanId(entry.plan)));
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Returns which process uses a plan, if any.
fn in_use(log: &dyn Log, state: &Path, plan: &LoggedPlan) -> Option<String> {
    if is_held(log, &plan.id) {
        return Some("a process holds it".to_owned());
    }
    let place = plan.place.as_ref()?;
    if Sessions::new(state).has_client_for(&place.path) {
        return Some("an agent in its own client works on it".to_owned());
    }
    let file = plan_registry::resolve(Some(&place.path.to_string_lossy()), &place.workspace).ok()?;
    let claim = plan_lease::look(&plan_lease::file(&file)).filter(|claim| !claim.is_given_back())?;
    let is_stale = claim.is_expired(plan_context::now().0) || claim.is_dead();
    (!is_stale).then(|| format!("{} has claimed its file", claim.host))
}
