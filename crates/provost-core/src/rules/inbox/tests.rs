//! Tests the inbox that follows from a log: its items, their age, what was tried, and what each choice
//! does.

use std::time::Duration;

use expect_test::{Expect, expect};

use super::{InboxItem, PlanLabel, is_id, named, short, waiting};
use crate::model::approved_spec::Binding;
use crate::model::chain::PlanId;
use crate::model::event::{AttemptEnd, CheckSubject, Choice, EndedAttempt, Event};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::verdict::{CheckOutcome, Excerpt, Isolation, Verdict};
use crate::rules::command::{HarnessCommand, HumanCommand};
use crate::rules::decide;
use crate::state::run::Run;

const ONE: StepNumber = StepNumber(1);
const SHELL: &str = "\n```shell\ntest -f one\n```";

/// Builds a log with one event per second.
struct Story {
    run: Run,
    log: Vec<(u64, Timestamp, Event)>,
}

impl Story {
    /// Creates an approved plan with one step.
    fn new(contract: &str, on_fail: &str) -> Self {
        let text = format!(
            "---\ntype: plan\nstatus: draft\nowner: me\n---\n# A plan\n\n## Steps\n\n### 1. First\n\
             **target:** coder\n**task:**\nDo it.\n**contract:**{contract}\n**on_fail:** {on_fail}\n\n\
             ## Postconditions\n1. It works\n   ```shell\n   make test\n   ```\n"
        );
        let mut story = Self { run: Run::default(), log: Vec::new() };
        story.harness(HarnessCommand::Record { text, binding: Binding::default(), author: None });
        story.harness(HarnessCommand::Verified { revision: story.run.revision.clone(), warnings: 0 });
        story
    }

    fn approved(mut self) -> Self {
        let revision = self.run.revision.clone();
        self.human(HumanCommand::Approve { revision, by: "ada".to_owned(), modifications: Vec::new() });
        self
    }

    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            self.run.apply(&event);
            self.log.push((self.run.seq, Timestamp(self.run.seq * 1000), event));
        }
    }

    fn harness(&mut self, command: HarnessCommand) {
        let events = decide::harness(&self.run, command).expect("allowed");
        self.take(events);
    }

    fn human(&mut self, command: HumanCommand) {
        let events = decide::human(&self.run, command).expect("allowed");
        self.take(events);
    }

    fn attempt(&mut self, end: AttemptEnd, report: &str) {
        self.harness(HarnessCommand::Start { step: ONE });
        let attempt = self.run.step(ONE).expect("a step").attempts;
        self.harness(HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: 5,
            report: report.to_owned(),
            ..EndedAttempt::new(ONE, attempt, end)
        }));
    }

    fn judged(&mut self, subject: CheckSubject, outcome: CheckOutcome, stderr: &str) {
        let verdict =
            Verdict { stderr: Excerpt::whole(stderr), ..Verdict::bare(Isolation::InPlace, outcome) };
        self.harness(HarnessCommand::Judged { subject, verdict });
    }

    fn answer(&mut self, step: Option<StepNumber>, choice: Choice) {
        self.human(HumanCommand::Answer { step, choice, note: String::new(), by: "ada".to_owned() });
    }

    fn items(&self) -> Vec<InboxItem> {
        let heading = PlanLabel {
            plan: PlanId("auth-3fa9c1d2".to_owned()),
            name: "auth".to_owned(),
            argument: Some("auth".to_owned()),
        };
        let all = waiting(&self.run);
        let events = |names: &[&str], step: Option<StepNumber>| -> Vec<_> {
            let wanted = self.log.iter().filter(|(_, _, event)| {
                names.contains(&event.name()) && (step.is_none() || event.step() == step)
            });
            wanted.cloned().collect()
        };
        let item = |one: &super::WaitingItem| {
            InboxItem::new(&heading, &self.run, one, &events(one.events(), one.step)).expect("it was opened")
        };
        all.iter().map(item).collect()
    }

    fn check(&self, expected: Expect) {
        let mut text = String::new();
        for item in self.items() {
            text.push_str(&format!("{} {} since {}: {item}\n", item.id, item.kind.word(), item.since));
            for tried in &item.context.tried {
                let class = tried.class.map_or("-", |class| class.word());
                let failure = tried.failure.as_deref().or(tried.ended.as_deref()).unwrap_or("-");
                let followed = tried.followed.as_deref().unwrap_or("-");
                text.push_str(&format!("  {}: {failure} | {class} | {followed}\n", tried.attempt));
            }
            for name in &item.context.configure {
                text.push_str(&format!("  configure {name}\n"));
            }
            for line in item.context.output.iter().flat_map(|output| output.lines()) {
                text.push_str(&format!("  > {line}\n"));
            }
            for offer in &item.choices {
                text.push_str(&format!("  {}\n", offer.command));
            }
        }
        expected.assert_eq(&text);
    }
}

const EXITED: AttemptEnd = AttemptEnd::Exited { exit_code: 0 };

#[test]
fn the_gate_asks_for_exactly_this_revision_and_a_question_takes_its_place() {
    let mut story = Story::new(SHELL, "escalate");
    assert!(!story.items()[0].asked, "nobody was asked yet");
    story.harness(HarnessCommand::RequestApproval { plan_id: "auth".to_owned() });
    assert!(story.items()[0].asked);
    story.check(expect![[r#"
        auth-3fa9c1d2:e2 approval since 1970-01-01T00:00:03.000Z: A plan: the plan is not approved
          provost approve auth --revision 339395d7ecf2
          provost amend auth
          provost reject auth --reason WHY
    "#]]);
    story.human(HumanCommand::Ask { question: "what is one?".to_owned(), by: "ada".to_owned(), step: None });
    story.check(expect![[r#"
        auth-3fa9c1d2:e4 question since 1970-01-01T00:00:04.000Z: A plan: a question is open: what is one?
          provost approve auth --revision 339395d7ecf2
          provost amend auth
          provost reject auth --reason WHY
    "#]]);
    assert_eq!(story.approved().items(), []);
}

#[test]
fn an_escalation_tells_what_was_tried_since_the_last_fresh_start() {
    let mut story = Story::new(SHELL, "retry(1), then escalate").approved();
    story.attempt(EXITED, "");
    story.judged(CheckSubject::Contract(ONE), CheckOutcome::Broke { exit_code: 1 }, "one is missing");
    story.attempt(AttemptEnd::TimedOut, "");
    story.judged(CheckSubject::Contract(ONE), CheckOutcome::Broke { exit_code: 2 }, "one is empty");
    story.check(expect![[r#"
        auth-3fa9c1d2:e15 escalation since 1970-01-01T00:00:15.000Z: A plan, step 1 “First”: contract broke: exit code 2, after 2 attempts; the agent ran out of time and was ended
          1: contract broke: exit code 1 | logic | retry 1 of 1, with the output of the check
          2: contract broke: exit code 2 | logic | -
          > one is empty
          provost answer auth-3fa9c1d2:e15 retry
          provost answer auth-3fa9c1d2:e15 skip
          provost answer auth-3fa9c1d2:e15 abort
          provost answer auth-3fa9c1d2:e15 revise
    "#]]);
    story.answer(Some(ONE), Choice::Retry);
    assert_eq!(story.items(), []);
}

#[test]
fn a_permission_and_a_spent_quota_say_what_they_are() {
    let mut story = Story::new(SHELL, "retry(1), then escalate").approved();
    story.attempt(AttemptEnd::Exited { exit_code: 1 }, "Error: MODEL_API_KEY is not set");
    story.judged(CheckSubject::Contract(ONE), CheckOutcome::Broke { exit_code: 1 }, "");
    story.check(expect![[r#"
        auth-3fa9c1d2:e10 permission since 1970-01-01T00:00:10.000Z: A plan, step 1 “First”: a service refused the agent: the API refused the key (it said: Error: MODEL_API_KEY is not set)
          1: contract broke: exit code 1 | permission | -
          configure the variable MODEL_API_KEY
          > Error: MODEL_API_KEY is not set
          provost answer auth-3fa9c1d2:e10 retry
          provost answer auth-3fa9c1d2:e10 skip
          provost answer auth-3fa9c1d2:e10 abort
          provost answer auth-3fa9c1d2:e10 revise
    "#]]);
    let mut story = Story::new(SHELL, "retry(1), then escalate").approved();
    story.attempt(AttemptEnd::Exited { exit_code: 1 }, "Error: your credit balance is too low");
    story.judged(CheckSubject::Contract(ONE), CheckOutcome::Broke { exit_code: 1 }, "");
    assert_eq!(story.items()[0].kind.word(), "quota");
}

#[test]
fn a_human_contract_and_a_broken_postcondition_wait_too_and_can_be_let_be() {
    let mut story = Story::new(" human", "escalate").approved();
    story.attempt(EXITED, "");
    story.check(expect![[r#"
        auth-3fa9c1d2:e5 confirmation since 1970-01-01T00:00:05.000Z: A plan, step 1 “First”: a person confirms this step
          1: - | - | -
          provost answer auth-3fa9c1d2:e5 confirm
          provost answer auth-3fa9c1d2:e5 retry
          provost answer auth-3fa9c1d2:e5 skip
          provost answer auth-3fa9c1d2:e5 abort
          provost answer auth-3fa9c1d2:e5 revise
    "#]]);
    story.answer(Some(ONE), Choice::Confirm);
    story.judged(
        CheckSubject::Postcondition(1),
        CheckOutcome::Broke { exit_code: 2 },
        "no rule to make target",
    );
    story.check(expect![[r#"
        auth-3fa9c1d2:e9 postcondition since 1970-01-01T00:00:09.000Z: A plan: postcondition 1 broke: exit code 2
          > no rule to make target
          provost answer auth-3fa9c1d2:e9 retry
          provost answer auth-3fa9c1d2:e9 abort
          provost answer auth-3fa9c1d2:e9 revise
    "#]]);
    story.answer(None, Choice::Abort);
    assert_eq!(story.items(), [], "left as it is");
    story.answer(None, Choice::Retry);
    story.judged(CheckSubject::Postcondition(1), CheckOutcome::Broke { exit_code: 2 }, "");
    assert_eq!(story.items().len(), 1, "it was looked at again");
}

#[test]
fn what_nobody_answers_is_due_again_and_again_and_never_because_a_clock_was_set_back() {
    let mut story = Story::new(SHELL, "escalate");
    let hour = Duration::from_secs(3600);
    assert_eq!(story.items()[0].reminder(Timestamp(u64::MAX), hour), None, "nobody was asked");
    story.harness(HarnessCommand::RequestApproval { plan_id: "auth".to_owned() });
    let item = story.items().remove(0);
    let at = |seconds: u64| Timestamp(item.since.0 + seconds * 1000);
    let due = |seconds| item.reminder(at(seconds), hour);
    assert_eq!((due(0), due(3599), due(3600), due(7199), due(7200)), (None, None, Some(1), Some(1), Some(2)));
    assert_eq!(item.reminder(Timestamp(0), hour), None);
    assert_eq!(item.next_reminder(at(0), hour), Some(at(3600)));
    assert_eq!(item.next_reminder(at(3600), hour), Some(at(7200)));
    // A reminder changes nothing, and is recorded only if something waits.
    let reason = item.overdue(1);
    story.harness(HarnessCommand::Remind { reason: reason.clone() });
    assert_eq!(story.items(), [item]);
    let story = story.approved();
    assert!(decide::harness(&story.run, HarnessCommand::Remind { reason }).is_err());
}

#[test]
fn an_item_is_meant_by_the_shortest_name_that_means_no_other() {
    let mut items = Story::new(SHELL, "escalate").items();
    assert_eq!(short(&items, &items[0]), "e2");
    let other = |plan: &str, name: &str| {
        let mut item = items[0].clone();
        (item.id.plan, item.name) = (PlanId(plan.to_owned()), name.to_owned());
        item
    };
    let (web, twin) = (other("web-00000000", "web"), other("auth-11111111", "auth"));
    items.push(web);
    assert_eq!((short(&items, &items[0]).as_str(), named(&items, "e2").len()), ("auth:e2", 2));
    items.push(twin);
    assert_eq!(short(&items, &items[0]), "auth-3fa9c1d2:e2");
    assert_eq!((named(&items, "auth:e2").len(), named(&items, "auth-3fa9c1d2:e2").len()), (2, 1));
    assert_eq!((named(&items, "e3").len(), named(&items, "nobody:e2").len()), (0, 0));
    let is = ["e2", "auth:e2"].map(is_id);
    let is_not = ["2", "post", "e", "auth:2", "env", "e2x"].map(is_id);
    assert_eq!((is, is_not), ([true; 2], [false; 6]));
}

/// A plan that is done and landed, and then broken by a later commit on the branch.
#[test]
fn a_plan_that_the_branch_undid_waits_for_a_person() {
    let broke = || Verdict::bare(Isolation::Clean, CheckOutcome::Broke { exit_code: 1 });
    let landed = |commit: &str| HarnessCommand::Landed {
        plan_id: "p".to_owned(),
        target: "main".to_owned(),
        before: "a".to_owned(),
        commit: commit.to_owned(),
    };
    let undone = |subject| HarnessCommand::Undone {
        subject,
        verdict: broke(),
        reason: "undone on main by b".to_owned(),
    };
    for (subject, stage, kind) in [
        (CheckSubject::Final(ONE), "in-progress", "escalation"),
        (CheckSubject::Postcondition(1), "failed", "postcondition"),
    ] {
        let mut story = Story::new(SHELL, "abort").approved();
        assert!(decide::harness(&story.run, landed("b")).is_err(), "it is not done");
        story.attempt(AttemptEnd::Exited { exit_code: 0 }, "");
        story.judged(CheckSubject::Contract(ONE), CheckOutcome::Held, "");
        story.judged(CheckSubject::Final(ONE), CheckOutcome::Held, "");
        story.judged(CheckSubject::Postcondition(1), CheckOutcome::Held, "");
        story.harness(HarnessCommand::End);
        assert!(decide::harness(&story.run, undone(subject)).is_err(), "it has not landed");
        story.harness(landed("b"));
        assert_eq!(decide::harness(&story.run, landed("b")), Ok(Vec::new()), "told once");
        assert_eq!(story.run.landed.as_ref().map(|landed| landed.commit.as_str()), Some("b"));
        story.harness(undone(subject));
        assert_eq!((story.run.stage.word(), &story.run.landed), (stage, &None));
        let waits = waiting(&story.run);
        assert_eq!(waits.iter().map(|waiting| waiting.kind.word()).collect::<Vec<_>>(), [kind]);
        story.human(HumanCommand::Answer {
            step: waits[0].step,
            choice: Choice::Revise,
            note: String::new(),
            by: "ada".to_owned(),
        });
        assert_eq!(story.run.stage.word(), "draft");
    }
}
