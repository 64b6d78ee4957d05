//! Texts for people and agents: prompts, reports, and the protocols of agent clients.

pub mod prompt;
pub mod hook_protocol;
pub mod judgement;
pub mod planner;
pub mod test_draft;
pub mod render;
pub mod summary;
