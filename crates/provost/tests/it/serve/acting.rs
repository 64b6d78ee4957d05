//! Tests the pages that make plans, and the pages of numbers: insight and cluster.

use std::time::{Duration, Instant};

use super::{Server, form_key, id_of, token};
use crate::env::{Env, HONEST, plan};
use crate::new::{PLANNER, env};

#[test]
fn a_plan_is_made_from_a_template_on_the_page() {
    let env = Env::new("no plan\n");
    let server = Server::start(&env);
    let cookie = server.enter();
    let page = server.browse("/new", &cookie).is(200).body;
    assert!(page.contains("id=\"template-blank\"") && page.contains("name=\"set-"), "{page}");
    let make = |form: &str| server.submit("/new", &cookie, &format!("{form}&form_key={}", form_key(&page)));
    let made = make("name=tidy-up&template=blank").is(303);
    let gate = made.head("location").to_owned();
    assert!(gate.starts_with("/plans/") && gate.ends_with("/gate"), "{gate}");
    assert!(server.browse(&gate, &cookie).is(200).body.contains("value=\"approve\""), "it waits at its gate");
    let events = env.provost(&["log", "tidy-up", "--json"]).exits(0).lines();
    assert!(events.iter().all(|event| event["event"] != "GATE_APPROVED"), "{events:?}");
    // An existing plan is not overwritten, and a name is no path.
    make("name=tidy-up&template=blank").is(409);
    assert!(make("name=..%2F..%2Fx&template=blank").status >= 400);
    assert!(make("name=other&template=none").is(404).body.contains("no template"));
    server.submit("/new", &cookie, "name=other&template=blank").is(403);
}

#[test]
fn a_goal_is_drafted_on_the_page() {
    let env = env(PLANNER);
    let server = Server::start(&env);
    let cookie = server.enter();
    let key = form_key(&server.browse("/new", &cookie).is(200).body);
    server.submit("/new", &cookie, &format!("name=greet&goal=Say%20hello&form_key={key}")).is(303);
    let begun = Instant::now();
    let page = loop {
        let page = server.browse("/new", &cookie).is(200).body;
        if !page.contains("The planner drafts") {
            break page;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{page}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(page.contains("is drafted"), "{page}");
    assert_eq!(env.provost(&["show", "greet", "--json"]).exits(0).json()["stage"], "verified");
    // The words of a planner that made no plan are shown.
    env.write("planner.sh", "exit 3\n");
    server.submit("/new", &cookie, &format!("name=other&goal=Say%20hello&form_key={key}")).is(303);
    let begun = Instant::now();
    while !server.browse("/new", &cookie).is(200).body.contains("the planner wrote no plan") {
        assert!(begun.elapsed() < Duration::from_secs(120), "nothing was told");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_numbers_of_the_steps_and_the_doubts_about_contracts_are_shown() {
    let text = plan(&["true", "test -f out/2"], "escalate");
    let env = Env::new(&text).agent(HONEST).isolation("guard+clean");
    env.approve();
    env.provost(&["run"]);
    let server = Server::start(&env);
    let cookie = server.enter();
    let id = id_of(&server, &token(&env, "view"));
    let page = server.browse("/insight", &cookie).is(200).body;
    for words in ["By model", "Attempts per step", "Time by kind", "Waiting for an answer of a person"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let doubts = page.split_once("Flaky and weak contracts").expect("the contracts").1;
    assert!(doubts.contains(&format!("/plans/{id}/steps/1")), "{doubts}");
    let csv = server.browse("/insight.csv", &cookie).is(200).body;
    let mut lines = csv.lines();
    assert!(lines.next().is_some_and(|head| head.ends_with(",tokens,usd,model,person_ms,doubts")), "{csv}");
    assert!(lines.next().is_some_and(|line| line.contains("weak: it held before the work too")), "{csv}");
}

#[test]
fn a_log_that_is_not_shared_has_no_cluster() {
    let env = Env::new(&plan(&["true"], "escalate"));
    let server = Server::start(&env);
    let page = server.browse("/cluster", &server.enter()).is(200).body;
    assert!(page.contains("This log is not shared."), "{page}");
}
