//! Serves agents' clients by the Model Context Protocol, and people and programs over HTTP.
//!
//! Requests of an agent arrive in [`mcp`] and can only reach the engine's session API. Requests of people and
//! programs arrive in [`http`] and use the engine's commands. This crate accesses neither the log nor the
//! machine itself.
//!
//! `http/` admits a request, a module of `api/` or `pages/` answers it, and both show what `view.rs` makes of
//! a plan. A new page is a module in `pages/` and a line in `pages.rs`.
//!
//! **Invariant:** nothing here decides; an answer only puts the engine's result into words.

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
