//! Tests which answer is given when: order, rules, sessions, expectations.

use provost_rehearsal::{Model, ModelApi, Script, ScriptedCall, Turn};
use serde_json::{Value, json};

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, ask, question};

fn say(url: &str, prefix: &str, text: &str) -> String {
    let body = ask(url, &format!("{prefix}{CHAT}"), &question(CHAT, text, false)).json();
    body["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn turns_come_in_their_order_and_rules_come_before_them() {
    let model = Model::script([Turn::text("one"), Turn::text("two")])
        .once("b.txt is missing", Turn::text("sorry"))
        .when("hello", Turn::text("hi"))
        .serve()
        .unwrap();
    let asked = ["go", "hello", "b.txt is missing", "b.txt is missing", "hello"];
    let said: Vec<String> = asked.iter().map(|text| say(&model.url(), "", text)).collect();
    assert_eq!(said, ["one", "hi", "sorry", "two", "hi"]);
    model.expect_kept();
    model.expect_seen("b.txt is missing");
    let turns: Vec<Option<usize>> = model.requests().iter().map(|seen| seen.turn).collect();
    assert_eq!(turns, [Some(0), None, None, Some(1), None]);
    // The script has no more turns.
    say(&model.url(), "", "more");
    assert_eq!(model.failures(), ["request 5: the script has no turn left for it"]);
}

#[test]
fn only_what_is_new_counts() {
    let model = Model::script([Turn::text("not now")]).when("old news", Turn::text("again")).serve().unwrap();
    let history = json!({ "messages": [
        { "role": "user", "content": "old news" },
        { "role": "assistant", "content": "I see" },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "say \"new\"\nnow" }] },
    ] });
    ask(&model.url(), MESSAGES, &history);
    let seen = &model.requests()[0];
    assert!(seen.newest.contains("say \"new\"\nnow") && !seen.newest.contains("old news"), "{}", seen.newest);
    assert_eq!((seen.turn, seen.dialect), (Some(0), ModelApi::Anthropic));
    // In the Responses API a model's call is an item like any other.
    let model = Model::script([Turn::text("ok").expecting("exit code 1")]).serve().unwrap();
    let items = json!({ "input": [
        { "role": "user", "content": "old news" },
        { "type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": "exit code 1" },
    ] });
    ask(&model.url(), RESPONSES, &items);
    model.expect_kept();
    assert!(!model.requests()[0].newest.contains("old news"));
}

#[test]
fn an_expectation_that_is_not_met_is_told() {
    let model = Model::script([Turn::text("fine").expecting("the contract's words")]).serve().unwrap();
    say(&model.url(), "", "other words");
    let failures = model.failures();
    assert!(failures[0].contains("\"the contract's words\" was expected"), "{failures:?}");
}

#[test]
fn sessions_are_told_apart_by_path_header_and_key() {
    let model = Model::script([Turn::text("nobody's")])
        .session("ada", Script::of([Turn::text("ada 1"), Turn::text("ada 2"), Turn::text("ada 3")]))
        .session("bob", Script::of([Turn::text("bob 1")]))
        .serve()
        .unwrap();
    let by = |header: &str| {
        let mut client = Client::to(&model.url());
        client.send("POST", CHAT, header, &question(CHAT, "go", false).to_string());
        client.receive().json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(say(&model.url(), "/r/ada", "go"), "ada 1");
    assert_eq!(by("x-rehearsal: bob\r\n"), "bob 1");
    assert_eq!(by("authorization: Bearer ada\r\n"), "ada 2");
    assert_eq!(by("authorization: Bearer carol\r\n"), "nobody's");
    assert_eq!((model.turns_left("ada"), model.turns_left("bob"), model.turns_left("")), (1, 0, 0));
    say(&model.url(), "/r/carol", "go");
    assert_eq!(model.failures(), ["request 4 of carol: there is no such session"]);
}

#[test]
fn a_key_may_be_demanded() {
    let model = Model::script([Turn::text("in")]).key("sk-right").serve().unwrap();
    let by = |path: &str, header: &str| {
        let mut client = Client::to(&model.url());
        client.send("POST", path, header, &question(path, "go", false).to_string());
        client.receive()
    };
    let refused = by(MESSAGES, "x-api-key: sk-wrong\r\n");
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (401, &json!("authentication_error")));
    assert_eq!(by(CHAT, "").status, 401);
    assert_eq!(model.requests().len(), 0, "nothing of it reached the model");
    assert_eq!(by(CHAT, "authorization: Bearer sk-right\r\n").status, 200);
}

#[test]
fn what_is_wanted_is_called_as_the_client_calls_it() {
    let wanted = [
        ScriptedCall::write("a.txt", "it's A\n"),
        ScriptedCall::shell("ls"),
        ScriptedCall::mcp("plan_show", json!({})),
    ];
    let called = |path: &str, tools: Value| {
        let model = Model::script([Turn::calls(wanted.clone())]).serve().unwrap();
        let mut body = question(path, "go", false);
        body["tools"] = tools;
        let answer = ask(&model.url(), path, &body).json();
        (answer, model.failures())
    };
    let schema = |names: &[&str]| {
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        json!({ "type": "object", "properties": properties })
    };
    // The tool names of one client, in the Anthropic API.
    let (answer, failures) = called(
        MESSAGES,
        json!([
            { "name": "Write", "input_schema": schema(&["file_path", "content"]) },
            { "name": "Bash", "input_schema": schema(&["command", "description"]) },
            { "name": "mcp__provost__plan_show", "input_schema": schema(&[]) },
        ]),
    );
    assert_eq!(failures, [""; 0]);
    let blocks = answer["content"].as_array().unwrap();
    assert_eq!(blocks[0]["input"], json!({ "file_path": "a.txt", "content": "it's A\n" }));
    assert_eq!(blocks[1]["input"]["command"], "ls");
    assert_eq!(blocks[2]["name"], "mcp__provost__plan_show");
    // Another client: it takes a patch as text and groups its tools.
    let (answer, failures) = called(
        RESPONSES,
        json!([
            { "type": "custom", "name": "apply_patch" },
            { "type": "function", "name": "exec_command", "parameters": schema(&["cmd"]) },
            { "type": "namespace", "name": "mcp__provost", "tools": [{ "type": "function", "name": "plan_show" }] },
        ]),
    );
    assert_eq!(failures, [""; 0]);
    let items = answer["output"].as_array().unwrap();
    assert_eq!(items[0]["type"], "custom_tool_call");
    assert!(items[0]["input"].as_str().unwrap().contains("*** Add File: a.txt\n+it's A\n"));
    assert_eq!(items[1]["arguments"], r#"{"cmd":"ls"}"#);
    assert_eq!((&items[2]["namespace"], &items[2]["name"]), (&json!("mcp__provost"), &json!("plan_show")));
    // A third client, which has only a shell.
    let (answer, failures) = called(
        CHAT,
        json!([{ "type": "function", "function": { "name": "bash", "parameters": schema(&["command"]) } }]),
    );
    let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    let arguments = calls[0]["function"]["arguments"].as_str().unwrap();
    let command = serde_json::from_str::<Value>(arguments).unwrap()["command"].as_str().unwrap().to_owned();
    assert_eq!(
        command,
        r"printf %s 'it'\''s A
' > 'a.txt'"
    );
    assert_eq!(failures, ["request 0: no tool is the MCP tool plan_show; offered: bash"]);
}

#[test]
fn side_requests_do_not_take_a_turn() {
    let model = Model::script([Turn::text("main")]).side(Turn::text("a title")).serve().unwrap();
    let ask_with = |text: &str, tools: Value| {
        let mut body = question(CHAT, text, false);
        body["tools"] = tools;
        ask(&model.url(), CHAT, &body).json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let tools = json!([{ "type": "function", "function": { "name": "bash" } }]);
    assert_eq!(ask_with("name this conversation", json!([])), "a title");
    assert_eq!(ask_with("[SUGGESTION MODE: what comes next?]", tools.clone()), "a title");
    assert_eq!(ask_with("go", tools), "main");
    model.expect_kept();
}

#[test]
fn a_script_file_says_the_same_and_a_slip_in_it_is_told() {
    let model = Model::read(
        r#"
        key = "ada"
        [[turn]]
        text = "I look."
        do = [{ tool = "shell", input = { command = "ls" } }, { tool = "shell", raw = "{" }]
        usage = { input = 900, output = 40, cache_read = 700 }
        [[turn]]
        fault = { status = { status = 429, headers = { retry-after = "2" } } }
        [[turn]]
        fault = "cut"
        [[when]]
        contains = "is missing"
        times = 1
        say = { text = "I was wrong." }
        [session.other]
        after = { text = "always" }
        "#,
    );
    let model = model.unwrap().serve().unwrap();
    assert_eq!(say(&model.url(), "/r/other", "go"), "always");
    assert_eq!(model.turns_left(""), 3);
    let error = Model::read("[[turn]]\ntxt = \"x\"").unwrap_err().to_string();
    assert!(error.contains("unknown field `txt`"), "{error}");
    let error = Model::read("[[turn]]\ndo = [{ tool = \"x\", inputs = {} }]").unwrap_err().to_string();
    assert!(error.contains("a call is"), "{error}");
}

#[test]
fn many_ask_at_once_and_large_bodies_are_read() {
    let model = Model::script([]).after(Turn::text("yes")).serve().unwrap();
    let url = model.url();
    let large = "x".repeat(3 << 20);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(say(&url, "", &large), "yes"));
        }
    });
    assert_eq!(model.requests().len(), 8);
}
