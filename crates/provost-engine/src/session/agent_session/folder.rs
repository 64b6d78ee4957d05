//! The plans of the folder, for sessions to read: every plan, whichever session works on it.
//!
//! **Invariant:** nothing here binds a session to a plan or writes to a log.

use std::time::Duration;

use provost_host::plans::plan_file::PlanPlace;
use provost_store::{Cursor, Log};

use super::{AgentSessions, Answer, SessionPlan, SessionRefusal};
use crate::Error;
use crate::journal::log_locator;
use crate::observe::view::{InboxItemView, PlanCard};
use crate::observe::{agenda, inbox};
use crate::plan::plan_registry;
use crate::plan::sessions::ClientSession;
use crate::settings::Access;

/// A plan of the folder.
pub struct FolderPlan {
    pub card: PlanCard,
    /// It is the plan of the session that asks.
    pub is_own: bool,
}

/// Waits for new events in the log.
pub struct LogWatch {
    log: Box<dyn Log>,
    through: Cursor,
}

impl LogWatch {
    /// Blocks until an event was appended, or until the timeout.
    pub fn wait(&mut self, timeout: Duration) -> Answer<()> {
        self.through = self.log.wait(self.through, timeout).map_err(Error::from)?;
        Ok(())
    }
}

impl AgentSessions {
    /// Returns the plans of this folder.
    pub fn plans(&self, session: &ClientSession) -> Answer<Vec<FolderPlan>> {
        self.outside_of_attempts()?;
        let own = self.path(session).ok();
        let plans = agenda::read(&self.settings)?.listed.into_iter();
        Ok(plans
            .map(|plan| FolderPlan { is_own: own.as_ref() == Some(&plan.file), card: plan.card })
            .collect())
    }

    /// Returns what waits for a person in the plans of this folder.
    pub fn inbox(&self) -> Answer<Vec<InboxItemView>> {
        self.outside_of_attempts()?;
        Ok(inbox::list(&self.settings, false)?.items.iter().map(InboxItemView::from).collect())
    }

    /// Returns a plan of this folder by its name, whichever session it belongs to.
    pub fn show_named(&self, session: &ClientSession, name: &str) -> Answer<SessionPlan> {
        let path = self.place(Some(name))?.path;
        let is_own = self.path(session).is_ok_and(|own| own == path);
        Ok(SessionPlan { is_own, ..self.read(path)? })
    }

    /// Returns the number of events of a plan: the one with that name, or the plan of the session.
    pub fn length(&self, session: &ClientSession, name: Option<&str>) -> Answer<u64> {
        let path = match name {
            Some(_) => self.place(name)?.path,
            None => self.path(session)?,
        };
        let reader = self.at(&path, Access::Read)?;
        Ok(reader.log().head(reader.id()).map_err(Error::from)?.seq)
    }

    /// Begins to watch the log for new events.
    pub fn watch(&self) -> Answer<LogWatch> {
        let state = &self.settings.state;
        let state = std::path::absolute(state).unwrap_or_else(|_| state.clone());
        // A log that does not exist yet is made, so that its first event is seen.
        let log = log_locator::open(&state, Access::Write)?;
        let through = log.cursor().map_err(Error::from)?;
        Ok(LogWatch { log, through })
    }

    /// Returns a plan of this folder. Only by name: a path could lead anywhere.
    pub(super) fn place(&self, name: Option<&str>) -> Answer<PlanPlace> {
        self.outside_of_attempts()?;
        if let Some(path) = name.filter(|name| name.contains('/')) {
            return Err(SessionRefusal::NotToTake { name: path.to_owned() });
        }
        Ok(plan_registry::resolve(name, &self.settings.cwd)?)
    }

    /// Refuses inside an attempt of a run: its agent is given one step, and sees no other plan.
    fn outside_of_attempts(&self) -> Answer<()> {
        match self.attempt {
            Some(_) => Err(SessionRefusal::InsideAttempt),
            None => Ok(()),
        }
    }
}
