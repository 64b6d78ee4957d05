//! Decisions of a person in a dialog of the agent's own client (elicitation of MCP).
//!
//! The client passes the question to its person and the answer back. provost sees only the client, so a person
//! names the clients that keep their person and their model apart (`[mcp] elicitation`).
//!
//! **Invariant:** an answer from a dialog never makes a pass stronger than self-checked, and passes no step.

use std::sync::Arc;

use provost_core::model::event::{Approver, Revision};
use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;

use super::{AgentSessions, Answer};
use crate::plan::commands;
use crate::plan::sessions::ClientSession;

impl AgentSessions {
    /// Returns whether a person may decide in dialogs of this client. Not inside of an attempt, and not if the
    /// client was started inside of another agent's client: that agent could answer.
    pub fn has_dialogs(&self, client: &str) -> bool {
        self.attempt.is_none()
            && self.elicitation.iter().any(|named| named == client)
            && !self.sessions.is_inside_another()
    }

    /// Approves the revision that the dialog showed. Its checks count as unread.
    pub fn approve_in_dialog(
        &self,
        session: &ClientSession,
        revision: &Revision,
        client: &str,
    ) -> Answer<(Run, Approver)> {
        let (harness, run) = self.to_write(session)?;
        let mut shown = Arc::unwrap_or_clone(run);
        shown.revision = revision.clone();
        let by = Approver::Dialog { by: harness.person(), client: client.to_owned() };
        Ok((commands::approve_by_rule(&harness, &shown, by.clone())?, by))
    }

    /// Passes on the answer to an agent that is blocked, which then tries again.
    pub fn answer_in_dialog(
        &self,
        session: &ClientSession,
        step: u32,
        words: &str,
        client: &str,
    ) -> Answer<Run> {
        let (harness, _) = self.to_write(session)?;
        let by = Approver::Dialog { by: harness.person(), client: client.to_owned() };
        let note = harness.redactor().text(words.trim()).into_owned();
        Ok(commands::retry_from_dialog(&harness, StepNumber(step), note, &by)?)
    }
}
