//! A list of what a harness of this kind must be tested for, with the test of each row: the checklist, the
//! table of failures, and the failures of each stage. Rows without a test elsewhere are tested here.

use serde_json::Value;

use crate::env::{Env, HONEST, plan};

/// A row, the file of its tests below `crates/`, and the names of the test functions.
type Row = (&'static str, &'static str, &'static [&'static str]);

const CODES: &str = "provost-core/tests/it/codes.rs";
const RECOVER: &str = "provost-core/src/rules/recover/tests.rs";
const RUN: &str = "provost/tests/it/run.rs";
const GATE: &str = "provost/tests/it/gate.rs";
const INBOX: &str = "provost/tests/it/inbox.rs";
const RECOVERY: &str = "provost/tests/it/recovery.rs";
const HERE: &str = "provost/tests/it/checklist.rs";

const ROWS: &[Row] = &[
    // The checklist.
    (
        "planning gives concrete, testable, ordered tasks",
        CODES,
        &["the_good_plan_is_clean", "every_code_is_said_about_some_plan"],
    ),
    (
        "the gate blocks until an explicit approval",
        GATE,
        &["without_a_terminal_a_plan_waits_at_the_gate", "there_is_no_way_to_approve_everything"],
    ),
    (
        "an approved plan is executed exactly as specified",
        HERE,
        &["an_approved_plan_is_carried_out_in_its_order_and_with_its_own_checks"],
    ),
    (
        "failed tasks are classified before recovery",
        HERE,
        &["every_change_is_in_the_log_in_order_and_with_its_time"],
    ),
    (
        "recipes are applied per failure type",
        RECOVER,
        &[
            "transient_is_tried_again_after_five_and_thirty_seconds_then_a_person_decides",
            "logic_is_tried_again_at_once_with_what_the_judge_saw",
        ],
    ),
    (
        "the log has all changes with timestamps",
        HERE,
        &["every_change_is_in_the_log_in_order_and_with_its_time"],
    ),
    ("unknown errors go to a person", RECOVERY, &["what_nobody_knows_goes_to_a_person"]),
    (
        "exhausted recovery goes to a person with a choice",
        INBOX,
        &["an_escalation_is_shown_with_what_was_tried_and_each_choice"],
    ),
    ("circular dependencies are rejected", HERE, &["circular_dependencies_are_refused_before_anything_runs"]),
    (
        "dependencies are verified before execution",
        HERE,
        &["a_step_is_given_to_nobody_before_what_it_needs_has_passed"],
    ),
    // The table of failures.
    ("transient", RECOVERY, &["something_transient_is_waited_out_and_the_agent_is_not_asked_twice"]),
    ("permission", INBOX, &["a_permission_stop_names_what_to_configure_and_goes_on_when_it_is"]),
    ("invalid input", RECOVERY, &["invalid_input_is_asked_about_and_not_tried_again"]),
    ("logic error", RECOVERY, &["an_error_of_logic_is_tried_again_and_the_same_one_not_a_third_time"]),
    ("unrecoverable", RECOVERY, &["what_no_attempt_can_mend_goes_to_a_person_at_once"]),
    // The failures of each stage.
    ("vague tasks, too many or too few", CODES, &["every_code_is_said_about_some_plan"]),
    ("a modification that makes a circle", HERE, &["circular_dependencies_are_refused_before_anything_runs"]),
    ("a question at the gate", GATE, &["reject_ask_and_amend_lead_back_to_the_gate"]),
    (
        "time-out of an approval escalates",
        INBOX,
        &["what_is_overdue_is_said_and_stands_in_the_log_and_is_never_approved"],
    ),
    ("a task that takes too long", RUN, &["time_outs_of_the_step_and_of_the_contract_are_kept"]),
    ("time-outs of the configuration", HERE, &["time_outs_of_the_configuration_are_kept"]),
    ("stop on error", RUN, &["on_fail_is_carried_out_as_written"]),
    ("no deviation from the plan", RUN, &["an_edit_of_the_law_under_a_run_stops_it_before_the_next_step"]),
    ("recovery that fails after its last attempt", RECOVER, &["on_fail_bounds_what_a_recipe_may_try"]),
    (
        "a person decides: retry, skip, abort, revise",
        INBOX,
        &[
            "retry_starts_afresh_and_the_run_goes_on",
            "skip_is_a_waiver_by_a_named_person_and_shows_as_such_for_ever",
            "abort_ends_the_plan_as_failed_and_nothing_waits_any_more",
            "revise_sends_the_plan_back_to_draft_and_to_the_gate",
        ],
    ),
    (
        "credentials are never asked for as text",
        RECOVER,
        &["permission_stops_names_what_to_configure_and_has_one_try_after_a_person_says_so"],
    ),
    ("credentials are in no event", RUN, &["no_secret_reaches_the_log_the_terminal_or_the_progress_file"]),
];

#[test]
fn every_row_has_its_test() {
    for (row, file, tests) in ROWS {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        for test in *tests {
            assert!(text.contains(&format!("#[test]\nfn {test}()")), "“{row}” has no test {test} in {file}");
        }
    }
}

fn named(env: &Env, name: &str) -> Vec<Value> {
    env.provost(&["log", "--json", "--event", name]).exits(0).lines()
}

#[test]
fn an_approved_plan_is_carried_out_in_its_order_and_with_its_own_checks() {
    let contracts = ["test -f out/1", "test -f out/2", "test -f out/3"];
    let env = Env::new(&plan(&contracts, "escalate")).agent(HONEST).isolation("in-place");
    env.approve();
    env.provost(&["run"]).exits(0);
    for name in ["TASK_STARTED", "TASK_COMPLETED"] {
        let order: Vec<Value> =
            named(&env, name).iter().map(|event| event["details"]["step"].clone()).collect();
        assert_eq!(order, [1, 2, 3], "{name}");
    }
    // Exactly the contracts that were shown were judged.
    let shown = env.provost(&["show", "--json"]).exits(0).json();
    let commands: Vec<&Value> =
        shown["steps"].as_array().unwrap().iter().map(|step| &step["contract"]["command"]).collect();
    assert_eq!(commands, contracts);
    let end = &named(&env, "EXECUTION_COMPLETE")[0]["details"]["summary"];
    assert_eq!((&end["completed"], &end["failed"], &end["skipped"]), (&3.into(), &0.into(), &0.into()));
}

#[test]
fn every_change_is_in_the_log_in_order_and_with_its_time() {
    let contract = "test -f out/1 || { echo out/1 is missing >&2; exit 1; }";
    let agent = format!("if [ -f second ]; then {}; fi; touch second\n", HONEST.trim_end());
    let env = Env::new(&plan(&[contract], "retry(1), then escalate")).agent(&agent).isolation("in-place");
    env.provost(&["run"]).exits(4);
    env.approve();
    env.provost(&["run"]).exits(0);
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let names: Vec<&str> = log.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let told = [
        "PLAN_CREATED",
        "PLAN_VERIFIED",
        "GATE_APPROVAL_REQUESTED",
        "GATE_APPROVED",
        "TASK_STARTED",
        "FAILURE_DETECTED",
        "FAILURE_CLASSIFIED",
        "RECOVERY_APPLIED",
        "TASK_STARTED",
        "TASK_COMPLETED",
        "EXECUTION_COMPLETE",
    ];
    let mut rest = names.iter();
    for name in told {
        assert!(rest.any(|each| *each == name), "{name} is missing or too early: {names:?}");
    }
    let times: Vec<&str> = log.iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let seqs: Vec<u64> = log.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>());
}

#[test]
fn circular_dependencies_are_refused_before_anything_runs() {
    let good = plan(&["test -f out/1", "test -f out/2"], "escalate");
    let circle = good
        .replace("Step 1\n\n**target:**", "Step 1\n\n**needs:** 2\n\n**target:**")
        .replace("Step 2\n\n**target:**", "Step 2\n\n**needs:** 1\n\n**target:**");
    assert_eq!(circle.matches("**needs:**").count(), 2);
    let env = Env::new(&circle).agent(HONEST).isolation("in-place");
    let verified = env.provost(&["verify", "--json"]).exits(3).json();
    let codes: Vec<String> = verified["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| env.provost(&["verify", "--explain", each["code"].as_str().unwrap()]).exits(0).out)
        .collect();
    assert!(
        codes.iter().any(|page| page.to_lowercase().contains("circle") || page.contains("cycle")),
        "{verified}"
    );
    env.provost(&["run"]).exits(3);
    assert!(!env.work().join("out").exists());
    // An amendment at the gate with a cycle is refused too.
    let env = Env::new(&good).agent(HONEST).isolation("in-place");
    env.provost(&["run"]).exits(4);
    env.write("circle.md", &circle);
    env.provost(&["amend", "--file", "circle.md"]).exits(3);
    assert!(!env.read("PLAN.md").contains("**needs:**"));
}

#[test]
fn a_step_is_given_to_nobody_before_what_it_needs_has_passed() {
    let text = plan(&["test -f out/1", "test -f out/never", "test -f out/3"], "escalate")
        .replace("Step 1\n\n**target:**", "Step 1\n\n**needs:** none\n\n**target:**")
        .replace("Step 2\n\n**target:**", "Step 2\n\n**needs:** none\n\n**target:**")
        .replace("Step 3\n\n**target:**", "Step 3\n\n**needs:** 1, 2\n\n**target:**");
    let env = Env::new(&text).agent(HONEST).isolation("in-place");
    env.approve();
    env.provost(&["run", "--jobs", "3"]).exits(4);
    assert_eq!(env.states(), "1 passed, 2 blocked, 3 pending");
    env.write("out/never", "");
    env.provost(&["answer", "2", "retry"]).exits(0);
    env.provost(&["run", "--jobs", "3"]).exits(0);
    let at = |name: &str, step: u64| {
        let all = named(&env, name);
        let found =
            all.iter().find(|event| event["details"]["step"] == step).map(|event| event["seq"].as_u64());
        found.flatten().unwrap_or_else(|| panic!("no {name} of step {step}"))
    };
    assert!(at("TASK_STARTED", 3) > at("TASK_COMPLETED", 1).max(at("TASK_COMPLETED", 2)));
}

/// The role or the run limits an attempt, `[verify]` limits a check; a step can override both.
#[test]
fn time_outs_of_the_configuration_are_kept() {
    for (contract, agent, config, words) in [
        ("test -f out/1", "sleep 600\n", "timeout = \"300ms\"\n", "ran out of time"),
        ("test -f out/1", "sleep 600\n", "[run]\nstep_timeout = \"300ms\"\n", "ran out of time"),
        (
            "sleep 600",
            "true\n",
            "[verify]\nisolation = \"in-place\"\ncontract_timeout = \"300ms\"\n",
            "timed out",
        ),
    ] {
        let env = Env::new(&plan(&[contract], "abort")).agent(agent);
        env.write("provost.toml", env.read("provost.toml") + config);
        let env = if config.contains("[verify]") { env } else { env.isolation("in-place") };
        env.approve();
        let run = env.provost(&["run"]).exits(1);
        assert!(run.out.contains(words), "{config}: {}", run.out);
    }
}
