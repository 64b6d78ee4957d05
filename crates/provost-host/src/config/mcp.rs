//! Reads `[mcp]`: the gate for plans that an agent made in its own client's session.

use serde::Deserialize;

use super::choices::SessionGate;
use super::values::choice;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct McpConfig {
    #[serde(deserialize_with = "choice::<_, SessionGate, _>")]
    pub gate: SessionGate,
}
