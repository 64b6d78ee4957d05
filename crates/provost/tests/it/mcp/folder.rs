//! Tests what a session sees of other plans of its folder: it reads them, and changes only its own.

use serde_json::{Value, json};

use super::client::Client;
use super::{IN_PLACE, claim, two_steps, workspace};

fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri }))["result"]["contents"][0]["text"].clone()
}

#[test]
fn a_session_lists_and_reads_the_plans_of_its_folder_and_changes_only_its_own() {
    let env = workspace(IN_PLACE);
    let mut one = Client::start(&env, &["--session", "one"]);
    one.call("plan_list", json!({})).says("There is no plan in this folder");
    one.call("plan_create", two_steps());
    let mut two = Client::start(&env, &["--session", "two"]);
    let blocked = json!({ "step": 1, "status": "blocked", "reason": "which alphabet?" });
    one.call("step_update", blocked);
    let listed = two.call("plan_list", json!({})).says("- write-two-files: Write two files · ");
    assert!(listed.text().contains("1 item waits for a person"), "{}", listed.text());
    assert_eq!(listed.data()["plans"][0]["own"], false);
    assert_eq!(listed.data()["plans"][0]["state"], "waiting-for-you");
    let named = |text: Value| text.as_str().unwrap_or_default().to_owned();
    let text = named(read(&mut two, "provost://plans/write-two-files"));
    assert!(
        text.contains("Plan write-two-files:") && text.contains("To carry it out, call plan_take"),
        "{text}"
    );
    let shown =
        two.call("plan_show", json!({ "plan": "write-two-files" })).says("not the plan of this session");
    assert!(shown.data()["next"].is_null(), "{}", shown.0);
    // Reading binds nothing.
    two.call("plan_next", json!({})).refuses("there is no plan in this session");
    two.call("step_update", claim(1)).refuses("there is no plan in this session");
    assert!(
        named(read(&mut two, "provost://inbox"))
            .contains("write-two-files, step 1: the agent is blocked: which alphabet?")
    );
    let own = one.call("plan_list", json!({}));
    assert_eq!(own.data()["plans"][0]["own"], true, "{}", own.0);
    for uri in ["provost://plans/absent", "provost://plans/..%2F..%2Fetc%2Fpasswd", "provost://plans/"] {
        let answer = two.request("resources/read", json!({ "uri": uri }));
        assert!(answer["error"].is_object(), "{uri}: {answer}");
    }
    let templates = two.request("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "provost://plans/{name}");
}

#[test]
fn a_prompt_says_what_is_open_in_the_folder() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &["--session", "one"]);
    let open = |client: &mut Client| {
        let prompt = client.request("prompts/get", json!({ "name": "what_is_open" }));
        prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap_or_default().to_owned()
    };
    let text = open(&mut client);
    assert!(
        text.ends_with("Plans that are not done:\n- none\n\nWhat waits for a person:\n- nothing\n"),
        "{text}"
    );
    client.call("plan_create", two_steps());
    client.call("step_update", json!({ "step": 1, "status": "blocked", "reason": "which alphabet?" }));
    let text = open(&mut client);
    for words in [
        "- write-two-files: Write two files · waiting for you, 0 of 2",
        "step 1: the agent is blocked: which alphabet? (since ",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
}

#[test]
fn a_subscriber_is_told_when_the_plan_or_the_inbox_has_changed() {
    let env = workspace(IN_PLACE);
    let mut watching = Client::start(&env, &["--session", "watching"]);
    let (plan, inbox) = ("provost://plans/write-two-files", "provost://inbox");
    let ask = |watching: &mut Client, what: &str, uri: &str| {
        let answer = watching.request(&format!("resources/{what}"), json!({ "uri": uri }));
        assert!(answer["result"].is_object(), "{answer}");
    };
    let refused = watching.request("resources/subscribe", json!({ "uri": "provost://other" }));
    assert!(refused["error"].is_object(), "{refused}");
    // The log does not exist yet.
    ask(&mut watching, "subscribe", plan);
    let mut client = Client::start(&env, &["--session", "working"]);
    client.call("plan_create", two_steps());
    watching.wait_for_update(plan);
    ask(&mut watching, "unsubscribe", plan);
    // Only now: the inbox has the plan itself for a moment, before the rule approves it.
    ask(&mut watching, "subscribe", inbox);
    client.call("step_update", json!({ "step": 1, "status": "blocked", "reason": "which alphabet?" }));
    watching.wait_for_update(inbox);
    assert!(read(&mut watching, inbox).to_string().contains("which alphabet?"));
}

#[test]
fn the_subscriptions_of_the_newer_protocol_work_too() {
    let env = workspace(IN_PLACE);
    let mut watching = Client::silent(&env, &["--session", "watching"]);
    let uri = "provost://plans/write-two-files";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params =
        json!({ "notifications": { "resourceSubscriptions": [uri, "provost://other"] }, "_meta": meta });
    let listen = json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params });
    watching.say(listen.to_string().as_bytes());
    let acknowledged = watching.any();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    assert_eq!(
        acknowledged["params"]["notifications"]["resourceSubscriptions"],
        json!([uri]),
        "{acknowledged}"
    );
    Client::start(&env, &["--session", "working"]).call("plan_create", two_steps());
    watching.wait_for_update(uri);
}
