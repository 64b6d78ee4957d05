//! Rules about several plans: the agenda, the merge train, and work items for other machines.

pub mod agenda;
pub mod train;
pub mod train_record;
pub mod work_item;
pub mod labels;
