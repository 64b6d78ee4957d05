//! Codex: tables at the end of `config.toml`, of the project or of the user. Its trust settings are in the
//! user's.

mod trust;

use std::path::{Path, PathBuf};

use provost_core::text::hook_protocol::HookClient;
use toml::Table;

use super::{Edit, Finding, Ground, Wanted, finding, read};
use trust::Hook;

/// Comment before provost's tables.
const MARK: &str = "# provost: its tools, and the hook that holds a session until its plan is done";

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    vec![Wanted::new(file(ground), vec![tools_and_hook(ground)])]
}

fn literal(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn tools_and_hook(ground: &Ground) -> Edit {
    let text = format!(
        "{MARK}\n[mcp_servers.provost]\ncommand = {}\nargs = [\"mcp\"]\nenv_vars = [\"PROVOST_STATE\", \
         \"PROVOST_PLAN\"]\ndefault_tools_approval_mode = \"approve\"\nstartup_timeout_sec = 20\n\
         tool_timeout_sec = 600\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = {}\n\
         timeout = 600\nstatusMessage = \"provost: checking the plan\"\n",
        literal(&ground.program),
        literal(&ground.hook(HookClient::Codex)),
    );
    let keys = vec!["mcp_servers".to_owned(), "provost".to_owned()];
    Edit::Tables { text, keys, ours: " hook codex".to_owned() }
}

fn file(ground: &Ground) -> PathBuf {
    match ground.user {
        true => users(ground),
        false => ground.workspace.join(".codex/config.toml"),
    }
}

pub(super) fn users(ground: &Ground) -> PathBuf {
    ground.folder("CODEX_HOME", ".codex").join("config.toml")
}

/// Returns the hook that this `init` wrote, as Codex finds it.
fn own(ground: &Ground) -> Option<Option<Hook>> {
    let file = file(ground);
    let is_same = |other: &Path| other == file || other.canonicalize().ok() == file.canonicalize().ok();
    Some(trust::hooks(ground)?.into_iter().find(|hook| is_same(&hook.file)))
}

/// Returns the settings that make Codex run the hook: trust in the hook and in the project. `None` if there
/// is no Codex to ask.
pub(super) fn trusted(ground: &Ground) -> Option<Wanted> {
    let hook = own(ground)??;
    let first = match ground.user {
        // In the same file as the hook itself.
        true => tools_and_hook(ground),
        false => table(&["projects", ground.workspace.to_str()?], "trust_level", "trusted"),
    };
    let second = table(&["hooks", "state", &hook.key], "trusted_hash", &hook.digest);
    Some(Wanted::new(users(ground), vec![first, second]))
}

fn table(keys: &[&str], name: &str, value: &str) -> Edit {
    let is_bare = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let header: Vec<String> =
        keys.iter().map(|key| if is_bare(key) { (*key).to_owned() } else { literal(key) }).collect();
    Edit::Tables {
        text: format!("[{}]\n{name} = {}\n", header.join("."), literal(value)),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ours: String::new(),
    }
}

fn config(ground: &Ground) -> Table {
    read(&users(ground)).ok().flatten().and_then(|text| text.parse::<Table>().ok()).unwrap_or_default()
}

fn is_trusted(ground: &Ground, config: &Table) -> bool {
    let project = ground.workspace.to_string_lossy();
    let trusted = config
        .get("projects")
        .and_then(|projects| projects.get(project.as_ref()))
        .and_then(|project| project.get("trust_level"));
    trusted.and_then(toml::Value::as_str) == Some("trusted")
}

pub(super) fn findings(ground: &Ground) -> Vec<Finding> {
    let config = config(ground);
    let again = match ground.user {
        true => "`provost init --user --agent codex --trust`",
        false => "`provost init --agent codex --trust`",
    };
    let mut findings = Vec::new();
    let own = own(ground);
    if !ground.user && own != Some(None) && !is_trusted(ground, &config) {
        findings.push(finding(
            "Codex does not trust this project, and skips its hooks and servers without a word",
            format!("{again}, or start `codex` here once and trust the folder."),
        ));
    }
    findings.extend(match own {
        Some(Some(hook)) if !hook.is_enabled => {
            Some(finding("the hook is turned off in Codex", "Turn it on again: `codex`, then /hooks."))
        }
        Some(Some(hook)) if !hook.is_trusted => Some(finding(
            "the hook is not trusted as it stands, and Codex skips such hooks without a word",
            format!("{again}, or start `codex` here and trust it in /hooks."),
        )),
        Some(Some(_)) => None,
        Some(None) => Some(finding(
            format!("Codex does not read {}", file(ground).display()),
            "In a linked worktree it reads the main checkout's: init there, or `provost init --user`.",
        )),
        // There is no Codex to ask.
        None => (!has_state(ground, &config)).then(|| {
            finding(
                "the hook is not trusted yet, and Codex skips such hooks without a word",
                "Start `codex` here, and trust the hook in /hooks.",
            )
        }),
    });
    findings
}

/// Returns whether Codex trusts any stop hook of this file.
fn has_state(ground: &Ground, config: &Table) -> bool {
    let ours = format!("{}:stop:", file(ground).display());
    let states = config.get("hooks").and_then(|hooks| hooks.get("state")).and_then(toml::Value::as_table);
    states.is_some_and(|states| states.keys().any(|key| key.starts_with(&ours)))
}
