//! Maps a session of an agent's client to its plan.
//!
//! Clients identify a session in different ways: hooks are given its name, MCP servers mostly are not, and
//! both are children of the client's process. A session is therefore known by its name, by the process, or by
//! both; after both were seen together, either finds the other's plan. The state folder has a small file for
//! each name and each process.
//!
//! **Invariant:** two sessions with different names never share a plan, whatever process they are in.
//! **Invariant:** these files decide nothing: they say which plan is meant, not what its state is.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use provost_host::files;
use provost_host::process::Lineage;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::plan::plan_registry::Here;

/// Variables in which clients pass the session's name to their children.
const VARIABLES: [&str; 6] = [
    "PROVOST_SESSION",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_SESSION_ID",
    "CODEX_THREAD_ID",
    "GEMINI_SESSION_ID",
    "OPENCODE_SESSION_ID",
];
/// Prefix of the files of processes.
const CLIENT: &str = "client-";
/// Start of the names that provost gives to sessions over HTTP; a hook of the same client knows another name.
const GIVEN: [&str; 2] = ["http ", "token "];

/// A process; its start time tells it from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientProcess {
    pub pid: i32,
    /// In clock ticks since boot.
    pub started: u64,
}

impl ClientProcess {
    /// Returns the prefix of its file names.
    fn prefix(self) -> String {
        format!("{CLIENT}{}-{}-", self.pid, self.started)
    }

    pub fn is_alive(self) -> bool {
        Lineage::started(self.pid) == Some(self.started)
    }
}

/// The session that makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// Name that the client gives it, if any.
    pub name: Option<String>,
    /// One process may be the client of several workspaces.
    pub workspace: PathBuf,
    pub by: ClientIdentity,
}

/// How the client's process is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIdentity {
    /// provost's parent is the client.
    Server(Option<ClientProcess>),
    /// The client is one of these ancestors.
    Hook(Vec<ClientProcess>),
}

impl ClientSession {
    /// Returns the session of an MCP server that a client started: its parent is the client.
    pub fn of_server(environment: &[(OsString, OsString)], cwd: &Path) -> Self {
        let by = ClientIdentity::Server(parents().into_iter().next());
        Self { name: named(environment), workspace: workspace(cwd), by }
    }

    /// Returns the session of a hook: the client is one of its ancestors and mostly gave the session's name.
    /// A name in `PROVOST_SESSION` takes precedence.
    pub fn of_hook(environment: &[(OsString, OsString)], said: Option<String>, cwd: &Path) -> Self {
        let name = variable(environment, VARIABLES[0]).or(said);
        Self { name, workspace: workspace(cwd), by: ClientIdentity::Hook(parents()) }
    }

    /// Returns the session that started a command, for example in the shell tool of its client.
    pub fn of_command(environment: &[(OsString, OsString)], cwd: &Path) -> Self {
        Self::of_hook(environment, named(environment), cwd)
    }

    /// Returns a session of a client that connected over HTTP. Each request says more about it.
    pub fn over_http(cwd: &Path) -> Self {
        Self { name: None, workspace: workspace(cwd), by: ClientIdentity::Server(None) }
    }

    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Returns the session with its client's process, if that is on this machine.
    pub fn with_client(self, client: Option<ClientProcess>) -> Self {
        Self { by: ClientIdentity::Server(client), ..self }
    }

    fn is_named_otherwise(&self, known: &SessionRecord) -> bool {
        match (&known.name, &self.name) {
            (Some(known), Some(own)) => known != own && (is_given(own) || !is_given(known)),
            _ => false,
        }
    }
}

/// Returns the name of a session over HTTP: by the protocol's session, or by the token of a client without
/// one.
pub fn name_over_http(session: Option<&str>, token: &str) -> String {
    match session {
        Some(id) => format!("{}{id}", GIVEN[0]),
        None => format!("{}{token}", GIVEN[1]),
    }
}

fn is_given(name: &str) -> bool {
    GIVEN.iter().any(|given| name.starts_with(given))
}

/// Returns the variable that says that a command was started in a session of an agent, if there is one.
pub(crate) fn variable_of_session(environment: &[(OsString, OsString)]) -> Option<&'static str> {
    VARIABLES.into_iter().find(|name| variable(environment, name).is_some())
}

fn named(environment: &[(OsString, OsString)]) -> Option<String> {
    VARIABLES.iter().find_map(|name| variable(environment, name))
}

fn variable(environment: &[(OsString, OsString)], name: &str) -> Option<String> {
    let (_, value) = environment.iter().find(|(key, value)| key == name && !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

fn workspace(cwd: &Path) -> PathBuf {
    Here::of(cwd).workspace().to_owned()
}

fn parents() -> Vec<ClientProcess> {
    let Ok(lineage) = Lineage::trace() else { return Vec::new() };
    lineage.processes().skip(1).map(|(pid, started)| ClientProcess { pid, started }).collect()
}

#[derive(Clone, Copy)]
enum Key<'a> {
    Name(&'a str),
    Client(ClientProcess, &'a Path),
}

impl Key<'_> {
    fn file(self) -> String {
        match self {
            Key::Name(name) => format!("name-{}.json", Hash::of(name.as_bytes())),
            Key::Client(client, workspace) => {
                let place = Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string();
                format!("{}{}.json", client.prefix(), &place[..16])
            }
        }
    }
}

/// Record of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The plan file; empty as long as there is none.
    pub plan: PathBuf,
    pub workspace: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientProcess>,
    /// provost's MCP servers that the client has started and that have not ended by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ClientProcess>,
}

impl SessionRecord {
    /// Returns the name that its client uses; not one that provost gave it.
    fn name_of_client(&self) -> Option<&String> {
        self.name.as_ref().filter(|name| !is_given(name))
    }

    /// Returns whether both are the same session at the same plan: by its name or by its client.
    fn is_same(&self, other: &SessionRecord) -> bool {
        let by_name = self.name.is_some() && self.name == other.name;
        self.plan == other.plan && (by_name || self.client.is_some() && self.client == other.client)
    }

    fn has_plan(&self) -> bool {
        !self.plan.as_os_str().is_empty()
    }
}

/// The sessions of one state folder.
#[derive(Clone, Debug)]
pub struct Sessions {
    folder: PathBuf,
}

impl Sessions {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("sessions") }
    }

    /// Registers a server, so that hooks of the same client can find the client's process.
    pub fn arrive(&self, session: &ClientSession) -> Result<(), Error> {
        self.sweep();
        let ClientIdentity::Server(Some(client)) = session.by else { return Ok(()) };
        let key = Key::Client(client, &session.workspace);
        let own = Lineage::trace().ok().and_then(|lineage| lineage.processes().next());
        let own = own.map(|(pid, started)| ClientProcess { pid, started });
        let known = self.plan_of(session).or_else(|| self.read(key));
        let (name, workspace) = (session.name.clone(), session.workspace.clone());
        let mut bound = known.unwrap_or(SessionRecord {
            name,
            workspace,
            client: Some(client),
            ..SessionRecord::default()
        });
        bound.servers.extend(own);
        self.put(key, &bound)
    }

    /// Unregisters a server whose client has closed its input. If the client worked on no plan and has no
    /// other server, it no longer counts as an agent's: a shell in which a person only tried `provost mcp` is
    /// a person's.
    pub fn depart(&self, session: &ClientSession) {
        let ClientIdentity::Server(Some(client)) = session.by else { return };
        let key = Key::Client(client, &session.workspace);
        let Some(mut bound) = self.read(key) else { return };
        let own = std::process::id().cast_signed();
        bound.servers.retain(|server| server.pid != own);
        if bound.servers.is_empty() && !bound.has_plan() {
            let _ = fs::remove_file(self.folder.join(key.file()));
        } else {
            let _ = self.put(key, &bound);
        }
    }

    /// Binds the session to this plan.
    pub fn bind(&self, session: &ClientSession, plan: &Path) -> Result<(), Error> {
        self.write(&SessionRecord {
            plan: plan.to_owned(),
            workspace: session.workspace.clone(),
            name: session.name.clone(),
            client: self.client(session),
            servers: self.servers(session),
        })
    }

    fn servers(&self, session: &ClientSession) -> Vec<ClientProcess> {
        let known =
            self.client(session).and_then(|client| self.read(Key::Client(client, &session.workspace)));
        known.map(|bound| bound.servers).unwrap_or_default()
    }

    /// Returns whether the session has a name or a known process, so that it can be bound to a plan.
    pub(crate) fn can_tell(&self, session: &ClientSession) -> bool {
        session.name.is_some() || self.client(session).is_some()
    }

    /// Returns the plan of the session. A plan found by name is found by process from now on, and the other
    /// way round.
    pub fn plan_of(&self, session: &ClientSession) -> Option<SessionRecord> {
        let client = self.client(session);
        let by_name = || session.name.as_deref().and_then(|name| self.read(Key::Name(name)));
        let by_client = || {
            let bound = self.read(Key::Client(client?, &session.workspace))?;
            (!session.is_named_otherwise(&bound)).then_some(bound).filter(SessionRecord::has_plan)
        };
        // A server that knows no name of the client has bound it since the last hook, which would have
        // written its name.
        let is_hook = matches!(session.by, ClientIdentity::Hook(_));
        let newest = || by_client().filter(|bound| is_hook && bound.name_of_client().is_none());
        let bound = newest().or_else(|| by_name().filter(SessionRecord::has_plan)).or_else(by_client)?;
        let mut known = bound.clone();
        if is_hook || known.name.is_none() {
            known.name = known.name_of_client().cloned().or_else(|| session.name.clone()).or(known.name);
        }
        // A resumed session has a new client process.
        known.client = client.or(known.client);
        if client.is_some() {
            known.workspace.clone_from(&session.workspace);
        }
        if known != bound {
            // A failed write is no reason not to answer.
            let _ = self.write(&known);
        }
        Some(known)
    }

    /// Returns the client's process. For a hook it is the ancestor that has an MCP server of provost.
    fn client(&self, session: &ClientSession) -> Option<ClientProcess> {
        match &session.by {
            ClientIdentity::Server(client) => *client,
            ClientIdentity::Hook(above) => above
                .iter()
                .copied()
                .find(|client| self.folder.join(Key::Client(*client, &session.workspace).file()).exists()),
        }
    }

    /// Returns the ancestor of this process that is a client with an MCP server; an agent may then have
    /// started it.
    pub fn inside_of(&self) -> Option<ClientProcess> {
        self.client_among(parents())
    }

    /// Returns whether the client that started this server was started inside of another client with a server.
    pub(crate) fn is_inside_another(&self) -> bool {
        self.client_among(parents().into_iter().skip(1)).is_some()
    }

    /// Returns the process among these that is a client with an MCP server.
    pub fn client_among(&self, processes: impl IntoIterator<Item = ClientProcess>) -> Option<ClientProcess> {
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let known: Vec<String> = self.files().filter_map(name).collect();
        processes.into_iter().find(|client| {
            let prefix = client.prefix();
            known.iter().any(|name| name.starts_with(&prefix))
        })
    }

    /// Returns whether a session with a living client works on the plan.
    pub fn has_client_for(&self, plan: &Path) -> bool {
        let is_alive = |bound: &SessionRecord| bound.client.is_some_and(ClientProcess::is_alive);
        self.files().filter_map(|path| from(&path)).any(|bound| bound.plan == plan && is_alive(&bound))
    }

    /// Returns whether another session with a living client works on the plan.
    pub fn is_taken(&self, session: &ClientSession, plan: &Path) -> bool {
        let own = self.client(session);
        self.files().filter_map(|path| from(&path)).filter(|bound| bound.plan == plan).any(|bound| {
            let is_other = match (&bound.name, &session.name) {
                (Some(known), Some(asked)) if is_given(known) == is_given(asked) => known != asked,
                _ => bound.client != own,
            };
            is_other && bound.client.is_some_and(ClientProcess::is_alive)
        })
    }

    /// Returns every session that has a plan, once, by its client's own name if that is known.
    pub(crate) fn all(&self) -> Vec<SessionRecord> {
        let known = self.files().filter_map(|path| from(&path)).filter(SessionRecord::has_plan);
        let mut known: Vec<SessionRecord> = known.collect();
        known.sort_by_key(|bound| (bound.name_of_client().is_none(), bound.plan.clone(), bound.name.clone()));
        let mut all: Vec<SessionRecord> = Vec::new();
        for bound in known {
            if !all.iter().any(|known| known.is_same(&bound)) {
                all.push(bound);
            }
        }
        all
    }

    /// Takes its plan from a session. The file of its client stays: it says that an agent is there.
    pub(crate) fn release(&self, bound: &SessionRecord) -> Result<(), Error> {
        for path in self.files() {
            let Some(known) = from(&path).filter(|known| known.is_same(bound)) else { continue };
            match is_of_client(&path) {
                true => self.put_at(&path, &SessionRecord { plan: PathBuf::new(), ..known })?,
                false => drop(fs::remove_file(&path)),
            }
        }
        Ok(())
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    /// Removes the files of processes that are gone; named sessions are still found by name.
    fn sweep(&self) {
        for path in self.files().filter(|path| is_of_client(path)) {
            let client = from(&path).and_then(|bound| bound.client);
            if !client.is_some_and(ClientProcess::is_alive) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn read(&self, key: Key<'_>) -> Option<SessionRecord> {
        from(&self.folder.join(key.file()))
    }

    fn write(&self, bound: &SessionRecord) -> Result<(), Error> {
        let name = bound.name.as_deref().map(Key::Name);
        let client = bound.client.map(|client| Key::Client(client, &bound.workspace));
        name.into_iter().chain(client).try_for_each(|key| self.put(key, bound))
    }

    fn put(&self, key: Key<'_>, bound: &SessionRecord) -> Result<(), Error> {
        self.put_at(&self.folder.join(key.file()), bound)
    }

    fn put_at(&self, path: &Path, bound: &SessionRecord) -> Result<(), Error> {
        let io = |source| Error::Io { what: "write in", path: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(io)?;
        let text = serde_json::to_vec(bound).map_err(|error| io(error.into()))?;
        files::write_whole(path, &text).map_err(io)
    }
}

fn is_of_client(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CLIENT))
}

fn from(path: &Path) -> Option<SessionRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests;
