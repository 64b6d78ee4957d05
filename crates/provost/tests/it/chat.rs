//! Tests `provost chat` with a mock model: one answer, permissions, a plan through the gate and its checks.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use provost_rehearsal::{Model, Rehearsal, Turn, skip};
use serde_json::json;

use crate::env::{Answer, Env, answer, plan};

const KEY: &str = "sk-rehearsed-and-not-a-real-key";

fn place(model: &Rehearsal) -> Env {
    let env = Env::new(&plan(&["true"], "abort"));
    std::fs::remove_file(env.work().join("PLAN.md")).expect("a plan");
    let role = format!(
        "[agents.helper]\ndriver = \"builtin\"\nmodel = \"rehearsed\"\nprovider = \"anthropic\"\nbase_url = \
         \"{}\"\nkey_env = \"CODER_KEY\"\n",
        model.url()
    );
    env.write("provost.toml", role);
    env.write("AGENTS.md", "Use tabs.\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a role"]);
    env.isolation("in-place")
}

fn chat(env: &Env, arguments: &[&str]) -> Command {
    let mut command = env.command(&[&["chat"], arguments].concat());
    command.env("CODER_KEY", KEY);
    command
}

fn once(env: &Env, arguments: &[&str]) -> Answer {
    answer(chat(env, arguments).output().expect("provost"))
}

/// A chat on a pseudo-terminal. Each line is typed when the words before it have appeared.
fn chat_on_a_terminal(env: &Env, lines: &[(&str, &str)]) -> Option<Answer> {
    let mut script = Command::new("script");
    let program = format!("{} chat", env!("CARGO_BIN_EXE_provost"));
    script.args(["--quiet", "--return", "--command", &program, "/dev/null"]);
    script.env_clear().current_dir(env.work()).env("TERM", "xterm");
    for (name, value) in chat(env, &[]).get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    let Ok(mut child) = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        skip::tool("script", "apt-get install bsdutils");
        return None;
    };
    let (mut keyboard, mut screen) = (child.stdin.take()?, child.stdout.take()?);
    let (mut seen, mut from, mut buffer) = (Vec::new(), 0, [0; 4096]);
    for (words, line) in lines {
        while !seen[from..].windows(words.len()).any(|part| part == words.as_bytes()) {
            let length = screen.read(&mut buffer).expect("output");
            assert_ne!(length, 0, "no {words:?} in {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..length]);
        }
        from = seen.len();
        keyboard.write_all(format!("{line}\r").as_bytes()).expect("typed");
    }
    screen.read_to_end(&mut seen).expect("output");
    let code = child.wait().expect("an end").code().unwrap_or(-1);
    Some(Answer { code, out: String::from_utf8_lossy(&seen).into_owned(), err: String::new() })
}

#[test]
fn one_question_has_one_answer_and_the_projects_instructions_are_known() {
    let look = Turn::call("read_file", json!({ "path": "AGENTS.md" }));
    let model = Model::script([look, Turn::text("It says: use tabs.")]).key(KEY).serve().expect("a model");
    let env = place(&model);
    let said = once(&env, &["-p", "what does AGENTS.md say?"]).exits(0);
    assert_eq!(said.out, "It says: use tabs.\n");
    assert!(said.err.contains("• read_file"), "{}", said.err);
    model.expect_seen("Instructions of the project, from AGENTS.md:");
    model.expect_kept();
}

#[test]
fn a_conversation_goes_on_where_it_ended() {
    let model = Model::script([Turn::text("The word is pear."), Turn::text("Pear.").expecting("which word")]);
    let model = model.key(KEY).serve().expect("a model");
    let env = place(&model);
    let first = once(&env, &["--resume", "-p", "name a word"]).exits(0);
    assert!(first.err.contains("there is no saved conversation"), "{}", first.err);
    let second = once(&env, &["--resume", "-p", "which word was it?"]).exits(0);
    assert!(second.err.contains("with 1 message of yours"), "{}", second.err);
    model.expect_kept();
    let last = model.requests().pop().expect("a request").body.to_string();
    assert!(last.contains("name a word") && last.contains("The word is pear."), "{last}");
}

#[test]
fn an_answer_can_be_held_to_a_schema() {
    let model = Model::script([
        Turn::text("I will count them."),
        Turn::call("answer", json!({ "count": 7 })).expecting("does not have the form"),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = place(&model);
    env.write(
        "form.json",
        r#"{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}"#,
    );
    let said = once(&env, &["-p", "how many?", "--answer-schema", "form.json"]).exits(0);
    assert_eq!(said.out, "{\"count\":7}\n", "{}", said.err);
    model.expect_kept();
    env.write("form.json", "{");
    let wrong = once(&env, &["-p", "how many?", "--answer-schema", "form.json"]).exits(2);
    assert!(wrong.err.contains("form.json is not JSON"), "{}", wrong.err);
}

#[test]
fn without_a_person_nothing_is_changed_unless_everything_is_allowed() {
    let write = || Turn::call("write_file", json!({ "path": "new.txt", "content": "x\n" }));
    let model = Model::script([write(), Turn::text("I may not.").expecting("asks no questions")]);
    let model = model.key(KEY).serve().expect("a model");
    let env = place(&model);
    once(&env, &["-p", "write it"]).exits(0);
    model.expect_kept();
    assert!(!env.work().join("new.txt").exists());
    let model = Model::script([write(), Turn::text("Wrote it.")]).key(KEY).serve().expect("a model");
    let env = place(&model);
    let said = once(&env, &["-p", "write it", "--yes"]).exits(0);
    assert!(said.err.contains("+x"), "{}", said.err);
    assert_eq!(env.read("new.txt"), "x\n");
}

#[test]
fn a_plan_passes_the_gate_and_its_step_the_check() {
    let step = json!({ "title": "Write out.txt", "check": "grep -q done out.txt" });
    let update = |status: &str| json!({ "step": 1, "status": status, "evidence": "I wrote out.txt with the word done" });
    let write = |text: &str| Turn::call("write_file", json!({ "path": "out.txt", "content": text }));
    let model = Model::script([
        Turn::call("provost__plan_create", json!({ "objective": "Write it", "steps": [step] })),
        Turn::call("provost__step_update", update("in_progress")).expecting("A person read the plan"),
        write("soon\n"),
        // What the agent starts has no terminal to type into.
        Turn::call(
            "shell",
            json!({ "command": "(: < /dev/tty) 2> /dev/null && echo typed || echo untyped" }),
        ),
        // A person's refusal reaches the model.
        Turn::call("shell", json!({ "command": "rm -rf /" })).expecting("untyped"),
        Turn::text("Everything is done!").expecting("did not allow this: are you mad"),
        // The plan is not done, so the agent is sent back.
        Turn::call("provost__step_update", update("done")).expecting("0 of 1 steps passed"),
        write("done\n").expecting("Step 1 is NOT done"),
        Turn::call("provost__step_update", update("done")),
        Turn::text("Now it is done.").expecting("Step 1 has passed"),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = place(&model);
    let lines = [
        ("> ", "write out.txt"),
        ("or a question) > ", "yes"),
        ("no, because …) > ", "always"),
        ("no, because …) > ", "yes"),
        ("no, because …) > ", "no, are you mad"),
        ("Now it is done.", "/cost"),
        (" out", "/plan"),
        ("1/1 steps", "/nonsense"),
        ("there is no /nonsense", "/quit"),
    ];
    let Some(said) = chat_on_a_terminal(&env, &lines) else { return };
    let said = said.exits(0);
    model.expect_kept();
    for words in [
        "Approve revision",
        "rm -rf /",
        "sends the agent back to work",
        "Now it is done.",
        "tokens since you opened this conversation: ",
        "1/1 steps",
        "there is no /nonsense",
    ] {
        assert!(said.out.contains(words), "no {words:?} in {}", said.out);
    }
    let plans = env.provost(&["list", "--json"]).exits(0).out;
    assert!(plans.contains("\"done\""), "{plans}");
}

#[test]
fn the_agents_own_shell_cannot_approve_its_plan() {
    let step = json!({ "title": "Write out.txt", "check": "grep -q done out.txt" });
    let approve = format!(
        "{} approve write-it --revision $({} show write-it --json | grep -o '\"revision\": *\"[0-9a-f]*' | grep -o '[0-9a-f]\\{{12,\\}}' | head -1) 2>&1",
        env!("CARGO_BIN_EXE_provost"),
        env!("CARGO_BIN_EXE_provost")
    );
    let model = Model::script([
        Turn::call("provost__plan_create", json!({ "objective": "Write it", "steps": [step] })),
        Turn::call("shell", json!({ "command": approve })),
        Turn::text("It waits.").expecting("from inside the client of an agent"),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let env = place(&model);
    once(&env, &["-p", "write it", "--yes"]).exits(4);
    model.expect_kept();
}
