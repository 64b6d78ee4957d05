//! Tests `provost try`: a check on the base and on the workspace, before any agent runs.

use crate::env::Env;

fn plan(contract: &str, fields: &str) -> String {
    format!(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n\n\
         ### 1. Make it\n\n**target:** coder\n\n**task:**\nMake it.\n\n{fields}**contract:**\n```shell\n{contract}\n```\n\
         exit_code == 0\n**on_fail:** escalate\n"
    )
}

fn project(contract: &str, fields: &str) -> Option<Env> {
    let env = Env::new(&plan(contract, fields)).agent("exit 1\n");
    if !env.has_fences() {
        return None;
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    Some(env)
}

#[test]
fn a_contract_is_tried_on_the_base_and_on_the_workspace_and_nothing_is_recorded() {
    let Some(env) = project("echo looking; grep -q done out/1", "") else { return };
    let before = env.read("PLAN.md");
    let red = env.provost(&["try", "1"]).exits(1).out;
    assert!(red.contains("it fails on both"), "{red}");
    std::fs::create_dir(env.work().join("out")).unwrap();
    env.write("out/1", "done\n");
    let green = env.provost(&["try", "1"]).exits(0).out;
    assert!(green.contains("it fails on the base and holds on the workspace"), "{green}");
    assert!(green.contains("fails (exit 2)") && green.contains("1 changed file"), "{green}");
    assert_eq!(green.matches("looking").count(), 3, "the command and both outputs: {green}");
    let json = env.provost(&["try", "PLAN.md", "1", "--json"]).exits(0).json();
    assert_eq!(json["base"]["outcome"]["kind"], "broke", "{json}");
    assert_eq!(json["workspace"]["outcome"]["kind"], "held", "{json}");
    assert_eq!(env.read("PLAN.md"), before);
    assert!(env.provost(&["log", "--json"]).out.is_empty(), "nothing is recorded");
}

#[test]
fn a_command_is_tried_without_a_plan_with_the_tools_of_the_project() {
    let Some(env) = project("true", "") else { return };
    std::fs::remove_file(env.work().join("PLAN.md")).unwrap();
    env.write(".gitignore", ".venv/\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "no plan"]);
    let missing = env.provost(&["try", "mytool"]).exits(4).out;
    assert!(missing.contains("`mytool` is not on the PATH of checks"), "{missing}");
    let negated = env.provost(&["try", "! mytool"]).exits(4).out;
    assert!(negated.contains("could not be run"), "{negated}");
    let tool = env.work().join(".venv/bin/mytool");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::fs::write(&tool, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    let held = env.provost(&["try", "mytool"]).exits(0).out;
    assert!(held.contains("holds before the work already"), "{held}");
    assert!(!env.work().join("PLAN-try.md").exists() && !env.work().join(".harness").exists());
}

#[test]
fn what_only_an_approval_allows_is_not_tried_before_it() {
    let Some(env) = project("true", "**network:** on\n") else { return };
    let said = env.provost(&["try", "1"]).exits(4).out;
    assert!(said.contains("no person has approved the plan yet"), "{said}");
    env.approve();
    env.provost(&["try", "1"]).exits(0);
    assert_eq!(env.provost(&["try", "9"]).code, 5);
    assert_eq!(env.provost(&["try", "a", "b"]).code, 2);
}

#[test]
fn a_check_that_gives_two_results_on_the_same_files_is_flaky() {
    let Some(env) = project("grep -q done out/1", "") else { return };
    std::fs::create_dir(env.work().join("out")).unwrap();
    env.write("out/1", "done\n");
    let steady = env.provost(&["try", "1", "--runs", "3"]).exits(0).out;
    assert!(steady.contains("it fails on the base and holds on the workspace"), "{steady}");
    let json = env.provost(&["try", "1", "--runs", "3", "--json"]).exits(0).json();
    assert_eq!(json["again"].as_array().map(Vec::len), Some(2), "{json}");
    // A counter outside of the tree decides: every second run holds.
    let env = env.isolation("guard+clean");
    let counter = env.work().parent().expect("a folder").join("counter");
    let counter = counter.display();
    let flaky = format!(
        "[ -f {counter} ] || echo 0 > {counter}\nn=$(cat {counter})\necho $((n + 1)) > {counter}\ntest $((n % 2)) = 0"
    );
    let told = env.provost(&["try", &flaky, "--runs", "4"]).exits(1).out;
    assert!(told.contains("it is flaky: it held in 2 of 4 runs on the same files"), "{told}");
    env.provost(&["try", "1", "--runs", "0"]).exits(2);
}
