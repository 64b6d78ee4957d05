//! Tests `provost log`: filters, several plans, summaries.

use std::io::{BufRead as _, BufReader};

use expect_test::expect;
use provost_core::model::chain::PlanId;
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_store::{Append, Log as _, LogEntry, Sqlite};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::env::{Env, HONEST, plan};

/// A plan that is only in the log, with known times, tokens and failures.
pub(crate) const TOLD: &str = "told-1a2b3c4d";

/// The events, one `seconds NAME {details}` per line.
const STORY: &str = r#"
0 PLAN_CREATED {"text":"PLAN","revision":"5f2a","task_count":2}
0 PLAN_VERIFIED {"revision":"5f2a","warnings":0}
0 GATE_APPROVAL_REQUESTED {"plan_id":"told-1a2b3c4d","revision":"5f2a"}
60 GATE_APPROVED {"revision":"5f2a","by":{"person":"ada"}}
60 ISOLATION_ATTESTED {"level":"in-place"}
61 TASK_STARTED {"step":1,"attempt":1,"target":"coder"}
65 STEP_CLAIMED {"step":1,"evidence":"done, I think"}
65 ATTEMPT_ENDED {"step":1,"attempt":1,"end":{"kind":"exited","exit_code":0},"duration_ms":4000,"usage":{"model":"small-1","calls":3,"input_tokens":4100,"output_tokens":220,"cache_read_tokens":3000,"micro_usd":5200}}
66 CONTRACT_JUDGED {"step":1,"subject":{"contract":1},"verdict":{"outcome":{"kind":"broke","exit_code":1},"isolation":"in-place","duration_ms":400,"stderr":{"head":"connection reset","bytes":16}}}
66 FAILURE_DETECTED {"step":1,"attempt":1,"error_message":"contract broke: exit code 1"}
66 FAILURE_CLASSIFIED {"step":1,"failure_type":"transient","rule":"connection-reset"}
66 RECOVERY_APPLIED {"step":1,"recipe_name":"transient","outcome":"retry 1 of 2 in 5 s","not_before":"2027-01-15T08:01:11Z","wait_ms":5000}
72 TASK_STARTED {"step":1,"attempt":2,"target":"coder"}
74 ATTEMPT_ENDED {"step":1,"attempt":2,"end":{"kind":"exited","exit_code":0},"duration_ms":2000,"usage":{"model":"small-1","input_tokens":900,"output_tokens":100,"micro_usd":1000}}
75 CONTRACT_JUDGED {"step":1,"subject":{"contract":1},"verdict":{"outcome":{"kind":"held"},"isolation":"in-place","duration_ms":400}}
75 TASK_COMPLETED {"step":1,"attempt":2,"result":"contract held"}
75 TASK_STARTED {"step":2,"attempt":1,"target":"reviewer"}
76 ATTEMPT_ENDED {"step":2,"attempt":1,"end":{"kind":"exited","exit_code":1},"duration_ms":900}
76 CONTRACT_JUDGED {"step":2,"subject":{"contract":2},"verdict":{"outcome":{"kind":"broke","exit_code":1},"isolation":"in-place","duration_ms":50}}
76 FAILURE_DETECTED {"step":2,"attempt":1,"error_message":"contract broke: exit code 1"}
76 FAILURE_CLASSIFIED {"step":2,"failure_type":"logic","rule":"contract"}
76 RECOVERY_ESCALATION {"step":2,"reason":"contract broke: exit code 1"}
77 TAMPER_DETECTED {"step":2,"what":"a person's command was tried from inside an attempt"}
136 HUMAN_ANSWERED {"step":2,"choice":"retry","by":"ada"}
137 TASK_STARTED {"step":2,"attempt":2,"target":"reviewer"}
139 ATTEMPT_ENDED {"step":2,"attempt":2,"end":{"kind":"exited","exit_code":0},"duration_ms":2000}
140 CONTRACT_JUDGED {"step":2,"subject":{"contract":2},"verdict":{"outcome":{"kind":"held"},"isolation":"in-place","duration_ms":50}}
140 TASK_COMPLETED {"step":2,"attempt":2,"result":"contract held"}
141 EXECUTION_COMPLETE {"outcome":"done","summary":{"completed":2,"failed":0,"skipped":0,"retries":1},"why":"done"}
"#;

/// Writes these events to the log of `env`.
pub(crate) fn tell(env: &Env) {
    append(env, TOLD, STORY);
}

fn append(env: &Env, plan_id: &str, story: &str) {
    let log = Sqlite::open(&env.state()).expect("a log");
    let plan_id = PlanId(plan_id.to_owned());
    let text = json!(plan(&["test -f out/1", "test -f out/2"], "retry(2), then escalate")).to_string();
    for line in story.lines().filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("three words");
        let (at, name, details) = (word(), word(), word().replace("\"PLAN\"", &text));
        let event: Event = serde_json::from_str(&format!("{{\"event\":\"{name}\",\"details\":{details}}}"))
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        let title = event.step().map(|step| format!("Step {step}"));
        log.append(Append {
            plan: &plan_id,
            expected_seq: log.head(&plan_id).expect("a head").seq,
            at: Timestamp(1_800_000_000_000 + at.parse::<u64>().expect("seconds") * 1_000),
            fence: None,
            events: &[LogEntry { event: &event, task_name: title.as_deref() }],
            effects: &[],
        })
        .expect("an event");
    }
}

fn env() -> Env {
    Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place")
}

/// Returns `seq NAME` of every line.
fn names(env: &Env, arguments: &[&str]) -> Vec<String> {
    let answer = env.provost(&[&["log", "--json"], arguments].concat()).exits(0);
    let name = |event: &Value| format!("{} {}", event["seq"], event["event"].as_str().unwrap_or("?"));
    answer.lines().iter().map(name).collect()
}

#[test]
fn filters_narrow_each_other() {
    let env = env();
    tell(&env);
    let found = |arguments: &[&str]| names(&env, &[&[TOLD], arguments].concat());
    assert_eq!(found(&[]).len(), 29);
    assert_eq!(found(&["--task", "2", "--event", "task-started"]), ["17 TASK_STARTED", "25 TASK_STARTED"]);
    assert_eq!(
        found(&["--since", "2027-01-15T08:01:00Z", "--until", "2027-01-15T08:01:05Z"]),
        ["4 GATE_APPROVED", "5 ISOLATION_ATTESTED", "6 TASK_STARTED"]
    );
    assert_eq!(
        found(&["--until", "2027-01-15T08:01:05Z", "--last", "2"]),
        ["5 ISOLATION_ATTESTED", "6 TASK_STARTED"]
    );
    assert!(found(&["--until", "2027-01-15T08:00:00Z"]).is_empty());
    assert!(found(&["--last", "0"]).is_empty());
}

#[test]
fn a_class_shows_its_failures_and_what_followed_from_them() {
    let env = env();
    tell(&env);
    let found = |arguments: &[&str]| names(&env, &[&[TOLD], arguments].concat());
    let transient = ["10 FAILURE_DETECTED", "11 FAILURE_CLASSIFIED", "12 RECOVERY_APPLIED"];
    let logic = ["20 FAILURE_DETECTED", "21 FAILURE_CLASSIFIED", "22 RECOVERY_ESCALATION"];
    assert_eq!(found(&["--class", "transient"]), transient);
    assert_eq!(found(&["--class", "logic"]), logic);
    assert_eq!(found(&["--class", "logic", "--last", "1"]), logic[2..]);
    assert_eq!(found(&["--class", "transient", "--event", "RECOVERY_APPLIED"]), transient[2..]);
    assert!(found(&["--class", "transient", "--task", "2"]).is_empty());
    assert!(found(&["--class", "invalid-input"]).is_empty());
    assert_eq!(names(&env, &["--all", "--class", "logic"]), logic);
}

#[test]
fn a_misspelt_word_is_refused_with_the_one_that_was_meant() {
    let env = env();
    for (arguments, hint) in [
        (&["--event", "TASK_STARTD"][..], "Did you mean TASK_STARTED?"),
        (&["--event", "TASK_STARTED,gate_aproved"], "Did you mean GATE_APPROVED?"),
        (&["--event", "banana"], "There are PLAN_CREATED"),
        (&["--class", "transiet"], "Did you mean transient?"),
        (&["--class", "logic", "--event", "TASK_STARTED"], "Use --class with FAILURE_DETECTED"),
        (&["--since", "1h", "--until", "2h"], "earlier --since"),
        (&["--follow", "--until", "1h"], "cannot be used with"),
        (&["--follow", "--summary"], "cannot be used with"),
        (&["--summary", "--task", "1"], "cannot be used with"),
        (&["--summary", "--otel"], "cannot be used with"),
        (&["--otel", "--since", "1h"], "cannot be used with"),
        (&["--all", "PLAN.md"], "cannot be used with"),
        (&["nosuch"], "there is no plan nosuch"),
    ] {
        let answer = env.provost(&[&["log"], arguments].concat()).exits(2);
        assert!(answer.err.contains(hint), "{arguments:?}: {}", answer.err);
    }
}

#[test]
fn several_plans_or_all_are_told_in_the_order_in_which_things_happened() {
    let env = env();
    env.write("PLAN-other.md", plan(&["test -f out/1"], "escalate"));
    env.provost(&["verify"]).exits(0);
    tell(&env);
    env.provost(&["verify", "other"]).exits(0);
    let plans = |arguments: &[&str]| {
        let answer = env.provost(&[&["log", "--json"], arguments].concat()).exits(0);
        let mut plans: Vec<String> = answer
            .lines()
            .iter()
            .map(|event| event["plan"].as_str().unwrap_or("?").rsplit_once('-').expect("an id").0.to_owned())
            .collect();
        plans.dedup();
        plans.join(" ")
    };
    assert_eq!(plans(&["--all"]), "plan told other");
    assert_eq!(plans(&["other", TOLD]), "told other");
    assert_eq!(plans(&["other", "PLAN.md"]), "plan other");
    assert_eq!(plans(&["other", "PLAN.md", "--last", "1"]), "other");
    assert_eq!(plans(&["other", TOLD, "--last", "3"]), "told other");
    let words = env.provost(&["log", "--all", "--last", "1"]).exits(0);
    assert!(words.out.starts_with("other-"), "{}", words.out);
    // `--all` needs neither a plan nor a valid configuration.
    env.write("provost.toml", "no = [toml");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    assert_eq!(plans(&["--all"]), "plan told other");
}

#[test]
fn a_follower_is_told_what_passes_its_filters_and_nothing_else() {
    let env = env();
    env.provost(&["run"]).exits(4);
    let mut own = env.start(&["log", "--follow", "--json", "--event", "GATE_QUESTION_ASKED", "--last", "1"]);
    let mut all = env.start(&["log", "--follow", "--json", "--all", "--class", "logic"]);
    let mut own_lines = BufReader::new(own.stdout.take().expect("stdout")).lines();
    let mut all_lines = BufReader::new(all.stdout.take().expect("stdout")).lines();
    tell(&env);
    env.provost(&["ask", "--question", "why?"]).exits(0);
    let next = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| -> Value {
        serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("an event")
    };
    assert_eq!(next(&mut own_lines)["details"]["question"], "why?");
    let told: Vec<Value> = (0..3).map(|_| next(&mut all_lines)["seq"].clone()).collect();
    assert_eq!(told, [20, 21, 22]);
    for mut follower in [own, all] {
        // One interrupt is enough.
        let pid = Pid::from_raw(follower.id().cast_signed()).expect("a process");
        kill_process(pid, Signal::INT).expect("a signal");
        assert_eq!(follower.wait().expect("gone").code(), Some(130));
    }
}

#[test]
fn a_summary_tells_what_a_plan_took_and_what_nobody_counted() {
    let env = env();
    tell(&env);
    let summary = env.provost(&["log", TOLD, "--summary"]).exits(0);
    expect![[r#"
        told-1a2b3c4d: A plan · done
          step             state   attempts  failures          recipes    agent  check   person  pause  tokens   cost
          1. Step 1        passed  2         transient         transient  6.0 s  800 ms  -       5.0 s  5320     $0.0062
          2. Step 2        passed  2         logic             -          2.9 s  100 ms  1m 00s  -      unknown  unknown
          the plan itself          -         -                 -          -      -       1m 00s  -      -        -
          total                    4         logic, transient  transient  8.9 s  900 ms  2m 00s  5.0 s  ≥ 5320   ≥ $0.0062

        agents, by cost per verified step, or by time if the cost is unknown
          agent     model    verified  attempts  cost/step  time/step  time   tokens   cost
          coder     small-1  1         2         $0.0062    6.0 s      6.0 s  5320     $0.0062
          reviewer  unknown  1         2         unknown    2.9 s      2.9 s  unknown  unknown
    "#]].assert_eq(&summary.out);
    let json = env.provost(&["log", TOLD, "--summary", "--json"]).exits(0).json();
    let step = &json["plans"][0]["steps"][1];
    assert_eq!(step["tokens"], json!({ "total": null, "at_least": null, "uncounted_attempts": 2 }));
    assert_eq!(step["person_ms"], 60_000);
    assert_eq!(json["total"]["usd"], json!({ "total": null, "at_least": 0.0062, "uncounted_attempts": 2 }));
    assert_eq!(json["agents"][0]["usd_per_verified"], 0.0062);
    assert_eq!(json["agents"][1]["usd_per_verified"], Value::Null);
    let part = env.provost(&["log", "--all", "--summary", "--json", "--since", "2027-01-15T08:01:15Z"]);
    let part = part.exits(0).json();
    assert_eq!(part["total"]["attempts"], 2);
    assert_eq!(part["total"]["failures"], json!({ "logic": 1 }));
}

#[test]
fn a_real_run_is_summed_up_and_a_plan_that_was_never_run_is_too() {
    let env = env();
    let nothing = env.provost(&["log", "--summary"]).exits(0);
    assert_eq!(nothing.out, "the log is empty\n");
    env.provost(&["verify"]).exits(0);
    let before = env.provost(&["log", "--summary"]).exits(0);
    assert!(before.out.contains("no agent has worked yet"), "{}", before.out);
    env.approve();
    env.provost(&["run"]).exits(0);
    let json = env.provost(&["log", "--summary", "--json"]).exits(0).json();
    assert_eq!(json["plans"][0]["stage"], "done");
    assert_eq!(json["plans"][0]["steps"][0]["state"], "passed");
    assert_eq!(json["agents"][0]["role"], "coder");
    assert_eq!(json["agents"][0]["verified"], 1);
    assert!(json["total"]["agent_ms"].as_u64().expect("a time") > 0);
}
