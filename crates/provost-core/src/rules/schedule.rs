//! What is to be done next.
//!
//! Read the run, say the actions; somebody else performs them. After a crash the same call on the same
//! log gives the next right thing, so there is no resume code anywhere.
//!
//! **Invariant:** an attempt whose end is not in the log is judged before it is dispatched again. Where
//! another plan carries the step out, that plan's own log says where it was, and it goes on from there.

use std::collections::BTreeSet;

use crate::model::event::Subject;
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::rules::budget::{self, Fit};
use crate::state::run::{PostState, Run, Stage, StepState};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Give the step to an agent.
    Dispatch { step: StepNumber },
    /// Run a check whose time has come.
    Judge { subject: Subject },
    /// The harness died during this attempt: end what it left behind, and judge.
    JudgeLost { step: StepNumber, attempt: u32 },
    /// The harness died while another plan carried this step out: that plan goes on.
    TakeUp { step: StepNumber, attempt: u32 },
    /// The role of the step has nothing left to spend: a person has to see to it.
    Hold { step: StepNumber },
    /// What is left of a budget does not allow the step: a person has to see to it.
    OverBudget { step: StepNumber },
    /// Everything is over and held, or a step has failed and nothing else can be done.
    End,
}

impl Action {
    /// What an action is about; no two actions about the same thing are under way together.
    fn about(self) -> Option<StepNumber> {
        match self {
            Action::Dispatch { step }
            | Action::JudgeLost { step, .. }
            | Action::TakeUp { step, .. }
            | Action::Hold { step }
            | Action::OverBudget { step } => Some(step),
            Action::Judge {
                subject:
                    Subject::Contract(step)
                    | Subject::Control(step)
                    | Subject::Precondition(step)
                    | Subject::Final(step),
            } => Some(step),
            Action::Judge { subject: Subject::Postcondition(_) } | Action::End => None,
        }
    }
}

/// What this process is doing right now, which the log cannot know.
#[derive(Clone, Debug, Default)]
pub struct InHand {
    actions: Vec<Action>,
    steps: BTreeSet<StepNumber>,
}

impl InHand {
    pub fn take(&mut self, action: Action) {
        self.actions.push(action);
        self.steps.extend(action.about());
    }

    pub fn done(&mut self, action: Action) {
        self.actions.retain(|held| *held != action);
        if let Some(step) = action.about() {
            self.steps.remove(&step);
        }
    }

    pub fn len(&self) -> usize {
        self.actions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }
}

/// The actions to begin now, at most as many as `jobs` leaves room for.
pub fn next(run: &Run, in_hand: &InHand, jobs: usize, now: Timestamp) -> Vec<Action> {
    if !is_open(run) {
        return Vec::new();
    }
    let due = |step: &StepNumber| is_due(run, *step, now);
    let room = jobs.saturating_sub(in_hand.len());
    let mut actions: Vec<Action> = to_judge(run, in_hand, due).take(room).collect();
    begin(run, in_hand, jobs, now, &mut actions);
    if actions.is_empty() && run.all_settled() {
        actions.extend(finish(run, in_hand, room));
    }
    if actions.is_empty() && in_hand.is_empty() && is_lost(run, now) {
        actions.push(Action::End);
    }
    actions
}

/// Steps whose turn has come. One by one they begin in the order of the plan; side by side those come first
/// behind which most is still to come, and none begins beside one that may change the same files.
fn begin(run: &Run, in_hand: &InHand, jobs: usize, now: Timestamp, actions: &mut Vec<Action>) {
    let most = jobs.saturating_sub(in_hand.len());
    let is_free = |step: &StepNumber| !in_hand.steps.contains(step) && is_due(run, *step, now);
    if jobs == 1 {
        let begun = run.ready().filter(is_free).filter_map(|step| open(run, step, now));
        return actions.extend(begun.take(most - actions.len()));
    }
    let others = run.under_way().filter(|step| !run.is_being_confirmed(*step));
    let mut busy: BTreeSet<StepNumber> = others.chain(in_hand.steps.iter().copied()).collect();
    for step in run.ready_by_length().filter(is_free) {
        if actions.len() >= most {
            break;
        }
        if busy.iter().any(|other| run.overlap(step, *other).is_some()) {
            continue;
        }
        if let Some(action) = open(run, step, now) {
            busy.insert(step);
            actions.push(action);
        }
    }
}

/// A step has failed for good, and nothing else is left to do.
fn is_lost(run: &Run, now: Timestamp) -> bool {
    run.any_failed()
        && run.under_way().all(|step| run.is_being_confirmed(step))
        && !run.ready().any(|step| !is_due(run, step, now) && !run.is_held_up(step))
}

/// It has to wait for nothing.
fn is_due(run: &Run, step: StepNumber, now: Timestamp) -> bool {
    run.step(step).is_none_or(|step| step.wait.is_none_or(|wait| wait.over(now)))
}

/// The instant at which a step that has to wait may be tried again, where nothing else stands in its way.
pub fn wakes(run: &Run, now: Timestamp) -> Option<Timestamp> {
    if !is_open(run) {
        return None;
    }
    // What would not be begun even then is not waited for.
    let fresh = run.ready().filter(|step| !run.is_held_up(*step));
    let waits = run.under_way().chain(fresh).filter_map(|step| run.step(step)?.wait);
    waits.filter(|wait| !wait.over(now)).map(|wait| wait.until).min()
}

fn is_open(run: &Run) -> bool {
    matches!(run.stage, Stage::Approved | Stage::InProgress) && run.forged_from.is_none()
}

/// Steps whose agent is gone, or was lost with the harness.
fn to_judge<'a>(
    run: &'a Run,
    in_hand: &'a InHand,
    due: impl Fn(&StepNumber) -> bool + 'a,
) -> impl Iterator<Item = Action> + 'a {
    // What passes changes what the others are looked at on: of these one after the other.
    let mut together = in_hand.steps.iter().any(|step| run.is_held_apart(*step));
    let free = run.under_way().filter(|number| !in_hand.steps.contains(number)).filter(due);
    let free =
        free.filter(move |number| !run.is_held_apart(*number) || !std::mem::replace(&mut together, true));
    free.filter_map(|number| match run.step(number)?.state {
        StepState::Running { attempt } if run.carried_by(number).is_some() => {
            Some(Action::TakeUp { step: number, attempt })
        }
        // The tree it began with was not the one that was looked at before: that comes first.
        StepState::Running { .. } | StepState::Ended { .. } if owes_control(run, number) => {
            Some(Action::Judge { subject: Subject::Control(number) })
        }
        StepState::Running { attempt } => Some(Action::JudgeLost { step: number, attempt }),
        StepState::Ended { .. } if run.confirmed_by_person(number) => None,
        StepState::Ended { .. } => Some(Action::Judge { subject: Subject::Contract(number) }),
        StepState::Pending
        | StepState::Passed
        | StepState::Failed
        | StepState::Blocked { .. }
        | StepState::Waived { .. } => None,
    })
}

/// The tree the attempt began with is kept, and whether the contract held on it was not looked at.
fn owes_control(run: &Run, step: StepNumber) -> bool {
    run.lacks_control(step) && run.step(step).is_some_and(|step| step.start.is_some())
}

/// What begins a step; nothing, while others hold what it needs.
fn open(run: &Run, step: StepNumber, now: Timestamp) -> Option<Action> {
    // A person was asked already for what it lacks.
    if run.is_held_up(step) {
        return None;
    }
    // Whether the contract can fail is to be seen on the tree the work begins with.
    if run.lacks_control(step) {
        return Some(Action::Judge { subject: Subject::Control(step) });
    }
    let gated = run.plan.step(step).is_some_and(|step| step.precondition.is_some());
    let held = run.step(step).is_some_and(|step| step.precondition_held);
    if gated && !held {
        return Some(Action::Judge { subject: Subject::Precondition(step) });
    }
    if run.halted.contains(run.role(step)) {
        return Some(Action::Hold { step });
    }
    match budget::fit(run, step, now) {
        Fit::Yes(_) => Some(Action::Dispatch { step }),
        Fit::NotNow => None,
        Fit::No(_) => Some(Action::OverBudget { step }),
    }
}

/// Every contract once more on what all steps left together, then the postconditions.
fn finish(run: &Run, in_hand: &InHand, room: usize) -> Vec<Action> {
    // The first look decides which tree it is; only then may others look beside it.
    let room = if run.has_unseen_work() { usize::from(in_hand.is_empty()) } else { room };
    let last = run.to_be_final().filter(|step| !in_hand.steps.contains(step)).take(room);
    let last: Vec<Action> = last.map(|step| Action::Judge { subject: Subject::Final(step) }).collect();
    if !last.is_empty() || !in_hand.is_empty() {
        return last;
    }
    let open = run.postconditions().find(|(_, state)| **state == PostState::Open);
    let broke = run.postconditions().any(|(_, state)| matches!(state, PostState::Broke(_)));
    match open {
        Some((post, _)) => vec![Action::Judge { subject: Subject::Postcondition(post.number) }],
        // A session mends it, and is looked at anew.
        None if broke => Vec::new(),
        None => vec![Action::End],
    }
}
