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

use provost_core::model::chain::PlanId;
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

    /// Returns the session of a client that connected over HTTP, with its process if that is on this machine.
    pub fn over_http(name: &str, cwd: &Path, client: Option<ClientProcess>) -> Self {
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        Self { name, workspace: workspace(cwd), by: ClientIdentity::Server(client) }
    }

    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    fn is_named_otherwise(&self, known: &SessionRecord) -> bool {
        matches!((&known.name, &self.name), (Some(known), Some(own)) if known != own)
    }
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusals: Option<Refusals>,
    /// provost's MCP servers that the client has started and that have not ended by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ClientProcess>,
}

/// Number of refused stops since the plan last moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refusals {
    plan: String,
    /// Mark of the plan's progress at that time.
    mark: String,
    times: u32,
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
        if bound.servers.is_empty() && bound.plan.as_os_str().is_empty() {
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
            refusals: None,
            servers: self.servers(session),
        })
    }

    fn servers(&self, session: &ClientSession) -> Vec<ClientProcess> {
        let known =
            self.client(session).and_then(|client| self.read(Key::Client(client, &session.workspace)));
        known.map(|bound| bound.servers).unwrap_or_default()
    }

    /// Returns the plan of the session. A plan found by name is found by process from now on, and the other
    /// way round.
    pub fn plan_of(&self, session: &ClientSession) -> Option<SessionRecord> {
        let has_plan = |bound: &SessionRecord| !bound.plan.as_os_str().is_empty();
        let client = self.client(session);
        let by_name = || session.name.as_deref().and_then(|name| self.read(Key::Name(name)));
        let by_client = || {
            let bound = self.read(Key::Client(client?, &session.workspace))?;
            (!session.is_named_otherwise(&bound)).then_some(bound)
        };
        let bound = by_name().filter(has_plan).or_else(|| by_client().filter(has_plan))?;
        let mut known = bound.clone();
        known.name = known.name.or_else(|| session.name.clone());
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

    /// Returns the process among these that is a client with an MCP server.
    pub fn client_among(&self, processes: impl IntoIterator<Item = ClientProcess>) -> Option<ClientProcess> {
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let known: Vec<String> = self.files().filter_map(name).collect();
        processes.into_iter().find(|client| {
            let prefix = client.prefix();
            known.iter().any(|name| name.starts_with(&prefix))
        })
    }

    /// Counts a refused stop. Returns how many there were in a row while `mark`, which represents the plan's
    /// progress, was the same.
    pub fn refuse(&self, session: &ClientSession, plan: &PlanId, mark: &str) -> Result<u32, Error> {
        let Some(mut bound) = self.plan_of(session) else { return Ok(1) };
        let before = bound.refusals.take().filter(|known| known.plan == plan.0 && known.mark == mark);
        let times = before.map_or(0, |known| known.times).saturating_add(1);
        bound.refusals = Some(Refusals { plan: plan.0.clone(), mark: mark.to_owned(), times });
        self.write(&bound)?;
        Ok(times)
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
                (Some(known), Some(asked)) => known != asked,
                _ => bound.client != own,
            };
            is_other && bound.client.is_some_and(ClientProcess::is_alive)
        })
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    /// Removes the files of processes that are gone; named sessions are still found by name.
    fn sweep(&self) {
        let is_client =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CLIENT));
        for path in self.files().filter(is_client) {
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
        let io = |source| Error::Io { what: "write in", path: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(io)?;
        let text = serde_json::to_vec(bound).map_err(|error| io(error.into()))?;
        files::write_whole(&self.folder.join(key.file()), &text).map_err(io)
    }
}

fn from(path: &Path) -> Option<SessionRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(pid: i32) -> ClientProcess {
        ClientProcess { pid, started: 7 }
    }

    fn server(name: Option<&str>, pid: i32) -> ClientSession {
        ClientSession {
            name: name.map(str::to_owned),
            workspace: "/p".into(),
            by: ClientIdentity::Server(Some(client(pid))),
        }
    }

    /// Returns a hook below a shell that the client started, with the person's shell as a further ancestor.
    fn hook(name: &str, pid: i32) -> ClientSession {
        ClientSession {
            workspace: "/p".into(),
            name: Some(name.to_owned()),
            by: ClientIdentity::Hook(vec![client(1000 + pid), client(pid), client(2)]),
        }
    }

    fn plan(sessions: &Sessions, session: &ClientSession) -> Option<String> {
        sessions.plan_of(session).map(|bound| bound.plan.display().to_string())
    }

    fn fresh() -> (tempfile::TempDir, Sessions) {
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = Sessions::new(folder.path());
        (folder, sessions)
    }

    #[test]
    fn a_hook_finds_by_name_what_the_server_bound_by_its_process() {
        let (_folder, sessions) = fresh();
        sessions.bind(&server(None, 10), Path::new("/p/a")).expect("bound");
        assert_eq!(plan(&sessions, &hook("one", 10)).as_deref(), Some("/p/a"));
        // Resumed in another process, where only the hook knows the name.
        sessions.arrive(&server(None, 20)).expect("there");
        assert_eq!(plan(&sessions, &server(None, 20)), None);
        assert_eq!(plan(&sessions, &hook("one", 20)).as_deref(), Some("/p/a"));
        assert_eq!(plan(&sessions, &server(None, 20)).as_deref(), Some("/p/a"));
        // The common ancestor shell is no client.
        assert_eq!(plan(&sessions, &server(None, 2)), None);
    }

    #[test]
    fn sessions_do_not_see_each_others_plans() {
        let (_folder, sessions) = fresh();
        sessions.bind(&server(Some("one"), 10), Path::new("/p/a")).expect("bound");
        sessions.bind(&server(None, 11), Path::new("/p/b")).expect("bound");
        assert_eq!(plan(&sessions, &server(None, 11)).as_deref(), Some("/p/b"));
        assert_eq!(plan(&sessions, &hook("three", 12)), None);
        let elsewhere = ClientSession { workspace: "/q".into(), ..server(None, 11) };
        assert_eq!(plan(&sessions, &elsewhere), None);
        // A new session in the same process has no plan, and gets its own.
        assert_eq!(plan(&sessions, &hook("two", 10)), None);
        sessions.bind(&server(Some("two"), 10), Path::new("/p/c")).expect("bound");
        assert_eq!(plan(&sessions, &server(Some("one"), 13)).as_deref(), Some("/p/a"));
        assert_eq!(plan(&sessions, &hook("two", 10)).as_deref(), Some("/p/c"));
    }

    #[test]
    fn refusals_are_counted_until_the_plan_moves() {
        let (_folder, sessions) = fresh();
        let (one, id) = (server(Some("one"), 10), PlanId("a-1".to_owned()));
        sessions.bind(&one, Path::new("/p/a")).expect("bound");
        let count = |mark: &str| sessions.refuse(&one, &id, mark).expect("counted");
        assert_eq!([count("0"), count("0"), count("1"), count("1"), count("1")], [1, 2, 1, 2, 3]);
        sessions.bind(&one, Path::new("/p/a")).expect("bound");
        assert_eq!(count("1"), 1);
    }

    #[test]
    fn a_plan_is_taken_while_another_client_is_there() {
        let (_folder, sessions) = fresh();
        let me = i32::try_from(std::process::id()).expect("a number");
        let alive = ClientProcess { pid: me, started: Lineage::started(me).expect("it is there") };
        let other =
            ClientSession { name: None, workspace: "/p".into(), by: ClientIdentity::Server(Some(alive)) };
        sessions.bind(&other, Path::new("/p/a")).expect("bound");
        assert!(sessions.is_taken(&server(None, 10), Path::new("/p/a")));
        assert!(!sessions.is_taken(&other, Path::new("/p/a")));
        sessions.bind(&server(None, 11), Path::new("/p/b")).expect("bound");
        assert!(!sessions.is_taken(&server(None, 10), Path::new("/p/b")));
        // Files of dead processes are removed when the next server arrives.
        sessions.arrive(&server(None, 12)).expect("there");
        assert_eq!(plan(&sessions, &server(None, 11)), None);
        assert_eq!(plan(&sessions, &other).as_deref(), Some("/p/a"));
    }
}
