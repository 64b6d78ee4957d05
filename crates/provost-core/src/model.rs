//! Holds the data that all other folders use: plans, verdicts, events, proofs. It contains no rules.

pub mod timestamp;
pub mod hash;
pub mod pass;
pub mod person;
pub mod named_check;
pub mod plan;
pub mod rubric;
pub mod graph;
pub mod usage;
pub mod log_budget;
pub mod test_results;
pub mod verdict;
pub mod run_policy;
pub mod escalation;
pub mod event;
pub mod chain;
pub mod check_author;
pub mod check_environment;
pub mod approved_spec;
pub mod proof;
pub mod proof_map;
pub mod contract_traits;
pub mod quote;
pub mod suggest;
pub mod transcript;
