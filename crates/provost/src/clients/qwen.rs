//! Qwen Code: `.qwen/settings.json`, of the project or of the user. Its timeouts are in milliseconds.

use std::path::Path;

use provost_core::text::hook_protocol::HookClient;
use serde_json::{Value, json};

use super::{Edit, Finding, Ground, Wanted, finding, jsonc, read};

const TIMEOUT_MS: u32 = 600_000;
/// Qwen Code releases a session after eight refusals in a row; provost counts itself.
const CAP: u32 = 50;

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let server = json!({ "command": ground.program, "args": ["mcp"], "timeout": TIMEOUT_MS, "trust": true });
    let hook = json!({ "hooks": [{
        "type": "command", "name": "provost", "command": ground.hook(HookClient::Qwen), "timeout": TIMEOUT_MS,
    }] });
    let edits = vec![
        Edit::member(&["mcpServers", "provost"], server),
        Edit::element(&["hooks", "Stop"], hook, " hook qwen"),
        Edit::member(&["stopHookBlockingCap"], json!(CAP)),
    ];
    let place = if ground.user { &ground.home } else { &ground.workspace };
    vec![Wanted::new(place.join(".qwen/settings.json"), edits)]
}

pub(super) fn findings(ground: &Ground) -> Vec<Finding> {
    let value = |path: &Path| jsonc::value(&read(path).ok()??).ok();
    let [users, projects] = [&ground.home, &ground.workspace].map(|place| place.join(".qwen/settings.json"));
    let mut findings = Vec::new();
    for path in [&projects, &users] {
        if value(path).is_some_and(|settings: Value| settings["disableAllHooks"] == json!(true)) {
            let words = format!("{} has disableAllHooks: no hook runs", path.display());
            findings.push(finding(words, "Take it out; an agent may have put it there."));
        }
    }
    let asks =
        value(&users).is_some_and(|settings| settings["security"]["folderTrust"]["enabled"] == json!(true));
    let folders = value(&ground.home.join(".qwen/trustedFolders.json")).unwrap_or_default();
    let is_trusted = |(folder, word): (&String, &Value)| {
        ground.workspace.starts_with(folder) && word.as_str().is_some_and(|word| word.starts_with("TRUST"))
    };
    if asks && !ground.user && !folders.as_object().is_some_and(|folders| folders.iter().any(is_trusted)) {
        findings.push(finding(
            "Qwen Code may not trust this folder, and then ignores its settings",
            "Trust it in `qwen` (/permissions).",
        ));
    }
    findings
}
