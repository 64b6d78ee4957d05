//! Tests what follows from a verdict.

use expect_test::expect;

use super::*;

#[test]
fn with_a_tree_of_its_own_the_harness_looks_first_whether_the_contract_can_fail() {
    approved_story(
        "attest; control-breaks 1; start 1; ended 1; holds-on 1 abc; control-holds 2; start 2; ended 2; holds-on 2 abd",
        expect![[r#"
            attest -> ISOLATION_ATTESTED
            control-breaks 1 -> CONTRACT_JUDGED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds-on 1 abc -> CONTRACT_JUDGED, TASK_COMPLETED
            control-holds 2 -> CONTRACT_JUDGED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds-on 2 abd -> CONTRACT_JUDGED, TASK_COMPLETED
            [in-progress] next: [Judge { subject: Final(StepNumber(1)) }, Judge { subject: Final(StepNumber(2)) }]
        "#]],
    );
}

#[test]
fn a_control_that_was_killed_from_outside_is_no_failure_before_the_work() {
    approved_story(
        "attest; control-killed 1; start 1; retry 1; control-breaks 1; start 1; ended 1; holds-on 1 abc",
        expect![[r#"
            attest -> ISOLATION_ATTESTED
            control-killed 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            start 1 -> refused: step 1 is not open: work on the step you were given
            retry 1 -> HUMAN_ANSWERED
            control-breaks 1 -> CONTRACT_JUDGED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds-on 1 abc -> CONTRACT_JUDGED, TASK_COMPLETED
            [in-progress] next: [Judge { subject: Control(StepNumber(2)) }]
        "#]],
    );
}

#[test]
fn red_first_asks_a_person_before_an_agent_is_paid() {
    approved_story(
        "attest-red; control-holds 1; start 1; confirm 1; confirm-because 1",
        expect![[r#"
            attest-red -> ISOLATION_ATTESTED
            control-holds 1 -> CONTRACT_JUDGED, RECOVERY_ESCALATION
            start 1 -> refused: step 1 is not open: work on the step you were given
            confirm 1 -> refused: `confirm` is not possible here; choose retry, skip, abort or revise
            confirm-because 1 -> HUMAN_ANSWERED, TASK_COMPLETED
            [in-progress] next: [Judge { subject: Control(StepNumber(2)) }]
        "#]],
    );
}

#[test]
fn what_a_person_lets_an_agent_work_on_all_the_same_passes_as_held_before() {
    approved_story(
        "attest-red; control-holds 1; retry 1; start 1; ended 1; holds-on 1 abc",
        expect![[r#"
            attest-red -> ISOLATION_ATTESTED
            control-holds 1 -> CONTRACT_JUDGED, RECOVERY_ESCALATION
            retry 1 -> HUMAN_ANSWERED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds-on 1 abc -> CONTRACT_JUDGED, TASK_COMPLETED
            [in-progress] next: [Judge { subject: Control(StepNumber(2)) }]
        "#]],
    );
}

#[test]
fn a_pass_on_files_that_failed_before_is_flaky_and_no_lottery() {
    approved_story(
        "attest; control-breaks 1; start 1; ended 1; breaks-on 1 abc; start 1; ended 1; holds-on 1 abc; confirm-because 1; retry 1",
        expect![[r#"
            attest -> ISOLATION_ATTESTED
            control-breaks 1 -> CONTRACT_JUDGED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            breaks-on 1 abc -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds-on 1 abc -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            confirm-because 1 -> refused: `confirm` is not possible here; choose retry, skip, abort or revise
            retry 1 -> HUMAN_ANSWERED
            [in-progress] next: [Judge { subject: Contract(StepNumber(1)) }]
        "#]],
    );
}

/// Step 2 breaks the work of step 1: step 1 is opened again, and everything is checked once more.
#[test]
fn what_a_later_step_undid_is_found_at_the_end() {
    approved_story(
        "start 1; ended 1; holds 1; start 2; ended 2; holds 2; undone 1; post-holds; start 1; ended 1; holds 1; still-holds 1; undone 2; start 2; ended 2; holds 2; undone 1",
        expect![[r#"
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds 2 -> CONTRACT_JUDGED, TASK_COMPLETED
            undone 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED
            post-holds -> refused: the check of postcondition 1 is not due
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            still-holds 1 -> CONTRACT_JUDGED
            undone 2 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds 2 -> CONTRACT_JUDGED, TASK_COMPLETED
            undone 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            [in-progress] next: []
        "#]],
    );
}

/// The last step's contract already held on the final tree; the first one's runs there.
#[test]
fn at_the_end_everything_holds_on_one_tree() {
    approved_story(
        "attest; control-breaks 1; start 1; ended 1; holds-on 1 abc; control-breaks 2; start 2; ended 2; holds-on 2 abd; still-holds-on 1 abd; still-holds-on 2 abd; post-holds; end",
        expect![[r#"
            attest -> ISOLATION_ATTESTED
            control-breaks 1 -> CONTRACT_JUDGED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds-on 1 abc -> CONTRACT_JUDGED, TASK_COMPLETED
            control-breaks 2 -> CONTRACT_JUDGED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds-on 2 abd -> CONTRACT_JUDGED, TASK_COMPLETED
            still-holds-on 1 abd -> CONTRACT_JUDGED
            still-holds-on 2 abd -> CONTRACT_JUDGED
            post-holds -> CONTRACT_JUDGED
            end -> EXECUTION_COMPLETE
            [done] next: []
        "#]],
    );
}

#[test]
fn a_check_that_was_killed_is_run_again_and_the_agent_is_not() {
    approved_story(
        "start 1; ended 1; killed 1; killed 1; retry 1; holds 1",
        expect![[r#"
        start 1 -> TASK_STARTED
        ended 1 -> ATTEMPT_ENDED
        killed 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED
        killed 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
        retry 1 -> HUMAN_ANSWERED
        holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
        [in-progress] next: [Dispatch { step: StepNumber(2) }]
    "#]],
    );
}

/// No agent starts for a check that cannot run.
#[test]
fn a_contract_that_cannot_be_run_stops_before_the_agent() {
    approved_story(
        "attest; control-unrunnable 1; start 1; retry 1; control-breaks 1; start 1",
        expect![[r#"
            attest -> ISOLATION_ATTESTED
            control-unrunnable 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            start 1 -> refused: step 1 is not open: work on the step you were given
            retry 1 -> HUMAN_ANSWERED
            control-breaks 1 -> CONTRACT_JUDGED
            start 1 -> TASK_STARTED
            [in-progress] next: [JudgeLost { step: StepNumber(1), attempt: 1 }]
        "#]],
    );
}

#[test]
fn what_held_beside_others_has_to_hold_with_what_they_left() {
    let mut run = Run::default();
    let free = "**needs:** none\n**touches:** a\n";
    let step = |n: u32| {
        format!(
            "### {n}. S\n**target:** t\n{}**task:** Do.\n**contract:**\n```shell\ntest -f {n}\n```\n",
            free.replace("** a", &format!("** a{n}"))
        )
    };
    let text = format!("---\nstatus: draft\n---\n# T\n\n## Steps\n{}{}", step(1), step(2));
    let verdict = |base: &str, id: &str, outcome| {
        let tree = Tree { base: base.into(), id: id.into(), ..Tree::default() };
        Verdict { tree: Some(Box::new(tree)), ..Verdict::bare(Isolation::Clean, outcome) }
    };
    let mut say = |command: HarnessCommand| {
        let events = harness(&run, command).unwrap();
        events.iter().for_each(|event| run.apply(event));
        (events.iter().map(Event::name).collect::<Vec<_>>().join(", "), run.clone())
    };
    let (_, now) = say(HarnessCommand::Record { text, binding: Binding::default(), author: None });
    say(HarnessCommand::Verified { revision: now.revision.clone(), warnings: 0 });
    let by =
        Approver::Policy { name: "any".into(), digest: String::new(), unread: false, trusted: Vec::new() };
    say(HarnessCommand::ApproveByPolicy { revision: now.revision, by });
    let (one, two) = (StepNumber(1), StepNumber(2));
    let ended = |step, attempt| {
        HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: 1,
            ..EndedAttempt::new(step, attempt, AttemptEnd::Exited { exit_code: 0 })
        })
    };
    for step in [one, two] {
        say(HarnessCommand::Start { step });
        say(ended(step, 1));
    }
    let judged = |step, verdict| HarnessCommand::Judged { subject: CheckSubject::Contract(step), verdict };
    let held = say(judged(one, verdict("base", "one", CheckOutcome::Held)));
    assert_eq!(held.0, "CONTRACT_JUDGED, TASK_COMPLETED");
    // Both started from the same base: the second result is checked again on top of the first.
    let (events, now) = say(judged(two, verdict("base", "two", CheckOutcome::Held)));
    assert_eq!((events.as_str(), now.is_held_apart(two)), ("CONTRACT_JUDGED", true));
    let next = schedule::next(&now, &InHand::default(), 4, Timestamp(0));
    assert_eq!(next, [Action::Judge { subject: CheckSubject::Contract(two) }]);
    let files = vec!["shared.rs".to_owned()];
    let conflict = Verdict::bare(Isolation::Clean, CheckOutcome::Conflict { files });
    let (events, now) = say(judged(two, conflict));
    assert!(events.starts_with("CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED"));
    assert!(now.step(two).unwrap().verdict.as_ref().unwrap().outcome.to_string().contains("shared.rs"));
    say(HarnessCommand::Start { step: two });
    say(ended(two, 2));
    let held = say(judged(two, verdict("one", "both", CheckOutcome::Held)));
    assert_eq!(held.0, "CONTRACT_JUDGED, TASK_COMPLETED");
    assert_eq!(held.1.tree.as_deref(), Some("both"));
}
