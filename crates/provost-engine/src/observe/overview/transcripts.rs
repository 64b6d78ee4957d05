//! Finds the kept transcript of an attempt, or says why there is none.

use std::path::Path;

use provost_core::model::chain::PlanId;
use provost_core::model::plan::StepNumber;
use provost_core::model::transcript::TranscriptEntry;
use provost_store::Log;

use super::attempts::{self, AttemptRecord};
use crate::Error;
use crate::exec::transcript::{self, TranscriptKey};

/// The transcript of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptTranscript {
    pub attempt: AttemptRecord,
    /// Its entries, with texts joined that follow each other; empty if there is no transcript.
    pub entries: Vec<TranscriptEntry>,
    /// Something a reader must know: why there is none, or that the files were changed.
    pub note: Option<&'static str>,
}

impl AttemptTranscript {
    /// Names the attempt, for a title.
    pub fn title(&self) -> String {
        let AttemptRecord { step, number, target, .. } = &self.attempt;
        format!("Transcript of step {step}, attempt {number} by {target}")
    }
}

/// Returns the transcript of an attempt at a step, by default of the last one. `None` if the log has no such
/// attempt.
pub(in crate::observe) fn of_attempt(
    log: &dyn Log,
    state: &Path,
    plan: &PlanId,
    step: StepNumber,
    number: Option<u32>,
) -> Result<Option<AttemptTranscript>, Error> {
    let all = attempts::of(log, plan)?.into_iter();
    let wanted = |attempt: &AttemptRecord| {
        attempt.step == step && number.is_none_or(|number| number == attempt.number)
    };
    Ok(all.rev().find(wanted).map(|attempt| read(state, plan, attempt)))
}

fn read(state: &Path, plan: &PlanId, attempt: AttemptRecord) -> AttemptTranscript {
    let key = TranscriptKey { plan: plan.clone(), step: attempt.step, attempt: attempt.number };
    let kept = transcript::read(state, &key, attempt.transcript.as_deref());
    let note = match &kept {
        Some(kept) if kept.differs => {
            Some("the transcript was changed: its digest is not the one in the log")
        }
        Some(_) => None,
        None if attempt.transcript.is_some() => Some(
            "the transcript is not here: it stays on the machine that ran the attempt, until `provost gc` \
             removes it",
        ),
        None if attempt.ended.is_none() => Some("the agent has printed nothing yet on this machine"),
        None => Some(
            "there is no transcript: the agent printed nothing, worked in its own client, or ran with an \
             older provost",
        ),
    };
    AttemptTranscript { attempt, entries: kept.map(|kept| kept.entries).unwrap_or_default(), note }
}
