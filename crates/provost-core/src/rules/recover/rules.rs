//! The rules of the classifier, in order of precedence: `rules.toml` for every output, `agent_rules.toml` for
//! the report of an agent.
//!
//! **Invariant:** the first rule that matches decides, whatever the order of the lines in the text.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::model::event::FailureClass;

/// One way to fail; the head of `rules.toml` says what each field means.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureRule {
    pub name: String,
    pub class: FailureClass,
    pub reason: String,
    #[serde(default)]
    pub any: Vec<String>,
    #[serde(default)]
    pub unless: Vec<String>,
    #[serde(default)]
    pub http: Vec<u16>,
    #[serde(default)]
    pub exit_code: Vec<i32>,
    #[serde(default)]
    pub configure: String,
    #[serde(default)]
    pub quota: bool,
    #[serde(default)]
    pub mendable: bool,
    #[serde(default)]
    pub network: bool,
    #[serde(default)]
    pub brief: bool,
    #[serde(default)]
    pub matches: Vec<String>,
    #[serde(default)]
    pub misses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rule: Vec<FailureRule>,
}

static RULES: LazyLock<Vec<FailureRule>> = LazyLock::new(|| parsed(include_str!("rules.toml")));
static AGENT_RULES: LazyLock<Vec<FailureRule>> = LazyLock::new(|| parsed(include_str!("agent_rules.toml")));

fn parsed(text: &str) -> Vec<FailureRule> {
    let file: RuleFile =
        toml::from_str(text).unwrap_or_else(|error| unreachable!("a test reads every rule: {error}"));
    file.rule
}

/// Returns the rules for every output, in order.
pub fn all() -> &'static [FailureRule] {
    &RULES
}

/// Returns the rules for the report of an agent only, in order.
pub fn of_agents() -> &'static [FailureRule] {
    &AGENT_RULES
}
