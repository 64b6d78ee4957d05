//! Collects the plans for the train: those that are done and proved, each as a commit of exactly the tree it
//! was judged by, in merge order.

use crate::plan::queries;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use provost_core::fleet::agenda::{Agenda, AgendaEntry, DependencyProblem};
use provost_core::fleet::train::Car;
use provost_core::model::chain::PlanId;
use provost_core::model::event::{TrainEntry, TrainExclusion};
use provost_core::rules::command::Refusal;
use provost_core::state::run::{Run, Stage};
use provost_host::exec::environment;
use provost_host::git;
use provost_host::tree::{CommitText, NewCommit, With};

use super::{Wish, Yard, open_log};
use crate::Error;
use crate::plan::commit::{self, PlanTrees};
use crate::plan::harness::Harness;
use crate::plan::plan_registry::{self, Here, PlanLocation};
use crate::settings::{Access, EngineSettings};

/// A plan of the repository.
pub(super) struct TrainPlan {
    pub harness: Harness,
    pub run: Run,
    /// Name for people.
    pub name: String,
    /// Its commit to merge, once known.
    pub piece: Option<PlanCommit>,
}

/// The change of a plan as git objects.
#[derive(Clone, Debug)]
pub(super) struct PlanCommit {
    /// Exactly the judged tree, on the approved base.
    pub commit: String,
    pub tree: String,
    pub base_tree: String,
    size: u64,
}

impl TrainPlan {
    pub(super) fn id(&self) -> &PlanId {
        self.harness.id()
    }

    pub(super) fn boarded(&self) -> TrainEntry {
        TrainEntry {
            plan: self.id().to_string(),
            name: self.name.clone(),
            revision: self.run.revision.clone(),
            tree: self.run.tree.clone().unwrap_or_default(),
        }
    }

    fn needs(&self) -> impl Iterator<Item = &str> {
        self.run.plan.depends_on.iter().map(|slug| slug.value.as_str())
    }
}

pub(super) struct TrainCandidates {
    /// Done and not on the branch; ordered once their commits are known.
    pub plans: Vec<TrainPlan>,
    /// Done and on the branch.
    pub landed: Vec<TrainPlan>,
    pub left_out: Vec<TrainExclusion>,
    /// All others, with the reason.
    unready: BTreeMap<String, String>,
}

impl TrainCandidates {
    pub(super) fn of(yard: &Yard<'_>) -> Result<Self, Error> {
        let tip = yard.tip()?;
        let mut boarding =
            Self { plans: Vec::new(), landed: Vec::new(), left_out: Vec::new(), unready: BTreeMap::new() };
        for (id, place) in known(yard)? {
            let plan = match open(yard, &place) {
                Ok(plan) if plan.run.exists() => plan,
                Ok(_) => continue,
                Err(error) => {
                    boarding.unready.insert(place.name, error.to_string());
                    continue;
                }
            };
            debug_assert_eq!(plan.id(), &id);
            let there = plan.run.landed.as_ref().filter(|landed| landed.target == yard.target);
            // A branch that was reset no longer contains it.
            let is_there =
                there.is_some_and(|landed| yard.trees.is_in(&landed.commit, &tip).unwrap_or(false));
            match plan.run.stage {
                Stage::Done if is_there => boarding.landed.push(plan),
                Stage::Done => boarding.plans.push(plan),
                stage => drop(boarding.unready.insert(plan.name.clone(), format!("it is {}", stage.word()))),
            }
        }
        boarding.tell_apart();
        Ok(boarding)
    }

    /// Renames plans that have the same name in different worktrees to their ids in the log.
    fn tell_apart(&mut self) {
        let mut count: BTreeMap<String, u32> = BTreeMap::new();
        for plan in self.plans.iter().chain(&self.landed) {
            *count.entry(plan.name.clone()).or_default() += 1;
        }
        for plan in self.plans.iter_mut().chain(&mut self.landed) {
            if count.get(&plan.name).is_some_and(|count| *count > 1) {
                plan.name = plan.harness.id().to_string();
            }
        }
    }

    /// Keeps the named plans; refuses a named plan that cannot land.
    pub(super) fn keep_named(&mut self, yard: &Yard<'_>) -> Result<(), Error> {
        let named = &yard.request.plans;
        for plan in &self.plans {
            if yard.request.wish == Wish::Land {
                crate::plan::authorization::only_people(&plan.harness)?;
            }
        }
        let mut wanted = Vec::new();
        for argument in named {
            let means = |plan: &&TrainPlan| is_meant(plan, argument, &yard.settings.cwd);
            if self.landed.iter().any(|plan| means(&plan)) {
                continue;
            }
            let Some(plan) = self.plans.iter().find(means) else { return Err(self.cannot(yard, argument)) };
            if let Some(why) = doubt(plan) {
                return Err(Refusal::CannotLand { name: plan.name.clone(), why }.into());
            }
            wanted.push(plan.id().clone());
        }
        if !named.is_empty() {
            let (some, others): (Vec<TrainPlan>, Vec<TrainPlan>) =
                std::mem::take(&mut self.plans).into_iter().partition(|plan| wanted.contains(plan.id()));
            self.plans = some;
            for other in others {
                self.unready.insert(other.name, "it was not named".to_owned());
            }
        }
        Ok(())
    }

    fn cannot(&self, yard: &Yard<'_>, argument: &str) -> Error {
        let place = match plan_registry::resolve(Some(argument), &yard.settings.cwd) {
            Ok(place) => place,
            Err(error) => return error,
        };
        let why = self.unready.get(&place.name).cloned().unwrap_or_else(|| "it has never run".to_owned());
        Refusal::CannotLand { name: place.name, why }.into()
    }

    /// Makes a commit of each plan and orders them. A plan without a commit is left out, and so are its
    /// dependents.
    pub(super) fn take_pieces(&mut self, yard: &Yard<'_>, tip: &str) -> Result<(), Error> {
        let mut kept = Vec::new();
        for mut plan in std::mem::take(&mut self.plans) {
            let made = match doubt(&plan) {
                Some(why) => Err(why),
                None => piece(yard, &plan, tip),
            };
            match made {
                Ok(piece) => {
                    plan.piece = Some(piece);
                    kept.push(plan);
                }
                Err(why) => self.leave(plan, why, None),
            }
        }
        self.plans = kept;
        while let Some((place, need)) = self.missing() {
            let why =
                self.unready.get(&need).cloned().unwrap_or_else(|| "there is no such plan here".to_owned());
            let plan = self.plans.remove(place);
            self.leave(plan, format!("depends on {need}: {why}"), Some(need));
        }
        self.put_in_order();
        Ok(())
    }

    /// Returns the first plan with a dependency that is neither here nor on the branch.
    fn missing(&self) -> Option<(usize, String)> {
        let is_there = |need: &str| self.plans.iter().chain(&self.landed).any(|plan| plan.name == need);
        self.plans.iter().enumerate().find_map(|(place, plan)| {
            plan.needs().find(|need| !is_there(need)).map(|need| (place, need.to_owned()))
        })
    }

    fn put_in_order(&mut self) {
        loop {
            let agenda = Agenda::new(self.plans.iter().map(entry));
            let round = match agenda.merge_order() {
                Ok(order) => {
                    let place = |plan: &TrainPlan| {
                        order.iter().position(|entry| entry.name == plan.name).unwrap_or(usize::MAX)
                    };
                    self.plans.sort_by_key(place);
                    return;
                }
                Err(DependencyProblem::Cycle { round }) => round,
                // Cannot happen: all dependencies are here.
                Err(DependencyProblem::Unknown { plan, .. }) => vec![plan],
            };
            let way = round.join(" → ");
            for place in (0..self.plans.len()).rev().filter(|_| !round.is_empty()) {
                if round.contains(&self.plans[place].name) {
                    let plan = self.plans.remove(place);
                    self.leave(plan, format!("depends on itself: {way}"), None);
                }
            }
            while let Some((place, need)) = self.missing() {
                let plan = self.plans.remove(place);
                self.leave(plan, format!("depends on {need}, which depends on itself"), Some(need));
            }
        }
    }

    fn leave(&mut self, plan: TrainPlan, reason: String, with: Option<String>) {
        self.unready.insert(plan.name.clone(), reason.clone());
        self.left_out.push(TrainExclusion { plan: plan.id().to_string(), name: plan.name, reason, with });
    }

    pub(super) fn cars(&self) -> Vec<Car> {
        let place = |name: &str| self.plans.iter().position(|plan| plan.name == name);
        let car = |plan: &TrainPlan| Car {
            name: plan.name.clone(),
            needs: plan.needs().filter_map(place).collect(),
        };
        self.plans.iter().map(car).collect()
    }
}

fn entry(plan: &TrainPlan) -> AgendaEntry {
    let among = plan.needs().map(str::to_owned);
    AgendaEntry {
        name: plan.name.clone(),
        stage: plan.run.stage,
        depends_on: among.collect(),
        touches: None,
        under_way: false,
        asks_a_person: false,
        trouble: None,
        size: plan.piece.as_ref().map(|piece| piece.size),
    }
}

/// Returns the plans of this repository that the log knows, in any worktree.
fn known(yard: &Yard<'_>) -> Result<Vec<(PlanId, PlanLocation)>, Error> {
    let here = Here::of(&yard.workspace);
    let ids = open_log(yard)?.plans()?.into_iter();
    let places = ids.filter_map(|id| plan_registry::find(&yard.state, &id).map(|place| (id, place)));
    Ok(places.filter(|(_, place)| here.has(place) && place.is_there()).collect())
}

/// Opens a plan in the worktree it was worked in, because its judged tree is kept there.
fn open(yard: &Yard<'_>, place: &PlanLocation) -> Result<TrainPlan, Error> {
    let plan = open_in(yard, place, &place.workspace)?;
    let Some(tree) = plan.run.tree.clone() else { return Ok(plan) };
    let kept = |workspace: &PathBuf| environment::keeps(workspace, &yard.state, &tree);
    if kept(&place.workspace) {
        return Ok(plan);
    }
    match git::checkouts(&yard.workspace).into_iter().find(kept) {
        Some(elsewhere) => open_in(yard, place, &elsewhere),
        None => Ok(plan),
    }
}

fn open_in(yard: &Yard<'_>, place: &PlanLocation, workspace: &Path) -> Result<TrainPlan, Error> {
    let settings = EngineSettings {
        cwd: workspace.to_owned(),
        plan: Some(place.path.display().to_string()),
        ..yard.settings.clone()
    };
    let access = if yard.request.wish == Wish::DryRun { Access::Read } else { Access::Write };
    let harness = Harness::open(settings, access)?;
    let run = harness.genuine()?;
    Ok(TrainPlan { name: harness.place().name.clone(), harness, run, piece: None })
}

/// Opens a plan by its id, to record something in its log.
pub(super) fn open_by_id(yard: &Yard<'_>, id: &str) -> Option<TrainPlan> {
    let place = plan_registry::find(&yard.state, &PlanId(id.to_owned()))?;
    open(yard, &place).ok().filter(|plan| plan.id().0 == id)
}

fn is_meant(plan: &TrainPlan, argument: &str, cwd: &Path) -> bool {
    let path = &plan.harness.place().path;
    let by_path = || cwd.join(argument).canonicalize().is_ok_and(|given| given == *path);
    let by_file = || path.file_name().is_some_and(|name| name == argument);
    plan.name == argument || plan.id().0 == argument || by_path() || by_file()
}

/// Returns why the plan cannot be trusted to be done, if so.
fn doubt(plan: &TrainPlan) -> Option<String> {
    let audit = match queries::audit(&plan.harness) {
        Ok(audit) => audit,
        Err(error) => return Some(error.to_string()),
    };
    let broken = audit.broken.as_ref().map(ToString::to_string);
    let found = broken
        .into_iter()
        .chain(audit.lost)
        .chain(audit.unfounded)
        .chain(audit.forged)
        .chain(audit.disproved)
        .next();
    if let Some(found) = found {
        return Some(format!("its log or its proof does not verify: {found}"));
    }
    let (revision, tree) = (plan.run.revision.0.as_str(), plan.run.tree.as_deref());
    let Some(tree) = tree.filter(|_| plan.run.binding.base.is_some()) else {
        return Some(Refusal::NoTree.to_string());
    };
    match plan.harness.prover().vouches(revision, tree) {
        true => None,
        false => Some("there is no proof that it is done".to_owned()),
    }
}

fn piece(yard: &Yard<'_>, plan: &TrainPlan, tip: &str) -> Result<PlanCommit, String> {
    let told = |error: &dyn std::error::Error| match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let base = plan.run.binding.base.clone().unwrap_or_default();
    match yard.trees.is_in(&base, tip) {
        Ok(true) => {}
        Ok(false) => {
            let short = base.get(..12).unwrap_or(&base);
            return Err(format!(
                "it was approved on {short}, which is not part of {}: approve it again there",
                yard.target
            ));
        }
        Err(error) => return Err(told(&error)),
    }
    let PlanTrees { trees, approved, judged, .. } =
        commit::kept(&plan.harness, &plan.run).map_err(|error| told(&error))?;
    let (user, email) = git::identity(&yard.workspace, yard.request.home.as_deref());
    let message =
        commit::usual_message(&plan.harness, &plan.run, plan.run.tree.as_deref().unwrap_or_default());
    let by = CommitText {
        name: user.as_deref().unwrap_or(&yard.request.by),
        email: email.as_deref().unwrap_or_default(),
        message: &message,
    };
    let made = || {
        let NewCommit { commit, tree, .. } =
            trees.commit(&base, &approved, &judged, &With::default(), &by)?;
        yard.trees.bring(&trees, &commit)?;
        let base_tree = yard.trees.tree_of(&base)?;
        let size = yard.trees.size(&base_tree, &tree)?;
        Ok(PlanCommit { commit, tree, base_tree, size })
    };
    made().map_err(|error: provost_host::tree::Error| told(&error))
}
