//! Tests the builtin driver in `provost run`, with a mock model that lies, is refused, and then does the
//! work.

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
    let usage = &ended(&answer)[0]["details"]["usage"];
    assert_eq!(usage["model"], "rehearsed", "{usage}");
    assert_eq!(usage["calls"], 7, "{usage}");
    assert!(usage["input_tokens"].as_u64() > Some(1000), "{usage}");
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
    let write = Turn::call("write_file", json!({ "path": "out/1", "content": "done\n" }))
        .expecting("An earlier attempt did not hold");
    let turns = lie().into_iter().chain([write, Turn::text("Now it is there.")]);
    let model = Model::script(turns).key(KEY).serve().expect("a model");
    let env = place("anthropic", &model, "in-place");
    let answer = run(&env).exits(0);
    model.expect_kept();
    assert_eq!(env.states(), "1 passed");
    assert_eq!(ended(&answer).len(), 2);
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
