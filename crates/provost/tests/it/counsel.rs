//! Tests clients as planner and as judge: they have their own folder and a read-only workspace, and their
//! usage is counted. Scripts play the clients.

use crate::env::Env;

const CLIENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// Plays a client: tries what must not be possible, then prints `$answer` in the client's format.
const PLAYED: &str = r#"#!/bin/bash
prompt=$(cat)
home=${CLAUDE_CONFIG_DIR:-${CODEX_HOME:-${GEMINI_CLI_HOME:-$XDG_CONFIG_HOME}}}
[ -d "$home" ] && touch "$home/kept" || { echo no folder >&2; exit 9; }
read -r -t 1 more && { echo stdin is open >&2; exit 9; }
touch written-by-counsel 2>/dev/null
answer=$(ANSWER)
text=$(printf '%s' "$answer" | sed 's/\\/\\\\/g; s/"/\\"/g' | sed ':a;N;$!ba;s/\n/\\n/g')
case CLIENT in
claude) echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$text"'","session_id":"s","total_cost_usd":0.01,"usage":{"input_tokens":1000,"output_tokens":50}}' ;;
codex) echo '{"type":"item.completed","item":{"type":"agent_message","text":"'"$text"'"}}'
       echo '{"type":"turn.completed","usage":{"input_tokens":1000,"output_tokens":50}}' ;;
gemini) echo '{"type":"message","role":"assistant","content":"'"$text"'","delta":true}'
        echo '{"type":"result","status":"success","stats":{"total_tokens":1050,"input_tokens":1000,"output_tokens":50,"cached":0}}' ;;
opencode) echo '{"type":"text","sessionID":"s","part":{"text":"'"$text"'"}}'
          echo '{"type":"step_finish","part":{"reason":"stop","tokens":{"input":1000,"output":50,"reasoning":0,"cache":{"read":0,"write":0}},"cost":0.01}}' ;;
esac
"#;

/// Creates a program outside of the workspace that plays `client` and answers with this shell text.
fn played(env: &Env, client: &str, answer: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = env.folder().join("home").join(format!("{client}.sh"));
    std::fs::write(&path, PLAYED.replace("CLIENT", client).replace("ANSWER", answer)).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path.display().to_string()
}

fn levels() -> Vec<&'static str> {
    match Env::new("").has_fences() {
        true => vec!["in-place", "clean"],
        false => vec!["in-place"],
    }
}

const JUDGED: &str = "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n\n### 1. Say hello\n\n**target:** coder\n**task:** Write a friendly greeting to `out/hello.txt`.\n**contract:** judge\nThe greeting is friendly.\n\n```shell\ntest -s out/hello.txt\n```\n\n**on_fail:** retry(1), then escalate\n";

#[test]
fn every_client_can_judge_and_is_paid_for_by_the_plan() {
    let holds = r#"echo '{"holds": true, "reasons": ["it is friendly"], "citations": [{"file": "out/hello.txt", "lines": "1", "quote": "hello, dear reader"}]}'"#;
    for level in levels() {
        for client in CLIENTS {
            let env = Env::new(JUDGED)
                .agent("mkdir -p out; echo 'hello, dear reader' > out/hello.txt; echo wrote it\n")
                .isolation(if level == "in-place" { "guard+clean" } else { level });
            let program = played(&env, client, holds);
            let config = env.read("provost.toml");
            env.write(
                "provost.toml",
                format!("{config}[agents.reviewer]\ndriver = \"{client}\"\nprogram = \"{program}\"\nmodel = \"m-2\"\n[judge]\nrole = \"reviewer\"\n"),
            );
            env.approve();
            env.provost(&["run"]).exits(0);
            let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
            let judged = log.iter().find(|event| !event["details"]["verdict"]["judged"].is_null());
            let verdict = &judged.expect("a judgement")["details"]["verdict"];
            assert_eq!(verdict["usage"]["input_tokens"], 1000, "{client} at {level}: {verdict}");
            let cost = env.provost(&["status", "--json"]).exits(0).json()["cost"].clone();
            assert_eq!(cost["at_least"]["tokens"], 1050, "{client} at {level}: {cost}");
            assert!(!env.work().join("written-by-counsel").exists(), "{client} at {level}");
        }
    }
}

#[test]
fn a_judge_whose_answers_do_not_count_is_paid_all_the_same() {
    let env = Env::new(JUDGED)
        .agent("mkdir -p out; echo 'hello, dear reader' > out/hello.txt; echo wrote it\n")
        .isolation("guard+clean");
    let program = played(&env, "claude", "echo PASS");
    let config = env.read("provost.toml");
    env.write(
        "provost.toml",
        format!("{config}[agents.reviewer]\ndriver = \"claude\"\nprogram = \"{program}\"\n[judge]\nrole = \"reviewer\"\n"),
    );
    env.approve();
    assert_ne!(env.provost(&["run"]).code, 0);
    let cost = env.provost(&["status", "--json"]).exits(0).json()["cost"].clone();
    assert_eq!(cost["at_least"]["tokens"], 3 * 1050, "{cost}");
}

#[test]
fn every_client_can_plan_and_is_paid_for_by_the_plan() {
    let text = "---\ntype: plan\nstatus: draft\nowner: planner\ntouches: [\"out/**\"]\n---\n\n# Greet\n\n**Budget:** max 50k tokens\n\n## Steps\n\n### 1. Greet\n**target:** coder\n**task:** Write hello to `out/greeting.txt`, and nothing else.\n**contract:**\n```shell\nbash -c \"test \\\"\\$(cat out/greeting.txt)\\\" = hello\"\n```\n**on_fail:** escalate\n";
    for level in levels() {
        for client in CLIENTS {
            let env = Env::new("notes, no plan\n").isolation(level);
            env.write("draft.md", text);
            let program = played(&env, client, "cat draft.md");
            let config = env.read("provost.toml");
            env.write(
                "provost.toml",
                format!("{config}[agents.planner]\ndriver = \"{client}\"\nprogram = \"{program}\"\n"),
            );
            let made = env.provost(&["new", "greet", "--goal", "Say hello", "--rounds", "1"]).exits(4);
            assert!(env.read(".harness/PLAN-greet.md").contains("### 1. Greet"), "{client}: {}", made.err);
            let status = env.provost(&["status", "greet", "--json"]).exits(0).json();
            assert_eq!(status["cost"]["at_least"]["tokens"], 1050, "{client} at {level}: {}", status["cost"]);
            if level == "clean" {
                assert!(!env.work().join("written-by-counsel").exists(), "{client} wrote to the workspace");
            }
        }
    }
}
