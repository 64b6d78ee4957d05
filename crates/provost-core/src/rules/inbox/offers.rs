//! Lists the choices of a person: what each does, and its command.

use serde::Serialize;

use super::{DecisionKind, ItemId, PlanLabel, WaitingItem};
use crate::language::shell_word::quoted;
use crate::model::event::Choice;
use crate::model::plan::StepNumber;
use crate::model::verdict::CheckOutcome;
use crate::state::run::{Run, Stage, StepState};

/// A choice, its effect, and the command for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChoiceOffer {
    pub choice: &'static str,
    pub does: &'static str,
    pub command: String,
}

const AGAIN: &str = "try again, with fresh retries";
const WAIVE: &str = "waive the step in your name; it never shows as passed";
const END: &str = "end the plan as failed";
const DRAFT: &str = "send the plan back to draft; it must be approved again";

pub(super) fn offers(run: &Run, waiting: &WaitingItem, heading: &PlanLabel, id: &ItemId) -> Vec<ChoiceOffer> {
    let plan = heading.argument.as_ref().map(|argument| format!(" {argument}")).unwrap_or_default();
    let at_gate = |choice, does, rest: String| ChoiceOffer {
        choice,
        does,
        command: format!("provost {choice}{plan}{rest}"),
    };
    match waiting.kind {
        DecisionKind::Approval | DecisionKind::Question => vec![
            at_gate(
                "approve",
                "approve exactly this revision",
                format!(" --revision {}", run.revision.short()),
            ),
            at_gate("amend", "change the text first", String::new()),
            at_gate("reject", "send it back to draft", " --reason WHY".to_owned()),
        ],
        DecisionKind::Changed => vec![
            ChoiceOffer {
                choice: "approve",
                does: "verify the new text and approve it",
                command: format!("provost run{plan}"),
            },
            ChoiceOffer {
                choice: "restore",
                does: "print the approved text, so that you can put it back into the plan file",
                command: format!("provost show{plan} --recorded"),
            },
        ],
        DecisionKind::Postcondition => vec![
            answer(id, Choice::Retry, "run the contracts and postconditions again"),
            answer(id, Choice::Abort, "leave the plan failed and close this item"),
            answer(id, Choice::Revise, DRAFT),
        ],
        DecisionKind::Confirmation => vec![
            answer(id, Choice::Confirm, "confirm in your name that it holds"),
            answer(id, Choice::Retry, AGAIN),
            answer(id, Choice::Skip, WAIVE),
            answer(id, Choice::Abort, END),
            answer(id, Choice::Revise, DRAFT),
        ],
        DecisionKind::Escalation | DecisionKind::Permission | DecisionKind::Quota | DecisionKind::Budget => {
            offers_of_a_stopped_step(run, waiting, id)
        }
    }
}

/// What is tried again if a person continues a failed plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedPart {
    Step(StepNumber),
    Postconditions,
}

impl FailedPart {
    /// Returns the part that ended the plan. `None` if the plan did not fail, or if the inbox asks about it.
    pub fn of(run: &Run) -> Option<Self> {
        if run.stage != Stage::Failed {
            return None;
        }
        let failed = run.steps().find(|(_, step)| step.state == StepState::Failed);
        match failed {
            Some((step, _)) => Some(FailedPart::Step(step.number)),
            None => run.given_up.then_some(FailedPart::Postconditions),
        }
    }

    pub fn step(self) -> Option<StepNumber> {
        match self {
            FailedPart::Step(number) => Some(number),
            FailedPart::Postconditions => None,
        }
    }

    /// Returns the first argument of `provost answer` for this part.
    pub fn id(self) -> String {
        self.step().map_or_else(|| "post".to_owned(), |number| number.to_string())
    }

    /// Says what a retry does.
    pub fn retry(self) -> String {
        match self {
            FailedPart::Step(number) => format!("try step {number} again"),
            FailedPart::Postconditions => "check the postconditions again".to_owned(),
        }
    }
}

/// Lists the choices for a step that cannot continue by itself.
fn offers_of_a_stopped_step(run: &Run, waiting: &WaitingItem, id: &ItemId) -> Vec<ChoiceOffer> {
    let step = waiting.step.and_then(|step| run.step(step));
    let breach = step.and_then(|step| step.over_budget.as_ref());
    let uncounted = breach.is_some_and(|breach| breach.unknown > 0);
    let holds_already = waiting.step.is_some_and(|step| run.holds_already(step));
    let mut again = answer(
        id,
        Choice::Retry,
        match waiting.kind {
            _ if holds_already => "let the agent work anyway; the step then passes as held before",
            DecisionKind::Permission => "try again, after you have configured it",
            DecisionKind::Quota => "try again, when the account can spend again",
            DecisionKind::Budget if uncounted => {
                "continue; provost releases what it reserved for attempts without a usage report"
            }
            DecisionKind::Budget => "continue under these limits",
            _ => AGAIN,
        },
    );
    if let Some(enough) = breach.and_then(|breach| breach.enough()) {
        again.command.push_str(&format!(" --budget {}", quoted(&enough.to_string())));
    }
    let mut all = vec![
        again,
        answer(id, Choice::Skip, WAIVE),
        answer(id, Choice::Abort, END),
        answer(id, Choice::Revise, DRAFT),
    ];
    let verdict = step.and_then(|step| step.verdict.as_ref());
    let vacuous = verdict.is_some_and(|verdict| matches!(verdict.outcome, CheckOutcome::Vacuous { .. }));
    if vacuous || holds_already {
        let mut confirm =
            answer(id, Choice::Confirm, "pass the step in your name, and say why the check counts");
        confirm.command.push_str(" --note WHY");
        all.push(confirm);
    }
    all
}

fn answer(id: &ItemId, choice: Choice, does: &'static str) -> ChoiceOffer {
    ChoiceOffer { choice: choice.word(), does, command: format!("provost answer {id} {}", choice.word()) }
}
