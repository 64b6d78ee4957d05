//! Serves agents' clients by the Model Context Protocol, and people and programs over HTTP.
//!
//! Requests of an agent arrive in [`mcp`] and can only reach the engine's session API. Requests of people and
//! programs arrive in [`http`] and use the engine's commands. This crate accesses neither the log nor the
//! machine itself.
//!
//! From the top down: `http` runs the server; `router` puts the routes together and wraps every request; the
//! leaves `api`, `pages`, `mcp`, `stream`, `metrics` and `assets` answer; `probes` answers for a worker; `request` and `principal` read a
//! request and authenticate its sender; `state` holds what requests share; `oidc` signs
//! people in at an identity provider; `layout` computes graphs, timelines
//! and diffs. What is shown of a plan comes from the engine's `observe::view`. A module imports only modules below it. A new page is a module in `pages/` and a line in
//! `pages.rs`.
//!
//! **Invariant:** nothing here decides; an answer only puts the engine's result into words.

mod api;
mod assets;
pub mod http;
mod layout;
mod live_events;
mod machine;
pub mod mcp;
mod metrics;
pub mod oidc;
mod pages;
mod partial;
mod principal;
pub mod probes;
mod problem;
mod request;
mod router;
mod state;
pub mod stdio;
mod stream;
mod traces;
