//! Many plans: what may start, what may run together, and in which order work is merged.
//!
//! Everything is decided from what the plans declare (`depends_on`, `touches`) and from the stage each
//! has reached by the log. The same answers serve people, `integrate` and programs.
//!
//! **Invariant:** a plan that does not say what it touches is never assumed to be safe beside another.
//! **Invariant:** the merge order puts no plan before one it depends on; where there is no such order,
//! there is none at all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::model::suggest;
use crate::state::run::Stage;

#[cfg(test)]
mod tests;

use crate::language::globs::overlap::{Meeting, Reach};

/// One plan, as far as the others are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As others name it in `depends_on`.
    pub name: String,
    pub stage: Stage,
    pub depends_on: Vec<String>,
    /// `None`: not declared.
    pub touches: Option<Vec<String>>,
    /// Somebody works on it now.
    pub under_way: bool,
    /// Lines that its work changes, where that is known.
    pub size: Option<u64>,
    /// It has begun, and nothing can be done before a person has answered.
    pub asks_a_person: bool,
    /// Why its file or its log cannot be used.
    pub trouble: Option<String>,
}

/// What is wrong with what plans say of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    Unknown { plan: String, named: String, nearest: Option<String> },
    Cycle { round: Vec<String> },
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Problem::Unknown { plan, named, nearest } => {
                write!(f, "{plan} depends on {named}, and there is no such plan")?;
                match nearest {
                    Some(nearest) => write!(f, "; {nearest} was meant?"),
                    None => Ok(()),
                }
            }
            Problem::Cycle { round } => write!(f, "these plans wait for each other: {}", round.join(" → ")),
        }
    }
}

/// Whether a plan may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Done,
    Failed,
    UnderWay,
    Ready,
    /// Nobody has approved it as it stands in the log.
    Unapproved,
    /// A person has to answer first.
    AsksAPerson,
    /// Its file or its log cannot be used, and why.
    Broken(String),
    /// Plans that have to be done first, with their stages.
    Waits(Vec<(String, Stage)>),
    /// What it says of other plans cannot be followed.
    Unsound(Problem),
}

/// Whether a plan may run beside those that run, or were chosen before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beside {
    Safe,
    /// It does not say what it touches.
    Undeclared,
    /// It may change what another plan may change.
    Meets {
        plan: String,
        meeting: Meeting,
    },
}

/// A plan that may start, and whether together with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub name: String,
    pub beside: Beside,
}

/// All plans of a repository.
pub struct Agenda {
    entries: BTreeMap<String, Entry>,
}

impl Agenda {
    /// Of two plans of one name the first counts.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut by_name = BTreeMap::new();
        for entry in entries {
            by_name.entry(entry.name.clone()).or_insert(entry);
        }
        Self { entries: by_name }
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Names of plans that do not exist, and plans that wait for each other.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.entries().flat_map(|entry| self.unknown(entry)).collect();
        problems.extend(self.cycles().into_iter().map(|round| Problem::Cycle { round }));
        problems
    }

    fn unknown(&self, entry: &Entry) -> Vec<Problem> {
        let missing = entry.depends_on.iter().filter(|name| !self.entries.contains_key(*name));
        let problem = |named: &String| Problem::Unknown {
            plan: entry.name.clone(),
            named: named.clone(),
            nearest: suggest::suggestion(named, self.entries.keys().map(String::as_str)).map(str::to_owned),
        };
        missing.map(problem).collect()
    }

    /// Of each knot of plans that wait for each other one round, beginning and ending with the same.
    fn cycles(&self) -> Vec<Vec<String>> {
        let mut left: BTreeSet<&str> = self.unordered(&self.entries.keys().map(String::as_str).collect());
        let mut rounds = Vec::new();
        while let Some(round) = self.round(&left) {
            for name in &round {
                left.remove(name.as_str());
            }
            // What only waits for the round is no part of one.
            left = self.unordered(&left);
            rounds.push(round);
        }
        rounds
    }

    /// Walks from plan to plan that it waits for, until one comes again.
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

    /// Those that are left when all are taken away that wait for nobody who is left.
    fn unordered<'a>(&'a self, among: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut left = among.clone();
        for name in self.sorted(among) {
            left.remove(name);
        }
        left
    }

    /// The order among these, as far as there is one: smaller first, then by name.
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
            // What nobody has counted comes after what is known.
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

    /// All plans in the order in which their work is merged: after those they depend on, the smaller
    /// change first, then by name.
    pub fn merge_order(&self) -> Result<Vec<&Entry>, Problem> {
        let all = self.entries.keys().map(String::as_str).collect();
        let order = self.sorted(&all);
        match self.cycles().into_iter().next() {
            Some(round) => Err(Problem::Cycle { round }),
            None => Ok(order.into_iter().filter_map(|name| self.entries.get(name)).collect()),
        }
    }

    pub fn standing(&self, entry: &Entry) -> Standing {
        match entry.stage {
            Stage::Done => return Standing::Done,
            Stage::Failed => return Standing::Failed,
            Stage::Draft | Stage::Verified | Stage::Approved | Stage::InProgress => {}
        }
        if entry.under_way {
            return Standing::UnderWay;
        }
        if let Some(trouble) = &entry.trouble {
            return Standing::Broken(trouble.clone());
        }
        if let Some(problem) = self.unknown(entry).into_iter().next() {
            return Standing::Unsound(problem);
        }
        if let Some(round) = self.cycles().into_iter().find(|round| round.contains(&entry.name)) {
            return Standing::Unsound(Problem::Cycle { round });
        }
        let open = entry.depends_on.iter().filter_map(|name| self.entries.get(name));
        let open: Vec<_> = open
            .filter(|other| other.stage != Stage::Done)
            .map(|other| (other.name.clone(), other.stage))
            .collect();
        match entry.stage {
            _ if !open.is_empty() => Standing::Waits(open),
            Stage::Draft | Stage::Verified => Standing::Unapproved,
            _ if entry.asks_a_person => Standing::AsksAPerson,
            _ => Standing::Ready,
        }
    }

    /// What may start now, in order of name, and whether beside what is under way and those before it.
    pub fn starts(&self) -> Vec<Start> {
        let reach = |entry: &Entry| entry.touches.as_ref().map(|globs| Reach::new(globs));
        let busy = self.entries().filter(|entry| entry.under_way);
        let mut chosen: Vec<(String, Option<Reach>)> =
            busy.map(|entry| (entry.name.clone(), reach(entry))).collect();
        let mut starts = Vec::new();
        for entry in self.entries().filter(|entry| self.standing(entry) == Standing::Ready) {
            let own = reach(entry);
            let beside = match &own {
                None => Beside::Undeclared,
                Some(own) => beside(own, &chosen),
            };
            if beside == Beside::Safe {
                chosen.push((entry.name.clone(), own));
            }
            starts.push(Start { name: entry.name.clone(), beside });
        }
        starts
    }

    /// Where two plans may change the same path. Nothing, where they are disjoint or do not say.
    pub fn meeting(&self, one: &str, other: &str) -> Option<Meeting> {
        let reach = |name: &str| self.entries.get(name)?.touches.as_ref().map(|globs| Reach::new(globs));
        reach(one)?.meets(&reach(other)?)
    }
}

fn beside(own: &Reach, chosen: &[(String, Option<Reach>)]) -> Beside {
    for (plan, reach) in chosen {
        let meeting = match reach {
            Some(reach) => own.meets(reach),
            // Who is at work and does not say where may be anywhere.
            None => own.meets(&Reach::new(&["**"])),
        };
        if let Some(meeting) = meeting {
            return Beside::Meets { plan: plan.clone(), meeting };
        }
    }
    Beside::Safe
}
