//! An agent loop that keeps a plan and does not accept a final answer while the plan is incomplete.
//!
//! A [`Provider`](provider::Provider) talks to the model, a [`Catalogue`](tool::Catalogue) holds the tools, a
//! [`PlanHolder`](plan_state::PlanHolder) stores the plan outside of the conversation, and
//! [`Agent::run`](agent::Agent::run) repeats turns until the plan is complete. It refuses a final answer with
//! open steps or unverified postconditions: the refusal is added to the transcript with the current plan, and
//! the model continues.
//!
//! ```
//! use provost_agent::agent::{Agent, RunEnd, Settings, Stop};
//! use provost_agent::plan_state::PlanHolder;
//! use provost_agent::call_log::CallLog;
//! use provost_agent::provider::scripted::ScriptedProvider;
//! use provost_agent::tool::Catalogue;
//! use provost_agent::tool::files::Workspace;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! // A model that claims too early. For a real one: provider::api::Api.
//! let model = ScriptedProvider::default()
//!     .calls("plan_create", json!({
//!         "objective": "say hello", "steps": ["write hello.txt"], "postconditions": ["hello.txt is there"]
//!     }))
//!     .says("All done!")
//!     .calls("write_file", json!({ "path": "hello.txt", "content": "hello\n" }))
//!     .calls("verify_file_exists", json!({ "path": "hello.txt" }))
//!     .calls("step_update", json!({ "step_number": 1, "status": "done", "evidence": "call:2" }))
//!     .calls("postcondition_verify", json!({ "postcondition_number": 1, "evidence": "true, call:3" }))
//!     .says("hello.txt says hello.");
//!
//! # let folder = std::env::temp_dir().join(format!("provost-agent-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let (holder, ledger) = (PlanHolder::default(), CallLog::default());
//! let workspace = Workspace::new(&folder)?;
//! let agent = Agent {
//!     provider: &model,
//!     catalogue: Catalogue::standard(&workspace, &ledger).with_plan(&holder, &ledger),
//!     holder,
//!     ledger,
//!     settings: Settings::default(),
//! };
//! let run = agent.run("Say hello in a file.", &Stop::default(), &mut |event| println!("{event:?}")).await;
//!
//! assert_eq!(run.outcome, RunEnd::Finished { answer: "hello.txt says hello.".to_owned() });
//! assert_eq!(run.refusals, 1);
//! # std::fs::remove_dir_all(&folder)
//! # }
//! ```
//!
//! The modules, in reading order: [`plan`], [`plan_state`], [`tool`], [`transcript`], [`provider`], [`agent`];
//! [`builtin`] is the loop as a process of its own, as the harness starts it.

pub mod plan;

pub mod event;
pub mod plan_state;
pub mod call_log;
pub mod budget;

pub mod tool;

pub mod provider;
pub mod transcript;

pub mod answer_form;
mod repo_map;
pub mod agent;
mod truncate;
mod context;
mod progress;
mod tally;

mod conversation;
pub mod delegate;
pub mod builtin;
pub mod chat;
pub mod overhead;
pub mod prompt_bench;

use std::pin::Pin;

/// Return type of an asynchronous trait method.
pub type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// Runs the examples of the manual as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Manual;
