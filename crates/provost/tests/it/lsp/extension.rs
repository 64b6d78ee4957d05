//! Tests the extension for VS Code as far as node can run it: with a stand-in for VS Code itself.

use std::path::Path;
use std::process::Command;

use provost_rehearsal::skip;
use serde_json::Value;

/// Returns the output of node for a script. `None` if node is missing; the test is then counted as skipped.
#[track_caller]
fn installed(arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new("node").args(arguments).current_dir(folder()).output() else {
        skip::tool("node", "apt-get install nodejs");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "node {arguments:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../editors/vscode")
}

#[test]
fn the_manifest_names_files_that_exist_and_this_version() {
    let text = std::fs::read_to_string(folder().join("package.json")).expect("package.json");
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    let main = manifest["main"].as_str().expect("its main file");
    assert!(folder().join(main).is_file(), "{main}");
    let source = std::fs::read_to_string(folder().join(main)).expect("a text");
    for command in manifest["contributes"]["commands"].as_array().expect("commands") {
        let name = command["command"].as_str().expect("a name");
        assert!(source.contains(&format!("registerCommand('{name}'")), "{name}");
    }
    let settings = manifest["contributes"]["configuration"]["properties"].as_object().expect("settings");
    assert!(settings.contains_key("provost.path") && source.contains("get('path'"));
}

#[test]
fn the_extension_starts_the_server_and_approves_in_a_terminal_only() {
    let Some(_) = installed(&["--check", "extension.js"]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lsp/extension.js");
    let Some(seen) = installed(&[&script.to_string_lossy()]) else { return };
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(seen["command"], "my provost");
    assert_eq!(seen["args"], serde_json::json!(["lsp"]));
    assert_eq!(seen["pattern"], "**/PLAN*.md");
    assert_eq!(seen["typed"], serde_json::json!(["'my provost' approve '/a b/PLAN-it'\\''s.md'"]));
    assert_eq!(seen["forwarded"], serde_json::json!(["provost.try"]), "the server never gets an approval");
    assert_eq!(seen["stopped"], 1);
}
