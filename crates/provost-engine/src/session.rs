//! Plans of an agent's own session: over MCP and at the stop hook of its client.

pub mod agent_session;
pub(crate) mod holding;
pub mod stop_hook;
pub mod session_roster;
pub mod session_turns;
pub mod attempt_tools;
