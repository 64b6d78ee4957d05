//! Reads `[plan]` and `[judge]`: roles that answer questions and do no work.

use serde::{Deserialize, Deserializer};

use super::values::{checked, integer};

/// The role that drafts plans, and the number of drafts that provost may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct PlannerConfig {
    #[serde(deserialize_with = "role")]
    pub role: String,
    #[serde(deserialize_with = "integer::<_, u32, _, 1, 20>")]
    pub rounds: u32,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self { role: "planner".to_owned(), rounds: 4 }
    }
}

/// The role that judges by a rubric; `None` if no role is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct JudgeConfig {
    #[serde(deserialize_with = "role")]
    pub role: Option<String>,
}

fn role<'de, D: Deserializer<'de>, T: From<String>>(from: D) -> Result<T, D::Error> {
    checked(from, |role| match role.trim().is_empty() {
        true => Err("the name of the role is empty"),
        false => Ok(()),
    })
}
