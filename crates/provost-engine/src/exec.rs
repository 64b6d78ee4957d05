//! Executes actions: attempts by agents, checks, and questions to a model.

pub mod approved_base;
pub mod base_look;
pub mod trial;
pub mod deep_look;
pub mod check_trial;
pub mod proof_map;
pub mod executor;
pub mod model_judge;
pub mod consult;
pub mod metering;
pub mod transcript;
pub mod live;
pub mod busy;
pub mod confined;
