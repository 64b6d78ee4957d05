//! Tests the traces that logs produce.

use expect_test::{Expect, expect};
use provost_core::model::chain::{self, Head, PlanId};
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use serde_json::{Value, json};

use super::*;

const PLAN: &str = "---\\ntype: plan\\nstatus: draft\\nowner: me\\n---\\n\\n# A plan\\n\\n## Steps\\n\\n\
    ### 1. First\\n**target:** coder\\n**task:**\\nDo it.\\n**contract:**\\n```shell\\ntest -f one\\n```\\n";

/// Returns the spans of a log, given as `seconds NAME {details}` per line.
fn spans(story: &str) -> Vec<Value> {
    let plan = PlanId("fix-auth-1a2b3c4d".to_owned());
    let mut export = Export::new(&plan);
    let mut head = Head::START;
    let mut lines = Vec::new();
    let mut send = |request: &TraceRequest<'_>| {
        lines.push(request.line());
        Ok(())
    };
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let (at, name, details) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let details = details.replace("PLAN", PLAN);
        let event: Event = serde_json::from_str(&format!("{{\"event\":\"{name}\",\"details\":{details}}}"))
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        let at = Timestamp((at.parse::<f64>().unwrap() * 1_000.0) as u64 + 1_800_000_000_000);
        let sealed = chain::seal(&plan, head, at, &event, event.step().map(|_| "First"));
        head = Head { seq: sealed.seq, hash: sealed.hash };
        export.hear(&sealed, &event, &mut send).unwrap();
    }
    let count = export.end(&mut send).unwrap();
    let requests: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = |request: &Value| request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned();
    let spans: Vec<Value> = requests.iter().filter_map(all).flatten().collect();
    assert_eq!(spans.len() as u64, count);
    spans
}

fn seconds(nanoseconds: &Value) -> f64 {
    let nanoseconds: u64 = nanoseconds.as_str().unwrap().parse().unwrap();
    (nanoseconds - 1_800_000_000_000_000_000) as f64 / 1e9
}

fn attributes_of(value: &Value) -> String {
    let pairs = value["attributes"].as_array().unwrap().iter().filter(|pair| pair["key"] != "provost.seq");
    let pairs = pairs.map(|pair| {
        let value = pair["value"].as_object().unwrap().values().next().unwrap();
        format!("{}={}", pair["key"].as_str().unwrap(), value.to_string().trim_matches('"'))
    });
    pairs.collect::<Vec<_>>().join(" ")
}

/// Formats the tree, parents before children, in order of time.
fn tree(spans: &[Value], parent: &Value, depth: usize, out: &mut String) {
    let mut children: Vec<&Value> = spans.iter().filter(|span| span["parentSpanId"] == *parent).collect();
    children.sort_by(|a, b| seconds(&a["startTimeUnixNano"]).total_cmp(&seconds(&b["startTimeUnixNano"])));
    for span in children {
        let indent = "  ".repeat(depth);
        let (begun, ended) = (seconds(&span["startTimeUnixNano"]), seconds(&span["endTimeUnixNano"]));
        let status = match (&span["status"]["code"], &span["status"]["message"]) {
            (Value::Null, _) => String::new(),
            (code, Value::String(message)) => format!(" [{code}: {message}]"),
            (code, _) => format!(" [{code}]"),
        };
        out.push_str(&format!("{indent}{} {begun}..{ended}{status}\n", span["name"].as_str().unwrap()));
        out.push_str(&format!("{indent}  {}\n", attributes_of(span)));
        for event in span["events"].as_array().into_iter().flatten() {
            let at = seconds(&event["timeUnixNano"]);
            let name = event["name"].as_str().unwrap();
            let line = format!("{indent}  @{at} {name} {}", attributes_of(event));
            out.push_str(&format!("{}\n", line.trim_end()));
        }
        tree(spans, &span["spanId"], depth + 1, out);
    }
}

fn check(story: &str, expected: Expect) {
    let mut out = String::new();
    tree(&spans(story), &Value::Null, 0, &mut out);
    expected.assert_eq(&out);
}

const HELD: &str = r#"{"step":1,"subject":{"contract":1},"verdict":{"outcome":{"kind":"held"},"isolation":"clean","duration_ms":200,"tests":3}}"#;

fn whole() -> String {
    format!(
        r#"
        0 PLAN_CREATED {{"text":"PLAN","revision":"5f2a","task_count":1}}
        0 PLAN_VERIFIED {{"revision":"5f2a","warnings":1}}
        1 GATE_APPROVAL_REQUESTED {{"plan_id":"p","revision":"5f2a"}}
        61 GATE_APPROVED {{"revision":"5f2a","by":{{"person":"ada"}}}}
        61 ISOLATION_ATTESTED {{"level":"clean"}}
        62 CONTRACT_JUDGED {{"step":1,"subject":{{"control":1}},"verdict":{{"outcome":{{"kind":"broke","exit_code":1}},"isolation":"clean","duration_ms":500}}}}
        62 TASK_STARTED {{"step":1,"attempt":1,"target":"coder"}}
        66 STEP_CLAIMED {{"step":1,"evidence":"SECRET WORDS"}}
        66 ATTEMPT_ENDED {{"step":1,"attempt":1,"end":{{"kind":"exited","exit_code":0}},"duration_ms":4000,"report":"SECRET WORDS","usage":{{"model":"small-1","calls":3,"input_tokens":4100,"output_tokens":220,"cache_read_tokens":3000,"cache_write_tokens":7,"micro_usd":5200}}}}
        67 CONTRACT_JUDGED {{"step":1,"subject":{{"contract":1}},"verdict":{{"outcome":{{"kind":"broke","exit_code":1}},"isolation":"clean","duration_ms":1000,"stdout":{{"head":"SECRET WORDS","bytes":12}}}}}}
        67 FAILURE_DETECTED {{"step":1,"attempt":1,"error_message":"contract broke: exit code 1","fingerprint":"9f2c"}}
        67 FAILURE_CLASSIFIED {{"step":1,"failure_type":"transient","rule":"connection: it was reset"}}
        67 RECOVERY_APPLIED {{"step":1,"recipe_name":"transient","outcome":"retry 1 of 2 in 5 s","not_before":"2027-01-15T08:01:12Z","wait_ms":5000}}
        80 TASK_STARTED {{"step":1,"attempt":2,"target":"coder"}}
        81 ATTEMPT_ENDED {{"step":1,"attempt":2,"end":{{"kind":"timed_out"}},"duration_ms":1000}}
        81 TAMPER_DETECTED {{"step":1,"what":"the plan file was written to"}}
        81 RECOVERY_ESCALATION {{"step":1,"reason":"contract broke, after 2 attempts"}}
        141 HUMAN_ANSWERED {{"step":1,"choice":"retry","by":"ada"}}
        142 TASK_STARTED {{"step":1,"attempt":3,"target":"coder"}}
        143 ATTEMPT_LOST {{"step":1,"attempt":3,"cause":"crash"}}
        144 TASK_STARTED {{"step":1,"attempt":4,"target":"reviewer"}}
        145 ATTEMPT_ENDED {{"step":1,"attempt":4,"end":{{"kind":"exited","exit_code":0}},"duration_ms":900}}
        145.5 CONTRACT_JUDGED {HELD}
        145.5 TASK_COMPLETED {{"step":1,"attempt":4,"result":"contract held"}}
        146 CONTRACT_JUDGED {{"step":1,"subject":{{"final":1}},"verdict":{{"outcome":{{"kind":"held"}},"isolation":"clean","duration_ms":0,"cached":true}}}}
        147 CONTRACT_JUDGED {{"subject":{{"postcondition":1}},"verdict":{{"outcome":{{"kind":"held"}},"isolation":"clean","duration_ms":300}}}}
        147 EXECUTION_COMPLETE {{"outcome":"done","summary":{{"completed":1,"failed":0,"skipped":0,"retries":2}},"why":"done"}}
        "#
    )
}

#[test]
fn a_run_is_a_tree_of_steps_attempts_checks_and_waits() {
    check(
        &whole(),
        expect![[r#"
            invoke_workflow fix-auth 0..147 [1]
              gen_ai.operation.name=invoke_workflow gen_ai.workflow.name=fix-auth provost.plan.id=fix-auth-1a2b3c4d provost.run.outcome=done provost.run.completed=1 provost.run.failed=0 provost.run.skipped=0 provost.run.retries=2 provost.run.why=done provost.plan.title=A plan provost.plan.revision=5f2a provost.plan.stage=done provost.isolation=clean
              @0 PLAN_VERIFIED provost.plan.warnings=1
              @61 GATE_APPROVED provost.plan.revision=5f2a provost.gate.approver=person
              @61 ISOLATION_ATTESTED provost.isolation=clean
              wait for approval 1..61
                provost.wait.for=approval provost.answer=approve
              step 1. First 61.5..145.5 [1]
                provost.step=1 provost.step.title=First provost.step.state=passed
                @66 STEP_CLAIMED
                @67 FAILURE_DETECTED provost.attempt=1 provost.failure.message=contract broke: exit code 1 provost.failure.fingerprint=9f2c
                @67 FAILURE_CLASSIFIED provost.failure.class=transient provost.failure.rule=connection: it was reset
                @67 RECOVERY_APPLIED provost.recovery.recipe=transient provost.recovery.outcome=retry 1 of 2 in 5 s provost.recovery.wait_ms=5000
                @81 TAMPER_DETECTED provost.tamper.what=the plan file was written to
                @81 RECOVERY_ESCALATION provost.reason=contract broke, after 2 attempts
                @141 HUMAN_ANSWERED provost.answer=retry
                execute_tool control 61.5..62
                  gen_ai.operation.name=execute_tool gen_ai.tool.name=control gen_ai.tool.type=function provost.verdict=broke provost.isolation=clean provost.verdict.cached=false provost.step=1 process.exit.code=1
                invoke_agent coder 62..66
                  gen_ai.operation.name=invoke_agent gen_ai.agent.name=coder provost.attempt=1 provost.attempt.end=exited process.exit.code=0 gen_ai.request.model=small-1 gen_ai.usage.input_tokens=4100 gen_ai.usage.output_tokens=220 gen_ai.usage.cache_read.input_tokens=3000 gen_ai.usage.cache_creation.input_tokens=7 provost.usage.calls=3 provost.usage.cost_usd=0.0052
                execute_tool contract 66..67 [2: broke: exit code 1]
                  gen_ai.operation.name=execute_tool gen_ai.tool.name=contract gen_ai.tool.type=function provost.verdict=broke provost.isolation=clean provost.verdict.cached=false provost.step=1 process.exit.code=1 error.type=broke
                pause 67..72
                  provost.wait.for=pause
                invoke_agent coder 80..81 [2: it ran out of time]
                  gen_ai.operation.name=invoke_agent gen_ai.agent.name=coder provost.attempt=2 provost.attempt.end=timed_out error.type=timed_out
                wait for a person 81..141
                  provost.wait.for=person provost.answer=retry
                invoke_agent coder 142..143 [2: provost stopped while it ran]
                  gen_ai.operation.name=invoke_agent gen_ai.agent.name=coder provost.attempt=3 error.type=lost provost.attempt.end=lost
                invoke_agent reviewer 144..145
                  gen_ai.operation.name=invoke_agent gen_ai.agent.name=reviewer provost.attempt=4 provost.attempt.end=exited process.exit.code=0
                execute_tool contract 145.3..145.5
                  gen_ai.operation.name=execute_tool gen_ai.tool.name=contract gen_ai.tool.type=function provost.verdict=held provost.isolation=clean provost.verdict.cached=false provost.step=1 provost.verdict.tests=3
              execute_tool final 146..146
                gen_ai.operation.name=execute_tool gen_ai.tool.name=final gen_ai.tool.type=function provost.verdict=held provost.isolation=clean provost.verdict.cached=true provost.step=1
              execute_tool postcondition 146.7..147
                gen_ai.operation.name=execute_tool gen_ai.tool.name=postcondition gen_ai.tool.type=function provost.verdict=held provost.isolation=clean provost.verdict.cached=false provost.postcondition=1
        "#]],
    );
}

#[test]
fn the_same_log_is_the_same_trace_and_every_span_has_its_own_id() {
    let spans_of = spans(&whole());
    assert_eq!(spans_of, spans(&whole()));
    let ids: std::collections::BTreeSet<&str> =
        spans_of.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), spans_of.len());
    assert!(ids.iter().all(|id| id.len() == 16));
    assert!(spans_of.iter().all(|span| span["traceId"] == spans_of[0]["traceId"]));
    assert_eq!(spans_of[0]["traceId"].as_str().unwrap().len(), 32);
    // A run of another plan has another trace.
    let other = whole().replace("5f2a", "5f2b");
    assert_ne!(spans(&other)[0]["traceId"], spans_of[0]["traceId"]);
}

#[test]
fn what_agents_and_checks_said_and_who_decided_stays_in_the_log() {
    let mut story = whole();
    story.push_str("150 HUMAN_ANSWERED {\"step\":1,\"choice\":\"abort\",\"by\":\"ada\"}\n");
    // As the rules write these events.
    story
        .push_str("150 RECOVERY_ESCALATION {\"step\":1,\"reason\":\"the agent is blocked: SECRET WORDS\"}\n");
    story.push_str("150 TASK_FAILED {\"step\":1,\"error\":\"aborted by ada\"}\n");
    let all = json!(spans(&story)).to_string();
    assert!(all.contains("the agent is blocked") && all.contains("aborted by a person"), "{all}");
    assert!(!all.contains("SECRET WORDS") && !all.contains("\"ada\"") && !all.contains("by ada"), "{all}");
}

#[test]
fn what_is_not_over_ends_with_the_log_and_says_so() {
    check(
        r#"
        0 PLAN_CREATED {"text":"PLAN","revision":"5f2a","task_count":1}
        1 TASK_STARTED {"step":1,"attempt":1,"target":"coder"}
        5 TAMPER_DETECTED {"what":"the log","from_seq":3}
        "#,
        expect![[r#"
            invoke_workflow fix-auth 0..5
              gen_ai.operation.name=invoke_workflow gen_ai.workflow.name=fix-auth provost.plan.id=fix-auth-1a2b3c4d provost.plan.title=A plan provost.plan.revision=5f2a provost.plan.stage=in-progress provost.open=true
              @5 TAMPER_DETECTED provost.tamper.what=the log provost.tamper.from_seq=3
              step 1. First 1..5
                provost.step=1 provost.step.title=First provost.open=true
                invoke_agent coder 1..5
                  gen_ai.operation.name=invoke_agent gen_ai.agent.name=coder provost.attempt=1 provost.open=true
        "#]],
    );
}

#[test]
fn a_step_that_was_undone_is_a_span_again_and_a_run_that_failed_and_went_on_has_one_end() {
    check(
        &format!(
            r#"
            0 PLAN_CREATED {{"text":"PLAN","revision":"5f2a","task_count":1}}
            1 TASK_STARTED {{"step":1,"attempt":1,"target":"coder"}}
            2 ATTEMPT_ENDED {{"step":1,"attempt":1,"end":{{"kind":"exited","exit_code":0}},"duration_ms":900}}
            3 CONTRACT_JUDGED {HELD}
            3 TASK_COMPLETED {{"step":1,"attempt":1,"result":"contract held"}}
            5 CONTRACT_JUDGED {{"step":1,"subject":{{"final":1}},"verdict":{{"outcome":{{"kind":"broke","exit_code":2}},"isolation":"clean","duration_ms":1000}}}}
            5 FAILURE_DETECTED {{"step":1,"attempt":1,"error_message":"contract broke"}}
            5 TASK_FAILED {{"step":1,"error":"contract broke"}}
            5 EXECUTION_COMPLETE {{"outcome":"failed","summary":{{"completed":0,"failed":1,"skipped":0}},"why":"failed"}}
            9 HUMAN_ANSWERED {{"step":1,"choice":"skip","by":"ada"}}
            9 TASK_WAIVED {{"step":1,"by":"ada","reason":"done by hand"}}
            9 EXECUTION_COMPLETE {{"outcome":"done","summary":{{"completed":0,"failed":0,"skipped":1}},"why":"done"}}
            "#
        ),
        expect![[r#"
            invoke_workflow fix-auth 0..9 [1]
              gen_ai.operation.name=invoke_workflow gen_ai.workflow.name=fix-auth provost.plan.id=fix-auth-1a2b3c4d provost.run.outcome=done provost.run.completed=0 provost.run.failed=0 provost.run.skipped=1 provost.run.retries=0 provost.run.why=done provost.plan.title=A plan provost.plan.revision=5f2a provost.plan.stage=done
              step 1. First 1..3 [1]
                provost.step=1 provost.step.title=First provost.step.state=passed
                invoke_agent coder 1..2
                  gen_ai.operation.name=invoke_agent gen_ai.agent.name=coder provost.attempt=1 provost.attempt.end=exited process.exit.code=0
                execute_tool contract 2.8..3
                  gen_ai.operation.name=execute_tool gen_ai.tool.name=contract gen_ai.tool.type=function provost.verdict=held provost.isolation=clean provost.verdict.cached=false provost.step=1 provost.verdict.tests=3
              step 1. First 4..5 [2: contract broke]
                provost.step=1 provost.step.title=First error.type=failed provost.step.state=failed
                @5 FAILURE_DETECTED provost.attempt=1 provost.failure.message=contract broke
                @5 TASK_FAILED provost.reason=contract broke
                execute_tool final 4..5 [2: broke: exit code 2]
                  gen_ai.operation.name=execute_tool gen_ai.tool.name=final gen_ai.tool.type=function provost.verdict=broke provost.isolation=clean provost.verdict.cached=false provost.step=1 process.exit.code=2 error.type=broke
              step 1. First 9..9
                provost.step=1 provost.step.title=First provost.step.state=waived
                @9 HUMAN_ANSWERED provost.answer=skip
                @9 TASK_WAIVED provost.reason=done by hand
        "#]],
    );
}

#[test]
fn a_clock_that_jumps_back_makes_no_span_that_ends_before_it_begins() {
    let story = r#"
        9 PLAN_CREATED {"text":"PLAN","revision":"5f2a","task_count":1}
        8 TASK_STARTED {"step":1,"attempt":1,"target":"coder"}
        7 ATTEMPT_ENDED {"step":1,"attempt":1,"end":{"kind":"exited","exit_code":0},"duration_ms":900}
        "#;
    for span in spans(story) {
        assert!(seconds(&span["startTimeUnixNano"]) <= seconds(&span["endTimeUnixNano"]), "{span}");
    }
}

#[test]
fn a_long_run_is_several_requests_and_a_noisy_step_keeps_its_first_events() {
    let mut story =
        String::from("0 PLAN_CREATED {\"text\":\"PLAN\",\"revision\":\"5f2a\",\"task_count\":1}\n");
    for attempt in 1..=SPANS_MAX + 100 {
        story.push_str(&format!(
            "{attempt} TASK_STARTED {{\"step\":1,\"attempt\":{attempt},\"target\":\"coder\"}}\n"
        ));
        story.push_str(&format!(
            "{attempt} ATTEMPT_LOST {{\"step\":1,\"attempt\":{attempt},\"cause\":\"crash\"}}\n"
        ));
        story.push_str(&format!(
            "{attempt} FAILURE_DETECTED {{\"step\":1,\"attempt\":{attempt},\"error_message\":\"lost\"}}\n"
        ));
    }
    let spans = spans(&story);
    assert_eq!(spans.len(), SPANS_MAX + 102);
    let step = spans.iter().find(|span| span["name"] == "step 1. First").unwrap();
    assert_eq!(step["events"].as_array().unwrap().len(), 128);
    assert_eq!(step["droppedEventsCount"], SPANS_MAX as u64 + 100 - 128);
}
