//! GitHub Copilot CLI: `.github/mcp.json` and `.github/hooks/provost.json`, or the files in `~/.copilot`.

use provost_core::text::hook_protocol::HookClient;
use serde_json::json;

use super::{Edit, Finding, Ground, Wanted, finding, jsonc, read};

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let server = json!({ "type": "stdio", "command": ground.program, "args": ["mcp"], "tools": ["*"] });
    let hook = json!({ "type": "command", "bash": ground.hook(HookClient::Copilot), "timeoutSec": 600 });
    let [servers, hooks] = match ground.user {
        true => ["mcp-config.json", "hooks/provost.json"].map(|file| folder(ground).join(file)),
        false => [".github/mcp.json", ".github/hooks/provost.json"].map(|file| ground.workspace.join(file)),
    };
    let edits = vec![
        Edit::element(&["hooks", "agentStop"], hook, " hook copilot"),
        Edit::Header { key: "version".to_owned(), value: json!(1) },
    ];
    vec![
        Wanted::new(servers, vec![Edit::member(&["mcpServers", "provost"], server)]),
        Wanted::new(hooks, edits),
    ]
}

fn folder(ground: &Ground) -> std::path::PathBuf {
    ground.folder("COPILOT_HOME", ".copilot")
}

pub(super) fn findings(ground: &Ground) -> Vec<Finding> {
    let value = |file: &str| jsonc::value(&read(&folder(ground).join(file)).ok()??).ok();
    let mut findings = Vec::new();
    if value("settings.json").is_some_and(|settings| settings["disableAllHooks"] == json!(true)) {
        findings.push(finding(
            "the settings of Copilot have disableAllHooks: no hook runs",
            "Take it out; an agent may have put it there.",
        ));
    }
    let config = value("config.json").unwrap_or_default();
    let folders = config["trustedFolders"].as_array().cloned().unwrap_or_default();
    let is_trusted = folders
        .iter()
        .filter_map(|folder| folder.as_str())
        .any(|folder| ground.workspace.starts_with(folder));
    if !ground.user && !is_trusted {
        findings.push(finding(
            "Copilot may not trust this folder, and then ignores its hooks and servers",
            "Start `copilot` here once and trust the folder, or pass --trust-folder.",
        ));
    }
    findings
}
