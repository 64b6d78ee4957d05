//! Decides which plans of a merge train land together, and why the others do not.
//!
//! Plans come in order. [`next`] uses what is known about their unions so far and returns what must be found
//! out next: whether some of them merge, or whether their union is green. When enough is known, it returns
//! the plans that land. The caller calls it again after every answer, so an interrupted train continues after
//! its last answer.
//!
//! **Invariant:** the landing set was merged and checked green as a whole, with everything it depends on.
//! **Invariant:** earlier plans have precedence: a plan is left out only because of plans before it, itself,
//! or its dependencies.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::event::CheckSubject;
use crate::model::plan::{Check, Contract};
use crate::model::verdict::CheckOutcome;
use crate::state::run::{Run, StepState};

/// A plan that is to land.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Car {
    pub name: String,
    /// The indexes of the plans it depends on; all smaller than its own.
    pub needs: Vec<usize>,
}

/// A question about a sorted set of plans.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrainQuestion {
    /// Do they merge, one after the other?
    Merge(Vec<usize>),
    /// Do all their checks hold on the union?
    Judge(Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    Clean,
    /// The last one conflicts with those before.
    Conflict {
        files: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrainResult {
    Green,
    /// A check did not hold, each time it ran.
    Red {
        what: String,
    },
    /// A check of this plan gives no clear result: it is flaky on the same files, or does not run. No other
    /// plan is to blame.
    Doubtful {
        car: usize,
        what: String,
    },
}

/// Everything known about the unions of one train.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    pub merged: BTreeMap<Vec<usize>, MergeResult>,
    pub seen: BTreeMap<Vec<usize>, TrainResult>,
}

/// Why a plan does not land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingProblem {
    /// It conflicts with that plan; `None`: with the branch, or with several plans together.
    Conflict {
        files: Vec<String>,
        with: Option<usize>,
    },
    /// The union turns red with it: because of that plan too, or by itself.
    Red {
        what: String,
        with: Option<usize>,
    },
    Doubtful {
        what: String,
    },
    /// It depends on a plan that does not land.
    Needs(usize),
}

impl LandingProblem {
    /// Returns the other plan of the pair at fault.
    pub fn with(&self) -> Option<usize> {
        match self {
            LandingProblem::Conflict { with, .. } | LandingProblem::Red { with, .. } => *with,
            LandingProblem::Needs(car) => Some(*car),
            LandingProblem::Doubtful { .. } => None,
        }
    }

    /// Describes the reason for people and the log.
    pub fn say(&self, cars: &[Car]) -> String {
        let name = |car: usize| cars.get(car).map_or("?", |car| car.name.as_str());
        match self {
            LandingProblem::Conflict { files, with: Some(with) } => {
                format!("conflicts with {} in {}", name(*with), listed(files))
            }
            LandingProblem::Conflict { files, with: None } => {
                format!("conflicts with newer commits of the branch in {}", listed(files))
            }
            LandingProblem::Red { what, with: Some(with) } => {
                format!("passes alone, but not together with {}: {what}", name(*with))
            }
            LandingProblem::Red { what, with: None } => {
                format!("fails on the branch, even without the other plans: {what}")
            }
            LandingProblem::Doubtful { what } => format!("cannot be judged: {what}"),
            LandingProblem::Needs(car) => format!("depends on {}, which does not land", name(*car)),
        }
    }
}

/// Maximum number of files that are named.
const FILES: usize = 5;

fn listed(files: &[String]) -> String {
    let more = files.len().saturating_sub(FILES);
    let named = files.iter().take(FILES).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// The plans that land, in order, and those that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainDecision {
    pub landing: Vec<usize>,
    pub left_out: BTreeMap<usize, LandingProblem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrainStep {
    Ask(TrainQuestion),
    Over(TrainDecision),
}

/// Returns what to find out next, or the end of the train.
pub fn next(cars: &[Car], answers: &Answers) -> TrainStep {
    let mut train = Train { cars, answers, out: BTreeMap::new() };
    match train.settle() {
        Ok(settled) => TrainStep::Over(settled),
        Err(question) => TrainStep::Ask(question),
    }
}

/// A value, or the question that must be answered first.
type Known<T> = Result<T, TrainQuestion>;

struct Train<'a> {
    cars: &'a [Car],
    answers: &'a Answers,
    /// Plans found to be at fault. Conflicts and missing dependencies are derived again each time.
    out: BTreeMap<usize, LandingProblem>,
}

/// The plan at fault, and why.
type Fault = (usize, LandingProblem);

impl Train<'_> {
    fn settle(&mut self) -> Known<TrainDecision> {
        // The first `green` plans are known to be green together.
        let mut green = 0;
        loop {
            let (coupled, mut left_out) = self.coupled()?;
            if coupled.len() <= green {
                left_out.append(&mut self.out);
                return Ok(TrainDecision { landing: coupled, left_out });
            }
            let fault = match self.seen(&coupled)? {
                TrainResult::Green => {
                    green = coupled.len();
                    continue;
                }
                TrainResult::Doubtful { car, what } => (car, LandingProblem::Doubtful { what }),
                TrainResult::Red { what } => self.fault(&coupled, green, what)?,
            };
            // All plans before the removed one stay.
            let place = coupled.iter().position(|car| *car == fault.0).unwrap_or(0);
            green = green.min(place);
            self.out.insert(fault.0, fault.1);
        }
    }

    /// Returns the plans that merge one after the other, with everything they depend on.
    fn coupled(&self) -> Known<(Vec<usize>, BTreeMap<usize, LandingProblem>)> {
        let (mut coupled, mut left_out) = (Vec::new(), BTreeMap::new());
        for (place, car) in self.cars.iter().enumerate() {
            if self.out.contains_key(&place) {
                continue;
            }
            if let Some(missing) = car.needs.iter().find(|need| !coupled.contains(*need)) {
                left_out.insert(place, LandingProblem::Needs(*missing));
                continue;
            }
            let mut longer = coupled.clone();
            longer.push(place);
            match self.merged(&longer)? {
                MergeResult::Clean => coupled = longer,
                MergeResult::Conflict { files } => {
                    let with = self.partner(&coupled, place)?;
                    left_out.insert(place, LandingProblem::Conflict { files, with });
                }
            }
        }
        Ok((coupled, left_out))
    }

    /// Returns the first of these plans that alone conflicts with the new one; `None` if the new one
    /// conflicts with the branch, or only with several plans together.
    fn partner(&self, coupled: &[usize], car: usize) -> Known<Option<usize>> {
        let own = self.closure(&[car]);
        if let MergeResult::Conflict { .. } = self.merged(&own)? {
            return Ok(None);
        }
        for other in coupled.iter().filter(|other| !own.contains(*other)) {
            if let MergeResult::Conflict { .. } = self.merged(&self.closure(&[*other, car]))? {
                return Ok(Some(*other));
            }
        }
        Ok(None)
    }

    /// Finds the plan that turns a green union red, and its partner, by bisection. The first `green` are
    /// green, all together are red.
    fn fault(&self, coupled: &[usize], green: usize, what: String) -> Known<Fault> {
        let mut found = what;
        let (mut green, mut red) = (green, coupled.len());
        while red - green > 1 {
            let middle = green + (red - green) / 2;
            match self.seen(&coupled[..middle])? {
                TrainResult::Green => green = middle,
                TrainResult::Red { what } => (red, found) = (middle, what),
                TrainResult::Doubtful { car, what } => return Ok((car, LandingProblem::Doubtful { what })),
            }
        }
        let car = coupled[red - 1];
        let own = self.closure(&[car]);
        let others: Vec<usize> =
            coupled[..red - 1].iter().copied().filter(|other| !own.contains(other)).collect();
        if others.is_empty() {
            return Ok((car, LandingProblem::Red { what: found, with: None }));
        }
        match self.seen(&own)? {
            TrainResult::Green => {}
            TrainResult::Red { what } => return Ok((car, LandingProblem::Red { what, with: None })),
            TrainResult::Doubtful { car, what } => return Ok((car, LandingProblem::Doubtful { what })),
        }
        let (mut without, mut with) = (0, others.len());
        while with - without > 1 {
            let middle = without + (with - without) / 2;
            let mut some = others[..middle].to_vec();
            some.push(car);
            match self.seen(&self.closure(&some))? {
                TrainResult::Green => without = middle,
                TrainResult::Red { what } => (with, found) = (middle, what),
                TrainResult::Doubtful { car, what } => return Ok((car, LandingProblem::Doubtful { what })),
            }
        }
        Ok((car, LandingProblem::Red { what: found, with: Some(others[with - 1]) }))
    }

    /// Returns these plans and everything they depend on, in order.
    fn closure(&self, some: &[usize]) -> Vec<usize> {
        let mut all: BTreeSet<usize> = BTreeSet::new();
        let mut open = some.to_vec();
        while let Some(car) = open.pop() {
            if all.insert(car) {
                open.extend(self.cars.get(car).iter().flat_map(|car| &car.needs));
            }
        }
        all.into_iter().collect()
    }

    fn merged(&self, set: &[usize]) -> Known<MergeResult> {
        self.answers.merged.get(set).cloned().ok_or_else(|| TrainQuestion::Merge(set.to_vec()))
    }

    fn seen(&self, set: &[usize]) -> Known<TrainResult> {
        self.answers.seen.get(set).cloned().ok_or_else(|| TrainQuestion::Judge(set.to_vec()))
    }
}

/// The conclusion from repeated runs of the same check on the same tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Again,
    Held,
    Red,
    /// It is flaky or did not run.
    Doubtful,
}

/// Decides from repeated runs. A failed check runs a second time before any plan is blamed. A second run
/// cannot turn the failure into a pass, only into a doubt.
pub fn looks(outcomes: &[&CheckOutcome]) -> Look {
    let unrun =
        |outcome: &&CheckOutcome| matches!(outcome, CheckOutcome::NotRun { .. } | CheckOutcome::Flaky { .. });
    match outcomes {
        [] => Look::Again,
        [CheckOutcome::Held, ..] => Look::Held,
        [_] => Look::Again,
        [first, second, ..] if unrun(first) || unrun(second) => Look::Doubtful,
        [_, CheckOutcome::Held, ..] => Look::Doubtful,
        [_, _, ..] => Look::Red,
    }
}

/// Returns the checks that must hold on every tree with this plan: lasting contracts of its passed steps, and
/// postconditions, if a command decides them.
pub fn checks(run: &Run) -> Vec<CheckSubject> {
    let by_command = |contract: Option<&Contract>| {
        matches!(contract.map(|contract| &contract.check), Some(Check::Shell(_)))
    };
    let steps = run.steps().filter(|(step, state)| {
        let lasts = step.lasting.as_ref().is_none_or(|lasting| lasting.value);
        state.state == StepState::Passed && lasts && by_command(step.contract.as_ref())
    });
    let steps = steps.map(|(step, _)| CheckSubject::Final(step.number));
    let posts = run.plan.postconditions.iter().filter(|post| by_command(post.contract.as_ref()));
    steps.chain(posts.map(|post| CheckSubject::Postcondition(post.number))).collect()
}

/// Describes a check for the reasons of a train.
pub fn subject(run: &Run, subject: CheckSubject) -> String {
    match subject {
        CheckSubject::Postcondition(number) => format!("postcondition {number}"),
        CheckSubject::Precondition(step)
        | CheckSubject::Control(step)
        | CheckSubject::Contract(step)
        | CheckSubject::Final(step) => match run.title(step) {
            Some(title) => format!("the contract of step {step} “{title}”"),
            None => format!("the contract of step {step}"),
        },
    }
}

#[cfg(test)]
mod tests;
