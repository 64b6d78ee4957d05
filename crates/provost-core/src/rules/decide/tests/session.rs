//! Tests sessions that provost did not start.

use super::*;
use crate::model::escalation::EscalationCause;

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
        verdict: Some(Verdict::bare(crate::model::verdict::Isolation::InPlace, outcome)),
        client: "claude".to_owned(),
    };
    let (one, post) = (CheckSubject::Contract(StepNumber(1)), CheckSubject::Postcondition(1));
    let broke = || CheckOutcome::Broke { exit_code: 1 };
    let sent_back =
        "TASK_STARTED ATTEMPT_ENDED CONTRACT_JUDGED FAILURE_DETECTED FAILURE_CLASSIFIED RECOVERY_APPLIED";
    for _ in 0..4 {
        assert_eq!(say(&mut run, look(one, broke())), sent_back);
        assert_eq!(run.step(StepNumber(1)).unwrap().state, StepState::Pending);
    }
    // No stop uses up a retry of the plan, and none makes the first failure of a run a repetition.
    let step = run.step(StepNumber(1)).unwrap();
    assert_eq!((step.failures, &step.fingerprint, run.summary().retries), (0, &None, 0));
    assert!(say(&mut run, look(post, broke())).starts_with("refused"));
    assert_eq!(
        say(&mut run, look(one, CheckOutcome::Held)),
        "TASK_STARTED ATTEMPT_ENDED CONTRACT_JUDGED TASK_COMPLETED"
    );
    assert_eq!(
        say(&mut run, look(CheckSubject::Final(StepNumber(1)), CheckOutcome::Held)),
        "CONTRACT_JUDGED"
    );
    assert_eq!(say(&mut run, look(post, broke())), "CONTRACT_JUDGED");
    assert_eq!(run.stage, Stage::InProgress);
    // After any repair, everything is checked once more before the end.
    assert!(say(&mut run, HarnessCommand::End).starts_with("refused"));
    assert!(say(&mut run, look(post, CheckOutcome::Held)).starts_with("refused"));
    let again = HarnessCommand::Attested {
        level: crate::model::verdict::Isolation::InPlace,
        require_red: false,
        probes: Vec::new(),
        kernel: String::new(),
        bubblewrap: None,
        agent_outside: true,
        took_over: None,
    };
    assert_eq!(say(&mut run, again), "ISOLATION_ATTESTED");
    assert!(say(&mut run, look(post, CheckOutcome::Held)).starts_with("refused"));
    assert_eq!(
        say(&mut run, look(CheckSubject::Final(StepNumber(1)), CheckOutcome::Held)),
        "CONTRACT_JUDGED"
    );
    let mut mended = run.clone();
    assert_eq!(say(&mut mended, look(post, CheckOutcome::Held)), "CONTRACT_JUDGED");
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
        [Event::escalated(
            Some(StepNumber(1)),
            EscalationCause::Other,
            "the session was released: 5 refusals without progress".to_owned()
        )]
    );
    events.iter().for_each(|event| run.apply(event));
    assert!(run.any_blocked() && !run.all_settled());
}
