//! Finds problems with the plans of a repository, and repairs those that can be repaired without loss.
//!
//! **Invariant:** a repair removes only what exists elsewhere byte for byte; otherwise it moves or adds.

use crate::plan::queries;
use std::fs;
use std::path::{Path, PathBuf};

use provost_core::fleet::agenda::DependencyProblem;
use provost_core::state::run::Stage;
use provost_host::git;
use provost_host::plans::plan_file::{self, ConflictCopy};
use provost_host::plans::plan_lease;

use crate::Error;
use crate::observe::agenda::{self, PlanEntry, RepositoryPlans};
use crate::observe::worktrees::{self, Fate, ListedWorktree};
use crate::plan::harness::Harness;
use crate::plan::plan_context;
use crate::settings::{Access, EngineSettings};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Warn,
    Fail,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Level::Warn => "warn",
            Level::Fail => "fail",
        }
    }
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Finding {
    pub code: &'static str,
    pub level: Level,
    pub what: String,
    pub hint: String,
    pub path: Option<PathBuf>,
    /// Possible repair.
    pub mend: Option<Mend>,
}

#[derive(Clone, Debug)]
pub enum Mend {
    /// Removes a copy whose content is already in the original.
    RemoveCopy { path: PathBuf, of: PathBuf },
    /// Rewrites the marker with the plan that the worktree was made for.
    Mark { path: PathBuf, plan: String },
    /// Moves the marker aside; the worktree then has no plan.
    Aside { path: PathBuf },
    /// Releases a claim that is no longer renewed.
    Release { path: PathBuf },
    /// Removes a worktree in which nothing would be lost.
    Prune(Box<ListedWorktree>),
}

impl std::fmt::Display for Mend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mend::RemoveCopy { path, of } => {
                write!(f, "remove {}, which {} holds already", path.display(), of.display())
            }
            Mend::Mark { path, plan } => write!(f, "write {plan} into {}", path.display()),
            Mend::Aside { path } => write!(f, "move {} to {}", path.display(), aside(path).display()),
            Mend::Release { path } => write!(f, "mark {} as given back", path.display()),
            Mend::Prune(found) => write!(f, "remove what is left of worktree {}", found.path.display()),
        }
    }
}

/// Returns the names of all plans, and all problems, worst first.
pub fn findings(settings: &EngineSettings) -> (Vec<String>, Vec<Finding>) {
    let looked = agenda::read(settings).and_then(|plans| Ok((of_all(settings, &plans)?, plans)));
    match looked {
        Ok((found, plans)) => (plans.listed.into_iter().map(|plan| plan.card.name).collect(), found),
        Err(error) => {
            let what = format!("provost cannot read the plans: {error}");
            let hint = "provost runs nothing until this is fixed.";
            let finding = warn("no-plans", what, hint, &settings.cwd);
            (Vec::new(), vec![Finding { level: Level::Fail, ..finding }])
        }
    }
}

fn of_all(settings: &EngineSettings, plans: &RepositoryPlans) -> Result<Vec<Finding>, Error> {
    let mut found = Vec::new();
    found.extend(plans.dangling.as_ref().map(|words| marker(settings, plans, words)));
    found.extend(plans.listing.copies.iter().map(copy));
    found.extend(plans.listing.unnameable.iter().map(|path| unnameable(path)));
    for plan in &plans.listed {
        found.extend(of_plan(settings, plan));
    }
    found.extend(plans.agenda.problems().into_iter().map(problem));
    found.extend(lonely_progress(plans));
    found.extend(of_worktrees(settings)?);
    found.sort_by_key(|finding| finding.level == Level::Warn);
    Ok(found)
}

fn warn(code: &'static str, what: String, hint: impl Into<String>, path: &Path) -> Finding {
    let path = Some(path.to_owned());
    Finding { code, level: Level::Warn, what, hint: hint.into(), path, mend: None }
}

/// Reports a broken marker. Commands refuse it with an error; here it is a warning, because the rest still
/// works.
fn marker(settings: &EngineSettings, plans: &RepositoryPlans, words: &str) -> Finding {
    let workspace = &plans.listing.workspace;
    let path = plan_file::marker(workspace);
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.clone());
    let own = git::spawn_note(workspace).and_then(|note| note.parent()?.canonicalize().ok());
    let note = own.and_then(|own| worktrees::records(settings).find(&real, &own));
    let meant = note.map(|note| note.plan).filter(|plan| plans.agenda.get(plan).is_some());
    let mend = match meant {
        Some(plan) => Mend::Mark { path: path.clone(), plan },
        None => Mend::Aside { path: path.clone() },
    };
    let hint = "Correct it, delete it, or name the plan in each command.";
    Finding { mend: Some(mend), ..warn("dangling-marker", words.to_owned(), hint, &path) }
}

fn copy(copy: &ConflictCopy) -> Finding {
    let (path, of) = (copy.path.clone(), copy.of.clone());
    let what = format!("{} is a conflict copy of {} ({})", path.display(), of.display(), copy.by);
    let is_held = is_within(&path, &of);
    let hint = match is_held {
        true => "The original has all of its lines.",
        false => "Compare the two files, put what you want to keep into the original, and remove the copy.",
    };
    let mend = is_held.then(|| Mend::RemoveCopy { path: path.clone(), of });
    Finding { mend, ..warn("conflict-copy", what, hint, &path) }
}

/// Returns whether the copy has the same bytes; for a progress file, which only grows, whether it has no
/// other lines.
fn is_within(copy: &Path, of: &Path) -> bool {
    let (Ok(copied), Ok(original)) = (plan_file::read(copy), plan_file::read(of)) else { return false };
    let is_progress = of.file_name().is_some_and(|name| name.to_string_lossy().starts_with("progress"));
    let lines: std::collections::HashSet<&[u8]> = original.bytes.split(|byte| *byte == b'\n').collect();
    copied.hash == original.hash
        || is_progress && copied.bytes.split(|byte| *byte == b'\n').all(|line| lines.contains(line))
}

fn unnameable(path: &Path) -> Finding {
    let what = format!("{} has the name of a plan file, but no command can use that name", path.display());
    warn("unnameable-plan", what, "Rename it: use a-z, 0-9, `.`, `_` and `-`, as in `fix-auth`.", path)
}

fn of_plan(settings: &EngineSettings, plan: &PlanEntry) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(trouble) = &plan.card.trouble {
        let hint = format!("`provost audit {}` and `provost which {0}` say more.", plan.card.name);
        let what = format!("{}: {trouble}", plan.file.display());
        found.push(Finding { level: Level::Fail, ..warn("unreadable-plan", what, hint, &plan.file) });
    }
    if fs::metadata(&plan.file).is_ok_and(|file| file.len() == 0) {
        let what = format!("{} is empty", plan.file.display());
        found.push(warn("empty-plan", what, "Write it, or remove it.", &plan.file));
    }
    found.extend(unsound(settings, plan));
    let has_run = matches!(plan.card.stage, Stage::InProgress | Stage::Done | Stage::Failed);
    if has_run && !plan.progress.exists() {
        let what = format!("plan {} has run, but {} is missing", plan.card.name, plan.progress.display());
        let hint = "The log has everything: `provost log`. The next run writes the file again.";
        found.push(warn("no-progress-file", what, hint, &plan.progress));
    }
    found.extend(lease(plan));
    found
}

/// Reports a log that does not verify; this stops everything else.
fn unsound(settings: &EngineSettings, plan: &PlanEntry) -> Option<Finding> {
    let settings = EngineSettings { plan: Some(plan.file.display().to_string()), ..settings.clone() };
    let audit = Harness::open(settings, Access::Read).and_then(|harness| queries::audit(&harness));
    let what = match audit {
        Ok(audit) if audit.finds_nothing() => return None,
        Ok(_) => format!("the log of {} does not verify", plan.card.name),
        Err(error) => format!("the log of {} cannot be audited: {error}", plan.card.name),
    };
    let hint = format!("`provost audit {}` says where; see docs/trust.md.", plan.card.name);
    Some(Finding { level: Level::Fail, ..warn("log-does-not-verify", what, hint, &plan.file) })
}

fn lease(plan: &PlanEntry) -> Option<Finding> {
    let path = plan.lease_file.clone();
    if !path.is_file() {
        return None;
    }
    let Some(claim) = plan_lease::look(&path) else {
        let what = format!("{} is not a readable claim", path.display());
        return Some(warn("unreadable-lease", what, "Remove it if no process works on the plan.", &path));
    };
    let now = plan_context::now().0;
    if claim.is_given_back() {
        return None;
    }
    if claim.is_expired(now) || claim.is_dead() {
        let what = format!(
            "{} is still claimed by {claim}, but that process no longer renews the claim",
            plan.card.name
        );
        let mend = Some(Mend::Release { path: path.clone() });
        return Some(Finding { mend, ..warn("stale-lease", what, "The next run takes it over.", &path) });
    }
    claim.is_from_the_future(now).then(|| {
        let what = format!("{} is claimed by {claim} until a time far in the future", plan.card.name);
        warn(
            "clock",
            what,
            "The clock of one of the machines is wrong; `provost run` waits until the claim is no longer \
         renewed.",
            &path,
        )
    })
}

fn problem(problem: DependencyProblem) -> Finding {
    let (level, code) = match problem {
        DependencyProblem::Cycle { .. } => (Level::Fail, "plan-cycle"),
        DependencyProblem::Unknown { .. } => (Level::Warn, "unknown-plan"),
    };
    let hint = "Correct `depends_on` in the plan.".to_owned();
    Finding { code, level, what: problem.to_string(), hint, path: None, mend: None }
}

/// Reports progress files whose plan is gone.
fn lonely_progress(plans: &RepositoryPlans) -> Vec<Finding> {
    let entries = plans.listing.folder.read_dir().into_iter().flatten().flatten();
    let lonely = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let slug =
            name.strip_prefix("progress-")?.strip_suffix(".md").filter(|slug| plan_file::is_slug(slug))?;
        let has_plan = plans.listed.iter().any(|plan| plan.progress.file_name() == Some(name.as_ref()));
        let is_copy = plans.listing.copies.iter().any(|copy| copy.path == entry.path());
        (!has_plan && !is_copy).then(|| {
            let what = format!("{} has no PLAN-{slug}.md beside it", entry.path().display());
            warn("no-plan-file", what, "Put the plan back, or keep the file elsewhere.", &entry.path())
        })
    });
    lonely.collect()
}

fn of_worktrees(settings: &EngineSettings) -> Result<Vec<Finding>, Error> {
    let mut found = Vec::new();
    for (worktree, fate) in worktrees::fates(settings)? {
        let Some(note) = &worktree.note else { continue };
        let (code, what) = if !worktree.is_there() {
            (
                "orphan-worktree",
                format!("the worktree {} is gone, but git still lists it", worktree.path.display()),
            )
        } else if !note.finished {
            (
                "unfinished-worktree",
                format!("provost did not finish making the worktree {}", worktree.path.display()),
            )
        } else {
            continue;
        };
        let hint = match &fate {
            Fate::Goes => "Nothing is lost with it.".to_owned(),
            Fate::Stays(reasons) => format!("It is kept: {}.", reasons.join("; ")),
        };
        let path = worktree.path.clone();
        let mend = (fate == Fate::Goes).then(|| Mend::Prune(Box::new(worktree)));
        found.push(Finding { mend, ..warn(code, what, hint, &path) });
    }
    Ok(found)
}

/// Performs a repair after a last check.
pub fn mend(settings: &EngineSettings, mend: &Mend) -> Result<(), Error> {
    let failed = |what: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { what, path, source }
    };
    match mend {
        Mend::RemoveCopy { path, of } if is_within(path, of) => {
            fs::remove_file(path).map_err(failed("remove", path))
        }
        Mend::RemoveCopy { path, .. } => {
            Err(Error::PlanFile(plan_file::Error::Changed { path: path.clone(), kept: None }))
        }
        Mend::Mark { path, plan } => provost_host::files::write_whole(path, format!("{plan}\n").as_bytes())
            .map_err(failed("write", path)),
        Mend::Aside { path } => fs::rename(path, aside(path)).map_err(failed("move", path)),
        Mend::Release { path } => Ok(plan_lease::release(path, plan_context::now().0)?),
        Mend::Prune(found) => worktrees::prune(settings, found),
    }
}

/// Returns a free file name.
fn aside(path: &Path) -> PathBuf {
    let name = |count: u32| path.with_file_name(format!("active-plan.aside-{count}"));
    (1..).map(name).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| name(0))
}
