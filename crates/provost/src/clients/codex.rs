//! Codex: tables at the end of `config.toml`, of the project or of the user.

use provost_core::dialect::Client;
use toml::Table;

use super::jsonc::Splice;
use super::{Edit, Finding, Ground, Trouble, Wanted, at_the_end, finding, read};

/// What stands in front of our tables.
const MARK: &str = "# provost: its tools, and the hook that holds a session until its plan is done";

pub fn wanted(ground: &Ground) -> Vec<Wanted> {
    let literal = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let text = format!(
        "{MARK}\n[mcp_servers.provost]\ncommand = {}\nargs = [\"mcp\"]\nenv_vars = [\"PROVOST_STATE\", \
         \"PROVOST_PLAN\"]\ndefault_tools_approval_mode = \"approve\"\nstartup_timeout_sec = 20\n\
         tool_timeout_sec = 600\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = {}\n\
         timeout = 600\nstatusMessage = \"provost: checking the plan\"\n",
        literal(&ground.program),
        literal(&ground.hook(Client::Codex)),
    );
    vec![Wanted::new(file(ground), vec![Edit::Tables { text, keys: vec!["mcp_servers", "provost"] }])]
}

fn file(ground: &Ground) -> std::path::PathBuf {
    match ground.user {
        true => ground.folder("CODEX_HOME", ".codex").join("config.toml"),
        false => ground.workspace.join(".codex/config.toml"),
    }
}

/// Tables may stand at the end of any TOML file that does not say the same elsewhere.
pub fn tables(text: &str, tables: &str, keys: &[&str]) -> Result<Option<Splice>, Trouble> {
    let parsed = |text: &str| {
        text.parse::<Table>().map_err(|error| Trouble::new(format!("it is not TOML: {}", error.message())))
    };
    let now = parsed(text)?;
    let wanted = parsed(tables)?;
    if holds(&now, &wanted) {
        return Ok(None);
    }
    let at = |table: &Table| {
        keys.iter().skip(1).try_fold(table.get(keys[0])?.clone(), |at, key| at.get(*key).cloned())
    };
    if at(&now).is_some() {
        return Err(Trouble::new(format!("`{}` is there already, and says something else", keys.join("."))));
    }
    let splice = at_the_end(text, tables);
    if let Some(splice) = &splice {
        parsed(&splice.apply(text)).map_err(|_| {
            let words = format!("its tables cannot be added to; add by hand:\n{tables}");
            Trouble::new(words)
        })?;
    }
    Ok(splice)
}

/// Everything of `wanted` stands in `now` too; lists may have more.
fn holds(now: &Table, wanted: &Table) -> bool {
    wanted.iter().all(|(key, wanted)| match (now.get(key), wanted) {
        (Some(toml::Value::Table(now)), toml::Value::Table(wanted)) => holds(now, wanted),
        (Some(toml::Value::Array(now)), toml::Value::Array(wanted)) => {
            wanted.iter().all(|each| now.contains(each))
        }
        (Some(now), wanted) => now == wanted,
        (None, _) => false,
    })
}

pub fn findings(ground: &Ground) -> Vec<Finding> {
    let user = ground.folder("CODEX_HOME", ".codex").join("config.toml");
    let config = read(&user).ok().flatten().and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    let mut findings = Vec::new();
    let project = ground.workspace.to_string_lossy();
    let trusted = config
        .get("projects")
        .and_then(|projects| projects.get(project.as_ref()))
        .and_then(|project| project.get("trust_level"));
    if !ground.user && trusted.and_then(toml::Value::as_str) != Some("trusted") {
        findings.push(finding(
            "Codex does not trust this project, and skips its hooks and servers without a word",
            "Start `codex` here once and trust the folder.",
        ));
    }
    let ours = format!("{}:stop:", file(ground).display());
    let states = config.get("hooks").and_then(|hooks| hooks.get("state")).and_then(toml::Value::as_table);
    if !states.is_some_and(|states| states.keys().any(|key| key.starts_with(&ours))) {
        findings.push(finding(
            "the hook is not trusted yet, and Codex skips such hooks without a word",
            "Start `codex` here, and trust the hook in /hooks.",
        ));
    }
    findings
}
