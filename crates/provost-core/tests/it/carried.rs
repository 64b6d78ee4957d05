//! Tests steps that run another plan: what is scheduled, what follows when that plan ends, and which
//! senders cannot influence it.

use provost_core::model::approved_spec::Binding;
use provost_core::model::check_author::CheckAuthor;
use provost_core::model::event::{AttemptEnd, CheckSubject, EndedAttempt, Event};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Usage;
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_core::rules::command::{HarnessCommand, HumanCommand, Refusal};
use provost_core::rules::decide;
use provost_core::rules::schedule::{self, Action, InHand};
use provost_core::state::run::{Run, StepState};

const STEP: StepNumber = StepNumber(1);

fn text(on_fail: &str) -> String {
    format!(
        "---\nstatus: draft\n---\n# T\n**Budget:** max 100 tokens\n## Steps\n### 1. S\n**plan:** other\n\
         **contract:**\n```shell\ntest -f 1\n```\n**on_fail:** {on_fail}\n"
    )
}

/// Returns a run that is approved and whose step has started.
fn begun(on_fail: &str) -> Run {
    let mut run = Run::default();
    let text = text(on_fail);
    say(&mut run, HarnessCommand::Record { text, binding: Binding::default(), author: None });
    let revision = run.revision.clone();
    say(&mut run, HarnessCommand::Verified { revision: revision.clone(), warnings: 0 });
    let approve = HumanCommand::Approve { revision, by: "ada".to_owned(), modifications: Vec::new() };
    for event in decide::human(&run, approve).expect("approved") {
        run.apply(&event);
    }
    say(&mut run, HarnessCommand::Start { step: STEP });
    run
}

fn say(run: &mut Run, command: HarnessCommand) -> Vec<Event> {
    let events = decide::harness(run, command).expect("allowed");
    events.iter().for_each(|event| run.apply(event));
    events
}

fn ended(run: &mut Run, end: AttemptEnd, tokens: u64) -> Vec<&'static str> {
    let usage = Usage { input_tokens: Some(tokens), output_tokens: Some(0), ..Usage::default() };
    let events = say(
        run,
        HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: 1,
            usage,
            ..EndedAttempt::new(STEP, run.step(STEP).map_or(0, |step| step.attempts), end)
        }),
    );
    events.iter().map(Event::name).collect()
}

fn next(run: &Run) -> Vec<Action> {
    schedule::next(run, &InHand::default(), 1, Timestamp(0))
}

fn other() -> String {
    "other".to_owned()
}

#[test]
fn one_that_was_lost_is_taken_up_and_not_judged() {
    let mut run = begun("abort");
    assert_eq!(next(&run), [Action::TakeUp { step: STEP, attempt: 1 }]);
    assert_eq!(ended(&mut run, AttemptEnd::Exited { exit_code: 0 }, 1), ["ATTEMPT_ENDED"]);
    assert_eq!(next(&run), [Action::Judge { subject: CheckSubject::Contract(STEP) }]);
}

#[test]
fn it_waits_for_its_plan_and_goes_on_with_it_without_an_answer() {
    let mut run = begun("abort");
    let waits = AttemptEnd::PlanWaits { plan: other(), reason: "not approved".to_owned() };
    assert_eq!(ended(&mut run, waits, 1), ["ATTEMPT_ENDED", "RECOVERY_ESCALATION"]);
    assert!(run.waits_for_its_plan(STEP) && next(&run).is_empty());
    say(&mut run, HarnessCommand::PlanGoesOn { step: STEP });
    assert_eq!(next(&run), [Action::Dispatch { step: STEP }]);
    assert!(decide::harness(&run, HarnessCommand::PlanGoesOn { step: STEP }).is_err());
    let events = say(&mut run, HarnessCommand::PlanWaits { step: STEP, reason: "again".to_owned() });
    assert_eq!(events.iter().map(Event::name).collect::<Vec<_>>(), ["RECOVERY_ESCALATION"]);
}

#[test]
fn what_ended_stays_ended_whatever_retries_are_written() {
    let failed = || AttemptEnd::PlanFailed { plan: other(), reason: "its step 2 broke".to_owned() };
    let mut run = begun("retry(5), then abort");
    let names = ended(&mut run, failed(), 1);
    let expected =
        ["ATTEMPT_ENDED", "FAILURE_DETECTED", "FAILURE_CLASSIFIED", "TASK_FAILED", "EXECUTION_COMPLETE"];
    assert_eq!(names, expected);
    let mut run = begun("retry(5), then escalate");
    ended(&mut run, failed(), 1);
    let Some(StepState::Blocked { reason, .. }) = run.step(STEP).map(|step| &step.state) else { panic!() };
    assert!(reason.contains("other") && reason.contains("its step 2 broke"), "{reason}");
    assert!(!run.waits_for_its_plan(STEP), "this is for a person to answer here");
}

#[test]
fn where_the_budget_ends_a_person_is_asked_as_always() {
    let mut run = begun("abort");
    let names = ended(&mut run, AttemptEnd::PlanStopped { plan: other() }, 100);
    assert_eq!(names, ["ATTEMPT_ENDED", "RECOVERY_APPLIED"]);
    assert_eq!(next(&run), [Action::OverBudget { step: STEP }]);
}

#[test]
fn no_session_passes_it() {
    let mut run = begun("abort");
    let verdict = Verdict::bare(Isolation::InPlace, CheckOutcome::Held);
    let looked = HarnessCommand::Looked {
        subject: CheckSubject::Contract(STEP),
        verdict: Some(verdict),
        client: "claude".to_owned(),
    };
    let refused = decide::harness(&run, looked.clone()).expect_err("not a session's");
    assert_eq!(refused, Refusal::CarriedByPlan { step: STEP, plan: other() });
    ended(&mut run, AttemptEnd::PlanWaits { plan: other(), reason: "r".to_owned() }, 1);
    assert!(decide::harness(&run, looked).is_err());
}

#[test]
fn who_drafts_and_who_judges_is_paid_and_says_nothing_about_attempts() {
    let used = |tokens| Usage {
        input_tokens: Some(tokens),
        output_tokens: Some(0),
        micro_usd: Some(tokens),
        ..Usage::default()
    };
    let mut run = Run::default();
    let usage = vec![used(30), used(20)];
    say(
        &mut run,
        HarnessCommand::RecordDraft {
            text: text("abort"),
            binding: Binding::default(),
            usage,
            author: None,
            checks_by: CheckAuthor::Person,
        },
    );
    assert_eq!(run.ledger.cost().tokens, Some(50));
    let resource = provost_core::model::usage::Resource::Tokens;
    assert_eq!((run.ledger.mean(resource), run.ledger.known(resource)), (None, 50));
    let mut run = begun("abort");
    ended(&mut run, AttemptEnd::Exited { exit_code: 0 }, 10);
    let verdict = Verdict {
        usage: Some(Box::new(used(7))),
        ..Verdict::bare(Isolation::InPlace, CheckOutcome::Broke { exit_code: 1 })
    };
    say(&mut run, HarnessCommand::Judged { subject: CheckSubject::Contract(STEP), verdict });
    assert_eq!((run.ledger.known(resource), run.ledger.cost_of(STEP).tokens), (17, Some(17)));
    assert_eq!(run.ledger.mean(resource), Some(10));
}
