//! Cursor: `.cursor/mcp.json` and `.cursor/hooks.json`, of the project or of the user.

use provost_core::text::hook_protocol::HookClient;
use serde_json::json;

use super::{Edit, Ground, Wanted};

/// Cursor releases a session after this many refusals; provost counts itself.
const LOOPS: u32 = 20;

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let folder = if ground.user { &ground.home } else { &ground.workspace }.join(".cursor");
    let server = json!({ "command": ground.program, "args": ["mcp"] });
    let hook = json!({ "command": ground.hook(HookClient::Cursor), "loop_limit": LOOPS });
    vec![
        Wanted::new(
            folder.join("mcp.json"),
            vec![Edit::Member { path: vec!["mcpServers", "provost"], value: server }],
        ),
        Wanted::new(
            folder.join("hooks.json"),
            vec![
                Edit::Element { path: vec!["hooks", "stop"], value: hook, ours: " hook cursor".to_owned() },
                Edit::Member { path: vec!["version"], value: json!(1) },
            ],
        ),
    ]
}
