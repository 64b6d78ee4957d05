//! Tests the answers of tools as data, and that they keep to the schemas of the list.

use serde_json::{Map, Value, json};

use super::client::{Client, Reply};
use super::{IN_PLACE, claim, two_steps, workspace};
use crate::env::Env;

/// Checks a value against a schema as flat as ours: every key is known, of its type, and required ones are there.
fn check(value: &Value, schema: &Value, path: &str) {
    match schema["type"].as_str().unwrap_or_default() {
        "object" => {
            let object = value.as_object().unwrap_or_else(|| panic!("{path} is no object: {value}"));
            for (key, value) in object {
                let kind = &schema["properties"][key];
                assert!(kind.is_object(), "{path}: `{key}` is not in the schema");
                check(value, kind, &format!("{path}/{key}"));
            }
            for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(object.contains_key(key), "{path}: `{key}` is missing in {value}");
            }
        }
        "array" => {
            let list = value.as_array().unwrap_or_else(|| panic!("{path} is no list: {value}"));
            list.iter().for_each(|value| check(value, &schema["items"], path));
        }
        "string" => assert!(value.is_string(), "{path}: {value}"),
        "integer" => assert!(value.is_u64(), "{path}: {value}"),
        "boolean" => assert!(value.is_boolean(), "{path}: {value}"),
        other => panic!("{path}: type {other}"),
    }
}

fn schemas(client: &mut Client) -> Map<String, Value> {
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let schema = |tool: &Value| Some((tool["name"].as_str()?.to_owned(), tool["outputSchema"].clone()));
    listed.as_array().into_iter().flatten().filter_map(schema).collect()
}

#[test]
fn every_answer_has_data_that_keeps_to_its_schema() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &["--session", "one"]);
    let schemas = schemas(&mut client);
    let mut call = |tool: &str, arguments: Value| {
        let reply = client.call(tool, arguments);
        check(reply.data(), &schemas[tool], tool);
        reply
    };
    let mut plan = two_steps();
    plan["steps"][0]["publishes"] = json!(["notes"]);
    let made = call("plan_create", plan);
    assert_eq!(made.data()["plan"], "write-two-files");
    assert_eq!(made.data()["message"], made.text());
    assert_eq!((&made.data()["stage"], &made.data()["total"]), (&json!("approved"), &json!(2)));
    call("plan_list", json!({}));
    call("step_update", json!({ "step": 1, "status": "in_progress" }));
    call("topic_publish", json!({ "topic": "notes", "text": "x" }));
    // A claim that does not hold is refused, with the same data.
    let broke = call("step_update", claim(1)).refuses("NOT done");
    assert_eq!(broke.data()["message"], broke.text());
    assert_eq!(
        (&broke.data()["step"]["number"], &broke.data()["step"]["state"]),
        (&json!(1), &json!("pending"))
    );
    assert!(broke.data()["step"]["last_check"].as_str().is_some_and(|words| words.contains("exit code")));
    env.write("out/a", "alpha\n");
    let held = call("step_update", claim(1)).says("has passed");
    assert_eq!((&held.data()["step"]["state"], &held.data()["done"]), (&json!("passed"), &json!(1)));
    assert_eq!(call("topic_read", json!({})).data()["topics"], json!(["notes"]));
    assert_eq!(call("topic_read", json!({ "topic": "notes" })).data()["topic"], "notes");
    let shown = call("plan_show", json!({}));
    assert_eq!(shown.data()["steps"][1]["check"], "grep -q beta out/b");
    assert_eq!(shown.data()["postconditions"][0]["state"], "open");
    assert!(shown.data()["next"].as_str().is_some_and(|next| next.contains("step 2")));
    env.write("out/b", "beta\nmore\n");
    call("step_update", claim(2));
    let whole = call("postcondition_verify", json!({})).refuses("does NOT hold");
    assert_eq!(whole.data()["postconditions"][0]["state"], "broke");
    env.write("out/b", "beta\n");
    assert_eq!(call("postcondition_verify", json!({})).data()["finished"], true);
    let next = call("plan_next", json!({})).says("You may finish");
    assert_eq!((&next.data()["finished"], &next.data()["stage"]), (&json!(true), &json!("done")));
}

#[test]
fn neither_data_nor_resources_show_a_hidden_contract_or_its_output() {
    let secret = "test -s out/1 || { echo leaked-output; exit 1; } # leaked-contract";
    let text = crate::env::plan(&[secret], "retry(3), then escalate");
    let env =
        Env::new(&text.replace("**contract:**", "**hidden:** yes\n**contract:**")).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    env.approve();
    let mut client = Client::under_a_shell(&env, &["--plan", "PLAN.md"]);
    let answers = |client: &mut Client| {
        let mut said = vec![
            client.call("step_update", claim(1)).0,
            client.call("plan_show", json!({})).0,
            client.call("plan_show", json!({ "plan": "PLAN.md" })).0,
            client.call("plan_next", json!({})).0,
            client.call("plan_list", json!({})).0,
            client.request("prompts/get", json!({ "name": "what_is_open" })),
        ];
        for uri in ["plan", "plan.md", "log", "inbox", "plans/PLAN.md"] {
            said.push(client.request("resources/read", json!({ "uri": format!("provost://{uri}") })));
        }
        said
    };
    for said in answers(&mut client) {
        assert!(!said.to_string().contains("leaked"), "{said}");
    }
    let shown = Reply(client.call("plan_show", json!({})).0);
    assert_eq!(shown.data()["steps"][0]["hidden"], true, "{}", shown.0);
    let log = client.request("resources/read", json!({ "uri": "provost://log" }));
    assert!(log["error"]["message"].as_str().is_some_and(|why| why.contains("hidden from agents")), "{log}");
}
