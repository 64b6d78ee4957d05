//! Tests what follows from failures that repeat.

use super::*;

#[test]
fn the_same_failure_twice_is_not_tried_a_third_time() {
    let mut story = Story::new("retry(5), then escalate");
    assert_eq!(names(&story.fails("out/1 is missing (pid 17)")), RECOVERED);
    let again = story.fails("out/1 is missing (pid 4711)");
    assert_eq!(names(&again), ESCALATED);
    assert!(reason(&again).ends_with("the same failure twice, so retries stopped"), "{}", reason(&again));
    // After a person's answer, the count starts again.
    story.retry();
    assert_eq!(names(&story.fails("out/1 is missing (pid 18)")), RECOVERED);
    // Another failure in between resets the count.
    assert_eq!(names(&story.fails("out/2 is missing")), RECOVERED);
    assert_eq!(names(&story.fails("out/1 is missing")), RECOVERED);
}

#[test]
fn silence_is_bounded_by_on_fail_alone() {
    let mut story = Story::new("retry(2), then escalate");
    assert_eq!(names(&story.fails("")), RECOVERED);
    assert_eq!(names(&story.fails("")), RECOVERED);
    let last = story.fails("");
    assert!(reason(&last).ends_with("after 3 attempts"), "{}", reason(&last));
}

#[test]
fn stuck_is_why_a_plan_ends_that_aborts_on_the_same_failure() {
    let mut story = Story::alone("retry(5), then abort");
    story.fails("no");
    let ended = story.fails("no");
    assert!(
        matches!(ended.last(), Some(Event::RunEnded { why: Some(RunEndReason::Stuck), .. })),
        "{ended:?}"
    );
}

#[test]
fn another_role_has_one_try_where_one_is_configured() {
    let fallback = [("coder".to_owned(), "senior".to_owned())].into();
    let mut story =
        Story::with("retry(5), then escalate", "", RunPolicy { fallback, ..RunPolicy::default() });
    story.fails("no");
    let events = story.fails("no");
    assert_eq!(names(&events), RECOVERED);
    assert_eq!(story.run.role(ONE), "senior");
    let started = story.harness(HarnessCommand::Start { step: ONE });
    assert!(matches!(&started[0], Event::StepStarted { target, .. } if target == "senior"), "{started:?}");
    let attempt = story.run.step(ONE).expect("step 1").attempts;
    let (end, report, notes) = (AttemptEnd::Exited { exit_code: 0 }, String::new(), Vec::new());
    story.harness(HarnessCommand::AttemptEnded(EndedAttempt {
        duration_ms: 1,
        report,
        notes,
        ..EndedAttempt::new(ONE, attempt, end)
    }));
    assert_eq!(names(&story.breaks("no")), ESCALATED);
}

#[test]
fn a_quota_that_is_spent_stops_the_role_until_a_person_says_retry() {
    let mut story = Story::new("retry(5), then abort");
    story.attempt(1, "Error: 429 insufficient_quota: You exceeded your current quota");
    let events = story.breaks("");
    assert!(matches!(&events[1], Event::FailureClassified { halts: Some(role), .. } if role == "coder"));
    assert_eq!(names(&events)[2..], ["PERMISSION_REQUIRED", "RECOVERY_ESCALATION"]);
    // No other step of the role starts either, even if the first one was waived.
    let (step, choice, by) = (Some(ONE), Choice::Skip, "ada".to_owned());
    story.human(HumanCommand::Answer { step, choice, note: String::new(), by });
    let two = StepNumber(2);
    assert_eq!(schedule::next(&story.run, &InHand::default(), 8, story.now), [Action::Hold { step: two }]);
    let held = story.harness(HarnessCommand::Hold { step: two });
    assert!(reason(&held).starts_with("coder has nothing left to spend"), "{held:?}");
    let (step, choice, by) = (Some(two), Choice::Retry, "ada".to_owned());
    story.human(HumanCommand::Answer { step, choice, note: String::new(), by });
    assert_eq!(
        schedule::next(&story.run, &InHand::default(), 8, story.now),
        [Action::Dispatch { step: two }]
    );
}

#[test]
fn an_agent_that_fails_twice_in_the_same_words_goes_to_a_person() {
    // The plan's `abort` is for failed work.
    for on_fail in ["retry(5), then abort", "retry(1), then abort"] {
        let mut story = Story::new(on_fail);
        story.attempt(1, "panic at 17: no config for the frobnicator");
        assert_eq!(names(&story.breaks("")), RECOVERED);
        story.attempt(1, "panic at 4711: no config for the frobnicator");
        let events = story.breaks("");
        assert_eq!(names(&events), ESCALATED, "{on_fail}");
        let said = "the agent fails each time in the same way and changes nothing (it said: panic at 4711: no \
                    config for the frobnicator)";
        assert!(reason(&events).starts_with(said), "{}", reason(&events));
    }
    // Other words, or a check that says more each time, are progress.
    let mut story = Story::new("retry(5), then abort");
    story.attempt(1, "stopped at a.rs");
    assert_eq!(names(&story.breaks("")), RECOVERED);
    story.attempt(1, "stopped at b.rs");
    assert_eq!(names(&story.breaks("")), RECOVERED);
    story.attempt(1, "stopped at b.rs");
    assert_eq!(names(&story.breaks("3 of 4 files are there")), RECOVERED);
}

#[test]
fn the_end_of_the_agent_is_told_with_the_last_failure() {
    let mut story = Story::new("escalate");
    story.attempt(3, "I read the plan.\nfatal: the widget is not configured\nwarning: noise");
    let events = story.breaks("out/1 is missing");
    let told = "after 1 attempt; the agent exited with 3 (it said: fatal: the widget is not configured)";
    assert!(reason(&events).ends_with(told), "{}", reason(&events));
}
