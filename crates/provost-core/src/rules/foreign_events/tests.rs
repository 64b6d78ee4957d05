//! Tests, as a table, which appended events of another process can come from an authorised command.

use super::made;
use crate::model::approved_spec::Binding;
use crate::model::escalation::EscalationCause;
use crate::model::event::{
    Approver, AttemptEnd, CheckSubject, Choice, EndedAttempt, Event, Revision, RunEndReason, RunOutcome,
    Summary,
};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::usage::{Amount, Cost};
use crate::model::verdict::{CheckOutcome, Isolation, Verdict};
use crate::rules::command::HarnessCommand;
use crate::rules::decide;
use crate::state::run::Run;

const ONE: StepNumber = StepNumber(1);

fn text(contract: &str) -> String {
    format!(
        "---\ntype: plan\nstatus: draft\nowner: me\n---\n# P\n\n## Steps\n\n### 1. First\n**target:** coder\n\
         **task:**\nDo it.\n**contract:**{contract}\n**on_fail:** escalate\n"
    )
}

const SHELL: &str = "\n```shell\ntest -f one\n```";

fn recorded(contract: &str, more: &[Event]) -> Run {
    let record = HarnessCommand::Record { text: text(contract), binding: Binding::default(), author: None };
    let mut run = Run::fold(&decide::harness(&Run::default(), record).expect("recorded"));
    for event in more {
        run.apply(event);
    }
    run
}

fn held(outcome: CheckOutcome) -> Event {
    let verdict = Verdict { duration_ms: 5, ..Verdict::bare(Isolation::InPlace, outcome) };
    Event::Judged { step: Some(ONE), subject: CheckSubject::Contract(ONE), verdict, plan: None }
}

fn approved(run: &Run) -> Event {
    Event::Approved {
        revision: run.revision.clone(),
        by: Approver::Person("ada".to_owned()),
        modifications: Vec::new(),
        missing: 0,
    }
}

fn started() -> Event {
    Event::StepStarted {
        step: ONE,
        attempt: 1,
        target: "coder".to_owned(),
        reserved: Amount::default(),
        start: None,
    }
}

fn ended() -> Event {
    let end = AttemptEnd::Exited { exit_code: 0 };
    Event::AttemptEnded(EndedAttempt { duration_ms: 1, ..EndedAttempt::new(ONE, 1, end) })
}

fn confirmed() -> Event {
    let (result, pass) = ("confirmed by ada".to_owned(), Some(crate::model::pass::Pass::Confirmed));
    Event::StepPassed { step: ONE, attempt: 1, result, tree: None, pass }
}

fn passed(result: &str) -> Event {
    Event::StepPassed { step: ONE, attempt: 1, result: result.to_owned(), tree: None, pass: None }
}

fn blocked() -> Event {
    Event::escalated(Some(ONE), EscalationCause::Other, "its contract broke".to_owned())
}

fn answered(choice: Choice) -> Event {
    let (by, note) = ("ada".to_owned(), String::new());
    Event::Answered { step: Some(ONE), choice, by, note, budget: Amount::default() }
}

fn waived(by: &str) -> Event {
    Event::StepWaived { step: ONE, by: by.to_owned(), reason: "skipped by a person".to_owned() }
}

fn failed() -> Event {
    Event::StepFailed { step: ONE, error: "aborted by ada".to_owned() }
}

/// One attempt with unknown usage.
const UNKNOWN: Cost = Cost { tokens: None, micro_usd: None, unknown: 1, wall_ms: 0 };

fn run_ended(outcome: RunOutcome, failed: u32, completed: u32) -> Event {
    Event::RunEnded {
        outcome,
        summary: Summary { completed, failed, cost: UNKNOWN, ..Summary::default() },
        tree: None,
        why: Some(if outcome == RunOutcome::Done { RunEndReason::Done } else { RunEndReason::Person }),
        train: None,
    }
}

fn reminder(reason: &str) -> Event {
    Event::Escalated { step: None, reason: reason.to_owned(), cause: None }.upgraded()
}

fn tampered(from_seq: Option<u64>) -> Event {
    Event::TamperDetected { step: None, what: "a door".to_owned(), from_seq }
}

#[test]
fn only_what_a_door_makes_is_taken_from_somebody_else() {
    let verified = |run: &Run| Event::PlanVerified { revision: run.revision.clone(), warnings: 0 };
    let draft = recorded(SHELL, &[]);
    let gate = recorded(SHELL, &[verified(&draft)]);
    let asked = Event::ApprovalRequested { plan_id: "p".to_owned(), revision: gate.revision.clone() };
    let stopped = recorded(SHELL, &[verified(&draft), approved(&draft), started(), ended(), blocked()]);
    let running = recorded(SHELL, &[verified(&draft), approved(&draft), started()]);
    let human = recorded(" human", &[]);
    let human = recorded(" human", &[verified(&human), approved(&human), started(), ended()]);
    let reject = |run: &Run| Event::Rejected {
        revision: run.revision.clone(),
        reason: "no".to_owned(),
        by: "ada".to_owned(),
    };
    let claim = Event::StepClaimed { step: ONE, evidence: "done".to_owned() };
    let stuck =
        Event::escalated(Some(ONE), EscalationCause::AgentBlocked, "the agent is blocked: no key".to_owned());
    let stale = Event::Approved {
        revision: Revision("another".to_owned()),
        by: Approver::Person("ada".to_owned()),
        modifications: Vec::new(),
        missing: 0,
    };
    let rewrite = decide::harness(
        &running,
        HarnessCommand::Record {
            text: text("\n```shell\ntrue\n```"),
            binding: Binding::default(),
            author: None,
        },
    )
    .expect("another law");
    let other_law = |running: &Run| {
        let mut run = running.clone();
        rewrite.iter().for_each(|event| run.apply(event));
        run.apply(&verified(&run.clone()));
        run
    };
    let attested = Event::IsolationAttested {
        level: Isolation::Clean,
        require_red: false,
        probes: Vec::new(),
        kernel: String::new(),
        bubblewrap: None,
        agent_outside: false,
        took_over: None,
    };
    let fenced = recorded(SHELL, &[verified(&draft), approved(&draft), attested, started()]);
    let (rewritten, fenced) = (other_law(&running), other_law(&fenced));
    let mut other_digest = rewrite.clone();
    if let Some(Event::PlanRewritten { revision, .. }) = other_digest.first_mut() {
        *revision = running.revision.clone();
    }
    type Row<'r> = (&'static str, &'r Run, Vec<Event>, Result<(), usize>);
    let table: Vec<Row<'_>> = vec![
        ("nothing", &running, vec![], Ok(())),
        ("a refused door", &running, vec![tampered(None), tampered(None)], Ok(())),
        ("a verified draft", &draft, vec![verified(&draft)], Ok(())),
        ("a question at the gate", &gate, vec![asked.clone(), approved(&gate)], Ok(())),
        ("asked twice", &gate, vec![asked.clone(), asked], Err(1)),
        ("an approval of another text", &gate, vec![stale], Err(0)),
        ("an approval of what is approved", &running, vec![approved(&running)], Err(0)),
        ("an approval while an agent works", &rewritten, vec![approved(&rewritten)], Err(0)),
        ("the same behind a fence", &fenced, vec![approved(&fenced)], Ok(())),
        ("a rejection", &running, vec![reject(&running)], Ok(())),
        ("a new text", &running, rewrite, Ok(())),
        ("a new text under the old revision", &running, other_digest, Err(0)),
        ("words", &running, vec![claim, stuck], Ok(())),
        ("a retry", &stopped, vec![answered(Choice::Retry)], Ok(())),
        ("a skip", &stopped, vec![answered(Choice::Skip), waived("ada")], Ok(())),
        ("a skip of somebody else", &stopped, vec![answered(Choice::Skip), waived("bob")], Err(1)),
        ("a waiver alone", &stopped, vec![waived("ada")], Err(0)),
        ("half a skip", &stopped, vec![answered(Choice::Skip)], Err(0)),
        (
            "an abort",
            &stopped,
            vec![answered(Choice::Abort), failed(), run_ended(RunOutcome::Failed, 1, 0)],
            Ok(()),
        ),
        (
            "an abort that ends well",
            &stopped,
            vec![answered(Choice::Abort), failed(), run_ended(RunOutcome::Done, 0, 1)],
            Err(2),
        ),
        ("a confirmation", &human, vec![answered(Choice::Confirm), confirmed()], Ok(())),
        (
            "a confirmation of what no person confirms",
            &stopped,
            vec![answered(Choice::Confirm), passed("confirmed by ada")],
            Err(0),
        ),
        ("a pass", &running, vec![passed("contract held")], Err(0)),
        ("an end of the attempt", &running, vec![ended()], Err(0)),
        ("a verdict", &stopped, vec![held(CheckOutcome::Held)], Err(0)),
        ("the end", &running, vec![run_ended(RunOutcome::Done, 0, 1)], Err(0)),
        ("a plan from the start", &running, vec![tampered(None), started()], Err(1)),
        ("a reminder at the gate", &gate, vec![reminder("overdue: the approval (e2)")], Ok(())),
        ("a reminder of nothing", &running, vec![reminder("overdue: the approval (e2)")], Err(0)),
        ("another word in its place", &gate, vec![reminder("the budget is spent")], Err(0)),
        ("disbelief", &running, vec![tampered(Some(2))], Err(0)),
    ];
    for (name, run, events, expected) in table {
        let events: Vec<_> = events.into_iter().map(|event| (event, Timestamp(7))).collect();
        assert_eq!(made(run, &events), expected, "{name}");
    }
}

#[test]
fn nothing_is_decided_or_scheduled_on_a_log_somebody_else_wrote() {
    let mut run = recorded(SHELL, &[]);
    let verified = Event::PlanVerified { revision: run.revision.clone(), warnings: 0 };
    for event in [verified, approved(&run.clone()), tampered(Some(3)), tampered(Some(5))] {
        run.apply(&event);
    }
    assert_eq!(run.forged_from, Some(3));
    assert!(
        crate::rules::schedule::next(
            &run,
            &crate::rules::schedule::InHand::default(),
            1,
            crate::model::timestamp::Timestamp(0)
        )
        .is_empty()
    );
    let refused = decide::harness(&run, HarnessCommand::Start { step: ONE });
    assert_eq!(refused, Err(crate::rules::command::Refusal::Forged { from_seq: 3 }));
    let word = HarnessCommand::Tampered { step: None, what: "again".to_owned() };
    assert!(decide::harness(&run, word).is_ok());
}
