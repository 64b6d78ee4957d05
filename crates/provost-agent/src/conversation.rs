//! Saves a conversation in a file, so that the next attempt at the same step goes on in it.
//!
//! The file has the messages, the model's own plan and the numbered calls. It is written as a whole or not
//! at all.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::call_log::{CallLog, Calls};
use crate::plan::AgentPlan;
use crate::plan_state::PlanHolder;
use crate::provider::Provider;
use crate::transcript::{Message, Transcript};

#[derive(Serialize, Deserialize)]
struct SavedConversation {
    model: String,
    messages: Transcript,
    plan: Option<AgentPlan>,
    calls: Calls,
}

/// A conversation to go on in.
pub(crate) struct Continuation {
    pub transcript: Transcript,
    pub holder: PlanHolder,
    pub ledger: CallLog,
}

impl Continuation {
    /// Begins a conversation with a task.
    pub(crate) fn of_task(task: &str) -> Self {
        let transcript = Transcript::from(vec![Message::User(task.to_owned())]);
        Self { transcript, holder: PlanHolder::default(), ledger: CallLog::default() }
    }
}

/// Writes a conversation, with the model's own plan in it.
pub(crate) fn save(
    file: &Path,
    model: &str,
    (transcript, plan): (&Transcript, Option<&AgentPlan>),
    ledger: &CallLog,
) -> io::Result<()> {
    let saved = SavedConversation {
        model: model.to_owned(),
        messages: transcript.clone(),
        plan: plan.cloned(),
        calls: ledger.saved(),
    };
    let unfinished = file.with_extension("tmp");
    fs::write(&unfinished, serde_json::to_vec(&saved)?)?;
    fs::rename(&unfinished, file)
}

/// Reads a conversation. The postconditions of its plan are open again.
pub(crate) fn load(file: &Path, provider: &dyn Provider) -> io::Result<Continuation> {
    let saved: SavedConversation = serde_json::from_slice(&fs::read(file)?)?;
    let mut transcript = saved.messages;
    let is_same = saved.model == provider.model();
    transcript.restore(|replay| provider.restore(replay).filter(|_| is_same));
    let holder = saved.plan.map(|plan| PlanHolder::given(plan.reopened())).unwrap_or_default();
    Ok(Continuation { transcript, holder, ledger: CallLog::restored(saved.calls) })
}
