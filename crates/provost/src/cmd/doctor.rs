use provost_core::text::hook_protocol::HookClient;
use provost_engine::manage::doctor;
use provost_engine::manage::plan_doctor::{self, Finding as Off, Level};
use provost_engine::plan::plan_registry::Here;
use provost_engine::session::stop_hook;
use provost_engine::settings::EngineSettings;
use serde_json::json;

use crate::clients::install_manifest::{Entry, Ledger};
use crate::clients::set_up_client::SetUpClient;
use crate::clients::{Finding, Ground};
use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Check this machine: isolation, agent clients and plans
///
/// Runs the self-test that every run starts with: a real sandbox, attacked from inside. Checks the files
/// that `provost init` wrote, and the settings that keep a client from using them. Checks the plans of this
/// repository: conflict copies, markers that cannot be resolved, missing worktrees, logs that do not verify,
/// expired locks. With --fix, repairs what can be repaired without losing anything.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost doctor                      for people
  provost doctor --fix                repair what can be repaired, asking for each
  provost doctor --json               for programs")]
pub(super) struct Args {
    /// Repair what can be repaired without losing anything
    #[arg(long)]
    fix: bool,
    /// Repair without asking
    #[arg(long, short, requires = "fix")]
    yes: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    if args.fix {
        mend(&settings, args.yes)?;
    }
    let (plans, off) = plan_doctor::findings(&settings);
    let outcome = match off.iter().any(|finding| finding.level == Level::Fail) {
        true => Outcome::Diagnosed,
        false => Outcome::Done,
    };
    let found = doctor::examine(&settings)?;
    let clients = clients(&settings);
    let last_hook_failure = stop_hook::last_failure(&settings.state);
    if global.json {
        let mut answer = machine_json(&found);
        answer["clients"] = clients.iter().map(client_json).collect();
        answer["plans"] = json!(plans);
        answer["findings"] = off.iter().map(off_json).collect();
        answer["last_hook_failure"] = json!(last_hook_failure);
        terminal::print(&format!("{answer}\n"))?;
        return Ok(outcome);
    }
    let mut text = of_machine(&found);
    let is_project = Here::of(&settings.cwd).workspace().join("provost.toml").is_file();
    text.push_str(&match clients.is_empty() && is_project {
        true => "configured clients: none; `provost init` sets them up, until then no session is held\n"
            .to_owned(),
        false => of_clients(&clients),
    });
    if let Some(failure) = last_hook_failure {
        text.push_str(&format!("last failed hook (its session could stop): {failure}\n"));
    }
    text.push_str(&of_plans(&plans, &off));
    terminal::print(&text)?;
    Ok(outcome)
}

/// Describes what the machine offers, and the self-test, for programs.
fn machine_json(found: &doctor::Findings) -> serde_json::Value {
    let offers: Vec<_> = found
        .offers
        .iter()
        .map(|line| json!({ "name": line.name, "here": line.here, "words": line.words, "hint": line.hint }))
        .collect();
    let levels: Vec<_> = found
            .levels
            .iter()
            .map(|seen| json!({ "level": seen.level, "probes": seen.probes.iter().map(probe).collect::<Vec<_>>() }))
            .collect();
    // What was seen of the level that is used, or of the strongest.
    let used = found.levels.iter().find(|seen| seen.level == found.level).or(found.levels.first());
    let probes: Vec<_> = used.iter().flat_map(|seen| &seen.probes).map(probe).collect();
    json!({ "level": found.level, "offers": offers, "probes": probes, "levels": levels })
}

fn client_json((client, findings): &(SetUpClient, Vec<Finding>)) -> serde_json::Value {
    let findings: Vec<_> =
        findings.iter().map(|found| json!({ "words": found.words, "hint": found.hint })).collect();
    json!({ "client": client.word(), "findings": findings })
}

/// Describes what the machine offers, and the self-test, for people.
fn of_machine(found: &doctor::Findings) -> String {
    let mut text = format!("isolation: {}\n", found.level);
    for line in &found.offers {
        let mark = if line.here { "✓" } else { "✗" };
        text.push_str(&format!("  {mark} {:<28} {}\n", line.name, line.words));
        if let Some(hint) = &line.hint {
            text.push_str(&format!("    {:<28} {hint}\n", ""));
        }
    }
    text.push_str("self-test inside each sandbox, strongest first:\n");
    for seen in &found.levels {
        let failed: Vec<_> = seen.probes.iter().filter(|probe| !probe.held).collect();
        let mark = if failed.is_empty() { "✓" } else { "✗" };
        text.push_str(&format!(
            "  {mark} {:<28} {} of {} held\n",
            seen.level.to_string(),
            seen.probes.len() - failed.len(),
            seen.probes.len()
        ));
        for probe in failed {
            text.push_str(&format!("    ✗ {} {}\n", probe.name, probe.detail));
        }
    }
    text
}

/// Repairs what can be repaired; asks before each repair, unless `yes` is set.
fn mend(settings: &EngineSettings, yes: bool) -> Result<(), Failure> {
    let (_, off) = plan_doctor::findings(settings);
    for mend in off.iter().filter_map(|finding| finding.mend.as_ref()) {
        if !yes && !terminal::is_interactive() {
            return Err(Failure::usage(
                format!("--fix would {mend}"),
                "Pass --yes to repair without a question.",
            ));
        }
        if yes || terminal::agrees(&format!("{mend}?"))? {
            plan_doctor::mend(settings, mend)?;
            terminal::talk(&format!("done: {mend}"));
        }
    }
    Ok(())
}

fn of_plans(names: &[String], off: &[Off]) -> String {
    let mut text = match names {
        [] => "plans: none here\n".to_owned(),
        names => format!("plans: {}\n", names.join(", ")),
    };
    for finding in off {
        let mends = if finding.mend.is_some() { " `provost doctor --fix` repairs it." } else { "" };
        text.push_str(&format!("  [{}] {}\n", finding.level.word().to_uppercase(), finding.what));
        text.push_str(&format!("         {}{mends}\n", finding.hint));
    }
    text
}

fn off_json(finding: &Off) -> serde_json::Value {
    json!({
        "code": finding.code, "level": finding.level.word(), "what": finding.what, "hint": finding.hint,
        "path": finding.path, "fix": finding.mend.as_ref().map(ToString::to_string),
    })
}

/// Returns the problems of each client that is set up, for this project or for the user.
fn clients(settings: &EngineSettings) -> Vec<(SetUpClient, Vec<Finding>)> {
    let value = |wanted: &str| settings.environment.iter().find(|(name, _)| name == wanted);
    let Some((_, home)) = value("HOME") else { return Vec::new() };
    let own = settings.launcher.first().map(|program| program.to_string_lossy().into_owned());
    let mut ground = Ground {
        program: own.unwrap_or_default(),
        workspace: Here::of(&settings.cwd).workspace().to_owned(),
        home: home.into(),
        user: false,
        environment: settings.environment.clone(),
    };
    let entries = Ledger::open(&settings.state).entries();
    let mut found = Vec::new();
    for user in [false, true] {
        ground.user = user;
        for client in SetUpClient::all() {
            let files = ground.wanted(client);
            let is_of = |entry: &Entry| {
                // git may look for its hooks elsewhere since.
                let is_hook =
                    client == SetUpClient::Held(HookClient::GitPrePush) && entry.path.ends_with("pre-push");
                entry.project.as_deref() == ground.project_root()
                    && (is_hook || files.iter().any(|wanted| wanted.path == entry.path))
            };
            let named = ground.program_in(client);
            if named.is_some() || entries.iter().any(is_of) {
                // The files may name another program than this one: a name, for a team.
                let program = named.unwrap_or_else(|| ground.program.clone());
                found.push((client, ground.naming(program).findings(client)));
            }
        }
    }
    found
}

fn of_clients(clients: &[(SetUpClient, Vec<Finding>)]) -> String {
    let mut text = String::new();
    for (index, (client, findings)) in clients.iter().enumerate() {
        if index == 0 {
            text.push_str("configured clients:\n");
        }
        let mark = if findings.is_empty() { "✓" } else { "✗" };
        text.push_str(&format!("  {mark} {}\n", client.word()));
        for found in findings {
            text.push_str(&format!("    {}\n    {:<28} {}\n", found.words, "", found.hint));
        }
    }
    text
}

fn probe(probe: &doctor::SelfTestProbe) -> serde_json::Value {
    json!({ "name": probe.name, "held": probe.held, "detail": probe.detail })
}
