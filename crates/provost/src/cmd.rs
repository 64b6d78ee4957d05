//! The command line: one file per command, and each is a leaf that knows no other.

use clap::{Parser, Subcommand};

use crate::outcome::Answer;
use crate::place::Global;

mod agent_portal;
mod amend;
mod answer;
mod approve;
mod ask;
mod audit;
mod bench;
mod builtin_agent;
mod classify;
mod cluster;
mod commit;
mod compare;
mod demo;
mod diff;
mod doctor;
pub mod fence;
mod fork;
pub mod hook;
mod hook_look;
mod inbox;
mod init;
mod integrate;
mod item_mcp;
mod list;
mod log;
mod mcp;
mod merge_order;
mod migrate;
mod new;
mod queue;
mod ready;
mod recheck;
mod redact;
mod reject;
mod run;
mod scripted_agent;
mod serve;
mod show;
mod spawn;
mod status;
mod verify;
mod which;
mod worker;
mod worktree;

/// Agents claim. Provost checks.
///
/// Runs plans with AI agents and lets none of them say "done": a step is done when its contract was
/// run by the harness and held.
#[derive(Parser, Debug)]
#[command(name = "provost", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  provost demo                        watch an agent get caught
  provost verify PLAN.md              static checks, nothing is run
  provost run PLAN.md                 verify, gate, execute; the same command resumes
  provost inbox                       what waits for you, and how to answer
  provost status --json               where the active plan stands

Exit codes: 0 done · 1 the plan failed · 2 usage or unresolvable plan · 3 diagnostics ·
4 waiting for a person · 5 refused · 70 the world broke · 130 interrupted";

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::Args),
    Init(init::Args),
    New(new::Args),
    Verify(verify::Args),
    Show(show::Args),
    Diff(diff::Args),
    Approve(approve::Args),
    Amend(amend::Args),
    Ask(ask::Args),
    Reject(reject::Args),
    Run(run::Args),
    Inbox(inbox::Args),
    Answer(answer::Args),
    Status(status::Args),
    Which(which::Args),
    List(list::Args),
    Ready(ready::Args),
    MergeOrder(merge_order::Args),
    Queue(queue::Args),
    Spawn(spawn::Args),
    Worktree(worktree::Args),
    Log(log::Args),
    Audit(audit::Args),
    Recheck(recheck::Args),
    Commit(commit::Args),
    Integrate(integrate::Args),
    Fork(fork::Args),
    Compare(compare::Args),
    Doctor(doctor::Args),
    Migrate(migrate::Args),
    Serve(serve::Args),
    Worker(worker::Args),
    Cluster(cluster::Args),
    Hook(hook::Args),
    Mcp(mcp::Args),
    Classify(classify::Args),
    Redact(redact::Args),
    Bench(bench::Args),
    #[command(hide = true)]
    AgentPortal(agent_portal::Args),
    #[command(hide = true)]
    BuiltinAgent(builtin_agent::Args),
    #[command(hide = true)]
    Fence(fence::Args),
    #[command(hide = true)]
    HookLook(hook_look::Args),
    #[command(hide = true)]
    ItemMcp(item_mcp::Args),
    #[command(hide = true)]
    ScriptedAgent(scripted_agent::Args),
}

impl Cli {
    /// Agents are looked at by the harness, so that nothing of them is overlooked.
    pub fn is_an_agent(&self) -> bool {
        matches!(
            self.command,
            Command::BuiltinAgent(_)
                | Command::ItemMcp(_)
                | Command::ScriptedAgent(_)
                | Command::AgentPortal(_)
                | Command::Fence(_)
        )
    }

    /// What runs under this command is not all a person's own.
    pub fn starts_agents_or_checks(&self) -> bool {
        match &self.command {
            Command::Run(_)
            | Command::Recheck(_)
            | Command::Integrate(_)
            | Command::Demo(_)
            | Command::HookLook(_)
            | Command::Mcp(_)
            | Command::Serve(_)
            | Command::Worker(_) => true,
            Command::New(args) => args.starts_agents(),
            _ => false,
        }
    }
}

pub fn obey(cli: Cli) -> Answer {
    let global = &cli.global;
    match cli.command {
        Command::Commit(args) => commit::obey(global, args),
        Command::Integrate(args) => integrate::obey(global, args),
        Command::List(args) => list::obey(global, args),
        Command::Ready(args) => ready::obey(global, args),
        Command::MergeOrder(args) => merge_order::obey(global, args),
        Command::Queue(args) => queue::obey(global, args),
        Command::Spawn(args) => spawn::obey(global, args),
        Command::Worktree(args) => worktree::obey(global, args),
        Command::Fork(args) => fork::obey(global, args),
        Command::Compare(args) => compare::obey(global, args),
        Command::Demo(args) => demo::obey(global, args),
        Command::Init(args) => init::obey(global, args),
        Command::Verify(args) => verify::obey(global, args),
        Command::Show(args) => show::obey(global, args),
        Command::Diff(args) => diff::obey(global, args),
        Command::New(args) => new::obey(global, args),
        Command::Approve(args) => approve::obey(global, args),
        Command::Amend(args) => amend::obey(global, args),
        Command::Ask(args) => ask::obey(global, args),
        Command::Reject(args) => reject::obey(global, args),
        Command::Run(args) => run::obey(global, args),
        Command::Inbox(args) => inbox::obey(global, args),
        Command::Answer(args) => answer::obey(global, args),
        Command::Status(args) => status::obey(global, args),
        Command::Which(args) => which::obey(global, args),
        Command::Log(args) => log::obey(global, args),
        Command::Audit(args) => audit::obey(global, args),
        Command::Recheck(args) => recheck::obey(global, args),
        Command::Doctor(args) => doctor::obey(global, args),
        Command::Migrate(args) => migrate::obey(global, args),
        Command::Hook(args) => hook::obey(global, args),
        Command::HookLook(args) => hook_look::obey(global, args),
        Command::Mcp(args) => mcp::obey(global, args),
        Command::Serve(args) => serve::obey(global, args),
        Command::Worker(args) => worker::obey(global, args),
        Command::Cluster(args) => cluster::obey(global, args),
        Command::Classify(args) => classify::obey(global, args),
        Command::Bench(args) => bench::obey(global, args),
        Command::Redact(args) => redact::obey(global, args),
        Command::AgentPortal(args) => agent_portal::obey(args),
        Command::BuiltinAgent(args) => builtin_agent::obey(args),
        Command::Fence(args) => fence::obey(args),
        Command::ItemMcp(args) => item_mcp::obey(args),
        Command::ScriptedAgent(args) => scripted_agent::obey(args),
    }
}
