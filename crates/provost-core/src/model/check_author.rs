//! The author of a check: who wrote the command that decides about a step.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who wrote a text, and with it the checks that are new in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckAuthor {
    /// A person, or a program that wrote the plan file without provost.
    #[default]
    Person,
    /// A template of `provost new`, by name.
    Template(String),
    /// The role that drafts plans from goals, by name.
    Planner(String),
    /// The agent that does the work: it made the plan in a session of its client, or the step has it write the
    /// tests that the check runs.
    Agent,
}

impl CheckAuthor {
    pub fn is_person(&self) -> bool {
        *self == CheckAuthor::Person
    }
}

impl fmt::Display for CheckAuthor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckAuthor::Person => f.write_str("a person"),
            CheckAuthor::Template(name) => write!(f, "template {name}"),
            CheckAuthor::Planner(role) => write!(f, "planner {role}"),
            CheckAuthor::Agent => f.write_str("the agent"),
        }
    }
}
