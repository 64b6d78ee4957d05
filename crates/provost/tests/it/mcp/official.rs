//! The official clients: the Python SDK and the inspector, from their registries.
//!
//! They are installed once, beside what this test binary is built into. Where a registry cannot be reached,
//! the test says so and proves nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{IN_PLACE, workspace};
use crate::env::Env;

/// Runs the installer once; `Err` says why there is nothing.
pub fn installed(name: &str, proof: &str, install: impl Fn(&Path) -> Command) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.join(proof).exists() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let output = install(&folder).output().map_err(|error| error.to_string())?;
    if output.status.success() && folder.join(proof).exists() {
        return Ok(folder);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(words.lines().last().unwrap_or("it was not installed").to_owned())
}

pub fn skipped(what: &str, why: &str) {
    eprintln!("skipped: {what} cannot be had from its registry here: {why}");
}

fn variables(env: &Env) -> Value {
    let command = env.command(&[]);
    let pairs = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), Value::from(value?.to_str()?))));
    Value::Object(pairs.collect())
}

#[test]
fn the_python_client_lists_and_calls_every_tool() {
    let folder = installed("mcp-python", "mcp", |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(folder)
            .arg("mcp");
        pip
    });
    let folder = match folder {
        Ok(folder) => folder,
        Err(why) => return skipped("the Python package `mcp`", &why),
    };
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
        tools plan_create plan_next plan_show postcondition_verify step_update topic_publish topic_read
        plan_create ok Plan write-it is made
        plan_show ok Plan write-it: Write it
        plan_next ok Next: step 1: Write out.txt
        step_update ok Step 1 is in progress.
        step_update refused Step 1 is NOT done: its check broke: exit code 1 (not met: exit_code == 0)
        postcondition_verify refused still open: step 1; the postconditions are looked at when every step has passed
        topic_publish ok published; topic notes has 6 bytes now
        topic_read ok hello
        claimed False Step 1 has passed: its check held
        resources provost://log provost://plan provost://plan.md
        prompts finish plan
    "#]]
    .assert_eq(&said.lines().map(|line| format!("{}\n", line.split(" (").next().filter(|_| line.contains(" (/") || line.starts_with("claimed")).unwrap_or(line))).collect::<String>());
}

#[test]
fn the_inspector_finds_no_fault_with_the_schemas() {
    let folder = installed("mcp-inspector", "node_modules/.bin/mcp-inspector", |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
        // By its number: npm would take an old one that asks for less of node.
        npm.arg("@modelcontextprotocol/inspector@2.12.0");
        npm
    });
    let folder = match folder {
        Ok(folder) => folder,
        Err(why) => return skipped("the npm package `@modelcontextprotocol/inspector`", &why),
    };
    let env = workspace(IN_PLACE);
    let inspect = |arguments: &[&str]| {
        let mut inspector = Command::new(folder.join("node_modules/.bin/mcp-inspector"));
        inspector.arg("--cli");
        for (name, value) in variables(&env).as_object().into_iter().flatten() {
            inspector.arg("-e").arg(format!("{name}={}", value.as_str().unwrap_or_default()));
        }
        inspector.args([env!("CARGO_BIN_EXE_provost"), "mcp"]).args(arguments).current_dir(env.work());
        let output = inspector.output().expect("the inspector");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said, err) = inspect(&["--method", "tools/list", "--strict"]);
    assert_eq!(code, Some(0), "{said}\n{err}");
    let tools: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(7));
    assert_eq!(tools["tools"][0]["_meta"], json!({ "anthropic/alwaysLoad": true }));
    let (code, said, err) = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "topic_publish",
        "--tool-arg",
        "topic=a",
        "--tool-arg",
        "text=b",
    ]);
    assert_eq!(code, Some(0), "{said}\n{err}");
    let (code, said, _) = inspect(&["--method", "tools/call", "--tool-name", "plan_next"]);
    assert_eq!(code, Some(5), "a refusal is marked as an error: {said}");
}
