//! At which levels agents have worked so far, in all plans of a log.

use std::ops::ControlFlow;

use provost_core::model::event::Event;
use provost_core::model::verdict::Isolation;
use provost_store::{Log, Query};

use crate::Error;

/// Returns whether every run so far had a level that is `enough`, and worked with agents that provost started.
pub(crate) fn were_all(log: &dyn Log, enough: impl Fn(Isolation) -> bool) -> Result<bool, Error> {
    if !are_all(log, Query::default(), &enough)? {
        return Ok(false);
    }
    // A read of the whole log leaves archived events out.
    let plans = if log.archivings()? > 0 { log.plans()? } else { Vec::new() };
    for plan in plans {
        if !log.archived(&plan)?.is_empty() && !are_all(log, Query::plan(&plan), &enough)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn are_all(log: &dyn Log, query: Query, enough: &impl Fn(Isolation) -> bool) -> Result<bool, Error> {
    let names = vec!["ISOLATION_ATTESTED".to_owned()];
    let mut are_enough = true;
    log.read(&Query { names, ..query }, &mut |sealed| {
        are_enough = match sealed.event() {
            Ok(Event::IsolationAttested { level, agent_outside, .. }) => !agent_outside && enough(level),
            _ => false,
        };
        if are_enough { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(are_enough)
}
