//! Gemini CLI: `.gemini/settings.json`, of the project or of the user. Its timeouts are in milliseconds.

use provost_core::text::hook_protocol::HookClient;
use serde_json::{Value, json};

use super::{Edit, Finding, Ground, Wanted, finding, jsonc, quoted, read};

const TIMEOUT_MS: u32 = 600_000;

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let server = json!({ "command": ground.program, "args": ["mcp"], "timeout": TIMEOUT_MS, "trust": true });
    // If its program is missing, the hook would block every session forever.
    let there = match ground.program.contains('/') {
        true => format!("test -x {} || exit 0; ", quoted(&ground.program)),
        false => format!("command -v {} >/dev/null || exit 0; ", quoted(&ground.program)),
    };
    let hook = json!({
        "matcher": "*",
        "hooks": [{
            "name": "provost",
            "type": "command",
            "command": format!("{there}{}", ground.hook(HookClient::Gemini)),
            "timeout": TIMEOUT_MS,
        }],
    });
    let edits = vec![
        Edit::member(&["mcpServers", "provost"], server),
        Edit::element(&["hooks", "AfterAgent"], hook, " hook gemini"),
    ];
    let place = if ground.user { &ground.home } else { &ground.workspace };
    vec![Wanted::new(place.join(".gemini/settings.json"), edits)]
}

pub(super) fn findings(ground: &Ground) -> Vec<Finding> {
    let value = |path| jsonc::value(&read(&ground.home.join(path)).ok()??).ok();
    let folders: Value = value(".gemini/trustedFolders.json").unwrap_or_default();
    let trusted = |(folder, word): (&String, &Value)| {
        let covers = ground.workspace.starts_with(folder);
        covers && word.as_str().is_some_and(|word| word.starts_with("TRUST"))
    };
    let is_trusted = folders.as_object().is_some_and(|folders| folders.iter().any(trusted));
    let always = ground.variable("GEMINI_CLI_TRUST_WORKSPACE").is_some_and(|word| word == "true");
    if ground.user || is_trusted || always {
        return Vec::new();
    }
    vec![finding(
        "Gemini CLI may not trust this folder, and then ignores its settings",
        "Trust it in `gemini` (/permissions), or set GEMINI_CLI_TRUST_WORKSPACE=true.",
    )]
}
