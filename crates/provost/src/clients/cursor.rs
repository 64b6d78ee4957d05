//! Cursor: `.cursor/mcp.json` and `.cursor/hooks.json`, of the project or of the user.

use provost_core::text::hook_protocol::HookClient;
use serde_json::json;

use super::{Edit, Ground, Wanted};

/// Cursor releases a session after this many refusals; provost counts itself.
const LOOPS: u32 = 20;
/// Seconds that Cursor waits for the hook.
const TIMEOUT: u32 = 600;

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let folder = if ground.user { &ground.home } else { &ground.workspace }.join(".cursor");
    let server = json!({ "command": ground.program, "args": ["mcp"] });
    let hook = json!({ "command": ground.hook(HookClient::Cursor), "loop_limit": LOOPS, "timeout": TIMEOUT });
    vec![
        Wanted::new(folder.join("mcp.json"), vec![Edit::member(&["mcpServers", "provost"], server)]),
        Wanted::new(
            folder.join("hooks.json"),
            vec![
                Edit::element(&["hooks", "stop"], hook, " hook cursor"),
                Edit::Header { key: "version".to_owned(), value: json!(1) },
            ],
        ),
    ]
}
