use std::path::Path;

use provost_engine::plan::plan_registry;
use provost_engine::plan::sessions::{ClientProcess, ClientSession, SessionRecord};
use provost_engine::session::agent_session::{AgentSessions, SessionRefusal};
use provost_engine::session::session_roster;
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// Say which plan a session of an agent's client works on
///
/// The stop hook holds a session only if the session made its plan or took it. A session takes a plan with
/// this command in its shell, or with the tool `plan_take`. docs/hooks.md describes it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost session take fix-auth       in the session: it is held until this plan is done
  provost session list                all sessions that have a plan here
  provost session release fix-auth    in your own terminal: the session may stop, the plan stays open")]
pub(super) struct Args {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(clap::Subcommand, Debug)]
enum Deed {
    /// Take a plan: this session is held at its stop until the plan is done
    ///
    /// For the agent, or for you in the shell of its client. provost knows the session by PROVOST_SESSION, by
    /// the client's own variable, or by the client's process if it runs `provost mcp`.
    #[command(
        after_help = "Examples:\n  provost session take\n  provost session take fix-auth --session main"
    )]
    Take {
        /// Name of the plan [default: the active plan]
        plan: Option<String>,
        /// Name of the session, if the client sends none
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
    },
    /// Release the sessions of a plan: they may stop, and the plan stays as it is
    ///
    /// Only a person can do this, in a terminal outside of the client.
    #[command(
        after_help = "Examples:\n  provost session release\n  provost session release fix-auth --session main"
    )]
    Release {
        /// Path or name of the plan [default: the active plan]
        plan: Option<String>,
        /// Only the session with this name
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
    },
    /// List the sessions that have a plan in this repository
    #[command(after_help = "Examples:\n  provost session list --json")]
    List,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    match args.deed {
        Deed::Take { plan, session } => take(global, plan.as_deref(), session.as_deref()),
        Deed::Release { plan, session } => release(global, plan.as_deref(), session.as_deref()),
        Deed::List => list(global),
    }
}

fn take(global: &Global, plan: Option<&str>, name: Option<&str>) -> Answer {
    let settings = global.settings(None)?;
    let session = ClientSession::of_command(&settings.environment, &settings.cwd);
    let session = match name {
        Some(name) => session.named(name),
        None => session,
    };
    let taken = match AgentSessions::open(settings)?.take(&session, plan) {
        Ok(taken) => taken,
        Err(SessionRefusal::Engine(error)) => return Err(error.into()),
        Err(refused) => {
            terminal::advise(&format!("not taken: {refused}"));
            return Ok(Outcome::Refused);
        }
    };
    if global.json {
        let (plan, stage) = (&taken.name, taken.run.stage.word());
        terminal::print_json(
            &json!({ "plan": plan, "path": taken.path, "stage": stage, "session": session.name }),
        )?;
    } else {
        terminal::advise(&format!(
            "this session has plan {} now ({}); when it stops, provost runs the checks that are due",
            taken.name,
            taken.run.stage.word()
        ));
    }
    Ok(Outcome::Done)
}

fn release(global: &Global, plan: Option<&str>, name: Option<&str>) -> Answer {
    let settings = global.settings(None)?;
    let place = plan_registry::resolve(plan, &settings.cwd)?;
    let is_meant = |bound: &SessionRecord| {
        bound.plan == place.path && name.is_none_or(|name| bound.name.as_deref() == Some(name))
    };
    let released: Vec<SessionRecord> = session_roster::list(&settings).into_iter().filter(is_meant).collect();
    for bound in &released {
        session_roster::release(&settings, bound)?;
    }
    if global.json {
        let released: Vec<Value> = released.iter().map(as_json).collect();
        terminal::print_json(&json!({ "plan": place.name, "released": released }))?;
    } else if released.is_empty() {
        terminal::talk(&format!("no session has plan {}; see `provost session list`", place.name));
    } else {
        terminal::advise(&format!(
            "released {} from plan {}; the plan is as it was (`provost status`)",
            if released.len() == 1 { "1 session".to_owned() } else { format!("{} sessions", released.len()) },
            place.name
        ));
    }
    Ok(Outcome::Done)
}

fn list(global: &Global) -> Answer {
    let all = session_roster::list(&global.settings(None)?);
    if global.json {
        terminal::print_json(&json!({ "sessions": all.iter().map(as_json).collect::<Vec<_>>() }))?;
        return Ok(Outcome::Done);
    }
    if all.is_empty() {
        terminal::talk("no session has a plan here; a session takes one with `provost session take`");
        return Ok(Outcome::Done);
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|bound| {
            let client = match bound.client {
                Some(client) if client.is_alive() => format!("process {}", client.pid),
                Some(_) => "ended".to_owned(),
                None => "-".to_owned(),
            };
            vec![plan_name(&bound.plan), bound.name.clone().unwrap_or_else(|| "-".to_owned()), client]
        })
        .collect();
    terminal::print(&table::lines(&["PLAN", "SESSION", "CLIENT"], &rows))?;
    Ok(Outcome::Done)
}

fn plan_name(path: &Path) -> String {
    match plan_registry::resolve(Some(&path.to_string_lossy()), path.parent().unwrap_or(path)) {
        Ok(place) => place.name,
        Err(_) => format!("{} (gone)", path.display()),
    }
}

fn as_json(bound: &SessionRecord) -> Value {
    json!({
        "plan": plan_name(&bound.plan),
        "path": bound.plan,
        "workspace": bound.workspace,
        "session": bound.name,
        "pid": bound.client.map(|client| client.pid),
        "alive": bound.client.map(ClientProcess::is_alive),
    })
}
