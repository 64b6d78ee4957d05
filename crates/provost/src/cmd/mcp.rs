use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, SessionRefusal};
use provost_server::stdio;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};

/// Serve plans to an agent's client over MCP, on standard input and output
///
/// Your agent's client starts this command. The agent creates a plan with a check for each step, works, and
/// claims each step; provost runs the check and answers with the verdict. Each client session has its own
/// plan, a file in `.harness/`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  claude mcp add provost -- provost mcp
  codex mcp add provost -- provost mcp
  provost mcp --plan fix-auth         the agent works on an existing plan")]
pub(super) struct Args {
    /// Path or name of the plan for all sessions
    #[arg(long, value_name = "PLAN")]
    plan: Option<String>,
    /// Name of the session, if the client sends none
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Answer after at most this time, even if a check still runs; a number is in seconds
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = super::patience)]
    patience: Duration,
    /// Require a person to approve the plans of these sessions
    #[arg(long, hide = true)]
    gated: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(args.plan.as_deref())?;
    let session = ClientSession::of_server(&settings.environment, &settings.cwd);
    let session = match &args.session {
        Some(name) => session.named(name),
        None => session,
    };
    let desk = AgentSessions::open(settings)?;
    let desk = Arc::new(if args.gated { desk.gated_by_person() } else { desk });
    // At a terminal there is no client; a person tries the command.
    if !std::io::stdin().is_terminal() {
        desk.arrive(&session).map_err(|refused| match refused {
            SessionRefusal::Engine(error) => Failure::from(error),
            other => Failure::usage(other.to_string(), "See docs/mcp.md."),
        })?;
    }
    let (at_the_end, who) = (desk.clone(), session.clone());
    let end = stdio::serve(desk, session, args.patience)
        .map_err(|source| Failure::Io { what: "serve on standard input and output".to_owned(), source })?;
    // After a signal the session stays registered: an agent must not pass for a person by killing its
    // client's server.
    if end == stdio::End::Input {
        at_the_end.depart(&who);
    }
    Ok(Outcome::Done)
}
