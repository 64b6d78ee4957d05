//! Tests that sealed events stay unchanged, and that old ones can always be read.

use expect_test::expect;

use super::*;
use crate::model::event::{Choice, RunOutcome, Summary};
use crate::model::usage::{Amount, Cost};

fn plan() -> PlanId {
    PlanId("demo-0123abcd".to_owned())
}

fn sealed() -> Vec<SealedEvent> {
    let events = [
        Event::StepStarted {
            step: StepNumber(1),
            attempt: 1,
            target: "coder".to_owned(),
            reserved: Amount::default(),
            start: None,
        },
        Event::StepClaimed {
            step: StepNumber(1), evidence: "a \"quoted\" ünïcode\u{7f}\nclaim".to_owned()
        },
        Event::RunEnded {
            outcome: RunOutcome::Done,
            summary: Summary { completed: 1, cost: Cost::default(), ..Summary::default() },
            why: None,
            train: None,
            tree: None,
        },
    ];
    let mut head = Head::START;
    events
        .iter()
        .map(|event| {
            let sealed =
                seal(&plan(), head, Timestamp(1_763_175_600_123), event, event.step().map(|_| "First"));
            head = Head { seq: sealed.seq, hash: sealed.hash };
            sealed
        })
        .collect()
}

#[test]
fn the_wire_form_is_one_object_a_line_with_sorted_keys() {
    let lines: Vec<String> = sealed().iter().map(SealedEvent::line).collect();
    expect![[r#"
        {"details":{"attempt":1,"step":1,"target":"coder"},"event":"TASK_STARTED","plan":"demo-0123abcd","prev":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"task_id":"task_1","task_name":"First","timestamp":"2025-11-15T03:00:00.123Z","hash":"c655db25485c59bdac3ca8e6a274c2a2428be44003288779b7ce96f49e886f6f"}
        {"details":{"evidence":"a \"quoted\" ünïcode\nclaim","step":1},"event":"STEP_CLAIMED","plan":"demo-0123abcd","prev":"c655db25485c59bdac3ca8e6a274c2a2428be44003288779b7ce96f49e886f6f","seq":2,"task_id":"task_1","task_name":"First","timestamp":"2025-11-15T03:00:00.123Z","hash":"802b6c5e69917b0a6c3dc07b8ef5ca3a503c575af9019ac35b0cbeeb6895f63c"}
        {"details":{"outcome":"done","summary":{"completed":1,"failed":0,"skipped":0}},"event":"EXECUTION_COMPLETE","plan":"demo-0123abcd","prev":"802b6c5e69917b0a6c3dc07b8ef5ca3a503c575af9019ac35b0cbeeb6895f63c","seq":3,"task_id":null,"task_name":null,"timestamp":"2025-11-15T03:00:00.123Z","hash":"c9168d0d4eb4b8951f0d9a3e4b58a2c1fe0bc99361b207f015480b1d455c965c"}
    "#]]
    .assert_eq(&format!("{}\n", lines.join("\n")));
}

/// Checks a line with a plain JSON parser: parse it, drop `hash`, write it with sorted keys, hash it.
#[test]
fn anybody_can_check_a_line_with_a_json_parser() {
    for sealed in sealed() {
        let mut value: serde_json::Value = serde_json::from_str(&sealed.line()).unwrap();
        let hash = value.as_object_mut().unwrap().remove("hash").unwrap();
        assert_eq!(Hash::of(value.to_string().as_bytes()).to_string(), hash.as_str().unwrap());
    }
}

#[test]
fn an_audit_finds_every_kind_of_change() {
    let audit = |events: &[SealedEvent]| {
        let mut auditor = Auditor::default();
        events.iter().try_for_each(|sealed| auditor.next(sealed))
    };
    let good = sealed();
    assert_eq!(audit(&good), Ok(()));
    assert_eq!(audit(&good[1..]), Err(Break::Gap { after: 0, found: 2 }));
    assert_eq!(audit(&[good[0].clone(), good[2].clone()]), Err(Break::Gap { after: 1, found: 3 }));
    let changes: [fn(&mut SealedEvent); 6] = [
        |s| s.details = s.details.replace("claim", "clain"),
        |s| s.at = Timestamp(s.at.0 + 1),
        |s| s.name = "TASK_COMPLETED".to_owned(),
        |s| s.step = Some(StepNumber(2)),
        |s| s.task_name = Some("Other".to_owned()),
        |s| s.plan = PlanId("other".to_owned()),
    ];
    for change in changes {
        let mut bad = good.clone();
        change(&mut bad[1]);
        assert_eq!(audit(&bad), Err(Break::Altered { seq: 2 }));
        // Sealed again, it no longer fits the next event.
        bad[1].hash = bad[1].computed_hash();
        assert_eq!(audit(&bad), Err(Break::Unlinked { seq: 3 }));
    }
}

/// Never edit a line of this file; add lines for new events.
const GOLDEN: &str = include_str!("../../../test_data/events/v1.jsonl");

#[test]
fn golden_events_decode_for_ever() {
    let mut names = std::collections::BTreeSet::new();
    for line in GOLDEN.lines() {
        let event: Event = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let again = serde_json::to_value(&event).unwrap();
        let before: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(again, before, "an event must be written as it was read");
        names.insert(event.name());
    }
    let described: std::collections::BTreeSet<_> =
        crate::model::event::DESCRIPTIONS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, described, "every event has a golden line and a description");
    let _ = Choice::Retry;
}
