//! Whether whoever knocks at a person's door can be one.
//!
//! Agent and person may be the same user, so nothing a command says about itself counts. What counts is
//! what it cannot choose: its parents, the namespace it is in, and where no fence stands between agent
//! and person, the terminal it was started at.
//!
//! **Invariant:** what cannot be seen is not a person: while a run is under way in the workspace, a
//! command whose parents cannot be followed to the first process is refused.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use provost_core::model::chain::PlanId;
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::verdict::Isolation;
use provost_core::rules::decide;
use provost_host::process;
use provost_host::process::{Caller, Lineage};
use provost_store::{Error as StoreError, Log, Query};

use crate::harness::Settings;
use crate::places::Here;
use crate::sessions::{Client, Sessions};
use crate::{Error, harness, site};

/// Who knocks.
#[derive(Clone, Debug, Default)]
pub enum Who {
    /// Whoever started this process.
    #[default]
    Here,
    /// Whoever is at the other end of a connection to our server.
    Caller(Arc<Caller>),
}

impl Who {
    /// The two ends of the connection, as the server sees them.
    pub fn called(ours: SocketAddr, theirs: SocketAddr) -> Self {
        Who::Caller(Arc::new(process::caller(ours, theirs)))
    }

    /// Whoever is behind a proxy, which speaks for all of them.
    pub fn behind_a_proxy() -> Self {
        Who::Caller(Arc::new(Caller::Remote))
    }

    /// Nobody is there any more to be looked at.
    pub fn has_hung_up(&self) -> bool {
        matches!(self, Who::Caller(caller) if matches!(&**caller, Caller::Unseen { socket: None, .. }))
    }

    /// Whoever does not let itself be looked at, and is seen not to be below that process.
    fn is_unseen_elsewhere(&self, top: u32) -> bool {
        let Who::Caller(caller) = self else { return false };
        matches!(&**caller, Caller::Unseen { socket: Some(socket), .. } if !process::can_be_below(top, *socket))
    }

    /// The process that called, where it can be seen.
    pub fn client(&self) -> Option<Client> {
        let Who::Caller(caller) = self else { return None };
        let (pid, started) = caller.lineages().first()?.processes().next()?;
        Some(Client { pid, started })
    }

    /// The attempt, or the client of an agent, it is seen to be inside of.
    pub fn inside(&self, sessions: &Sessions) -> Option<String> {
        let (tag, client) = match self {
            Who::Here => (process::inside_attempt(), sessions.inside_of()),
            Who::Caller(caller) => {
                let lineages = caller.lineages();
                let clients = lineages.iter().flat_map(|lineage| lineage.processes());
                let clients = clients.map(|(pid, started)| Client { pid, started });
                (lineages.iter().find_map(Lineage::attempt), sessions.client_among(clients))
            }
        };
        match tag {
            Some(tag) => Some(format!("from inside attempt {tag}")),
            None => client.map(|Client { pid, .. }| {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                format!(
                    "from inside the client of an agent: process {pid} ({}) started `provost mcp`",
                    name.trim()
                )
            }),
        }
    }

    /// Its parents, as far as it is on this machine. `Err` says why they cannot be seen.
    fn lineages(&self) -> Result<Lineages<'_>, String> {
        match self {
            Who::Here => Ok(Lineages::Own(Lineage::trace().map_err(|blind| blind.to_string())?)),
            Who::Caller(caller) => match &**caller {
                Caller::Unseen { why, .. } => Err(why.clone()),
                Caller::Local(_) | Caller::Remote => Ok(Lineages::Theirs(caller.lineages())),
            },
        }
    }
}

enum Lineages<'a> {
    Own(Lineage),
    Theirs(&'a [Lineage]),
}

impl Lineages<'_> {
    fn all(&self) -> &[Lineage] {
        match self {
            Lineages::Own(own) => std::slice::from_ref(own),
            Lineages::Theirs(theirs) => theirs,
        }
    }
}

/// The name of the account that started this process: nothing that is said about it counts.
pub fn account() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mine = accounts.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    match mine.and_then(|line| line.split(':').next()) {
        Some(name) => name.to_owned(),
        None => format!("uid {uid}"),
    }
}

/// A person has read a file that came or changed during an attempt. Says whether there was anything to trust.
pub fn trust(settings: &Settings, path: &Path) -> Result<bool, Error> {
    let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
    let here = Here::of(&settings.cwd);
    let lease = format!("workspace {}", here.workspace().display());
    let log = harness::open_log(&state)?;
    if let Some(why) = intruder(&*log, &lease, &Sessions::new(&state), &Who::Here)? {
        return Err(Error::NotAPerson { why });
    }
    provost_host::trust::trust(&state, path).map_err(|source| Error::Io {
        what: "record that a person trusts",
        path: path.to_owned(),
        source,
    })
}

/// Where the command came from, if it can have come from an attempt of the run that has `lease`, or from
/// an agent in a client of its own.
pub fn intruder(log: &dyn Log, lease: &str, sessions: &Sessions, who: &Who) -> Result<Option<String>, Error> {
    if let Some(inside) = who.inside(sessions) {
        return Ok(Some(inside));
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
    let lineages = match who.lineages() {
        Ok(lineages) => lineages,
        Err(_) if holder.is_numbered_here() && who.is_unseen_elsewhere(holder.pid) => return Ok(None),
        Err(blind) => return Ok(Some(format!("while {} is under way, and {blind}", holder.what))),
    };
    for lineage in lineages.all() {
        if holder.pid_namespace.is_some() && holder.pid_namespace != lineage.pid_namespace {
            return Ok(Some(format!("from where {}, which is under way, cannot be seen", holder.what)));
        }
        if lineage.has(holder.pid) {
            let why = format!("from inside attempt of {} (process {})", holder.what, holder.pid);
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Why a decision that lets something through cannot be taken by this caller, if an agent of the plan ever
/// worked without a fence: its program must have been there before, for what was may be the person's.
pub fn no_old_program(log: &dyn Log, plan: &PlanId, caller: &Caller) -> Result<Option<String>, Error> {
    if unfenced_since(log, plan, Timestamp(0))?.is_none() {
        return Ok(None);
    }
    let lineages = match caller {
        Caller::Local(lineages) => lineages,
        Caller::Unseen { why, .. } => return Ok(Some(why.clone())),
        Caller::Remote => return Ok(Some("it came from another machine, or by a proxy".to_owned())),
    };
    let now = site::now();
    let before = |span: std::time::Duration| Timestamp(now.0.saturating_sub(span.as_millis() as u64));
    for lineage in lineages {
        let Some(age) = lineage.age() else {
            return Ok(Some("when its program was begun cannot be seen".to_owned()));
        };
        // Nothing of an attempt outlives the machine being started anew.
        let first = unfenced_since(log, plan, before(age.machine))?;
        if first.is_some_and(|first| before(age.process) >= first) {
            return Ok(Some("its program was begun after the first attempt had".to_owned()));
        }
    }
    Ok(None)
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
