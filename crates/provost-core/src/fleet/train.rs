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

use crate::model::event::Subject;
use crate::model::plan::{Check, Contract};
use crate::model::verdict::Outcome;
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
pub enum Question {
    /// Do they merge, one after the other?
    Merge(Vec<usize>),
    /// Do all their checks hold on the union?
    Judge(Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    Clean,
    /// The last one conflicts with those before.
    Conflict {
        files: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
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
    pub merged: BTreeMap<Vec<usize>, Merged>,
    pub seen: BTreeMap<Vec<usize>, Seen>,
}

/// Why a plan does not land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
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

impl Reason {
    /// Returns the other plan of the pair at fault.
    pub fn with(&self) -> Option<usize> {
        match self {
            Reason::Conflict { with, .. } | Reason::Red { with, .. } => *with,
            Reason::Needs(car) => Some(*car),
            Reason::Doubtful { .. } => None,
        }
    }

    /// Describes the reason for people and the log.
    pub fn say(&self, cars: &[Car]) -> String {
        let name = |car: usize| cars.get(car).map_or("?", |car| car.name.as_str());
        match self {
            Reason::Conflict { files, with: Some(with) } => {
                format!("conflicts with {} in {}", name(*with), listed(files))
            }
            Reason::Conflict { files, with: None } => {
                format!("conflicts with what is on the branch by now in {}", listed(files))
            }
            Reason::Red { what, with: Some(with) } => {
                format!("each alone is green, together with {} it is not: {what}", name(*with))
            }
            Reason::Red { what, with: None } => format!("is red on the branch by itself: {what}"),
            Reason::Doubtful { what } => format!("cannot be judged: {what}"),
            Reason::Needs(car) => format!("depends on {}, which does not land", name(*car)),
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
pub struct Settled {
    pub landing: Vec<usize>,
    pub left_out: BTreeMap<usize, Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Ask(Question),
    Over(Settled),
}

/// Returns what to find out next, or the end of the train.
pub fn next(cars: &[Car], answers: &Answers) -> Next {
    let mut train = Train { cars, answers, out: BTreeMap::new() };
    match train.settle() {
        Ok(settled) => Next::Over(settled),
        Err(question) => Next::Ask(question),
    }
}

/// A value, or the question that must be answered first.
type Known<T> = Result<T, Question>;

struct Train<'a> {
    cars: &'a [Car],
    answers: &'a Answers,
    /// Plans found to be at fault. Conflicts and missing dependencies are derived again each time.
    out: BTreeMap<usize, Reason>,
}

/// The plan at fault, and why.
type Fault = (usize, Reason);

impl Train<'_> {
    fn settle(&mut self) -> Known<Settled> {
        // The first `green` plans are known to be green together.
        let mut green = 0;
        loop {
            let (coupled, mut left_out) = self.coupled()?;
            if coupled.len() <= green {
                left_out.append(&mut self.out);
                return Ok(Settled { landing: coupled, left_out });
            }
            let fault = match self.seen(&coupled)? {
                Seen::Green => {
                    green = coupled.len();
                    continue;
                }
                Seen::Doubtful { car, what } => (car, Reason::Doubtful { what }),
                Seen::Red { what } => self.fault(&coupled, green, what)?,
            };
            // All plans before the removed one stay.
            let place = coupled.iter().position(|car| *car == fault.0).unwrap_or(0);
            green = green.min(place);
            self.out.insert(fault.0, fault.1);
        }
    }

    /// Returns the plans that merge one after the other, with everything they depend on.
    fn coupled(&self) -> Known<(Vec<usize>, BTreeMap<usize, Reason>)> {
        let (mut coupled, mut left_out) = (Vec::new(), BTreeMap::new());
        for (place, car) in self.cars.iter().enumerate() {
            if self.out.contains_key(&place) {
                continue;
            }
            if let Some(missing) = car.needs.iter().find(|need| !coupled.contains(*need)) {
                left_out.insert(place, Reason::Needs(*missing));
                continue;
            }
            let mut longer = coupled.clone();
            longer.push(place);
            match self.merged(&longer)? {
                Merged::Clean => coupled = longer,
                Merged::Conflict { files } => {
                    let with = self.partner(&coupled, place)?;
                    left_out.insert(place, Reason::Conflict { files, with });
                }
            }
        }
        Ok((coupled, left_out))
    }

    /// Returns the first of these plans that alone conflicts with the new one; `None` if the new one
    /// conflicts with the branch, or only with several plans together.
    fn partner(&self, coupled: &[usize], car: usize) -> Known<Option<usize>> {
        let own = self.closure(&[car]);
        if let Merged::Conflict { .. } = self.merged(&own)? {
            return Ok(None);
        }
        for other in coupled.iter().filter(|other| !own.contains(*other)) {
            if let Merged::Conflict { .. } = self.merged(&self.closure(&[*other, car]))? {
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
                Seen::Green => green = middle,
                Seen::Red { what } => (red, found) = (middle, what),
                Seen::Doubtful { car, what } => return Ok((car, Reason::Doubtful { what })),
            }
        }
        let car = coupled[red - 1];
        let own = self.closure(&[car]);
        let others: Vec<usize> =
            coupled[..red - 1].iter().copied().filter(|other| !own.contains(other)).collect();
        if others.is_empty() {
            return Ok((car, Reason::Red { what: found, with: None }));
        }
        match self.seen(&own)? {
            Seen::Green => {}
            Seen::Red { what } => return Ok((car, Reason::Red { what, with: None })),
            Seen::Doubtful { car, what } => return Ok((car, Reason::Doubtful { what })),
        }
        let (mut without, mut with) = (0, others.len());
        while with - without > 1 {
            let middle = without + (with - without) / 2;
            let mut some = others[..middle].to_vec();
            some.push(car);
            match self.seen(&self.closure(&some))? {
                Seen::Green => without = middle,
                Seen::Red { what } => (with, found) = (middle, what),
                Seen::Doubtful { car, what } => return Ok((car, Reason::Doubtful { what })),
            }
        }
        Ok((car, Reason::Red { what: found, with: Some(others[with - 1]) }))
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

    fn merged(&self, set: &[usize]) -> Known<Merged> {
        self.answers.merged.get(set).cloned().ok_or_else(|| Question::Merge(set.to_vec()))
    }

    fn seen(&self, set: &[usize]) -> Known<Seen> {
        self.answers.seen.get(set).cloned().ok_or_else(|| Question::Judge(set.to_vec()))
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
pub fn looks(outcomes: &[&Outcome]) -> Look {
    let unrun = |outcome: &&Outcome| matches!(outcome, Outcome::NotRun { .. } | Outcome::Flaky { .. });
    match outcomes {
        [] => Look::Again,
        [Outcome::Held, ..] => Look::Held,
        [_] => Look::Again,
        [first, second, ..] if unrun(first) || unrun(second) => Look::Doubtful,
        [_, Outcome::Held, ..] => Look::Doubtful,
        [_, _, ..] => Look::Red,
    }
}

/// Returns the checks that must hold on every tree with this plan: lasting contracts of its passed steps, and
/// postconditions, if a command decides them.
pub fn checks(run: &Run) -> Vec<Subject> {
    let by_command = |contract: Option<&Contract>| {
        matches!(contract.map(|contract| &contract.check), Some(Check::Shell(_)))
    };
    let steps = run.steps().filter(|(step, state)| {
        let lasts = step.lasting.as_ref().is_none_or(|lasting| lasting.value);
        state.state == StepState::Passed && lasts && by_command(step.contract.as_ref())
    });
    let steps = steps.map(|(step, _)| Subject::Final(step.number));
    let posts = run.plan.postconditions.iter().filter(|post| by_command(post.contract.as_ref()));
    steps.chain(posts.map(|post| Subject::Postcondition(post.number))).collect()
}

/// Describes a check for the reasons of a train.
pub fn subject(run: &Run, subject: Subject) -> String {
    match subject {
        Subject::Postcondition(number) => format!("postcondition {number}"),
        Subject::Precondition(step)
        | Subject::Control(step)
        | Subject::Contract(step)
        | Subject::Final(step) => match run.title(step) {
            Some(title) => format!("the contract of step {step} “{title}”"),
            None => format!("the contract of step {step}"),
        },
    }
}

#[cfg(test)]
mod tests;
