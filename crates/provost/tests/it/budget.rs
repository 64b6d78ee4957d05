//! Tests budgets on real runs: which limit is reached, who is asked, and how a higher budget continues the
//! run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::env::{Env, plan};
use crate::serve::{Server, form_key};

/// A plan of three steps with this budget, and an agent that reports 45k tokens and $0.02 for each.
fn place(budget: &str, script: &str) -> Env {
    place_at("in-place", budget, script)
}

fn place_at(isolation: &str, budget: &str, script: &str) -> Env {
    let contracts = ["test -f out/1", "test -f out/2", "test -f out/3"];
    let text = plan(&contracts, "retry(1), then escalate");
    let text = text.replace("# A plan\n", &format!("# A plan\n\n**Budget:** {budget}\n"));
    let env = Env::new(&text);
    env.write("provost.toml", "[agents.coder]\ndriver = \"scripted\"\nscript = \"agent.toml\"\n");
    let env = env.isolation(isolation);
    env.write("agent.toml", script);
    env
}

/// An action of the script: does the step, counts its start, and reports usage.
fn part(number: u32, attempt: Option<u32>, more: &str) -> String {
    let attempt = attempt.map_or(String::new(), |attempt| format!("attempt = {attempt}\n"));
    format!(
        "[[step]]\nnumber = {number}\n{attempt}do = [{{ append = \"out/starts\", text = \"{number}\\n\" }}, \
         {{ write = \"out/{number}\", text = \"done\" }}, {{ say = \"wrote out/{number}\" }}, {more}]\n"
    )
}

const USED: &str = "{ usage = { input_tokens = 44000, output_tokens = 1000, micro_usd = 20000 } }";

fn honest() -> String {
    [1, 2, 3].map(|number| part(number, None, USED)).concat()
}

fn named(env: &Env, name: &str) -> Vec<Value> {
    env.provost(&["log", "--json", "--event", name]).exits(0).lines()
}

fn cost(env: &Env) -> Value {
    env.provost(&["status", "--json"]).exits(0).json()["cost"].clone()
}

#[test]
fn a_breach_asks_a_person_and_raising_it_pays_nothing_twice() {
    let env = place("max 100k tokens, $1", &honest());
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 passed, 2 passed, 3 blocked");
    let breach = &named(&env, "BUDGET_EXCEEDED")[0];
    assert_eq!(breach["task_id"], "task_3");
    let details = &breach["details"];
    assert_eq!((&details["scope"], &details["resource"]), (&json!("plan"), &json!("tokens")));
    assert_eq!(details["limit"], json!({ "tokens": 100_000, "micro_usd": 1_000_000 }));
    assert_eq!(details["spent"], json!({ "tokens": 90_000, "micro_usd": 40_000 }));
    assert_eq!((&details["left"], &details["estimate"]["tokens"]), (&json!([3]), &json!(45_000)));
    let status = env.provost(&["status"]).exits(0).out;
    for words in [
        "cost: 90k tokens, $0.04",
        "budget 100k tokens, $1.00",
        "the plan's budget of 100k tokens does not allow the next attempt: 90k tokens counted \
         as spent, 45k tokens needed; left to do: step 3, about 45k tokens",
        "retry --budget '135k tokens'`; instead of retry: skip, abort, revise",
    ] {
        assert!(status.contains(words), "{words}\n{status}");
    }
    let items = env.provost(&["inbox", "--json"]).exits(0).json();
    assert_eq!(items[0]["kind"], "budget", "{items}");
    let raise = items[0]["choices"][0]["command"].as_str().unwrap();
    assert!(raise.ends_with(" retry --budget '135k tokens'"), "{raise}");
    // Nothing continues without an answer.
    env.provost(&["run"]).exits(4);
    assert_eq!(env.read("out/starts"), "1\n2\n");
    person.provost(&["answer", "3", "retry", "--budget", "90k tokens"]).exits(5);
    person.provost(&["answer", "3", "retry", "--budget", "max 200k tokens", "--note", "worth it"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.read("out/starts"), "1\n2\n3\n");
    let answered = &named(&env, "HUMAN_ANSWERED")[0]["details"];
    assert_eq!(answered["budget"], json!({ "tokens": 200_000 }));
    let cost = cost(&env);
    assert_eq!((&cost["tokens"], &cost["usd"]), (&json!(135_000), &json!(0.06)));
    assert_eq!(cost["limit"], json!({ "tokens": 200_000, "usd": 1.0, "wall_ms": null }));
    let end = &named(&env, "EXECUTION_COMPLETE")[0]["details"];
    assert_eq!(end["summary"]["cost"]["tokens"], 135_000);
    env.provost(&["audit"]).exits(0);
}

#[test]
fn only_a_person_raises_a_budget() {
    let env = place("max 100k tokens", &honest());
    env.approve();
    env.provost(&["run"]).exits(4);
    // Agents of this plan ran without a sandbox, so this command could come from a process that one of them
    // left.
    env.provost(&["answer", "3", "retry", "--budget", "1m tokens"]).exits(5);
    assert_eq!(named(&env, "TAMPER_DETECTED").len(), 1);
    // The rest of the approved budget may be used.
    env.provost(&["answer", "3", "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
    let reserved = &named(&env, "TASK_STARTED")[2]["details"]["reserved"];
    assert_eq!(*reserved, json!({ "tokens": 10_000 }));
}

#[test]
fn another_budget_in_the_plan_is_approved_again_and_what_passed_stays() {
    let env = place("max 100k tokens", &honest());
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    env.write("PLAN.md", env.read("PLAN.md").replace("100k tokens", "300k tokens"));
    env.provost(&["run"]).exits(4);
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("budget: 300k tokens"), "{shown}");
    let diff = env.provost(&["log"]).exits(0).out;
    assert!(diff.contains("budget: `100k tokens` -> `300k tokens`"), "{diff}");
    person.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.read("out/starts"), "1\n2\n3\n");
}

#[test]
fn an_abort_ends_for_the_budget_and_a_skip_is_a_waiver() {
    let env = place("max 100k tokens", &honest());
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    person.provost(&["answer", "3", "abort"]).exits(0);
    assert_eq!(
        (env.stage().as_str(), &named(&env, "EXECUTION_COMPLETE")[0]["details"]["why"]),
        ("failed", &json!("budget"))
    );
    env.provost(&["run"]).exits(1);
    person.provost(&["answer", "3", "skip", "--note", "by hand"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed, 2 passed, 3 waived");
}

#[test]
fn a_step_has_a_budget_of_its_own() {
    let lazy = "[[step]]\nnumber = 2\nattempt = 1\ndo = [{ usage = { input_tokens = 8000, output_tokens = 1000 } }]\n";
    let env = place("max 1m tokens", &(honest() + lazy));
    let text = env.read("PLAN.md");
    env.write(
        "PLAN.md",
        text.replacen(
            "Do part 2 of the work.\n",
            "Do part 2 of the work.\n\n**budget:** max 10k tokens\n",
            1,
        ),
    );
    let mut person = env.person();
    env.approve();
    assert!(env.provost(&["show"]).exits(0).out.contains("   budget 10k tokens\n"));
    env.provost(&["run"]).exits(4);
    let breach = &named(&env, "BUDGET_EXCEEDED")[0]["details"];
    assert_eq!((&breach["step"], &breach["scope"]), (&json!(2), &json!("step")));
    // The next attempt's prompt contains the verdict.
    let script = env
        .read("agent.toml")
        .replace("{ write = \"out/2\"", "{ require_prompt = \"exit code 1\" }, { write = \"out/2\"");
    env.write("agent.toml", script);
    person.provost(&["answer", "2", "retry", "--budget", "max 100k tokens"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.read("out/starts"), "1\n2\n3\n");
}

#[test]
fn what_nobody_counted_is_unknown_and_not_nothing() {
    let silent: String = [1, 2, 3].map(|number| part(number, None, "")).concat();
    let env = place("max 100k tokens, $1", &silent);
    env.approve();
    let run = env.provost(&["run"]).exits(0);
    assert!(!run.out.contains("$0"), "{}", run.out);
    let cost = cost(&env);
    assert_eq!((&cost["tokens"], &cost["usd"]), (&Value::Null, &Value::Null));
    assert_eq!((&cost["unknown_attempts"], &cost["at_least"]["tokens"]), (&json!(3), &json!(0)));
    let end = &named(&env, "EXECUTION_COMPLETE")[0]["details"];
    assert_eq!(end["summary"]["cost"]["tokens"], Value::Null);
    // Each of the six possible attempts has an equal share.
    let held: Vec<u64> = named(&env, "TASK_STARTED")
        .iter()
        .filter_map(|event| event["details"]["reserved"]["tokens"].as_u64())
        .collect();
    assert_eq!(held.len(), 3);
    assert!(held.iter().sum::<u64>() <= 100_000 && held[0] == 16_666, "{held:?}");
    let status = env.provost(&["status"]).exits(0).out;
    assert!(status.contains("tokens unknown, cost unknown"), "{status}");
}

#[test]
fn an_attempt_lasts_no_longer_than_the_budget() {
    let slow = "[[step]]\nnumber = 1\ndo = [{ sleep = \"600s\" }]\n";
    let env = place("3 seconds", slow);
    env.approve();
    let begun = Instant::now();
    env.provost(&["run"]).exits(4);
    assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
    assert_eq!(named(&env, "ATTEMPT_ENDED")[0]["details"]["end"]["kind"], "timed_out");
    let breach = &named(&env, "BUDGET_EXCEEDED")[0]["details"];
    assert_eq!(breach["resource"], "wall_clock");
    // Time in which the plan waits for a person is not counted.
    let before = cost(&env)["wall_ms"].clone();
    env.provost(&["run"]).exits(4);
    assert_eq!(cost(&env)["wall_ms"], before);
    assert_eq!(named(&env, "TASK_STARTED").len(), 1);
}

#[test]
fn a_harness_that_is_killed_keeps_what_it_had_reserved() {
    let stalls = "[[step]]\nnumber = 1\nattempt = 1\ndo = [{ hang = true }]\n";
    let env = place("max 120k tokens", &(honest() + stalls));
    env.approve();
    let mut child = env.start(&["run"]);
    let begun = Instant::now();
    while !env.events().contains(&"TASK_STARTED".to_owned()) {
        assert!(begun.elapsed() < Duration::from_secs(300), "it was never begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
    env.provost(&["run"]).exits(4);
    // 20k are charged for the lost attempt and 45k for the other; 55k are left, and then 10k.
    assert_eq!(env.states(), "1 passed, 2 passed, 3 blocked");
    let details = &named(&env, "BUDGET_EXCEEDED")[0]["details"];
    assert_eq!((&details["spent"]["tokens"], &details["unknown"]), (&json!(110_000), &json!(1)));
    assert_eq!(cost(&env)["tokens"], Value::Null);
}

/// A client that prints this and exits with 0.
fn client(speaks: &str, prints: &str, more: &str) -> Env {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    env.write("printed", prints);
    env.write("agent.sh", "mkdir -p out; touch out/1; cat printed\n");
    let role = format!(
        "[agents.coder]\ndriver = \"command\"\ncommand = [\"bash\", \"agent.sh\"]\nspeaks = \"{speaks}\"\n{more}"
    );
    env.write("provost.toml", role);
    let env = env.isolation("in-place");
    env.approve();
    env
}

#[test]
fn a_client_is_read_in_its_own_form_and_priced() {
    let codex = "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"All done.\"}}\n\
                 {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1000000,\"output_tokens\":500}}\n";
    let env = client("codex", codex, "model = \"my-model\"\n[prices.\"my-*\"]\ninput = 1.5\noutput = 0\n");
    env.provost(&["run"]).exits(0);
    assert_eq!(named(&env, "STEP_CLAIMED")[0]["details"]["evidence"], "All done.");
    let usage = &named(&env, "ATTEMPT_ENDED")[0]["details"]["usage"];
    assert_eq!((&usage["model"], &usage["micro_usd"]), (&json!("my-model"), &json!(1_500_000)));
    assert_eq!(cost(&env)["usd"], 1.5);
    // Without a known price, the cost is unknown.
    let env = client("codex", codex, "model = \"model-without-a-price\"\n");
    env.provost(&["run"]).exits(0);
    let cost = cost(&env);
    assert_eq!((&cost["tokens"], &cost["usd"]), (&json!(1_000_500), &Value::Null));
}

#[test]
fn a_client_that_reports_each_call_is_stopped_at_the_limit() {
    let call = |id: u32| {
        format!(
            "{{\"type\":\"assistant\",\"session_id\":\"s\",\"message\":{{\"id\":\"m{id}\",\"model\":\"x\",\"content\":[],\
             \"usage\":{{\"input_tokens\":400,\"output_tokens\":100}}}}}}\n"
        )
    };
    let env = Env::new(
        &plan(&["test -f out/1"], "retry(2), then escalate")
            .replace("# A plan\n", "# A plan\n\n**Budget:** max 1000 tokens\n"),
    );
    env.write("printed", format!("{}{}", call(1), call(2)));
    env.write("agent.sh", "cat printed; sleep 600\n");
    env.write(
        "provost.toml",
        "[agents.coder]\ndriver = \"command\"\ncommand = [\"bash\", \"agent.sh\"]\nspeaks = \"claude\"\n",
    );
    let env = env.isolation("in-place");
    env.approve().provost(&["run"]).exits(4);
    let ended = &named(&env, "ATTEMPT_ENDED")[0]["details"];
    assert_eq!(ended["end"]["reason"], "provost: the budget is used up: 1k tokens of 1k tokens");
    assert_eq!(
        (&ended["usage"]["input_tokens"], &ended["usage"]["output_tokens"]),
        (&json!(800), &json!(200))
    );
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("the budget for models is used up"), "{inbox}");
    assert_eq!(cost(&env)["tokens"], 1000);
}

#[test]
fn a_program_that_a_budget_cannot_stop_is_named_at_the_gate() {
    let text = plan(&["test -f out/1"], "escalate");
    let budget = |budget: &str| text.replace("# A plan\n", &format!("# A plan\n\n**Budget:** {budget}\n"));
    let shown = |text: &str, role: &str| {
        let env = Env::new(text);
        env.write("provost.toml", format!("[agents.coder]\n{role}\n"));
        env.isolation("in-place").provost(&["show"]).exits(0).out
    };
    let codex = "driver = \"codex\"\nprogram = \"/bin/true\"";
    let said = shown(&budget("max 9k tokens"), codex);
    let words =
        "coder: the budget in tokens cannot end a running attempt, because its program reports usage only";
    assert!(said.contains(words), "{said}");
    assert!(!shown(&text, codex).contains("cannot end"), "no limit, no word about it");
    let claude = "driver = \"claude\"\nprogram = \"/bin/true\"\nmodel = \"model-without-a-price\"";
    assert!(!shown(&budget("max 9k tokens"), claude).contains("cannot end"));
    let said = shown(&budget("max $1"), claude);
    assert!(said.contains("because the price of `model-without-a-price` is unknown"), "{said}");
}

#[test]
fn a_client_that_calls_an_error_a_success_has_not_ended_well() {
    let claude = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"API Error: 401 invalid x-api-key\"}\n";
    let env = client("claude", claude, "");
    env.write("agent.sh", "cat printed\n");
    env.provost(&["run"]).exits(4);
    let ended = &named(&env, "ATTEMPT_ENDED")[0]["details"];
    assert_eq!(ended["end"]["exit_code"], 1);
    assert_eq!(ended["report"], "API Error: 401 invalid x-api-key");
    assert_eq!(named(&env, "FAILURE_CLASSIFIED")[0]["details"]["failure_type"], "permission");
}

#[test]
fn what_cannot_be_read_is_a_report_as_it_stands() {
    for (speaks, prints) in
        [("claude", "just words\n"), ("json", "{\"half\": \n"), ("gemini", "\u{1b}[2J{}\n")]
    {
        let env = client(speaks, prints, "");
        env.provost(&["run"]).exits(0);
        assert!(named(&env, "ATTEMPT_ENDED")[0]["details"]["usage"].is_null(), "{speaks}");
        let claim = named(&env, "STEP_CLAIMED")[0]["details"]["evidence"].clone();
        let word = prints.trim().trim_start_matches('\u{1b}');
        assert!(claim.as_str().is_some_and(|claim| claim.contains(word)), "{speaks}: {claim}");
    }
}

#[test]
fn limits_that_cannot_be_read_are_refused_where_they_are_typed() {
    let env = place("max 100k tokens", &honest());
    let said = env.provost(&["answer", "3", "retry", "--budget", "a lot"]).exits(2);
    assert!(said.err.contains("write them as `max 200k tokens, $1.50, 20 minutes`"), "{}", said.err);
    let said = env.provost(&["answer", "3", "skip", "--budget", "$1"]).exits(2);
    assert!(said.err.contains("needs `retry` and a step"), "{}", said.err);
}

#[test]
fn proofs_say_what_it_cost() {
    let env = place("max 1m tokens", &honest());
    env.approve();
    env.provost(&["run"]).exits(0);
    let proofs =
        std::fs::read_dir(env.state().join("proofs")).expect("proofs").flatten().next().expect("one");
    let text = std::fs::read_to_string(proofs.path()).expect("text");
    let last = text.lines().last().expect("the plan's own");
    let envelope: Value = serde_json::from_str(last).expect("an envelope");
    let payload = envelope["payload"].as_str().expect("a payload");
    let decoded = std::process::Command::new("base64")
        .arg("--decode")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            use std::io::Write as _;
            child.stdin.take().expect("stdin").write_all(payload.as_bytes())?;
            child.wait_with_output()
        })
        .expect("decoded");
    let statement: Value = serde_json::from_slice(&decoded.stdout).expect("a statement");
    assert_eq!(statement["predicate"]["cost"]["tokens"], 135_000);
    assert_eq!(statement["predicate"]["cost"]["usd"], 0.06);
}

#[test]
fn a_budget_is_raised_on_the_page() {
    let env = place_at("clean", "max 100k tokens, $1", &honest());
    env.approve();
    env.provost(&["run"]).exits(4);
    let server = Server::start(&env);
    let cookie = server.enter();
    let inbox = server.browse("/inbox", &cookie).is(200).body;
    assert!(inbox.contains("cost more?"), "{inbox}");
    let (_, rest) = inbox.split_once("action=\"/inbox/").expect("a form");
    let item = format!("/inbox/{}", rest.split('"').next().expect("an address"));
    let answer = |limits: &str| {
        let limits = limits.replace('$', "%24").replace(' ', "+");
        let form = format!("choice=retry&budget={limits}&note=worth+it&form_key={}", form_key(&inbox));
        server.submit(&item, &cookie, &form)
    };
    assert!(answer("lots").is(422).body.contains("`lots` is no limit"));
    assert!(answer("max 80k tokens").is(409).body.contains("90k tokens already counted as spent"));
    assert_eq!(env.states(), "1 passed, 2 passed, 3 blocked");
    let done = answer("max 200k tokens").is(303);
    let page = server.browse(done.head("location"), &cookie).is(200).body;
    assert!(page.contains("Recorded: ") && page.contains("worth it"), "{page}");
    let answered = &named(&env, "HUMAN_ANSWERED")[0];
    assert_eq!(answered["details"]["budget"]["tokens"], 200_000, "{answered}");
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed, 2 passed, 3 passed");
}
