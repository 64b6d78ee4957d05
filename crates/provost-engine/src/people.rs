//! Whether whoever knocks at a person's door can be one.
//!
//! Agent and person may be the same user, so nothing a command says about itself counts. What counts is
//! what it cannot choose: its parents, the namespace it is in, and where no fence stands between agent
//! and person, the terminal it was started at.
//!
//! **Invariant:** what cannot be seen is not a person: while a run is under way in the workspace, a
//! command whose parents cannot be followed to the first process is refused.

use std::ops::ControlFlow;

use provost_core::chain::{PlanId, Timestamp};
use provost_core::decide;
use provost_core::event::Event;
use provost_core::verdict::Isolation;
use provost_host::process::{self, Lineage};
use provost_store::{Error as StoreError, Log, Query};

use crate::Error;
use crate::sessions::Sessions;

/// Where the command came from, if it can have come from an attempt of the run that has `lease`, or from
/// an agent in a client of its own.
pub fn intruder(log: &dyn Log, lease: &str, sessions: &Sessions) -> Result<Option<String>, Error> {
    if let Some(tag) = process::inside_attempt() {
        return Ok(Some(format!("from inside attempt {tag}")));
    }
    if sessions.is_inside() {
        return Ok(Some("from inside the client of an agent, which has a server of ours".to_owned()));
    }
    let holder = match log.holder(lease) {
        Ok(None) => return Ok(None),
        Ok(Some(holder)) => holder,
        Err(StoreError::LeaseUnreadable { .. }) => {
            let why = "while a run is under way here whose lease does not say whose it is";
            return Ok(Some(why.to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    let lineage = match Lineage::trace() {
        Ok(lineage) => lineage,
        Err(blind) => return Ok(Some(format!("while {} is under way, and {blind}", holder.what))),
    };
    if holder.pid_namespace.is_some() && holder.pid_namespace != lineage.pid_namespace {
        return Ok(Some(format!("from where {}, which is under way, cannot be seen", holder.what)));
    }
    let inside = lineage.has(holder.pid);
    Ok(inside.then(|| format!("from inside attempt of {} (process {})", holder.what, holder.pid)))
}

/// Why a decision that lets something through cannot be taken here, if an agent of the plan ever worked without a fence and
/// may have begun the session this process is in. `begun` is when this process was.
pub fn no_terminal(log: &dyn Log, plan: &PlanId, begun: Timestamp) -> Result<Option<String>, Error> {
    if unfenced_since(log, plan, Timestamp(0))?.is_none() {
        return Ok(None);
    }
    let seat = match Lineage::trace().map_err(|blind| blind.to_string()) {
        Ok(lineage) => lineage.seat().map_err(str::to_owned),
        Err(blind) => Err(blind),
    };
    let seat = match seat {
        Ok(seat) => seat,
        Err(why) => return Ok(Some(why)),
    };
    let before = |span: std::time::Duration| Timestamp(begun.0.saturating_sub(span.as_millis() as u64));
    // Nothing of an attempt outlives the machine being started anew.
    let first = unfenced_since(log, plan, before(seat.booted_before))?;
    let is_old = first.is_none_or(|first| before(seat.begun_before) < first);
    Ok((!is_old).then(|| "its terminal was opened after the first attempt had begun".to_owned()))
}

/// No fence of ours is around a session, whatever its checks run behind.
fn is_a_session(event: &Event) -> bool {
    matches!(event, Event::StepStarted { target, .. } if target.starts_with(decide::SESSION))
}

/// When the first attempt without a fence began, at this time or later.
fn unfenced_since(log: &dyn Log, plan: &PlanId, since: Timestamp) -> Result<Option<Timestamp>, Error> {
    let names = ["ISOLATION_ATTESTED", "TASK_STARTED"].map(str::to_owned).to_vec();
    let (mut level, mut first, mut bad) = (Isolation::None, None, Ok(()));
    log.read(&Query { names, ..Query::plan(plan) }, &mut |sealed| {
        match sealed.event() {
            Ok(Event::IsolationAttested { agent_outside: true, .. }) => level = Isolation::None,
            Ok(Event::IsolationAttested { level: attested, .. }) => level = attested,
            Ok(event) if sealed.at >= since && (!level.has_fence() || is_a_session(&event)) => {
                first = Some(sealed.at);
            }
            Ok(_) => {}
            Err(error) => bad = Err(error),
        }
        if first.is_none() && bad.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    bad?;
    Ok(first)
}
