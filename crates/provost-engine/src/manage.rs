//! Commands around plans: forks, drafts, worktrees, tokens, sign-in, diagnosis, migration and archiving of
//! the log.

pub mod archive;
pub mod chat_role;
pub mod fork;
pub mod draft;
mod planner_env;
pub mod test_draft;
pub mod doctor;
pub mod plan_doctor;
pub mod tokens;
pub mod sign_in;
pub mod migrate;
pub mod start;
pub mod stop;
pub mod gc;
