//! Shows plans: lists, the inbox, notifications, history, metrics.

pub mod worktrees;
pub mod inbox;
pub mod notifier;
pub mod wait_for_person;
pub mod history;
pub mod overview;
pub mod versions;
pub mod view;
pub mod compare;
pub mod agenda;
pub mod otel;
