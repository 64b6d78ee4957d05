//! The command line and the API print the same view of a plan.

use serde_json::{Value, json};

use super::{Server, id_of, token};
use crate::env::{Env, HONEST, plan};

/// Keys of `status --json` and `show --json` that are older than the view, and those that only a process
/// with the plan file and the configuration open can fill in. The API has another value or null.
const OLDER: [&str; 10] = [
    "waiting",
    "changed",
    "steps.needs",
    "steps.attempts",
    "steps.verdict.outcome",
    "steps.verdict.tree",
    "steps.verdict.stdout",
    "steps.verdict.stderr",
    "waiting_items.overdue",
    "overdue",
];

/// Lists the places where the command line lacks a key of the API, or has another value.
fn differences(at: &str, api: &Value, told: &Value, except: &[&str], found: &mut Vec<String>) {
    match (api, told) {
        _ if except.contains(&at) => {}
        (Value::Object(api), Value::Object(told)) => {
            for (key, value) in api {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                match told.get(key) {
                    Some(told) => differences(&at, value, told, except, found),
                    None => found.push(format!("{at} is missing")),
                }
            }
        }
        (Value::Array(api), Value::Array(told)) if api.len() == told.len() => {
            api.iter().zip(told).for_each(|(api, told)| differences(at, api, told, except, found));
        }
        _ if api == told => {}
        _ => found.push(format!("{at}: {api} in the API, {told} on the command line")),
    }
}

#[track_caller]
fn agree(api: &Value, told: &Value, except: &[&str]) {
    let mut found = Vec::new();
    differences("", api, told, except, &mut found);
    assert!(found.is_empty(), "{found:#?}\n{told:#}");
}

/// Keys of the command line that the API has not.
fn only_here<'v>(api: &Value, told: &'v Value) -> Vec<&'v str> {
    let told = told.as_object().expect("an object").keys();
    told.filter(|key| api.get(key.as_str()).is_none()).map(String::as_str).collect()
}

/// One step passed, one waits for a person, and a postcondition is open.
fn stopped() -> Env {
    let steps = plan(&["test -f out/1", "echo seen; test -f out/never"], "retry(1), then escalate");
    let text = steps + "\n## Postconditions\n\n1. It is there\n   ```shell\n   test -f out/1\n   ```\n";
    let env = Env::new(&text).agent(HONEST).isolation("in-place");
    env.approve();
    env.provost(&["run"]).exits(4);
    env
}

#[test]
fn status_and_show_print_the_view_of_the_api() {
    let env = stopped();
    let server = Server::start(&env);
    let view = token(&env, "view");
    let status = env.provost(&["status", "--json"]).exits(0).json();
    let id = status["plan"].as_str().expect("an id");
    let api = server.get(&format!("/api/plans/{id}"), &view).is(200).json();
    agree(&api, &status, &OLDER);
    assert!(only_here(&api, &status).is_empty(), "{:?}", only_here(&api, &status));
    assert!(only_here(&api["steps"][1], &status["steps"][1]).is_empty());
    assert!(only_here(&api["cost"], &status["cost"]).is_empty());
    // The older keys mean what they meant.
    let second = &status["steps"][1];
    assert_eq!((&second["needs"], &second["attempts"]), (&Value::Null, &json!(2)));
    assert_eq!(second["verdict"]["outcome"], json!({ "kind": "broke", "exit_code": 1 }));
    assert_eq!(second["verdict"]["stdout"]["head"], "seen\n");
    assert_eq!((&status["changed"], &status["waiting"][0]["step"]), (&json!(false), &json!(2)));
    assert_eq!(status["waiting"][0]["overdue"], false);
    assert_eq!((&api["waiting"], &api["steps"][1]["depends_on"]), (&json!(1), &json!([1])));
    let show = env.provost(&["show", "--json"]).exits(0).json();
    agree(&api, &show, &[&OLDER[..], &["terms"]].concat());
    assert_eq!(show["run_policy"], show["terms"]);
    let gate = ["on_base", "changed_since_approval", "uncommitted", "not_checked"];
    assert_eq!(only_here(&api, &show), gate);
    let inbox = env.provost(&["inbox", "--json"]).exits(0).json();
    let api = server.get("/api/inbox", &view).is(200).json();
    agree(&api["items"], &inbox, &OLDER);
}

#[test]
fn list_and_ready_print_the_cards_of_the_api() {
    let env = stopped();
    let early = plan(&["test -f out/2"], "escalate");
    env.write("PLAN-early.md", &early);
    env.write("PLAN-later.md", early.replace("owner: test\n", "owner: test\ndepends_on: [early]\n"));
    for name in ["early", "later"] {
        env.provost(&["verify", name]).exits(0);
    }
    let server = Server::start(&env);
    let cards = server.get("/api/plans", &token(&env, "view")).is(200).json();
    let cards = cards["items"].as_array().expect("a list");
    assert_eq!(cards.len(), 3, "{cards:#?}");
    for command in ["list", "ready"] {
        let told = env.provost(&[command, "--json"]).exits(0).json();
        let told = told["plans"].as_array().expect("a list");
        assert_eq!(told.len(), 3, "{told:#?}");
        for card in cards {
            let found = told.iter().find(|plan| plan["plan"] == card["id"]).expect("the plan");
            // A plan without a name of its own is listed by the name of its file.
            let except: &[&str] = if card["name"] == "plan" { &["name"] } else { &[] };
            agree(card, found, except);
            let of_the_folder = ["progress", "active", "running", "worktrees"];
            let of_the_agenda = ["standing", "waits_for", "beside"];
            let all = match command {
                "list" => of_the_folder.to_vec(),
                _ => [&of_the_folder[..], &of_the_agenda[..]].concat(),
            };
            assert_eq!(only_here(card, found), all, "{command}");
        }
    }
}

#[test]
fn the_page_of_a_step_shows_which_lines_are_proved() {
    let agent = "mkdir -p out; printf 'echo 2\\n\\n\\nunused() {\\n  echo 3\\n}\\n' > out/1.sh\n";
    let text = plan(&["cat out/*.sh | sh | grep -qx 2"], "escalate");
    let env = Env::new(&text).agent(agent).isolation("guard+clean");
    env.approve();
    env.provost(&["run"]).exits(0);
    let server = Server::start(&env);
    let cookie = server.enter();
    let id = id_of(&server, &token(&env, "view"));
    let page = || server.browse(&format!("/plans/{id}/steps/1"), &cookie).is(200).body;
    assert!(!page().contains("id=\"proved\""), "nothing is known yet");
    let shown = env.provost(&["proved", "1"]).exits(0).out;
    assert!(shown.contains("✓ out/1.sh:1 ") && shown.contains("✗ out/1.sh:4-6"), "{shown}");
    let page = page();
    assert!(page.contains("1 of 2 hunks is proved (50 %)"), "{page}");
    assert!(page.contains(">✓</i><i></i><i>1</i><code>echo <span class=\"n\">2</span></code>"), "{page}");
    assert!(page.contains(">✗</i><i></i><i>4</i><code>unused() {</code>"), "{page}");
    assert!(page.contains("unproved: the contract holds all the same: taken out"), "{page}");
}
