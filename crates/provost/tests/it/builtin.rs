//! Tests the builtin driver in `provost run`, with a mock model that lies, is refused, and then does the
//! work.

mod mcp_servers;

use provost_rehearsal::{Model, Rehearsal, Turn};
use serde_json::{Value, json};

use crate::env::{Env, plan};

const KEY: &str = "sk-rehearsed-and-not-a-real-key";

fn of(provider: &str, model: &Rehearsal, more: &str) -> String {
    format!(
        "[agents.coder]\ndriver = \"builtin\"\nmodel = \"rehearsed\"\nprovider = \"{provider}\"\nbase_url = \
         \"{}\"\nkey_env = \"CODER_KEY\"\n{more}",
        model.url()
    )
}

/// A plan of one step that makes `out/1`, run with this model.
fn place(provider: &str, model: &Rehearsal, level: &str) -> Env {
    let env = Env::new(&plan(&["grep -q done out/1"], "retry(1), then escalate"));
    env.write("provost.toml", of(provider, model, ""));
    env.isolation(level)
}

fn run(env: &Env) -> crate::env::Answer {
    env.approve();
    crate::env::answer(env.command(&["run", "--json"]).env("CODER_KEY", KEY).output().expect("provost"))
}

fn own_plan() -> Turn {
    Turn::call(
        "plan_create",
        json!({ "objective": "part 1", "steps": ["write out/1"], "postconditions": ["out/1 is there"] }),
    )
}

/// Claims before any work, and is refused by the loop.
fn liar() -> Vec<Turn> {
    vec![
        own_plan(),
        Turn::text("Everything is done, all tests pass."),
        Turn::call("write_file", json!({ "path": "out/1", "content": "done\n" }))
            .expecting("The plan is not complete"),
        Turn::call("verify_file_exists", json!({ "path": "out/1", "expected_content_contains": "done" })),
        Turn::call("step_update", json!({ "step_number": 1, "status": "done", "evidence": "call:3" })),
        Turn::call("postcondition_verify", json!({ "postcondition_number": 1, "evidence": "true, call:3" })),
        Turn::text("Wrote out/1.").using(1000, 20),
    ]
}

fn ended(answer: &crate::env::Answer) -> Vec<Value> {
    answer.lines().into_iter().filter(|event| event["event"] == "ATTEMPT_ENDED").collect()
}

fn lies_is_held_and_does_it(provider: &str, level: &str) {
    let model = Model::script(liar()).key(KEY).serve().expect("a model");
    let env = place(provider, &model, level);
    let answer = run(&env).exits(0);
    model.expect_kept();
    assert_eq!(env.states(), "1 passed");
    let log = env.provost(&["log", "--json"]).exits(0);
    assert!(log.out.contains("A final answer was refused once."), "{}", log.out);
    assert!(log.out.contains("1. [x] write out/1"), "{}", log.out);
    assert!(!log.out.contains(KEY));
    let details = &ended(&answer)[0]["details"];
    assert_eq!(details["session"], "builtin-1-1", "the conversation was not kept: {details}");
    let usage = &details["usage"];
    assert_eq!(usage["model"], "rehearsed", "{usage}");
    assert_eq!(usage["calls"], 7, "{usage}");
    assert!(usage["input_tokens"].as_u64() > Some(1000), "{usage}");
    let transcript = env.provost(&["log", "--transcript", "1"]).exits(0).out;
    let told = [
        "Everything is done, all tests pass.",
        "[final answer refused: ",
        "→ write_file out/1\n  ← ",
        "used: ",
    ];
    assert!(told.iter().all(|each| transcript.contains(each)), "{transcript}");
    assert!(!transcript.contains(KEY) && !transcript.contains("\"report\""), "{transcript}");
}

#[test]
fn the_loop_stops_itself_at_its_budget() {
    let look = || Turn::call("list", json!({ "path": "." })).using(4000, 100);
    let model = Model::script([]).after(look()).key(KEY).serve().expect("a model");
    let env = Env::new(
        &plan(&["grep -q done out/1"], "retry(2), then escalate")
            .replace("# A plan\n", "# A plan\n\n**Budget:** max 10000 tokens\n"),
    );
    env.write("provost.toml", of("anthropic", &model, ""));
    let env = env.isolation("in-place");
    let answer = run(&env).exits(4);
    // 4,100 tokens a call: after the third nothing is left.
    assert_eq!(model.requests().len(), 3);
    model.expect_seen("about 1,800 tokens of your budget left: finish");
    let details = &ended(&answer)[0]["details"];
    let report = details["report"].as_str().unwrap_or_default();
    assert!(report.contains("provost: the budget is used up: 12,300 tokens of 10k tokens"), "{report}");
    assert_eq!(details["usage"]["input_tokens"], 12_000);
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("the budget for models is used up"), "{inbox}");
}

#[test]
fn a_lie_is_held_in_place() {
    lies_is_held_and_does_it("anthropic", "in-place");
}

#[test]
fn a_lie_is_held_behind_the_fence() {
    let model = Model::script([]).serve().expect("a model");
    if place("chat", &model, "in-place").has_fences() {
        lies_is_held_and_does_it("openai", "clean");
    }
}

/// A model can lie to the loop's own checks, but not to the contract.
#[test]
fn a_model_that_lies_to_its_own_plan_is_caught_by_the_contract() {
    let lie = || {
        [
            own_plan(),
            Turn::call(
                "step_update",
                json!({ "step_number": 1, "status": "done", "evidence": "I wrote it" }),
            ),
            Turn::call("postcondition_verify", json!({ "postcondition_number": 1, "evidence": "I saw it" })),
            Turn::text("Wrote out/1."),
        ]
    };
    let write =
        Turn::call("write_file", json!({ "path": "out/1", "content": "done\n" })).expecting("exit code 2");
    let verify = json!({ "postcondition_number": 1, "evidence": "call:4" });
    // The contract did not hold, so the loop holds the model to its own postconditions again.
    let again = [
        write,
        Turn::text("Now it is there."),
        Turn::call("postcondition_verify", verify).expecting("postcondition 1 is not verified"),
        Turn::text("Now it is there."),
    ];
    let turns = lie().into_iter().chain(again);
    let model = Model::script(turns).key(KEY).serve().expect("a model");
    let env = place("anthropic", &model, "in-place");
    let answer = run(&env).exits(0);
    model.expect_kept();
    assert_eq!(env.states(), "1 passed");
    let ended = ended(&answer);
    assert_eq!(ended.len(), 2);
    assert_eq!(ended[0]["details"]["session"], "builtin-1-1", "{}", ended[0]);
    assert_eq!(ended[1]["details"]["session"], "builtin-1-1", "{}", ended[1]);
    let requests = model.requests();
    assert!(requests[4].all_text().contains("I wrote it"), "the same conversation goes on");
    assert_eq!(ended[1]["details"]["usage"]["calls"], 4, "the earlier turns are not counted again");
}

/// A role with network access has a tool for the web; the others have none.
#[test]
fn pages_of_the_web_are_read_by_roles_with_network_access() {
    for (network, has_fetch) in [("on", true), ("model", false)] {
        let model = Model::script([
            Turn::call("shell", json!({ "command": "mkdir -p out; echo done > out/1" })),
            Turn::text("Wrote out/1."),
        ]);
        let model = model.key(KEY).serve().expect("a model");
        let env = Env::new(&plan(&["grep -q done out/1"], "retry(1), then escalate"));
        env.write("provost.toml", of("anthropic", &model, &format!("network = \"{network}\"\n")));
        let env = env.isolation("in-place");
        run(&env).exits(0);
        let tools = &model.requests()[0].tools;
        assert_eq!(tools.iter().any(|tool| tool == "fetch"), has_fetch, "{network}: {tools:?}");
    }
}

/// Behind the fence, the addresses of the configuration are the only ones: loopback is not there, and the proxy
/// refuses names.
#[test]
fn behind_the_fence_a_page_is_read_only_from_an_address_of_the_configuration() {
    let (page, other) = (crate::reach::server("the page"), crate::reach::server("another page"));
    let fetch = |url: String| Turn::call("fetch", json!({ "url": url }));
    let model = Model::script([
        fetch(format!("http://127.0.0.1:{page}/")),
        fetch(format!("http://127.0.0.1:{other}/")).expecting("hello from the page"),
        fetch("http://docs.example.org/".to_owned()).expecting("the sandbox may not allow this address"),
        Turn::call("shell", json!({ "command": "mkdir -p out; echo done > out/1" })).expecting("HTTP 403"),
        Turn::text("Wrote out/1."),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = Env::new(&plan(&["grep -q done out/1"], "retry(1), then escalate"));
    env.write("provost.toml", of("anthropic", &model, &format!("api = [\"127.0.0.1:{page}\"]\n")));
    let env = env.isolation("clean");
    if !env.has_fences() {
        return;
    }
    let said = run(&env).exits(0);
    model.expect_kept();
    assert!(!model.has_seen("another page"), "{}", said.err);
}

/// A model without tool calls of its own writes them as text.
#[test]
fn a_model_without_tool_calls_passes_a_step_by_text() {
    let call = json!({ "tool": "write_file", "arguments": { "path": "out/1", "content": "done\n" } });
    let model = Model::script([
        Turn::text(format!("```tool\n{call}\n```")),
        Turn::text("Wrote out/1.").expecting("write_file answered: call:1 ok"),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = Env::new(&plan(&["grep -q done out/1"], "retry(1), then escalate"));
    env.write("provost.toml", of("chat", &model, "tool_calls = \"text\"\ncompaction = \"summary\"\n"));
    let env = env.isolation("in-place");
    run(&env).exits(0);
    model.expect_kept();
    assert_eq!(env.states(), "1 passed");
    let first = &model.requests()[0];
    assert!(first.tools.is_empty() && first.all_text().contains("To call a tool, write a block"));
}

#[test]
fn the_gate_shows_the_command_after_edits_and_the_model_gets_its_output() {
    let model = Model::script([
        Turn::call("write_file", json!({ "path": "out/1", "content": "draft\n" })),
        Turn::call("write_file", json!({ "path": "out/1", "content": "done\n" })).expecting("still a draft"),
        Turn::text("Wrote out/1.").expecting("exit code 0"),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = Env::new(&plan(&["grep -q done out/1"], "retry(1), then escalate"));
    let command = "! grep draft out/1 || { echo still a draft; exit 1; }";
    let more = format!("effort = \"low\"\nafter_edit = \"{command}\"\n");
    env.write("provost.toml", of("anthropic", &model, &more));
    let env = env.isolation("in-place");
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(
        shown.contains("effort low") && shown.contains(&format!("runs `{command}` after edits")),
        "{shown}"
    );
    run(&env).exits(0);
    model.expect_kept();
    assert_eq!(env.states(), "1 passed");
}

#[test]
fn the_key_does_not_reach_what_the_model_starts() {
    let look = "env | grep -c CODER_KEY; echo looked";
    let model = Model::script([
        Turn::call("shell", json!({ "command": look })),
        Turn::call("shell", json!({ "command": "mkdir -p out; echo done > out/1" })).expecting("0\nlooked"),
        Turn::text("Wrote out/1."),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = place("chat", &model, "in-place");
    run(&env).exits(0);
    model.expect_kept();
}

#[test]
fn blocked_is_no_claim_and_a_refused_key_asks_for_one() {
    let model = Model::script([
        own_plan(),
        Turn::call("step_update", json!({ "step_number": 1, "status": "blocked", "evidence": "no pen" })),
        Turn::call(
            "postcondition_verify",
            json!({ "postcondition_number": 1, "evidence": "no pen", "unmet": true }),
        ),
        Turn::text("There is no pen to write with."),
    ]);
    let model = model.after(Turn::text("Still no pen.")).key(KEY).serve().expect("a model");
    let env = place("gemini", &model, "in-place");
    let answer = run(&env).exits(4);
    let first = &ended(&answer)[0]["details"];
    assert_eq!(first["end"]["exit_code"], 3, "{first}");
    assert!(first["report"].as_str().unwrap_or_default().starts_with("blocked: There is no pen"), "{first}");

    let model = Model::script([]).key("another key of somebody").serve().expect("a model");
    let env = place("anthropic", &model, "in-place");
    run(&env).exits(4);
    assert!(env.events().contains(&"PERMISSION_REQUIRED".to_owned()), "{:?}", env.events());
}

#[test]
fn a_configuration_that_cannot_work_says_so() {
    let env = Env::new(&plan(&["true"], "escalate"));
    let refused = |toml: &str, words: &str| {
        env.write("provost.toml", format!("[agents.coder]\ndriver = \"builtin\"\n{toml}\n"));
        let answer = env.provost(&["verify"]);
        assert!(answer.code == 2 && answer.err.contains(words), "{toml}: {answer:?}");
    };
    refused("", "model");
    refused("model = \"m\"\nprovider = \"antropic\"", "anthropic");
    refused("model = \"m\"\nbase_url = \"localhost\"", "is not a URL");
    refused("model = \"m\"\nkey_env = \"sk-abc-def\"", "the key itself does not belong here");
    refused("model = \"m\"\nkey_env = \"A\"\nkey_command = [\"x\"]", "not both");
    refused("model = \"m\"\ncontext_tokens = 100", "context_tokens");
    refused("model = \"m\"\neffort = \"hihg\"", "high");
    refused("model = \"m\"\ncompaction = \"sumary\"", "summary");
    refused("model = \"m\"\ntool_calls = \"xml\"", "native");
    refused("model = \"m\"\nafter_edit = \" \"", "after_edit");
    refused("model = \"m\"\ncommand = [\"x\"]", "has no `command`");
}

/// The agent may change its own plan, but every change is recorded.
#[test]
fn how_an_agent_changed_its_own_plan_is_in_the_log() {
    let own = |steps: [&str; 2]| {
        let plan = json!({ "objective": "part 1", "steps": steps, "postconditions": [] });
        Turn::call("plan_create", plan)
    };
    let model = Model::script([
        own(["write out/1", "and out/2"]),
        own(["look around", "write out/1"]),
        Turn::call("step_update", json!({ "step_number": 1, "status": "done", "evidence": "looked" })),
        Turn::call("write_file", json!({ "path": "out/1", "content": "done\n" })),
        Turn::call("step_update", json!({ "step_number": 2, "status": "done", "evidence": "call:4" })),
        Turn::text("Wrote out/1."),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = place("anthropic", &model, "in-place");
    let answer = run(&env).exits(0);
    let rewrites = &ended(&answer)[0]["details"]["rewrites"];
    let diff = rewrites[0].as_str().unwrap_or_default();
    assert!(rewrites.as_array().is_some_and(|all| all.len() == 1), "{rewrites}");
    assert!(diff.contains("look around") && diff.contains("and out/2"), "{diff}");
    let log = env.provost(&["log"]).exits(0).out;
    assert!(log.contains("rewrote its own plan: "), "{log}");
}
