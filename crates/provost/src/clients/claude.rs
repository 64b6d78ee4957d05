//! Claude Code: `.mcp.json` and `.claude/settings.json`, or `.claude.json` and the settings in the home
//! folder.

use provost_core::text::hook_protocol::HookClient;
use serde_json::{Value, json};

use super::{Edit, Finding, Ground, Wanted, finding, jsonc, read};

/// Claude Code releases a session after eight refusals in a row; provost counts itself, so the limit is
/// raised.
const CAP: &str = "50";

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let server = json!({
        "type": "stdio", "command": ground.program, "args": ["mcp"], "env": {}, "alwaysLoad": true,
    });
    let hook = |timeout: u32| json!({ "hooks": [{ "type": "command", "command": ground.hook(HookClient::Claude), "timeout": timeout }] });
    let on = |event: &str, timeout| Edit::element(&["hooks", event], hook(timeout), " hook claude");
    let mut edits = vec![
        on("Stop", 600),
        on("SessionStart", 30),
        Edit::element(&["permissions", "allow"], json!("mcp__provost"), "mcp__provost"),
        Edit::member(&["env", "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"], json!(CAP)),
    ];
    if !ground.user {
        edits.push(Edit::element(&["enabledMcpjsonServers"], json!("provost"), "provost"));
    }
    let servers = Edit::member(&["mcpServers", "provost"], server);
    let [mcp, settings] = match ground.user {
        true => [ground.home.join(".claude.json"), folder(ground).join("settings.json")],
        false => [ground.workspace.join(".mcp.json"), ground.workspace.join(".claude/settings.json")],
    };
    vec![Wanted::new(mcp, vec![servers]), Wanted::new(settings, edits)]
}

fn folder(ground: &Ground) -> std::path::PathBuf {
    ground.folder("CLAUDE_CONFIG_DIR", ".claude")
}

pub(super) fn findings(ground: &Ground) -> Vec<Finding> {
    let files = [
        ground.workspace.join(".claude/settings.json"),
        ground.workspace.join(".claude/settings.local.json"),
        folder(ground).join("settings.json"),
    ];
    let off = |path: &std::path::PathBuf| {
        let value: Value = jsonc::value(&read(path).ok()??).ok()?;
        (value["disableAllHooks"] == json!(true)).then(|| {
            let words = format!("{} has disableAllHooks: no hook runs", path.display());
            finding(words, "Take it out; an agent may have put it there.")
        })
    };
    files.iter().filter_map(off).collect()
}
