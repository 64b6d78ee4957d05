//! Tests the page of sessions: a person sees and ends their own, an admin all.

use super::{Server, form_key, token, verified};
use crate::env::Env;

/// Opens a session by a new link, and returns its cookie.
fn session(env: &Env, server: &Server, arguments: &[&str]) -> String {
    let link = env.provost(&[&["serve", "link"], arguments].concat()).exits(0).out;
    let path = link.trim().split_once(&server.address).expect("a link").1.to_owned();
    let browser = [("Accept", "text/html"), ("User-Agent", "<b>Browser</b>")];
    let reply = server.bare("GET", &path, &browser, "").is(200);
    reply.head("set-cookie").split(';').next().expect("a pair").to_owned()
}

/// Returns the id in a cookie.
fn id(cookie: &str) -> &str {
    cookie.split("pvt_").nth(1).and_then(|rest| rest.split('_').next()).expect("an id")
}

#[test]
fn a_person_ends_their_own_sessions_and_an_admin_all() {
    let env = verified();
    let server = Server::start(&env);
    let ada = session(&env, &server, &["--by", "ada"]);
    let second = session(&env, &server, &["--by", "ada"]);
    let bob = session(&env, &server, &["--by", "bob", "--scope", "view"]);
    let end = |cookie: &str, other: &str| {
        let page = server.browse("/sessions", cookie).is(200).body;
        let form = format!("form_key={}", form_key(&page));
        server.submit(&format!("/sessions/{}", id(other)), cookie, &form)
    };

    // Each sees only their own, with the browser as plain text.
    let page = server.browse("/sessions", &ada).is(200).body;
    assert!(page.contains(id(&ada)) && page.contains(id(&second)) && !page.contains(id(&bob)), "{page}");
    assert!(page.contains("&lt;b&gt;Browser") && page.contains("(this session)"), "{page}");
    // A session of somebody else looks as if it did not exist.
    end(&ada, &bob).is(404);
    // A write needs the key of the page.
    server.submit(&format!("/sessions/{}", id(&second)), &ada, "").is(403);
    server.browse("/", &second).is(200);
    end(&ada, &second).is(303);
    server.browse("/", &second).is(401);

    // A person who may only look ends their own session, and decides nothing.
    end(&bob, &ada).is(404);
    let left = end(&bob, &bob).is(200).body;
    assert!(left.contains("You are logged out"), "{left}");
    server.browse("/", &bob).is(401);

    // The person who started the server is an admin.
    let admin = server.enter();
    let program = token(&env, "view");
    let page = server.browse("/sessions", &admin).is(200).body;
    assert!(page.contains(id(&ada)) && page.contains(id(&program)), "{page}");
    end(&admin, &ada).is(303);
    server.browse("/", &ada).is(401);
    let listed = env.provost(&["serve", "tokens", "--json"]).exits(0).json();
    let own = listed.as_array().expect("a list").iter().find(|each| each["id"] == id(&admin)).expect("it");
    assert_eq!((&own["scope"], &own["kind"]), (&"admin".into(), &"session".into()));
    assert!(own["used"].is_string(), "{own}");
}

#[test]
fn a_viewer_decides_nothing_and_can_leave() {
    let env = verified();
    let server = Server::start(&env);
    let viewer = session(&env, &server, &["--by", "bob", "--scope", "view"]);
    let page = server.browse("/", &viewer).is(200).body;
    assert!(page.contains("may only look") && page.contains("action=\"/leave\""), "{page}");
    let plan = super::id_of(&server, &token(&env, "view"));
    let form = format!("action=start&form_key={}", form_key(&page));
    server.submit(&format!("/plans/{plan}"), &viewer, &form).is(403);
    server.submit("/leave", &viewer, &format!("form_key={}", form_key(&page))).is(200);
    server.browse("/", &viewer).is(401);
    // An admin may decide too, and an agent's token sees no sessions.
    let admin = token(&env, "admin");
    server.get("/api/plans", &admin).is(200);
    server.get("/sessions", &token(&env, "agent")).is(403);
}
