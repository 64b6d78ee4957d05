//! Which plan a session of an agent's client works on.
//!
//! A client is asked who it is in more than one way: its hooks are told a session's name, its MCP server
//! mostly is not, and both are children of the client's process. So a session is known by its name, by the
//! process, or by both, and what was said under one is found under the other once they were seen together.
//! The files are small, one for each name and each process, in the state folder.
//!
//! **Invariant:** two sessions with different names never share a plan, whatever process they are in.
//! **Invariant:** nothing is decided by what stands here: it says which plan is meant, not how it stands.

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::chain::{Hash, PlanId};
use provost_host::files;
use provost_host::process::Lineage;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Names of sessions that clients leave in the environment of what they start.
const VARIABLES: [&str; 6] = [
    "PROVOST_SESSION",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_SESSION_ID",
    "CODEX_THREAD_ID",
    "GEMINI_SESSION_ID",
    "OPENCODE_SESSION_ID",
];
/// So many of a hook's parents can be the client: shells and launchers stand between.
const NEAREST: usize = 5;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub pid: i32,
    /// In ticks since the machine was started.
    pub started: u64,
}

impl Client {
    pub fn is_alive(self) -> bool {
        Lineage::started(self.pid) == Some(self.started)
    }
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// What the client calls it, where it says so.
    pub name: Option<String>,
    /// Processes that are the client, or may be.
    pub clients: Vec<Client>,
}

impl Session {
    /// The session of a server that a client started: its parent is the client.
    pub fn of_server(environment: &[(std::ffi::OsString, std::ffi::OsString)]) -> Self {
        Self { name: named(environment), clients: parents().into_iter().take(1).collect() }
    }

    /// The session of a hook: its client is some way above it, and mostly said its name.
    pub fn of_hook(name: Option<String>) -> Self {
        Self { name, clients: parents().into_iter().take(NEAREST).collect() }
    }

    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let name = self.name.as_deref().map(Key::Name);
        name.into_iter().chain(self.clients.iter().copied().map(Key::Client))
    }
}

fn named(environment: &[(std::ffi::OsString, std::ffi::OsString)]) -> Option<String> {
    VARIABLES.iter().find_map(|name| {
        let (_, value) = environment.iter().find(|(key, value)| key == name && !value.is_empty())?;
        Some(value.to_string_lossy().into_owned())
    })
}

fn parents() -> Vec<Client> {
    let Ok(lineage) = Lineage::trace() else { return Vec::new() };
    lineage.processes().skip(1).map(|(pid, started)| Client { pid, started }).collect()
}

#[derive(Clone, Copy)]
enum Key<'a> {
    Name(&'a str),
    Client(Client),
}

impl Key<'_> {
    fn file(self) -> String {
        let words = match self {
            Key::Name(name) => format!("name\0{name}"),
            Key::Client(Client { pid, started }) => format!("client\0{pid}\0{started}"),
        };
        format!("{}.json", Hash::of(words.as_bytes()))
    }
}

/// What is known of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The plan's file.
    pub plan: PathBuf,
    pub workspace: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusals: Option<Refusals>,
}

/// How often the session was not let go since the plan last moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refusals {
    plan: String,
    /// What stood for the plan's progress then.
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

    /// From now on the session works on this plan.
    pub fn bind(&self, session: &Session, plan: &Path, workspace: &Path) -> Result<(), Error> {
        self.write(&Bound {
            plan: plan.to_owned(),
            workspace: workspace.to_owned(),
            name: session.name.clone(),
            clients: session.clients.clone(),
            refusals: None,
        })
    }

    /// The plan the session works on. What is found under one of its keys is there under all from now on.
    pub fn plan_of(&self, session: &Session) -> Option<Bound> {
        let is_its = |bound: &Bound| match (&bound.name, &session.name) {
            (Some(known), Some(asked)) => known == asked,
            _ => true,
        };
        let bound = session.keys().find_map(|key| self.read(key).filter(is_its))?;
        let mut known = bound.clone();
        known.name = known.name.or_else(|| session.name.clone());
        // The client of a session that was taken up again is another process.
        if !session.clients.iter().any(|client| known.clients.contains(client)) {
            known.clients.clone_from(&session.clients);
        }
        if known != bound {
            // Not being able to remember it is no reason not to answer.
            let _ = self.write(&known);
        }
        Some(known)
    }

    /// Counts a stop that was refused, and says how many there were in a row while `mark`, which stands
    /// for the plan's progress, was the same.
    pub fn refuse(&self, session: &Session, plan: &PlanId, mark: &str) -> Result<u32, Error> {
        let Some(mut bound) = self.plan_of(session) else { return Ok(1) };
        let before = bound.refusals.take().filter(|known| known.plan == plan.0 && known.mark == mark);
        let times = before.map_or(0, |known| known.times).saturating_add(1);
        bound.refusals = Some(Refusals { plan: plan.0.clone(), mark: mark.to_owned(), times });
        self.write(&bound)?;
        Ok(times)
    }

    /// Some other session, whose client is still there, works on the plan.
    pub fn is_taken(&self, session: &Session, plan: &Path) -> bool {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut bounds = entries.filter_map(|entry| from(&entry.path())).filter(|bound| bound.plan == plan);
        bounds.any(|bound| {
            let same_name = bound.name.is_some() && bound.name == session.name;
            let others = bound.clients.iter().filter(|client| !session.clients.contains(client));
            !same_name && others.clone().any(|client| client.is_alive())
        })
    }

    fn read(&self, key: Key<'_>) -> Option<Bound> {
        from(&self.folder.join(key.file()))
    }

    fn write(&self, bound: &Bound) -> Result<(), Error> {
        let io = |source| Error::Io { what: "write in", path: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(io)?;
        let text = serde_json::to_vec(bound).map_err(|error| io(error.into()))?;
        let session = Session { name: bound.name.clone(), clients: bound.clients.clone() };
        for key in session.keys() {
            files::write_whole(&self.folder.join(key.file()), &text).map_err(io)?;
        }
        Ok(())
    }
}

fn from(path: &Path) -> Option<Bound> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(pid: i32) -> Client {
        Client { pid, started: 7 }
    }

    fn session(name: Option<&str>, pid: i32) -> Session {
        Session { name: name.map(str::to_owned), clients: vec![client(pid)] }
    }

    fn plan(sessions: &Sessions, session: &Session) -> Option<String> {
        sessions.plan_of(session).map(|bound| bound.plan.display().to_string())
    }

    #[test]
    fn a_hook_finds_by_name_what_the_server_bound_by_its_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = Sessions::new(folder.path());
        sessions.bind(&session(None, 10), Path::new("/p/a"), Path::new("/p")).expect("bound");
        assert_eq!(plan(&sessions, &session(Some("one"), 10)).as_deref(), Some("/p/a"));
        // Taken up again in another process, where nobody says its name but the hook.
        assert_eq!(plan(&sessions, &session(None, 20)), None);
        assert_eq!(plan(&sessions, &session(Some("one"), 20)).as_deref(), Some("/p/a"));
        assert_eq!(plan(&sessions, &session(None, 20)).as_deref(), Some("/p/a"));
    }

    #[test]
    fn sessions_do_not_see_each_others_plans() {
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = Sessions::new(folder.path());
        sessions.bind(&session(Some("one"), 10), Path::new("/p/a"), Path::new("/p")).expect("bound");
        sessions.bind(&session(None, 11), Path::new("/p/b"), Path::new("/p")).expect("bound");
        assert_eq!(plan(&sessions, &session(None, 11)).as_deref(), Some("/p/b"));
        // A new session in the same process has none, and gets its own.
        assert_eq!(plan(&sessions, &session(Some("two"), 10)), None);
        sessions.bind(&session(Some("two"), 10), Path::new("/p/c"), Path::new("/p")).expect("bound");
        assert_eq!(plan(&sessions, &session(Some("one"), 12)).as_deref(), Some("/p/a"));
        assert_eq!(plan(&sessions, &session(Some("two"), 10)).as_deref(), Some("/p/c"));
    }

    #[test]
    fn refusals_are_counted_until_the_plan_moves() {
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = Sessions::new(folder.path());
        let (one, id) = (session(Some("one"), 10), PlanId("a-1".to_owned()));
        sessions.bind(&one, Path::new("/p/a"), Path::new("/p")).expect("bound");
        let count = |mark: &str| sessions.refuse(&one, &id, mark).expect("counted");
        assert_eq!([count("0"), count("0"), count("1"), count("1"), count("1")], [1, 2, 1, 2, 3]);
        sessions.bind(&one, Path::new("/p/a"), Path::new("/p")).expect("bound");
        assert_eq!(count("1"), 1);
    }

    #[test]
    fn a_plan_is_taken_while_another_client_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = Sessions::new(folder.path());
        let me = i32::try_from(std::process::id()).expect("a number");
        let alive = Client { pid: me, started: Lineage::started(me).expect("it is there") };
        let other = Session { name: None, clients: vec![alive] };
        sessions.bind(&other, Path::new("/p/a"), Path::new("/p")).expect("bound");
        assert!(sessions.is_taken(&session(None, 10), Path::new("/p/a")));
        assert!(!sessions.is_taken(&other, Path::new("/p/a")));
        sessions.bind(&session(None, 11), Path::new("/p/b"), Path::new("/p")).expect("bound");
        assert!(!sessions.is_taken(&session(None, 10), Path::new("/p/b")));
    }
}
