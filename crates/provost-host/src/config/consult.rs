//! Reads `[plan]` and `[judge]`: roles that answer questions and do no work.

use super::Wrong;
use super::reading::Section;

/// The role that drafts plans, and the number of drafts that provost may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannerConfig {
    pub role: String,
    pub rounds: u32,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self { role: "planner".to_owned(), rounds: 4 }
    }
}

/// The role that judges by a rubric; `None` if no role is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeConfig {
    pub role: Option<String>,
}

pub fn plan(top: &Section<'_, '_>) -> Result<PlannerConfig, Wrong> {
    let default = PlannerConfig::default();
    let Some(section) = top.section("plan", &["role", "rounds"])? else { return Ok(default) };
    let rounds = section.integer("rounds", 1..=20)?.and_then(|rounds| u32::try_from(rounds).ok());
    Ok(PlannerConfig {
        role: role(&section)?.unwrap_or(default.role),
        rounds: rounds.unwrap_or(default.rounds),
    })
}

pub fn judge(top: &Section<'_, '_>) -> Result<JudgeConfig, Wrong> {
    let Some(section) = top.section("judge", &["role"])? else { return Ok(JudgeConfig::default()) };
    Ok(JudgeConfig { role: role(&section)? })
}

fn role(section: &Section<'_, '_>) -> Result<Option<String>, Wrong> {
    match section.string("role")? {
        Some(role) if role.trim().is_empty() => {
            Err(section.wrong("role", "the name of the role is empty".to_owned()))
        }
        role => Ok(role),
    }
}
