//! Decides which actions come next.
//!
//! It reads the run and returns actions; the caller performs them. After a crash the same call on the same
//! log returns the right next action, so there is no separate code for resuming.
//!
//! **Invariant:** an attempt whose end is not in the log is judged before the step is dispatched again. If a
//! sub-plan carries out the step, the sub-plan continues from its own log.

use std::collections::BTreeSet;

use crate::model::event::CheckSubject;
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::verdict::Isolation;
use crate::rules::budget::{self, Fit};
use crate::state::run::{PostState, Run, Stage, StepState};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Give the step to an agent.
    Dispatch { step: StepNumber },
    /// Run a check that is due.
    Judge { subject: CheckSubject },
    /// provost crashed during this attempt: kill what it left, and judge.
    JudgeLost { step: StepNumber, attempt: u32 },
    /// provost crashed while a sub-plan carried out this step: continue the sub-plan.
    TakeUp { step: StepNumber, attempt: u32 },
    /// The quota of the step's role is exhausted: a person must act.
    Hold { step: StepNumber },
    /// The rest of a budget does not allow the step: a person must act.
    OverBudget { step: StepNumber },
    /// Everything ended and held, or a step failed and nothing else can be done.
    End,
}

impl Action {
    /// Returns the step of an action; two actions on the same step never run at the same time.
    pub(crate) fn about(self) -> Option<StepNumber> {
        match self {
            Action::Dispatch { step }
            | Action::JudgeLost { step, .. }
            | Action::TakeUp { step, .. }
            | Action::Hold { step }
            | Action::OverBudget { step } => Some(step),
            Action::Judge {
                subject:
                    CheckSubject::Contract(step)
                    | CheckSubject::Control(step)
                    | CheckSubject::Precondition(step)
                    | CheckSubject::Final(step),
            } => Some(step),
            Action::Judge { subject: CheckSubject::Postcondition(_) } | Action::End => None,
        }
    }

    /// Returns whether an agent does this in a tree of its own, and the kernel keeps it from everything else.
    /// If several processes share the plan, nothing else of it has to wait meanwhile.
    pub fn is_apart(self, run: &Run) -> bool {
        let has_fence = run.isolation.is_some_and(Isolation::has_fence);
        has_fence && matches!(self, Action::Dispatch { step } if run.works_apart(step))
    }

    /// Returns whether this judges a step whose agent worked in a worktree of its own.
    fn judges_worktree(self, run: &Run) -> bool {
        match self {
            Action::Judge { subject: CheckSubject::Contract(step) } | Action::JudgeLost { step, .. } => {
                run.works_apart(step)
            }
            _ => false,
        }
    }
}

/// The running tasks of this process, which the log does not show.
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

    pub fn iter(&self) -> impl Iterator<Item = Action> {
        self.actions.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }
}

/// Returns the actions to begin now, limited by `jobs`.
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

/// Returns whether a check is due, whatever else is due too. A process asks this that was offered the check
/// while others have tasks of the plan in hand.
pub fn is_due_check(run: &Run, subject: CheckSubject, now: Timestamp) -> bool {
    let action = Action::Judge { subject };
    let (own, mut others) = (action.about(), InHand::default());
    run.under_way().filter(|step| Some(*step) != own).for_each(|step| others.take(Action::Dispatch { step }));
    let opens = |step: StepNumber| {
        run.is_ready(step) && is_due(run, step, now) && open(run, step, now) == Some(action)
    };
    is_open(run)
        && (to_judge(run, &others, |step| is_due(run, *step, now)).any(|due| due == action)
            || own.is_some_and(opens)
            || run.all_settled() && finish(run, &InHand::default(), usize::MAX).contains(&action))
}

/// Picks ready steps. With one job: plan order. With several: critical path first, skipping steps whose globs
/// overlap those of a running one.
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

/// Returns whether a step failed for good and nothing else is left to do.
fn is_lost(run: &Run, now: Timestamp) -> bool {
    run.any_failed()
        && run.under_way().all(|step| run.is_being_confirmed(step))
        && !run.ready().any(|step| !is_due(run, step, now) && !run.is_held_up(step))
}

/// Returns whether the step has no wait left.
fn is_due(run: &Run, step: StepNumber, now: Timestamp) -> bool {
    run.step(step).is_none_or(|step| step.wait.is_none_or(|wait| wait.over(now)))
}

/// Returns the time at which a waiting step may be retried, if nothing else blocks it.
pub fn wakes(run: &Run, now: Timestamp) -> Option<Timestamp> {
    if !is_open(run) {
        return None;
    }
    // Do not wait for a step that could not begin even then.
    let fresh = run.ready().filter(|step| !run.is_held_up(*step));
    let waits = run.under_way().chain(fresh).filter_map(|step| run.step(step)?.wait);
    waits.filter(|wait| !wait.over(now)).map(|wait| wait.until).min()
}

fn is_open(run: &Run) -> bool {
    matches!(run.stage, Stage::Approved | Stage::InProgress) && run.forged_from.is_none()
}

/// Returns actions for steps whose agent ended, or was lost when provost crashed.
fn to_judge<'a>(
    run: &'a Run,
    in_hand: &'a InHand,
    due: impl Fn(&StepNumber) -> bool + 'a,
) -> impl Iterator<Item = Action> + 'a {
    // A pass changes the tree of the other checks. Steps with worktrees of their own are judged one after the
    // other, each on what passed before, so that each is judged once.
    let mut is_taken = in_hand.actions.iter().any(|action| action.judges_worktree(run));
    let free = run.under_way().filter(|number| !in_hand.steps.contains(number)).filter(due);
    let free =
        free.filter(move |number| !run.works_apart(*number) || !std::mem::replace(&mut is_taken, true));
    free.filter_map(|number| match run.step(number)?.state {
        StepState::Running { attempt } if run.carried_by(number).is_some() => {
            Some(Action::TakeUp { step: number, attempt })
        }
        // The tree it began with differs from the one checked before the work: check that one first.
        StepState::Running { .. } | StepState::Ended { .. } if owes_control(run, number) => {
            Some(Action::Judge { subject: CheckSubject::Control(number) })
        }
        StepState::Running { attempt } => Some(Action::JudgeLost { step: number, attempt }),
        StepState::Ended { .. } if run.confirmed_by_person(number) => None,
        StepState::Ended { .. } => Some(Action::Judge { subject: CheckSubject::Contract(number) }),
        StepState::Pending
        | StepState::Passed
        | StepState::Failed
        | StepState::Blocked { .. }
        | StepState::Waived { .. } => None,
    })
}

/// Returns whether the tree the attempt began with is kept but the contract was not checked on it.
fn owes_control(run: &Run, step: StepNumber) -> bool {
    run.lacks_control(step) && run.step(step).is_some_and(|step| step.start.is_some())
}

/// Returns the action that begins a step; `None` while other attempts hold the budget it needs.
fn open(run: &Run, step: StepNumber, now: Timestamp) -> Option<Action> {
    // A person was already asked for what it lacks.
    if run.is_held_up(step) {
        return None;
    }
    // The control check, which shows that the contract can fail, runs on the tree the work begins with.
    if run.lacks_control(step) {
        return Some(Action::Judge { subject: CheckSubject::Control(step) });
    }
    let gated = run.plan.step(step).is_some_and(|step| step.precondition.is_some());
    let held = run.step(step).is_some_and(|step| step.precondition_held);
    if gated && !held {
        return Some(Action::Judge { subject: CheckSubject::Precondition(step) });
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

/// Returns the final checks on the combined result of all steps, then the postconditions.
fn finish(run: &Run, in_hand: &InHand, room: usize) -> Vec<Action> {
    // Run the first final check alone: it fixes the tree the others are checked on.
    let room = if run.has_unseen_work() { usize::from(in_hand.is_empty()) } else { room };
    let last = run.to_be_final().filter(|step| !in_hand.steps.contains(step)).take(room);
    let last: Vec<Action> = last.map(|step| Action::Judge { subject: CheckSubject::Final(step) }).collect();
    if !last.is_empty() || !in_hand.is_empty() {
        return last;
    }
    let open = run.postconditions().find(|(_, state)| **state == PostState::Open);
    let broke = run.postconditions().any(|(_, state)| matches!(state, PostState::Broke(_)));
    match open {
        Some((post, _)) => vec![Action::Judge { subject: CheckSubject::Postcondition(post.number) }],
        // A session repairs it, and is then checked again.
        None if broke => Vec::new(),
        None => vec![Action::End],
    }
}
