//! Tests limits on time.

use super::*;

#[test]
fn time_is_what_the_harness_worked_and_waiting_for_a_person_is_free() {
    let mut story = Story::new("60 minutes", &["", "", ""]);
    let minute = 60_000;
    assert_eq!(story.start(ONE).wall_ms, Some(60 * minute));
    story.end(ONE, 20 * minute, Usage::default());
    // The check takes time, too.
    story.now += 5 * minute;
    story.judge(ONE, true);
    assert_eq!(story.run.ledger.cost().wall_ms, 25 * minute);
    assert_eq!(story.start(TWO).wall_ms, Some(35 * minute));
    story.end(TWO, 20 * minute, Usage::default());
    story.judge(TWO, true);
    // Fifteen minutes are left, and an attempt takes twenty.
    let breach = story.over(THREE);
    assert_eq!((breach.resource, breach.spent.wall_ms), (Resource::WallClock, Some(45 * minute)));
    story.now += 9 * 3_600_000;
    story.raise(THREE, "2 hours").expect("raised");
    assert_eq!(story.run.ledger.cost().wall_ms, 45 * minute);
    story.attest();
    assert_eq!(story.start(THREE).wall_ms, Some(75 * minute));
    assert_eq!(story.again().ledger.cost(), story.run.ledger.cost());
}

#[test]
fn what_is_said_while_no_harness_is_at_work_takes_no_time() {
    let (hour, day) = (3_600_000, 24 * 3_600_000);
    let mut story = Story::new("2 hours", &["", ""]);
    story.start(ONE);
    story.now += hour;
    story.harness(HarnessCommand::AttemptInterrupted { step: ONE, attempt: 1 });
    assert_eq!(story.run.ledger.cost().wall_ms, hour);
    // Interrupted on Friday; on Monday a person changes the plan and continues.
    story.now += 3 * day;
    story.law(RunPolicy::default(), &text("3 hours", &["", ""]));
    story.now += day;
    story.attest();
    assert_eq!(story.run.ledger.cost().wall_ms, hour);
    // While an attempt runs, an unrelated event does not stop the clock.
    story.start(ONE);
    story.now += 60_000;
    story.harness(HarnessCommand::Tampered { step: None, what: "a door".to_owned() });
    story.end(ONE, 60_000, Usage::default());
    assert_eq!(story.run.ledger.cost().wall_ms, hour + 120_000);
}

#[test]
fn a_step_may_take_as_long_as_it_says_and_a_clock_that_is_set_back_adds_nothing() {
    let mut story = Story::new("60 minutes", &["**budget:** 10 minutes\n", ""]);
    assert_eq!(story.start(ONE).wall_ms, Some(600_000));
    story.end(ONE, 400_000, Usage::default());
    story.judge(ONE, false);
    assert_eq!(story.over(ONE).scope, BudgetScope::Step);
    let before = story.run.ledger.cost().wall_ms;
    story.answer(ONE, Choice::Retry).expect("go on");
    story.now -= 300_000;
    assert_eq!(story.start(ONE).wall_ms, Some(200_000));
    assert_eq!(story.run.ledger.cost().wall_ms, before);
}
