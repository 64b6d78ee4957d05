use provost_engine::manage::migrate::MoveDirection;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Move the log to a Postgres database, or back
///
/// Copies every event unchanged, with its hash. Events that the target already has are skipped, so you can
/// repeat the command after an interruption. Afterwards this state folder uses the new log. provost reads
/// the password from PGPASSWORD or from the file that PGPASSFILE names, never from the URL.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost migrate --to postgres://ada@db.example.org/provost     share the log with other machines
  provost migrate --back postgres://ada@db.example.org/provost   move it back into the state folder")]
#[group(required = true, multiple = false)]
pub(super) struct Args {
    /// Move the log from the state folder to the database with this address
    #[arg(long, value_name = "PLACE")]
    to: Option<String>,
    /// Move the log from this database to the state folder
    #[arg(long, alias = "from", value_name = "URL")]
    back: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let way = match (args.to, args.back) {
        (Some(url), _) => MoveDirection::To(url),
        (None, back) => MoveDirection::From(back.unwrap_or_default()),
    };
    let settings = global.settings(None)?;
    let mut next = 100_000;
    let moved = provost_engine::manage::migrate::migrate(&settings, &way, &mut |events| {
        if events >= next {
            terminal::talk(&format!("{events} events"));
            next += 100_000;
        }
    })?;
    if !moved.missing_roles.is_empty() {
        let create = |role: &String| format!("CREATE ROLE {role} NOLOGIN;");
        terminal::talk(&format!(
            "this login may not create the roles of the log, so only the owner can use it. An administrator \
             creates them:\n  {}\nThen run the same command again, which gives them their rights.",
            moved.missing_roles.iter().map(create).collect::<Vec<_>>().join(" ")
        ));
    }
    if global.json {
        let found = json!({
            "plans": moved.plans,
            "events": moved.events,
            "present": moved.present,
            "missing_roles": moved.missing_roles,
        });
        terminal::print(&format!("{found}\n"))?;
    } else {
        let (MoveDirection::To(url) | MoveDirection::From(url)) = &way;
        let place = if matches!(way, MoveDirection::To(_)) { url.as_str() } else { "the state folder" };
        terminal::print(&format!(
            "moved {} of {} ({} already there); the log is now {place}\n",
            terminal::count(moved.events, "event"),
            terminal::count(moved.plans, "plan"),
            moved.present
        ))?;
    }
    Ok(Outcome::Done)
}
