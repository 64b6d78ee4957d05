//! Tests which trees an attempt begins with and a check judges, if trees are sent between machines.

use provost_core::model::approved_spec::Binding;
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::decide;
use provost_core::state::run::{RemoteWork, Run};
use serde_json::{Value, json};

const FIRST: StepNumber = StepNumber(1);
const SECOND: StepNumber = StepNumber(2);
const THIRD: StepNumber = StepNumber(3);

fn text() -> String {
    let step = |number: u32, fields: &str| {
        format!(
            "### {number}. S\n**target:** coder\n{fields}**task:** Do it.\n**contract:**\n```shell\n\
             test -f {number}\n```\n"
        )
    };
    let own = |number: u32| step(number, &format!("**needs:** none\n**touches:** `out/{number}/**`\n"));
    format!(
        "---\nstatus: draft\ntouches: [\"out/**\"]\n---\n# T\n## Steps\n{}{}{}",
        own(1),
        own(2),
        step(3, "")
    )
}

fn run() -> Run {
    let mut run = Run::default();
    record(&mut run, text(), "c0");
    run
}

fn record(run: &mut Run, text: String, base: &str) {
    let binding = Binding { base: Some(base.to_owned()), ..Binding::default() };
    let command = HarnessCommand::Record { text, binding, author: None };
    decide::harness(run, command).expect("recorded").iter().for_each(|event| run.apply(event));
}

fn hear(run: &mut Run, name: &str, details: Value) {
    let event: Event = serde_json::from_value(json!({ "event": name, "details": details })).expect(name);
    run.apply(&event);
}

fn starts(run: &mut Run, step: StepNumber, attempt: u32) {
    hear(run, "TASK_STARTED", json!({ "step": step, "attempt": attempt, "target": "coder" }));
}

/// An attempt that left a tree; `beside` as the event has it.
fn ends(run: &mut Run, step: StepNumber, attempt: u32, tree: &str, beside: Option<Value>) {
    let mut carried = json!({ "tree": tree, "name": format!("refs/{tree}"), "machine": "m" });
    if let Some(beside) = beside {
        carried["beside"] = beside;
    }
    let end = json!({ "kind": "exited", "exit_code": 0 });
    let details =
        json!({ "step": step, "attempt": attempt, "end": end, "duration_ms": 1, "carried": carried });
    hear(run, "ATTEMPT_ENDED", details);
}

fn passes(run: &mut Run, step: StepNumber, tree: &str) {
    hear(run, "TASK_COMPLETED", json!({ "step": step, "attempt": 1, "result": "held", "tree": tree }));
}

/// Returns the tree of a work and the one that it began with.
fn told(work: Option<&RemoteWork>) -> Option<(&str, Option<&str>)> {
    work.map(|work| (work.left.tree.as_str(), work.base.as_deref()))
}

fn all(run: &Run) -> Vec<&str> {
    run.sent_work().map(|work| work.left.tree.as_str()).collect()
}

#[test]
fn in_a_log_without_parallel_attempts_each_begins_with_what_the_last_one_left() {
    let mut run = run();
    assert!(!run.sends_trees());
    starts(&mut run, FIRST, 1);
    ends(&mut run, FIRST, 1, "w1", None);
    assert!(run.sends_trees());
    passes(&mut run, FIRST, "p1");
    for step in [FIRST, SECOND, THIRD] {
        assert_eq!(told(run.work_to_continue(step, false)), Some(("w1", None)));
        assert_eq!(told(run.work_to_judge(step)), Some(("w1", None)));
    }
    starts(&mut run, SECOND, 1);
    ends(&mut run, SECOND, 1, "w2", None);
    assert_eq!(told(run.work_to_judge(SECOND)), Some(("w2", Some("p1"))));
    assert_eq!(told(run.work_to_continue(THIRD, false)), Some(("w2", Some("p1"))));
    assert!(!run.work_in_place().is_some_and(|work| work.is_behind));
    assert_eq!(run.last_passed(), Some("p1"));
}

#[test]
fn attempts_beside_each_other_are_judged_and_continued_by_step() {
    let mut run = run();
    starts(&mut run, FIRST, 1);
    starts(&mut run, SECOND, 1);
    ends(&mut run, SECOND, 1, "w2", Some(json!({})));
    ends(&mut run, FIRST, 1, "w1", Some(json!({})));
    assert_eq!(told(run.work_to_judge(FIRST)), Some(("w1", None)));
    assert_eq!(told(run.work_to_judge(SECOND)), Some(("w2", None)));
    assert_eq!(all(&run), ["w1", "w2"]);
    passes(&mut run, FIRST, "p1");
    // The second step fails and is tried again, on top of what has passed.
    starts(&mut run, SECOND, 2);
    assert_eq!(told(run.work_to_continue(SECOND, true)), Some(("w2", None)));
    ends(&mut run, SECOND, 2, "w3", Some(json!({ "passed": "p1" })));
    assert_eq!(told(run.work_to_judge(SECOND)), Some(("w3", Some("p1"))));
    passes(&mut run, SECOND, "p2");
    assert_eq!((all(&run), run.last_passed()), (Vec::new(), Some("p2")));
    assert!(run.sends_trees() && run.work_to_continue(THIRD, false).is_none());
}

#[test]
fn what_takes_the_place_of_the_workspace_is_behind_once_a_step_beside_it_has_passed() {
    let mut run = run();
    starts(&mut run, THIRD, 1);
    ends(&mut run, THIRD, 1, "w3", None);
    hear(&mut run, "ATTEMPT_LOST", json!({ "step": 3, "attempt": 1, "cause": "crash" }));
    starts(&mut run, FIRST, 1);
    ends(&mut run, FIRST, 1, "w1", Some(json!({})));
    assert_eq!(told(run.work_to_continue(THIRD, false)), Some(("w3", None)));
    assert_eq!(told(run.work_to_continue(SECOND, true)), None, "it begins with what has passed");
    passes(&mut run, FIRST, "p1");
    let behind = |run: &Run| run.work_in_place().map(|work| (work.left.tree.clone(), work.is_behind));
    assert_eq!(behind(&run), Some(("w3".to_owned(), true)));
    starts(&mut run, THIRD, 2);
    ends(&mut run, THIRD, 2, "w4", None);
    assert_eq!(behind(&run), Some(("w4".to_owned(), false)));
    assert_eq!(told(run.work_in_place()), Some(("w4", Some("p1"))));
}

#[test]
fn a_new_revision_keeps_the_trees_and_another_commit_forgets_them() {
    let mut run = run();
    starts(&mut run, FIRST, 1);
    starts(&mut run, SECOND, 1);
    ends(&mut run, FIRST, 1, "w1", Some(json!({})));
    ends(&mut run, SECOND, 1, "w2", Some(json!({})));
    passes(&mut run, FIRST, "p1");
    record(&mut run, text().replace("### 3. S", "### 3. T"), "c0");
    assert_eq!((run.tree.as_deref(), run.last_passed()), (None, Some("p1")));
    assert_eq!(told(run.work_to_judge(SECOND)), Some(("w2", None)));
    record(&mut run, text(), "c1");
    assert_eq!((run.sends_trees(), run.last_passed(), all(&run)), (false, None, Vec::new()));
}

#[test]
fn nothing_runs_in_parallel_while_the_passed_tree_lacks_what_a_person_has_waived() {
    let mut run = run();
    hear(&mut run, "ISOLATION_ATTESTED", json!({ "level": "clean", "probes": [] }));
    starts(&mut run, FIRST, 1);
    starts(&mut run, SECOND, 1);
    ends(&mut run, FIRST, 1, "w1", Some(json!({})));
    ends(&mut run, SECOND, 1, "w2", Some(json!({})));
    assert!(run.works_apart(SECOND));
    hear(&mut run, "TASK_WAIVED", json!({ "step": 1, "by": "ada", "reason": "later" }));
    assert_eq!(all(&run), ["w2"]);
    passes(&mut run, SECOND, "p2");
    assert!(run.has_unseen_work() && !run.works_apart(SECOND), "it was begun without that work");
    starts(&mut run, THIRD, 1);
    ends(&mut run, THIRD, 1, "w3", None);
    passes(&mut run, THIRD, "p3");
    assert!(!run.has_unseen_work() && run.works_apart(SECOND));
}
