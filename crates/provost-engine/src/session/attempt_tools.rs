//! The data about an agent's work that its tools serve, for the process that runs them inside the sandbox.

pub use provost_host::agent::item::{AgentStatement, COMMAND, ItemFiles};
