//! Tests with the official clients: the Python and TypeScript SDKs and the inspector, from their registries.
//!
//! If a registry is not reachable, the test is reported as skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{IN_PLACE, workspace};
use crate::env::Env;
use crate::registry;
use crate::registry::{installed, python_package};

pub(super) fn variables(env: &Env) -> Value {
    let command = env.command(&[]);
    let pairs = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), Value::from(value?.to_str()?))));
    Value::Object(pairs.collect())
}

/// Installs the Python SDK; `None` if its registry is not reachable.
pub(crate) fn python_client() -> Option<PathBuf> {
    let folder = installed("mcp-python", "mcp", |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(folder)
            .arg("mcp");
        pip
    });
    folder.inspect_err(|why| python_package("mcp", why)).ok()
}

#[test]
fn the_python_client_lists_and_calls_every_tool() {
    let Some(folder) = python_client() else { return };
    let env = workspace(IN_PLACE);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp/official.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_provost"))
        .arg(variables(&env).to_string())
        .current_dir(env.work())
        .env("PYTHONPATH", folder)
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    expect_test::expect![[r#"
        tools plan_create plan_list plan_next plan_show plan_take postcondition_verify step_update topic_publish topic_read
        plan_create ok Plan write-it is made
        plan_show ok Plan write-it: Write it
        plan_next ok Next: step 1: Write out.txt
        step_update ok Step 1 is in progress.
        step_update refused Step 1 is NOT done: its check broke: exit code 1 (not met: exit_code == 0)
        postcondition_verify refused still open: step 1; provost checks the postconditions when every step has passed
        topic_publish ok published to notes, 6 bytes; others read it after the step has passed
        topic_read refused there is no topic `notes`; none was published yet
        claimed False Step 1 has passed: its check held
        resources provost://inbox provost://log provost://plan provost://plan.md provost://plans/write-it
        prompts finish make_plan what_is_open
    "#]]
    .assert_eq(&said.lines().map(|line| format!("{}\n", line.split(" (").next().filter(|_| line.contains(" (/") || line.starts_with("claimed")).unwrap_or(line))).collect::<String>());
}

#[test]
fn the_inspector_finds_no_fault_with_the_schemas_and_calls_every_tool() {
    // A fixed version, because npm would choose an old one that accepts an older node.
    let inspector = ["@modelcontextprotocol/inspector@2.12.0"];
    let Some(folder) = registry::npm("mcp-inspector", "node_modules/.bin/mcp-inspector", &inspector) else {
        return;
    };
    let env = workspace(IN_PLACE);
    let inspect = |arguments: &[&str]| {
        let mut inspector = Command::new(folder.join("node_modules/.bin/mcp-inspector"));
        inspector.arg("--cli");
        for (name, value) in variables(&env).as_object().into_iter().flatten() {
            inspector.arg("-e").arg(format!("{name}={}", value.as_str().unwrap_or_default()));
        }
        inspector.args(["-e", "PROVOST_SESSION=inspected"]);
        inspector.args([env!("CARGO_BIN_EXE_provost"), "mcp"]).args(arguments).current_dir(env.work());
        let output = inspector.output().expect("the inspector");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said, err) = inspect(&["--method", "tools/list", "--strict"]);
    assert_eq!(code, Some(0), "{said}\n{err}");
    let tools: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(9));
    assert_eq!(tools["tools"][0]["_meta"], json!({ "anthropic/alwaysLoad": true }));
    // Every call starts a new server; the servers know the session by its name.
    let steps =
        r#"steps=[{"title":"Write a","task":"Write out/a.","check":"test -f out/a","publishes":["a"]}]"#;
    let calls: [(&str, &[&str], i32, &str); 8] = [
        ("plan_next", &[], 5, "call plan_create first"),
        ("plan_create", &["objective=Write it", steps], 0, "is made"),
        ("topic_publish", &["topic=a", "text=b"], 0, "published"),
        ("topic_read", &["topic=a"], 5, "there is no topic"),
        ("plan_show", &[], 0, "Plan write-it"),
        ("plan_next", &[], 0, "Next: step 1"),
        ("step_update", &["step=1", "status=done", "evidence=I say so"], 5, "Step 1 is NOT done"),
        ("postcondition_verify", &[], 5, "still open: step 1"),
    ];
    for (tool, arguments, wanted, words) in calls {
        let given = arguments.iter().flat_map(|argument| ["--tool-arg", argument]);
        let all: Vec<&str> =
            ["--method", "tools/call", "--tool-name", tool].into_iter().chain(given).collect();
        let (code, said, err) = inspect(&all);
        assert_eq!(code, Some(wanted), "{tool} {arguments:?}: {said}\n{err}");
        assert!(said.contains(words), "{tool} {arguments:?}: {said}");
    }
    for (method, words) in [("resources/list", "provost://plan.md"), ("prompts/list", "finish")] {
        let (code, said, err) = inspect(&["--method", method]);
        assert_eq!(code, Some(0), "{said}\n{err}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn the_typescript_client_calls_subscribes_and_cancels() {
    let package = ["@modelcontextprotocol/sdk@1.32.2"];
    let proof = "node_modules/@modelcontextprotocol/sdk/package.json";
    let Some(folder) = registry::npm("mcp-typescript", proof, &package) else { return };
    let env = workspace(IN_PLACE);
    let output = Command::new("node")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp/official.mjs"))
        .arg(folder)
        .arg(env!("CARGO_BIN_EXE_provost"))
        .arg(variables(&env).to_string())
        .current_dir(env.work())
        .output()
        .expect("node");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    expect_test::expect![[r#"
        tools 9 true
        plan_create ok write-it approved 
        updated provost://plans/write-it
        step_update refused write-it in-progress pending
        step_update ok write-it in-progress passed
        cancelled cancelled
        plan_next ok write-it done 
        next true true
        resource text/plain Plan write-it: Write it
        prompt true
    "#]]
    .assert_eq(&said);
}
