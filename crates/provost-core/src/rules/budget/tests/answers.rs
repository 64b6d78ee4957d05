//! Tests what a person can answer if a budget ran out.

use super::*;

#[test]
fn a_person_is_asked_once_however_many_steps_do_not_fit() {
    let free = "**needs:** none\n**touches:** none\n";
    let mut story = Story::new("100k tokens", &[free, free, free]);
    story.does(ONE, used(60_000));
    assert_eq!(story.next(2), [Action::OverBudget { step: TWO }, Action::OverBudget { step: THREE }]);
    story.harness(HarnessCommand::OverBudget { step: TWO });
    let again = story.try_harness(HarnessCommand::OverBudget { step: THREE });
    assert_eq!(again, Err(Refusal::NotOpen { step: THREE }));
    story.raise(TWO, "400k tokens").expect("raised");
    assert_eq!(story.next(2), [Action::Dispatch { step: TWO }, Action::Dispatch { step: THREE }]);
}

#[test]
fn raising_goes_on_where_it_stood_and_pays_nothing_twice() {
    let mut story = Story::new("100k tokens", &["", ""]);
    story.does(ONE, used(40_000));
    story.start(TWO);
    story.end(TWO, 100, used(40_000));
    story.judge(TWO, false);
    story.over(TWO);
    assert_eq!(story.raise(ONE, "1m tokens"), Err(Refusal::NothingToRaise { step: ONE }));
    let too_little =
        Refusal::RaisedTooLittle { limit: "80k tokens".to_owned(), spent: "80k tokens".to_owned() };
    assert_eq!(story.raise(TWO, "80k tokens"), Err(too_little));
    story.raise(TWO, "150k tokens").expect("raised");
    assert_eq!(of_plan(&story.run).to_string(), "150k tokens");
    let (one, two) = (story.run.step(ONE).expect("one"), story.run.step(TWO).expect("two"));
    assert_eq!((&one.state, &two.state), (&StepState::Passed, &StepState::Pending));
    // The failure is kept: the next prompt contains it, and it was one of two attempts.
    assert!(two.failures == 1 && two.verdict.is_some());
    assert_eq!(story.next(1), [Action::Dispatch { step: TWO }]);
    story.does(TWO, used(40_000));
    assert_eq!(story.run.ledger.cost().tokens, Some(120_000));
}

#[test]
fn a_raise_comes_in_by_the_door_for_people_and_not_while_an_agent_works_without_a_fence() {
    let raised = |step, tokens| {
        let budget = Amount { tokens: Some(tokens), ..Amount::default() };
        let (choice, by, note) = (Choice::Retry, "ada".to_owned(), String::new());
        vec![(Event::Answered { step: Some(step), choice, by, note, budget }, Timestamp(2_000))]
    };
    let free = "**needs:** none\n**touches:** none\n";
    let mut story = Story::new("100k tokens", &["", "**budget:** 20k tokens\n", free]);
    story.does(ONE, used(15_000));
    story.start(TWO);
    story.end(TWO, 100, used(15_000));
    story.judge(TWO, false);
    story.over(TWO);
    assert_eq!(foreign_events::made(&story.run, &raised(TWO, 90_000)), Ok(()));
    assert_eq!(foreign_events::made(&story.run, &raised(TWO, 15_000)), Err(0), "less than is spent");
    assert_eq!(foreign_events::made(&story.run, &raised(THREE, 90_000)), Err(0), "it waits for nothing");
    story.start(THREE);
    assert_eq!(foreign_events::made(&story.run, &raised(TWO, 90_000)), Err(0), "a run is under way");
}

#[test]
fn what_is_left_may_be_used_though_more_may_be_needed() {
    let mut story = Story::new("100k tokens", &["", ""]);
    story.does(ONE, used(70_000));
    story.over(TWO);
    story.answer(TWO, Choice::Retry).expect("go on");
    assert_eq!(tokens(story.start(TWO)), 30_000);
    story.end(TWO, 100, used(50_000));
    story.judge(TWO, false);
    // This attempt exceeded its reservation, and now nothing is left.
    story.over(TWO);
    assert_eq!(story.answer(TWO, Choice::Retry), Err(Refusal::NothingLeft { step: TWO }));
}

#[test]
fn the_other_answers_mean_what_they_mean_elsewhere_and_an_abort_ends_for_the_budget() {
    let mut story = Story::new("100k tokens", &["", ""]);
    story.does(ONE, used(70_000));
    story.over(TWO);
    let aborted = decide::human(
        &story.run,
        HumanCommand::Answer {
            step: Some(TWO),
            choice: Choice::Abort,
            note: String::new(),
            by: "ada".into(),
        },
    );
    let Some(Event::RunEnded { outcome, summary, why, .. }) = aborted.expect("aborted").pop() else {
        panic!("no end")
    };
    assert_eq!(
        (outcome, why, summary.cost.tokens),
        (RunOutcome::Failed, Some(RunEndReason::Budget), Some(70_000))
    );
    story.answer(TWO, Choice::Skip).expect("skipped");
    assert!(story.run.all_settled());
}
