//! Lists the sessions that have a plan, and releases them for a person.
//!
//! **Invariant:** a session cannot release itself, and a release changes nothing about a plan.

use crate::plan::harness::Harness;
use crate::plan::plan_registry::Here;
use crate::plan::sessions::{SessionRecord, Sessions, variable_of_session};
use crate::plan::{authorization, commands};
use crate::settings::{Access, EngineSettings};
use crate::{CommandOrigin, Error};

/// Returns the sessions that have a plan in this repository or folder.
pub fn list(settings: &EngineSettings) -> Vec<SessionRecord> {
    let here = Here::of(&settings.cwd);
    let all = Sessions::new(&settings.state).all();
    all.into_iter().filter(|bound| here.is_of(&bound.workspace)).collect()
}

/// Takes its plan from a session, for a person.
pub fn release(settings: &EngineSettings, bound: &SessionRecord) -> Result<(), Error> {
    let plan = Some(bound.plan.display().to_string());
    // A plan that is gone holds no session.
    if let Ok(harness) = Harness::open(EngineSettings { plan, ..settings.clone() }, Access::Write) {
        commands::only_people(&harness)?;
        if let Some(variable) = variable_of_session(&settings.environment) {
            let why = format!("from inside a session of an agent: {variable} is set");
            return Err(authorization::not_a_person(&harness, CommandOrigin::AgentClient(why))?);
        }
    }
    Sessions::new(&settings.state).release(bound)
}
