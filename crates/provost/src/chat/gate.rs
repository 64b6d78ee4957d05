//! The plan of a chat: asks the person to approve it, and says what is missing in it.

use std::sync::Mutex;

use provost_core::state::run::Stage;
use provost_engine::plan::commands;
use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, SessionPlan};
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::terminal::{self, Gate};

pub(super) struct ChatGate {
    global: Global,
    sessions: AgentSessions,
    session: ClientSession,
    /// One question at a time.
    asking: Mutex<()>,
}

impl ChatGate {
    pub(super) fn new(global: Global, sessions: AgentSessions, session: ClientSession) -> Self {
        Self { global, sessions, session, asking: Mutex::new(()) }
    }

    /// Returns the plan that the agent made in this chat.
    pub(super) fn plan(&self) -> Option<SessionPlan> {
        self.sessions.show(&self.session).ok()
    }

    /// Returns whether the plan waits for the person's approval.
    pub(super) fn waits(&self) -> bool {
        self.plan().is_some_and(|plan| plan.run.stage == Stage::Verified)
    }

    /// Returns the message for an agent that stops before its plan is done.
    pub(super) fn unfinished(&self) -> Option<String> {
        self.sessions.unfinished(&self.session).ok().flatten()
    }

    /// Asks the person to decide about a plan that waits. Returns the message for the agent; `None` if no plan
    /// waits, or if provost was not started at a terminal.
    pub(super) fn ask(&self) -> Option<Result<String, String>> {
        let _one = self.asking.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !terminal::is_interactive() {
            return None;
        }
        let plan = self.plan().filter(|plan| plan.run.stage == Stage::Verified)?;
        Some(self.decided(&plan).unwrap_or_else(|failure| Err(failure.to_string())))
    }

    fn decided(&self, plan: &SessionPlan) -> Result<Result<String, String>, Failure> {
        let harness = self.global.open(Some(&plan.path.display().to_string()), Access::Write)?;
        let run = commands::request_approval(&harness)?;
        Ok(match terminal::gate(&harness, &run, None, terminal::user())? {
            Gate::Approved(_) => Ok("A person read the plan and approved it. Begin with step 1.".to_owned()),
            Gate::Rejected => {
                let run = harness.run()?;
                let why = run.rejection.map_or("no reason was given".to_owned(), |(_, reason)| reason);
                Err(format!("The person rejected the plan: {why}. Make another plan, or ask."))
            }
            Gate::Waiting => {
                Err("The person did not decide yet. End your turn, and say what you wait for.".to_owned())
            }
        })
    }
}
