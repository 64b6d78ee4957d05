//! Reads `[mcp]`: the gate for plans that an agent made in its own client's session, and the clients whose dialogs
//! reach a person.

use serde::Deserialize;

use super::choices::SessionGate;
use super::values::choice;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct McpConfig {
    #[serde(deserialize_with = "choice::<_, SessionGate, _>")]
    pub gate: SessionGate,
    /// Names of clients in whose dialogs a person may decide.
    pub elicitation: Vec<String>,
}
