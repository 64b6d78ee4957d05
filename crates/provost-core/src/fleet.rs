//! Many plans at once: the agenda, the merge train, and work for other machines.

pub mod agenda;
pub mod train;
pub mod work_item;
pub mod labels;
