//! Decides which step an agent in its own client may work on, claim or block.
//!
//! The reader of a refusal is a model in the middle of its work: every message says what to call next.

use crate::model::plan::StepNumber;
use crate::state::run::{Run, Stage, StepState};

/// Why a session may not do what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkRefusal {
    #[error("there is no step {step}: steps are 1 to {count}")]
    NoSuchStep { step: u32, count: u32 },
    #[error("step {step} is {how} already; call plan_next")]
    Over { step: StepNumber, how: &'static str },
    #[error("only the plan {plan} carries out step {step}; `provost run` starts it")]
    CarriedByPlan { step: StepNumber, plan: String },
    #[error(
        "step {step} is in progress, and only one step can be: claim it (done), block it or put it \
         back (pending) first"
    )]
    OneAtATime { step: StepNumber },
    #[error("step {step} cannot start yet; {}", turn(*next))]
    NotItsTurn { step: StepNumber, next: Option<StepNumber> },
    #[error("step {step} waits for a person: {reason}. Tell your user; they answer with `provost inbox`")]
    Blocked { step: StepNumber, reason: String },
    #[error(
        "step {step} is blocked and waits for a person, so nothing else begins. Tell your user; they answer with `provost inbox`"
    )]
    AnotherBlocked { step: StepNumber },
    #[error(
        "still open: step {}; provost checks the postconditions when every step has passed",
        listed(steps)
    )]
    StepsOpen { steps: Vec<StepNumber> },
    #[error("the plan has failed and waits for a person. Tell your user; they answer with `provost inbox`")]
    PlanFailed,
    #[error(
        "the plan waits for a person's approval. Tell your user to read and approve it: `provost approve {name}`"
    )]
    NotApproved { name: String },
}

/// Checks that a session may work on the plan, which people call `name`.
pub fn plan(run: &Run, name: &str) -> Result<(), WorkRefusal> {
    match run.stage {
        Stage::Approved | Stage::InProgress | Stage::Done => Ok(()),
        Stage::Failed => Err(WorkRefusal::PlanFailed),
        Stage::Draft | Stage::Verified => Err(WorkRefusal::NotApproved { name: name.to_owned() }),
    }
}

/// Returns the step with this number.
pub fn known_step(run: &Run, step: u32) -> Result<StepNumber, WorkRefusal> {
    let count = run.plan.steps.len() as u32;
    match (1..=count).contains(&step) {
        true => Ok(StepNumber(step)),
        false => Err(WorkRefusal::NoSuchStep { step, count }),
    }
}

/// Returns the step if a session may work on it now.
pub fn step(run: &Run, step: u32) -> Result<StepNumber, WorkRefusal> {
    let number = known_step(run, step)?;
    if let Some(plan) = run.carried_by(number) {
        return Err(WorkRefusal::CarriedByPlan { step: number, plan: plan.to_owned() });
    }
    match run.step(number).map(|step| &step.state) {
        Some(StepState::Running { .. }) => return Ok(number),
        Some(StepState::Ended { .. }) if !run.confirmed_by_person(number) => return Ok(number),
        Some(StepState::Pending) => {}
        Some(StepState::Blocked { reason, .. }) => {
            return Err(WorkRefusal::Blocked { step: number, reason: reason.clone() });
        }
        _ => return Err(WorkRefusal::Over { step: number, how: run.state_word(number) }),
    }
    if let Some(other) = run.under_way().find(|other| is_running(run, *other)) {
        return Err(WorkRefusal::OneAtATime { step: other });
    }
    let is_blocked = |number: &StepNumber| {
        matches!(run.step(*number).map(|step| &step.state), Some(StepState::Blocked { .. }))
    };
    if let Some(blocked) = run.steps().map(|(step, _)| step.number).find(is_blocked) {
        return Err(WorkRefusal::AnotherBlocked { step: blocked });
    }
    if !run.ready().any(|ready| ready == number) {
        return Err(WorkRefusal::NotItsTurn { step: number, next: run.ready().next() });
    }
    Ok(number)
}

/// Checks that every step is over, so that the postconditions are due.
pub fn finish(run: &Run) -> Result<(), WorkRefusal> {
    if run.all_settled() {
        return Ok(());
    }
    let open = run.steps().map(|(step, _)| step.number).filter(|number| !is_over(run, *number));
    Err(WorkRefusal::StepsOpen { steps: open.collect() })
}

pub fn is_running(run: &Run, step: StepNumber) -> bool {
    matches!(run.step(step).map(|step| &step.state), Some(StepState::Running { .. }))
}

pub fn is_over(run: &Run, step: StepNumber) -> bool {
    matches!(run.step(step).map(|step| &step.state), Some(StepState::Passed | StepState::Waived { .. }))
}

fn turn(next: Option<StepNumber>) -> String {
    next.map_or("call plan_next".to_owned(), |next| format!("continue with step {next}"))
}

fn listed(steps: &[StepNumber]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::approved_spec::Binding;
    use crate::model::event::{Approver, Event, Revision};
    use crate::model::usage::Amount;
    use crate::rules::command::HarnessCommand;
    use crate::rules::decide;

    const PLAN: &str = "---\ntype: plan\n---\n\n# Two\n\n## Steps\n\n### 1. One\n**contract:**\n```shell\ntest -f one\n```\n\n### 2. Two\n**depends_on:** 1\n**contract:**\n```shell\ntest -f two\n```\n";

    fn run() -> Run {
        let mut run = Run::default();
        let (text, binding) = (PLAN.to_owned(), Binding::default());
        let record = HarnessCommand::Record { text, binding, author: None };
        for event in decide::harness(&run, record).expect("a plan") {
            run.apply(&event);
        }
        run
    }

    fn approved() -> Run {
        let mut run = run();
        let revision = Revision(run.revision.0.clone());
        let by = Approver::Person("ada".to_owned());
        run.apply(&Event::Approved { revision, by, modifications: Vec::new(), missing: 0 });
        run
    }

    fn started(step: u32) -> Event {
        Event::StepStarted {
            step: StepNumber(step),
            attempt: 1,
            target: Event::session_target("a client"),
            reserved: Amount::default(),
            start: None,
        }
    }

    #[test]
    fn a_plan_is_worked_on_after_its_approval() {
        let name = "two".to_owned();
        assert_eq!(plan(&run(), "two"), Err(WorkRefusal::NotApproved { name }));
        assert_eq!(plan(&approved(), "two"), Ok(()));
    }

    #[test]
    fn a_step_has_its_turn_and_one_is_open_at_a_time() {
        let mut run = approved();
        let [one, two] = [StepNumber(1), StepNumber(2)];
        assert_eq!(step(&run, 3), Err(WorkRefusal::NoSuchStep { step: 3, count: 2 }));
        assert_eq!(step(&run, 2), Err(WorkRefusal::NotItsTurn { step: two, next: Some(one) }));
        assert_eq!(step(&run, 1), Ok(one));
        run.apply(&started(1));
        assert_eq!(step(&run, 1), Ok(one), "a step that runs is worked on");
        assert_eq!(step(&run, 2), Err(WorkRefusal::OneAtATime { step: one }));
        assert_eq!(finish(&run), Err(WorkRefusal::StepsOpen { steps: vec![one, two] }));
    }

    #[test]
    fn a_step_that_passed_is_over_and_the_next_has_its_turn() {
        let mut run = approved();
        let [one, two] = [StepNumber(1), StepNumber(2)];
        run.apply(&started(1));
        let (result, tree, pass) = (String::new(), None, None);
        run.apply(&Event::StepPassed { step: one, attempt: 1, result, tree, pass });
        assert_eq!(step(&run, 1), Err(WorkRefusal::Over { step: one, how: "passed" }));
        assert_eq!(step(&run, 2), Ok(two));
    }
}
