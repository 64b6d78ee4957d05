//! Runs 200 turns in a small context window: the plan is never lost, and the transcript stays bounded.

use provost_agent::agent::{Compaction, RunEnd, Settings};
use provost_agent::event::AgentEvent;
use provost_agent::provider::Reply;
use provost_agent::provider::scripted::ScriptedProvider;
use provost_agent::transcript::{Call, Message};
use provost_rehearsal::{Model, Turn};
use serde_json::{Value, json};

use crate::stage::{Stage, api};

const WINDOW: usize = 32_000;
const STEPS: u64 = 60;

fn call(tool: &str, arguments: Value) -> Reply {
    let call = Call { id: "one".to_owned(), tool: tool.to_owned(), arguments };
    Reply { calls: vec![call], ..Reply::default() }
}

fn plan() -> Value {
    let steps: Vec<String> = (1..=STEPS).map(|step| format!("look at part {step} of the log")).collect();
    json!({ "objective": "read a long log", "steps": steps, "postconditions": ["all parts were read"] })
}

fn settings() -> Settings {
    Settings { max_turns: 250, context_tokens: WINDOW, max_output_tokens: 4000, ..Settings::default() }
}

/// Writes a log that is larger than any window.
fn log(stage: &Stage) {
    let line = "2026-11-15T09:00:00Z worker: something happened that takes a line to say\n";
    stage.write("log", &line.repeat(4000));
}

#[tokio::test]
async fn two_hundred_turns_stay_inside_a_32k_window() {
    let stage = Stage { settings: settings(), ..Stage::new() };
    log(&stage);
    let mut turn: u64 = 0;
    let largest = std::sync::Arc::new(std::sync::Mutex::new(0));
    let of_model = largest.clone();
    let model = ScriptedProvider::default().forever(move |ask| {
        let sent: usize = ask.messages.iter().map(Message::size).sum::<usize>() + ask.system.len();
        let mut largest = of_model.lock().expect("a number");
        *largest = (*largest).max(sent);
        assert!(matches!(&ask.messages[0], Message::User(text) if text.starts_with("read the log")));
        turn += 1;
        let step = turn.saturating_sub(2) / 3 + 1;
        Ok(match turn {
            1 => call("plan_create", plan()),
            // Reads far more than the window holds, and fails sometimes.
            _ if step <= STEPS => match (turn - 2) % 3 {
                0 => call("read_file", json!({ "path": "log", "first_line": step * 60 })),
                1 if step.is_multiple_of(10) => {
                    call("shell", json!({ "command": format!("echo broken {step}; exit 1") }))
                }
                1 => call("search", json!({ "pattern": "happened", "path": "log" })),
                _ => {
                    call("step_update", json!({ "step_number": step, "status": "done", "evidence": "read" }))
                }
            },
            182..200 => call("list", json!({ "path": "." })),
            200 => call("postcondition_verify", json!({ "postcondition_number": 1, "evidence": "read" })),
            _ => Reply { text: "The log is read.".to_owned(), ..Reply::default() },
        })
    });
    let run = stage.run(&model, "read the log").await;
    assert_eq!(run.outcome, RunEnd::Finished { answer: "The log is read.".to_owned() });
    assert_eq!(run.turns, 201);
    // The scripted model counts as the estimate does: 3.5 bytes per token.
    let tokens = *largest.lock().expect("a number") * 2 / 7;
    assert!(tokens + 4000 < WINDOW, "{tokens} tokens were sent");
    let compactions =
        stage.told().iter().filter(|event| matches!(event, AgentEvent::Compacted { .. })).count();
    assert!((2..100).contains(&compactions), "{compactions} compactions");
    let Message::User(first) = &run.transcript.messages()[0] else { panic!("no task") };
    assert!(first.contains("60. [") && first.contains("1. [x] look at part 1"), "the plan is lost: {first}");
    assert!(
        first.contains("broken 40") || first.contains("broken 50"),
        "the last failures are lost: {first}"
    );
}

/// Over a real connection, with token counts from the server.
#[tokio::test]
async fn the_same_over_a_real_connection() {
    let stage = Stage { settings: settings(), ..Stage::new() };
    log(&stage);
    let mut turns = vec![Turn::call("plan_create", plan())];
    for step in 1..=STEPS {
        turns.push(Turn::call("read_file", json!({ "path": "log", "first_line": step * 60 })));
        turns.push(Turn::call("read_file", json!({ "path": "log", "first_line": step * 60 + 30 })));
        let done = json!({ "step_number": step, "status": "done", "evidence": "read" });
        turns.push(Turn::call("step_update", done));
    }
    turns.extend((0..18).map(|_| Turn::call("plan_show", json!({})).saying("Where was I?")));
    let verify = json!({ "postcondition_number": 1, "evidence": "read" });
    turns.push(Turn::call("postcondition_verify", verify));
    turns.push(Turn::text("The log is read."));
    let model = Model::script(turns).serve().expect("a model");
    let run = stage.run(&api(provost_agent::provider::api::Dialect::Anthropic, &model), "read the log").await;
    model.expect_kept();
    assert_eq!(run.outcome, RunEnd::Finished { answer: "The log is read.".to_owned() });
    assert_eq!(run.turns, 201);
    let largest = model.requests().iter().map(|seen| seen.body.to_string().len() / 4).max();
    assert!(largest < Some(WINDOW - 4000), "{largest:?}");
}

/// The model is asked for a summary, and goes on with it instead of the old turns.
#[tokio::test]
async fn a_summary_by_the_model_takes_the_place_of_old_turns() {
    let settings = Settings { compaction: Compaction::Summary, max_turns: 60, ..settings() };
    let stage = Stage { settings, ..Stage::new() };
    log(&stage);
    let (mut turn, mut summaries, mut is_given) = (0, 0, false);
    let model = ScriptedProvider::default().forever(move |ask| {
        let text = |message: &Message| match message {
            Message::User(text) => text.clone(),
            _ => String::new(),
        };
        let (first, last) = (ask.messages.first().map(text), ask.messages.last().map(text));
        if last.is_some_and(|last| last.starts_with("The conversation is too long")) {
            summaries += 1;
            // A model that gives none leaves the usual way.
            let text =
                if summaries == 2 { String::new() } else { format!("Summary {summaries}: line 7 is odd.") };
            return Ok(Reply { text, ..Reply::default() });
        }
        is_given |= first.is_some_and(|first| first.contains("## Your summary\nSummary 1: line 7 is odd."));
        turn += 1;
        Ok(match turn {
            41 => Reply { text: format!("{is_given} after {summaries}"), ..Reply::default() },
            _ => call("read_file", json!({ "path": "log", "first_line": turn * 60 })),
        })
    });
    let run = stage.run(&model, "read the log").await;
    let RunEnd::Finished { answer } = run.outcome else { panic!("{:?}", run.outcome) };
    let (given, count) = answer.split_once(" after ").expect("two parts");
    assert!(given == "true" && count.parse::<u32>().is_ok_and(|count| count >= 2), "{answer}");
    assert_eq!(u64::from(run.turns) + count.parse::<u64>().expect("a number"), run.usage.calls.unwrap_or(0));
    let Message::User(first) = &run.transcript.messages()[0] else { panic!("no task") };
    assert!(first.starts_with("read the log"), "{first}");
}
