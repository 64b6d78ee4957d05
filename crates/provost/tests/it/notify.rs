//! Tests that notifications are sent once, also after failed tries, and that no run waits for them.

mod messages;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provost_core::model::timestamp::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::env::{Answer, Env, HONEST, answer, plan};

fn place(contracts: &[&str], agent: &str, notify: &str) -> Env {
    let env = Env::new(&plan(contracts, "escalate")).agent(agent).isolation("in-place");
    env.write("provost.toml", env.read("provost.toml") + "[notify]\n" + notify);
    env
}

/// Returns what the command was told, oldest first.
fn told(env: &Env) -> Vec<Value> {
    env.read("told").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const TELL: &str = "command = [\"bash\", \"-c\", \"cat >> told\"]\n";

#[test]
fn a_command_is_told_each_item_once_also_after_a_restart() {
    let env = place(&["test -f out/1"], "echo my token is $SOME_TOKEN\n", TELL);
    env.provost(&["run"]).exits(4);
    env.provost(&["run"]).exits(4);
    let all = told(&env);
    assert_eq!((all.len(), &all[0]["kind"]), (1, &"approval".into()));
    assert!(all[0]["text"].as_str().unwrap().starts_with("provost: approval: "), "{}", all[0]);
    env.approve();
    let run = env.command(&["run"]).env("SOME_TOKEN", "hunter2-hunter2").output().expect("provost");
    answer(run).exits(4);
    env.provost(&["run"]).exits(4);
    env.provost(&["inbox"]).exits(0);
    let all = told(&env);
    assert_eq!((all.len(), &all[1]["kind"], &all[1]["overdue"]), (2, &"escalation".into(), &Value::Null));
    let claim = all[1]["context"]["claim"].as_str().expect("a claim");
    assert!(claim.contains("my token is") && !env.read("told").contains("hunter2"), "{claim}");
}

#[test]
fn a_reminder_is_told_again() {
    let env = place(&["test -f out/1"], HONEST, TELL);
    env.provost(&["run"]).exits(4);
    env.write("provost.toml", env.read("provost.toml") + "[gate]\nremind_after = \"1ms\"\n");
    env.provost(&["inbox"]).exits(0);
    let overdue: Vec<bool> = told(&env).iter().map(|item| item["overdue"].is_u64()).collect();
    assert_eq!(overdue, [false, true]);
}

#[test]
fn who_is_told_cannot_answer() {
    let provost = env!("CARGO_BIN_EXE_provost");
    let hook = format!(
        "command = [\"bash\", \"-c\", \"cat > /dev/null; {provost} answer 1 retry; echo $? >> code\"]\n"
    );
    let env = place(&["test -f out/1"], "echo done\n", "");
    env.approve();
    env.write("provost.toml", env.read("provost.toml") + &hook);
    env.provost(&["run"]).exits(4);
    assert_eq!((env.read("code").trim(), env.states().as_str()), ("5", "1 blocked"));
    let events = env.events();
    let has = |name: &str| events.iter().any(|event| event == name);
    assert_eq!((has("HUMAN_ANSWERED"), has("TAMPER_DETECTED")), (false, true));
}

#[test]
fn a_command_that_fails_or_hangs_is_said_and_fails_no_run() {
    for (hook, words) in [
        ("echo no such room >&2; exit 3", "it exited with 3: no such room"),
        ("sleep 600", "could not notify"),
    ] {
        let env = place(&["test -f out/1"], HONEST, &format!("command = [\"bash\", \"-c\", \"{hook}\"]\n"));
        let begun = Instant::now();
        let run = env.provost(&["run"]).exits(4);
        assert!(run.err.contains(words), "{}", run.err);
        assert!(begun.elapsed() < Duration::from_secs(300), "{hook}: {:?}", begun.elapsed());
    }
    let env = place(&["test -f out/1"], HONEST, "command = [\"no-such-program\"]\n");
    let run = env.provost(&["run"]).exits(4);
    assert!(run.err.contains("program not found"), "{}", run.err);
}

#[test]
fn the_desktop_is_told_where_there_is_one() {
    let env = place(&["test -f out/1"], HONEST, "desktop = true\n");
    let tools = env.folder().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let said = env.folder().join("said");
    let program = tools.join("notify-send");
    std::fs::write(&program, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n", said.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    answer(env.command(&["run"]).env("PATH", path).output().unwrap()).exits(4);
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("provost: approval\nA plan: the plan is not approved"), "{said}");
    // Without a desktop no run complains; `provost doctor` reports it.
    let env = place(&["test -f out/1"], HONEST, "desktop = true\n");
    let run = env.provost(&["run"]).exits(4);
    assert!(!run.err.contains("desktop"), "{}", run.err);
    let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
    let names: Vec<&Value> = doctor["offers"].as_array().unwrap().iter().map(|line| &line["name"]).collect();
    assert!(names.contains(&&Value::from("desktop notifications")), "{names:?}");
}

/// A request as it arrived.
pub(crate) struct Request {
    headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Starts a receiver that gives these answers in order, and then does not answer.
pub(crate) fn receiver(answers: &'static [u16]) -> (u16, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for (count, stream) in listener.incoming().flatten().enumerate() {
            let Some(request) = read(&stream) else { continue };
            let _ = sender.send(request);
            match answers.get(count) {
                Some(status) => {
                    let answer =
                        format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                    let _ = (&stream).write_all(answer.as_bytes());
                }
                None => silent.push(stream),
            }
        }
    });
    (port, requests)
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    lines.read_exact(&mut body).ok()?;
    Some(Request { headers, body: String::from_utf8(body).ok()? })
}

/// Computes HMAC-SHA256 from its definition.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0u8; 64];
    block[..key.len()].copy_from_slice(key);
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

fn with_secret(env: &Env, arguments: &[&str]) -> Answer {
    answer(env.command(arguments).env("HOOK_SECRET", "whsec_c2VjcmV0IGtleQ==").output().expect("provost"))
}

#[test]
fn a_webhook_is_signed_and_tried_until_it_is_taken_and_then_never_again() {
    let (port, requests) = receiver(&[500, 503, 204]);
    let hook = format!(
        "[[notify.webhook]]\nurl = \"http://127.0.0.1:{port}/hook?k=v\"\nsecret_env = \"HOOK_SECRET\"\n"
    );
    let env = place(&["test -f out/1"], HONEST, &hook);
    let run = with_secret(&env, &["run"]).exits(4);
    assert!(!run.err.contains("could not notify"), "{}", run.err);
    let all: Vec<Request> = requests.try_iter().collect();
    assert_eq!(all.len(), 3);
    let ids: Vec<&String> = all.iter().map(|request| &request.headers["webhook-id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    for request in &all {
        let (id, second) = (&request.headers["webhook-id"], &request.headers["webhook-timestamp"]);
        let signed = hmac(b"secret key", format!("{id}.{second}.{}", request.body).as_bytes());
        assert_eq!(request.headers["webhook-signature"], format!("v1,{}", BASE64_STANDARD.encode(signed)));
        let item: Value = serde_json::from_str(&request.body).expect("JSON");
        assert_eq!((&item["kind"], item["id"].as_str()), (&"approval".into(), Some(id.as_str())));
    }
    with_secret(&env, &["run"]).exits(4);
    assert_eq!(requests.try_iter().count(), 0, "it was told twice");
}

#[test]
fn nothing_is_sent_unsigned_where_the_secret_is_missing_and_no_refusal_is_tried_again() {
    let (port, requests) = receiver(&[403, 204]);
    let hook =
        format!("[[notify.webhook]]\nurl = \"http://127.0.0.1:{port}/\"\nsecret_env = \"HOOK_SECRET\"\n");
    let env = place(&["test -f out/1"], HONEST, &hook);
    let run = env.provost(&["run"]).exits(4);
    assert!(run.err.contains("the variable HOOK_SECRET with its secret is not set"), "{}", run.err);
    assert_eq!(requests.try_iter().count(), 0);
    let run = with_secret(&env, &["run"]).exits(4);
    assert!(run.err.contains("could not notify the webhook at 127.0.0.1: it answered 403"), "{}", run.err);
    assert_eq!(requests.try_iter().count(), 1);
    // It was not delivered, so the next command that reads the inbox sends it.
    with_secret(&env, &["inbox"]).exits(0);
    assert_eq!(requests.try_iter().count(), 1);
}

#[test]
fn a_webhook_that_never_answers_holds_up_nobody() {
    let (port, hung_up) = silent_receiver();
    let text = plan(&["x", "test -f out/2"], "escalate")
        .replace("**contract:**\n```shell\nx\n```\nexit_code == 0\n", "**contract:** human\n")
        .replace("### 2. Step 2\n", "### 2. Step 2\n\n**needs:** none\n");
    let env = Env::new(&text).agent(HONEST).isolation("in-place");
    let hook = format!("[[notify.webhook]]\nurl = \"http://localhost:{port}/\"\n");
    env.write("provost.toml", env.read("provost.toml") + &hook);
    env.approve();
    let begun = Instant::now();
    let run = env.provost(&["run"]).exits(4);
    let whole = begun.elapsed();
    assert!(run.err.contains("could not notify the webhook at localhost"), "{}", run.err);
    assert!(whole < Duration::from_secs(300), "{whole:?}");
    assert_eq!(env.states(), "1 claimed, 2 passed");
    // The second step started before the run gave up on the webhook.
    let hung_up = hung_up.try_recv().expect("somebody was told").to_string();
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let is_second = |event: &&Value| event["event"] == "TASK_STARTED" && event["details"]["step"] == 2;
    let began = log.iter().find(is_second).expect("step 2 began")["timestamp"].as_str().expect("a time");
    assert!(began < hung_up.as_str(), "step 2 began at {began}, the webhook was left at {hung_up}");
}

/// Starts a receiver that reads one request, never answers, and reports when the other side disconnects.
fn silent_receiver() -> (u16, Receiver<Timestamp>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().unwrap().port();
    let (sender, hung_up) = channel();
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            waiting.push(std::thread::spawn(move || {
                read(&stream).expect("a request");
                let _ = (&stream).read(&mut [0; 16]);
                let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time").as_millis();
                let _ = sender.send(Timestamp(now as u64));
            }));
        }
    });
    (port, hung_up)
}

#[test]
fn what_an_agent_wrote_under_notify_is_not_run_until_a_person_has_read_it() {
    let evil = "sed -i 's/cat >> told/touch owned; cat >> told/' provost.toml\n";
    let env = place(&["test -f out/1"], evil, TELL);
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(told(&env).len(), 1, "its text was there before any agent");
    assert!(env.read("provost.toml").contains("owned"));
    let answer = env.provost(&["run"]).exits(5);
    assert!(answer.err.contains("provost trust"), "{}", answer.err);
    person.provost(&["trust", "provost.toml"]).exits(0);
    for command in ["run", "inbox"] {
        let answer = env.provost(&[command]);
        assert!(answer.err.contains("provost approve --notify"), "{}", answer.err);
    }
    assert!(!env.work().join("owned").exists());
    person.provost(&["approve", "--notify"]).exits(0);
    env.provost(&["inbox"]).exits(0);
    assert!(env.work().join("owned").exists());
}

#[test]
fn addresses_that_are_not_safe_are_refused() {
    for (notify, words) in [
        ("[[notify.webhook]]\nurl = \"http://hooks.example.org/x\"\n", "https://"),
        ("[[notify.webhook]]\nurl = \"ftp://hooks.example.org/x\"\n", "https://"),
        ("[[notify.webhook]]\nurl = \"nowhere\"\n", "must begin with https://"),
        ("[[notify.webhook]]\nurl = \"/hook\"\n", "names no host"),
        (
            "[[notify.webhook]]\nurl = \"https://hooks.example.org\"\nsecret_env = \"not a name\"\n",
            "name of a variable",
        ),
        ("[notify.webhook]\nurl = \"https://hooks.example.org\"\n", "[[notify.webhook]]"),
        ("webhok = 1\n", "did you mean `webhook`?"),
        ("[[notify.webhook]]\nurl = \"https://h.example\"\nformat = \"slak\"\n", "did you mean `slack`?"),
        ("[notify.mail]\nserver = \"mail.example.org\"\nfrom = \"a@b.c\"\nto = [\"a@b.c\"]\n", "smtps://"),
        (
            "[notify.mail]\nserver = \"smtps://ada:secret@m.example\"\nfrom = \"a@b.c\"\nto = [\"a@b.c\"]\n",
            "`password_env`",
        ),
        (
            "[notify.mail]\nserver = \"smtps://m.example\"\nfrom = \"a@b.c\"\nto = [\"nobody\"]\n",
            "is not an e-mail address",
        ),
        ("[serve]\nurl = \"http://plans.example.org\"\n", "https://"),
        ("command = []\n", "name of a program"),
    ] {
        let env = place(&["test -f out/1"], HONEST, notify);
        let run = env.provost(&["run"]).exits(2);
        assert!(run.err.contains(words), "{notify}: {}", run.err);
    }
}
