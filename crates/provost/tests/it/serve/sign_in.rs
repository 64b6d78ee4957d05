//! Tests how a person gets from a link in a message to the decision.

use serde_json::Value;

use super::Server;
use crate::env::{Env, HONEST, plan};
use crate::notify::receiver;

/// Returns the link that a run sends while a server runs.
fn sent_link(env: &Env) -> String {
    let (port, requests) = receiver(&[200]);
    let hook = format!("[[notify.webhook]]\nurl = \"http://127.0.0.1:{port}/\"\n");
    env.write("provost.toml", env.read("provost.toml") + &hook);
    env.provost(&["run"]).exits(4);
    let item: Value = serde_json::from_str(&requests.try_recv().expect("a request").body).expect("JSON");
    item["link"].as_str().expect("a link").to_owned()
}

#[test]
fn a_link_in_a_message_leads_to_sign_in_and_then_to_the_decision() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let server = Server::start(&env);
    let link = sent_link(&env);
    let page = link.strip_prefix(&format!("http://{}", server.address)).expect("the server's address");
    assert!(page.starts_with("/inbox/"), "{link}");

    let html = ("Accept", "text/html");
    let stranger = server.bare("GET", page, &[html], "").is(401);
    assert!(stranger.body.contains("<h1>Sign in</h1>"), "{}", stranger.body);
    assert!(stranger.body.contains(&format!("name=\"next\" value=\"{page}\"")), "{}", stranger.body);
    assert!(!stranger.body.contains("http-equiv=\"refresh\""));
    // Without JSON accepted or wanted, a program gets the problem as before.
    assert_eq!(server.bare("GET", page, &[], "").is(401).json()["status"], 401);

    // The person enters the link that `provost serve` printed.
    let typed: String = server.link.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let next: String = page.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let welcome = server.bare("GET", &format!("/enter?key={typed}&next={next}"), &[html], "").is(200);
    assert!(welcome.body.contains(&format!("0; url={page}")), "{}", welcome.body);
    let cookie = welcome.head("set-cookie").split(';').next().expect("a pair").to_owned();
    let decision = server.browse(page, &cookie).is(200);
    assert!(decision.body.contains("the plan is not approved"), "{}", decision.body);

    // With a session, the page to sign in leads on, and only to pages of this server.
    let on = server.browse(&format!("/enter?next={next}"), &cookie).is(200);
    assert!(on.body.contains(&format!("0; url={page}")), "{}", on.body);
    for elsewhere in ["https://evil.example/", "//evil.example/", "/%5Cevil.example", "/enter"] {
        let on = server.browse(&format!("/enter?next={elsewhere}"), &cookie).is(200);
        assert!(on.body.contains("0; url=/\""), "{elsewhere}: {}", on.body);
    }
}

#[test]
fn a_browser_that_keeps_its_cookie_back_asks_once_more() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let server = Server::start(&env);
    let cookie = server.enter();
    // A click in a chat: the browser sends no strict cookie with it.
    let click = [("Accept", "text/html"), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    let first = server.bare("GET", "/inbox", &click, "").is(401);
    assert!(first.body.contains("0; url=/inbox\""), "{}", first.body);
    // The page asks for itself: now the cookie comes along.
    let again = [("Accept", "text/html"), ("Sec-Fetch-Site", "same-origin"), ("Cookie", &*cookie)];
    server.bare("GET", "/inbox", &again, "").is(200);
    let without = [("Accept", "text/html"), ("Sec-Fetch-Site", "same-origin")];
    let stranger = server.bare("GET", "/inbox", &without, "").is(401);
    assert!(!stranger.body.contains("http-equiv=\"refresh\""), "{}", stranger.body);
}
