//! Installs the clients in the tested versions, and configures the address of the model for each.

use std::path::{Path, PathBuf};
use std::process::Command;

use provost_rehearsal::Rehearsal;
use serde_json::json;

use crate::env::Env;
use crate::registry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Qwen,
    Copilot,
}

/// An address without a server: only requests to the model succeed.
const NOWHERE: &str = "http://127.0.0.1:9";
pub(super) const KEY: &str = "sk-rehearsed-and-not-a-real-key";

impl Client {
    pub(super) fn word(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Opencode => "opencode",
            Client::Qwen => "qwen",
            Client::Copilot => "copilot",
        }
    }

    /// Returns the folder of its programs, or `None` if the registry is not reachable.
    pub(super) fn installed(self) -> Option<PathBuf> {
        let (name, packages): (&str, &[&str]) = match self {
            Client::Claude => ("claude-code-2.1.325", &["@anthropic-ai/claude-code@2.1.325"]),
            Client::Codex => ("codex-0.166.0", &["@openai/codex@0.166.0"]),
            Client::Gemini => ("gemini-cli-0.61.0", &["@google/gemini-cli@0.61.0"]),
            Client::Opencode => ("opencode-1.18.33", &["opencode-ai@1.18.33"]),
            Client::Qwen => ("qwen-code-0.24.4", &["@qwen-code/qwen-code@0.24.4"]),
            Client::Copilot => ("copilot-1.0.102", &["@github/copilot@1.0.102"]),
        };
        if self == Client::Opencode {
            opencodes_plugin()?;
        }
        let proof = format!("node_modules/.bin/{}", self.word());
        registry::npm(name, &proof, packages).map(|folder| folder.join("node_modules/.bin"))
    }

    /// Returns a person's environment and writes the files in their home: the model's address, and no
    /// telemetry.
    pub(super) fn prepare(self, env: &Env, model: &Rehearsal) -> Vec<(String, String)> {
        let home = env.folder().join("home");
        let mut all = vec![
            ("DO_NOT_TRACK", "1".to_owned()),
            ("HTTPS_PROXY", NOWHERE.to_owned()),
            ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
        ];
        match self {
            Client::Claude => {
                all.extend([
                    ("ANTHROPIC_BASE_URL", model.url()),
                    ("ANTHROPIC_API_KEY", KEY.to_owned()),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                    ("DISABLE_AUTOUPDATER", "1".to_owned()),
                ]);
                // The dialog at the first start in a folder writes this.
                let project = json!({ "hasTrustDialogAccepted": true });
                let work = env.work().canonicalize().expect("a folder");
                let known = json!({ "projects": { work.to_string_lossy(): project } });
                write(&home.join(".claude.json"), &known.to_string());
            }
            Client::Codex => {
                all.push(("OPENAI_API_KEY", KEY.to_owned()));
                write(&home.join(".codex/config.toml"), &codex(model));
            }
            Client::Gemini => {
                all.extend([
                    ("GOOGLE_GEMINI_BASE_URL", model.url()),
                    ("GEMINI_API_KEY", KEY.to_owned()),
                    ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
                    ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
                    ("GEMINI_TELEMETRY_ENABLED", "false".to_owned()),
                ]);
                let settings = json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" } },
                    "privacy": { "usageStatisticsEnabled": false },
                    "general": { "enableAutoUpdate": false },
                });
                write(&home.join(".gemini/settings.json"), &settings.to_string());
            }
            Client::Opencode => {
                let off = [
                    "OPENCODE_DISABLE_AUTOUPDATE",
                    "OPENCODE_DISABLE_MODELS_FETCH",
                    "OPENCODE_DISABLE_LSP_DOWNLOAD",
                    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
                ];
                all.extend(off.map(|name| (name, "1".to_owned())));
                let folder = home.join(".config/opencode");
                write(&folder.join("opencode.json"), &opencode(model).to_string());
                seed(&folder);
            }
            Client::Qwen => {
                // It would send requests to this machine to the proxy, too.
                all.retain(|(name, _)| *name != "HTTPS_PROXY");
                all.extend([
                    ("OPENAI_BASE_URL", format!("{}/v1", model.url())),
                    ("OPENAI_API_KEY", KEY.to_owned()),
                    ("OPENAI_MODEL", "scripted-1".to_owned()),
                ]);
                let settings = json!({
                    "privacy": { "usageStatisticsEnabled": false },
                    "general": { "enableAutoUpdate": false },
                    "telemetry": { "enabled": false },
                    "tools": { "toolSearch": { "enabled": false } },
                });
                write(&home.join(".qwen/settings.json"), &settings.to_string());
            }
            Client::Copilot => {
                all.extend([
                    ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", model.url())),
                    ("COPILOT_PROVIDER_API_KEY", KEY.to_owned()),
                    ("COPILOT_MODEL", "scripted-1".to_owned()),
                    ("COPILOT_OFFLINE", "true".to_owned()),
                ]);
                // The dialog at the first start in a folder writes this.
                let work = env.work().canonicalize().expect("a folder");
                write(&home.join(".copilot/config.json"), &json!({ "trustedFolders": [work] }).to_string());
            }
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns a model of the client's catalogue.
    pub(super) fn model(self) -> &'static str {
        match self {
            Client::Claude => "claude-sonnet-4-5",
            Client::Codex => "gpt-5.5",
            Client::Gemini => "gemini-2.5-pro",
            Client::Opencode => "anthropic/claude-sonnet-4-5",
            Client::Qwen | Client::Copilot => "scripted-1",
        }
    }

    /// Returns the variables with the model's address and key, for an attempt.
    pub(super) fn address(self, model: &Rehearsal) -> Vec<(String, String)> {
        let (name, key, beneath) = match self {
            Client::Claude | Client::Opencode => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ""),
            Client::Codex | Client::Qwen | Client::Copilot => ("OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
            Client::Gemini => ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", ""),
        };
        vec![(name.to_owned(), format!("{}{beneath}", model.url())), (key.to_owned(), KEY.to_owned())]
    }

    /// Returns a session without a person, with this prompt.
    pub(super) fn session(self, prompt: &str) -> Command {
        let words: &[&str] = match self {
            Client::Claude => &[
                "-p",
                "--model",
                "claude-sonnet-4-5",
                "--output-format",
                "stream-json",
                "--verbose",
                "--permission-mode",
                "acceptEdits",
            ],
            Client::Codex => &["exec", "--json", "-s", "danger-full-access"],
            Client::Gemini => &["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-o", "stream-json", "-p"],
            Client::Opencode => &["run", "--format", "json"],
            Client::Qwen => &["--auth-type", "openai", "--approval-mode", "yolo", "-o", "stream-json", "-p"],
            Client::Copilot => &["--allow-all-tools", "--no-auto-update", "-p"],
        };
        // `timeout` kills the whole process group if it does not end.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "300"]);
        command.arg(self.installed().expect("it is installed").join(self.word())).args(words).arg(prompt);
        command
    }
}

/// opencode downloads this package for any plugin, unless it is installed.
fn opencodes_plugin() -> Option<PathBuf> {
    let proof = "node_modules/@opencode-ai/plugin/package.json";
    registry::npm("opencode-plugin-1.18.33", proof, &["@opencode-ai/plugin@1.18.33"])
}

fn seed(folder: &Path) {
    let from = opencodes_plugin().expect("it is installed");
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(from.join(name), folder.join(name)).expect("a file");
    }
    std::os::unix::fs::symlink(from.join("node_modules"), folder.join("node_modules")).expect("a link");
}

fn codex(model: &Rehearsal) -> String {
    format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"rehearsed\"\napproval_policy = \"never\"\n\
         check_for_update_on_startup = false\n[model_providers.rehearsed]\nname = \"rehearsed\"\n\
         base_url = \"{}/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n\
         request_max_retries = 1\nstream_max_retries = 1\n[features]\nplugins = false\n[analytics]\n\
         enabled = false\n[feedback]\nenabled = false\n[otel]\nexporter = \"none\"\n",
        model.url()
    )
}

fn opencode(model: &Rehearsal) -> serde_json::Value {
    json!({
        "model": "rehearsed/scripted-1",
        "small_model": "rehearsed/scripted-1",
        "autoupdate": false,
        "share": "disabled",
        "snapshot": false,
        "permission": { "*": "allow" },
        "provider": { "rehearsed": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "rehearsed",
            "options": { "baseURL": format!("{}/v1", model.url()), "apiKey": KEY },
            "models": { "scripted-1": { "name": "scripted", "limit": { "context": 100_000, "output": 8000 } } },
        } },
    })
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}
