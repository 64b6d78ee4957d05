//! Tests `provost mcp`: an agent in its own client plans, works and claims, and the checks decide.

mod answers;
pub(crate) mod client;
mod dialogs;
mod folder;
mod fuzz;
pub(crate) mod official;

use serde_json::{Value, json};

use crate::env::{Env, own_checks, plan};
use client::{Client, Reply};

/// Creates a workspace with only a configuration.
fn workspace(configuration: &str) -> Env {
    let env = Env::new("");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("gone");
    env.write("provost.toml", own_checks(configuration));
    env
}

const IN_PLACE: &str = "[verify]\nisolation = \"in-place\"\n";

fn two_steps() -> Value {
    json!({
        "objective": "Write two files",
        "steps": [
            { "title": "Write a", "task": "Write alpha into out/a.", "check": "grep -q alpha out/a" },
            { "title": "Write b", "task": "Write beta into out/b.", "check": "grep -q beta out/b" },
        ],
        "postconditions": [{ "text": "Both are there", "check": "test $(cat out/* | wc -l) -eq 2" }],
        "touches": ["out/**"],
    })
}

fn claim(step: u32) -> Value {
    json!({ "step": step, "status": "done", "evidence": "wrote it" })
}

fn events(env: &Env, name: &str) -> Vec<Value> {
    env.provost(&["log", name, "--json"]).exits(0).lines()
}

#[test]
fn a_claim_counts_when_the_check_holds_and_the_plan_is_done_when_everything_does() {
    let env = workspace("");
    let mut client = Client::start(&env, &[]);
    client
        .call("plan_create", two_steps())
        .says("approved by policy mcp gate self-checked")
        .says("Next: step 1");
    assert!(env.read(".harness/PLAN-write-two-files.md").contains("grep -q alpha out/a"));
    client.call("step_update", json!({ "step": 1, "status": "in_progress" })).says("Step 1 is in progress");
    client.call("step_update", claim(1)).refuses("Step 1 is NOT done: its check broke");
    client.call("plan_next", json!({})).says("Next: step 1");
    env.write("out/a", "alpha\n");
    client.call("step_update", claim(1)).says("Step 1 has passed").says("Next: step 2");
    env.write("out/b", "beta\nand more\n");
    client
        .call("step_update", claim(2))
        .refuses("Step 2 has passed")
        .refuses("Postcondition 1 does NOT hold");
    client.call("plan_show", json!({})).says("postcondition 1. Both are there (broke)");
    env.write("out/b", "beta\n");
    client.call("postcondition_verify", json!({})).says("The plan is done");
    client.call("plan_next", json!({})).says("You may finish");
    drop(client);
    let name = "write-two-files";
    assert_eq!(env.provost(&["status", name, "--json"]).exits(0).json()["stage"], "done");
    env.provost(&["audit", name]).exits(0);
    let attested = |event: &&Value| event["event"] == "ISOLATION_ATTESTED";
    let log = events(&env, name);
    assert!(log.iter().filter(attested).all(|event| event["details"]["agent_outside"] == true), "{log:?}");
    assert!(
        log.iter().any(|event| event["details"]["by"]["policy"]["name"] == "mcp gate self-checked"),
        "{log:?}"
    );
}

#[test]
fn what_is_refused_says_what_to_do() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    client.call("plan_next", json!({})).refuses("call plan_create first");
    client.call("step_update", claim(1)).refuses("call plan_create first");
    client.call("plan_create", json!({ "objective": "x", "steps": [] })).refuses("at least one step");
    client
        .call("plan_create", json!({ "objective": "x", "steps": [{ "title": "a", "check": "if then" }] }))
        .refuses("the plan has errors")
        .refuses("step 1");
    assert!(!env.work().join(".harness/PLAN-x.md").exists());
    client.call("plan_create", two_steps()).says("is made");
    for (arguments, words) in [
        (json!({ "step": 1, "status": "done" }), "evidence is required"),
        (json!({ "step": 1, "status": "blocked" }), "a reason is required"),
        (json!({ "step": 3, "status": "done", "evidence": "x" }), "there is no step 3: steps are 1 to 2"),
        (json!({ "step": 0, "status": "in_progress" }), "steps are 1 to 2"),
        (
            json!({ "step": 1, "status": "finished" }),
            "unknown status `finished`: it is one of pending, in_progress, done, blocked",
        ),
        (json!({ "status": "done" }), "`step` is missing"),
        (json!({ "step": "one", "status": "done" }), "whole number"),
        (json!({ "step": 2, "status": "in_progress" }), "step 2 cannot start yet; continue with step 1"),
    ] {
        client.call("step_update", arguments).refuses(words);
    }
    client.call("postcondition_verify", json!({ "postcondition": 2 })).refuses("they are 1 to 1");
    client.call("postcondition_verify", json!({})).refuses("still open: step 1, 2");
    client.call("plan_destroy", json!({})).refuses("there is no tool `plan_destroy`");
    client
        .call("plan_next", json!({ "bogus": 1 }))
        .refuses("unknown argument `bogus`: plan_next takes no arguments");
    client.call("plan_show", json!({ "name": "x" })).refuses("unknown argument `name`: plan_show takes plan");
    client
        .call("step_update", json!({ "step": 1, "stauts": "done" }))
        .refuses("unknown argument `stauts`: step_update takes")
        .refuses("; did you mean `status`?");
    let made_up = json!([{ "title": "a", "check": "test -f a", "depends_on": [1] }]);
    client
        .call("plan_create", json!({ "objective": "x", "steps": made_up }))
        .refuses("unknown argument `depends_on`: a step takes title, task, check, needs");
    client.call("step_update", json!({ "step": "1", "status": "in_progress" })).says("in progress");
    client.call("step_update", json!({ "step": 1, "status": "pending" })).says("step 1 is put back");
    client
        .call("step_update", json!({ "step": 1, "status": "blocked", "reason": "no key" }))
        .says("waits for a person");
    client.call("step_update", claim(1)).refuses("no key");
    assert!(env.provost(&["inbox"]).out.contains("no key"));
}

#[test]
fn after_five_claims_that_did_not_hold_a_person_is_asked() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", two_steps());
    for left in (1..=4).rev() {
        client.call("step_update", claim(1)).refuses(&format!("({left} claim"));
    }
    client.call("step_update", claim(1)).refuses("a person has to look");
    client.call("plan_next", json!({})).says("step 1 waits for a person");
}

#[test]
fn sessions_have_plans_of_their_own_and_keep_them() {
    let env = workspace(IN_PLACE);
    let mut one = Client::start(&env, &["--session", "one"]);
    one.call("plan_create", two_steps());
    let mut two = Client::start(&env, &["--session", "two"]);
    two.call("plan_show", json!({})).refuses("there is no plan in this session");
    two.call("plan_create", two_steps()).says("Plan write-two-files-2 is made");
    env.write("out/a", "alpha\n");
    two.call("step_update", claim(1)).says("Step 1 has passed");
    one.call("plan_show", json!({})).says("Plan write-two-files:").says("0 of 2 steps");
    // Another plan can be read, and is not taken by that.
    one.call("plan_show", json!({ "plan": "write-two-files-2" })).says("Plan write-two-files-2:");
    one.call("plan_show", json!({})).says("Plan write-two-files:");
    one.call("plan_take", json!({ "plan": "write-two-files-2" })).refuses("belongs to another session");
    for tool in ["plan_show", "plan_take"] {
        one.call(tool, json!({ "plan": "../PLAN-x.md" })).refuses("cannot be used here");
    }
    drop(two);
    // Another process resumes the session by its name, which is an option or part of the request.
    let mut again = Client::start(&env, &["--session", "two"]);
    again.call("plan_show", json!({})).says("Plan write-two-files-2:").says("1 of 2 steps");
    let named = json!({ "_meta": { "sessionId": "two" }, "name": "plan_show", "arguments": {} });
    let mut told = Client::start(&env, &[]);
    Reply(told.request("tools/call", named)).says("Plan write-two-files-2:");
}

#[test]
fn a_plan_that_is_there_is_taken_by_name_and_not_in_exchange_for_an_open_one() {
    let env = Env::new(&plan(&["test -s out/1"], "retry(1), then escalate")).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    env.approve();
    let mut client = Client::under_a_shell(&env, &[]);
    client.call("step_update", claim(1)).refuses("plan_take");
    client.call("plan_take", json!({ "plan": "absent" })).refuses("there is no plan absent");
    client.call("plan_take", json!({})).says("Plan PLAN.md:").says("Next: step 1");
    client.call("plan_take", json!({ "plan": "PLAN.md" })).says("Plan PLAN.md:");
    env.write(".harness/PLAN-other.md", plan(&["test -s out/2"], "escalate"));
    env.provost(&["verify", "other"]).exits(0);
    client.call("plan_take", json!({ "plan": "other" })).refuses("works on plan PLAN.md, which is not done");
    env.write("out/1", "x");
    client.call("step_update", claim(1)).says("The plan is done");
    client.call("plan_take", json!({ "plan": "other" })).says("Plan other:");
}

#[test]
fn the_plan_of_a_marker_is_shown_without_being_taken_and_taken_by_work() {
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).isolation("in-place");
    env.write(".harness/active-plan", "PLAN.md\n");
    env.provost(&["verify"]).exits(0);
    env.approve();
    let mut client = Client::under_a_shell(&env, &["--session", "s"]);
    client.call("plan_show", json!({})).says("Plan PLAN.md:");
    client.call("plan_next", json!({})).says("Next: step 1");
    let bound = || env.provost(&["session", "list", "--json"]).exits(0).json()["sessions"].clone();
    assert_eq!(bound(), json!([]));
    client.call("step_update", json!({ "step": 1, "status": "in_progress" })).says("in progress");
    assert_eq!(bound()[0]["session"], "s");
}

#[test]
fn a_person_is_asked_where_the_configuration_or_the_check_says_so_and_no_agent_can_be_one() {
    let env = workspace(&format!("{IN_PLACE}[mcp]\ngate = \"person\"\n"));
    let mut person = env.person();
    let mut client = Client::under_a_shell(&env, &[]);
    client
        .call("plan_create", two_steps())
        .says("It waits for a person")
        .says("provost approve write-two-files");
    client.call("step_update", claim(1)).refuses("waits for a person's approval");
    // The agent can write the configuration, but provost does not use the change.
    env.write("provost.toml", own_checks(IN_PLACE));
    let mut more = two_steps();
    more["objective"] = json!("Write two files, quickly");
    client.call("plan_create", more).says("It waits for a person");
    let revision = env.provost(&["show", "write-two-files", "--json"]).json()["revision"].clone();
    let revision = revision.as_str().expect("a revision");
    person.provost(&["approve", "write-two-files", "--revision", revision]).exits(0);
    client.call("plan_next", json!({})).says("Next: step 1");

    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    let mut outside = two_steps();
    outside["steps"][0]["check"] = json!("grep -q alpha ../other/a");
    client.call("plan_create", outside).says("outside the workspace");
    // The server's own client process starts the command, as an agent's shell would.
    let revision = env.provost(&["show", "write-two-files", "--json"]).json()["revision"].clone();
    let refused = env.provost(&["approve", "write-two-files", "--revision", revision.as_str().expect("one")]);
    assert!(refused.exits(5).err.contains("from inside the client of an agent"));
}

#[test]
fn a_rewrite_that_drops_a_check_waits_for_a_person_and_one_that_adds_does_not() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", two_steps()).says("approved by");
    env.write("out/a", "alpha\n");
    client.call("step_update", claim(1)).says("has passed");
    let mut more = two_steps();
    more["steps"]
        .as_array_mut()
        .expect("steps")
        .push(json!({ "title": "Write c", "check": "test -s out/c" }));
    client.call("plan_create", more).says("approved by").says("Next: step 2");
    client.call("plan_show", json!({})).says("1 of 3 steps");
    let mut less = two_steps();
    less["steps"][1]["check"] = json!("true # nothing to see");
    client.call("plan_create", less.clone()).says("drops or changes the check");
    // A second proposal is refused too.
    less["objective"] = json!("Write two files again");
    client.call("plan_create", less).says("drops or changes the check");
    client.call("step_update", claim(2)).refuses("waits for a person's approval");
}

#[test]
fn a_plan_of_a_person_is_worked_on_and_neither_written_nor_approved_by_the_agent() {
    let env = Env::new(&plan(&["test -s out/1"], "retry(1), then escalate")).isolation("in-place");
    let mut person = env.person();
    env.provost(&["verify"]).exits(0);
    let mut client = Client::start(&env, &["--plan", "PLAN.md"]);
    let refused = env.provost(&["approve", "--revision", &env.revision()]).exits(5);
    assert!(refused.err.contains("from inside the client of an agent"), "{}", refused.err);
    client.call("step_update", claim(1)).refuses("waits for a person's approval");
    client.call("plan_create", two_steps()).refuses("this plan was written by a person");
    assert_eq!(client.end(), 0);
    // This process is a person's shell for the next server.
    let mut client = Client::under_a_shell(&env, &["--plan", "PLAN.md"]);
    std::fs::remove_dir_all(env.state().join("sessions")).expect("forgotten");
    person.approve();
    env.write("out/1", "x");
    client.call("step_update", claim(1)).says("The plan is done");
}

#[test]
fn what_an_agent_writes_into_its_plan_file_changes_nothing() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", two_steps());
    let file = ".harness/PLAN-write-two-files.md";
    let text = env.read(file);
    env.write(file, text.replace("grep -q alpha out/a", "true"));
    client.call("step_update", claim(1)).refuses("differs from what was approved");
    env.write(file, text.replace("### 1. ", "### 1. ✅ "));
    client.call("step_update", claim(1)).refuses("Step 1 is NOT done");
    std::fs::remove_file(env.work().join(file)).expect("gone");
    client.call("step_update", claim(1)).refuses("PLAN-write-two-files.md");
}

#[test]
fn steps_without_a_check_wait_for_a_person_and_hold_nobody_up() {
    let env = workspace(IN_PLACE);
    let mut person = env.person();
    let mut client = Client::under_a_shell(&env, &[]);
    let plan = json!({
        "objective": "Say it well",
        "steps": ["Read the text", { "title": "Write a", "check": "test -s out/a" }],
    });
    client.call("plan_create", plan).says("a person has to confirm: step 1");
    client.call("step_update", claim(1)).says("a person has to confirm it").says("Next: step 2");
    env.write("out/a", "x");
    client.call("step_update", claim(2)).says("Step 2 has passed").says("waits for a person to confirm");
    client.call("postcondition_verify", json!({})).refuses("still open: step 1");
    let listed = env.provost(&["inbox", "--json"]).exits(0).json();
    let id = listed[0]["id"].as_str().expect("an item").to_owned();
    person.provost(&["answer", &id, "confirm"]).exits(0);
    client.call("postcondition_verify", json!({})).says("The plan is done");
}

#[test]
fn a_long_check_is_told_about_and_its_result_comes_with_the_next_call() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &["--patience", "1s"]);
    let check = "while ! test -f go; do sleep 0.05; done; test -s out/a";
    let plan = json!({ "objective": "Wait", "steps": [{ "title": "Write a", "check": check }] });
    client.call("plan_create", plan);
    env.write("out/a", "x");
    client.call("step_update", claim(1)).says("Still judging step 1");
    assert!(client.heard.iter().any(|line| line.contains("judging step 1")), "{:?}", client.heard);
    client.call("plan_show", json!({})).says("Still judging step 1");
    env.write("go", "");
    client.call("plan_next", json!({})).says("Step 1 has passed").says("The plan is done");
}

#[test]
fn a_cancelled_call_leaves_its_check_running_and_the_next_call_gets_the_result() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &["--patience", "10m"]);
    let check = "while ! test -f go; do sleep 0.05; done; test -s out/a";
    let plan = json!({ "objective": "Wait", "steps": [{ "title": "Write a", "check": check }] });
    client.call("plan_create", plan);
    env.write("out/a", "x");
    let mut long = client::tool(99, "step_update", &claim(1));
    long["params"]["_meta"] = json!({ "progressToken": 99 });
    client.say(long.to_string().as_bytes());
    while !client.heard.iter().any(|line| line.contains("judging step 1")) {
        client.hear_one();
    }
    let cancelled = json!({ "requestId": 99, "reason": "the person pressed a key" });
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled });
    client.say(cancelled.to_string().as_bytes());
    client.call("plan_show", json!({})).says("Still judging step 1");
    env.write("go", "");
    client.call("plan_next", json!({})).says("Step 1 has passed").says("The plan is done");
}

#[test]
fn the_end_of_input_ends_a_check_and_the_next_server_judges_it_anew() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &["--patience", "1", "--session", "one"]);
    let check = "echo $$ >> pids; while ! test -f go; do sleep 0.05; done";
    client
        .call("plan_create", json!({ "objective": "Wait", "steps": [{ "title": "Wait", "check": check }] }));
    client.call("step_update", claim(1)).says("Still judging");
    assert_eq!(client.end(), 0);
    let pid: i32 = env.read("pids").trim().parse().expect("a number");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "the check is still there");
    env.write("go", "");
    let mut again = Client::start(&env, &["--session", "one"]);
    again.call("step_update", claim(1)).says("Step 1 has passed");
}

#[test]
fn inside_an_attempt_a_claim_is_passed_on_and_nothing_is_judged() {
    let program = env!("CARGO_BIN_EXE_provost");
    let script = format!(
        "mkdir -p out; echo done > out/1\n\
         {{ printf '%s\\n' '{}' '{}' '{}'; sleep 1; }} | {program} --state \"$(cat state)\" mcp > out/said\n",
        client::initialize(1),
        client::tool(
            2,
            "step_update",
            &json!({ "step": 1, "status": "done", "evidence": "through the tool" })
        ),
        client::tool(3, "plan_create", &two_steps()),
    );
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).agent(&script).isolation("in-place");
    env.write("state", env.state().display().to_string());
    env.approve();
    env.provost(&["run"]).exits(0);
    let said = env.read("out/said");
    assert!(said.contains("you work on one step of a run"), "{said}");
    let claims: Vec<Value> =
        events(&env, "PLAN.md").into_iter().filter(|event| event["event"] == "STEP_CLAIMED").collect();
    assert_eq!(claims[0]["details"]["evidence"], "through the tool", "{said}");
}

#[test]
fn topics_resources_and_prompts_are_there() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    client.call("topic_publish", json!({ "topic": "notes", "text": "x" })).refuses("call plan_create first");
    let mut asked = two_steps();
    asked["steps"][0]["publishes"] = json!(["notes"]);
    client.call("plan_create", asked);
    client.call("topic_read", json!({ "topic": "notes" })).refuses("there is no topic `notes`");
    client.call("step_update", json!({ "step": 1, "status": "in_progress" }));
    client.call("topic_publish", json!({ "topic": "other", "text": "x" })).refuses("it declares notes");
    client
        .call("topic_publish", json!({ "topic": "../../etc/passwd", "text": "x" }))
        .refuses("no name of a topic");
    client.call("topic_publish", json!({ "topic": "notes", "text": "alpha is first" })).says("published");
    client.call("topic_publish", json!({ "topic": "notes", "text": "beta is second" })).says("published");
    client.call("topic_publish", json!({ "topic": "notes", "text": "x".repeat(70_000) })).refuses("at most");
    // The check fails, so the publication cannot be read; the person's own files are unchanged.
    client.call("step_update", claim(1));
    client.call("topic_read", json!({ "topic": "notes" })).refuses("there is no topic `notes`");
    env.write("out/a", "alpha\n");
    client.call("step_update", claim(1)).says("has passed");
    client.call("topic_read", json!({ "topic": "notes" })).says("alpha is first\n\nbeta is second");
    client.call("topic_read", json!({})).says("Topics: notes");
    client.call("topic_read", json!({ "topic": "../../etc/passwd" })).refuses("no name of a topic");
    assert!(!env.work().join(".harness/topics").exists());
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", two_steps());
    let listed = client.request("resources/list", json!({}))["result"]["resources"].clone();
    for (uri, words) in [
        ("provost://plan", "1. Write a (pending)"),
        ("provost://plan.md", "---\ntype: plan"),
        ("provost://log", "PLAN_CREATED"),
        ("provost://inbox", "- nothing"),
        ("provost://plans/write-two-files", "2. Write b (pending)"),
    ] {
        let read = client.request("resources/read", json!({ "uri": uri }));
        let read = &read["result"]["contents"][0];
        assert!(read["text"].as_str().is_some_and(|text| text.contains(words)), "{uri}: {read}");
        let named = listed.as_array().into_iter().flatten().find(|resource| resource["uri"] == uri);
        assert_eq!(read["mimeType"], named.expect("it is listed")["mimeType"], "{uri}");
    }
    assert!(client.request("resources/read", json!({ "uri": "provost://other" }))["error"].is_object());
    let prompt =
        client.request("prompts/get", json!({ "name": "make_plan", "arguments": { "goal": "fly" } }));
    assert!(prompt.to_string().contains("The goal: fly"));
}
