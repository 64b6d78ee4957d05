//! Tests the partial updates of open pages, and the pages of a plan whose workspace is gone.

use super::{Server, id_of, token};
use crate::env::{Env, HONEST, plan};

fn version(page: &str) -> String {
    let (_, rest) = page.split_once("data-version=\"").expect("a version");
    rest.split('"').next().expect("a version").to_owned()
}

/// Returns the content of `<main>`.
fn main_of(page: &str) -> &str {
    page.split_once("<main").expect("a page").1.split_once("</main>").expect("an end").0
}

#[test]
fn of_a_large_plan_only_what_changed_is_sent_again() {
    let steps: Vec<String> = (1..=200).map(|step| format!("test -f out/{step}")).collect();
    let contracts: Vec<&str> = steps.iter().map(String::as_str).collect();
    let env = Env::new(&plan(&contracts, "escalate")).agent(HONEST).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    let server = Server::start(&env);
    let id = id_of(&server, &token(&env, "view"));
    let cookie = server.enter();
    for place in [format!("/plans/{id}"), "/".to_owned(), "/log".to_owned()] {
        let whole = server.browse(&place, &cookie).is(200).body;
        let has = version(&whole);
        let again = |has: &str| {
            let head = [("Accept", "text/html"), ("Cookie", cookie.as_str()), ("X-Provost-Page", has)];
            server.bare("GET", &place, &head, "").is(200).body
        };
        let same = again(&has);
        assert_eq!(version(&same), has);
        assert!(!main_of(&same).contains("data-part="), "nothing is new on {place}");
        assert!(
            main_of(&again("0123456789abcdef")).contains("data-part="),
            "an unknown version gets all of {place}"
        );
    }
    let place = format!("/plans/{id}");
    let before = server.browse(&place, &cookie).is(200).body;
    env.approve();
    let head = [("Accept", "text/html"), ("Cookie", cookie.as_str()), ("X-Provost-Page", &version(&before))];
    let news = server.bare("GET", &place, &head, "").is(200).body;
    let after = server.browse(&place, &cookie).is(200).body;
    assert_eq!(version(&news), version(&after));
    assert!(news.contains("idle") && news.len() * 4 < after.len(), "{} of {}", news.len(), after.len());
    // Every part that is not sent was on the page before.
    for part in main_of(&news).split("data-same=\"").skip(1) {
        let digest = part.split('"').next().expect("a digest");
        assert!(before.contains(&format!("data-part=\"{digest}\"")), "{digest}");
    }
}

#[test]
fn a_plan_that_was_revised_is_compared_with_what_it_was() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/9"], "escalate")).agent(HONEST);
    let env = env.isolation("in-place");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    env.write("PLAN.md", env.read("PLAN.md").replace("test -f out/9", "test -f out/2"));
    env.provost(&["verify"]).exits(0);
    person.approve();
    env.provost(&["run"]).exits(0);
    let server = Server::start(&env);
    let view = token(&env, "view");
    let id = id_of(&server, &view);
    let lives = server.get(&format!("/api/plans/{id}/lives"), &view).is(200).json();
    let lives = lives["items"].as_array().expect("lives");
    let told = |at: usize| (lives[at]["stage"].as_str(), lives[at]["done"].as_u64());
    assert_eq!((lives.len(), told(0), told(1)), (2, (Some("in-progress"), Some(1)), (Some("done"), Some(2))));
    assert_ne!(lives[0]["revision"], lives[1]["revision"]);
    let cookie = server.enter();
    let page = server.browse(&format!("/compare?one={id}&other={id}"), &cookie).is(200).body;
    assert!(
        page.contains("test -f out/<mark>9</mark>") && page.contains("test -f out/<mark>2</mark>"),
        "{page}"
    );
    let first = lives[0]["revision"].as_str().expect("a revision").get(..12).expect("twelve");
    assert!(page.contains(&format!("{id}%40{first}")), "{page}");
    server.browse(&format!("/compare?one={id}@{first}&other={id}"), &cookie).is(200);
    server.browse(&format!("/compare?one={id}@000000&other={id}"), &cookie).is(404);
}

#[test]
fn what_is_gone_says_what_to_do() {
    let env = super::verified();
    let server = Server::start(&env);
    let view = token(&env, "view");
    let id = id_of(&server, &view);
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    for what in ["gate", "proofs", "diff"] {
        let gone = server.get(&format!("/api/plans/{id}/{what}"), &view).is(409).json();
        assert!(gone["hint"].as_str().is_some_and(|hint| hint.contains("--recorded")), "{what}: {gone}");
    }
    server.get(&format!("/api/plans/{id}"), &view).is(200);
}
