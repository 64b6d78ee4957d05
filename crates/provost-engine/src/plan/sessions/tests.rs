//! Tests which plan a session gets by its name, its process or both.

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
fn a_session_over_http_is_found_by_the_hook_of_its_client() {
    let (_folder, sessions) = fresh();
    let over_http = |id: &str| server(Some(&name_over_http(Some(id), "t")), 10);
    let (one, two) = (over_http("1"), over_http("2"));
    sessions.arrive(&server(Some(&name_over_http(None, "t")), 10)).expect("there");
    assert_eq!(plan(&sessions, &hook("a", 10)), None);
    sessions.bind(&one, Path::new("/p/a")).expect("bound");
    assert_eq!(plan(&sessions, &two), None, "the client has another session of the protocol");
    assert_eq!(plan(&sessions, &hook("a", 10)).as_deref(), Some("/p/a"));
    assert_eq!(plan(&sessions, &hook("b", 10)), None, "the session has the name that its hook said");
    assert_eq!(plan(&sessions, &hook("a", 11)).as_deref(), Some("/p/a"), "resumed in another process");
    assert_eq!((plan(&sessions, &one).as_deref(), plan(&sessions, &two)), (Some("/p/a"), None));
    assert!(!sessions.is_taken(&one, Path::new("/p/a")));
    // A later plan of the same session replaces the earlier one for the hook, too.
    sessions.bind(&one, Path::new("/p/b")).expect("bound");
    assert_eq!(plan(&sessions, &hook("a", 10)).as_deref(), Some("/p/b"));
}

#[test]
fn a_released_session_has_no_plan_and_its_client_is_still_an_agents() {
    let (_folder, sessions) = fresh();
    sessions.bind(&server(Some("one"), 10), Path::new("/p/a")).expect("bound");
    sessions.bind(&server(None, 11), Path::new("/p/b")).expect("bound");
    let names = || sessions.all().into_iter().map(|bound| bound.plan).collect::<Vec<_>>();
    assert_eq!(names().len(), 2, "a session known by name and by process is one");
    // It is found under two names: the one of the protocol, and the one that its hook said.
    sessions.bind(&server(Some(&name_over_http(Some("1"), "t")), 12), Path::new("/p/c")).expect("bound");
    assert_eq!(plan(&sessions, &hook("two", 12)).as_deref(), Some("/p/c"));
    let said: Vec<_> = sessions.all().into_iter().map(|bound| bound.name).collect();
    assert_eq!(said, [Some("one".to_owned()), Some("two".to_owned()), None]);
    for bound in sessions.all() {
        sessions.release(&bound).expect("released");
    }
    assert_eq!(names(), Vec::<std::path::PathBuf>::new());
    assert_eq!((plan(&sessions, &hook("one", 10)), plan(&sessions, &hook("two", 12))), (None, None));
    assert_eq!(sessions.client_among([client(10)]), Some(client(10)));
}

#[test]
fn a_plan_is_taken_while_another_client_is_there() {
    let (_folder, sessions) = fresh();
    let me = i32::try_from(std::process::id()).expect("a number");
    let alive = ClientProcess { pid: me, started: Lineage::started(me).expect("it is there") };
    let other = ClientSession { name: None, workspace: "/p".into(), by: ClientIdentity::Server(Some(alive)) };
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
