//! Tests conversations: after a failed check the agent continues its conversation, and API errors are
//! classified. Scripts play the clients.

use serde_json::Value;

use crate::env::{Env, plan};

/// Plays Claude Code: records how it was called, and finishes the work when the prompt says what is
/// missing.
const CLAUDE: &str = r#"#!/bin/bash
prompt=$(cat)
session=$RANDOM$RANDOM
while [ $# -gt 0 ]; do [ "$1" = --resume ] && session=$2 && resumed=yes; shift; done
echo "${resumed:-fresh} $session $(printf %s "$prompt" | head -c 30 | tr '\n' ' ')" >> "$CLAUDE_CONFIG_DIR/../../../../calls"
echo kept >> "$CLAUDE_CONFIG_DIR/transcript"
mkdir -p out
case $prompt in *"the check failed"*) [ -n "$STUBBORN" ] || echo B > out/1 ;; esac
cost=$(wc -l < "$CLAUDE_CONFIG_DIR/transcript")
echo '{"type":"system","subtype":"init","session_id":"s'$session'"}' | sed 's/"ss/"s/'
echo '{"type":"result","subtype":"success","is_error":false,"result":"Everything is done!","session_id":"s'$session'","total_cost_usd":0.0'$cost',"usage":{"input_tokens":100,"output_tokens":10},"modelUsage":{"m":{"inputTokens":'$((100*cost))',"outputTokens":'$((10*cost))'}}}' | sed 's/"ss/"s/'
"#;

const CHECK: &str = "test -f out/1 || { echo out/1 is missing >&2; exit 1; }";

fn with_role(env: Env, role: &str) -> Env {
    env.write("provost.toml", format!("[agents.coder]\n{role}\n"));
    env.isolation("in-place")
}

fn claude(check: &str, on_fail: &str) -> Env {
    let env = Env::new(&plan(&[check], on_fail));
    env.write("claude.sh", CLAUDE);
    let program = env.work().join("claude.sh");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    with_role(env, &format!("driver = \"claude\"\nprogram = \"{}\"", program.display()))
}

fn of(env: &Env, event: &str) -> Vec<Value> {
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    log.into_iter().filter(|each| each["event"] == event).map(|each| each["details"].clone()).collect()
}

fn calls(env: &Env) -> Vec<String> {
    let text = std::fs::read_to_string(env.folder().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn what_the_judge_saw_is_the_next_word_in_the_same_conversation() {
    let env = claude(CHECK, "retry(2), then escalate");
    env.approve().provost(&["run"]).exits(0);
    let calls = calls(&env);
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[0].starts_with("fresh ") && calls[0].contains("Do part 1"), "{calls:?}");
    assert!(calls[1].starts_with("resume") || calls[1].starts_with("yes "), "{calls:?}");
    assert!(calls[1].contains("You ended your turn"), "{calls:?}");
    let ended = of(&env, "ATTEMPT_ENDED");
    assert_eq!(ended[0]["session"], ended[1]["session"]);
    // The client reports 0.01 and then 0.02 as the sum of both.
    assert_eq!(
        (&ended[0]["usage"]["micro_usd"], &ended[1]["usage"]["micro_usd"]),
        (&10_000.into(), &10_000.into())
    );
    // When the plan is over, the clients' folders are removed.
    let left = std::fs::read_dir(env.state().join("clients")).map(Iterator::count).unwrap_or(0);
    assert_eq!(left, 0);
}

#[test]
fn the_projects_instructions_are_shown_at_the_gate_and_reach_the_agent() {
    let env = claude("grep -q 'Use tabs' out/prompt", "escalate");
    env.write(
        "claude.sh",
        CLAUDE.replace("mkdir -p out", "mkdir -p out; printf %s \"$prompt\" > out/prompt"),
    );
    env.write("CLAUDE.md", "Use tabs.\n");
    let shown = env.approve().provost(&["show"]).exits(0).out;
    assert!(shown.contains("coder: reads the instructions in CLAUDE.md (sha256 "), "{shown}");
    // A change is neither hidden nor a reason to ask again: a step may make it.
    env.write("CLAUDE.md", "Use tabs, always.\n");
    env.provost(&["run"]).exits(0);
    let prompt = env.read("out/prompt");
    assert!(prompt.contains("From `CLAUDE.md`.") && prompt.contains("Use tabs, always."), "{prompt}");
    let notes = of(&env, "ATTEMPT_ENDED")[0]["notes"].to_string();
    assert!(notes.contains("CLAUDE.md is not as it was at the approval"), "{notes}");
}

#[test]
fn a_conversation_that_leads_nowhere_twice_is_begun_anew_and_then_a_person_is_asked() {
    let env = claude("echo out/2 is missing >&2; exit 1", "retry(5), then escalate");
    env.approve().provost(&["run"]).exits(4);
    let calls: Vec<String> =
        calls(&env).iter().map(|call| call.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(calls, ["fresh", "yes", "fresh"]);
    let applied: Vec<Value> = of(&env, "RECOVERY_APPLIED");
    assert_eq!(applied[1]["recipe_name"], "fresh-context");
    assert_eq!(applied[1]["fresh"], true);
    let ended = of(&env, "ATTEMPT_ENDED");
    assert_eq!(ended[0]["session"], ended[1]["session"]);
    assert_ne!(ended[1]["session"], ended[2]["session"]);
}

#[test]
fn a_harness_that_starts_anew_goes_on_with_the_conversation() {
    let env = claude(&format!("test ! -e hold; {CHECK}"), "retry(3), then escalate");
    // The first check waits until this file is removed; provost is killed while it waits.
    let slow =
        "while [ -e hold ]; do sleep 0.05; done; test -f out/1 || { echo out/1 is missing >&2; exit 1; }";
    env.write("PLAN.md", plan(&[slow], "retry(3), then escalate"));
    env.write("hold", "");
    env.approve();
    let mut run = env.start(&["run"]);
    let begun = std::time::Instant::now();
    while of(&env, "ATTEMPT_ENDED").is_empty() {
        assert!(begun.elapsed().as_secs() < 300, "no attempt ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    run.kill().expect("killed");
    run.wait().expect("over");
    std::fs::remove_file(env.work().join("hold")).expect("there");
    env.provost(&["run"]).exits(0);
    let calls = calls(&env);
    assert!(calls.len() == 2 && calls[1].starts_with("yes "), "{calls:?}");
}

#[test]
fn an_api_that_turns_the_client_away_stops_the_step_with_what_to_configure() {
    let env = Env::new(&plan(&[CHECK], "retry(2), then escalate"));
    env.write(
        "codex.sh",
        "#!/bin/bash\necho '{\"type\":\"thread.started\",\"thread_id\":\"t\"}'\necho '{\"type\":\"turn.failed\",\"error\":{\"message\":\"unexpected status 401 Unauthorized\"}}'\nexit 1\n",
    );
    use std::os::unix::fs::PermissionsExt as _;
    let program = env.work().join("codex.sh");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let env = with_role(env, &format!("driver = \"codex\"\nprogram = \"{}\"", program.display()));
    env.approve().provost(&["run"]).exits(4);
    assert_eq!(of(&env, "FAILURE_CLASSIFIED")[0]["failure_type"], "permission");
    assert_eq!(of(&env, "ATTEMPT_ENDED").len(), 1);
    let required = of(&env, "PERMISSION_REQUIRED");
    assert_eq!(required.len(), 1);
    assert_eq!(required[0]["configure"][0], "a login or an API key for the program behind role `coder`");
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("the model's API refused the key or the login"), "{inbox}");
}

/// A role whose program is this script; the plan has one step with a silent check.
fn failing(script: &str) -> Env {
    let env = Env::new(&plan(&["test -f out/1"], "retry(2), then abort"));
    env.write("failing.sh", script);
    use std::os::unix::fs::PermissionsExt as _;
    let program = env.work().join("failing.sh");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    with_role(env, &format!("driver = \"command\"\ncommand = [\"{}\"]", program.display()))
}

#[test]
fn the_last_words_of_an_agent_are_in_the_inbox() {
    let env = failing(
        "#!/bin/bash\necho I look at the code\necho 'Model not found: anthropic/foo.' >&2\necho warning: noise >&2\nexit 1\n",
    );
    env.approve().provost(&["run"]).exits(4);
    assert_eq!(of(&env, "ATTEMPT_ENDED").len(), 1, "no attempt is used up");
    let item = &env.provost(&["inbox", "--json"]).exits(0).json()[0];
    let reason = item["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("correct `model` in provost.toml (it said: Model not found: anthropic/foo.)"),
        "{item}"
    );
    assert_eq!(item["context"]["tried"][0]["said"], "Model not found: anthropic/foo.");
    let whole = env.provost(&["inbox", item["id"].as_str().unwrap_or_default()]).exits(0).out;
    assert!(whole.contains("last words of the agent:\n  I look at the code\n"), "{whole}");
}

#[test]
fn an_agent_that_fails_twice_in_the_same_words_is_not_started_a_third_time() {
    let env = failing("#!/bin/bash\necho 'the frobnicator has no config' >&2\nexit 3\n");
    env.approve().provost(&["run"]).exits(4);
    assert_eq!(of(&env, "ATTEMPT_ENDED").len(), 2);
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("the agent fails each time in the same way"), "{inbox}");
    assert!(inbox.contains("(it said: the frobnicator has no config)"), "{inbox}");
}

#[test]
fn a_program_without_its_interpreter_uses_up_no_attempt() {
    let env = failing("#!/usr/bin/env no-such-interpreter\nexit 0\n");
    env.approve().provost(&["run"]).exits(4);
    assert_eq!(of(&env, "ATTEMPT_ENDED").len(), 1);
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("needs something that is not installed"), "{inbox}");
    assert!(inbox.contains("no-such-interpreter"), "{inbox}");
}

/// An ACP agent in bash: it resumes its session, and does the work when the prompt says what is missing.
const PEER: &str = r#"
say() { printf '%s\n' "$1"; }
read -r line; say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'
read -r line; case $line in *session/load*) echo load >> ../calls; loaded=yes ;; *) echo new >> ../calls ;; esac
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"one"}}'
read -r line
says() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"one","update":{"sessionUpdate":"'$1'","content":{"type":"text","text":"'"$2"'"}}}}'; }
# Repeats its old messages late, after the prompt.
[ -z "$loaded" ] || { says user_message_chunk 'the first prompt'; says agent_message_chunk 'Done.'; }
say '{"jsonrpc":"2.0","id":50,"method":"session/request_permission","params":{"sessionId":"one","toolCall":{"title":"Write out/1"},"options":[{"optionId":"n","kind":"reject_once"},{"optionId":"y","kind":"allow_once"}]}}'
read -r answer
mkdir -p out
case "$line$answer" in *"the check failed"*'"y"'*) echo B > out/1 ;; esac
says agent_message_chunk "${loaded:+Mended.}"; [ -n "$loaded" ] || says agent_message_chunk 'Done.'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2}}}'
"#;

#[test]
fn an_agent_over_acp_loads_its_session_and_is_allowed_what_its_role_allows() {
    for (permissions, code) in [("allow", 0), ("ask", 4)] {
        let env = Env::new(&plan(&[CHECK], "retry(2), then escalate"));
        env.write("peer.sh", PEER);
        let role =
            format!("driver = \"acp\"\ncommand = [\"bash\", \"peer.sh\"]\npermissions = \"{permissions}\"");
        let env = with_role(env, &role);
        env.approve().provost(&["run"]).exits(code);
        match permissions {
            "allow" => {
                assert_eq!(calls(&env), ["new", "load"]);
                let claims: Vec<Value> =
                    of(&env, "STEP_CLAIMED").iter().map(|claim| claim["evidence"].clone()).collect();
                assert_eq!(claims, ["Done.", "Mended."], "a repeated message is no claim");
            }
            _ => {
                let asked = of(&env, "PERMISSION_REQUIRED");
                assert!(
                    asked[0]["configure"][0].as_str().unwrap_or_default().contains("permissions"),
                    "{asked:?}"
                );
                let inbox = env.provost(&["inbox"]).exits(0).out;
                assert!(
                    inbox.contains("the agent asks for permission: Write out/1; `retry` allows"),
                    "{inbox}"
                );
                // One answer lets the agent go on in its conversation; it is not asked about that again.
                env.provost(&["answer", "1", "retry"]).exits(0);
                env.provost(&["run"]).exits(0);
                assert_eq!(calls(&env), ["new", "load", "load"]);
            }
        }
    }
}

#[test]
fn behind_the_fence_a_client_has_its_folder_and_not_the_rest_of_the_state() {
    let env = claude(CHECK, "retry(2), then escalate");
    if !env.has_fences() {
        return;
    }
    let looks = CLAUDE.replace(
        "../../../../calls",
        "calls",
    ).replace("mkdir -p out", "mkdir -p out; ls \"$CLAUDE_CONFIG_DIR/../../..\" > out/seen 2>&1; cp \"$CLAUDE_CONFIG_DIR/calls\" out/calls");
    env.write("claude.sh", looks);
    env.write("provost.toml", env.read("provost.toml").replace("in-place", "clean"));
    env.approve().provost(&["run"]).exits(0);
    let calls = env.read("out/calls");
    assert_eq!(calls.lines().filter(|call| call.starts_with("yes ")).count(), 1, "{calls}");
    assert_eq!(env.read("out/seen").trim(), "clients");
}

#[test]
fn what_a_step_that_passed_published_reaches_the_steps_after_it() {
    let text = plan(&["test -f out/1", "grep -q tabs out/2"], "retry(1), then escalate")
        .replacen("**task:**", "**publishes:** findings\n\n**task:**", 1)
        .replace(
            "### 2. Step 2\n\n**target:** coder\n",
            "### 2. Step 2\n\n**target:** coder\n**subscriptions:**\n- topic:findings\n",
        );
    // The first attempt publishes but does not do the work, so its publication is dropped.
    let script = r#"prompt=$(cat); mkdir -p out
case $prompt in
*"Do part 1"*)
    if [ -e tried ]; then echo "the parser drops tabs" > "$PROVOST_TOPICS/findings.md"; touch out/1
    else echo "WRONG" > "$PROVOST_TOPICS/findings.md"; touch tried; fi ;;
*) [ -z "$PROVOST_TOPICS" ] && printf %s "$prompt" > out/2 ;;
esac
echo finished"#;
    let env = Env::new(&text).agent(script).isolation("in-place");
    let verified = env.provost(&["verify", "--json"]).exits(0).json();
    let codes = verified["diagnostics"].to_string();
    assert!(!codes.contains("P062"), "{codes}");
    env.approve().provost(&["run"]).exits(0);
    let prompt = env.read("out/2");
    assert!(prompt.contains("From step 1:") && !prompt.contains("WRONG"), "{prompt}");
    let published = &of(&env, "ATTEMPT_ENDED")[1]["published"];
    assert_eq!(published.to_string(), r#"[{"text":"the parser drops tabs","topic":"findings"}]"#);
}
