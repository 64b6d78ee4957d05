//! Lists what waits for a person, from the log: in one plan, in all plans of a repository, or of a state
//! folder.
//!
//! Items are computed, not stored, so the inbox shows what waits now. The process that notices an overdue
//! item records it in the log; nothing else follows from that.

use crate::journal;
use crate::plan::queries;
use std::ops::ControlFlow;
use std::path::Path;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{Choice, Event};
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::inbox::{self, DecisionKind, InboxItem, PlanLabel, WaitingItem};
use provost_core::state::run::Run;
use provost_host::plans::plan_file::PlanChoice;
use provost_store::{Log, Query};

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::plan_registry::{self, Here, PlanLocation};
use crate::plan::sessions::Sessions;
use crate::plan::step_changes::{self, FileComparison};
use crate::plan::{human_check, outside, plan_context};
use crate::settings::{Access, EngineSettings};

/// Maximum number of events read for one item.
const HISTORY: u64 = 200;
/// Items that wait in several plans.
#[derive(Default)]
pub struct InboxListing {
    /// Newest last.
    pub items: Vec<InboxItem>,
    /// Plans that cannot be read, and why.
    pub troubles: Vec<String>,
    /// Changes that agents left outside of `touches`, a few lines per plan.
    pub left: Vec<String>,
}

/// Lists everything that waits in the current repository, or in the whole state folder if `everywhere`.
pub fn list(settings: &EngineSettings, everywhere: bool) -> Result<InboxListing, Error> {
    let state = settings.state_folder();
    let log = crate::journal::log_locator::for_reading(&state)?;
    let here = Here::of(&settings.cwd);
    let mut listing = InboxListing::default();
    for plan in log.unarchived_plans()? {
        let place = plan_registry::find(&state, &plan);
        let active = here.active.as_ref() == Some(&plan);
        let near = place.as_ref().is_some_and(|place| here.has(place) && place.is_there());
        if !(everywhere || active || near) {
            continue;
        }
        let heading = heading(&plan, place.as_ref(), &here);
        match journal::read(&*log, &plan) {
            Ok(run) if run.forged_from.is_some() => {
                listing.troubles.push(format!(
                    "a process other than provost wrote to the log of plan {plan}; run `provost \
                     audit`"
                ));
            }
            Ok(run) => {
                let left = place.as_ref().map(|place| outside::left(&place.workspace, &run));
                let left = left.unwrap_or_default().into_iter().enumerate();
                listing.left.extend(left.map(|(number, line)| match number {
                    0 => format!("plan {}: {line}", heading.name),
                    _ => line,
                }));
                let mut found = items(&*log, &heading, &run)?;
                for item in found.iter_mut().filter(|item| item.kind == DecisionKind::Confirmation) {
                    // A plan that cannot be opened here is listed all the same.
                    if let Ok(harness) = open(settings.clone(), item, Access::Read) {
                        show_work(&harness, item);
                    }
                }
                listing.items.extend(found);
            }
            Err(error) => listing.troubles.push(error.to_string()),
        }
    }
    listing.items.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
    Ok(listing)
}

/// Opens the plan of an item, wherever it is.
pub fn open(settings: EngineSettings, item: &InboxItem, access: Access) -> Result<Harness, Error> {
    let state = settings.state_folder();
    let here = Here::of(&settings.cwd);
    let settings = match plan_registry::find(&state, &item.plan) {
        Some(place) if here.active.as_ref() != Some(&item.plan) => {
            EngineSettings { cwd: place.workspace, plan: Some(place.path.display().to_string()), ..settings }
        }
        _ => EngineSettings { plan: None, ..settings },
    };
    let harness = Harness::open(settings, access)?;
    if *harness.id() != item.plan {
        return Err(Error::NotThere { plan: item.plan.clone() });
    }
    Ok(harness)
}

pub(crate) fn heading(plan: &PlanId, place: Option<&PlanLocation>, here: &Here) -> PlanLabel {
    PlanLabel {
        plan: plan.clone(),
        name: place.map_or_else(|| plan.0.clone(), |place| place.name.clone()),
        argument: place.and_then(|place| here.argument(plan, place)),
    }
}

/// Returns the path that names the plan in this folder; `None` for the active plan.
pub fn path_from(cwd: &Path, harness: &Harness) -> Option<String> {
    Here::of(cwd).path_from_here(harness.id(), &PlanLocation::unregistered(harness.place()))
}

/// Returns a name for the item of this plan; with the plan's name if there are several plans.
pub fn name_of(harness: &Harness, item: &InboxItem) -> String {
    let place = harness.place();
    let plans = plan_registry::folder(&place.workspace).and_then(|folder| {
        Ok(provost_host::plans::plan_file::list_in(&place.workspace, &folder)?.plans.len())
    });
    match plans {
        Ok(0 | 1) => format!("e{}", item.id.seq),
        _ => format!("{}:e{}", place.name, item.id.seq),
    }
}

/// Returns what waits in one plan.
pub fn items(log: &dyn Log, heading: &PlanLabel, run: &Run) -> Result<Vec<InboxItem>, Error> {
    let mut items = Vec::new();
    for waiting in inbox::waiting(run) {
        let events = history(log, &heading.plan, &waiting)?;
        items.extend(InboxItem::new(heading, run, &waiting, &events));
    }
    Ok(items)
}

/// Maximum size of a diff in an item; `provost changes` shows all of it.
const DIFF_BYTES: usize = 64 * 1024;

/// Adds the changed files and their diff to an item that asks a person to confirm the work.
pub fn show_work(harness: &Harness, item: &mut InboxItem) {
    let Some(step) = item.step.filter(|_| item.kind == DecisionKind::Confirmation) else { return };
    match step_changes::look(harness, step) {
        Ok(work) => {
            item.context.changed = work.files.iter().map(named_change).collect();
            if work.files.is_empty() {
                item.context.changed.push("no file was changed".to_owned());
            }
            let mut diff: String = work.files.iter().map(FileComparison::unified).collect();
            if diff.len() > DIFF_BYTES {
                let left_out = diff.len() - DIFF_BYTES;
                let end = (0..=DIFF_BYTES).rev().find(|end| diff.is_char_boundary(*end)).unwrap_or(0);
                diff.truncate(end);
                diff.push_str(&format!(
                    "\n[… {left_out} bytes left out; `provost changes {step}` shows all of it …]\n"
                ));
            }
            item.context.diff = Some(diff).filter(|diff| !diff.is_empty());
        }
        Err(Error::Refused(Refusal::NoTree)) => item.context.changed.push(
            "provost keeps no tree at this isolation level; see `git status` and `git diff` in the workspace"
                .to_owned(),
        ),
        Err(error) => item.context.changed.push(format!("provost cannot show its changes: {error}")),
    }
}

fn named_change(file: &FileComparison) -> String {
    let (more, less) = file.count();
    match file.unshown {
        Some(why) => format!("{} {} ({why})", file.kind.word(), file.path),
        None => format!("{} {} (+{more} -{less})", file.kind.word(), file.path),
    }
}

/// Returns the events about the item since the last retry answer, oldest first.
fn history(
    log: &dyn Log,
    plan: &PlanId,
    waiting: &WaitingItem,
) -> Result<Vec<(u64, Timestamp, Event)>, Error> {
    let query = Query {
        step: waiting.step,
        names: waiting.events().iter().map(|name| (*name).to_owned()).collect(),
        newest_first: true,
        limit: Some(HISTORY),
        ..Query::plan(plan)
    };
    let (mut events, mut bad) = (Vec::new(), Ok(()));
    log.read(&query, &mut |sealed| match sealed.event() {
        Ok(Event::Answered { choice: Choice::Retry, .. }) => ControlFlow::Break(()),
        Ok(event) => {
            events.push((sealed.seq, sealed.at, event));
            ControlFlow::Continue(())
        }
        Err(error) => {
            bad = Err(error);
            ControlFlow::Break(())
        }
    })?;
    bad?;
    events.reverse();
    Ok(events)
}

/// Returns what waits in this plan.
pub fn plan_items(harness: &Harness, run: &Run) -> Result<Vec<InboxItem>, Error> {
    let argument = match harness.place().why {
        PlanChoice::Unnamed | PlanChoice::Marker(_) => None,
        PlanChoice::Name => Some(harness.place().name.clone()),
        PlanChoice::Path => Some(shown(&harness.place().path)),
    };
    let heading = PlanLabel { plan: harness.id().clone(), name: harness.place().slug.clone(), argument };
    let mut items = items(harness.log(), &heading, run)?;
    items.iter_mut().for_each(|item| show_work(harness, item));
    Ok(items)
}

/// Records items that have waited too long, once per reminder. Returns them with the number of the
/// reminder.
pub fn remind(harness: &Harness, items: &[InboxItem]) -> Result<Vec<(InboxItem, u64)>, Error> {
    let Some(patience) = harness.config().gate.remind_after else { return Ok(Vec::new()) };
    let now = plan_context::now();
    let due = items.iter().filter_map(|item| Some((item.clone(), item.reminder(now, patience)?)));
    let due: Vec<(InboxItem, u64)> = due.collect();
    for (item, reminder) in &due {
        let reason = item.overdue(*reminder);
        if !is_reminded(harness, item, &reason)? {
            harness.own_command(|_| HarnessCommand::Remind { reason: reason.clone() })?;
        }
    }
    Ok(due)
}

fn is_reminded(harness: &Harness, item: &InboxItem, reason: &str) -> Result<bool, Error> {
    let names = vec!["RECOVERY_ESCALATION".to_owned()];
    let query = Query { names, after_seq: Some(item.id.seq), ..Query::plan(harness.id()) };
    let mut found = false;
    queries::each(harness, &query, &mut |sealed| {
        found =
            matches!(sealed.event(), Ok(Event::Escalated { step: None, reason: said, .. }) if said == reason);
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Returns whether the caller may send notifications; not from inside an attempt.
pub fn may_tell(harness: &Harness) -> bool {
    matches!(
        human_check::intruder(
            harness.log(),
            &harness.workspace_lease(),
            &Sessions::new(harness.state()),
            harness.who()
        ),
        Ok(None)
    )
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
