//! Stories: who said what, and what came of it. A story is a script, its outcome an inline snapshot.

use expect_test::{Expect, expect};

use super::*;
use crate::chain::Timestamp;
use crate::plan::Plan;
use crate::schedule::{self, Action, InHand};
use crate::usage::Usage;
use crate::verdict::{Excerpt, Isolation, Outcome, Tree};

/// Two steps in order, one retry each, and a postcondition.
const TWO: &str = "\
---
type: plan
status: draft
owner: me
---

# Two steps

## Steps

### 1. First
**target:** coder
**task:**
Do it.
**contract:**
```shell
test -f one
```
**on_fail:** retry(1), then escalate

### 2. Second
**target:** coder
**task:**
Do it too.
**contract:**
```shell
test -f two
```
**on_fail:** retry(1), then abort

## Postconditions
1. Both are there
   ```shell
   test -f one && test -f two
   ```
";

fn verdict(outcome: Outcome) -> Verdict {
    Verdict {
        duration_ms: 5,
        stderr: Excerpt::whole("no such file"),
        ..Verdict::bare(Isolation::InPlace, outcome)
    }
}

#[expect(clippy::large_enum_variant, reason = "one word at a time is alive")]
enum Said {
    Agent(AgentCommand),
    Human(HumanCommand),
    Harness(HarnessCommand),
}

/// One word of a story.
fn read(run: &Run, word: &str) -> Said {
    let (verb, rest) = word.split_once(' ').unwrap_or((word, ""));
    let step = || StepNumber(rest.split(' ').next().unwrap_or("").parse().unwrap_or(1));
    let me = || "ada".to_owned();
    let attempt = || run.step(step()).map_or(1, |step| step.attempts);
    let contract =
        |outcome| HarnessCommand::Judged { subject: Subject::Contract(step()), verdict: verdict(outcome) };
    let post =
        |outcome| HarnessCommand::Judged { subject: Subject::Postcondition(1), verdict: verdict(outcome) };
    let lost =
        |outcome| HarnessCommand::JudgedLost { step: step(), verdict: verdict(outcome), max_losses: 3 };
    let last =
        |outcome| HarnessCommand::Judged { subject: Subject::Final(step()), verdict: verdict(outcome) };
    let control =
        |outcome| HarnessCommand::Judged { subject: Subject::Control(step()), verdict: verdict(outcome) };
    let answer = |choice| HumanCommand::Answer { step: Some(step()), choice, note: String::new(), by: me() };
    let ended = |end| HarnessCommand::AttemptEnded {
        step: step(),
        attempt: attempt(),
        end,
        duration_ms: 1,
        report: String::new(),
        notes: Vec::new(),
        usage: Usage::default(),
        session: None,
        published: Vec::new(),
        rewrites: Vec::new(),
        carried: None,
    };
    match verb {
        "claim" => Said::Agent(AgentCommand::Claim {
            step: step(),
            evidence: rest.split_once(' ').map_or("", |(_, text)| text).to_owned(),
        }),
        "stuck" => Said::Agent(AgentCommand::Block { step: step(), reason: "no network".to_owned() }),
        "finish" => Said::Agent(AgentCommand::Finish),
        "approve" => Said::Human(HumanCommand::Approve {
            revision: if rest.is_empty() { run.revision.clone() } else { Revision(rest.to_owned()) },
            by: me(),
            modifications: Vec::new(),
        }),
        "reject" => Said::Human(HumanCommand::Reject { reason: rest.to_owned(), by: me() }),
        "ask" => Said::Human(HumanCommand::Ask { question: rest.to_owned(), by: me() }),
        "retry" => Said::Human(answer(Choice::Retry)),
        "skip" => Said::Human(answer(Choice::Skip)),
        "abort" => Said::Human(answer(Choice::Abort)),
        "revise" => Said::Human(answer(Choice::Revise)),
        "confirm" => Said::Human(answer(Choice::Confirm)),
        "record" => Said::Harness(HarnessCommand::Record {
            text: if rest.is_empty() { TWO.to_owned() } else { TWO.replace("Do it too.", rest) },
            binding: Binding::default(),
            author: None,
        }),
        "verified" => Said::Harness(HarnessCommand::Verified { revision: run.revision.clone(), warnings: 0 }),
        "request" => Said::Harness(HarnessCommand::RequestApproval { plan_id: "two".to_owned() }),
        "policy" => Said::Harness(HarnessCommand::ApproveByPolicy {
            revision: run.revision.clone(),
            by: Approver::Policy { name: "docs".to_owned(), digest: "d".to_owned() },
        }),
        "start" => Said::Harness(HarnessCommand::Start { step: step() }),
        "ended" => Said::Harness(ended(AttemptEnd::Exited { exit_code: 0 })),
        "unstarted" => Said::Harness(ended(AttemptEnd::NotStarted { reason: "no such program".to_owned() })),
        "interrupted" => {
            Said::Harness(HarnessCommand::AttemptInterrupted { step: step(), attempt: attempt() })
        }
        "holds" => Said::Harness(contract(Outcome::Held)),
        "breaks" => Said::Harness(contract(Outcome::Broke { exit_code: 1 })),
        // `holds-on 1 abc`: on the harness's own tree abc.
        "holds-on" => Said::Harness(on_tree(contract(Outcome::Held), rest)),
        "breaks-on" => Said::Harness(on_tree(contract(Outcome::Broke { exit_code: 1 }), rest)),
        "attest" | "attest-red" => Said::Harness(HarnessCommand::Attested {
            level: Isolation::Clean,
            require_red: verb == "attest-red",
            probes: Vec::new(),
            kernel: String::new(),
            bubblewrap: None,
            agent_outside: false,
            took_over: None,
        }),
        "control-unrunnable" => Said::Harness(control(Outcome::NotRun { reason: "no crates".to_owned() })),
        "control-holds" => Said::Harness(control(Outcome::Held)),
        "control-breaks" => Said::Harness(control(Outcome::Broke { exit_code: 1 })),
        "confirm-because" => Said::Human(HumanCommand::Answer {
            step: Some(step()),
            choice: Choice::Confirm,
            note: "it guards the build".to_owned(),
            by: me(),
        }),
        "lost-held" => Said::Harness(lost(Outcome::Held)),
        "lost" => Said::Harness(lost(Outcome::Broke { exit_code: 1 })),
        "still-holds" => Said::Harness(last(Outcome::Held)),
        "still-holds-on" => Said::Harness(on_tree(last(Outcome::Held), rest)),
        "undone" => Said::Harness(last(Outcome::Broke { exit_code: 1 })),
        "killed" => Said::Harness(contract(Outcome::Killed { signal: 9 })),
        "post-holds" => Said::Harness(post(Outcome::Held)),
        "post-breaks" => Said::Harness(post(Outcome::Broke { exit_code: 1 })),
        "end" => Said::Harness(HarnessCommand::End),
        other => unreachable!("no word `{other}`"),
    }
}

fn on_tree(command: HarnessCommand, rest: &str) -> HarnessCommand {
    let HarnessCommand::Judged { subject, verdict } = command else { unreachable!() };
    let id = rest.split(' ').nth(1).unwrap_or_default().to_owned();
    let tree = Tree { base: "base".to_owned(), id, files: Vec::new(), refused: Vec::new() };
    HarnessCommand::Judged { subject, verdict: Verdict { tree: Some(Box::new(tree)), ..verdict } }
}

/// One after the other, each works on what the one before left.
fn decide(run: &Run, said: Said) -> Decision {
    let said = match said {
        Said::Harness(HarnessCommand::Judged { subject, mut verdict }) => {
            if let (Some(tree), Some(now)) = (&mut verdict.tree, &run.tree) {
                tree.base.clone_from(now);
            }
            Said::Harness(HarnessCommand::Judged { subject, verdict })
        }
        said => said,
    };
    match said {
        Said::Agent(command) => agent(run, command),
        Said::Human(command) => human(run, command),
        Said::Harness(command) => harness(run, command),
    }
}

fn tell(run: &mut Run, script: &str) -> String {
    let mut out = String::new();
    for word in script.split(';').map(str::trim).filter(|word| !word.is_empty()) {
        let told = match decide(run, read(run, word)) {
            Ok(events) => {
                let names: Vec<&str> = events.iter().map(Event::name).collect();
                for event in &events {
                    run.apply(event);
                }
                if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
            }
            Err(refusal) => format!("refused: {refusal}"),
        };
        out.push_str(&format!("{word} -> {told}\n"));
    }
    out.push_str(&format!(
        "[{}] next: {:?}\n",
        run.stage.word(),
        schedule::next(run, &InHand::default(), 8, Timestamp(0))
    ));
    out
}

fn story(script: &str, expected: Expect) {
    expected.assert_eq(&tell(&mut Run::default(), script));
}

const APPROVED: &str = "record; verified; approve";

fn approved_story(script: &str, expected: Expect) {
    let mut run = Run::default();
    tell(&mut run, APPROVED);
    expected.assert_eq(&tell(&mut run, script));
}

#[test]
fn a_plan_goes_from_draft_to_done_in_order() {
    story(
        "record; verified; request; request; approve; start 1; ended 1; holds 1; start 2; ended 2; holds 2; still-holds 1; still-holds 2; post-holds; end",
        expect![[r#"
            record -> PLAN_CREATED
            verified -> PLAN_VERIFIED
            request -> GATE_APPROVAL_REQUESTED
            request -> nothing
            approve -> GATE_APPROVED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds 2 -> CONTRACT_JUDGED, TASK_COMPLETED
            still-holds 1 -> CONTRACT_JUDGED
            still-holds 2 -> CONTRACT_JUDGED
            post-holds -> CONTRACT_JUDGED
            end -> EXECUTION_COMPLETE
            [done] next: []
        "#]],
    );
}

#[test]
fn an_agent_cannot_finish_a_plan_the_judge_has_not_passed() {
    approved_story(
        "finish; claim 1 done; start 1; claim 1 tests are green; claim 1; claim 2 me too; finish; ended 1; holds 1; finish",
        expect![[r#"
            finish -> refused: no contract has held yet for step 1 and 1 more: keep working
            claim 1 done -> refused: step 1 is not open: work on the step you were given
            start 1 -> TASK_STARTED
            claim 1 tests are green -> STEP_CLAIMED
            claim 1 -> refused: a claim needs evidence: say what was done and where it can be seen (step 1)
            claim 2 me too -> refused: step 2 is not open: work on the step you were given
            finish -> refused: no contract has held yet for step 1 and 1 more: keep working
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            finish -> refused: no contract has held yet for step 2 and 0 more: keep working
            [in-progress] next: [Dispatch { step: StepNumber(2) }]
        "#]],
    );
}

#[test]
fn a_broken_contract_is_retried_with_the_evidence_and_then_goes_to_a_person() {
    approved_story(
        "start 1; ended 1; breaks 1; start 1; ended 1; breaks 1; start 1; retry 2; retry 1; start 1",
        expect![[r#"
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            breaks 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            breaks 1 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            start 1 -> refused: step 1 is not open: work on the step you were given
            retry 2 -> refused: step 2 does not wait for a person
            retry 1 -> HUMAN_ANSWERED
            start 1 -> TASK_STARTED
            [in-progress] next: [JudgeLost { step: StepNumber(1), attempt: 3 }]
        "#]],
    );
}

#[test]
fn abort_ends_the_plan_and_a_person_can_open_it_again() {
    approved_story(
        "start 1; ended 1; holds 1; start 2; ended 2; breaks 2; start 2; ended 2; breaks 2; start 2; retry 2; start 2",
        expect![[r#"
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            breaks 2 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            breaks 2 -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, TASK_FAILED, EXECUTION_COMPLETE
            start 2 -> refused: the plan is failed, and starting a step needs it to be approved
            retry 2 -> HUMAN_ANSWERED
            start 2 -> TASK_STARTED
            [in-progress] next: [JudgeLost { step: StepNumber(2), attempt: 3 }]
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
            confirm 1 -> refused: `confirm` is no answer here: choose retry, skip, abort or revise
            skip 1 -> HUMAN_ANSWERED, TASK_WAIVED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds 2 -> CONTRACT_JUDGED, TASK_COMPLETED
            still-holds 1 -> refused: the check of the last look at step 1 is not due
            still-holds 2 -> CONTRACT_JUDGED
            post-holds -> CONTRACT_JUDGED
            end -> EXECUTION_COMPLETE
            [done] next: []
        "#]],
    );
}

#[test]
fn an_attempt_lost_to_a_crash_uses_up_no_retry_but_not_for_ever() {
    approved_story(
        "start 1; lost 1; start 1; lost-held 1; start 2; lost 2; start 2; lost 2; start 2; lost 2; start 2",
        expect![[r#"
            start 1 -> TASK_STARTED
            lost 1 -> CONTRACT_JUDGED, ATTEMPT_LOST
            start 1 -> TASK_STARTED
            lost-held 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            start 2 -> TASK_STARTED
            lost 2 -> CONTRACT_JUDGED, ATTEMPT_LOST
            start 2 -> TASK_STARTED
            lost 2 -> CONTRACT_JUDGED, ATTEMPT_LOST
            start 2 -> TASK_STARTED
            lost 2 -> CONTRACT_JUDGED, ATTEMPT_LOST, RECOVERY_ESCALATION
            start 2 -> refused: step 2 is not open: work on the step you were given
            [in-progress] next: []
        "#]],
    );
}

#[test]
fn an_agent_that_cannot_be_started_is_a_failed_attempt_without_a_verdict() {
    approved_story(
        "start 1; unstarted 1; holds 1; start 1; unstarted 1",
        expect![[r#"
            start 1 -> TASK_STARTED
            unstarted 1 -> ATTEMPT_ENDED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            holds 1 -> refused: the check of step 1 is not due
            start 1 -> refused: step 1 is not open: work on the step you were given
            unstarted 1 -> refused: attempt 1 of step 1 is not under way any more
            [in-progress] next: []
        "#]],
    );
}

#[test]
fn approval_is_bound_to_the_revision_that_was_read() {
    story(
        "approve; record; approve; verified; approve 0000; approve; approve; record Do something else.; approve; verified; approve",
        expect![[r#"
            approve -> refused: there is no plan in the log yet
            record -> PLAN_CREATED
            approve -> refused: the plan is draft, and approving needs it to be verified
            verified -> PLAN_VERIFIED
            approve 0000 -> refused: revision 0000 is not what the plan says now (it is 310369343c7f): look at it again
            approve -> GATE_APPROVED
            approve -> refused: revision 310369343c7f is approved already, by ada
            record Do something else. -> PLAN_REWRITTEN
            approve -> refused: the plan is draft, and approving needs it to be verified
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

#[test]
fn what_has_passed_stays_passed_when_the_rest_is_rewritten() {
    approved_story(
        "start 1; ended 1; holds 1; start 2; record Do something else.; ended 2; start 2; verified; approve; start 2; ended 2; holds 2",
        expect![[r#"
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            start 2 -> TASK_STARTED
            record Do something else. -> PLAN_REWRITTEN
            ended 2 -> refused: attempt 1 of step 2 is not under way any more
            start 2 -> refused: the plan is draft, and starting a step needs it to be approved
            verified -> PLAN_VERIFIED
            approve -> GATE_APPROVED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds 2 -> CONTRACT_JUDGED, TASK_COMPLETED
            [in-progress] next: [Judge { subject: Final(StepNumber(1)) }]
        "#]],
    );
}

#[test]
fn a_broken_postcondition_fails_the_plan_and_can_be_looked_at_again() {
    approved_story(
        "start 1; ended 1; holds 1; start 2; ended 2; holds 2; end; post-breaks; still-holds 1; still-holds 2; post-breaks; end; skip 1; start 1",
        expect![[r#"
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds 1 -> CONTRACT_JUDGED, TASK_COMPLETED
            start 2 -> TASK_STARTED
            ended 2 -> ATTEMPT_ENDED
            holds 2 -> CONTRACT_JUDGED, TASK_COMPLETED
            end -> refused: steps or postconditions are still open
            post-breaks -> refused: the check of postcondition 1 is not due
            still-holds 1 -> CONTRACT_JUDGED
            still-holds 2 -> CONTRACT_JUDGED
            post-breaks -> CONTRACT_JUDGED, EXECUTION_COMPLETE
            end -> refused: steps or postconditions are still open
            skip 1 -> refused: step 1 does not wait for a person
            start 1 -> refused: the plan is failed, and starting a step needs it to be approved
            [failed] next: []
        "#]],
    );
}

#[test]
fn an_interrupted_attempt_is_tried_again() {
    approved_story(
        "start 1; interrupted 1; interrupted 1; start 1; stuck 1; revise 1",
        expect![[r#"
            start 1 -> TASK_STARTED
            interrupted 1 -> ATTEMPT_LOST
            interrupted 1 -> refused: attempt 1 of step 1 is not under way any more
            start 1 -> TASK_STARTED
            stuck 1 -> RECOVERY_ESCALATION
            revise 1 -> HUMAN_ANSWERED
            [draft] next: []
        "#]],
    );
}

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
fn where_red_is_required_a_contract_that_held_before_the_work_passes_nothing() {
    approved_story(
        "attest-red; control-holds 1; start 1; ended 1; holds-on 1 abc; confirm 1; confirm-because 1",
        expect![[r#"
            attest-red -> ISOLATION_ATTESTED
            control-holds 1 -> CONTRACT_JUDGED
            start 1 -> TASK_STARTED
            ended 1 -> ATTEMPT_ENDED
            holds-on 1 abc -> CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_ESCALATION
            confirm 1 -> refused: `confirm` is no answer here: choose retry, skip, abort or revise
            confirm-because 1 -> HUMAN_ANSWERED, TASK_COMPLETED
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
            confirm-because 1 -> refused: `confirm` is no answer here: choose retry, skip, abort or revise
            retry 1 -> HUMAN_ANSWERED
            [in-progress] next: [Judge { subject: Contract(StepNumber(1)) }]
        "#]],
    );
}

/// Step 2 breaks what step 1 had done: step 1 is open again, and all is looked at once more.
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

/// The last step's contract held on the final tree already; the first one's is run there.
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

/// Nobody is sent to work for a check that cannot be run.
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

/// Every command in every stage, so that a new one of either shows.
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

/// The same, said as a property: whatever an agent says, in whatever state, no step passes.
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

/// Ten thousand steps must not be looked at ten thousand times.
#[test]
fn scheduling_a_long_plan_is_linear() {
    let mut text = String::from("---\ntype: plan\nstatus: draft\nowner: me\n---\n# Long\n\n## Steps\n\n");
    for number in 1..=3000 {
        text.push_str(&format!(
            "### {number}. Step\n**target:** coder\n**task:**\nDo.\n**contract:**\n```shell\ntest -f {number}\n```\n\n"
        ));
    }
    let plan: Plan = crate::parse::plan(&text).plan;
    assert_eq!(plan.steps.len(), 3000);
    let mut run = Run::default();
    let record = HarnessCommand::Record { text, binding: Binding::default(), author: None };
    for event in harness(&run, record).unwrap() {
        run.apply(&event);
    }
    tell(&mut run, "verified; approve");
    for number in 1..=3000 {
        assert_eq!(run.ready().collect::<Vec<_>>(), [StepNumber(number)]);
        tell_quietly(&mut run, &format!("start {number}; ended {number}; holds {number}"));
    }
    assert!(run.all_settled());
    for number in 1..=3000 {
        assert_eq!(run.to_be_final().next(), Some(StepNumber(number)));
        tell_quietly(&mut run, &format!("still-holds {number}"));
    }
    assert_eq!(schedule::next(&run, &InHand::default(), 1, Timestamp(0)), [schedule::Action::End]);
}

fn tell_quietly(run: &mut Run, script: &str) {
    for word in script.split("; ") {
        for event in decide(run, read(run, word)).unwrap() {
            run.apply(&event);
        }
    }
}

/// A session that stops too early, twice with the same output, then does the work.
#[test]
fn a_session_is_sent_back_and_passes_by_a_verdict_alone() {
    let mut run = Run::default();
    let say = |run: &mut Run, command: HarnessCommand| -> String {
        match harness(run, command) {
            Ok(events) => {
                events.iter().for_each(|event| run.apply(event));
                events.iter().map(Event::name).collect::<Vec<_>>().join(" ")
            }
            Err(refusal) => format!("refused: {refusal}"),
        }
    };
    let text = "---\nstatus: draft\n---\n# P\n## Steps\n### 1. A\n**target:** c\n**task:** Do it.\n**contract:**\n```shell\ntest -f a\n```\n## Postconditions\n1. Fine\n   ```shell\n   test -f b\n   ```\n";
    say(
        &mut run,
        HarnessCommand::Record { text: text.to_owned(), binding: Binding::default(), author: None },
    );
    let revision = run.revision.clone();
    say(&mut run, HarnessCommand::Verified { revision: revision.clone(), warnings: 0 });
    let approve = HumanCommand::Approve { revision, by: "ada".to_owned(), modifications: Vec::new() };
    human(&run, approve).unwrap().iter().for_each(|event| run.apply(event));
    let look = |subject, outcome| HarnessCommand::Looked {
        subject,
        verdict: Some(Verdict::bare(crate::verdict::Isolation::InPlace, outcome)),
        client: "claude".to_owned(),
    };
    let (one, post) = (Subject::Contract(StepNumber(1)), Subject::Postcondition(1));
    let broke = || Outcome::Broke { exit_code: 1 };
    let sent_back =
        "TASK_STARTED ATTEMPT_ENDED CONTRACT_JUDGED FAILURE_DETECTED FAILURE_CLASSIFIED RECOVERY_APPLIED";
    for _ in 0..4 {
        assert_eq!(say(&mut run, look(one, broke())), sent_back);
        assert_eq!(run.step(StepNumber(1)).unwrap().state, StepState::Pending);
    }
    assert!(say(&mut run, look(post, broke())).starts_with("refused"));
    assert_eq!(
        say(&mut run, look(one, Outcome::Held)),
        "TASK_STARTED ATTEMPT_ENDED CONTRACT_JUDGED TASK_COMPLETED"
    );
    assert_eq!(say(&mut run, look(Subject::Final(StepNumber(1)), Outcome::Held)), "CONTRACT_JUDGED");
    assert_eq!(say(&mut run, look(post, broke())), "CONTRACT_JUDGED");
    assert_eq!(run.stage, Stage::InProgress);
    // Whatever mends it, everything is looked at once more before the end.
    assert!(say(&mut run, HarnessCommand::End).starts_with("refused"));
    assert!(say(&mut run, look(post, Outcome::Held)).starts_with("refused"));
    let again = HarnessCommand::Attested {
        level: crate::verdict::Isolation::InPlace,
        require_red: false,
        probes: Vec::new(),
        kernel: String::new(),
        bubblewrap: None,
        agent_outside: true,
        took_over: None,
    };
    assert_eq!(say(&mut run, again), "ISOLATION_ATTESTED");
    assert!(say(&mut run, look(post, Outcome::Held)).starts_with("refused"));
    assert_eq!(say(&mut run, look(Subject::Final(StepNumber(1)), Outcome::Held)), "CONTRACT_JUDGED");
    let mut mended = run.clone();
    assert_eq!(say(&mut mended, look(post, Outcome::Held)), "CONTRACT_JUDGED");
    assert_eq!(say(&mut mended, HarnessCommand::End), "EXECUTION_COMPLETE");
    assert_eq!(mended.stage, Stage::Done);
    assert_eq!(say(&mut run, look(post, broke())), "CONTRACT_JUDGED");
    assert_eq!(say(&mut run, HarnessCommand::LetGo { reason: "enough".to_owned() }), "EXECUTION_COMPLETE");
    assert_eq!(run.stage, Stage::Failed);
}

#[test]
fn a_session_that_is_let_go_leaves_its_step_to_a_person() {
    let mut run = Run::default();
    let text = "---\nstatus: draft\n---\n# P\n## Steps\n### 1. A\n**target:** c\n**task:** Do it.\n**contract:**\n```shell\ntest -f a\n```\n";
    let record = HarnessCommand::Record { text: text.to_owned(), binding: Binding::default(), author: None };
    harness(&run, record).unwrap().iter().for_each(|event| run.apply(event));
    let go = || HarnessCommand::LetGo { reason: "5 refusals without progress".to_owned() };
    assert!(harness(&run, go()).is_err(), "not before the gate");
    run.stage = Stage::Approved;
    let events = harness(&run, go()).unwrap();
    assert_eq!(
        events,
        [Event::Escalated {
            step: Some(StepNumber(1)),
            reason: "the session was let go: 5 refusals without progress".to_owned()
        }]
    );
    events.iter().for_each(|event| run.apply(event));
    assert!(run.any_blocked() && !run.all_settled());
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
        let tree = Tree { base: base.into(), id: id.into(), files: Vec::new(), refused: Vec::new() };
        Verdict { tree: Some(Box::new(tree)), ..Verdict::bare(Isolation::Clean, outcome) }
    };
    let mut say = |command: HarnessCommand| {
        let events = harness(&run, command).unwrap();
        events.iter().for_each(|event| run.apply(event));
        (events.iter().map(Event::name).collect::<Vec<_>>().join(", "), run.clone())
    };
    let (_, now) = say(HarnessCommand::Record { text, binding: Binding::default(), author: None });
    say(HarnessCommand::Verified { revision: now.revision.clone(), warnings: 0 });
    let by = Approver::Policy { name: "any".into(), digest: String::new() };
    say(HarnessCommand::ApproveByPolicy { revision: now.revision, by });
    let (one, two) = (StepNumber(1), StepNumber(2));
    let ended = |step, attempt| HarnessCommand::AttemptEnded {
        step,
        attempt,
        end: AttemptEnd::Exited { exit_code: 0 },
        duration_ms: 1,
        report: String::new(),
        notes: Vec::new(),
        usage: crate::usage::Usage::default(),
        session: None,
        published: Vec::new(),
        rewrites: Vec::new(),
        carried: None,
    };
    for step in [one, two] {
        say(HarnessCommand::Start { step });
        say(ended(step, 1));
    }
    let judged = |step, verdict| HarnessCommand::Judged { subject: Subject::Contract(step), verdict };
    let held = say(judged(one, verdict("base", "one", Outcome::Held)));
    assert_eq!(held.0, "CONTRACT_JUDGED, TASK_COMPLETED");
    // The second began where the first did: what it made is looked at again on what the first left.
    let (events, now) = say(judged(two, verdict("base", "two", Outcome::Held)));
    assert_eq!((events.as_str(), now.is_held_apart(two)), ("CONTRACT_JUDGED", true));
    let next = schedule::next(&now, &InHand::default(), 4, Timestamp(0));
    assert_eq!(next, [Action::Judge { subject: Subject::Contract(two) }]);
    let files = vec!["shared.rs".to_owned()];
    let conflict = Verdict::bare(Isolation::Clean, Outcome::Conflict { files });
    let (events, now) = say(judged(two, conflict));
    assert!(events.starts_with("CONTRACT_JUDGED, FAILURE_DETECTED, FAILURE_CLASSIFIED, RECOVERY_APPLIED"));
    assert!(now.step(two).unwrap().verdict.as_ref().unwrap().outcome.to_string().contains("shared.rs"));
    say(HarnessCommand::Start { step: two });
    say(ended(two, 2));
    let held = say(judged(two, verdict("one", "both", Outcome::Held)));
    assert_eq!(held.0, "CONTRACT_JUDGED, TASK_COMPLETED");
    assert_eq!(held.1.tree.as_deref(), Some("both"));
}
