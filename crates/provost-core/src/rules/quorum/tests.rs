//! Tests gates that need more than one person.

use expect_test::{Expect, expect};

use super::*;
use crate::model::approved_spec::Binding;
use crate::model::event::Event;
use crate::model::run_policy::{Quorum, RunPolicy};
use crate::rules::command::{HarnessCommand, HumanCommand};
use crate::rules::decide;
use crate::state::run::Run;

const PLAN: &str = "---\ntype: plan\nstatus: draft\nowner: me\n---\n# One\n\n## Steps\n\n### 1. First\n\
                    **target:** coder\n**task:**\nDo it.\n**contract:**\n```shell\ntest -f one\n```\n";

/// Runs a script: `law TEXT AUTHOR`, `NAME approves`, `NAME asks`, `NAME rejects`, `policy NAME`, `dialog NAME`, and
/// `quorum …` for the settings of the next revision.
fn tell(quorum: Quorum, script: &str) -> String {
    let (mut run, mut quorum, mut out) = (Run::default(), quorum, String::new());
    for line in script.split("; ") {
        let words: Vec<&str> = line.split(' ').collect();
        let decided = match words.as_slice() {
            ["quorum", approvals] => {
                quorum = Quorum { approvals: approvals.parse().expect("a number"), ..quorum };
                continue;
            }
            ["law", text, author] => {
                let terms = RunPolicy { quorum, ..RunPolicy::default() };
                let binding = Binding { terms, ..Binding::default() };
                let (text, author) = (PLAN.replace("Do it.", text), Some((*author).to_owned()));
                let mut events = decide::harness(&run, HarnessCommand::Record { text, binding, author });
                if let Ok(events) = &mut events
                    && let Some(Event::PlanCreated { revision, .. } | Event::PlanRewritten { revision, .. }) =
                        events.first()
                {
                    events.push(Event::PlanVerified { revision: revision.clone(), warnings: 0 });
                }
                events
            }
            ["policy", name] => {
                let by = Approver::Policy {
                    name: (*name).to_owned(),
                    digest: "d".to_owned(),
                    unread: false,
                    trusted: Vec::new(),
                };
                let revision = run.revision.clone();
                decide::harness(&run, HarnessCommand::ApproveByPolicy { revision, by })
            }
            ["dialog", name] => {
                let by = Approver::Dialog { by: (*name).to_owned(), client: "client".to_owned() };
                let revision = run.revision.clone();
                decide::harness(&run, HarnessCommand::ApproveByPolicy { revision, by })
            }
            [name @ .., "asks"] => {
                let (question, by) = ("why?".to_owned(), name.join(" "));
                decide::human(&run, HumanCommand::Ask { question, by, step: None })
            }
            [name @ .., "approves"] => {
                let (revision, by) = (run.revision.clone(), name.join(" "));
                decide::human(&run, HumanCommand::Approve { revision, by, modifications: Vec::new() })
            }
            other => panic!("{other:?}"),
        };
        let said = match decided {
            Ok(events) => {
                events.iter().for_each(|event| run.apply(event));
                format!("{}: {}", run.stage.word(), ApprovalCount::of(&run))
            }
            Err(refusal) => format!("refused: {refusal}"),
        };
        out.push_str(&format!("{line} -> {said}\n"));
    }
    out
}

fn check(quorum: Quorum, script: &str, expected: Expect) {
    expected.assert_eq(&tell(quorum, script));
}

const TWO: Quorum = Quorum { approvals: 2, self_approval: true, policies_count: false };
const OTHERS: Quorum = Quorum { approvals: 2, self_approval: false, policies_count: false };

#[test]
fn the_second_person_makes_it_approved_and_one_person_counts_once() {
    check(
        TWO,
        "law A ada; ada approves; ada approves; ADA approves; policy docs; bob approves; cem approves",
        expect![[r#"
            law A ada -> verified: 0 of 2 approvals; still needed: 2 people
            ada approves -> verified: 1 of 2 approvals (ada); still needed: 1 more person
            ada approves -> refused: ada already approved this revision and counts only once: 1 of 2 approvals (ada); still needed: 1 more person
            ADA approves -> refused: ADA already approved this revision and counts only once: 1 of 2 approvals (ada); still needed: 1 more person
            policy docs -> refused: this plan needs approval by people; a policy does not count ([gate] policies_count)
            bob approves -> approved: 2 of 2 approvals (ada, bob)
            cem approves -> refused: ada, bob already approved revision eaf1228d180b
        "#]],
    );
}

#[test]
fn a_name_is_the_same_in_any_spelling() {
    for other in ["Ada Byron", " ada  byron", "ada\tbyron", "\u{200b}ada byron\u{feff}"] {
        assert!(is_same("ada byron", other), "{other:?}");
    }
    assert!(!is_same("ada", "bob") && !is_same("ada", ""));
}

#[test]
fn an_account_at_a_provider_is_one_person_under_any_address() {
    let alice = person::signed_in("alice@example.com", "https://a.example", "1");
    let renamed = person::signed_in("a.smith@example.com", "https://a.example", "1");
    let successor = person::signed_in("alice@example.com", "https://a.example", "2");
    assert!(is_same(&alice, &renamed) && is_same(&alice, &alice.to_uppercase()));
    assert!(!is_same(&alice, &successor) && !is_same(&alice, "alice@example.com"));
}

#[test]
fn who_wrote_it_does_not_approve_it() {
    check(
        OTHERS,
        "law A ada; ada approves; Ada approves; bob approves; cem approves",
        expect![[r#"
        law A ada -> verified: 0 of 2 approvals; still needed: 2 people, other than ada, who wrote it
        ada approves -> refused: ada wrote this text, and authors may not approve their own text here ([gate] self_approval): 0 of 2 approvals; still needed: 2 people, other than ada, who wrote it
        Ada approves -> refused: Ada wrote this text, and authors may not approve their own text here ([gate] self_approval): 0 of 2 approvals; still needed: 2 people, other than ada, who wrote it
        bob approves -> verified: 1 of 2 approvals (bob); still needed: 1 more person, other than ada, who wrote it
        cem approves -> approved: 2 of 2 approvals (bob, cem)
    "#]],
    );
    check(
        Quorum { approvals: 1, ..OTHERS },
        "law A ada; policy docs; ada approves; bob approves",
        expect![[r#"
            law A ada -> verified: 0 of 1 approval; still needed: 1 person, other than ada, who wrote it
            policy docs -> refused: this plan needs approval by people; a policy does not count ([gate] policies_count)
            ada approves -> refused: ada wrote this text, and authors may not approve their own text here ([gate] self_approval): 0 of 1 approval; still needed: 1 person, other than ada, who wrote it
            bob approves -> approved: 1 of 1 approval (bob)
        "#]],
    );
}

#[test]
fn what_was_said_of_an_older_revision_or_before_a_question_does_not_count() {
    check(
        TWO,
        "law A ada; bob approves; law B ada; bob approves; cem asks; bob approves; cem approves",
        expect![[r#"
            law A ada -> verified: 0 of 2 approvals; still needed: 2 people
            bob approves -> verified: 1 of 2 approvals (bob); still needed: 1 more person
            law B ada -> verified: 0 of 2 approvals; still needed: 2 people
            bob approves -> verified: 1 of 2 approvals (bob); still needed: 1 more person
            cem asks -> verified: 0 of 2 approvals; still needed: 2 people
            bob approves -> verified: 1 of 2 approvals (bob); still needed: 1 more person
            cem approves -> approved: 2 of 2 approvals (bob, cem)
        "#]],
    );
}

#[test]
fn a_policy_is_a_person_only_where_it_may_and_all_of_them_are_one() {
    check(
        Quorum { policies_count: true, ..TWO },
        "law A ada; policy docs; policy tests; bob approves",
        expect![[r#"
            law A ada -> verified: 0 of 2 approvals; still needed: 2 people
            policy docs -> verified: 1 of 2 approvals (policy docs); still needed: 1 more person
            policy tests -> refused: policy tests already approved this revision and counts only once: 1 of 2 approvals (policy docs); still needed: 1 more person
            bob approves -> approved: 2 of 2 approvals (policy docs, bob)
        "#]],
    );
}

#[test]
fn a_dialog_of_the_agents_client_is_enough_for_one_and_counts_towards_no_quorum() {
    check(
        Quorum::default(),
        "law A ada; dialog ada; ada approves",
        expect![[r#"
            law A ada -> verified: 0 of 1 approval; still needed: 1 person
            dialog ada -> approved: 1 of 1 approval (ada in a dialog of client)
            ada approves -> approved: 2 of 2 approvals (ada in a dialog of client, ada)
        "#]],
    );
    check(
        Quorum { policies_count: true, ..TWO },
        "law A ada; dialog bob",
        expect![[r#"
            law A ada -> verified: 0 of 2 approvals; still needed: 2 people
            dialog bob -> refused: this plan needs approval by people; a dialog of the agent's client does not count ([gate])
        "#]],
    );
}

/// An agent can write the settings, so a lower quorum needs the approvals that the old one required.
#[test]
fn nobody_makes_it_easier_alone() {
    check(
        TWO,
        "law A ada; bob approves; ada approves; quorum 1; law A eve; eve approves; bob approves; law B eve; eve approves",
        expect![[r#"
            law A ada -> verified: 0 of 2 approvals; still needed: 2 people
            bob approves -> verified: 1 of 2 approvals (bob); still needed: 1 more person
            ada approves -> approved: 2 of 2 approvals (bob, ada)
            law A eve -> verified: 0 of 2 approvals; still needed: 2 people
            eve approves -> verified: 1 of 2 approvals (eve); still needed: 1 more person
            bob approves -> approved: 2 of 2 approvals (eve, bob)
            law B eve -> verified: 0 of 1 approval; still needed: 1 person
            eve approves -> approved: 1 of 1 approval (eve)
        "#]],
    );
}

/// Also before the first full approval: the first approver relied on a second one.
#[test]
fn after_the_first_yes_its_rule_holds() {
    check(
        TWO,
        "law A ada; eve approves; quorum 1; law A eve; eve approves; bob approves; law B eve; eve approves",
        expect![[r#"
            law A ada -> verified: 0 of 2 approvals; still needed: 2 people
            eve approves -> verified: 1 of 2 approvals (eve); still needed: 1 more person
            law A eve -> verified: 0 of 2 approvals; still needed: 2 people
            eve approves -> verified: 1 of 2 approvals (eve); still needed: 1 more person
            bob approves -> approved: 2 of 2 approvals (eve, bob)
            law B eve -> verified: 0 of 1 approval; still needed: 1 person
            eve approves -> approved: 1 of 1 approval (eve)
        "#]],
    );
}

#[test]
fn a_text_on_another_commit_keeps_its_author() {
    let mut run = Run::default();
    for (base, author) in [("a", "ada"), ("b", "bob")] {
        let binding = Binding { base: Some(base.to_owned()), ..Binding::default() };
        let (text, author) = (PLAN.to_owned(), Some(author.to_owned()));
        let events = decide::harness(&run, HarnessCommand::Record { text, binding, author });
        events.expect("recorded").iter().for_each(|event| run.apply(event));
    }
    assert_eq!(run.author.as_deref(), Some("ada"));
}

/// A log that was written before approvals were counted.
#[test]
fn one_yes_in_an_old_log_is_enough() {
    let created = r#"{"event":"PLAN_CREATED","details":{"text":"x","revision":"5f2d","task_count":1}}"#;
    let approved = r#"{"event":"GATE_APPROVED","details":{"revision":"5f2d","by":{"person":"ada"}}}"#;
    let mut run = Run::default();
    for line in [created, approved] {
        run.apply(&serde_json::from_str::<Event>(line).expect("an event"));
    }
    assert_eq!((run.stage, run.approvers().as_deref()), (Stage::Approved, Some("ada")));
}
