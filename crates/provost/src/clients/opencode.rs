//! opencode: `opencode.json` and a plugin, because it has no stop hook.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Edit, Finding, Ground, Wanted, finding};

const PLUGIN: &str = include_str!("opencode.js");
const TIMEOUT_MS: u32 = 600_000;

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let [config, plugin, name] = files(ground);
    let server = json!({
        "type": "local", "command": [ground.program, "mcp"], "enabled": true, "timeout": TIMEOUT_MS,
    });
    let program = Value::String(ground.program.clone()).to_string();
    let edits = vec![
        Edit::member(&["mcp", "provost"], server),
        Edit::element(&["plugin"], json!(name.to_string_lossy()), "provost-opencode.js"),
    ];
    vec![
        Wanted::new(config, edits),
        Wanted::new(plugin, vec![Edit::Generated(PLUGIN.replace("{program}", &program))]),
    ]
}

/// Returns the configuration, the plugin, and the plugin's name in the configuration.
fn files(ground: &Ground) -> [PathBuf; 3] {
    if !ground.user {
        // Not below `.opencode`: a plugin there makes opencode download packages.
        let name = "./.harness/provost-opencode.js";
        let plain = ground.workspace.join("opencode.json");
        let commented = ground.workspace.join("opencode.jsonc");
        let config = if commented.is_file() && !plain.is_file() { commented } else { plain };
        return [config, ground.workspace.join(".harness/provost-opencode.js"), Path::new(name).to_owned()];
    }
    let folder = ground.folder("XDG_CONFIG_HOME", ".config").join("opencode");
    let plugin = folder.join("provost/provost-opencode.js");
    [folder.join("opencode.json"), plugin.clone(), plugin]
}

pub(super) fn findings(ground: &Ground) -> Vec<Finding> {
    let folder = ground.folder("XDG_CONFIG_HOME", ".config").join("opencode");
    if folder.join("node_modules/@opencode-ai/plugin").is_dir() {
        return Vec::new();
    }
    vec![finding(
        "opencode fetches @opencode-ai/plugin when it starts with a plugin, and waits where it cannot",
        format!(
            "Start `opencode` once with a network, or `npm install @opencode-ai/plugin` in {}.",
            folder.display()
        ),
    )]
}
