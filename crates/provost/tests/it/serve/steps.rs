//! Tests the page of a step: the output of a running check, and what changed between attempts.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Server, form_key, id_of, token};
use crate::env::{Env, HONEST, answer, plan};

#[test]
fn the_page_shows_the_output_of_a_check_while_it_runs() {
    let contract =
        "echo the check has begun; for i in $(seq 1200); do test -e go && exit 0; sleep 0.1; done; exit 1";
    let env = Env::new(&plan(&[contract], "escalate")).agent(HONEST).isolation("in-place");
    env.approve();
    let server = Server::start(&env);
    let cookie = server.enter();
    let id = id_of(&server, &token(&env, "view"));
    let place = format!("/plans/{id}/steps/1");
    let run = env.start(&["run"]);
    let begun = Instant::now();
    let shown = loop {
        let lines = server.browse(&format!("{place}/output"), &cookie).is(200).body;
        if lines.contains("the check has begun") {
            break server.browse(&place, &cookie).is(200).body;
        }
        assert!(begun.elapsed() < Duration::from_secs(100), "nothing of the check was shown: {lines}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(shown.contains("Live output of the check"), "{shown}");
    assert!(shown.contains("<span class=\"line\">the check has begun\n</span>"), "{shown}");
    let busy = "running the check";
    while !server.browse(&format!("/plans/{id}/busy"), &cookie).is(200).body.starts_with(busy) {
        assert!(begun.elapsed() < Duration::from_secs(100), "the page names nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let overview = server.browse(&format!("/plans/{id}"), &cookie).is(200).body;
    assert!(overview.contains(&format!("/busy\">{busy}")), "{overview}");
    env.write("go", "");
    answer(run.wait_with_output().expect("the run")).exits(0);
    let after = server.browse(&place, &cookie).is(200).body;
    assert!(!after.contains("data-output") && after.contains("the check has begun"), "{after}");
    assert_eq!(server.browse(&format!("/plans/{id}/busy"), &cookie).is(200).body, "");
    assert!(!env.state().join("live").read_dir().is_ok_and(|mut files| files.next().is_some()));
}

#[test]
fn the_page_shows_what_changed_between_two_attempts() {
    let agent = "mkdir -p out; [ -e out/1 ] && echo right > out/1 || echo wrong > out/1; echo tried\n";
    let text = plan(&["grep right out/1"], "retry(1), then escalate");
    let env = Env::new(&text).agent(agent).isolation("guard+clean");
    env.approve();
    env.provost(&["run"]).exits(0);
    let server = Server::start(&env);
    let cookie = server.enter();
    let id = id_of(&server, &token(&env, "view"));
    let page = |query: &str| server.browse(&format!("/plans/{id}/steps/1{query}"), &cookie).is(200).body;
    let since = |page: &str| page.split("id=\"since\"").nth(1).map(str::to_owned);
    let last = since(&page("")).expect("a part about the attempt before");
    assert!(last.starts_with(">Changes since attempt 1</h2>"), "{last}");
    let changed = last.split("<h2").next().unwrap_or_default();
    assert!(changed.contains("wrong</code></del>") && changed.contains("right</code></ins>"), "{changed}");
    assert!(changed.contains("attempt=2&amp;diff=split#since"), "{changed}");
    assert_eq!(since(&page("?attempt=1")), None, "no attempt came before the first one");
    // What the check ran with, and the command that runs it again.
    assert!(last.contains("data-copy=\"provost recheck plan 1\""), "{last}");
    assert!(last.contains("<dt>Command</dt>") && last.contains("<dt>Tree</dt>"), "{last}");
    env.provost(&["recheck", "1"]).exits(0);
}

#[test]
fn a_question_about_a_step_is_shown_at_that_step() {
    let text = plan(&["test -f out/1", "test -f out/2"], "escalate");
    let env = Env::new(&text).agent(HONEST).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    let server = Server::start(&env);
    let (cookie, decide) = (server.enter(), token(&env, "decide"));
    let id = id_of(&server, &decide);
    let gate = format!("/plans/{id}/gate");
    let page = server.browse(&gate, &cookie).is(200).body;
    assert!(!page.contains("<dt>Term</dt>") && page.contains("<dt>Isolation</dt>"), "{page}");
    let form = format!("decision=ask&step=2&words=why%20two%3F&form_key={}", form_key(&page));
    server.submit(&gate, &cookie, &form).is(303);
    server.post(&format!("/api{gate}/ask"), &decide, &json!({ "question": "and why?", "step": 2 })).is(200);
    let refused = server.post(&format!("/api{gate}/ask"), &decide, &json!({ "question": "and?", "step": 9 }));
    assert!(refused.is(404).body.contains("no step 9"));
    env.provost(&["ask", "--step", "1", "--question", "is one enough?", "--by", "ada"]).exits(0);
    let page = server.browse(&gate, &cookie).is(200).body;
    let of_step = |number: u32| {
        let part = page.split(&format!("id=\"step-{number}\"")).nth(1).expect("the step");
        part.split("</section>").next().expect("its end").to_owned()
    };
    assert!(of_step(2).contains("why two?") && of_step(2).contains("and why?"), "{}", of_step(2));
    assert!(of_step(1).contains("is one enough?") && !of_step(1).contains("why two?"), "{}", of_step(1));
    assert!(page.contains("A question is open: step 1: is one enough?"), "{page}");
    let step = server.browse(&format!("/plans/{id}/steps/2"), &cookie).is(200).body;
    assert!(step.contains("why two?"), "{step}");
    let log = env.provost(&["log"]).exits(0).out;
    assert!(log.contains("ada asks about step 1: is one enough?"), "{log}");
    // An amendment leaves the questions, as those of an earlier revision.
    env.write("PLAN.md", env.read("PLAN.md").replace("Do part 2", "Please do part 2"));
    env.provost(&["verify"]).exits(0);
    let page = server.browse(&gate, &cookie).is(200).body;
    assert!(page.contains("(about an earlier revision)") && !page.contains("A question is open"), "{page}");
}
