//! Holds which files each step may change, and which steps may run in parallel.

use std::sync::OnceLock;

use super::Run;
use crate::language::globs::overlap::{GlobSet, Overlap};
use crate::model::plan::{Plan, Spanned, Step, StepNumber};
use crate::model::verdict::Isolation;

/// Computed at first use: a plan that runs one step at a time never needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Areas(OnceLock<Vec<Area>>);

/// The files a step may change.
#[derive(Clone, Debug)]
enum Area {
    /// Not declared, or a sub-plan or a person carries it out: it may change any file.
    Anything,
    Globs(GlobSet),
}

impl Area {
    fn of(plan: &Plan, step: &Step) -> Self {
        let globs = step.touches.as_ref().or(plan.touches.as_ref());
        let is_known = !step.is_confirmed_by_person() && step.plan.is_none();
        let read = |globs: &Vec<Spanned<String>>| {
            GlobSet::new(&globs.iter().map(|glob| glob.value.as_str()).collect::<Vec<_>>())
        };
        globs.filter(|_| is_known).map_or(Area::Anything, |globs| Area::Globs(read(globs)))
    }

    /// Returns a path that both may change.
    fn overlap(&self, other: &Area) -> Option<String> {
        match (self, other) {
            (Area::Globs(one), Area::Globs(other)) => match one.meets(other)?.overlap {
                Overlap::None => None,
                Overlap::Shared(path) => Some(path),
                Overlap::Undecided(_) => Some("**".to_owned()),
            },
            (Area::Anything, _) | (_, Area::Anything) => Some("**".to_owned()),
        }
    }
}

impl Run {
    /// Returns a path that both steps may change, which keeps them from running in parallel; `**` if one of
    /// them may change any file, or if the overlap could not be decided.
    pub fn overlap(&self, one: StepNumber, other: StepNumber) -> Option<String> {
        let areas = self
            .areas
            .0
            .get_or_init(|| self.plan.steps.iter().map(|step| Area::of(&self.plan, step)).collect());
        let area =
            |number: StepNumber| areas.get((number.0 as usize).wrapping_sub(1)).unwrap_or(&Area::Anything);
        area(one).overlap(area(other))
    }

    /// Returns whether the step works in its own worktree: it may run in parallel, and the isolation level
    /// has such trees. If trees are sent between machines, the tree that passed must have all work so far.
    pub fn works_apart(&self, number: StepNumber) -> bool {
        let has_trees = match self.isolation {
            Some(Isolation::Clean | Isolation::Landlock | Isolation::GuardClean) => true,
            Some(Isolation::Uid | Isolation::InPlace | Isolation::None) | None => false,
        };
        let is_apart =
            |step: &Step| step.touches.is_some() && step.plan.is_none() && !step.is_confirmed_by_person();
        has_trees && !self.lacks_unseen_work() && self.plan.step(number).is_some_and(is_apart)
    }
}
