//! Writes the configuration files of a client and sets its environment.
//!
//! The client uses the user's login if there is no key. Prompts, telemetry and updates are switched off.
//!
//! **Invariant:** no key is written to a file; a login is a link to the user's own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent::{AttemptInput, served};
use crate::config::{Client, ModelAddress, ModelServer};

pub(super) const CLAUDE_SETTINGS: &str = "harness.json";
pub(super) const CLAUDE_TOOLS_FILE: &str = "harness-tools.json";

/// Lock file by which opencode sees that its plugin package is installed.
const OPENCODE_LOCK: &str = r#"{ "packages": { "": { "dependencies": { "@opencode-ai/plugin": "*" } } } }"#;

/// Variables for the tools of every client: no prompts and no telemetry.
const QUIET: [(&str, &str); 2] = [("DO_NOT_TRACK", "1"), ("DISABLE_TELEMETRY", "1")];

/// Tools that Claude Code may use without asking: all. The sandbox around it sets the limits.
const CLAUDE_TOOLS: [&str; 10] = [
    "Bash",
    "Edit",
    "Write",
    "NotebookEdit",
    "Read",
    "Glob",
    "Grep",
    "WebFetch",
    "WebSearch",
    "mcp__provost",
];

/// Returns the client's variables; they replace the user's variables of the same names.
pub fn environment(client: Client, home: &Path, model: Option<&str>) -> Vec<(OsString, OsString)> {
    let within = |name: &str| home.join(name).into_os_string();
    let mut all: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &str, value: OsString| all.push((name.into(), value));
    for (name, value) in QUIET {
        set(name, value.into());
    }
    match client {
        Client::Claude => {
            set("CLAUDE_CONFIG_DIR", home.into());
            for name in
                ["DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]
            {
                set(name, "1".into());
            }
            // Its default is to retry hopeless requests for minutes; provost has its own retry rules.
            set("CLAUDE_CODE_MAX_RETRIES", "3".into());
            if let Some(model) = model {
                set("ANTHROPIC_MODEL", model.into());
            }
            // Claude Code refuses to run as root outside a sandbox, and this variable is the only way to
            // declare one.
            if rustix::process::geteuid().is_root() {
                set("IS_SANDBOX", "1".into());
            }
        }
        Client::Codex => set("CODEX_HOME", home.into()),
        Client::Gemini => {
            set("GEMINI_CLI_HOME", home.into());
            set("GEMINI_CLI_TRUST_WORKSPACE", "true".into());
            set("GEMINI_CLI_NO_RELAUNCH", "true".into());
            set("GEMINI_TELEMETRY_ENABLED", "false".into());
        }
        Client::Opencode => {
            for (name, folder) in XDG {
                set(name, within(folder));
            }
            for name in [
                "OPENCODE_DISABLE_AUTOUPDATE",
                "OPENCODE_DISABLE_MODELS_FETCH",
                "OPENCODE_DISABLE_LSP_DOWNLOAD",
            ] {
                set(name, "1".into());
            }
        }
    }
    all
}

const XDG: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", "config"),
    ("XDG_DATA_HOME", "data"),
    ("XDG_STATE_HOME", "state"),
    ("XDG_CACHE_HOME", "cache"),
];

/// Writes the client's configuration, again for each attempt, because the agent may have changed it in the
/// last one.
pub(super) fn furnish(
    client: Client,
    home: &Path,
    (model, server): (Option<&str>, Option<&ModelServer>),
    work: &AttemptInput<'_>,
) -> io::Result<()> {
    match client {
        Client::Claude => {
            let settings = json!({ "permissions": { "allow": CLAUDE_TOOLS } });
            write(&home.join(CLAUDE_SETTINGS), &settings.to_string())?;
            let servers = servers(work, |command, args| json!({ "command": command, "args": args }));
            write(&home.join(CLAUDE_TOOLS_FILE), &json!({ "mcpServers": servers }).to_string())?;
            login(
                work,
                &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
                "CLAUDE_CONFIG_DIR",
                ".claude",
                home,
                ".credentials.json",
            )
        }
        Client::Codex => {
            write(&home.join("config.toml"), &codex(model, work))?;
            login(work, &["OPENAI_API_KEY", "CODEX_API_KEY"], "CODEX_HOME", ".codex", home, "auth.json")
        }
        Client::Gemini => {
            let folder = inside(home, ".gemini")?;
            let has_key = variable(work, "GEMINI_API_KEY").is_some();
            let auth = if has_key { "gemini-api-key" } else { "oauth-personal" };
            let servers =
                servers(work, |command, args| json!({ "command": command, "args": args, "trust": true }));
            let settings = json!({
                "mcpServers": servers,
                "security": { "auth": { "selectedType": auth } },
                "privacy": { "usageStatisticsEnabled": false },
                "general": { "enableAutoUpdate": false },
            });
            write(&folder.join("settings.json"), &settings.to_string())?;
            login(work, &["GEMINI_API_KEY"], "", ".gemini", &folder, "oauth_creds.json")
        }
        Client::Opencode => {
            let config = inside(home, "config/opencode")?;
            write(&config.join("opencode.json"), &opencode(server, work).to_string())?;
            // opencode would fetch a package for plugins at every start, and block without network.
            inside(home, "config/opencode/node_modules")?;
            write(&config.join("package-lock.json"), OPENCODE_LOCK)?;
            let data = inside(home, "data/opencode")?;
            let keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];
            login(work, &keys, "", ".local/share/opencode", &data, "auth.json")
        }
    }
}

/// Returns provost's MCP server in the client's format; empty if the agent has none.
fn servers(work: &AttemptInput<'_>, told: impl Fn(&str, &[String]) -> Value) -> Value {
    match served(work) {
        Some((command, args)) => json!({ "provost": told(&command, &args) }),
        None => json!({}),
    }
}

fn codex(model: Option<&str>, work: &AttemptInput<'_>) -> String {
    let text = |text: &str| toml::Value::from(text).to_string();
    // Codex's own sandbox does not work inside provost's and is not needed there.
    let sandbox = if work.fence.is_some() { "danger-full-access" } else { "workspace-write" };
    let mut lines = vec![
        "approval_policy = \"never\"".to_owned(),
        format!("sandbox_mode = {}", text(sandbox)),
        "check_for_update_on_startup = false".to_owned(),
    ];
    lines.extend(model.map(|model| format!("model = {}", text(model))));
    let base = variable(work, "OPENAI_BASE_URL").map(|base| base.to_string_lossy().into_owned());
    let has_key = variable(work, "OPENAI_API_KEY").is_some();
    if has_key {
        // Codex takes neither address nor key from the environment without this entry.
        lines.push("model_provider = \"harness\"".to_owned());
    }
    lines.push(
        "[features]\nplugins = false\n[analytics]\nenabled = false\n[feedback]\nenabled = false".to_owned(),
    );
    lines.push("[otel]\nexporter = \"none\"".to_owned());
    if has_key {
        let base = base.unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
        lines.push("[model_providers.harness]\nname = \"OpenAI\"".to_owned());
        lines.push(format!("base_url = {}", text(&base)));
        lines.push("env_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"".to_owned());
    }
    if let Some((command, args)) = served(work) {
        let args = toml::Value::from(args);
        lines.push(format!("[mcp_servers.provost]\ncommand = {}\nargs = {args}", text(&command)));
    }
    lines.join("\n") + "\n"
}

/// Returns the entry of a provider that opencode does not know, or knows at another address.
fn provider(server: &ModelServer, work: &AttemptInput<'_>) -> Value {
    let metered = variable(work, "MODEL_BASE_URL").map(|base| base.to_string_lossy().into_owned());
    let (base, key) = match &server.at {
        ModelAddress::Usual => (None, server.key_env.as_deref()),
        ModelAddress::Url(url) => (Some(url.clone()), server.key_env.as_deref()),
        ModelAddress::Meter => (metered, Some("MODEL_API_KEY")),
    };
    let mut options = json!({});
    if let Some(key) = key {
        options["apiKey"] = json!(format!("{{env:{key}}}"));
    }
    let is_known =
        matches!(server.provider.as_str(), "anthropic" | "openai") && server.at != ModelAddress::Meter;
    let mut entry = json!({ "models": { &server.model: { "name": server.model } } });
    if let Some(base) = base {
        options["baseURL"] = json!(base);
        if !is_known {
            entry["npm"] = json!("@ai-sdk/openai-compatible");
            entry["name"] = json!(server.provider);
        }
    }
    entry["options"] = options;
    entry
}

fn opencode(server: Option<&ModelServer>, work: &AttemptInput<'_>) -> Value {
    let known = [
        ("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "/v1"),
        ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY", ""),
    ];
    let reached = known.into_iter().filter_map(|(provider, base, key, beneath)| {
        let base = variable(work, base)?.to_string_lossy().into_owned();
        let options = json!({ "baseURL": format!("{base}{beneath}"), "apiKey": format!("{{env:{key}}}") });
        Some((provider.to_owned(), json!({ "options": options })))
    });
    let own = server.map(|server| (server.provider.clone(), provider(server, work)));
    let servers = servers(work, |command, args| {
        let command: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
        json!({ "type": "local", "command": command, "enabled": true })
    });
    json!({
        "mcp": servers,
        "share": "disabled",
        "autoupdate": false,
        "snapshot": false,
        "permission": { "*": "allow" },
        "provider": Value::Object(reached.chain(own).collect()),
    })
}

/// Links the user's login file into the client's folder if none of the keys is set.
fn login(
    work: &AttemptInput<'_>,
    keys: &[&str],
    moved: &str,
    usual: &str,
    folder: &Path,
    file: &str,
) -> io::Result<()> {
    let link = folder.join(file);
    if keys.iter().any(|key| variable(work, key).is_some()) || link.symlink_metadata().is_ok() {
        return Ok(());
    }
    let users = variable(work, moved).map(PathBuf::from);
    let users = users.or_else(|| Some(Path::new(variable(work, "HOME")?).join(usual)));
    match users.map(|users| users.join(file)).filter(|file| file.is_file()) {
        Some(file) => std::os::unix::fs::symlink(file, link),
        None => Ok(()),
    }
}

fn variable<'a>(work: &AttemptInput<'a>, name: &str) -> Option<&'a OsStr> {
    let found = work.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str());
    found.filter(|value| !value.is_empty())
}

/// Creates a folder below the client's folder. A link that the client left in the path is removed.
fn inside(home: &Path, path: &str) -> io::Result<PathBuf> {
    let mut at = home.to_path_buf();
    for name in Path::new(path) {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => fs::remove_file(&at)?,
            Err(_) => {}
        }
        fs::create_dir(&at)?;
    }
    Ok(at)
}

/// Replaces the file, whatever is there: the client writes into this folder too.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(path))?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
