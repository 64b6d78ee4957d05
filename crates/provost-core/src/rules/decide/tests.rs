//! Tests decisions with scripts: each line is a command, and the outcome is an inline snapshot.

mod doors;
mod judged;
mod session;

use expect_test::{Expect, expect};

use super::*;
use crate::model::event::{CheckSubject, Choice, EndedAttempt};
use crate::model::plan::Plan;
use crate::model::timestamp::Timestamp;
use crate::model::verdict::{CheckOutcome, Excerpt, Isolation, Tree, Verdict};
use crate::rules::command::{AgentCommand, HumanCommand};
use crate::rules::schedule::{self, Action, InHand};

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

fn verdict(outcome: CheckOutcome) -> Verdict {
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

/// Parses one command of a script.
fn read(run: &Run, word: &str) -> Said {
    let (verb, rest) = word.split_once(' ').unwrap_or((word, ""));
    let step = || StepNumber(rest.split(' ').next().unwrap_or("").parse().unwrap_or(1));
    let me = || "ada".to_owned();
    let attempt = || run.step(step()).map_or(1, |step| step.attempts);
    let contract = |outcome| HarnessCommand::Judged {
        subject: CheckSubject::Contract(step()),
        verdict: verdict(outcome),
    };
    let post = |outcome| HarnessCommand::Judged {
        subject: CheckSubject::Postcondition(1),
        verdict: verdict(outcome),
    };
    let lost =
        |outcome| HarnessCommand::JudgedLost { step: step(), verdict: verdict(outcome), max_losses: 3 };
    let last =
        |outcome| HarnessCommand::Judged { subject: CheckSubject::Final(step()), verdict: verdict(outcome) };
    let control = |outcome| HarnessCommand::Judged {
        subject: CheckSubject::Control(step()),
        verdict: verdict(outcome),
    };
    let answer = |choice| HumanCommand::Answer { step: Some(step()), choice, note: String::new(), by: me() };
    let ended = |end| {
        HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: 1,
            ..EndedAttempt::new(step(), attempt(), end)
        })
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
        "ask" => Said::Human(HumanCommand::Ask { question: rest.to_owned(), by: me(), step: None }),
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
            by: Approver::Policy {
                name: "docs".to_owned(),
                digest: "d".to_owned(),
                unread: false,
                trusted: Vec::new(),
            },
        }),
        "start" => Said::Harness(HarnessCommand::Start { step: step() }),
        "ended" => Said::Harness(ended(AttemptEnd::Exited { exit_code: 0 })),
        "unstarted" => Said::Harness(ended(AttemptEnd::NotStarted { reason: "no such program".to_owned() })),
        "interrupted" => {
            Said::Harness(HarnessCommand::AttemptInterrupted { step: step(), attempt: attempt() })
        }
        "holds" => Said::Harness(contract(CheckOutcome::Held)),
        "breaks" => Said::Harness(contract(CheckOutcome::Broke { exit_code: 1 })),
        // `holds-on 1 abc`: the contract held on provost's own tree abc.
        "holds-on" => Said::Harness(on_tree(contract(CheckOutcome::Held), rest)),
        "breaks-on" => Said::Harness(on_tree(contract(CheckOutcome::Broke { exit_code: 1 }), rest)),
        "attest" | "attest-red" => Said::Harness(HarnessCommand::Attested {
            level: Isolation::Clean,
            require_red: verb == "attest-red",
            probes: Vec::new(),
            kernel: String::new(),
            bubblewrap: None,
            agent_outside: false,
            took_over: None,
        }),
        "control-unrunnable" => {
            Said::Harness(control(CheckOutcome::NotRun { reason: "no crates".to_owned() }))
        }
        "control-killed" => Said::Harness(control(CheckOutcome::Killed { signal: 9 })),
        "control-holds" => Said::Harness(control(CheckOutcome::Held)),
        "control-breaks" => Said::Harness(control(CheckOutcome::Broke { exit_code: 1 })),
        "confirm-because" => Said::Human(HumanCommand::Answer {
            step: Some(step()),
            choice: Choice::Confirm,
            note: "it guards the build".to_owned(),
            by: me(),
        }),
        "lost-held" => Said::Harness(lost(CheckOutcome::Held)),
        "lost" => Said::Harness(lost(CheckOutcome::Broke { exit_code: 1 })),
        "still-holds" => Said::Harness(last(CheckOutcome::Held)),
        "still-holds-on" => Said::Harness(on_tree(last(CheckOutcome::Held), rest)),
        "undone" => Said::Harness(last(CheckOutcome::Broke { exit_code: 1 })),
        "killed" => Said::Harness(contract(CheckOutcome::Killed { signal: 9 })),
        "post-holds" => Said::Harness(post(CheckOutcome::Held)),
        "post-breaks" => Said::Harness(post(CheckOutcome::Broke { exit_code: 1 })),
        "end" => Said::Harness(HarnessCommand::End),
        other => unreachable!("no word `{other}`"),
    }
}

fn on_tree(command: HarnessCommand, rest: &str) -> HarnessCommand {
    let HarnessCommand::Judged { subject, verdict } = command else { unreachable!() };
    let id = rest.split(' ').nth(1).unwrap_or_default().to_owned();
    let tree = Tree { base: "base".to_owned(), id, ..Tree::default() };
    HarnessCommand::Judged { subject, verdict: Verdict { tree: Some(Box::new(tree)), ..verdict } }
}

/// Decides a command. Steps run one after the other, each on the tree of the one before.
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
            retry 2 -> refused: step 2 does not wait for a person; `provost inbox` lists what does
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
            start 2 -> refused: the plan is failed, but starting a step needs it to be approved
            retry 2 -> HUMAN_ANSWERED
            start 2 -> TASK_STARTED
            [in-progress] next: [JudgeLost { step: StepNumber(2), attempt: 3 }]
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
            unstarted 1 -> refused: attempt 1 of step 1 has already ended
            [in-progress] next: []
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
            ended 2 -> refused: attempt 1 of step 2 has already ended
            start 2 -> refused: the plan is draft, but starting a step needs it to be approved
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
            skip 1 -> refused: step 1 does not wait for a person; `provost inbox` lists what does
            start 1 -> refused: the plan is failed, but starting a step needs it to be approved
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
            interrupted 1 -> refused: attempt 1 of step 1 has already ended
            start 1 -> TASK_STARTED
            stuck 1 -> RECOVERY_ESCALATION
            revise 1 -> HUMAN_ANSWERED
            [draft] next: []
        "#]],
    );
}

/// Scheduling must not read 10,000 steps 10,000 times.
#[test]
fn scheduling_a_long_plan_is_linear() {
    let mut text = String::from("---\ntype: plan\nstatus: draft\nowner: me\n---\n# Long\n\n## Steps\n\n");
    for number in 1..=3000 {
        text.push_str(&format!(
            "### {number}. Step\n**target:** coder\n**task:**\nDo.\n**contract:**\n```shell\ntest -f {number}\n```\n\n"
        ));
    }
    let plan: Plan = crate::language::parse::plan(&text).plan;
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
