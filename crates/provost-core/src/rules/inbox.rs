//! Collects everything that waits for a person as items of one inbox: approvals, questions, escalations,
//! confirmations.
//!
//! [`waiting`] lists what a run waits for; [`InboxItem::new`] adds facts from the log: since when, what was tried,
//! the last output, and what each choice does. An item has no timeout.
//!
//! **Invariant:** nothing here answers an item. An overdue item causes a reminder and stays open.

mod context;
mod offers;

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::model::chain::PlanId;
use crate::model::escalation::EscalationCause;
use crate::model::event::{EndedAttempt, Event, FailureClass};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::redact::Redactor;
use crate::rules::quorum::ApprovalCount;
use crate::state::run::{PostState, Run, Stage, StepState};

use context::context;
use offers::offers;

pub use context::{FailedTry, ItemContext};
pub use offers::{ChoiceOffer, FailedPart};

/// The kind of decision a person has to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The plan waits at the gate.
    Approval,
    /// A person asked something at the gate.
    Question,
    /// A step is blocked and no automatic recovery is left.
    Escalation,
    /// A step needs something configured outside of the run.
    Permission,
    /// The quota of a step's role is exhausted.
    Quota,
    /// A `human` contract.
    Confirmation,
    /// The plan ended with a postcondition that does not hold.
    Postcondition,
    /// The rest of a budget does not allow the step.
    Budget,
    /// A run stopped because the plan file differs from the approved spec.
    Changed,
}

impl DecisionKind {
    pub fn word(self) -> &'static str {
        match self {
            DecisionKind::Approval => "approval",
            DecisionKind::Question => "question",
            DecisionKind::Escalation => "escalation",
            DecisionKind::Permission => "permission",
            DecisionKind::Quota => "quota",
            DecisionKind::Confirmation => "confirmation",
            DecisionKind::Postcondition => "postcondition",
            DecisionKind::Budget => "budget",
            DecisionKind::Changed => "changed",
        }
    }

    /// Returns whether it is decided at the gate, not by an answer.
    pub fn is_at_gate(self) -> bool {
        matches!(self, DecisionKind::Approval | DecisionKind::Question | DecisionKind::Changed)
    }
}

/// Something a run waits for, as far as the state of the run shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingItem {
    pub kind: DecisionKind,
    pub step: Option<StepNumber>,
    pub reason: String,
}

impl WaitingItem {
    /// Returns the names of the events that its item is made from.
    pub fn events(&self) -> &'static [&'static str] {
        match self.kind {
            DecisionKind::Approval => &["PLAN_VERIFIED", "GATE_APPROVAL_REQUESTED"],
            DecisionKind::Question => &["GATE_QUESTION_ASKED"],
            DecisionKind::Changed => &["LAW_CHANGED"],
            DecisionKind::Postcondition => &["EXECUTION_COMPLETE"],
            DecisionKind::Escalation
            | DecisionKind::Permission
            | DecisionKind::Quota
            | DecisionKind::Budget
            | DecisionKind::Confirmation => &[
                "TASK_STARTED",
                "ATTEMPT_ENDED",
                "ATTEMPT_LOST",
                "FAILURE_DETECTED",
                "FAILURE_CLASSIFIED",
                "RECOVERY_APPLIED",
                "PERMISSION_REQUIRED",
                "RECOVERY_ESCALATION",
                "BUDGET_EXCEEDED",
                "HUMAN_ANSWERED",
            ],
        }
    }

    fn is_opened_by(&self, event: &Event) -> bool {
        match event {
            Event::PlanVerified { .. } => self.kind == DecisionKind::Approval,
            Event::QuestionAsked { .. } => self.kind == DecisionKind::Question,
            Event::LawChanged { .. } => self.kind == DecisionKind::Changed,
            Event::AttemptEnded(EndedAttempt { .. }) => self.kind == DecisionKind::Confirmation,
            Event::RunEnded { .. } => self.kind == DecisionKind::Postcondition,
            Event::BudgetExceeded { .. } => self.kind == DecisionKind::Budget,
            Event::Escalated { step: Some(_), .. } => {
                matches!(self.kind, DecisionKind::Escalation | DecisionKind::Permission | DecisionKind::Quota)
            }
            _ => false,
        }
    }
}

/// Returns whether this event can open an item.
pub fn may_open(run: &Run, event: &Event) -> bool {
    match event {
        Event::AttemptEnded(EndedAttempt { step, .. }) => run.confirmed_by_person(*step),
        Event::PlanVerified { .. }
        | Event::ApprovalRequested { .. }
        | Event::QuestionAsked { .. }
        | Event::LawChanged { .. }
        | Event::Escalated { .. }
        | Event::BudgetExceeded { .. }
        | Event::RunEnded { .. } => true,
        _ => false,
    }
}

/// Lists everything the run waits for, the gate first, then the steps in order.
pub fn waiting(run: &Run) -> Vec<WaitingItem> {
    let mut all = Vec::new();
    if run.forged_from.is_some() {
        return all;
    }
    if run.stage == Stage::Verified {
        let (kind, reason) = match &run.question {
            Some(question) => (DecisionKind::Question, format!("a question is open: {question}")),
            None => (DecisionKind::Approval, unapproved(run)),
        };
        all.push(WaitingItem { kind, step: None, reason });
    }
    if let (Stage::Approved | Stage::InProgress, Some(changes)) = (run.stage, &run.law_changed) {
        let reason = format!("the plan file is not what was approved: {}", changes.join("; "));
        all.push(WaitingItem { kind: DecisionKind::Changed, step: None, reason });
    }
    // Before the approval no step is asked about, because the plan may still change.
    if matches!(run.stage, Stage::Approved | Stage::InProgress) {
        all.extend(run.steps().filter_map(|(step, _)| at_step(run, step.number)));
    }
    if run.stage == Stage::Failed && !run.given_up {
        let broke = run.postconditions().filter_map(|(post, state)| match state {
            PostState::Broke(verdict) => Some((post.number, verdict)),
            PostState::Open | PostState::Held(_) => None,
        });
        all.extend(broke.map(|(number, verdict)| WaitingItem {
            kind: DecisionKind::Postcondition,
            step: None,
            reason: format!("postcondition {number} {}", verdict.outcome),
        }));
    }
    all
}

fn unapproved(run: &Run) -> String {
    let tally = ApprovalCount::open(run).map(|tally| format!(": {tally}")).unwrap_or_default();
    format!("the plan is not approved{tally}")
}

fn at_step(run: &Run, number: StepNumber) -> Option<WaitingItem> {
    let step = run.step(number)?;
    let (kind, reason) = match &step.state {
        StepState::Blocked { reason, .. } => {
            let kind = if step.over_budget.is_some() {
                DecisionKind::Budget
            } else if run.halted.contains(run.role(number)) {
                DecisionKind::Quota
            } else if step.failed_as == Some(FailureClass::Permission) {
                DecisionKind::Permission
            } else {
                DecisionKind::Escalation
            };
            (kind, reason.clone())
        }
        StepState::Ended { .. } if run.confirmed_by_person(number) => {
            (DecisionKind::Confirmation, "a person confirms this step".to_owned())
        }
        StepState::Pending
        | StepState::Running { .. }
        | StepState::Ended { .. }
        | StepState::Passed
        | StepState::Failed
        | StepState::Waived { .. } => return None,
    };
    Some(WaitingItem { kind, step: Some(number), reason })
}

/// The plan and the event that opened the item; permanent and the same on every machine with the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId {
    pub plan: PlanId,
    pub seq: u64,
}

impl std::fmt::Display for ItemId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:e{}", self.plan, self.seq)
    }
}

impl ItemId {
    /// Returns whether a typed id such as `e12`, `fix-auth:e12` or `fix-auth-3fa9c1d2:e12` names this item.
    fn is_named_by(&self, name: &str, typed: &str) -> bool {
        let (plan, event) = typed.rsplit_once(':').unwrap_or(("", typed));
        let seq = event.strip_prefix('e').and_then(|seq| seq.parse::<u64>().ok());
        seq == Some(self.seq) && (plan.is_empty() || plan == name || plan == self.plan.0)
    }
}

/// Returns whether the typed text is the id of an item, not of a step.
pub fn is_id(typed: &str) -> bool {
    let event = typed.rsplit_once(':').map_or(typed, |(_, event)| event);
    event
        .strip_prefix('e')
        .is_some_and(|seq| !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the items that `typed` can mean.
pub fn named<'i>(items: &'i [InboxItem], typed: &str) -> Vec<&'i InboxItem> {
    items.iter().filter(|item| item.id.is_named_by(&item.name, typed)).collect()
}

/// Returns the shortest unambiguous name of an item.
pub fn short(items: &[InboxItem], item: &InboxItem) -> String {
    let names = [format!("e{}", item.id.seq), format!("{}:e{}", item.name, item.id.seq)];
    let alone = |typed: &String| named(items, typed).len() <= 1;
    names.into_iter().find(alone).unwrap_or_else(|| item.id.to_string())
}

impl Serialize for ItemId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Names the plan for people and for the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLabel {
    pub plan: PlanId,
    /// Name for people.
    pub name: String,
    /// Argument for the command line; `None` for the active plan.
    pub argument: Option<String>,
}

/// One decision for a person, with everything that helps to make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InboxItem {
    pub id: ItemId,
    pub plan: PlanId,
    pub name: String,
    /// Title of the plan.
    pub title: String,
    pub kind: DecisionKind,
    pub step: Option<StepNumber>,
    pub step_title: Option<String>,
    pub since: Timestamp,
    /// A person was asked, not only shown it: it can become overdue.
    #[serde(skip)]
    pub asked: bool,
    pub reason: String,
    pub context: ItemContext,
    pub choices: Vec<ChoiceOffer>,
}

impl InboxItem {
    /// Creates an item. `events` are those of [`WaitingItem::events`] about the step, oldest first, each with
    /// sequence number and time. `None` if they lack the event that opened the item.
    pub fn new(
        heading: &PlanLabel,
        run: &Run,
        waiting: &WaitingItem,
        events: &[(u64, Timestamp, Event)],
    ) -> Option<Self> {
        let opened = events.iter().rev().find(|(_, _, event)| waiting.is_opened_by(event))?;
        let asked = events.iter().rev().find_map(|(seq, at, event)| {
            let requests =
                matches!(event, Event::ApprovalRequested { revision, .. } if *revision == run.revision);
            (requests && *seq > opened.0).then_some(*at)
        });
        let id = ItemId { plan: heading.plan.clone(), seq: opened.0 };
        Some(Self {
            choices: offers(run, waiting, heading, &id),
            id,
            plan: heading.plan.clone(),
            name: heading.name.clone(),
            title: run.plan.title.clone(),
            kind: waiting.kind,
            step: waiting.step,
            step_title: waiting.step.and_then(|step| run.title(step)).map(str::to_owned),
            since: asked.unwrap_or(opened.1),
            asked: waiting.kind != DecisionKind::Approval || asked.is_some(),
            reason: waiting.reason.clone(),
            context: context(run, waiting, events),
        })
    }

    /// Returns the number of the reminder that is due: the first after `patience`, the next after twice that.
    pub fn reminder(&self, now: Timestamp, patience: Duration) -> Option<u64> {
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1);
        let due = now.0.saturating_sub(self.since.0) / patience;
        (self.asked && due > 0).then_some(due)
    }

    /// Returns the time of the next reminder after `now`.
    pub fn next_reminder(&self, now: Timestamp, patience: Duration) -> Option<Timestamp> {
        let before = self.reminder(now, patience).unwrap_or(0);
        let step = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1);
        self.asked.then(|| Timestamp(self.since.0.saturating_add(step.saturating_mul(before + 1))))
    }

    /// Returns the text of a reminder in the log; the same reminder always has the same text.
    pub fn overdue(&self, reminder: u64) -> String {
        let what = match (self.step, self.kind) {
            (Some(step), kind) => format!("the {} at step {step}", kind.word()),
            (None, kind) => format!("the {}", kind.word()),
        };
        format!(
            "{}{what} (e{}) waits since {}; reminder {reminder}",
            EscalationCause::Overdue.words(),
            self.id.seq,
            self.since
        )
    }

    /// Returns the command for the first choice, with this name of the item, and the other choices.
    pub fn how(&self, name: &str) -> String {
        let Some((first, others)) = self.choices.split_first() else { return String::new() };
        let command = first.command.replace(&self.id.to_string(), name);
        let others: Vec<&str> = others.iter().map(|offer| offer.choice).collect();
        match others.is_empty() || self.kind.is_at_gate() {
            true => format!("`{command}`"),
            false => format!("`{command}`; instead of {}: {}", first.choice, others.join(", ")),
        }
    }

    /// Removes secrets, which must not leave this machine.
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        let clean = |text: &mut String| *text = redactor.text(text).into_owned();
        clean(&mut self.title);
        clean(&mut self.reason);
        self.step_title.iter_mut().for_each(clean);
        self.context.output.iter_mut().for_each(clean);
        self.context.claim.iter_mut().for_each(clean);
        self.context.changed.iter_mut().chain(&mut self.context.diff).for_each(clean);
        for tried in &mut self.context.tried {
            tried.failure.iter_mut().chain(&mut tried.ended).chain(&mut tried.followed).for_each(clean);
        }
        self
    }
}

/// Writes one line that names the subject.
impl std::fmt::Display for InboxItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.step, &self.step_title) {
            (Some(step), Some(title)) => write!(f, "{}, step {step} “{title}”: {}", self.title, self.reason),
            _ => write!(f, "{}: {}", self.title, self.reason),
        }
    }
}

#[cfg(test)]
mod tests;
