//! Speaks to agents' clients: the Model Context Protocol, over standard input and output.
//!
//! Whatever an agent says comes in here, and from here it can go nowhere but to the engine's desk: this
//! crate knows neither the log nor the machine. The service is one value for each session, so that other
//! ways to reach it only have to make one.
//!
//! **Invariant:** nothing here decides. What a tool answers is what the engine said, in words.

pub mod mcp;
pub mod stdio;
