//! The command line: one file per command; no command imports another.

use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::lazy_args::Described;
use crate::open_plan::Global;
use crate::outcome::Answer;
use crate::{help_groups, here};

mod agent_portal;
mod amend;
mod answer;
mod approve;
mod archive;
mod ask;
mod audit;
mod bench;
mod builtin_agent;
mod changes;
mod chat;
mod classify;
mod cluster;
mod commit;
mod compare;
mod completions;
mod demo;
mod diff;
mod doctor;
pub(crate) mod fence;
mod fork;
mod gc;
pub(crate) mod hook;
mod hook_look;
mod inbox;
mod init;
mod integrate;
mod item_mcp;
#[cfg(feature = "cluster")]
mod keeper;
mod list;
mod log;
mod lsp;
mod man;
mod mcp;
mod merge_order;
mod migrate;
mod new;
mod own_session;
mod proved;
mod queue;
mod ready;
mod recheck;
mod redact;
mod reject;
mod run;
mod scripted_agent;
mod serve;
mod session;
mod show;
mod spawn;
mod start;
mod status;
mod stop;
mod suggest_checks;
mod trust;
mod try_check;
mod verify;
mod watch;
mod which;
mod worker;
mod worktree;

/// Agents claim. Provost checks.
///
/// Runs plans with AI agents. A step is done only when provost has run its contract and the contract
/// held; the word of an agent does not count.
#[derive(Parser, Debug)]
#[command(name = "provost", version = env!("PROVOST_VERSION"), max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    /// Without a command, provost says where you are and what to do next.
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  provost                             where you are, and what to do next
  provost start                       set up this repository, run a first verified step
  provost demo                        watch an agent get caught
  provost verify PLAN.md              static checks, nothing is run
  provost run PLAN.md                 verify, gate, execute; the same command resumes
  provost inbox                       list the decisions that wait for you
  provost status --json               show the state of the active plan

Exit codes: 0 done · 1 the plan failed · 2 usage or unresolvable plan · 3 diagnostics ·
4 waiting for a person · 5 refused · 70 system error · 130 interrupted";

#[derive(Subcommand, Debug)]
enum Command {
    Start(Described<start::Args>),
    Chat(Described<chat::Args>),
    Demo(Described<demo::Args>),
    Init(Described<init::Args>),
    New(Described<new::Args>),
    Verify(Described<verify::Args>),
    Show(Described<show::Args>),
    Diff(Described<diff::Args>),
    Changes(Described<changes::Args>),
    Proved(Described<proved::Args>),
    Approve(Described<approve::Args>),
    Amend(Described<amend::Args>),
    Ask(Described<ask::Args>),
    Reject(Described<reject::Args>),
    Trust(Described<trust::Args>),
    Try(Described<try_check::Args>),
    SuggestChecks(Described<suggest_checks::Args>),
    Run(Described<run::Args>),
    Stop(Described<stop::Args>),
    Inbox(Described<inbox::Args>),
    Answer(Described<answer::Args>),
    Status(Described<status::Args>),
    Which(Described<which::Args>),
    List(Described<list::Args>),
    Ready(Described<ready::Args>),
    MergeOrder(Described<merge_order::Args>),
    Queue(Described<queue::Args>),
    Spawn(Described<spawn::Args>),
    Worktree(Described<worktree::Args>),
    Log(Described<log::Args>),
    Audit(Described<audit::Args>),
    Recheck(Described<recheck::Args>),
    Commit(Described<commit::Args>),
    Integrate(Described<integrate::Args>),
    Fork(Described<fork::Args>),
    Compare(Described<compare::Args>),
    Doctor(Described<doctor::Args>),
    Gc(Described<gc::Args>),
    Archive(Described<archive::Args>),
    #[cfg_attr(not(feature = "postgres"), command(hide = true))]
    Migrate(Described<migrate::Args>),
    Serve(Described<serve::Args>),
    Watch(Described<watch::Args>),
    #[cfg_attr(not(feature = "cluster"), command(hide = true))]
    Worker(Described<worker::Args>),
    #[cfg_attr(not(feature = "cluster"), command(hide = true))]
    Cluster(Described<cluster::Args>),
    Hook(Described<hook::Args>),
    Mcp(Described<mcp::Args>),
    Lsp(Described<lsp::Args>),
    Session(Described<session::Args>),
    Classify(Described<classify::Args>),
    Redact(Described<redact::Args>),
    Bench(Described<bench::Args>),
    Completions(Described<completions::Args>),
    #[command(hide = true)]
    AgentPortal(Described<agent_portal::Args>),
    #[command(hide = true)]
    OwnSession(Described<own_session::Args>),
    #[command(hide = true)]
    BuiltinAgent(Described<builtin_agent::Args>),
    #[command(hide = true)]
    Fence(Described<fence::Args>),
    #[command(hide = true)]
    HookLook(Described<hook_look::Args>),
    #[command(hide = true)]
    ItemMcp(Described<item_mcp::Args>),
    #[command(hide = true)]
    Man(Described<man::Args>),
    /// Check this installation: `provost self check` is `provost doctor`
    #[command(name = "self", subcommand, hide = true)]
    Installation(Installation),
    #[cfg(feature = "cluster")]
    #[command(hide = true)]
    Keeper(Described<keeper::Args>),
    #[command(hide = true)]
    ScriptedAgent(Described<scripted_agent::Args>),
}

/// Parses the arguments of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut command = help_groups::grouped(Cli::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Commands about the installed program.
#[derive(Subcommand, Debug)]
enum Installation {
    Check(doctor::Args),
}

impl Cli {
    /// Returns whether this process is an agent or its helper. provost inspects these, so they must stay
    /// readable.
    pub(crate) fn is_an_agent(&self) -> bool {
        matches!(
            self.command,
            Some(
                Command::BuiltinAgent(_)
                    | Command::ItemMcp(_)
                    | Command::ScriptedAgent(_)
                    | Command::AgentPortal(_)
                    | Command::OwnSession(_)
                    | Command::Fence(_)
            )
        )
    }

    /// Returns whether this command starts agents or checks.
    pub(crate) fn starts_agents_or_checks(&self) -> bool {
        match &self.command {
            None => false,
            Some(command) => command.starts_agents_or_checks(),
        }
    }
}

impl Command {
    fn starts_agents_or_checks(&self) -> bool {
        match self {
            Command::Run(_)
            | Command::Try(_)
            | Command::SuggestChecks(_)
            | Command::Start(_)
            | Command::Recheck(_)
            | Command::Proved(_)
            | Command::Integrate(_)
            | Command::Chat(_)
            | Command::Demo(_)
            | Command::HookLook(_)
            | Command::Mcp(_)
            | Command::Serve(_)
            | Command::Worker(_) => true,
            Command::New(Described(args)) => args.starts_agents(),
            Command::Verify(Described(args)) => args.starts_checks(),
            _ => false,
        }
    }
}

pub(crate) fn obey(cli: Cli) -> Answer {
    let global = &cli.global;
    let Some(command) = cli.command else { return here::tell(global) };
    match command {
        Command::Start(Described(args)) => start::obey(global, args),
        Command::Commit(Described(args)) => commit::obey(global, args),
        Command::Integrate(Described(args)) => integrate::obey(global, args),
        Command::List(Described(args)) => list::obey(global, args),
        Command::Ready(Described(args)) => ready::obey(global, args),
        Command::MergeOrder(Described(args)) => merge_order::obey(global, args),
        Command::Queue(Described(args)) => queue::obey(global, args),
        Command::Spawn(Described(args)) => spawn::obey(global, args),
        Command::Worktree(Described(args)) => worktree::obey(global, args),
        Command::Fork(Described(args)) => fork::obey(global, args),
        Command::Compare(Described(args)) => compare::obey(global, args),
        Command::Chat(Described(args)) => chat::obey(global, args, builtin_agent::read),
        Command::Demo(Described(args)) => demo::obey(global, args),
        Command::Init(Described(args)) => init::obey(global, args),
        Command::Verify(Described(args)) => verify::obey(global, args),
        Command::Show(Described(args)) => show::obey(global, args),
        Command::Diff(Described(args)) => diff::obey(global, args),
        Command::Changes(Described(args)) => changes::obey(global, args),
        Command::Proved(Described(args)) => proved::obey(global, args),
        Command::New(Described(args)) => new::obey(global, args),
        Command::Approve(Described(args)) => approve::obey(global, args),
        Command::Amend(Described(args)) => amend::obey(global, args),
        Command::Ask(Described(args)) => ask::obey(global, args),
        Command::Reject(Described(args)) => reject::obey(global, args),
        Command::Trust(Described(args)) => trust::obey(global, args),
        Command::Try(Described(args)) => try_check::obey(global, args),
        Command::SuggestChecks(Described(args)) => suggest_checks::obey(global, args),
        Command::Run(Described(args)) => run::obey(global, args),
        Command::Inbox(Described(args)) => inbox::obey(global, args),
        Command::Answer(Described(args)) => answer::obey(global, args),
        Command::Status(Described(args)) => status::obey(global, args),
        Command::Which(Described(args)) => which::obey(global, args),
        Command::Log(Described(args)) => log::obey(global, args),
        Command::Audit(Described(args)) => audit::obey(global, args),
        Command::Recheck(Described(args)) => recheck::obey(global, args),
        Command::Doctor(Described(args)) => doctor::obey(global, args),
        Command::Gc(Described(args)) => gc::obey(global, args),
        Command::Archive(Described(args)) => archive::obey(global, args),
        Command::Stop(Described(args)) => stop::obey(global, args),
        Command::Installation(Installation::Check(args)) => doctor::obey(global, args),
        Command::Completions(Described(args)) => completions::obey(args),
        Command::Man(Described(args)) => man::obey(Cli::command(), args),
        Command::Migrate(Described(args)) => migrate::obey(global, args),
        Command::Hook(Described(args)) => hook::obey(global, args),
        Command::HookLook(Described(args)) => hook_look::obey(global, args),
        #[cfg(feature = "cluster")]
        Command::Keeper(Described(args)) => keeper::obey(args),
        Command::Mcp(Described(args)) => mcp::obey(global, args),
        Command::Lsp(Described(args)) => lsp::obey(global, args),
        Command::Session(Described(args)) => session::obey(global, args),
        Command::Serve(Described(args)) => serve::obey(global, args),
        Command::Watch(Described(args)) => watch::obey(global, args),
        Command::Worker(Described(args)) => worker::obey(global, args),
        Command::Cluster(Described(args)) => cluster::obey(global, args),
        Command::Classify(Described(args)) => classify::obey(global, args),
        Command::Bench(Described(args)) => bench::obey(global, args),
        Command::Redact(Described(args)) => redact::obey(global, args),
        Command::AgentPortal(Described(args)) => agent_portal::obey(args),
        Command::OwnSession(Described(args)) => match own_session::obey(&args)? {},
        Command::BuiltinAgent(Described(args)) => builtin_agent::obey(args),
        Command::Fence(Described(args)) => fence::obey(args),
        Command::ItemMcp(Described(args)) => item_mcp::obey(args),
        Command::ScriptedAgent(Described(args)) => scripted_agent::obey(args),
    }
}

/// Reads how long a tool waits for a check: a time such as `90s`, or a number of seconds.
fn patience(text: &str) -> Result<Duration, String> {
    let time = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    match time.as_millis() {
        1_000..=3_600_000 => Ok(time),
        _ => Err("must be between 1s and 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_a_time_or_a_number_of_seconds() {
        let read = |text: &str| patience(text).ok().map(|time| time.as_millis());
        let texts = ["40", "3s", "1m 30s", "1500ms", "0", "2h", "3601", "soon", "-1"];
        let read = texts.map(read);
        let some = [40_000, 3_000, 90_000, 1_500].map(Some);
        assert_eq!(read, [some.as_slice(), &[None; 5]].concat().as_slice());
    }
}
