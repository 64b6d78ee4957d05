//! Tests which sender may send which command, in which stage.

use expect_test::expect;

use super::*;

#[test]
fn an_agent_cannot_finish_a_plan_the_judge_has_not_passed() {
    approved_story(
        "finish; claim 1 done; start 1; claim 1 tests are green; claim 1; claim 2 me too; finish; ended 1; holds 1; finish",
        expect![[r#"
            finish -> refused: step 1 and 1 more have not passed their contracts; keep working
            claim 1 done -> refused: step 1 is not open: work on the step you were given
            start 1 -> TASK_STARTED
            claim 1 tests are green -> STEP_CLAIMED
            claim 1 -> refused: a claim needs evidence: say what was done and where it can be seen (step 1)
            claim 2 me too -> refused: step 2 is not open: work on the step you were given
            finish -> refused: step 1 and 1 more have not passed their contracts; keep working
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            finish -> refused: step 2 has not passed its contract; keep working
            [in-progress] next: [Dispatch { step: StepNumber(2) }]
        "#]],
    );
}

#[test]
fn a_skip_is_a_waiver_by_a_named_person_and_never_a_pass() {
    approved_story(
        "start 1; ended 1; breaks 1; start 1; ended 1; breaks 1; confirm 1; skip 1; start 2; ended 2; holds 2; still-holds 1; still-holds 2; post-holds; end",
        expect![[r#"
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            breaks 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            breaks 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            confirm 1 -> refused: `confirm` is not possible here; choose retry, skip, abort or revise
            skip 1 -> HUMAN_ANSWERED, TASK_WAIVED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds 2 -> CONTRACT_JUDGED, TASK_COMPLETED
            still-holds 1 -> refused: the check of the final contract of step 1 is not due
            still-holds 2 -> CONTRACT_JUDGED
            post-holds -> CONTRACT_JUDGED
            end -> EXECUTION_COMPLETE
            [done] next: []
        "#]],
    );
}

#[test]
fn approval_is_bound_to_the_revision_that_was_read() {
    story(
        "approve; record; approve; verified; approve 0000; approve; approve; record Do something else.; approve; verified; approve",
        expect![[r#"
            approve -> refused: the log has no plan yet; run `provost verify` first
            record -> PLAN_CREATED
            approve -> refused: the plan is draft, but approving needs it to be verified
            verified -> PLAN_VERIFIED
            approve 0000 -> refused: you read revision 0000, but the plan is now at 310369343c7f; read it again with `provost show`
            approve -> GATE_APPROVED
            approve -> refused: ada already approved revision 310369343c7f
            record Do something else. -> PLAN_REWRITTEN
            approve -> refused: the plan is draft, but approving needs it to be verified
            verified -> PLAN_VERIFIED
            approve -> GATE_APPROVED
            [approved] next: [Dispatch { step: StepNumber(1) }]
        "#]],
    );
}

#[test]
fn a_policy_does_not_speak_over_a_person() {
    story(
        "record; verified; ask what is it for?; policy; approve; reject too wide; verified; policy; approve",
        expect![[r#"
            record -> PLAN_CREATED
            verified -> PLAN_VERIFIED
            ask what is it for? -> GATE_QUESTION_ASKED
            policy -> refused: a question is open: what is it for?
            approve -> GATE_APPROVED
            reject too wide -> GATE_REJECTED
            verified -> PLAN_VERIFIED
            policy -> refused: a person rejected this revision: too wide
            approve -> GATE_APPROVED
            [approved] next: [Dispatch { step: StepNumber(1) }]
        "#]],
    );
}

/// Every command in every stage, so that a new command or stage is visible.
#[test]
fn the_table_of_every_stage_and_every_command() {
    let stages = [
        ("none", ""),
        ("draft", "record"),
        ("verified", "record; verified"),
        ("approved", APPROVED),
        ("running", "record; verified; approve; start 1"),
        ("ended", "record; verified; approve; start 1; ended 1"),
        ("blocked", "record; verified; approve; start 1; ended 1; breaks 1; start 1; ended 1; breaks 1"),
        ("settled", "record; verified; approve; start 1; ended 1; holds 1; start 2; ended 2; holds 2"),
        (
            "final",
            "record; verified; approve; start 1; ended 1; holds 1; start 2; ended 2; holds 2; still-holds 1; still-holds 2",
        ),
        (
            "done",
            "record; verified; approve; start 1; ended 1; holds 1; start 2; ended 2; holds 2; still-holds 1; still-holds 2; post-holds; end",
        ),
        (
            "failed",
            "record; verified; approve; start 1; ended 1; holds 1; start 2; ended 2; breaks 2; start 2; ended 2; breaks 2",
        ),
    ];
    let commands = [
        "claim 1 words",
        "stuck 1",
        "finish",
        "approve",
        "reject because",
        "ask why",
        "retry 1",
        "skip 1",
        "abort 1",
        "revise 1",
        "confirm 1",
        "record",
        "record Other.",
        "verified",
        "request",
        "policy",
        "start 1",
        "ended 1",
        "unstarted 1",
        "interrupted 1",
        "holds 1",
        "breaks 1",
        "lost-held 1",
        "lost 1",
        "still-holds 1",
        "undone 1",
        "post-holds",
        "post-breaks",
        "end",
    ];
    let mut table = String::new();
    for command in commands {
        table.push_str(&format!("{command:<16}"));
        for (_, way) in stages {
            let mut run = Run::default();
            tell(&mut run, way);
            let cell = match decide(&run, read(&run, command)) {
                Ok(events) if events.is_empty() => "=".to_owned(),
                Ok(events) => {
                    for event in &events {
                        run.apply(event);
                    }
                    run.stage.word().to_owned()
                }
                Err(_) => "·".to_owned(),
            };
            table.push_str(&format!("{cell:<12}"));
        }
        table.truncate(table.trim_end().len());
        table.push('\n');
    }
    let head: String = stages.iter().map(|(name, _)| format!("{name:<12}")).collect();
    expect![[r#"
                        none        draft       verified    approved    running     ended       blocked     settled     final       done        failed
        claim 1 words   ·           ·           ·           ·           in-progress in-progress ·           ·           ·           ·           ·
        stuck 1         ·           ·           ·           ·           in-progress in-progress ·           ·           ·           ·           ·
        finish          ·           ·           ·           ·           ·           ·           ·           ·           ·           =           ·
        approve         ·           ·           approved    ·           ·           ·           ·           ·           ·           ·           ·
        reject because  ·           ·           draft       draft       draft       draft       draft       draft       draft       ·           draft
        ask why         ·           ·           verified    verified    ·           ·           ·           ·           ·           ·           ·
        retry 1         ·           ·           ·           ·           ·           ·           in-progress ·           ·           ·           ·
        skip 1          ·           ·           ·           ·           ·           ·           in-progress ·           ·           ·           ·
        abort 1         ·           ·           ·           ·           ·           ·           failed      ·           ·           ·           ·
        revise 1        ·           ·           ·           ·           ·           ·           draft       ·           ·           ·           ·
        confirm 1       ·           ·           ·           ·           ·           ·           ·           ·           ·           ·           ·
        record          draft       =           =           =           =           =           =           =           =           =           =
        record Other.   draft       draft       draft       draft       draft       draft       draft       draft       draft       draft       draft
        verified        ·           verified    ·           ·           ·           ·           ·           ·           ·           ·           ·
        request         ·           ·           verified    ·           ·           ·           ·           ·           ·           ·           ·
        policy          ·           ·           approved    ·           ·           ·           ·           ·           ·           ·           ·
        start 1         ·           ·           ·           in-progress ·           ·           ·           ·           ·           ·           ·
        ended 1         ·           ·           ·           ·           in-progress ·           ·           ·           ·           ·           ·
        unstarted 1     ·           ·           ·           ·           in-progress ·           ·           ·           ·           ·           ·
        interrupted 1   ·           ·           ·           ·           in-progress ·           ·           ·           ·           ·           ·
        holds 1         ·           ·           ·           ·           ·           in-progress ·           ·           ·           ·           ·
        breaks 1        ·           ·           ·           ·           ·           in-progress ·           ·           ·           ·           ·
        lost-held 1     ·           ·           ·           ·           in-progress ·           ·           ·           ·           ·           ·
        lost 1          ·           ·           ·           ·           in-progress ·           ·           ·           ·           ·           ·
        still-holds 1   ·           ·           ·           ·           ·           ·           ·           in-progress ·           ·           ·
        undone 1        ·           ·           ·           ·           ·           ·           ·           in-progress ·           ·           ·
        post-holds      ·           ·           ·           ·           ·           ·           ·           ·           in-progress ·           ·
        post-breaks     ·           ·           ·           ·           ·           ·           ·           ·           failed      ·           ·
        end             ·           ·           ·           ·           ·           ·           ·           ·           ·           ·           ·
    "#]]
    .assert_eq(&format!("{:<16}{}\n{table}", "", head.trim_end()));
}

/// The same as a property: no command of an agent makes a step pass, in any state.
#[test]
fn no_agent_command_yields_a_passed_step_in_any_state() {
    let ways = [
        "",
        "record",
        APPROVED,
        "record; verified; approve; start 1",
        "record; verified; approve; start 1; ended 1",
    ];
    for way in ways {
        for word in ["claim 1 done", "claim 2 done", "stuck 1", "finish"] {
            let mut run = Run::default();
            tell(&mut run, way);
            let Said::Agent(command) = read(&run, word) else { unreachable!() };
            if let Ok(events) = agent(&run, command) {
                assert!(
                    !events.iter().any(|event| matches!(event, Event::StepPassed { .. })),
                    "{way} / {word}"
                );
            }
        }
    }
}
