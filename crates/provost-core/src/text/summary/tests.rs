//! Tests summaries of logs.

use crate::model::escalation::EscalationCause;
use expect_test::{Expect, expect};

use super::*;
use crate::model::event::{
    Approver, AttemptEnd, CheckSubject, Choice, EndedAttempt, Event, FailureClass, Revision, RunOutcome,
};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::verdict::{CheckOutcome, Isolation, Verdict};

const PLAN: &str = "\
---
type: plan
status: draft
owner: me
---

# A plan

## Steps

### 1. First
**target:** coder
**task:**
Do it.
**contract:**
```shell
test -f one
```

### 2. Second, with a title that is longer than a table likes
**target:** reviewer
**task:**
Look at it.
**contract:** human

### 3. Third
**target:** coder
**task:**
Do it too.
**contract:**
```shell
test -f three
```
";

/// Parses one event of a script.
fn event(word: &str) -> Event {
    let parts: Vec<&str> = word.split(' ').collect();
    let number = |at: usize| parts.get(at).and_then(|part| part.parse().ok()).unwrap_or(1);
    let step = StepNumber(number(1) as u32);
    let revision = Revision("5f".to_owned());
    let judged = |outcome| Event::Judged {
        step: Some(step),
        subject: CheckSubject::Contract(step),
        verdict: Verdict { duration_ms: 40, ..Verdict::bare(Isolation::InPlace, outcome) },
        plan: None,
    };
    let answer = |choice| Event::Answered {
        step: Some(step),
        choice,
        by: "ada".to_owned(),
        note: String::new(),
        budget: Default::default(),
    };
    match parts[0] {
        "created" => Event::PlanCreated {
            drafting: Vec::new(),
            author: None,
            checks_by: crate::model::check_author::CheckAuthor::Person,
            text: PLAN.to_owned(),
            revision,
            base: None,
            files: Vec::new(),
            terms: Default::default(),
            included: Vec::new(),
            task_count: 3,
            dependencies: Vec::new(),
        },
        "requested" => Event::ApprovalRequested { plan_id: "p".to_owned(), revision },
        "approved" => Event::Approved {
            revision,
            by: Approver::Person("ada".to_owned()),
            modifications: Vec::new(),
            missing: 0,
        },
        "start" => Event::StepStarted {
            step,
            attempt: 1,
            target: parts[2].to_owned(),
            reserved: Default::default(),
            start: None,
        },
        "lost" => {
            Event::AttemptLost { step, attempt: 1, cause: crate::model::event::LossCause::Crash, left: None }
        }
        // `ended 1 4000 small 900 100 5200`: milliseconds, model, tokens in and out, millionths of a dollar.
        "ended" => Event::AttemptEnded(EndedAttempt {
            duration_ms: number(2),
            usage: match parts.get(3) {
                None => Usage::default(),
                Some(model) => Usage {
                    model: Some((*model).to_owned()),
                    input_tokens: Some(number(4)),
                    output_tokens: Some(number(5)),
                    micro_usd: parts.get(6).map(|_| number(6)),
                    ..Usage::default()
                },
            },
            ..EndedAttempt::new(step, 1, AttemptEnd::Exited { exit_code: 0 })
        }),
        "held" => judged(CheckOutcome::Held),
        "broke" => judged(CheckOutcome::Broke { exit_code: 1 }),
        "passed" => serde_json::from_str(&format!(
            r#"{{"event":"TASK_COMPLETED","details":{{"step":{step},"attempt":1,"result":"held"}}}}"#
        ))
        .expect("an event"),
        "logic" => Event::FailureClassified {
            step,
            failure_type: FailureClass::Logic,
            rule: "the contract ran".to_owned(),
            halts: None,
            of_the_check: false,
        },
        "retry" => Event::RecoveryApplied {
            step,
            recipe_name: "transient".to_owned(),
            outcome: "again".to_owned(),
            not_before: Some(second(number(2))),
            wait_ms: 5_000,
            check_again: false,
            role: None,
            fresh: false,
        },
        "escalated" => Event::escalated(Some(step), EscalationCause::Other, "look".to_owned()),
        "confirm" => answer(Choice::Confirm),
        "again" => answer(Choice::Retry),
        "done" => Event::RunEnded {
            outcome: RunOutcome::Done,
            summary: Default::default(),
            tree: None,
            why: None,
            train: None,
        },
        other => panic!("no such word: {other}"),
    }
}

fn second(second: u64) -> Timestamp {
    Timestamp(1_000_000 + second * 1_000)
}

/// Applies a script such as `0 created; 1 requested; …`.
fn hear(plan: &str, story: &str, since: Option<u64>, now: u64, summary: &mut PlansSummary) {
    let mut hearing = SummaryReader::since(since.map(second));
    for word in story.split(';') {
        let (at, word) = word.trim().split_once(' ').expect("a second and a word");
        hearing.hear(second(at.parse().expect("a second")), &event(word));
    }
    hearing.end(PlanId(plan.to_owned()), second(now), summary);
}

fn check(story: &str, since: Option<u64>, now: u64, expected: Expect) {
    let mut summary = PlansSummary::default();
    hear("plan-1", story, since, now, &mut summary);
    expected.assert_eq(&summary.to_string());
}

const WHOLE: &str = "0 created; 0 requested; 60 approved; 60 start 1 coder; 64 ended 1 4000 small 900 100 5200; \
     64 broke 1; 64 logic 1; 64 retry 1 69; 70 start 1 coder; 72 ended 1 2000 small 900 100 5200; 72 held 1; \
     72 passed 1; 72 start 2 reviewer; 75 ended 2 3000; 3675 confirm 2; 3675 passed 2; \
     3675 start 3 coder; 3676 lost 3; 3680 start 3 coder; 3685 ended 3 5000 small 20000 100 9000; 3685 held 3; \
     3685 passed 3; 3686 done";

#[test]
fn a_plan_is_told_by_step_and_agent_and_what_nobody_counted_is_unknown() {
    check(
        WHOLE,
        None,
        9_999,
        expect![[r#"
            plan-1: A plan · done
              step                              state      attempts  failures  recipes    agent   check   person  pause  tokens   cost
              1. First                          passed     2         logic     transient  6.0 s   80 ms   -       5.0 s  2000     $0.0104
              2. Second, with a title that is…  confirmed  1         -         -          3.0 s   -       1h 00m  -      unknown  unknown
              3. Third                          passed     2         -         -          5.0 s   40 ms   -       -      ≥ 20.1k  ≥ $0.0090
              the plan itself                              -         -         -          -       -       1m 00s  -      -        -
              total                                        5         logic     transient  14.0 s  120 ms  1h 01m  5.0 s  ≥ 22.1k  ≥ $0.0194

            agents, by cost per verified step, or by time if the cost is unknown
              agent     model    verified  attempts  cost/step  time/step  time    tokens   cost
              coder     small    2         3         $0.0097    5.5 s      11.0 s  22.1k    $0.0194
              coder     unknown  0         1         -          -          -       unknown  unknown
              reviewer  unknown  0         1         -          -          3.0 s   unknown  unknown
        "#]],
    );
}

#[test]
fn what_still_waits_has_waited_until_now_and_what_is_under_way_is_unknown() {
    check(
        "0 created; 0 requested; 60 approved; 60 start 1 coder; 61 ended 1 1000 small 1 1 1; 61 broke 1; 61 logic 1; 61 escalated 1; 62 start 3 coder",
        None,
        121,
        expect![[r#"
            plan-1: A plan · in-progress
              step                              state        attempts  failures  agent  check  person  tokens   cost
              1. First                          blocked      1         logic     1.0 s  40 ms  1m 00s  2        $0.000001
              2. Second, with a title that is…  pending      -         -         -      -      -       -        -
              3. Third                          in_progress  1         -         -      -      -       unknown  unknown
              the plan itself                                -         -         -      -      1m 00s  -        -
              total                                          2         logic     1.0 s  40 ms  2m 00s  ≥ 2      ≥ $0.000001

            agents, by cost per verified step, or by time if the cost is unknown
              agent  model    verified  attempts  time   tokens   cost
              coder  unknown  0         1         -      unknown  unknown
              coder  small    0         1         1.0 s  2        $0.000001
        "#]],
    );
}

#[test]
fn a_part_of_the_time_counts_what_ended_in_it_and_knows_what_began_before() {
    check(
        WHOLE,
        Some(71),
        9_999,
        expect![[r#"
            plan-1: A plan · done
              step                              state      attempts  agent   check  person  tokens   cost
              1. First                          passed     1         2.0 s   40 ms  -       1000     $0.0052
              2. Second, with a title that is…  confirmed  1         3.0 s   -      1h 00m  unknown  unknown
              3. Third                          passed     2         5.0 s   40 ms  -       ≥ 20.1k  ≥ $0.0090
              total                                        4         10.0 s  80 ms  1h 00m  ≥ 21.1k  ≥ $0.0142

            agents, by cost per verified step, or by time if the cost is unknown
              agent     model    verified  attempts  cost/step  time/step  time   tokens   cost
              coder     small    2         2         $0.0071    3.5 s      7.0 s  21.1k    $0.0142
              coder     unknown  0         1         -          -          -      unknown  unknown
              reviewer  unknown  0         1         -          -          3.0 s  unknown  unknown
        "#]],
    );
}

#[test]
fn the_end_of_a_pause_is_not_put_off_by_a_harness_that_slept() {
    let story =
        "0 created; 0 start 1 coder; 1 ended 1 1000; 1 broke 1; 1 logic 1; 1 retry 1 6; 900 start 1 coder";
    let mut summary = PlansSummary::default();
    hear("plan-1", story, None, 901, &mut summary);
    assert_eq!(summary.total.pause_ms, 5_000);
}

#[test]
fn agents_of_many_plans_are_ranked_together() {
    let mut summary = PlansSummary::default();
    hear("plan-1", WHOLE, None, 9_999, &mut summary);
    hear(
        "plan-2",
        "0 created; 0 start 1 coder; 1 ended 1 1000 tiny 100 10 900; 1 held 1; 1 passed 1",
        None,
        9,
        &mut summary,
    );
    hear(
        "plan-3",
        "0 created; 0 start 1 writer; 1 ended 1 700 big 100 10; 1 held 1; 1 passed 1; 2 start 3 idler; 3 ended 3 10 tiny 1 1 1",
        None,
        9,
        &mut summary,
    );
    let ranked: Vec<String> = summary
        .agents()
        .iter()
        .map(|(agent, row)| format!("{} {:?} {} of {}", agent.role, agent.model, row.verified, row.attempts))
        .collect();
    expect![[r#"
        [
            "coder Some(\"tiny\") 1 of 1",
            "coder Some(\"small\") 2 of 3",
            "writer Some(\"big\") 1 of 1",
            "coder None 0 of 1",
            "idler Some(\"tiny\") 0 of 1",
            "reviewer None 0 of 1",
        ]
    "#]]
    .assert_debug_eq(&ranked);
    assert_eq!(summary.plans.len(), 3);
    assert_eq!(summary.total.attempts, 8);
}
