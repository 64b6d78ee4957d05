//! Tests failures between the loop and a model, with every API.

use std::time::{Duration, Instant};

use provost_agent::agent::{AgentRun, Bound, RunEnd};
use provost_agent::event::AgentEvent;
use provost_agent::provider::Failure;
use provost_agent::provider::api::{Api, Dialect, Key};
use provost_agent::provider::scripted::ScriptedProvider;
use provost_rehearsal::{Fault, Model, Rehearsal, ScriptedCall, StopReason, Turn};
use serde_json::json;

use crate::stage::{DIALECTS, KEY, Stage, api};

fn list() -> Turn {
    Turn::call("list", json!({ "path": "." }))
}

/// Runs the test with every API, each with a new model and a new folder.
async fn in_every_dialect(
    turns: impl Fn() -> Vec<Turn>,
    check: impl Fn(Dialect, &Stage, &Rehearsal, AgentRun),
) {
    for dialect in DIALECTS {
        let stage = Stage::new();
        let model = Model::script(turns()).serve().expect("a model");
        let run = stage.run(&api(dialect, &model), "do it").await;
        check(dialect, &stage, &model, run);
    }
}

fn retries(stage: &Stage) -> Vec<String> {
    let why = |event| match event {
        AgentEvent::Retrying { why, .. } => Some(why),
        _ => None,
    };
    stage.told().into_iter().filter_map(why).collect()
}

#[tokio::test]
async fn a_refused_key_is_said_at_once_and_not_shown() {
    for dialect in DIALECTS {
        let stage = Stage::new();
        let model = Model::script([Turn::text("hello")]).key("another key").serve().expect("a model");
        let run = stage.run(&api(dialect, &model), "do it").await;
        let RunEnd::Failed(failure) = run.outcome else { panic!("{dialect:?}: {:?}", run.outcome) };
        // Gemini answers a wrong key with status 400.
        let is_refused = matches!(failure, Failure::Unauthorized { .. } | Failure::Rejected { .. });
        assert!(is_refused, "{dialect:?}: {failure:?}");
        assert!(!failure.to_string().contains(KEY), "{failure}");
        assert!(retries(&stage).is_empty(), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_busy_api_is_asked_again() {
    let turns = || vec![Turn::status(429), Turn::status(529), Turn::status(503), Turn::text("done")];
    in_every_dialect(turns, |dialect, stage, _, run| {
        assert_eq!(run.outcome, RunEnd::Finished { answer: "done".to_owned() }, "{dialect:?}");
        let why = retries(stage);
        assert_eq!(why.len(), 3, "{dialect:?}: {why:?}");
        assert!(why[0].contains("HTTP 429") && why[1].contains("529") && why[2].contains("503"), "{why:?}");
        assert_eq!(run.usage.calls, Some(4), "{dialect:?}");
    })
    .await;
}

#[tokio::test]
async fn retry_after_is_kept_and_one_that_is_too_long_is_passed_on() {
    let turns = || vec![Turn::status(429).with_header("retry-after", "1"), Turn::text("done")];
    for dialect in [Dialect::Anthropic, Dialect::Gemini] {
        let stage = Stage::new();
        let model = Model::script(turns()).serve().expect("a model");
        let started = Instant::now();
        let run = stage.run(&api(dialect, &model), "do it").await;
        assert!(matches!(run.outcome, RunEnd::Finished { .. }), "{dialect:?}: {:?}", run.outcome);
        assert!(started.elapsed() >= Duration::from_secs(1), "{dialect:?}");
    }
    let turns = || vec![Turn::status(429).with_header("retry-after", "3600")];
    in_every_dialect(turns, |dialect, stage, _, run| {
        let RunEnd::Failed(failure) = run.outcome else { panic!("{dialect:?}: {:?}", run.outcome) };
        assert!(failure.to_string().ends_with("; retry-after: 3600"), "{dialect:?}: {failure}");
        assert!(retries(stage).is_empty(), "{dialect:?}");
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for fault in [Fault::Cut, Fault::HangUp, Fault::Garbage] {
        let turns = || {
            vec![
                Turn::text("All of it is done, believe me.").failing(fault.clone()),
                list(),
                Turn::text("done"),
            ]
        };
        in_every_dialect(turns, |dialect, stage, model, run| {
            model.expect_kept();
            assert_eq!(run.outcome, RunEnd::Finished { answer: "done".to_owned() }, "{dialect:?} {fault:?}");
            assert_eq!(retries(stage).len(), 1, "{dialect:?} {fault:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_carried_out() {
    let write = json!({ "path": "half.txt", "content": "half of it and the other half" });
    let turns = || vec![Turn::call("write_file", write.clone()).failing(Fault::Cut), Turn::text("done")];
    in_every_dialect(turns, |dialect, stage, _, run| {
        assert!(matches!(run.outcome, RunEnd::Finished { .. }), "{dialect:?}: {:?}", run.outcome);
        // Gemini sends a call and the end of the answer in one frame, so there is no half of it.
        assert!(dialect == Dialect::Gemini || !stage.path().join("half.txt").exists(), "{dialect:?}");
    })
    .await;
}

#[tokio::test]
async fn arguments_that_are_no_json_are_answered_and_sent_again() {
    let turns = || {
        vec![
            Turn::raw_call("write_file", "{\"path\": \"a.txt\", \"content\": \"x"),
            Turn::call("write_file", json!({ "path": "a.txt", "content": "x" })).expecting("call:1 error"),
            Turn::text("done").expecting("wrote 1 bytes"),
        ]
    };
    in_every_dialect(turns, |dialect, stage, model, run| {
        // Gemini's calls are always JSON, so it cannot send this.
        if dialect != Dialect::Gemini {
            model.expect_kept();
            assert!(stage.path().join("a.txt").exists(), "{dialect:?}");
        }
        assert!(matches!(run.outcome, RunEnd::Finished { .. }), "{dialect:?}: {:?}", run.outcome);
    })
    .await;
}

#[tokio::test]
async fn calls_of_one_turn_are_all_answered_in_their_order() {
    let call = |path: &str| ScriptedCall::tool("verify_file_exists", json!({ "path": path }));
    let turns = || {
        let answered =
            Turn::text("done").expecting("call:1 ok").expecting("call:2 ok").expecting("call:3 ok");
        vec![Turn::calls([call("a"), call("b"), call("c")]).dribbled(), answered]
    };
    in_every_dialect(turns, |dialect, stage, model, run| {
        model.expect_kept();
        assert!(matches!(run.outcome, RunEnd::Finished { .. }), "{dialect:?}: {:?}", run.outcome);
        let called =
            stage.told().into_iter().filter(|event| matches!(event, AgentEvent::Called { .. })).count();
        assert_eq!(called, 3, "{dialect:?}");
    })
    .await;
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_shortened_once() {
    let long = "x".repeat(3000);
    let turns = || {
        let read = || Turn::call("read_file", json!({ "path": "long" }));
        vec![read(), read(), read(), read(), read(), read(), Turn::fault(Fault::TooLong), Turn::text("done")]
    };
    for dialect in DIALECTS {
        let stage = Stage::new();
        stage.write("long", &long);
        let model = Model::script(turns()).serve().expect("a model");
        let run = stage.run(&api(dialect, &model), "do it").await;
        assert_eq!(run.outcome, RunEnd::Finished { answer: "done".to_owned() }, "{dialect:?}");
        let compacted = stage.told().iter().any(|event| matches!(event, AgentEvent::Compacted { .. }));
        assert!(compacted, "{dialect:?}");
        let bodies: Vec<usize> = model.requests().iter().map(|seen| seen.body.to_string().len()).collect();
        assert!(bodies[7] < bodies[6] * 3 / 4, "{dialect:?}: {bodies:?}");
    }
    let hopeless = || vec![Turn::fault(Fault::TooLong), Turn::fault(Fault::TooLong)];
    in_every_dialect(hopeless, |dialect, _, _, run| {
        assert!(
            matches!(run.outcome, RunEnd::Failed(Failure::TooLong { .. })),
            "{dialect:?}: {:?}",
            run.outcome
        );
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_hit_its_bound_is_not_final() {
    let turns = || vec![Turn::text("I was going to s").stopping(StopReason::MaxTokens), Turn::text("done")];
    in_every_dialect(turns, |dialect, _, model, run| {
        assert_eq!(run.outcome, RunEnd::Finished { answer: "done".to_owned() }, "{dialect:?}");
        model.expect_seen("cut off because it was too long");
    })
    .await;
}

#[tokio::test]
async fn a_model_that_repeats_itself_without_end_uses_three_turns() {
    let cut = || Turn::text("and so on and so on").stopping(StopReason::MaxTokens);
    let turns = || vec![cut(), cut(), cut(), Turn::text("done")];
    in_every_dialect(turns, |dialect, _, _, run| {
        let RunEnd::Unfinished { bound, .. } = &run.outcome else { panic!("{dialect:?}: {:?}", run.outcome) };
        assert_eq!((bound, run.turns), (&Bound::CutAnswers(3), 3), "{dialect:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_stopped_in_the_middle_of_an_answer() {
    for dialect in DIALECTS {
        let stage = std::sync::Arc::new(Stage::new());
        let model = Model::script([Turn::text("One moment, I am thinking about it.").held()])
            .serve()
            .expect("a model");
        let provider = api(dialect, &model);
        let of_task = stage.clone();
        let run = tokio::spawn(async move { of_task.run(&provider, "do it").await });
        model.wait_for(1);
        stage.stop.stop();
        let run = run.await.expect("a run");
        assert_eq!(run.outcome, RunEnd::Stopped, "{dialect:?}");
        model.wait_until_left(0);
    }
}

/// The model sends the rest only after the first part was shown.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_is_told_as_it_arrives() {
    for dialect in [Dialect::Anthropic, Dialect::Chat] {
        let stage = std::sync::Arc::new(Stage::new());
        let words = "one two three four five six seven eight nine ten";
        let model = Model::script([Turn::text(words).held()]).serve().expect("a model");
        let provider = api(dialect, &model);
        let of_task = stage.clone();
        let run = tokio::spawn(async move { of_task.run(&provider, "do it").await });
        let patience = Instant::now();
        while !stage.told().iter().any(|event| matches!(event, AgentEvent::Text(_))) {
            assert!(patience.elapsed() < Duration::from_secs(300), "{dialect:?}: nothing was told");
            tokio::task::yield_now().await;
        }
        model.release();
        assert_eq!(run.await.expect("a run").outcome, RunEnd::Finished { answer: words.to_owned() });
    }
}

#[tokio::test]
async fn nobody_there_is_said_so() {
    let stage = Stage::new();
    let provider =
        Api::new(Dialect::Anthropic, "m", Some("http://127.0.0.1:9"), Key::none()).expect("a provider");
    let run = stage.run(&provider, "do it").await;
    let RunEnd::Failed(failure @ Failure::Unreachable { .. }) = run.outcome else {
        panic!("{:?}", run.outcome)
    };
    assert!(failure.to_string().to_lowercase().contains("refused"), "{failure}");
    assert_eq!(retries(&stage).len(), 4);
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_known_ones() {
    let stage = Stage::new();
    let model = ScriptedProvider::default().calls("rm_rf", json!({})).answers(|ask| {
        let seen = format!("{:?}", ask.messages.last());
        assert!(
            seen.contains("there is no tool `rm_rf`; use one of: apply_patch, edit, find, list"),
            "{seen}"
        );
        Ok(provost_agent::provider::Reply { text: "done".to_owned(), ..Default::default() })
    });
    let run = stage.run(&model, "do it").await;
    assert!(matches!(run.outcome, RunEnd::Finished { .. }));
}
