//! A check that the configuration names and plans use (`check:unit`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A check of the configuration, `[checks.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCheck {
    pub command: String,
    /// Globs: the check judges only changes inside these. Empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<String>,
    /// Programs that the command needs on `PATH`, besides those that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

impl fmt::Display for NamedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runs `{}`", self.command.trim())?;
        if !self.touches.is_empty() {
            write!(f, ", and judges only changes of {}", self.touches.join(", "))?;
        }
        if !self.needs.is_empty() {
            write!(f, "; needs {}", self.needs.join(", "))?;
        }
        Ok(())
    }
}
