//! Decides about several plans: which may start, which may run together, and the merge order.
//!
//! All decisions follow from what the plans declare (`depends_on`, `touches`) and from the stage of each in
//! its log. People, `integrate` and programs use the same answers.
//!
//! **Invariant:** a plan that does not declare `touches` is never assumed to be safe beside another.
//! **Invariant:** the merge order puts no plan before one it depends on; if that is impossible, there is no
//! order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::model::suggest;
use crate::state::run::Stage;

#[cfg(test)]
mod tests;

use crate::language::globs::overlap::{GlobOverlap, GlobSet};

/// A plan, as the other plans see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgendaEntry {
    /// Its name in `depends_on` of others.
    pub name: String,
    pub stage: Stage,
    pub depends_on: Vec<String>,
    /// `None`: not declared.
    pub touches: Option<Vec<String>>,
    /// A run is working on it now.
    pub under_way: bool,
    /// Number of changed lines, if known.
    pub size: Option<u64>,
    /// It has begun, and nothing can be done before a person answers.
    pub asks_a_person: bool,
    /// Why its file or its log cannot be used.
    pub trouble: Option<String>,
}

/// A mistake in the dependencies between plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependencyProblem {
    Unknown { plan: String, named: String, nearest: Option<String> },
    Cycle { round: Vec<String> },
}

impl std::fmt::Display for DependencyProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DependencyProblem::Unknown { plan, named, nearest } => {
                write!(f, "{plan} depends on {named}, but there is no such plan")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean {nearest}?"),
                    None => Ok(()),
                }
            }
            DependencyProblem::Cycle { round } => {
                write!(f, "these plans wait for each other: {}", round.join(" → "))
            }
        }
    }
}

/// The state of a plan: may it start?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartState {
    Done,
    Failed,
    UnderWay,
    Ready,
    /// Its current revision is not approved.
    Unapproved,
    /// A person has to answer first.
    AsksAPerson,
    /// Why its file or its log cannot be used.
    Broken(String),
    /// Plans that must be done first, with their stages.
    Waits(Vec<(String, Stage)>),
    /// Its dependencies on other plans are wrong.
    Unsound(DependencyProblem),
}

/// The answer whether a plan may run in parallel with those that run or were chosen before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compatibility {
    Safe,
    /// It does not declare `touches`.
    Undeclared,
    /// It may change files that another plan may change.
    Meets {
        plan: String,
        meeting: GlobOverlap,
    },
}

/// A plan that may start, and whether it may run together with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartablePlan {
    pub name: String,
    pub beside: Compatibility,
}

/// All plans of a repository.
pub struct Agenda {
    entries: BTreeMap<String, AgendaEntry>,
}

impl Agenda {
    /// Creates an agenda. If two plans have the same name, the first counts.
    pub fn new(entries: impl IntoIterator<Item = AgendaEntry>) -> Self {
        let mut by_name = BTreeMap::new();
        for entry in entries {
            by_name.entry(entry.name.clone()).or_insert(entry);
        }
        Self { entries: by_name }
    }

    pub fn entries(&self) -> impl Iterator<Item = &AgendaEntry> {
        self.entries.values()
    }

    pub fn get(&self, name: &str) -> Option<&AgendaEntry> {
        self.entries.get(name)
    }

    /// Returns dependencies on unknown plans, and cycles.
    pub fn problems(&self) -> Vec<DependencyProblem> {
        let mut problems: Vec<DependencyProblem> =
            self.entries().flat_map(|entry| self.unknown(entry)).collect();
        problems.extend(self.cycles().into_iter().map(|round| DependencyProblem::Cycle { round }));
        problems
    }

    fn unknown(&self, entry: &AgendaEntry) -> Vec<DependencyProblem> {
        let missing = entry.depends_on.iter().filter(|name| !self.entries.contains_key(*name));
        let problem = |named: &String| DependencyProblem::Unknown {
            plan: entry.name.clone(),
            named: named.clone(),
            nearest: suggest::suggestion(named, self.entries.keys().map(String::as_str)).map(str::to_owned),
        };
        missing.map(problem).collect()
    }

    /// Returns one cycle for each group of plans that wait for each other, with the same first and last name.
    fn cycles(&self) -> Vec<Vec<String>> {
        let mut left: BTreeSet<&str> = self.unordered(&self.entries.keys().map(String::as_str).collect());
        let mut rounds = Vec::new();
        while let Some(round) = self.round(&left) {
            for name in &round {
                left.remove(name.as_str());
            }
            // Plans that only wait for the cycle are not part of one.
            left = self.unordered(&left);
            rounds.push(round);
        }
        rounds
    }

    /// Follows dependencies until a plan repeats.
    fn round(&self, left: &BTreeSet<&str>) -> Option<Vec<String>> {
        let mut way: Vec<&str> = vec![left.first()?];
        loop {
            let entry = self.entries.get(*way.last()?)?;
            let next = entry.depends_on.iter().map(String::as_str).find(|name| left.contains(name))?;
            if let Some(from) = way.iter().position(|name| *name == next) {
                let round = way[from..].iter().chain([&next]).map(|name| (*name).to_owned());
                return Some(round.collect());
            }
            way.push(next);
        }
    }

    /// Returns the plans that remain after removing, repeatedly, those that wait for no remaining plan.
    fn unordered<'a>(&'a self, among: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut left = among.clone();
        for name in self.sorted(among) {
            left.remove(name);
        }
        left
    }

    /// Sorts these plans as far as possible: smaller changes first, then by name.
    fn sorted<'a>(&'a self, among: &BTreeSet<&'a str>) -> Vec<&'a str> {
        let mut waits: BTreeMap<&str, usize> = BTreeMap::new();
        let mut followers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in among {
            let before: BTreeSet<&str> = self.before(name).filter(|name| among.contains(name)).collect();
            waits.insert(name, before.len());
            before.into_iter().for_each(|other| followers.entry(other).or_default().push(name));
        }
        let rank = |name: &'a str| {
            let size = self.entries.get(name).and_then(|entry| entry.size);
            // Unknown sizes come last.
            Reverse((size.is_none(), size, name))
        };
        let free = |count: &usize| *count == 0;
        let mut open: BinaryHeap<_> =
            among.iter().filter(|name| waits.get(**name).is_some_and(free)).map(|name| rank(name)).collect();
        let mut order = Vec::new();
        while let Some(Reverse((_, _, name))) = open.pop() {
            order.push(name);
            for follower in followers.get(name).into_iter().flatten() {
                if let Some(count) = waits.get_mut(follower) {
                    *count -= 1;
                    if *count == 0
                        && let Some(name) = among.get(follower)
                    {
                        open.push(rank(name));
                    }
                }
            }
        }
        order
    }

    fn before<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries.get(name).into_iter().flat_map(|entry| entry.depends_on.iter().map(String::as_str))
    }

    /// Returns all plans in merge order: after their dependencies, smaller changes first, then by name.
    pub fn merge_order(&self) -> Result<Vec<&AgendaEntry>, DependencyProblem> {
        let all = self.entries.keys().map(String::as_str).collect();
        let order = self.sorted(&all);
        match self.cycles().into_iter().next() {
            Some(round) => Err(DependencyProblem::Cycle { round }),
            None => Ok(order.into_iter().filter_map(|name| self.entries.get(name)).collect()),
        }
    }

    pub fn standing(&self, entry: &AgendaEntry) -> StartState {
        match entry.stage {
            Stage::Done => return StartState::Done,
            Stage::Failed => return StartState::Failed,
            Stage::Draft | Stage::Verified | Stage::Approved | Stage::InProgress => {}
        }
        if entry.under_way {
            return StartState::UnderWay;
        }
        if let Some(trouble) = &entry.trouble {
            return StartState::Broken(trouble.clone());
        }
        if let Some(problem) = self.unknown(entry).into_iter().next() {
            return StartState::Unsound(problem);
        }
        if let Some(round) = self.cycles().into_iter().find(|round| round.contains(&entry.name)) {
            return StartState::Unsound(DependencyProblem::Cycle { round });
        }
        let open = entry.depends_on.iter().filter_map(|name| self.entries.get(name));
        let open: Vec<_> = open
            .filter(|other| other.stage != Stage::Done)
            .map(|other| (other.name.clone(), other.stage))
            .collect();
        match entry.stage {
            _ if !open.is_empty() => StartState::Waits(open),
            Stage::Draft | Stage::Verified => StartState::Unapproved,
            _ if entry.asks_a_person => StartState::AsksAPerson,
            _ => StartState::Ready,
        }
    }

    /// Lists the plans that may start now, by name, and whether each may run in parallel with the running
    /// ones and those before it.
    pub fn starts(&self) -> Vec<StartablePlan> {
        let reach = |entry: &AgendaEntry| entry.touches.as_ref().map(|globs| GlobSet::new(globs));
        let busy = self.entries().filter(|entry| entry.under_way);
        let mut chosen: Vec<(String, Option<GlobSet>)> =
            busy.map(|entry| (entry.name.clone(), reach(entry))).collect();
        let mut starts = Vec::new();
        for entry in self.entries().filter(|entry| self.standing(entry) == StartState::Ready) {
            let own = reach(entry);
            let beside = match &own {
                None => Compatibility::Undeclared,
                Some(own) => beside(own, &chosen),
            };
            if beside == Compatibility::Safe {
                chosen.push((entry.name.clone(), own));
            }
            starts.push(StartablePlan { name: entry.name.clone(), beside });
        }
        starts
    }

    /// Returns a path that two plans may both change. `None` if they are disjoint or one does not declare
    /// `touches`.
    pub fn meeting(&self, one: &str, other: &str) -> Option<GlobOverlap> {
        let reach = |name: &str| self.entries.get(name)?.touches.as_ref().map(|globs| GlobSet::new(globs));
        reach(one)?.meets(&reach(other)?)
    }
}

fn beside(own: &GlobSet, chosen: &[(String, Option<GlobSet>)]) -> Compatibility {
    for (plan, reach) in chosen {
        let meeting = match reach {
            Some(reach) => own.meets(reach),
            // A running plan without `touches` may change any file.
            None => own.meets(&GlobSet::new(&["**"])),
        };
        if let Some(meeting) = meeting {
            return Compatibility::Meets { plan: plan.clone(), meeting };
        }
    }
    Compatibility::Safe
}
