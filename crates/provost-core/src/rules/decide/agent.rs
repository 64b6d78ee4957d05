//! Decides about commands of agents: none of them ends a step.

use super::{Decision, genuine, said};
use crate::model::escalation::EscalationCause;
use crate::model::event::Event;
use crate::model::plan::StepNumber;
use crate::rules::command::{AgentCommand, Refusal};
use crate::state::run::{Run, Stage, StepState};

/// Records that an agent claims a step, is stuck, or wants to stop. None of these ends a step.
pub fn agent(run: &Run, command: AgentCommand) -> Decision {
    genuine(run)?;
    match command {
        AgentCommand::Claim { step, evidence } => {
            under_way(run, step)?;
            if evidence.trim().is_empty() {
                return Err(Refusal::NoEvidence { step });
            }
            Ok(vec![Event::StepClaimed { step, evidence }])
        }
        AgentCommand::Block { step, reason } => {
            under_way(run, step)?;
            let reason = said(reason, "why the step is blocked")?;
            let cause = EscalationCause::AgentBlocked;
            Ok(vec![Event::escalated(Some(step), cause, format!("{}{reason}", cause.words()))])
        }
        AgentCommand::Finish => finish(run),
    }
}

/// Refuses to finish an empty plan, and one whose postconditions have not held.
fn finish(run: &Run) -> Decision {
    if !run.exists() {
        return Err(Refusal::NoPlan);
    }
    let mut open =
        run.steps().filter(|(_, step)| !matches!(step.state, StepState::Passed | StepState::Waived { .. }));
    if let Some((first, _)) = open.next() {
        return Err(Refusal::Unfinished { first: first.number, more: open.count() });
    }
    if run.stage == Stage::Done { Ok(Vec::new()) } else { Err(Refusal::StillOpen) }
}

fn under_way(run: &Run, step: StepNumber) -> Result<(), Refusal> {
    match run.step(step).map(|step| &step.state) {
        Some(StepState::Running { .. } | StepState::Ended { .. }) => Ok(()),
        _ => Err(Refusal::NotOpen { step }),
    }
}
