//! Tests every row of the failure table, and how class, recipe and the plan's `on_fail` work together.

mod repetition;
mod wordings;

use std::time::Duration;

use super::recipe::Recipes;
use super::*;
use crate::model::approved_spec::Binding;
use crate::model::event::{CheckSubject, Choice, EndedAttempt};
use crate::model::run_policy::RunPolicy;
use crate::model::usage::Usage;
use crate::model::verdict::{Excerpt, Isolation};
use crate::rules::command::{HarnessCommand, HumanCommand};
use crate::rules::decide;
use crate::rules::schedule::{self, Action, InHand};
use crate::state::run::StepState;

const ONE: StepNumber = StepNumber(1);

/// A run in which one step fails again and again, with a clock set by the test.
struct Story {
    run: Run,
    recipes: Recipes,
    now: Timestamp,
}

impl Story {
    fn new(on_fail: &str) -> Self {
        Self::with(on_fail, "", RunPolicy::default())
    }

    fn with(on_fail: &str, fields: &str, terms: RunPolicy) -> Self {
        let step = |number: u32| {
            format!(
                "### {number}. S\n**target:** coder\n**needs:** none\n**task:**\nDo.\n**contract:**\n\
                 ```shell\ntest -f {number}\n```\n{fields}**on_fail:** {on_fail}\n\n"
            )
        };
        Self::of(format!("---\nstatus: draft\n---\n# T\n\n## Steps\n\n{}{}", step(1), step(2)), terms)
    }

    /// A plan in which nothing else is left to do when the step has failed.
    fn alone(on_fail: &str) -> Self {
        let story = Self::new(on_fail);
        let text = story
            .run
            .text
            .replace("### 2. S\n**target:** coder\n**needs:** none", "### 2. S\n**target:** coder");
        Self::of(text, RunPolicy::default())
    }

    fn of(text: String, terms: RunPolicy) -> Self {
        let mut story = Self { run: Run::default(), recipes: Recipes::default(), now: Timestamp(1_000_000) };
        story.harness(HarnessCommand::Record {
            text,
            binding: Binding { terms, ..Binding::default() },
            author: None,
        });
        let revision = story.run.revision.clone();
        story.harness(HarnessCommand::Verified { revision: revision.clone(), warnings: 0 });
        story.human(HumanCommand::Approve { revision, by: "ada".into(), modifications: Vec::new() });
        story
    }

    fn take(&mut self, events: Vec<Event>) -> Vec<Event> {
        events.iter().for_each(|event| self.run.apply(event));
        events
    }

    fn harness(&mut self, command: HarnessCommand) -> Vec<Event> {
        let means = RecoveryInput { recipes: &self.recipes, now: self.now };
        let events = decide::harness_with(&self.run, &means, command).expect("allowed");
        self.take(events)
    }

    fn human(&mut self, command: HumanCommand) {
        let events = decide::human(&self.run, command).expect("allowed");
        self.take(events);
    }

    fn retry(&mut self) {
        let (step, note, by) = (Some(ONE), String::new(), "ada".to_owned());
        self.human(HumanCommand::Answer { step, choice: Choice::Retry, note, by });
    }

    /// Runs an attempt that ends with this exit code and this report.
    fn attempt(&mut self, exit_code: i32, report: &str) {
        self.harness(HarnessCommand::Start { step: ONE });
        let attempt = self.run.step(ONE).expect("step 1").attempts;
        let (end, report) = (AttemptEnd::Exited { exit_code }, report.to_owned());
        let notes = Vec::new();
        self.harness(HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: 1,
            report,
            notes,
            ..EndedAttempt::new(ONE, attempt, end)
        }));
    }

    /// Judges the contract with this output; returns the events that follow the verdict.
    fn breaks(&mut self, stderr: &str) -> Vec<Event> {
        self.judged(CheckOutcome::Broke { exit_code: 1 }, stderr)
    }

    fn judged(&mut self, outcome: CheckOutcome, stderr: &str) -> Vec<Event> {
        let verdict =
            Verdict { stderr: Excerpt::whole(stderr), ..Verdict::bare(Isolation::InPlace, outcome) };
        let events = self.harness(HarnessCommand::Judged { subject: CheckSubject::Contract(ONE), verdict });
        events[1..].to_vec()
    }

    fn fails(&mut self, stderr: &str) -> Vec<Event> {
        self.attempt(0, "");
        self.breaks(stderr)
    }

    fn state(&self) -> &StepState {
        &self.run.step(ONE).expect("step 1").state
    }

    fn next(&self, now: Timestamp) -> Vec<Action> {
        let all = schedule::next(&self.run, &InHand::default(), 8, now);
        all.into_iter().filter(|action| *action != Action::Dispatch { step: StepNumber(2) }).collect()
    }
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(Event::name).collect()
}

/// Returns the pause of the recovery among `events`.
fn pause(events: &[Event]) -> Duration {
    let mut waits = events.iter().filter_map(|event| match event {
        Event::RecoveryApplied { wait_ms, .. } => Some(Duration::from_millis(*wait_ms)),
        _ => None,
    });
    waits.next_back().expect("tried again")
}

fn class(events: &[Event]) -> FailureClass {
    let class = events.iter().find_map(|event| match event {
        Event::FailureClassified { failure_type, .. } => Some(*failure_type),
        _ => None,
    });
    class.expect("classified")
}

fn reason(events: &[Event]) -> &str {
    match events.last() {
        Some(Event::Escalated { reason, .. }) => reason,
        other => panic!("not escalated: {other:?}"),
    }
}

const RECOVERED: [&str; 3] = ["FAILURE_DETECTED", "FAILURE_CLASSIFIED", "RECOVERY_APPLIED"];
const ESCALATED: [&str; 3] = ["FAILURE_DETECTED", "FAILURE_CLASSIFIED", "RECOVERY_ESCALATION"];
const RESET: &str = "curl: (56) Recv failure: Connection reset by peer";

#[test]
fn transient_is_tried_again_after_five_and_thirty_seconds_then_a_person_decides() {
    let mut story = Story::new("retry(5), then abort");
    let first = story.fails(RESET);
    assert_eq!((names(&first), class(&first)), (RECOVERED.to_vec(), FailureClass::Transient));
    let five = Duration::from_secs(5);
    assert!((five..=five * 6 / 5).contains(&pause(&first)), "{:?}", pause(&first));
    // Only the check is repeated, not the agent, and not before the pause is over.
    assert_eq!(story.next(story.now), []);
    let until = schedule::wakes(&story.run, story.now).expect("waits");
    assert_eq!(until.0, story.now.0 + pause(&first).as_millis() as u64);
    assert_eq!(story.next(Timestamp(until.0 - 1)), []);
    assert_eq!(story.next(until), [Action::Judge { subject: CheckSubject::Contract(ONE) }]);
    story.now = until;
    let second = story.breaks(RESET);
    let thirty = Duration::from_secs(30);
    assert!((thirty..=thirty * 6 / 5).contains(&pause(&second)), "{:?}", pause(&second));
    let third = story.breaks(RESET);
    assert_eq!(names(&third), ESCALATED);
}

#[test]
fn a_pause_ends_when_the_clock_was_set_back_and_never_later_than_it_was_long() {
    let mut story = Story::new("retry(5), then abort");
    story.fails(RESET);
    assert_eq!(story.next(Timestamp(3)).len(), 1);
    assert_eq!(schedule::wakes(&story.run, Timestamp(3)), None);
}

#[test]
fn on_fail_bounds_what_a_recipe_may_try() {
    let mut story = Story::new("escalate");
    assert_eq!(names(&story.fails(RESET)), ESCALATED);
    let mut story = Story::alone("retry(1), then abort");
    assert_eq!(names(&story.fails(RESET)), RECOVERED);
    let ended = story.breaks(RESET);
    assert_eq!(names(&ended)[2..], ["TASK_FAILED", "EXECUTION_COMPLETE"]);
    let Some(Event::RunEnded { summary, why, .. }) = ended.last() else { panic!("{ended:?}") };
    assert_eq!((summary.retries, summary.failed, *why), (1, 1, Some(RunEndReason::Failed)));
}

#[test]
fn a_reset_time_that_was_told_is_waited_for_and_a_very_late_one_goes_to_a_person() {
    let mut story = Story::new("retry(2), then escalate");
    let told = story.fails("HTTP/1.1 429 Too Many Requests\nRetry-After: 600\n");
    assert!(pause(&told) >= Duration::from_secs(600), "{:?}", pause(&told));
    let late = story.breaks("429 Too Many Requests\nRetry-After: 90000\n");
    assert_eq!(names(&late), ESCALATED);
    assert!(reason(&late).contains("asks to wait for 1day"), "{}", reason(&late));
}

#[test]
fn an_agent_that_was_turned_away_has_another_try_not_the_check() {
    let mut story = Story::new("retry(2), then escalate");
    story.attempt(1, "API Error: 429 rate_limit_error; try again in 20s");
    let events = story.breaks("out/1 is missing");
    assert_eq!(class(&events), FailureClass::Transient);
    assert!(pause(&events) >= Duration::from_secs(20));
    assert_eq!(*story.state(), StepState::Pending);
    // The same words of an agent that ended well are no failure.
    let mut story = Story::new("retry(2), then escalate");
    story.attempt(0, "I saw a 429 rate_limit_error once");
    assert_eq!(class(&story.breaks("out/1 is missing")), FailureClass::Logic);
}

#[test]
fn permission_stops_names_what_to_configure_and_has_one_try_after_a_person_says_so() {
    let mut story = Story::new("retry(2), then abort");
    for _ in 0..2 {
        story.attempt(1, "Error: MODEL_API_KEY is not set");
        let events = story.breaks("");
        let stopped =
            ["FAILURE_DETECTED", "FAILURE_CLASSIFIED", "PERMISSION_REQUIRED", "RECOVERY_ESCALATION"];
        assert_eq!(names(&events), stopped);
        let Event::PermissionRequired { configure, .. } = &events[2] else { panic!("{events:?}") };
        assert_eq!(configure, &["the variable MODEL_API_KEY"]);
        let said = "(it said: Error: MODEL_API_KEY is not set)";
        let told = format!("a service refused the agent: the API refused the key {said}");
        assert_eq!(reason(&events), told);
        assert_eq!(story.next(story.now), []);
        story.retry();
    }
}

#[test]
fn invalid_input_is_asked_about() {
    let mut story = Story::new("retry(2), then abort");
    story.harness(HarnessCommand::Start { step: ONE });
    let end = AttemptEnd::NotStarted { reason: "no such program".to_owned() };
    let (report, notes) = (String::new(), Vec::new());
    let command =
        HarnessCommand::AttemptEnded(EndedAttempt { report, notes, ..EndedAttempt::new(ONE, 1, end) });
    let events = story.harness(command);
    assert_eq!((names(&events[1..]), class(&events)), (ESCALATED.to_vec(), FailureClass::InvalidInput));
    assert!(reason(&events).ends_with("correct it, then `retry`"), "{}", reason(&events));
}

#[test]
fn what_a_contract_prints_about_files_and_formats_is_about_the_work() {
    for text in [
        "cat: out.json: No such file or directory",
        "jq: parse error: Invalid literal at line 1",
        "bash: ./run.sh: Permission denied",
        "ModuleNotFoundError: No module named 'app'",
        "nothing that any rule knows",
    ] {
        let events = Story::new("retry(1), then abort").fails(text);
        assert_eq!((names(&events), class(&events)), (RECOVERED.to_vec(), FailureClass::Logic), "{text}");
    }
}

#[test]
fn logic_is_tried_again_at_once_with_what_the_judge_saw() {
    let mut story = Story::new("retry(1), then escalate");
    let events = story.fails("test result: FAILED. 1 passed; 1 failed");
    assert_eq!((names(&events), class(&events)), (RECOVERED.to_vec(), FailureClass::Logic));
    assert_eq!(pause(&events), Duration::ZERO);
    assert_eq!(story.next(story.now), [Action::Dispatch { step: ONE }]);
    assert_eq!(names(&story.fails("assertion failed: other")), ESCALATED);
}

#[test]
fn unrecoverable_and_unknown_go_to_a_person_at_once() {
    let mut story = Story::new("retry(2), then abort");
    let full = story.fails("write: No space left on device");
    assert_eq!((names(&full), class(&full)), (ESCALATED.to_vec(), FailureClass::Unrecoverable));
    assert!(reason(&full).contains("the disk is full"), "{}", reason(&full));
    let mut story = Story::new("retry(2), then abort");
    story.attempt(0, "");
    let odd = story.judged(CheckOutcome::NotRun { reason: "the tree is odd".to_owned() }, "");
    assert_eq!((names(&odd), class(&odd)), (ESCALATED.to_vec(), FailureClass::Unknown));
}

#[test]
fn what_the_environment_lacks_goes_to_a_person_and_the_check_is_run_again() {
    // `abort` and `skip` of the plan are for failed work.
    for on_fail in ["abort", "skip", "retry(1), then abort"] {
        let mut story = Story::new(on_fail);
        story.attempt(0, "");
        let reason_given = "`test` is missing".to_owned();
        let events = story.judged(CheckOutcome::NotRun { reason: reason_given }, "");
        assert_eq!(names(&events), ESCALATED, "{on_fail}");
        assert!(
            reason(&events).ends_with("`retry` runs the check again, not the agent"),
            "{}",
            reason(&events)
        );
        story.retry();
        assert_eq!(*story.state(), StepState::Ended { attempt: 1 });
        // A failure of the work itself is then the agent's.
        story.breaks("out/1 is missing");
        assert_eq!(story.run.step(ONE).map(|step| (step.attempts, step.check_again)), Some((1, false)));
    }
}

#[test]
fn a_key_that_a_check_lacks_is_configured_and_the_check_is_run_again() {
    let mut story = Story::new("retry(1), then abort");
    let events = story.fails("Error: GH_TOKEN is not set");
    assert_eq!(class(&events), FailureClass::Permission);
    story.retry();
    assert_eq!(*story.state(), StepState::Ended { attempt: 1 });
}

#[test]
fn a_recipe_skips_only_where_the_plan_does() {
    let skip = |class| Recipe { then: RecipeEnd::Skip, ..recipe::built_in(class) };
    let mut story = Story::new("retry(2), then escalate");
    story.recipes = Recipes::new(vec![skip(FailureClass::Unrecoverable)]);
    let events = story.fails("No space left on device");
    assert_eq!(names(&events), ESCALATED);
    assert!(reason(&events).ends_with("the plan does not allow a skip"), "{}", reason(&events));
    let mut story = Story::new("retry(2), then skip");
    story.recipes = Recipes::new(vec![skip(FailureClass::Unrecoverable)]);
    assert_eq!(names(&story.fails("No space left on device"))[2..], ["TASK_WAIVED"]);
}

#[test]
fn a_recipe_of_the_configuration_decides_about_what_it_recognises() {
    let stderr = recipe::Pattern::new("licence server").ok();
    let own = Recipe {
        name: "licence".to_owned(),
        detect: Some(recipe::Detect { stderr, ..recipe::Detect::default() }),
        backoff: vec![Duration::from_secs(300)],
        max_attempts: Some(1),
        then: RecipeEnd::Abort,
        ..recipe::built_in(FailureClass::Transient)
    };
    let mut story = Story::alone("retry(5), then escalate");
    story.recipes = Recipes::new(vec![own]);
    let first = story.fails("the licence server is asleep");
    assert!(pause(&first) >= Duration::from_secs(300));
    let second = story.breaks("the licence server is asleep");
    assert_eq!(names(&second)[2..], ["TASK_FAILED", "EXECUTION_COMPLETE"]);
}

#[test]
fn a_check_without_a_network_is_not_waited_for() {
    let fenced = |fields: &str, said: &str| {
        let mut story = Story::with("retry(2), then escalate", fields, RunPolicy::default());
        story.attempt(0, "");
        let stderr = Excerpt::whole(said);
        let broke = CheckOutcome::Broke { exit_code: 6 };
        let verdict = Verdict { stderr, ..Verdict::bare(Isolation::Clean, broke) };
        class(&story.harness(HarnessCommand::Judged { subject: CheckSubject::Contract(ONE), verdict }))
    };
    for said in ["curl: (6) Could not resolve host: h", "HTTP 429 Rate limit", "503 Service Unavailable"] {
        assert_eq!(fenced("", said), FailureClass::Logic, "{said}");
        assert_eq!(fenced("**network:** on\n", said), FailureClass::Transient, "{said}");
    }
}

#[test]
fn a_conversation_goes_on_once_and_the_same_failure_again_begins_a_new_one() {
    let mut story = Story::new("retry(5), then escalate");
    let talks = |story: &mut Story, session: &str, stderr: &str| {
        story.harness(HarnessCommand::Start { step: ONE });
        let attempt = story.run.step(ONE).expect("step 1").attempts;
        story.harness(HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: 1,
            usage: Usage { input_tokens: Some(10), ..Usage::default() },
            session: Some(session.to_owned()),
            ..EndedAttempt::new(ONE, attempt, AttemptEnd::Exited { exit_code: 0 })
        }));
        story.breaks(stderr)
    };
    let session = |story: &Story| story.run.step(ONE).expect("step 1").session.clone();
    talks(&mut story, "s", "a is missing");
    assert_eq!(session(&story).map(|known| known.turns), Some(1));
    let again = crate::text::prompt::resumed(&story.run, ONE).expect("gone on with");
    assert!(again.contains("a is missing") && !again.contains("Do."), "{again}");
    // Another failure, so the conversation continues.
    talks(&mut story, "s", "b is missing");
    let known = session(&story).expect("gone on with");
    assert_eq!((known.turns, known.used.input_tokens, known.used.output_tokens), (2, Some(20), None));
    let events = talks(&mut story, "s", "b is missing");
    let applied = |event: &Event| matches!(event, Event::RecoveryApplied { fresh: true, .. });
    assert!(events.last().is_some_and(applied), "{events:?}");
    assert_eq!(session(&story), None);
    assert_eq!(crate::text::prompt::resumed(&story.run, ONE), None);
    // A new conversation with the same failure: a person is asked.
    let events = talks(&mut story, "t", "b is missing");
    assert!(reason(&events).contains("the same failure twice"));
    story.retry();
    assert_eq!(session(&story), None);
}

fn all_next(run: &Run, now: Timestamp) -> Vec<Action> {
    schedule::next(run, &InHand::default(), 8, now)
}

#[test]
fn a_step_that_failed_for_good_stops_those_that_wait_for_it_and_no_others() {
    let two = StepNumber(2);
    let mut story = Story::new("abort");
    assert_eq!(names(&story.fails("no"))[2..], ["TASK_FAILED"]);
    assert_eq!(all_next(&story.run, story.now), [Action::Dispatch { step: two }]);
    story.harness(HarnessCommand::Start { step: two });
    assert_eq!(
        decide::harness(&story.run, HarnessCommand::End),
        Err(crate::rules::command::Refusal::StillOpen)
    );
    story.harness(HarnessCommand::AttemptInterrupted { step: two, attempt: 1 });
    let (step, note, by) = (two, String::new(), "ada".to_owned());
    // A person cannot answer for a step that has only not started.
    let skip = HumanCommand::Answer { step: Some(step), choice: Choice::Skip, note, by };
    assert!(decide::human(&story.run, skip).is_err());
    story.take(vec![Event::StepWaived { step, by: "ada".into(), reason: "enough".into() }]);
    // The run ends with the last of the other steps.
    assert_eq!(all_next(&story.run, story.now), [Action::End]);
    let ended = story.harness(HarnessCommand::End);
    assert!(matches!(ended.last(), Some(Event::RunEnded { outcome: RunOutcome::Failed, .. })), "{ended:?}");
}

#[test]
fn what_waits_for_a_person_keeps_no_other_step_from_beginning() {
    let mut story = Story::new("escalate");
    assert_eq!(names(&story.fails("no")), ESCALATED);
    assert_eq!(all_next(&story.run, story.now), [Action::Dispatch { step: StepNumber(2) }]);
    let mut story = Story::alone("escalate");
    story.fails("no");
    assert_eq!(all_next(&story.run, story.now), []);
}
