//! Test support: a server that answers like a model, from a script.
//!
//! The server listens on loopback and speaks Anthropic Messages, OpenAI Responses, Chat Completions and
//! Gemini, streamed or not. A script gives its answers, turn by turn or by the content of the newest message.
//! A script can also make it fail in every way a provider does.
//!
//! ```
//! use provost_rehearsal::{Model, Turn};
//!
//! let model = Model::script([Turn::call("shell", serde_json::json!({ "command": "ls" })), Turn::text("Done.")])
//!     .when("is missing", Turn::text("I was wrong.").using(1200, 30))
//!     .serve()
//!     .expect("a port on loopback");
//! let base = model.url(); // give it to a client as its base URL
//! # let _ = base;
//! assert!(model.requests().is_empty());
//! ```
//!
//! **Invariant:** nothing here is part of the shipped program, and nothing here depends on it.

mod http;

mod turn;
mod script;
mod request;
mod offered;
mod dialect;
mod aside;
mod server;

pub mod failure;
pub mod skip;

pub use dialect::ModelApi;
pub use request::SeenRequest;
pub use script::{Model, Script};
pub use server::Rehearsal;
pub use turn::{ApiFailure, Fault, ScriptedCall, ScriptedUsage, StopReason, Turn};
