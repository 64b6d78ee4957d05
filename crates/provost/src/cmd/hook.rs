use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use provost_core::text::hook_protocol::{self, HookAnswer as Said, HookClient, HookOutput};
use provost_engine::session::stop_hook;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::Answer;
use crate::terminal;

/// Maximum size of the hook input, so that provost does not wait for a client that never stops writing.
const INPUT_MAX: u64 = 64 << 20;

/// Answer a client's stop hook: a session can stop when its plan is done
///
/// Reads the hook input from stdin and answers in the client's format. While steps are open, provost runs
/// their contracts and sends the agent back with the results. The plan is the one that PROVOST_PLAN names,
/// the one that the session made or took (`provost session take`), or the one of its worktree. `provost init`
/// installs the hook; docs/hooks.md describes each client.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost init --agent claude         install it
  echo '{\"session_id\":\"a\",\"cwd\":\".\"}' | provost hook claude
                                      call it as Claude Code does
  provost hook git-pre-push origin    refuse a push while the plan is not done")]
pub(crate) struct Args {
    /// Client that calls the hook
    #[arg(value_parser = PossibleValuesParser::new(HookClient::ALL.map(HookClient::word)))]
    client: String,
    /// Other arguments of the client; ignored
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Answers a client's stop hook, if the command line is one. This skips clap: parsing all commands is slow,
/// and some clients take the exit code of a usage error for a refusal.
pub(crate) fn alone() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != "hook" {
        return None;
    }
    let client = HookClient::named(words.next()?.to_str()?)?;
    if words.any(|word| word == "--help" || word == "-h") {
        return None;
    }
    let global = Global { dir: None, state: std::env::var_os("PROVOST_STATE").map(Into::into), json: false };
    Some(ExitCode::from(speak(&global, client)))
}

pub(crate) fn obey(global: &Global, args: Args) -> Answer {
    let _ = args.rest;
    let client = HookClient::named(&args.client)
        .ok_or_else(|| Failure::usage("unknown client", "`provost hook --help` lists the clients."))?;
    std::process::exit(i32::from(speak(global, client)))
}

/// Answers the client, even if provost fails or panics.
fn speak(global: &Global, client: HookClient) -> u8 {
    std::panic::set_hook(Box::new(|_| {}));
    let heard = catch_unwind(AssertUnwindSafe(|| answer(global, client)));
    let answer = match heard {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => broken(global, client, &whole(&failure)),
        Err(_) => broken(global, client, "the hook crashed"),
    };
    let HookOutput { stdout, stderr, exit_code } = hook_protocol::say(client, &answer);
    let _ = std::io::stderr().lock().write_all(stderr.as_bytes());
    let _ = terminal::print(&stdout);
    exit_code
}

fn answer(global: &Global, client: HookClient) -> Result<Said, Failure> {
    let mut input = String::new();
    let read = std::io::stdin().lock().take(INPUT_MAX).read_to_string(&mut input);
    read.map_err(|source| Failure::Io { what: "read the input of the hook".to_owned(), source })?;
    let asked = hook_protocol::read(client, &input)
        .map_err(|message| Failure::usage(message, "Agent clients call this command; see docs/hooks.md."))?;
    let named = std::env::var(stop_hook::PLAN).ok().filter(|name| !name.is_empty());
    let mut settings = global.settings(named.as_deref())?;
    settings.cwd = stop_hook::folder(&asked, &settings.cwd).to_owned();
    Ok(stop_hook::asked(settings, client, &asked)?)
}

/// Lets the session stop after a failure of the hook, because every client does so if its hook fails. The
/// plan stays unchanged.
fn broken(global: &Global, client: HookClient, why: &str) -> Said {
    terminal::talk(&format!("provost hook: {why}; the session may stop, and the plan is unchanged"));
    if let Ok(settings) = global.settings(None) {
        stop_hook::failed(&settings.state, client, why);
    }
    Said::LetGo { words: format!("the hook failed, and nothing was checked: {why}") }
}

fn whole(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(&format!(": {words}"));
        }
        cause = error.source();
    }
    text
}
