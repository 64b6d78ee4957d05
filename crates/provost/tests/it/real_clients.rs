//! Tests real clients: installed from the registry, set up by `provost init`, and run without a person
//! against a scripted model.

mod install;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use provost_rehearsal::{Model, Rehearsal, ScriptedCall, Turn};
use serde_json::{Value, json};

use crate::env::{Answer, Env, answer, own_checks, plan};
use install::Client;

const PLAN: &str = "write-two-files";
const PROMPT: &str = "Write two files, with a plan.";

/// Creates a repository without a plan.
fn repository(configuration: &str) -> Env {
    let env = Env::new("");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("gone");
    env.write("provost.toml", own_checks(configuration));
    env.write("out/README", "what is written goes here\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "an empty place"]);
    env
}

fn check(name: &str) -> String {
    format!("test -f out/{name} || {{ echo out/{name} is missing >&2; exit 1; }}")
}

fn plans() -> Turn {
    Turn::calls([ScriptedCall::mcp(
        "plan_create",
        json!({
            "objective": "Write two files",
            "steps": [
                { "title": "Write a", "task": "Write out/a.", "check": check("a") },
                { "title": "Write b", "task": "Write out/b.", "check": check("b") },
            ],
            "postconditions": [{ "text": "Both are there", "check": "test -f out/a && test -f out/b" }],
            "touches": ["out/**"],
        }),
    )])
    .saying("I make a plan.")
}

fn writes(env: &Env, name: &str) -> Turn {
    let path = env.work().join("out").join(name);
    Turn::calls([ScriptedCall::write(path.to_string_lossy(), "done\n")])
}

/// Runs a session of the client, after `provost init`.
fn session(env: &Env, client: Client, model: &Rehearsal) -> Answer {
    let mut session = client.session(PROMPT);
    set_up(env, client, model, &mut session);
    answer(session.output().expect("a client"))
}

/// Sets a client up with `provost init`, and gives the command its environment.
fn set_up(env: &Env, client: Client, model: &Rehearsal, session: &mut Command) {
    let variables = client.prepare(env, model);
    let folder = client.installed().expect("it is installed");
    let path = std::env::join_paths(
        [folder].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let path = path.expect("a PATH");
    let mut init = env.command(&["init", "--agent", client.word(), "--yes", "--trust"]);
    answer(init.env("PATH", &path).envs(variables.iter().cloned()).output().expect("provost")).exits(0);
    let mut doctor = env.command(&["doctor", "--json"]);
    let doctor = answer(doctor.env("PATH", &path).envs(variables.iter().cloned()).output().expect("provost"));
    assert_eq!(doctor.exits(0).json()["clients"], json!([{ "client": client.word(), "findings": [] }]));
    session.env_clear();
    for (name, value) in env.command(&[]).get_envs() {
        session.env(name, value.unwrap_or_default());
    }
    session.env("PATH", &path).envs(variables).current_dir(env.work()).stdin(Stdio::null());
}

/// `opencode serve`, which also serves the terminal of opencode.
struct OpencodeServer {
    child: Child,
    address: String,
}

impl OpencodeServer {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("opencode serve");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let mut addresses = lines
            .map_while(Result::ok)
            .filter_map(|line| Some(line.split_once("http://")?.1.trim().to_owned()));
        let address = addresses.next().expect("an address");
        Self { child, address }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("a time-out");
        let (body, address) = (body.to_string(), &self.address);
        let head = format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json");
        write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for OpencodeServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn opencode_with_a_server_is_judged_once_at_the_end_of_each_turn() {
    let Some(folder) = Client::Opencode.installed() else { return };
    let env = repository("");
    let turns = [
        plans(),
        writes(&env, "a").saying("Now the first file.").expecting("is made"),
        Turn::text("Everything is done!"),
        writes(&env, "b").saying("I see.").expecting("Do not stop yet").expecting("out/b is missing"),
        Turn::text("Now it is done."),
    ];
    let model = Model::script(turns).side(Turn::text("Two files")).serve().expect("a model");
    let mut command = Command::new(folder.join("opencode"));
    command.args(["serve", "--port", "0", "--hostname", "127.0.0.1"]);
    set_up(&env, Client::Opencode, &model, &mut command);
    let server = OpencodeServer::start(command);
    let session = server.post("/session", &json!({}))["id"].as_str().expect("a session").to_owned();
    let prompt = json!({ "parts": [{ "type": "text", "text": PROMPT }] });
    server.post(&format!("/session/{session}/message"), &prompt);
    let until = Instant::now() + Duration::from_secs(300);
    while status(&env)["stage"] != "done" && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(model.failures().is_empty(), "{:#?}", model.failures());
    assert_eq!((status(&env)["stage"].as_str(), model.turns_left("")), (Some("done"), 0));
    // Two turns: the first passes step 1 and fails at step 2, the second passes step 2.
    assert_eq!(events(&env, "TASK_STARTED").len(), 3);
}

fn events(env: &Env, name: &str) -> Vec<Value> {
    let log = env.provost(&["log", PLAN, "--json", "--event", name]).exits(0);
    log.lines().iter().map(|event| event["details"].clone()).collect()
}

fn status(env: &Env) -> Value {
    env.provost(&["status", PLAN, "--json"]).exits(0).json()
}

fn states(env: &Env) -> Vec<String> {
    let steps = status(env)["steps"].as_array().cloned().unwrap_or_default();
    steps.iter().map(|step| step["state"].as_str().unwrap_or("?").to_owned()).collect()
}

/// Returns the turns that a client needs before it sees provost's tools.
fn opening(client: Client) -> Vec<Turn> {
    match client {
        // With models of its catalogue, Codex hides the tools of MCP servers behind a search.
        Client::Codex => vec![Turn::calls([ScriptedCall::Search { search: "provost plan".to_owned() }])],
        _ => Vec::new(),
    }
}

fn is_held_until_the_checks_hold(client: Client) {
    if client.installed().is_none() {
        return;
    }
    let env = repository("");
    let turns = [
        plans(),
        writes(&env, "a").expecting("is made"),
        Turn::text("Everything is done!"),
        writes(&env, "b").expecting("Do not stop yet").expecting("out/b is missing"),
        Turn::text("Now it is done."),
    ];
    let script = opening(client).into_iter().chain(turns);
    let model = Model::script(script).side(Turn::text("Two files")).serve().expect("a model");
    let said = session(&env, client, &model);
    let all = format!("{}\n--- stderr\n{}", said.out, said.err);
    assert!(model.failures().is_empty(), "{:#?}\n{all}", model.failures());
    assert_eq!((said.code, model.turns_left("")), (0, 0), "{all}");
    assert_eq!(
        (status(&env)["stage"].as_str(), states(&env).join(" ").as_str()),
        (Some("done"), "passed passed")
    );
    let begun = events(&env, "TASK_STARTED");
    let target = format!("session:{}", client.word());
    assert!(begun.iter().all(|task| task["target"] == target.as_str()), "{begun:?}");
    let broke = |verdict: &Value| verdict.to_string().contains("out/b is missing");
    assert!(events(&env, "CONTRACT_JUDGED").iter().any(broke));
    env.provost(&["audit", PLAN]).exits(0);
}

fn never_finishes_and_is_let_go_with_the_plan_open(client: Client) {
    if client.installed().is_none() {
        return;
    }
    let env = repository("[hook]\nrefusals = 2\n[verify]\nisolation = \"in-place\"\n");
    let script = opening(client).into_iter().chain([plans(), writes(&env, "a")]);
    let model = Model::script(script)
        .after(Turn::text("Everything is done!"))
        .side(Turn::text("Two files"))
        .serve()
        .expect("a model");
    let said = session(&env, client, &model);
    let all = format!("{}\n--- stderr\n{}", said.out, said.err);
    assert!(model.failures().is_empty(), "{:#?}\n{all}", model.failures());
    assert_eq!(said.code, 0, "{all}");
    model.expect_seen("Do not stop yet");
    assert_eq!(status(&env)["stage"], "in-progress", "{all}");
    assert_eq!(states(&env), ["passed", "blocked"], "{all}");
    let escalated = events(&env, "RECOVERY_ESCALATION");
    assert!(
        escalated.iter().any(|why| why.to_string().contains("the session was released")),
        "{escalated:?}"
    );
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains(&format!("{} asked to stop", client.word())), "{inbox}");
}

/// Runs a step with `provost run` in the strongest sandbox: the client claims at once, and continues the
/// same conversation after the verdict.
fn drives_a_step(client: Client) {
    let keys = format!("model = \"{}\"\n", client.model());
    drives_a_step_with(client, |_| keys.clone(), |model| client.address(model));
}

/// Runs the step with these keys of the role and these variables.
fn drives_a_step_with(
    client: Client,
    keys: impl Fn(&Rehearsal) -> String,
    variables: impl Fn(&Rehearsal) -> Vec<(String, String)>,
) {
    let Some(folder) = client.installed() else { return };
    let env = Env::new(&plan(&[&check("1")], "retry(1), then escalate"));
    env.write("out/README", "what is written goes here\n");
    env.git(&["add", "out"]);
    env.git(&["commit", "--quiet", "--message", "a folder for it"]);
    let program = folder.join(client.word());
    let turns = [
        Turn::text("Everything is done!").using(1000, 10),
        writes(&env, "1").expecting("out/1 is missing").using(1100, 20),
        Turn::text("Now it is done.").using(1200, 30),
    ];
    let model = Model::script(turns).side(Turn::text("A file")).key(install::KEY).serve().expect("a model");
    env.write(
        "provost.toml",
        format!(
            "[agents.coder]\ndriver = \"{}\"\nprogram = \"{}\"\n{}",
            client.word(),
            program.display(),
            keys(&model)
        ),
    );
    env.approve();
    let mut run = env.command(&["run"]);
    let said = answer(run.envs(variables(&model)).output().expect("provost"));
    let log = env.provost(&["log", "--json"]).out;
    let all = format!("{}{}\n--- log\n{log}", said.out, said.err);
    assert!(model.failures().is_empty(), "{:#?}\n{all}", model.failures());
    assert_eq!((said.code, model.turns_left("")), (0, 0), "{all}");
    assert_eq!(env.states(), "1 passed");
    let ended = env.provost(&["log", "--json", "--event", "ATTEMPT_ENDED"]).exits(0).lines();
    let [first, second] = [0, 1].map(|index| ended[index]["details"].clone());
    let claimed = env.provost(&["log", "--json", "--event", "STEP_CLAIMED"]).exits(0).lines();
    assert_eq!(claimed[0]["details"]["evidence"], "Everything is done!");
    assert_eq!(
        (&first["notes"], &second["notes"]),
        (&Value::Null, &Value::Null),
        "nothing else was reached for"
    );
    assert!(first["session"].is_string() && first["session"] == second["session"], "{first} {second}");
    assert_eq!(second["usage"]["input_tokens"], 2300, "{second}");
    assert_eq!(second["usage"]["output_tokens"], 50, "{second}");
    let transcript = env.provost(&["log", "--transcript", "1.2"]).exits(0).out;
    let has_call = transcript.lines().any(|line| line.starts_with("→ ") && line.contains("out/1"));
    assert!(
        has_call && transcript.contains("Now it is done.\nused: 2,300 tokens in, 50 tokens"),
        "{transcript}"
    );
    assert!(!transcript.contains("\"type\""), "{transcript}");
}

/// Runs steps on a server that opencode does not know: by its address, and behind the meter.
#[test]
fn opencode_drives_a_step_on_a_server_of_your_own() {
    let own = |_: &Rehearsal| vec![("OWN_KEY".to_owned(), install::KEY.to_owned())];
    let by_address = |model: &Rehearsal| {
        format!("model = \"own/scripted-1\"\nbase_url = \"{}/v1\"\nkey_env = \"OWN_KEY\"\n", model.url())
    };
    let metered = |model: &Rehearsal| {
        let meter = format!("{{ api = \"chat\", upstream = \"{}/v1\", key_env = \"OWN_KEY\" }}", model.url());
        format!("model = \"own/scripted-1\"\nmeter = {meter}\n")
    };
    drives_a_step_with(Client::Opencode, by_address, own);
    drives_a_step_with(Client::Opencode, metered, own);
}

/// Takes a new repository to its first verified step with `provost start`.
fn starts_a_repository(client: Client) {
    let Some(folder) = client.installed() else { return };
    let env = repository("");
    match client {
        // The scripted model does not know the tools of Codex's own models.
        Client::Codex => {
            let role = format!("[agents.coder]\ndriver = \"codex\"\nmodel = \"{}\"\n", client.model());
            env.write("provost.toml", role);
        }
        _ => std::fs::remove_file(env.work().join("provost.toml")).expect("gone"),
    }
    env.write("add.py", "def add(a, b):\n    return a + b\n");
    let test = "import unittest\nfrom add import add\n\nclass AddTest(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n";
    env.write("tests/test_add.py", test);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a sum"]);
    let first = env.work().join("tests/test_first.py");
    let more = test.replace("test_add", "test_zero").replace("add(2, 3), 5", "add(0, 3), 3");
    let turns =
        [Turn::calls([ScriptedCall::write(first.to_string_lossy(), &more)]), Turn::text("I wrote a test.")];
    let model = Model::script(turns).side(Turn::text("A test")).serve().expect("a model");
    let path = std::env::join_paths(
        [folder].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut start = env.command(&["start", "--yes"]);
    if client != Client::Codex {
        start.args(["--agent", client.word()]);
    }
    let start = start.env("PATH", path.expect("a PATH")).envs(client.address(&model));
    let said = answer(start.output().expect("provost"));
    let all = format!("{}\n--- stderr\n{}", said.out, said.err);
    assert!(model.failures().is_empty(), "{:#?}\n{all}", model.failures());
    assert_eq!((said.code, model.turns_left("")), (0, 0), "{all}");
    let status = env.provost(&["status", "first", "--json"]).exits(0).json();
    assert_eq!(
        (&status["stage"], &status["steps"][0]["pass"]),
        (&json!("done"), &json!("verified")),
        "{all}"
    );
}

macro_rules! tests_of {
    ($client:ident: $($test:ident),*) => { $(
        #[test]
        fn $test() {
            super::$test(Client::$client);
        }
    )* };
}

/// Clients that provost also drives.
macro_rules! of_every_driver {
    ($($name:ident: $client:ident),*) => { $(
        mod $name {
            use super::*;

            tests_of!($client: is_held_until_the_checks_hold, never_finishes_and_is_let_go_with_the_plan_open,
                starts_a_repository, drives_a_step);
        }
    )* };
}

/// Clients that only a hook holds.
macro_rules! of_every_other {
    ($($name:ident: $client:ident),*) => { $(
        mod $name {
            use super::*;

            tests_of!($client: is_held_until_the_checks_hold, never_finishes_and_is_let_go_with_the_plan_open);
        }
    )* };
}

of_every_driver! { claude: Claude, codex: Codex, gemini: Gemini, opencode: Opencode }
of_every_other! { qwen: Qwen, copilot: Copilot }
