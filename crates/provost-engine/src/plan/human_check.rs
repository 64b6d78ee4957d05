//! Checks whether the caller of a command for people can be a person.
//!
//! Agent and person may be the same user, so nothing a command says about itself counts. provost uses what
//! the command cannot choose: its parent processes, its namespace and, if no sandbox separates agent and
//! person, the terminal it was started at.
//!
//! **Invariant:** an unidentifiable caller is refused: while a run is under way in the workspace, a command
//! whose parents cannot be followed to the first process is not accepted.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use provost_core::model::chain::PlanId;
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::verdict::Isolation;
use provost_host::process;
use provost_host::process::{Caller, Lineage};
use provost_store::{Error as StoreError, Log, Query};

use crate::plan::plan_context;
use crate::plan::plan_registry::Here;
use crate::plan::sessions::{ClientProcess, Sessions};
use crate::settings::EngineSettings;
use crate::{CommandOrigin, Error};

/// Caller of a command.
#[derive(Clone, Debug, Default)]
pub enum Who {
    /// The process that started this one.
    #[default]
    Here,
    /// The other end of a connection to provost's server.
    Caller(Arc<Caller>),
}

impl Who {
    /// Finds the caller by the two ends of the connection, as the server sees them.
    pub fn called(ours: SocketAddr, theirs: SocketAddr) -> Self {
        Who::Caller(Arc::new(process::caller(ours, theirs)))
    }

    /// Returns the caller behind a proxy, which hides the actual one.
    pub fn behind_a_proxy() -> Self {
        Who::Caller(Arc::new(Caller::Remote))
    }

    /// Returns whether the caller has closed its connection and cannot be inspected any more.
    pub fn has_hung_up(&self) -> bool {
        matches!(self, Who::Caller(caller) if matches!(&**caller, Caller::Unseen { socket: None, .. }))
    }

    /// Returns whether the caller cannot be inspected but is known not to run below the process `top`.
    fn is_unseen_elsewhere(&self, top: u32) -> bool {
        let Who::Caller(caller) = self else { return false };
        matches!(&**caller, Caller::Unseen { socket: Some(socket), .. } if !process::can_be_below(top, *socket))
    }

    /// Returns the calling process, if it can be seen.
    pub fn client(&self) -> Option<ClientProcess> {
        let Who::Caller(caller) = self else { return None };
        let (pid, started) = caller.lineages().first()?.processes().next()?;
        Some(ClientProcess { pid, started })
    }

    /// Returns the attempt or the agent's client that the caller runs inside of, if any.
    pub fn inside(&self, sessions: &Sessions) -> Option<CommandOrigin> {
        let (tag, client) = match self {
            Who::Here => (process::inside_attempt(), sessions.inside_of()),
            Who::Caller(caller) => {
                let lineages = caller.lineages();
                let clients = lineages.iter().flat_map(|lineage| lineage.processes());
                let clients = clients.map(|(pid, started)| ClientProcess { pid, started });
                (lineages.iter().find_map(Lineage::attempt), sessions.client_among(clients))
            }
        };
        match tag {
            Some(tag) => Some(CommandOrigin::Attempt(format!("from inside attempt {tag}"))),
            None => client.map(|ClientProcess { pid, .. }| {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                CommandOrigin::AgentClient(format!(
                    "from inside the client of an agent: process {pid} ({}) started `provost mcp`",
                    name.trim()
                ))
            }),
        }
    }

    /// Returns the caller's parent processes on this machine. `Err` says why they cannot be seen.
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

/// Returns the name of the account that started this process, from the system and not from the environment.
pub fn account() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mine = accounts.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    match mine.and_then(|line| line.split(':').next()) {
        Some(name) => name.to_owned(),
        None => format!("uid {uid}"),
    }
}

/// Records that a person trusts a file that appeared or changed during an attempt. Returns whether there was
/// anything to trust.
pub fn trust(settings: &EngineSettings, path: &Path) -> Result<bool, Error> {
    let state = settings.state_folder();
    let here = Here::of(&settings.cwd);
    let lease = format!("workspace {}", here.workspace().display());
    let log = crate::journal::log_locator::for_reading(&state)?;
    if let Some(why) = intruder(&*log, &lease, &Sessions::new(&state), &Who::Here)? {
        return Err(Error::NotAPerson { why });
    }
    provost_host::plans::trust::trust(&state, path).map_err(|source| Error::Io {
        what: "record that a person trusts",
        path: path.to_owned(),
        source,
    })
}

/// Returns where the command came from, if it may come from an attempt of the run that holds `lease` or from
/// an agent in its own client.
pub fn intruder(
    log: &dyn Log,
    lease: &str,
    sessions: &Sessions,
    who: &Who,
) -> Result<Option<CommandOrigin>, Error> {
    let attempt = |why: String| Ok(Some(CommandOrigin::Attempt(why)));
    if let Some(inside) = who.inside(sessions) {
        return Ok(Some(inside));
    }
    let holder = match log.holder(lease) {
        Ok(None) => return Ok(None),
        Ok(Some(holder)) => holder,
        Err(StoreError::LeaseUnreadable { .. }) => {
            let why = "while a run is active here whose lease names no holder";
            return attempt(why.to_owned());
        }
        Err(error) => return Err(error.into()),
    };
    let lineages = match who.lineages() {
        Ok(lineages) => lineages,
        Err(_) if holder.is_numbered_here() && who.is_unseen_elsewhere(holder.pid) => return Ok(None),
        Err(blind) => return attempt(format!("while {} is active, and {blind}", holder.what)),
    };
    for lineage in lineages.all() {
        if holder.pid_namespace.is_some() && holder.pid_namespace != lineage.pid_namespace {
            return attempt(format!("from a place where {}, which is active, cannot be seen", holder.what));
        }
        if lineage.has(holder.pid) {
            let why = format!("from inside attempt of {} (process {})", holder.what, holder.pid);
            return attempt(why);
        }
    }
    Ok(None)
}

/// Returns why this caller must not make a decision that lets something through. Applies only if an agent of
/// the plan ever worked without a sandbox: the caller's program must then be older than that attempt, because
/// an older one may be the person's.
pub fn no_old_program(log: &dyn Log, plan: &PlanId, caller: &Caller) -> Result<Option<String>, Error> {
    if unfenced_since(log, plan, Timestamp(0))?.is_none() {
        return Ok(None);
    }
    let lineages = match caller {
        Caller::Local(lineages) => lineages,
        Caller::Unseen { why, .. } => return Ok(Some(why.clone())),
        Caller::Remote => return Ok(Some("it came from another machine or through a proxy".to_owned())),
    };
    let now = plan_context::now();
    let before = |span: std::time::Duration| Timestamp(now.0.saturating_sub(span.as_millis() as u64));
    for lineage in lineages {
        let Some(age) = lineage.age() else {
            return Ok(Some("the start time of its program cannot be read".to_owned()));
        };
        // No process of an attempt survives a reboot.
        let first = unfenced_since(log, plan, before(age.machine))?;
        if first.is_some_and(|first| before(age.process) >= first) {
            return Ok(Some("its program was started after the first attempt".to_owned()));
        }
    }
    Ok(None)
}

/// Returns why such a decision must not be made here, if an agent of the plan ever worked without a sandbox
/// and may have opened the session of this process. `begun` is the start time of this process.
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
    // No process of an attempt survives a reboot.
    let first = unfenced_since(log, plan, before(seat.booted_before))?;
    let is_old = first.is_none_or(|first| before(seat.begun_before) < first);
    Ok((!is_old).then(|| "its terminal was opened after the first attempt started".to_owned()))
}

/// Returns when the first attempt without a sandbox started, at `since` or later.
fn unfenced_since(log: &dyn Log, plan: &PlanId, since: Timestamp) -> Result<Option<Timestamp>, Error> {
    let names = ["ISOLATION_ATTESTED", "TASK_STARTED"].map(str::to_owned).to_vec();
    let (mut level, mut first, mut bad) = (Isolation::None, None, Ok(()));
    log.read(&Query { names, ..Query::plan(plan) }, &mut |sealed| {
        match sealed.event() {
            Ok(Event::IsolationAttested { agent_outside: true, .. }) => level = Isolation::None,
            Ok(Event::IsolationAttested { level: attested, .. }) => level = attested,
            Ok(event) if sealed.at >= since && (!level.has_fence() || event.starts_in_session()) => {
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
