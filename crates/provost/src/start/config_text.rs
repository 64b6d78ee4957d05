//! The text of `provost.toml`: a role for each agent, and the checks that run here.

use provost_core::model::verdict::CheckOutcome;
use provost_engine::exec::check_trial::TriedCheck;
use provost_engine::plan::harness::Harness;

use super::roles::Roles;
use crate::clients::ConfigTable;

const HEAD: &str = "\
# The settings of provost for this repository; docs/configuration.md explains every key.

";

/// Returns the tables that the configuration lacks.
pub(super) fn tables(harness: &Harness, roles: &Roles, tried: &[TriedCheck]) -> Vec<ConfigTable> {
    let config = harness.config();
    let mut tables = Vec::new();
    if let Some(chosen) = &roles.chosen {
        tables.push(table("agents", "coder", "# Works on steps with `**target:** coder`.\n", &chosen.keys));
        let about = "# Drafts plans: provost new NAME --goal \"…\"\n";
        tables.push(table("agents", "planner", about, &chosen.keys));
        for other in roles.installed.iter().filter(|agent| agent.name != chosen.name) {
            let about = "# Also installed here; no plan uses it until a step names it.\n";
            tables.push(table("agents", &other.name, about, &other.keys));
        }
    }
    let does_run = |check: &&TriedCheck| !matches!(check.verdict.outcome, CheckOutcome::NotRun { .. });
    for check in tried.iter().filter(does_run) {
        let about = match check.verdict.held() {
            true => String::new(),
            false => format!("# It ran when this was written, and failed: {}.\n", check.verdict.outcome),
        };
        let command = toml::Value::String(check.command.clone());
        tables.push(table("checks", &check.name, &about, &format!("run = {command}\n")));
    }
    tables.retain(|table| match (table.keys[0].as_str(), &table.keys[1]) {
        ("agents", role) => !config.agents.contains_key(role),
        (_, check) => !config.checks.contains_key(check),
    });
    tables
}

fn table(section: &str, name: &str, about: &str, keys: &str) -> ConfigTable {
    ConfigTable {
        keys: vec![section.to_owned(), name.to_owned()],
        text: format!("{about}[{section}.{name}]\n{keys}"),
    }
}

/// Returns the whole text of a new file.
pub(super) fn whole(tables: &[ConfigTable]) -> String {
    let texts: Vec<&str> = tables.iter().map(|table| table.text.as_str()).collect();
    format!("{HEAD}{}", texts.join("\n"))
}
