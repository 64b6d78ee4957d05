//! Tests `provost run --ci` and this repository's GitHub Action: no terminal, no waiting, reports.

use std::process::Command;

use crate::env::{Answer, Env, HONEST, answer, plan};

const LIAR: &str = "echo 'all done'\n";

fn env(agent: &str) -> Env {
    Env::new(&plan(&["test -f out/1 || { echo 'a < b' >&2; exit 1; }", "test -f out/2"], "escalate"))
        .isolation("in-place")
        .agent(agent)
}

fn run(env: &Env) -> Answer {
    let words = ["run", "--ci", "--junit", "junit.xml", "--sarif", "run.sarif", "--summary", "summary.md"];
    env.provost(&words)
}

#[test]
fn a_run_without_a_person_ends_at_the_gate_and_says_so_everywhere() {
    let env = env(HONEST);
    let said = run(&env).exits(4);
    assert!(said.err.contains("provost approve --revision"), "{}", said.err);
    let junit = env.read("junit.xml");
    assert!(junit.contains("failures=\"1\"") && junit.contains("the plan is done"), "never green: {junit}");
    assert!(env.read("run.sarif").contains("waiting for a person"));
    assert!(
        env.read("summary.md").contains("**verified** · 0 of 2 checks passed"),
        "{}",
        env.read("summary.md")
    );
    // With `--ci` provost asks nothing, even at a terminal.
    let mut person = env.person();
    person.provost(&["run", "--ci"]).exits(4);
}

#[test]
fn a_run_that_is_done_has_reports_with_its_proof() {
    let env = env(HONEST);
    env.provost(&["verify"]).exits(0);
    env.approve();
    let said = run(&env).exits(0);
    assert!(!said.out.contains('\u{1b}') && said.out.contains("Step 2: contract held"), "{}", said.out);
    let junit = env.read("junit.xml");
    assert!(junit.contains("tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"0\""), "{junit}");
    let parsed = Command::new("python3")
        .args(["-c", "import sys,xml.dom.minidom as m; m.parse(sys.argv[1])", "junit.xml"])
        .current_dir(env.work())
        .status();
    assert!(parsed.is_ok_and(|end| end.success()), "{junit}");
    let summary = env.read("summary.md");
    assert!(summary.contains("approved by ada") && summary.contains("signed with key"), "{summary}");
    let sarif: serde_json::Value = serde_json::from_str(&env.read("run.sarif")).expect("SARIF");
    assert_eq!(sarif["runs"][0]["results"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_step_that_waits_is_a_failure_for_machines() {
    let env = env(LIAR);
    env.provost(&["verify"]).exits(0);
    env.approve();
    // Writes to the file that GitHub names, after the existing text.
    let mut command = env.command(&["run", "--ci", "--junit", "junit.xml"]);
    env.write("step.md", "before\n");
    let said =
        answer(command.env("GITHUB_STEP_SUMMARY", env.work().join("step.md")).output().expect("provost"));
    said.exits(4);
    let junit = env.read("junit.xml");
    assert!(junit.contains("failures=\"1\"") && junit.contains("a &lt; b"), "{junit}");
    let summary = env.read("step.md");
    assert!(summary.starts_with("before\n## A plan") && summary.contains("a < b"), "{summary}");
}

#[test]
fn a_report_that_cannot_be_written_is_said() {
    let env = env(HONEST);
    let said = env.provost(&["run", "--ci", "--junit", "no/such/folder.xml"]).exits(70);
    assert!(said.err.contains("no/such/folder.xml"), "{}", said.err);
    env.provost(&["run", "--ci", "--wait"]).exits(2);
}

/// Returns the script of a step of `action.yml`.
fn script(id: &str) -> String {
    let action =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../action.yml")).expect("it");
    let (_, step) = action.split_once(&format!("- id: {id}\n")).expect("the step");
    let (_, block) = step.split_once("      run: |\n").expect("its script");
    let lines = block.lines().take_while(|line| line.is_empty() || line.starts_with("        "));
    lines.map(|line| format!("{}\n", line.trim_start_matches("        "))).collect()
}

fn act(env: &Env, revision: &str) -> Answer {
    let mut bash = Command::new("bash");
    for (name, value) in env.command(&[]).get_envs() {
        bash.env(name, value.unwrap_or_default());
    }
    bash.args(["-c", &script("run")]).current_dir(env.work());
    bash.env("PROGRAM", env!("CARGO_BIN_EXE_provost")).env("PLAN", "PLAN.md").env("REVISION", revision);
    bash.env("JOBS", "1").env("REPORTS", "").env("RUNNER_TEMP", env.folder());
    bash.env("GITHUB_OUTPUT", env.folder().join("output"));
    bash.env("GITHUB_STEP_SUMMARY", env.folder().join("step.md"));
    answer(bash.output().expect("bash"))
}

#[test]
fn the_action_runs_what_a_person_has_read_and_nothing_else() {
    let env = env(HONEST);
    let output = || std::fs::read_to_string(env.folder().join("output")).expect("outputs");
    act(&env, "").exits(4);
    assert!(output().contains("exit-code=4\nstage=verified\n"), "{}", output());
    act(&env, "000000000000").exits(5);
    act(&env, &env.revision()).exits(0);
    assert!(output().ends_with(&format!(
        "exit-code=0\nstage=done\nreports={}\n",
        env.folder().join("provost-reports").display()
    )));
    for report in ["plan.sarif", "run.sarif", "junit.xml", "audit.json", "proof.jsonl"] {
        let path = env.folder().join("provost-reports").join(report);
        assert!(path.metadata().is_ok_and(|found| found.len() > 0), "{report}");
    }
    let summary = std::fs::read_to_string(env.folder().join("step.md")).expect("a summary");
    assert!(summary.contains("**done** · 2 of 2 checks passed"), "{summary}");
}
