//! Tests a metered role: its agent has a token instead of a key, and its usage is in the log.

use provost_rehearsal::{Model, Rehearsal, Turn};
use serde_json::Value;

use crate::env::{Answer, Env, answer, plan};

const KEY: &str = "sk-real-0123456789abcdef";

/// Asks the model the given number of times, and writes down its own environment.
const ASKS: &str = r#"
mkdir -p out
cat /proc/self/environ 2>&1 | tr '\0' '\n' > out/environ
for n in $(seq "${TIMES:-2}"); do
    curl -sS --max-time 20 "$ANTHROPIC_BASE_URL/v1/messages" -H "x-api-key: $ANTHROPIC_API_KEY" \
        -d '{"model": "claude-sonnet-4-5", "stream": true, "messages": [{"role": "user", "content": "go"}]}' || echo "failed: $?"
done > out/1
curl -sS --max-time 5 "$MODEL/v1/models" > out/past 2>&1
curl -sS --max-time 5 "$ANTHROPIC_BASE_URL/v1/files" -H "x-api-key: $ANTHROPIC_API_KEY" > out/files
grep -o 'echo of [a-z0-9-]*' out/1 | head -1
echo asked
"#;

fn metered(text: &str, line: &str) -> Env {
    let env = Env::new(text).agent(ASKS);
    env.write("provost.toml", format!("{}meter = {{ {line} }}\n", env.read("provost.toml")));
    env
}

fn run(env: &Env, model: &Rehearsal, variables: &[(&str, &str)]) -> Answer {
    let mut command = env.command(&["run"]);
    command.env("MODEL", model.url()).envs(variables.iter().copied());
    answer(command.output().expect("provost"))
}

fn attempts(env: &Env) -> Vec<Value> {
    let log = env.provost(&["log", "--json", "--event", "ATTEMPT_ENDED"]).exits(0);
    log.lines().iter().map(|event| event["details"].clone()).collect()
}

fn model() -> Rehearsal {
    let turn = Turn::text(format!("echo of {KEY}")).using(1000, 50).cached(600, 0);
    Model::script([]).after(turn).key(KEY).serve().expect("a model")
}

fn one_step() -> String {
    plan(&["test -s out/1"], "escalate")
}

#[test]
fn the_meters_count_is_in_the_log_and_the_key_is_nowhere() {
    for level in ["in-place", "clean"] {
        let model = model();
        let env = metered(&one_step(), &format!("api = \"anthropic\", upstream = \"{}\"", model.url()));
        let env = env.isolation(level);
        if level == "clean" && !env.has_fences() {
            continue;
        }
        env.approve();
        run(&env, &model, &[("ANTHROPIC_API_KEY", KEY), ("COPY_OF_IT", KEY)]).exits(0);
        let ended = attempts(&env);
        let usage = &ended[0]["usage"];
        assert_eq!(
            (&usage["calls"], &usage["input_tokens"], &usage["output_tokens"], &usage["cache_read_tokens"]),
            (&2.into(), &2000.into(), &100.into(), &1200.into()),
            "{level}: {ended:?} {}",
            env.read("out/1")
        );
        assert_eq!(usage["model"], "claude-sonnet-4-5");
        let environ = env.read("out/environ");
        assert!(environ.contains("ANTHROPIC_API_KEY=sk-provost-") && !environ.contains(KEY), "{environ}");
        assert!(env.read("out/files").contains("the meter blocks"), "{}", env.read("out/files"));
        let log = env.provost(&["log", "--json"]).exits(0).out;
        assert!(log.contains("echo of") && !log.contains(KEY), "{log}");
        assert_eq!(model.requests().len(), 2);
        // In a sandbox the agent cannot bypass the meter.
        let past = env.read("out/past");
        assert_eq!(
            past.contains("scripted-1") || past.contains("Incorrect API key"),
            level != "clean",
            "{past}"
        );
    }
}

#[test]
fn the_budget_of_the_plan_stops_the_next_call() {
    let model = model();
    let text = one_step().replace("## Steps", "**Budget:** max 2000 tokens\n\n## Steps");
    let env =
        metered(&text, &format!("api = \"anthropic\", upstream = \"{}\"", model.url())).isolation("in-place");
    env.approve();
    run(&env, &model, &[("ANTHROPIC_API_KEY", KEY), ("TIMES", "5")]);
    assert_eq!(model.requests().len(), 2);
    let ended = attempts(&env);
    assert_eq!(ended[0]["usage"]["calls"], 2);
    assert_eq!(
        ended[0]["notes"][0],
        "provost blocked further calls to the model: the budget is used up: 2100 of 2000 tokens"
    );
    assert_eq!(env.read("out/1").matches("billing_error").count(), 3);
}

#[test]
fn the_wait_that_the_api_asks_for_is_waited_although_the_client_does_not_say_it() {
    let refusal = Turn::status(429).with_header("retry-after", "40000");
    let model = Model::script([]).after(refusal).key(KEY).serve().expect("a model");
    let line = format!("api = \"anthropic\", upstream = \"{}\"", model.url());
    let env = metered(&plan(&["test -f out/2"], "retry(2), then escalate"), &line);
    env.write("agent.sh", format!("{ASKS}\necho the model did not answer >&2; exit 1\n"));
    let env = env.isolation("in-place");
    env.approve();
    run(&env, &model, &[("ANTHROPIC_API_KEY", KEY)]).exits(4);
    let ended = attempts(&env);
    assert_eq!(ended.len(), 1, "{ended:?}");
    let report = ended[0]["report"].as_str().unwrap_or_default();
    assert!(
        report.contains("provost: the model's API answered with HTTP 429, retry-after: 40000"),
        "{report}"
    );
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("the server asks to wait for 11h"), "{inbox}");
}

#[test]
fn a_dollar_budget_for_a_model_without_a_price_says_unknown() {
    let model = model();
    let text = plan(&["test -f out/2"], "retry(2), then escalate");
    let text = text.replace("## Steps", "**Budget:** max $2\n\n## Steps");
    let line = format!("api = \"anthropic\", upstream = \"{}\"", model.url());
    let env = metered(&text, &line);
    env.write(
        "agent.sh",
        format!("{}\ncat out/1 >&2; exit 1\n", ASKS.replace("claude-sonnet-4-5", "model-without-a-price")),
    );
    let env = env.isolation("in-place");
    env.approve();
    run(&env, &model, &[("ANTHROPIC_API_KEY", KEY)]).exits(4);
    assert_eq!(model.requests().len(), 0);
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("the cost of the model is unknown"), "{inbox}");
    assert!(!inbox.contains("used up"), "{inbox}");
}

#[test]
fn a_key_may_come_from_a_command_and_is_taken_out_of_all_that_is_said() {
    let model = model();
    let env = Env::new(&one_step()).agent(ASKS);
    let place = env.folder().join("key");
    std::fs::write(&place, KEY).expect("a file");
    let line = format!(
        "meter = {{ api = \"anthropic\", upstream = \"{}\", key_command = [\"cat\", \"{}\"] }}\n",
        model.url(),
        place.display()
    );
    env.write("provost.toml", format!("{}{line}", env.read("provost.toml")));
    let env = env.isolation("in-place");
    env.approve();
    run(&env, &model, &[]).exits(0);
    assert_eq!(attempts(&env)[0]["usage"]["calls"], 2);
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("echo of") && !log.contains(KEY), "{log}");
}

#[test]
fn without_its_key_a_metered_agent_is_not_started() {
    let model = model();
    let env = metered(&one_step(), &format!("api = \"anthropic\", upstream = \"{}\"", model.url()));
    let env = env.isolation("in-place");
    env.approve();
    run(&env, &model, &[]);
    let ended = attempts(&env);
    let reason = ended[0]["end"]["reason"].as_str().unwrap_or_default().to_owned();
    let words =
        "[agents.coder] is metered: the variable ANTHROPIC_API_KEY with the key of its model is not set";
    assert!(reason.starts_with(words), "{ended:?}");
    assert!(env.read("out/1").is_empty(), "it was not started");
}

#[test]
fn whom_the_key_is_sent_to_is_shown_at_the_gate_and_approved() {
    let env = metered(&one_step(), "api = \"anthropic\"");
    let shown = env.provost(&["show"]).exits(0).out;
    let line = "coder: metered, anthropic at https://api.anthropic.com, its key in ANTHROPIC_API_KEY";
    assert!(shown.contains(line), "{shown}");
    let revision = env.revision();
    env.approve();
    for line in [
        "api = \"anthropic\", upstream = \"https://evil.example\"",
        "api = \"anthropic\", key_command = [\"/bin/evil\"]",
    ] {
        env.write(
            "provost.toml",
            env.read("provost.toml")
                .lines()
                .filter(|line| !line.starts_with("meter"))
                .collect::<Vec<_>>()
                .join("\n"),
        );
        env.write("provost.toml", format!("{}\nmeter = {{ {line} }}\n", env.read("provost.toml")));
        assert_ne!(env.revision(), revision, "{line}");
        env.provost(&["run"]).exits(4);
    }
}

#[test]
fn a_slip_in_it_is_told_where_it_is() {
    for (line, words) in [
        ("api = \"antropic\"", "there is no API `antropic`; did you mean `anthropic`?"),
        (
            "api = \"anthropic\", upstrem = \"x\"",
            "unknown key `upstrem` in [agents.coder.meter]; did you mean `upstream`?",
        ),
        ("upstream = \"https://a\"", "[agents.coder.meter] has no `api`"),
        ("api = \"chat\"", "[agents.coder.meter] has no `upstream`"),
        ("api = \"chat\", upstream = \"gpu.lan\"", "`gpu.lan` is not a URL such as"),
        ("api = \"openai\", key_env = \"sk-abc-123\"", "`key_env` is the name of a variable"),
        ("api = \"openai\", key_env = \"K\", key_command = [\"k\"]", "not both"),
    ] {
        let said = metered(&one_step(), line).provost(&["show"]).exits(2).err;
        assert!(said.contains(words), "{line}: {said}");
        assert!(!line.contains("sk-abc") || said.matches("sk-abc-123").count() <= 1, "{said}");
    }
}
