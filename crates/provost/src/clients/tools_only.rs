//! Clients that get the tools of `provost mcp` and have no hook that could hold a session: Amp, Goose, VS Code
//! and Zed.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::set_up_client::ToolsOnlyClient;
use super::{Edit, Ground, OWN_KEY, Wanted};

pub(super) fn wanted(ground: &Ground, client: ToolsOnlyClient) -> Vec<Wanted> {
    let server = json!({ "command": ground.program, "args": ["mcp"] });
    let config = |path: &str| ground.folder("XDG_CONFIG_HOME", ".config").join(path);
    let place = |project: &str, user: &str| match ground.user {
        true => config(user),
        false => ground.workspace.join(project),
    };
    let in_json = |path: PathBuf, key: &str, server: Value| {
        vec![Wanted::new(path, vec![Edit::member(&[key, OWN_KEY], server)])]
    };
    match client {
        ToolsOnlyClient::Amp => {
            in_json(place(".amp/settings.json", "amp/settings.json"), "amp.mcpServers", server)
        }
        ToolsOnlyClient::VsCode => {
            let server = json!({ "type": "stdio", "command": ground.program, "args": ["mcp"] });
            in_json(place(".vscode/mcp.json", "Code/User/mcp.json"), "servers", server)
        }
        ToolsOnlyClient::Zed => {
            let server = json!({ "command": ground.program, "args": ["mcp"], "env": {} });
            in_json(place(".zed/settings.json", "zed/settings.json"), "context_servers", server)
        }
        ToolsOnlyClient::Goose => vec![Wanted::new(config("goose/config.yaml"), vec![goose(ground)])],
    }
}

fn goose(ground: &Ground) -> Edit {
    if !ground.user {
        let why = "goose has no settings of a project; use `provost init --user --agent goose`";
        return Edit::Refused(why.to_owned());
    }
    let program = Value::String(ground.program.clone());
    let lines = format!(
        "enabled: true\ntype: stdio\nname: provost\ncmd: {program}\nargs: [mcp]\nenvs: {{}}\ntimeout: 600\n"
    );
    Edit::YamlEntry { parent: "extensions".to_owned(), key: OWN_KEY.to_owned(), lines }
}
