//! Errors of the engine, grouped by whom they concern.

use std::path::PathBuf;

use provost_core::language::diagnostic::Diagnostic;
use provost_core::rules::command::Refusal;

use crate::uncommitted_files;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command is not allowed.
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("only a person may do this, and the command came {why} (refused and recorded)")]
    NotAPerson { why: CommandOrigin },
    #[error(
        "this decision needs a terminal that no agent can have opened, because an agent of this plan \
         ran without a sandbox; {why} (refused and recorded)"
    )]
    NoTerminal { why: String },
    /// A person interrupted it.
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Ground(#[from] provost_host::exec::environment::Error),
    /// The commit or the patch of a trial cannot be used.
    #[error(transparent)]
    TrialTree(provost_host::tree::Error),
    #[error("policy `{name}` is not in the configuration")]
    NoSuchPolicy { name: String },
    #[error("there is no section [checks.{name}] in the configuration")]
    NoSuchCheck { name: String },

    #[error("{}", uncommitted_files::refusal(.files))]
    Uncommitted { files: Vec<uncommitted_files::UncommittedFile>, branch: Option<String> },

    /// The plan is wrong.
    #[error("the plan has errors")]
    Diagnosed { path: PathBuf, text: String, diagnostics: Vec<Diagnostic> },
    #[error("plan {plan} contains itself through `**plan:**`")]
    CarriesItself { plan: String },
    #[error("no agent is configured for {}", .roles.join(", "))]
    NoAgent { roles: Vec<String> },
    /// The environment is at fault: this costs no attempt.
    #[error("the workspace {} is not writable, so no agent can work there", .path.display())]
    ReadOnly {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },

    /// The call is wrong.
    #[error(transparent)]
    PlanFile(#[from] provost_host::plans::plan_file::Error),
    #[error(transparent)]
    PlanLease(#[from] provost_host::plans::plan_lease::Error),
    #[error(transparent)]
    Worktree(#[from] provost_host::worktree::Error),
    #[error("{} cannot sign proofs: {why}", .path.display())]
    SshKey { path: PathBuf, why: provost_core::model::proof::Doubt },
    #[error(transparent)]
    Config(#[from] provost_host::config::Error),
    #[error("the state folder {} is inside the workspace, where agents can write", .0.display())]
    StateInWorkspace(PathBuf),
    #[error("the folder {} is inside a workspace, where agents can remove archived events", .0.display())]
    ArchiveInWorkspace(PathBuf),
    #[error("the configuration requires the log {wanted}, but this state folder uses {here}")]
    OtherLog { wanted: String, here: String },
    #[error("{variable} cannot be used: {why}")]
    DatabaseVariable { variable: &'static str, why: String },
    #[error("the environment names the log {given}, but this state folder uses {here}")]
    OtherDatabase { given: String, here: String },
    #[error("the log {url} is in Postgres, but this provost was built without Postgres")]
    NoPostgres { url: String },
    #[error("neither HOME nor XDG_STATE_HOME is set, so there is no place for the log")]
    NoStateFolder,

    #[error("the file of plan {plan} was moved or deleted")]
    NotThere { plan: provost_core::model::chain::PlanId },

    #[error(transparent)]
    Remote(#[from] provost_host::tree::BadRemote),
    #[error("plan {plan} cannot run on this machine: {why}")]
    NotCarried { plan: provost_core::model::chain::PlanId, why: String },
    #[error(transparent)]
    Carry(provost_host::tree::Error),
    #[error("plan {plan} keeps its trees on a git remote, but none is configured here")]
    CarriedElsewhere { plan: provost_core::model::chain::PlanId },

    /// The environment failed.
    #[error(transparent)]
    Collector(#[from] provost_host::notify::collector::Error),
    #[error(transparent)]
    Store(#[from] provost_store::Error),
    #[error("the log of plan {plan} does not verify: {found}")]
    Broken { plan: provost_core::model::chain::PlanId, found: provost_core::model::chain::Break },
    #[error("the log of plan {plan} does not match its proofs: {finding}")]
    Disproved { plan: provost_core::model::chain::PlanId, finding: String },
    #[error(
        "a process other than provost wrote to the log of plan {plan}, from event {from_seq} on: \
         {what}; provost ignores these events and runs nothing"
    )]
    Forged { plan: provost_core::model::chain::PlanId, from_seq: u64, what: String },
    #[error("the key in {} is not the one that provost has signed with so far: {why}", .folder.display())]
    OtherKey { folder: PathBuf, why: &'static str },
    #[error(transparent)]
    Unreadable(#[from] provost_core::model::chain::Unreadable),
    #[error("cannot {what} {}", .path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Where a command came from that no person has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOrigin {
    /// A process below an agent's own client, which started `provost mcp`.
    AgentClient(String),
    /// An attempt, or a place from which an attempt cannot be told apart.
    Attempt(String),
}

impl std::fmt::Display for CommandOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (CommandOrigin::AgentClient(why) | CommandOrigin::Attempt(why)) = self;
        f.write_str(why)
    }
}
