//! Chooses the agent for the first step: a role of the configuration, or an installed agent.

use provost_engine::plan::harness::Harness;

use super::StartOptions;
use crate::clients::Ground;
use crate::clients::installed::InstalledAgent;
use crate::failure::Failure;
use crate::terminal;

pub(super) struct Roles {
    /// The role of the first step.
    pub worker: String,
    /// The agent to write into the configuration; `None` if it has roles already.
    pub chosen: Option<InstalledAgent>,
    /// All installed agents.
    pub installed: Vec<InstalledAgent>,
}

pub(super) fn choose(
    harness: &Harness,
    ground: &Ground,
    options: &StartOptions,
    may_ask: bool,
) -> Result<Roles, Failure> {
    let installed = ground.installed_agents();
    let config = harness.config();
    let is_for_work =
        |role: &&String| **role != config.plan.role && Some(*role) != config.judge.role.as_ref();
    let mut known = config.agents.keys().filter(is_for_work);
    let known = config.agents.get_key_value("coder").map(|(role, _)| role).or_else(|| known.next());
    if let (Some(role), None) = (known, &options.agent) {
        return Ok(Roles { worker: role.clone(), chosen: None, installed });
    }
    if let (Some(role), Some(_)) = (known, &options.agent) {
        return Err(Failure::usage(
            format!("provost.toml has the role `{role}` already, so --agent cannot choose another agent"),
            "Change its section in provost.toml, or leave --agent out.",
        ));
    }
    let chosen = match &options.agent {
        Some(wanted) => ground.agent_named(wanted).ok_or_else(|| not_there(wanted))?,
        None => match installed.as_slice() {
            [] => return Err(none_installed()),
            [_, _, ..] if may_ask => ask(&installed)?,
            [first, ..] => first.clone(),
        },
    };
    Ok(Roles { worker: "coder".to_owned(), chosen: Some(chosen), installed })
}

fn ask(installed: &[InstalledAgent]) -> Result<InstalledAgent, Failure> {
    let names: Vec<&str> = installed.iter().map(|agent| agent.name.as_str()).collect();
    let said = terminal::ask(&format!(
        "Which agent works on the first step? ({}) [{}] ",
        names.join(", "),
        names[0]
    ))?;
    let said = if said.is_empty() { names[0] } else { &said };
    let chosen = installed.iter().find(|agent| agent.name == said);
    chosen.cloned().ok_or_else(|| not_there(said))
}

fn not_there(wanted: &str) -> Failure {
    Failure::usage(
        format!("there is no agent `{wanted}` on PATH"),
        "Name claude, codex, gemini, opencode, or the command of an agent that speaks ACP.",
    )
}

fn none_installed() -> Failure {
    Failure::usage(
        "no agent is installed: there is no claude, codex, gemini or opencode and no ACP agent on PATH",
        "Install one and sign in, for example `npm install -g @anthropic-ai/claude-code` or \
         `npm install -g @openai/codex`, then run `provost start` again. `provost demo` needs no agent.",
    )
}
