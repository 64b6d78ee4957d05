//! What the tools of an agent know of its work, for the process that serves them on the agent's side of
//! the fence.

pub use provost_host::agent::item::{COMMAND, Saying, Served};
