//! Speaks: to agents' clients in the Model Context Protocol, and over HTTP to people and programs.
//!
//! Whatever an agent says comes in by [`mcp`], and from there it can go nowhere but to the engine's desk.
//! What a person or a program says comes in by [`http`] and goes to the engine's doors. This crate knows
//! neither the log nor the machine.
//!
//! A request is let in by `http/`, answered by a room of `api/` or of `pages/`, and both show what `view.rs`
//! makes of a plan. A new page is a room in `pages/` and a line in `pages.rs`.
//!
//! **Invariant:** nothing here decides. What is answered is what the engine said, in words.

mod api;
mod assets;
mod graph;
pub mod http;
pub mod mcp;
mod metrics;
mod pages;
mod sse;
pub mod stdio;
mod timeline;
mod traces;
mod view;
