//! Work items: one task of a plan, offered to the workers of all machines.
//!
//! An item has a plain-text name, so that it can be sent. It does not say how it is done: the worker that
//! takes it reads the log and calls [`WorkItem::due`] to see whether it is still wanted.
//!
//! **Invariant:** an attempt is due only while the log says that this same attempt is running: an attempt
//! that a worker began and lost is judged, never begun again.
//! **Invariant:** no item of an ended plan is due.

use std::fmt;
use std::str::FromStr;

use crate::model::event::CheckSubject;
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::rules::schedule::{self, Action, InHand};
use crate::state::run::{Run, Stage, StepState};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkItem {
    /// Attest what the machine supports; nothing else begins before.
    Attest,
    /// Give the step to an agent; its start is already in the log.
    Attempt {
        step: StepNumber,
        attempt: u32,
    },
    /// A sub-plan carries out the step, and the worker that ran it is gone.
    TakeUp {
        step: StepNumber,
        attempt: u32,
    },
    Judge {
        subject: CheckSubject,
    },
    /// The worker of the attempt is gone: kill what it left, and judge.
    JudgeLost {
        step: StepNumber,
        attempt: u32,
    },
    /// End the run.
    End,
}

impl WorkItem {
    /// Returns the item for an action, after its start was applied to the run. `None` for actions that are
    /// only decided.
    pub fn of(run: &Run, action: Action) -> Option<Self> {
        match action {
            Action::Dispatch { step } => {
                Some(WorkItem::Attempt { step, attempt: run.step(step).map_or(1, |step| step.attempts) })
            }
            Action::TakeUp { step, attempt } => Some(WorkItem::TakeUp { step, attempt }),
            Action::Judge { subject } => Some(WorkItem::Judge { subject }),
            Action::JudgeLost { step, attempt } => Some(WorkItem::JudgeLost { step, attempt }),
            Action::End => Some(WorkItem::End),
            Action::Hold { .. } | Action::OverBudget { .. } => None,
        }
    }

    /// Returns the scheduler's action for this item.
    pub fn action(self) -> Option<Action> {
        match self {
            WorkItem::Attest => None,
            WorkItem::Attempt { step, .. } => Some(Action::Dispatch { step }),
            WorkItem::TakeUp { step, attempt } => Some(Action::TakeUp { step, attempt }),
            WorkItem::Judge { subject } => Some(Action::Judge { subject }),
            WorkItem::JudgeLost { step, attempt } => Some(Action::JudgeLost { step, attempt }),
            WorkItem::End => Some(Action::End),
        }
    }

    /// Returns the step that the item is about.
    pub fn step(self) -> Option<StepNumber> {
        self.action()?.about()
    }

    /// Returns the action to perform now; `None` if the log has moved past it.
    pub fn due(self, run: &Run, now: Timestamp) -> Option<Action> {
        let action = self.action()?;
        // A person may have ended or changed the plan while the item was in the queue.
        if !matches!(run.stage, Stage::Approved | Stage::InProgress) {
            return None;
        }
        let is_due = match self {
            WorkItem::Attest => false,
            WorkItem::Attempt { step, attempt }
            | WorkItem::TakeUp { step, attempt }
            | WorkItem::JudgeLost { step, attempt } => {
                run.step(step).is_some_and(|step| step.state == StepState::Running { attempt })
            }
            WorkItem::Judge { subject } => schedule::is_due_check(run, subject, now),
            WorkItem::End => schedule::next(run, &InHand::default(), 1, now).contains(&action),
        };
        is_due.then_some(action)
    }

    /// Returns the role that does the work; `None` if provost does it itself.
    pub fn role(self, run: &Run) -> Option<&str> {
        match self {
            WorkItem::Attempt { step, .. } => Some(run.role(step)).filter(|role| !role.is_empty()),
            WorkItem::Attest
            | WorkItem::TakeUp { .. }
            | WorkItem::Judge { .. }
            | WorkItem::JudgeLost { .. }
            | WorkItem::End => None,
        }
    }

    /// Returns whether it may start an agent: running it twice would do the work twice.
    pub fn starts_agents(self) -> bool {
        matches!(self, WorkItem::Attempt { .. } | WorkItem::TakeUp { .. })
    }
}

impl fmt::Display for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkItem::Attest => f.write_str("attest"),
            WorkItem::Attempt { step, attempt } => write!(f, "attempt {step} {attempt}"),
            WorkItem::TakeUp { step, attempt } => write!(f, "take-up {step} {attempt}"),
            WorkItem::Judge { subject } => match subject {
                CheckSubject::Precondition(step) => write!(f, "precondition {step}"),
                CheckSubject::Control(step) => write!(f, "control {step}"),
                CheckSubject::Contract(step) => write!(f, "contract {step}"),
                CheckSubject::Final(step) => write!(f, "final {step}"),
                CheckSubject::Postcondition(number) => write!(f, "postcondition {number}"),
            },
            WorkItem::JudgeLost { step, attempt } => write!(f, "lost {step} {attempt}"),
            WorkItem::End => f.write_str("end"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this version does not know the work item `{0}`")]
pub struct Unknown(pub String);

impl FromStr for WorkItem {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let unknown = || Unknown(text.to_owned());
        let mut words = text.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<u32> =
            words.map(|number| number.parse().map_err(|_| unknown())).collect::<Result<_, _>>()?;
        let judge = |subject| WorkItem::Judge { subject };
        Ok(match (word, numbers.as_slice()) {
            ("attest", []) => WorkItem::Attest,
            ("attempt", [step, attempt]) => WorkItem::Attempt { step: StepNumber(*step), attempt: *attempt },
            ("take-up", [step, attempt]) => WorkItem::TakeUp { step: StepNumber(*step), attempt: *attempt },
            ("lost", [step, attempt]) => WorkItem::JudgeLost { step: StepNumber(*step), attempt: *attempt },
            ("precondition", [step]) => judge(CheckSubject::Precondition(StepNumber(*step))),
            ("control", [step]) => judge(CheckSubject::Control(StepNumber(*step))),
            ("contract", [step]) => judge(CheckSubject::Contract(StepNumber(*step))),
            ("final", [step]) => judge(CheckSubject::Final(StepNumber(*step))),
            ("postcondition", [number]) => judge(CheckSubject::Postcondition(*number)),
            ("end", []) => WorkItem::End,
            _ => return Err(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::WorkItem;
    use crate::model::approved_spec::Binding;
    use crate::model::event::{CheckSubject, Choice, Event};
    use crate::model::plan::StepNumber;
    use crate::model::timestamp::Timestamp;
    use crate::rules::command::{AgentCommand, HarnessCommand, HumanCommand, Refusal};
    use crate::rules::decide;
    use crate::rules::schedule::Action;
    use crate::state::run::Run;

    #[test]
    fn every_item_is_found_again_by_its_name() {
        let (step, attempt) = (StepNumber(7), 3);
        let subjects = [
            CheckSubject::Precondition(step),
            CheckSubject::Control(step),
            CheckSubject::Contract(step),
            CheckSubject::Final(step),
            CheckSubject::Postcondition(2),
        ];
        let others = [
            WorkItem::Attest,
            WorkItem::Attempt { step, attempt },
            WorkItem::TakeUp { step, attempt },
            WorkItem::JudgeLost { step, attempt },
            WorkItem::End,
        ];
        for item in subjects.map(|subject| WorkItem::Judge { subject }).into_iter().chain(others) {
            assert_eq!(item.to_string().parse(), Ok(item), "{item}");
        }
        for wrong in ["", "attempt", "attempt 1", "attempt 1 x", "end 1", "deploy 1 1", "attempt 1 1 1"] {
            assert!(wrong.parse::<WorkItem>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_attempt_that_waits_is_not_begun_once_a_person_has_ended_its_plan() {
        let text = "---\ntype: plan\nstatus: draft\nowner: me\n---\n# A plan\n\n## Steps\n\n\
                    ### 1. First\n**target:** coder\n**task:**\nDo it.\n**contract:**\n```shell\ntest -f one\n```\n\n\
                    ### 2. Second\n**target:** coder\n**needs:** none\n**task:**\nDo it.\n**contract:**\n\
                    ```shell\ntest -f two\n```\n";
        let mut run = Run::default();
        let mut hear = |decision: &dyn Fn(&Run) -> Result<Vec<Event>, Refusal>| {
            decision(&run).expect("allowed").iter().for_each(|event| run.apply(event));
            run.clone()
        };
        let (first, second, by) = (StepNumber(1), StepNumber(2), || "ada".to_owned());
        let record =
            HarnessCommand::Record { text: text.to_owned(), binding: Binding::default(), author: None };
        let revision = hear(&|run| decide::harness(run, record.clone())).revision;
        let verified = HarnessCommand::Verified { revision: revision.clone(), warnings: 0 };
        hear(&|run| decide::harness(run, verified.clone()));
        let approve = HumanCommand::Approve { revision, by: by(), modifications: Vec::new() };
        hear(&|run| decide::human(run, approve.clone()));
        hear(&|run| decide::harness(run, HarnessCommand::Start { step: first }));
        let block = AgentCommand::Block { step: first, reason: "no key".to_owned() };
        hear(&|run| decide::agent(run, block.clone()));
        let begun = hear(&|run| decide::harness(run, HarnessCommand::Start { step: second }));
        let item = WorkItem::Attempt { step: second, attempt: 1 };
        assert_eq!(item.due(&begun, Timestamp(0)), Some(Action::Dispatch { step: second }));
        let abort =
            HumanCommand::Answer { step: Some(first), choice: Choice::Abort, note: String::new(), by: by() };
        let ended = hear(&|run| decide::human(run, abort.clone()));
        assert_eq!(ended.step(second).map(|step| &step.state), begun.step(second).map(|step| &step.state));
        assert_eq!(item.due(&ended, Timestamp(0)), None);
    }
}
