//! Tests a client with provost's tools: what its agent sees through them, and that they decide nothing.

use serde_json::{Value, json};

use crate::env::{Env, plan};

/// Plays Claude Code: starts the configured server and calls what `calls` lists.
const CLAUDE: &str = r#"#!/bin/bash
cat > /dev/null
while [ $# -gt 0 ]; do [ "$1" = --mcp-config ] && config=$2; shift; done
program=$(sed 's/.*"command":"\([^"]*\)".*/\1/' "$config")
folder=$(sed 's/.*"item-mcp","\([^"]*\)".*/\1/' "$config")
mkdir -p out
coproc SERVER { exec "$program" item-mcp "$folder"; }
say() { printf '%s\n' "$1" >&"${SERVER[1]}"; }
hear() { read -r -u "${SERVER[0]}" answer; printf '%s\n' "$answer" >> out/answers; }
say '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"played","version":"1"}}}'; hear
say '{"jsonrpc":"2.0","method":"notifications/initialized"}'
say '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'; hear
while read -r call; do say "$call"; hear; done < calls
[ -e lazy ] || echo done > out/1
echo '{"type":"result","subtype":"success","is_error":false,"result":"Over.","session_id":"s1","usage":{"input_tokens":1,"output_tokens":1}}'
"#;

fn executable(env: &Env, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    env.write(name, text);
    let path = env.work().join(name);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path.display().to_string()
}

fn env(level: &str, calls: &[(&str, Value)]) -> Env {
    let text = plan(&["grep -q done out/1"], "abort").replacen(
        "**task:**",
        "**subscriptions:**\n- topic:notes\n\n**publishes:** findings\n\n**task:**",
        1,
    );
    let env = Env::new(&text);
    let program = executable(&env, "claude.sh", CLAUDE);
    env.write("topics/notes.md", "tabs are dropped\n");
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
        let params = json!({ "name": name, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": index + 10, "method": "tools/call", "params": params }).to_string()
    };
    let calls: Vec<String> = calls.iter().enumerate().map(call).collect();
    env.write("calls", calls.join("\n") + "\n");
    env.write(
        "provost.toml",
        format!("[agents.coder]\ndriver = \"claude\"\nprogram = \"{program}\"\ntools = true\n"),
    );
    env.isolation(level)
}

fn of(env: &Env, event: &str) -> Vec<Value> {
    let log = env.provost(&["log", "--json", "--event", event]).exits(0).lines();
    log.into_iter().map(|each| each["details"].clone()).collect()
}

fn sees_and_says(level: &str) {
    let env = env(
        level,
        &[
            ("plan_show", json!({})),
            ("plan_next", json!({})),
            ("topic_read", json!({ "topic": "notes" })),
            ("topic_read", json!({ "topic": "secrets" })),
            ("topic_publish", json!({ "topic": "findings", "text": "it was the lexer" })),
            ("topic_publish", json!({ "topic": "notes", "text": "mine" })),
            ("step_update", json!({ "step": 2, "status": "done", "evidence": "not mine" })),
            ("step_update", json!({ "step": 1, "status": "done" })),
            ("step_update", json!({ "step": 1, "status": "done", "evidence": "out/1 says done" })),
            ("plan_create", json!({ "objective": "another" })),
        ],
    );
    env.approve().provost(&["run"]).exits(0);
    let answers: Vec<Value> =
        env.read("out/answers").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(answers[0]["result"]["instructions"].to_string().contains("decides nothing"), "{}", answers[0]);
    let tools = answers[1]["result"]["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["plan_show", "plan_next", "step_update", "topic_read", "topic_publish"]);
    let told: Vec<(bool, String)> = answers[2..]
        .iter()
        .map(|answer| {
            let result = &answer["result"];
            (result["isError"] == true, result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    for (index, refuses, words) in [
        (0, false, "### 1. ⏳ Step 1"),
        (1, false, "Do part 1 of the work."),
        (2, false, "tabs are dropped"),
        (3, true, "it reads notes"),
        (4, false, "after this step has passed"),
        (5, true, "only to findings"),
        (6, true, "you were given step 1"),
        (7, true, "evidence is required"),
        (8, false, "decides nothing"),
        (9, true, "there is no tool `plan_create`"),
    ] {
        assert_eq!(told[index].0, refuses, "{index}: {}", told[index].1);
        assert!(told[index].1.contains(words), "{index}: {}", told[index].1);
    }
    assert_eq!(of(&env, "STEP_CLAIMED")[0]["evidence"], "out/1 says done\n\nOver.");
    let published = &of(&env, "ATTEMPT_ENDED")[0]["published"];
    assert_eq!(published[0]["text"], "it was the lexer", "{published}");
}

#[test]
fn the_agent_sees_its_plan_and_what_it_says_is_a_claim() {
    sees_and_says("in-place");
}

/// In the sandbox the log is not reachable, and the tools work anyway.
#[test]
fn the_same_behind_the_fence() {
    if Env::new("").has_fences() {
        sees_and_says("clean");
    }
}

#[test]
fn a_claim_by_a_tool_passes_nothing() {
    let claim = ("step_update", json!({ "step": 1, "status": "done", "evidence": "it is all there" }));
    let env = env("in-place", &[claim]);
    env.write("lazy", "");
    env.approve().provost(&["run"]).exits(1);
    assert_eq!(env.states(), "1 failed");
    assert!(of(&env, "STEP_CLAIMED")[0]["evidence"].as_str().unwrap().contains("it is all there"));
}

#[test]
fn an_agent_that_is_blocked_asks_a_person() {
    let block = ("step_update", json!({ "step": 1, "status": "blocked", "reason": "which license?" }));
    let env = env("in-place", &[block]);
    env.write("lazy", "");
    env.approve().provost(&["run"]).exits(4);
    let escalated = of(&env, "RECOVERY_ESCALATION");
    assert!(escalated[0]["reason"].as_str().unwrap().contains("which license?"), "{escalated:?}");
}

/// Tests every way in which a client is configured with a server.
#[test]
fn each_client_is_told_of_the_server_in_its_own_words() {
    let played = "#!/bin/bash\ncat > /dev/null\nmkdir -p out; echo done > out/1\n\
                  cat \"$CODEX_HOME/config.toml\" \"$GEMINI_CLI_HOME/.gemini/settings.json\" \
                  \"$XDG_CONFIG_HOME/opencode/opencode.json\" > out/told 2>/dev/null\necho ok\n";
    for (client, words) in [
        ("codex", "[mcp_servers.provost]\ncommand = \""),
        ("gemini", "\"mcpServers\":{\"provost\":{\"command\":\""),
        ("opencode", "\"mcp\":{\"provost\":{\"type\":\"local\",\"command\":[\""),
    ] {
        let env = Env::new(&plan(&["grep -q done out/1"], "abort"));
        let program = executable(&env, "client.sh", played);
        env.write(
            "provost.toml",
            format!("[agents.coder]\ndriver = \"{client}\"\nprogram = \"{program}\"\ntools = true\n"),
        );
        let env = env.isolation("in-place");
        env.approve().provost(&["run"]);
        let told = env.read("out/told");
        assert!(told.contains(words) && told.contains("item-mcp"), "{client}: {told}");
    }
    let peer = "read -r line; printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1}}'\n\
                read -r line; mkdir -p out; printf %s \"$line\" > out/told\n";
    let env = Env::new(&plan(&["grep -q done out/1"], "abort"));
    env.write("peer.sh", peer);
    env.write(
        "provost.toml",
        "[agents.coder]\ndriver = \"acp\"\ncommand = [\"bash\", \"peer.sh\"]\ntools = true\n",
    );
    let env = env.isolation("in-place");
    env.approve().provost(&["run"]);
    let told: Value = serde_json::from_str(&env.read("out/told")).expect("a request");
    assert_eq!(told["params"]["mcpServers"][0]["args"][0], "item-mcp", "{told}");
}

#[test]
fn a_driver_without_a_client_has_no_tools() {
    let env = Env::new(&plan(&["test -f out/1"], "abort"));
    env.write("provost.toml", "[agents.coder]\ndriver = \"command\"\ncommand = [\"true\"]\ntools = true\n");
    let refused = env.provost(&["verify"]).exits(2);
    assert!(refused.err.contains("driver `command` has no `tools`"), "{}", refused.err);
}
